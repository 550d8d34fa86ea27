"""Messages: what is read of them, and what is refused before it is expanded."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord, RecordDict

from filmtransfer.errors import FitError, InputError
from filmtransfer.federated import messages
from filmtransfer.federated.client import Client
from tests.federated.tiny import ALL, make_server, population


@pytest.mark.parametrize("dtype", messages.ARRAY_TYPES)
@pytest.mark.parametrize("shape", [(), (0,), (7,), (3, 4), (2, 0)])
def test_an_array_is_read_as_it_was_written(dtype, shape):
    array = np.arange(int(np.prod(shape))).reshape(shape).astype(dtype)
    read = messages.read_array(Array(array))
    assert read.dtype == array.dtype
    assert np.array_equal(read, array)
    assert read.flags.writeable


def archive() -> bytes:
    """A compressed archive of 80 MB in some KB, which numpy.load would open."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, psi=np.zeros(10_000_000))
    return buffer.getvalue()


def header(descr: str, shape: str, values: bytes = b"", order: str = "False") -> bytes:
    text = f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + values


BAD_ARRAYS = {
    "archive": archive(),
    "huge": header("'<f4'", "(9999999999,)", b"1234"),
    "objects": header("'|O'", "(1,)", b"12345678"),
    "structured": header("[('a', '<f4')]", "(1,)", b"1234"),
    "text": header("'<U1'", "(1,)", b"1234"),
    "code": header("__import__('os').abort()", "(1,)", b"1234"),
    "nested": header("'<f4'", "(" * 9000, b"1234"),
    "negative": header("'<f4'", "(-1,)", b""),
    "columns": header("'<f4'", "(1, 1)", b"1234", "True"),
    "short": header("'<f4'", "(2,)", b"1234"),
    "long": header("'<f4'", "(1,)", b"12345678"),
    "version": b"\x93NUMPY\x02\x00" + header("'<f4'", "(1,)", b"1234")[8:],
    "pickle": b"\x80\x04K\x01.",
    "empty": b"",
}


@pytest.mark.parametrize("name", BAD_ARRAYS)
def test_an_array_that_is_not_plain_numbers_is_refused(name):
    record = ArrayRecord({"psi": Array("float32", (1,), "numpy.ndarray", BAD_ARRAYS[name])})
    with pytest.raises(InputError, match="an array of its message"):
        messages.read_arrays(RecordDict({"arrays": record}))


def small(**changes) -> Array:
    whole = Array(np.zeros(3, np.float32))
    fields = {"dtype": "float32", "shape": (3,), "stype": whole.stype, "data": whole.data} | changes
    return Array(fields["dtype"], fields["shape"], fields["stype"], fields["data"])


BAD_MESSAGES = {
    "arrays": RecordDict({"arrays": ArrayRecord({str(i): small() for i in range(17)})}),
    "records": RecordDict({str(i): ConfigRecord({"a": 1}) for i in range(33)}),
    "name of a record": RecordDict({"a" * 1_000_000: ConfigRecord({"a": 1})}),
    "name of an array": RecordDict({"arrays": ArrayRecord({"a" * 1_000_000: small()})}),
    "name of a metric": RecordDict({"metrics": MetricRecord({"a" * 1_000_000: 1.0})}),
    "type": RecordDict({"arrays": ArrayRecord({"psi": small(stype="torch")})}),
    "declared shape": RecordDict({"arrays": ArrayRecord({"psi": small(shape=(10**18, 10**18))})}),
    **{f"array: {k}": RecordDict({"arrays": ArrayRecord({"psi": small(data=v)})}) for k, v in BAD_ARRAYS.items()},
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_MESSAGES)
def test_a_message_beyond_the_budget_is_refused(name):
    with pytest.raises(InputError, match="its message"):
        messages.check_content(BAD_MESSAGES[name])


@pytest.mark.slow(seconds=6)
def test_malicious_replies_are_refused_by_name_and_the_round_continues():
    """One client sends every malicious reply to a request to train, and to one for its statistics."""
    clients = population(ALL)
    honest = {"about": ConfigRecord({"name": "client-2"}), "metrics": MetricRecord({"num-examples": 9})}
    update = ArrayRecord({"psi": Array(clients.start)})
    replies = [
        *BAD_MESSAGES.values(),
        RecordDict(),
        RecordDict({**honest, "arrays": ArrayRecord({"psi": Array(np.full_like(clients.start, np.nan))})}),
        RecordDict({**honest, "arrays": ArrayRecord({"psi": Array(np.zeros(5, np.float32))})}),
        *(
            RecordDict({**honest, "arrays": update, "metrics": MetricRecord({"num-examples": weight})})
            for weight in (float("inf"), float("nan"), -1, 10**18)
        ),
    ]  # fmt: skip
    for reply in replies:

        def client(i: int, reply=reply) -> Client:
            instance = clients.client(i)
            answer = instance.handle
            instance.handle = lambda kind, *rest: (
                reply if i == 2 and kind in (messages.TRAIN, messages.STATISTICS) else answer(kind, *rest)
            )
            if i != 2:  # their updates do not matter here, and take time
                instance.train = lambda *_: {"num-examples": 9, "steps": 1}
            return instance

        log: list[str] = []
        server = make_server(clients, client=client, log=log.append)
        server.evaluate_fn = lambda _: {}
        state = server.run()
        (record,) = state.rounds
        assert record["contributed"] == ["client-0", "client-1", "client-3"]
        assert set(record["refused"]) == {"client-2"}
        assert any("client-2" in line for line in log)
        assert "client-2" not in server.collect_statistics(state.psi).clients


@pytest.mark.parametrize(
    "plan",
    [
        "", "x", "[]", "{}x", "[" * 20_000, "[" * 10_000, '{"rounds": "many"}', '{"privacy": [1]}', '{"unknown": 1}',
        '{"image_size": 100000}', '{"steps": -1}', '{"privacy": {"noise": NaN}}', '{"backbone": 7}', '{"seed": 1e999}',
        '{"image_size": []}', '{"body": "x"}', '{"head": ["lda"]}', '{"decay_every": {}}',
    ],
)  # fmt: skip
def test_a_plan_that_cannot_be_followed_is_refused(plan):
    with pytest.raises(FitError):
        messages.read_plan(RecordDict({"config": ConfigRecord({"plan": plan})}))


def test_the_refusal_of_a_plan_shows_no_control_characters_of_the_server():
    plan = json.dumps(ALL.to_dict() | {"\x1b[31mred\n": 1})
    with pytest.raises(InputError) as raised:
        messages.read_plan(RecordDict({"config": ConfigRecord({"plan": plan})}))
    assert str(raised.value).isprintable()


def test_a_reason_is_one_line_of_bounded_length():
    about = ConfigRecord({"refused": "a\nb\x1b[31m" + "c" * 10_000})
    reason = messages.reason_of(about)
    assert reason.startswith("a b [31mccc")
    assert len(reason) == 500
    assert messages.reason_of(ConfigRecord({"refused": "\n"})) == "it gave no reason."
    assert messages.reason_of(ConfigRecord()) == ""
