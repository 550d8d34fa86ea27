"""Arrays and tensors as images: every clear form gives the same pixels, all others are refused with the conversion."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch

from filmtransfer.data.array_images import ArrayConverter, UnsupportedImageError, is_array
from filmtransfer.data.pixels import MIN_SIDE

PIXELS = np.random.default_rng(0).integers(0, 256, (12, 9, 3), np.uint8)
PIXELS[0, 0] = 255
CHANNELS_FIRST = PIXELS.transpose(2, 0, 1)
UNIT = CHANNELS_FIRST.astype(np.float32) / 255  # what torchvision's ToTensor gives


def convert(array) -> np.ndarray:
    return ArrayConverter().image(array, "image 0")


@pytest.mark.parametrize(
    "array",
    [
        PIXELS,
        PIXELS.astype(np.int64),
        PIXELS.astype(np.uint16),
        PIXELS.astype(np.float32),
        PIXELS.astype(np.float16),
        PIXELS / 255,
        CHANNELS_FIRST,
        UNIT,
        UNIT.astype(np.float16),
        torch.from_numpy(PIXELS),
        torch.from_numpy(UNIT),
        torch.from_numpy(UNIT).requires_grad_(),
        torch.from_numpy(UNIT).double().mul(255),
    ],
    ids=lambda array: f"{type(array).__name__} {array.dtype} {tuple(array.shape)}",
)
def test_every_clear_form_gives_the_same_pixels(array):
    image = convert(array)
    assert image.dtype == np.uint8
    np.testing.assert_array_equal(image, PIXELS)


def test_half_precision_of_torch_has_the_nearest_pixels():
    image = convert(torch.from_numpy(UNIT).bfloat16())
    assert np.abs(image.astype(int) - PIXELS).max() <= 1


def test_uint8_images_are_not_copied():
    assert np.shares_memory(convert(PIXELS), PIXELS)
    assert np.shares_memory(convert(CHANNELS_FIRST), PIXELS)


def test_grey_images_masks_and_transparency():
    grey = PIXELS[:, :, 0]
    for form in (grey, grey[:, :, None], grey[None], torch.from_numpy(grey / 255)[None]):
        np.testing.assert_array_equal(convert(form).squeeze(), grey)
    assert np.unique(convert(grey > 100)).tolist() == [0, 255]
    assert convert(np.zeros((4, 12, 9), np.float32)).shape == (12, 9, 4)


@pytest.mark.parametrize("side", [MIN_SIDE, 5])
def test_a_narrow_image_has_only_one_possible_layout(side):
    assert convert(np.zeros((side, 9, 3), np.uint8)).shape == (side, 9, 3)
    assert convert(np.zeros((3, 9, side), np.uint8)).shape == (9, side, 3)


def test_interpolation_may_overshoot_a_little():
    image = UNIT.copy()
    image[0, 0, 0], image[0, 0, 1] = 1.005, -0.005
    assert convert(image)[0, 0, 0] == 255
    assert convert(image)[0, 1, 0] == 0


def test_a_batch_has_one_range():
    batch = np.stack([np.full((8, 8, 3), level, np.float32) for level in (0.5, 200)])
    assert [int(image.max()) for image in ArrayConverter().batch(batch)] == [0, 200], "0.5 of 255 is dark"
    batch = torch.stack([torch.full((3, 8, 8), level) for level in (0.5, 1.0)])
    assert [int(image.max()) for image in ArrayConverter().batch(batch)] == [128, 255]


@pytest.mark.parametrize("order", [1, -1])
def test_a_list_has_one_range_too(order):
    arrays = [np.full((8, 8, 3), level, np.float32) for level in (0.5, 200)][::order]
    converter = ArrayConverter()
    converter.image(np.zeros((8, 8), np.float32), "image 0")  # black in both ranges
    converter.image(arrays[0], "image 1")
    with pytest.raises(UnsupportedImageError, match=r"Image 2 is float32 .* but image 1 is in 0…") as error:
        converter.image(arrays[1], "image 2")
    assert "one range" in error.value.hint


FLAT = np.full((8, 8, 3), 0.5)


@pytest.mark.parametrize(
    ("array", "says", "hint"),
    [
        (
            FLAT * np.nan,
            "float64 of shape (8, 8, 3) with 192 values that are NaN",
            "replace these values by 0",
        ),
        (FLAT * np.inf, "infinite", "replace"),
        (FLAT - 3, "values from -2.5 to -2.5: it looks normalised", "std and mean of shape (3,)"),
        ((FLAT - 3).transpose(2, 0, 1), "looks normalised", "std and mean of shape (3, 1, 1)"),
        (FLAT - 1, "looks normalised", "(image + 1) / 2"),
        (FLAT * 6, "values from 3 to 3, which are neither 0…1 nor 0…255", "image.clip(0, 1)"),
        (FLAT * 1000, "neither 0…1 nor 0…255", "image / 65535"),
        ((FLAT * 2000).astype(np.uint16), "uint16 of shape", "image / 65535"),
        ((FLAT * 2).astype(np.int64), "values from 1 to 1", "image * 255"),
        ((FLAT - 9).astype(np.int8), "not negative", "uint8"),
        (FLAT.astype(object), "dtype object", "list of arrays"),
        (FLAT.astype(complex), "dtype complex128", "numbers"),
        (FLAT[:0], "it is empty", "Remove"),
        (np.zeros((8, 8, 2), np.uint8), "(8, 8, 2), which is no image", "(H, W, 3)"),
        (np.zeros((2, 8, 8, 3), np.uint8), "no image", "(H, W, 3)"),
        (np.zeros((3, 8, 3), np.uint8), "channels first or last", "transpose(1, 2, 0)"),
        (np.zeros((4, 8, 4), np.uint8), "channels first or last", "transpose(1, 2, 0)"),
    ],
)
def test_everything_else_is_refused_with_the_conversion(array, says, hint):
    with pytest.raises(UnsupportedImageError, match=re.escape(says)) as error:
        convert(array)
    assert error.value.message.startswith("Image 0 is ")
    assert hint in error.value.hint


def test_the_conversions_in_the_messages_work():
    mean, std = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
    normalised = (PIXELS / 255 - mean) / std
    np.testing.assert_array_equal(convert(normalised * std + mean), PIXELS)
    mean, std = (torch.tensor(values).reshape(3, 1, 1) for values in (mean, std))
    normalised = (torch.from_numpy(UNIT) - mean) / std
    np.testing.assert_array_equal(convert(normalised * std + mean), PIXELS)
    wide = PIXELS.astype(np.uint16) * 257
    np.testing.assert_array_equal(convert(wide / 65535), PIXELS)
    np.testing.assert_array_equal(convert(torch.from_numpy(PIXELS.astype(np.float32)) / 255), PIXELS)
    np.testing.assert_array_equal(convert((UNIT * 2 - 1 + 1) / 2), PIXELS)
    mask = (PIXELS[..., 0] > 100).astype(np.int64)
    np.testing.assert_array_equal(convert(mask * 255), convert(mask.astype(bool)))


def test_what_an_array_is():
    assert is_array(PIXELS)
    assert is_array(torch.zeros(3))
    assert not any(is_array(other) for other in ([1], "text", b"bytes", None, 7))
