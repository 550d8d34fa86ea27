"""Weights from packages and files: recorded logits of photographs, damaged files and missing weights."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from filmtransfer.backbones import BackboneRecord, build, digest, load_backbone, record_for
from filmtransfer.backbones.weights import load_state, package_file
from filmtransfer.data import PixelSpec, decode, to_square
from filmtransfer.errors import UnavailableError, UpdateFileError, UsageError
from filmtransfer.model.tensors import normalise

RECORDED = Path(__file__).with_name("recorded_logits.json")


def photographs() -> dict[str, Image.Image]:
    """Return photographs included in scikit-image, scikit-learn and matplotlib."""
    import matplotlib.cbook
    import skimage.data
    from sklearn.datasets import load_sample_image

    hopper = matplotlib.cbook.get_sample_data("grace_hopper.jpg", asfileobj=False)
    return {
        "chelsea": Image.fromarray(skimage.data.chelsea()),
        "coffee": Image.fromarray(skimage.data.coffee()),
        "rocket": Image.fromarray(skimage.data.rocket()),
        "hopper": decode(hopper),
        "flower": Image.fromarray(load_sample_image("flower.jpg")),
    }


# ImageNet-1k class indices of which one has to be among the three most probable classes.
ACCEPTED = {
    "chelsea": {281, 282, 285},  # tabby, tiger cat, Egyptian cat
    "coffee": {504, 967, 968},  # coffee mug, espresso, cup
    "rocket": {657, 744, 812},  # missile, projectile, space shuttle
    "hopper": {457, 652, 906},  # bow tie, military uniform, Windsor tie
}


def logits_of(name: str, *, spec: PixelSpec | None = None, architecture: str = "") -> dict[str, np.ndarray]:
    """Return the logits of the 1000 ImageNet classes: our loading, and the publishers' last layer."""
    record = record_for(name)
    raw = torch.load(package_file(record), map_location="cpu", weights_only=True)
    model = build(BackboneRecord(architecture, architecture, "") if architecture else record)
    load_state(model, raw, "package")
    spec = spec or PixelSpec(**{**vars(load_backbone(name).pixels), "fit": "crop"})
    batch = torch.from_numpy(np.stack([to_square(image, spec) for image in photographs().values()]))
    with torch.no_grad():
        features = model(normalise(batch, spec))
    logits = features @ raw["_fc.weight"].T + raw["_fc.bias"]
    return dict(zip(photographs(), logits.numpy(), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["efficientnet_lite0", "efficientnet_lite1", "efficientnet_lite2"])
def test_the_published_weights_classify_real_photographs(name):
    computed = logits_of(name)
    recorded = json.loads(RECORDED.read_text())[name]
    for photo, logits in computed.items():
        expected = recorded[photo]
        assert int(logits.argmax()) == expected["top"][0], photo
        np.testing.assert_allclose(logits[expected["top"]], expected["logits"], atol=2e-3, err_msg=photo)
        if photo in ACCEPTED:
            assert ACCEPTED[photo] & set(logits.argsort()[::-1][:3].tolist()), photo


@pytest.mark.slow
def test_wrong_padding_or_normalisation_changes_the_logits():
    """The recorded logits would be no test if wrongly loaded weights passed it."""
    right = logits_of("efficientnet_lite0")
    top = {photo: logits.max() for photo, logits in right.items()}
    spec = PixelSpec(**{**vars(load_backbone("efficientnet_lite0").pixels), "fit": "crop"})
    imagenet = PixelSpec(**{**vars(spec), "mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)})
    for wrong in (
        logits_of("efficientnet_lite0", spec=imagenet),
        logits_of("efficientnet_lite0", architecture="efficientnet_lite0"),  # symmetric padding, other ε
    ):
        differences = [abs(wrong[p][right[p].argmax()] - top[p]) for p in right]
        assert sorted(differences)[1] > 0.3, "far above the tolerance on all photos but one"


def make_bit_npz(path: Path, model: torch.nn.Module) -> None:
    """Write weights in BiT's published format: the names and axis order of its .npz files."""
    arrays: dict[str, np.ndarray] = {}

    def kernel(name: str, weight: torch.Tensor) -> None:
        arrays[f"resnet/{name}/standardized_conv2d/kernel"] = weight.permute(2, 3, 1, 0).numpy()

    def norm(name: str, module: torch.nn.Module) -> None:
        arrays[f"resnet/{name}/gamma"] = module.weight.numpy()
        arrays[f"resnet/{name}/beta"] = module.bias.numpy()

    kernel("root_block", model.stem.conv.weight)
    norm("group_norm", model.norm)
    arrays["resnet/head/conv2d/kernel"] = np.zeros((1, 1, 2048, 3), np.float32)
    arrays["resnet/head/conv2d/bias"] = np.zeros(3, np.float32)
    for i, stage in enumerate(model.stages, 1):
        for j, block in enumerate(stage.blocks, 1):
            unit = f"block{i}/unit{j:02d}"
            for part, number in (("a", 1), ("b", 2), ("c", 3)):
                kernel(f"{unit}/{part}", getattr(block, f"conv{number}").weight)
                norm(f"{unit}/{part}/group_norm", getattr(block, f"norm{number}"))
            if block.downsample is not None:
                kernel(f"{unit}/a/proj", block.downsample.conv.weight)
    np.savez(path, **arrays)


@pytest.fixture(scope="module")
def bit() -> torch.nn.Module:
    torch.manual_seed(3)
    model = build(record_for("bit_m_r50x1")).requires_grad_(False)
    torch.nn.init.normal_(model.norm.weight, 1.0, 0.2)  # so that a missing last norm is noticed
    torch.nn.init.normal_(model.norm.bias)
    return model


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["npz", "safetensors", "pth"])
def test_a_weights_file_is_loaded_completely(kind, bit, tmp_path):
    file = tmp_path / f"bit.{kind}"
    if kind == "npz":
        make_bit_npz(file, bit)
    elif kind == "safetensors":
        save_file({k: v.contiguous() for k, v in bit.state_dict().items()}, file)
    else:
        torch.save({"state_dict": {f"module.{k}": v for k, v in bit.state_dict().items()}}, file)
    loaded = load_backbone("bit_m_r50x1", file)
    assert loaded.digest == digest(bit), "all tensors, including the last GroupNorm"
    released = load_backbone("bit_m_r50x1_released", file)
    assert torch.equal(released.module.norm.weight, torch.ones(2048))
    assert released.digest != loaded.digest


@pytest.mark.slow
def test_damaged_or_other_weights_are_rejected(bit, tmp_path):
    file = tmp_path / "bit.safetensors"
    state = {k: v.contiguous() for k, v in bit.state_dict().items()}
    save_file({k: v for k, v in state.items() if k != "norm.weight"}, file)
    with pytest.raises(UpdateFileError, match="1 tensors missing"):
        load_backbone("bit_m_r50x1", file)
    with pytest.raises(UpdateFileError, match="does not contain the weights of this backbone"):
        load_backbone("resnet18", file)
    save_file(state | {"norm.bias": torch.full((2048,), float("nan"))}, file)
    with pytest.raises(UpdateFileError, match="non-finite"):
        load_backbone("bit_m_r50x1", file)
    file.write_bytes(file.read_bytes()[:1000])
    with pytest.raises(UpdateFileError, match="not a complete safetensors file"):
        load_backbone("bit_m_r50x1", file)
    (tmp_path / "x.pth").write_bytes(b"nothing")
    with pytest.raises(UpdateFileError, match=r"cannot be read|more than plain weights"):
        load_backbone("resnet18", tmp_path / "x.pth")
    (tmp_path / "x.npz").write_bytes(b"nothing")
    with pytest.raises(UpdateFileError):
        load_backbone("bit_m_r50x1", tmp_path / "x.npz")
    with pytest.raises(UpdateFileError, match="no weights file"):
        load_backbone("resnet18", tmp_path / "none.pth")
    (tmp_path / "x.h5").write_bytes(b"x")
    with pytest.raises(UsageError, match=r"\.safetensors"):
        load_backbone("resnet18", tmp_path / "x.h5")


class Bomb:
    def __reduce__(self):
        import os

        return os.system, ("echo a weights file ran code >&2; exit 1",)


def test_a_weights_file_never_runs_code(tmp_path):
    file = tmp_path / "bomb.pth"
    torch.save({"weight": Bomb()}, file)
    with pytest.raises(UpdateFileError, match="more than plain weights"):
        load_backbone("resnet18", file)


def test_weights_that_need_the_network_are_an_immediate_error(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(UnavailableError, match="HF_HUB_OFFLINE") as error:
        load_backbone("bit_m_r50x1")
    assert "--weights FILE" in error.value.hint
    assert "efficientnet_lite0" in error.value.hint
    assert error.value.exit_code == 5
    monkeypatch.delenv("HF_HUB_OFFLINE")
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")  # loopback, nobody listens
    with pytest.raises(UnavailableError, match="cannot be reached"):
        load_backbone("bit_m_r50x1")
