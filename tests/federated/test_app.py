"""A deployed client: its folders of training and test images."""

from __future__ import annotations

import pytest

from filmtransfer.data import LabelledImages
from filmtransfer.errors import InputError
from filmtransfer.federated.app import _open_client, read_examples
from tests.federated.tiny import PLAN, population


@pytest.mark.parametrize(
    ("test_classes", "images"), [(("bars", "disc"), 6), (("disc", "other"), 3), (("other", "third"), 0)]
)
def test_test_images_need_not_be_of_every_class(test_classes, images, photo_folder):
    data = photo_folder(classes=("bars", "disc"), shots=2)
    test = photo_folder(classes=test_classes, shots=3, name="test")
    client = _open_client("anna", str(data), str(test), "", "", PLAN)
    assert client.describe()["tests"] == images
    if images:
        assert client.test is not None
        assert client.test.classes == ["bars", "disc"]
        assert set(client.test.labels.tolist()) == ({0, 1} if images == 6 else {1})


def test_training_images_of_every_class_must_be_readable(photo_folder):
    root = photo_folder(classes=("bars", "disc"), shots=2)
    for file in (root / "disc").iterdir():
        file.write_bytes(b"not an image")
    images, model = LabelledImages.from_folder(root), population().model
    with pytest.raises(InputError, match="No image of disc can be read"):
        read_examples(images, model)
    assert set(read_examples(images, model, every_class=False).labels.tolist()) == {0}
