"""The objects of a message: bombs, forgeries and malformed objects cost at most the budget, and end nothing."""

from __future__ import annotations

import hashlib
import json
from types import SimpleNamespace

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.proto.message_pb2 import ObjectTree
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_tree

from filmtransfer.errors import InputError
from filmtransfer.federated.deployment.objects import pull_messages, read_message

LIMIT = 1 << 20


def message(size: int = 1000) -> Message:
    content = RecordDict({
        "arrays": ArrayRecord({"psi": Array(np.arange(size, dtype=np.float64))}),
        "about": ConfigRecord({"name": "anna"}),
    })  # fmt: skip
    return Message(content, dst_node_id=1, message_type="train.round")


def objects(sent: Message) -> tuple[ObjectTree, dict[str, bytes]]:
    return get_object_tree(sent), {key: part.deflate() for key, part in get_all_nested_objects(sent).items()}


def replaced(tree: ObjectTree, contents: dict[str, bytes], kind: str, change) -> tuple[ObjectTree, dict]:
    """Change the body of the objects of a kind, as a client could: with new ids up to the root."""
    renamed: dict[str, str] = {}
    result: dict[str, bytes] = {}
    for key, content in contents.items():  # children come before their parents
        head, _, body = content.partition(b"\x00")
        for before, after in renamed.items():
            head, body = (
                head.replace(before.encode(), after.encode()),
                body.replace(before.encode(), after.encode()),
            )
        name, children, _ = head.split(b" ")
        if name.decode() == kind:
            body = change(body)
        new = b"%s %s %d\x00%s" % (name, children, len(body), body)
        renamed[key] = hashlib.sha256(new).hexdigest()
        result[renamed[key]] = new
    text = tree.SerializeToString()
    for before, after in renamed.items():
        text = text.replace(before.encode(), after.encode())
    return ObjectTree.FromString(text), result


def test_a_message_is_put_together_as_it_was():
    sent = message()
    tree, contents = objects(sent)
    received = read_message(tree, contents.__getitem__, LIMIT)
    assert received.object_id == sent.object_id
    assert np.array_equal(received.content["arrays"]["psi"].numpy(), np.arange(1000))


def test_a_message_above_the_budget_is_not_pulled_completely():
    tree, contents = objects(message(30 * LIMIT // 8))
    pulled: list[int] = []

    def pull(key: str) -> bytes:
        pulled.append(len(contents[key]))
        return contents[key]

    with pytest.raises(InputError, match=r"more than 1\.0 MB"):
        read_message(tree, pull, LIMIT)
    assert sum(pulled) < sum(map(len, contents.values()))


def test_an_array_that_repeats_its_parts_is_refused_before_it_is_expanded():
    def repeat(body: bytes) -> bytes:
        return json.dumps(json.loads(body) | {"arraychunk_ids": [0] * 100_000}).encode()

    tree, contents = replaced(*objects(message()), "Array", repeat)
    with pytest.raises(InputError, match=r"has more than 1\.0 MB"):
        read_message(tree, contents.__getitem__, LIMIT)


@pytest.mark.parametrize("kind", ["Array", "ArrayRecord", "ConfigRecord", "RecordDict", "Message"])
@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b"\xff\xfe", b"[" * 100_000, b'{"arraychunk_ids": [7]}'])
def test_a_malformed_object_is_an_input_error(kind, body):
    tree, contents = replaced(*objects(message()), kind, lambda _: body)
    if not body and kind == "ConfigRecord":  # valid: nothing is in it
        assert "name" not in read_message(tree, contents.__getitem__, LIMIT).content["about"]
        return
    with pytest.raises(InputError, match="its message cannot be read"):
        read_message(tree, contents.__getitem__, LIMIT)


def test_too_many_objects_are_refused_before_any_is_pulled():
    tree = ObjectTree(object_id="0" * 64, children=[ObjectTree(object_id=f"{i:064x}") for i in range(1, 400)])
    with pytest.raises(InputError, match="400 objects; at most 256"):
        read_message(tree, lambda key: pytest.fail(f"{key} is pulled"))


def settings(*values: object) -> RecordDict:
    return RecordDict({f"r{i}": ConfigRecord({"x": value}) for i, value in enumerate(values)})


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (settings(*([1] * 300 + [i] for i in range(4))), "settings of 1 KB; at most 1 KB"),
        (settings(*range(33)), "33 records with 0 arrays"),
        (
            RecordDict({"arrays": ArrayRecord({str(i): Array(np.ones(i)) for i in range(17)})}),
            "1 records with 17 arrays",
        ),
    ],
    ids=["settings", "records", "arrays"],
)  # fmt: skip
def test_settings_and_parts_beyond_the_budget_are_refused_before_they_are_read(content, reason, monkeypatch):
    """A byte of settings takes up to 28 bytes of memory."""
    monkeypatch.setattr("filmtransfer.federated.deployment.objects.MAX_SETTINGS_BYTES", 1000)
    monkeypatch.setattr("filmtransfer.federated.deployment.objects.inflate_object_from_contents", pytest.fail)
    tree, contents = objects(Message(content, dst_node_id=1, message_type="train.round"))
    with pytest.raises(InputError, match=reason):
        read_message(tree, contents.__getitem__)


def test_a_reply_counts_for_the_node_that_superlink_has_authenticated():
    """The metadata inside a reply name another client; one that is malformed is an error of its sender alone."""
    forged, broken = message(), message(5)
    forged.metadata.__dict__.update(_src_node_id=3, _reply_to_message_id="")
    sent = {2: objects(forged), 4: replaced(*objects(broken), "ArrayRecord", lambda _: b"[")}
    contents = {key: value for _, found in sent.values() for key, value in found.items()}
    headers = [
        SimpleNamespace(
            metadata=SimpleNamespace(
                src_node_id=node, reply_to_message_id=f"request-{node}", message_id=tree.object_id
            )
        )
        for node, (tree, _) in sent.items()
    ]
    confirmed: list[str] = []
    client = SimpleNamespace(
        PullMessages=lambda _: SimpleNamespace(
            messages_list=headers, message_object_trees=[tree for tree, _ in sent.values()]
        ),
        PullObject=lambda request: SimpleNamespace(
            object_found=True, object_available=True, object_content=contents[request.object_id]
        ),
        ConfirmMessageReceived=lambda request: confirmed.append(request.message_object_id),
    )
    grid = SimpleNamespace(_runtime_client=client, run=SimpleNamespace(run_id=1), node=None)
    first, second = pull_messages(grid, ["request-2", "request-4"])
    assert (first.metadata.src_node_id, first.metadata.reply_to_message_id) == (2, "request-2")
    assert second.has_error()
    assert "cannot be read" in second.error.reason
    assert second.metadata.reply_to_message_id == "request-4"
    assert len(confirmed) == 2
