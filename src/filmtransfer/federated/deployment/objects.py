"""The objects into which Flower divides a message: what they may cost, and who their sender is.

Flower pulls all objects of a message and puts them together without limits: an array may repeat its parts without end,
the metadata inside a message may name another sender than the one that SuperLink has authenticated, and an error in any
of this ends the process. Here each message has a budget of bytes, before and after it is put together; one that exceeds
it, or that cannot be read, is answered by an error in its place.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from flwr.app import Array, Error, Message, Metadata, RecordDict
from flwr.app.message import make_message
from flwr.common.constant import ErrorCode
from flwr.proto.message_pb2 import ConfirmMessageReceivedRequest, ObjectTree
from flwr.proto.runtime_pb2 import PullAppMessagesRequest
from flwr.supercore.inflatable.inflatable_object import (
    get_object_body,
    get_object_head_values_from_object_content,
    iterate_object_tree,
)
from flwr.supercore.inflatable.inflatable_protobuf_utils import make_pull_object_fn_protobuf
from flwr.supercore.inflatable.inflatable_utils import (
    ObjectPullError,
    inflate_object_from_contents,
    pull_objects,
)

from ...budgets import MAX_ARRAYS, MAX_MESSAGE_BYTES, MAX_OBJECTS, MAX_RECORDS, MAX_SETTINGS_BYTES
from ...errors import InputError
from ...formatting import file_size

if TYPE_CHECKING:
    from flwr.superlink.grid.http_grid import HttpGrid  # slow to import, and a client does not need it

Pull = Callable[[str], bytes]


def read_message(tree: ObjectTree, pull: Pull, limit: int = MAX_MESSAGE_BYTES) -> Message:
    """Pull the objects of a message and put it together; raise an InputError if it is too large or malformed."""
    ids = list(dict.fromkeys(node.object_id for node in iterate_object_tree(tree)))
    contents = pull_within_budget(ids, pull, limit)
    try:
        check_parts(contents)
        if (size := _expanded_size(contents)) > limit:
            raise _too_large(size, limit)
        message = inflate_object_from_contents(tree.object_id, contents)
        valid = isinstance(message, Message) and (
            message.has_error() or isinstance(message.content, RecordDict)
        )
    except InputError:
        raise
    except Exception as error:  # whatever Flower raises for objects that are none of its own
        raise InputError(f"its message cannot be read ({type(error).__name__}).") from None
    if not valid:
        raise InputError("its message cannot be read.")
    assert isinstance(message, Message)
    return message


def pull_within_budget(
    ids: list[str], pull_object_fn: Pull, limit: int = MAX_MESSAGE_BYTES
) -> dict[str, bytes]:
    """Pull the objects of a message as Flower does; raise an InputError for too many, or too many bytes."""
    if len(ids) > MAX_OBJECTS:
        raise InputError(f"its message has {len(ids)} objects; at most {MAX_OBJECTS} are read.")
    return pull_objects(ids, _charged(pull_object_fn, limit))


def _charged(pull: Pull, limit: int) -> Pull:
    """Return what pulls objects until they have more bytes than a message may have; threads share it."""
    lock, received = threading.Lock(), [0]

    def charged(object_id: str) -> bytes:
        content = pull(object_id)
        with lock:
            received[0] += len(content)
            if received[0] > limit:
                raise _too_large(received[0], limit)
        return content

    return charged


def check_parts(contents: dict[str, bytes]) -> None:
    """Raise an error for more records or arrays than a message has, or for settings that would be large in memory."""
    kinds = [
        (get_object_head_values_from_object_content(content)[0], len(content))
        for content in contents.values()
    ]
    records = sum(kind.endswith("Record") for kind, _ in kinds)
    arrays = sum(kind == "Array" for kind, _ in kinds)
    if records > MAX_RECORDS or arrays > MAX_ARRAYS:
        raise InputError(
            f"its message has {records} records with {arrays} arrays; at most {MAX_RECORDS} with {MAX_ARRAYS} are read."
        )
    settings = sum(size for kind, size in kinds if kind in ("ConfigRecord", "MetricRecord"))
    if settings > MAX_SETTINGS_BYTES:
        raise InputError(
            f"its message has settings of {file_size(settings)}; at most {file_size(MAX_SETTINGS_BYTES)} are read."
        )


def _expanded_size(contents: dict[str, bytes]) -> int:
    """Return the bytes of all arrays once they are put together: each lists its parts, which may be repeated."""
    total = 0
    for content in contents.values():
        kind, children, _ = get_object_head_values_from_object_content(content)
        if kind == "Array":
            parts = json.loads(get_object_body(content, Array))["arraychunk_ids"]
            sizes = [len(contents[child]) for child in children]
            total += sum(sizes[part] for part in parts)
    return total


def _too_large(size: int, limit: int) -> InputError:
    return InputError(f"its message has more than {file_size(limit)} (at least {file_size(size)}).")


def pull_messages(grid: HttpGrid, message_ids: Iterable[str]) -> list[Message]:
    """Return the replies to messages that have arrived; one that cannot be read is an error of its sender."""
    client, run = grid._runtime_client, grid.run.run_id
    response = client.PullMessages(PullAppMessagesRequest(message_ids=message_ids))
    pull = make_pull_object_fn_protobuf(client.PullObject, grid.node, run)
    result = []
    for header, tree in zip(response.messages_list, response.message_object_trees, strict=True):
        sender, request = header.metadata.src_node_id, header.metadata.reply_to_message_id
        try:
            message = read_message(tree, pull)
            # What the message itself says about them was written by its sender.
            message.metadata.__dict__.update(_src_node_id=sender, _reply_to_message_id=request)
        except ObjectPullError as error:
            message = _failure(run, sender, request, ErrorCode.MESSAGE_UNAVAILABLE, str(error))
        except InputError as error:
            message = _failure(run, sender, request, ErrorCode.UNKNOWN, str(error))
        client.ConfirmMessageReceived(
            ConfirmMessageReceivedRequest(
                node=grid.node, run_id=run, message_object_id=header.metadata.message_id
            )
        )
        message.metadata.__dict__["_message_id"] = header.metadata.message_id
        result.append(message)
    return result


def _failure(run: int, sender: int, request: str, code: int, reason: str) -> Message:
    metadata = Metadata(
        run_id=run, message_id="", src_node_id=sender, dst_node_id=sender, reply_to_message_id=request,
        group_id="", created_at=0.0, ttl=0.0, message_type="system",
    )  # fmt: skip
    return make_message(metadata=metadata, error=Error(code=code, reason=reason))


def pull_and_read(tree: ObjectTree, pull: Pull, confirm: Callable[[str], None], **_: object) -> Message:
    """Return the message of a client's task."""
    message = read_message(tree, pull)
    confirm(tree.object_id)
    return message
