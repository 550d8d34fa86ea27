"""A deployed client: its folders of training and test images."""

from __future__ import annotations

import pytest
from flwr.app import Context, Message, RecordDict

from filmtransfer.data import LabelledImages
from filmtransfer.errors import InputError
from filmtransfer.federated import messages
from filmtransfer.federated.app import _open_client, make_client_app, read_examples
from filmtransfer.federated.records import LOG_FILE
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


@pytest.mark.parametrize("error", [InputError("secret.jpg cannot be read."), KeyError("secret.jpg")])
def test_no_file_name_leaves_a_client_whose_images_cannot_be_read(error, tmp_path):
    def client_for(*_):
        raise error

    app = make_client_app(client_for)
    context = Context(1, 1, {"name": "anna", "state": str(tmp_path)}, RecordDict(), {})
    sent = Message(messages.make_request(PLAN), dst_node_id=1, message_type=messages.DESCRIBE)
    if isinstance(error, KeyError):  # Flower sends the text of an error
        with pytest.raises(RuntimeError) as raised:
            app(sent, context)
        assert str(raised.value) == messages.UNSPECIFIED
        return
    assert messages.read_refusal(app(sent, context).content) == messages.UNSPECIFIED
    assert "secret.jpg" in (tmp_path / LOG_FILE).read_text()


def test_training_images_of_every_class_must_be_readable(photo_folder):
    root = photo_folder(classes=("bars", "disc"), shots=2)
    for file in (root / "disc").iterdir():
        file.write_bytes(b"not an image")
    images, model = LabelledImages.from_folder(root), population().model
    with pytest.raises(InputError, match="No image of disc can be read"):
        read_examples(images, model)
    assert set(read_examples(images, model, every_class=False).labels.tolist()) == {0}
