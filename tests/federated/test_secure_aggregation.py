"""Secure aggregation: the sum is exact whichever clients drop out, and single values are never revealed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pytest

pytest.importorskip("flwr")

from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict
from flwr.common.serde import recorddict_from_proto, recorddict_to_proto
from flwr.proto.recorddict_pb2 import RecordDict as ProtoRecordDict
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from filmtransfer.errors import UsageError
from filmtransfer.federated import masking, messages, shamir
from filmtransfer.federated.fixed_point import to_fixed_point
from filmtransfer.federated.masking import handle_message
from filmtransfer.federated.secure_aggregation import (
    ENCRYPTED_BYTES,
    SecureAggregationError,
    SecureSum,
    majority,
    secure_sum,
)

NODES = [2**64 - 5, 17, 2**63 + 1, 4, 900]  # Flower's are any 64-bit integers
SHAPES = {"ψ/a": (3, 2), "weight": (1,)}


def no_work(nodes) -> dict[int, RecordDict]:
    return {node: RecordDict() for node in nodes}


def through_the_wire(content: RecordDict) -> RecordDict:
    assert all(
        record.count_bytes() >= 0 for record in content.values()
    )  # flwr's own count fails on empty strings and lists
    sent = recorddict_to_proto(content).SerializeToString()
    return recorddict_from_proto(ProtoRecordDict.FromString(sent))


def values_of(node: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(node)
    return {"ψ/a": rng.normal(size=(3, 2)), "weight": np.array([node % 100])}


@dataclass
class Federation:
    """Clients that keep only their state between two messages; messages can be lost or changed."""

    vectors: Callable[[int], Mapping[str, np.ndarray]] = values_of
    lost: Mapping[str, set[int]] = field(default_factory=dict)
    request: Callable[[str, int, RecordDict], RecordDict] = lambda kind, node, content: content
    reply: Callable[[str, int, RecordDict], RecordDict] = lambda kind, node, content: content
    states: dict[int, bytes] = field(default_factory=dict)
    seen: dict[tuple[str, int], RecordDict] = field(default_factory=dict)
    work: list[RecordDict] = field(default_factory=list)
    log: list[str] = field(default_factory=list)  # of the clients

    def ask(self, kind: str, node: int, content: RecordDict) -> RecordDict:
        def compute(work: RecordDict) -> Mapping[str, np.ndarray]:
            self.work.append(work)
            return self.vectors(node)

        state = recorddict_from_proto(ProtoRecordDict.FromString(self.states.get(node, b"")))
        reply = handle_message(kind, through_the_wire(content), state, compute, node, self.log.append)
        self.states[node] = recorddict_to_proto(state).SerializeToString()
        return through_the_wire(reply)

    def exchange(self, kind: str, requests: Mapping[int, RecordDict]) -> dict[int, RecordDict]:
        answers = {}
        for node, content in requests.items():
            if node in self.lost.get(kind, ()):
                continue
            answers[node] = self.reply(kind, node, self.ask(kind, node, self.request(kind, node, content)))
            self.seen[kind, node] = answers[node]
        return answers

    def sum(
        self, nodes=NODES, threshold=3, session="round 1", work=None, shapes=SHAPES, bits=24
    ) -> SecureSum:
        return secure_sum(
            self.exchange,
            work or no_work(nodes),
            threshold=threshold,
            session=session,
            shapes=shapes,
            bits=bits,
        )

    def secrets_left(self, node: int) -> dict:
        state = recorddict_from_proto(ProtoRecordDict.FromString(self.states[node]))
        assert len(state) == 1
        record = next(iter(state.config_records.values()))
        return {k: v for k, v in record.items() if isinstance(v, bytes) and v}


def plain_sum(nodes, vectors=values_of, shapes=SHAPES, bits=24):
    """The oracle: Python's integers."""
    sums = {}
    for name, shape in shapes.items():
        total = [0] * int(np.prod(shape))
        for node in nodes:
            for i, x in enumerate(np.asarray(vectors(node)[name], dtype=float).ravel()):
                total[i] += round(float(x) * 2**bits)
        sums[name] = np.array([t / 2**bits for t in total]).reshape(shape)
    return sums


def same(sums, expected):
    assert sums.keys() == expected.keys()
    return all(np.array_equal(sums[name], expected[name]) for name in sums)


# Sums.


@given(
    st.lists(arrays(np.float64, 7, elements=st.floats(-1e6, 1e6)), min_size=2, max_size=5),
    st.sampled_from([12, 24]),
)
@settings(deadline=None, max_examples=25)
def test_the_sum_is_the_plain_sum_exactly(values, bits):
    nodes = NODES[: len(values)]
    vectors = {node: {"x": value} for node, value in zip(nodes, values, strict=True)}
    shapes = {"x": (7,)}
    result = Federation(vectors.__getitem__).sum(nodes, majority(len(nodes)), shapes=shapes, bits=bits)
    assert same(result.sums, plain_sum(nodes, vectors.__getitem__, shapes, bits))
    assert result.contributed == sorted(nodes)
    assert not result.dropped


@pytest.mark.parametrize(
    ("lost", "contributed"),
    [
        ({"keys": {17}}, {4, 900, NODES[0], NODES[2]}),
        ({"shares": {NODES[0]}}, {17, 4, 900, NODES[2]}),
        ({"masked": {17, 900}}, {4, NODES[0], NODES[2]}),
        ({"masked": {4}}, {17, 900, NODES[0], NODES[2]}),
        ({"unmask": {4, NODES[2]}}, set(NODES)),
        ({"keys": {17}, "masked": {900}}, {4, NODES[0], NODES[2]}),
        ({"shares": {4}, "masked": {NODES[0]}}, {17, 900, NODES[2]}),
        ({"masked": {NODES[2]}, "unmask": {17}}, {17, 4, 900, NODES[0]}),
    ],
)
def test_clients_may_drop_out_at_any_stage(lost, contributed):
    result = Federation(lost=lost).sum()
    assert set(result.contributed) == contributed
    assert same(result.sums, plain_sum(contributed))
    assert result.dropped == {
        n: f"did not answer to {stage!r}" for stage, nodes in lost.items() for n in nodes
    }


@pytest.mark.parametrize("stage", masking.STAGES)
def test_below_the_threshold_only_the_missing_clients_are_reported(stage):
    with pytest.raises(SecureAggregationError, match=f"stopped at '{stage}': 2 clients are left") as error:
        Federation(lost={stage: {17, 4, 900}}).sum()
    assert error.value.stage == stage
    assert error.value.dropped.keys() == {17, 4, 900}
    assert "Client 900 did not answer" in error.value.message


def test_the_work_reaches_the_client_as_it_was():
    psi = ArrayRecord({"a": Array(np.eye(2))})
    work = {node: RecordDict({"psi": psi, "config": ConfigRecord({"own": node})}) for node in NODES}
    federation = Federation()
    federation.sum(work=work)
    assert [w.config_records["config"]["own"] for w in federation.work] == list(NODES)
    assert np.array_equal(federation.work[0].array_records["psi"]["a"].numpy(), np.eye(2))
    assert all(w.keys() == {"psi", "config"} for w in federation.work)


def test_moments_of_many_images():
    """Σzzᵀ of 1280 features over 5 clients: 1.6 million values each."""

    def moments(node):
        z = np.maximum(np.random.default_rng(node).normal(0.4, 1, (60, 1280)), 0)
        return {"moments": z.T @ z, "sums": z.sum(0), "counts": np.array([60.0])}

    shapes = {"moments": (1280, 1280), "sums": (1280,), "counts": (1,)}
    result = Federation(moments, lost={"masked": {17}}).sum(shapes=shapes)
    expected = {name: sum(moments(node)[name] for node in result.contributed) for name in shapes}
    for name in shapes:
        np.testing.assert_allclose(result.sums[name], expected[name], rtol=1e-6)
    assert result.sums["counts"] == 240


def test_a_federation_goes_on_with_new_sessions():
    federation = Federation()
    assert same(federation.sum(session="1").sums, plain_sum(NODES))
    federation.lost = {"masked": {17, 4, 900}}
    with pytest.raises(SecureAggregationError):
        federation.sum(session="2")
    federation.lost = {}
    assert same(federation.sum(session="3").sums, plain_sum(NODES))


@pytest.mark.parametrize("threshold", [1, 2, 6])
def test_thresholds_without_protection_are_refused(threshold):
    with pytest.raises(UsageError, match="does not suit 5 clients"):
        Federation().sum(threshold=threshold)


def test_majority():
    assert [majority(n) for n in (1, 2, 3, 4, 5, 100)] == [2, 2, 2, 3, 3, 51]


# What the server sees.


def bytes_look_uniform(words: np.ndarray) -> bool:
    """χ² of the byte counts, with a threshold that chance passes once in 10¹² times."""
    counts = np.bincount(np.frombuffer(words.tobytes(), np.uint8), minlength=256)
    expected = words.nbytes / 256
    return float(((counts - expected) ** 2 / expected).sum()) < 255 + 8 * np.sqrt(2 * 255)


def test_what_the_server_sees_of_a_client_looks_uniform():
    def vectors(_):
        return {"x": np.full(20_000, 3.0)}

    federation = Federation(vectors, lost={"masked": {17}})
    federation.sum(shapes={"x": (20_000,)})
    federation.lost = {}
    seen = [federation.seen["masked", n].array_records["masked"]["masked"].numpy() for n in (4, 900)]
    assert not bytes_look_uniform(
        to_fixed_point(vectors(4), {"x": (20_000,)}, 24, 5)
    )  # the test detects unmasked values
    assert bytes_look_uniform(seen[0])
    assert bytes_look_uniform(seen[0] - seen[1])  # the same values under other masks

    federation.sum(session="again", shapes={"x": (20_000,)})
    again = federation.seen["masked", 4].array_records["masked"]["masked"].numpy()
    assert bytes_look_uniform(again - seen[0])  # masks are never used twice


def test_a_late_answer_stays_masked():
    """The masks of its pairs were revealed because it seemed to have dropped out; its own mask was not."""
    federation = Federation(lambda node: {"x": np.full(20_000, 3.0)})

    def exchange(kind, requests):
        answers = federation.exchange(kind, requests)
        if kind == "masked":
            del answers[17]  # it came too late
        return answers

    secure_sum(exchange, no_work(NODES), threshold=3, session="s", shapes={"x": (20_000,)})
    late = federation.seen["masked", 17].array_records["masked"]["masked"].numpy()
    keys = {n: federation.seen["keys", n].config_records["secure"]["keys"] for n in NODES}
    config = masking.SessionConfig("s", 3, 24, {"x": (20_000,)})
    position = {node: i for i, node in enumerate(sorted(NODES), start=1)}
    shares = {
        position[n]: federation.seen["unmask", n].config_records["shares"]["17"] for n in (4, 900, NODES[0])
    }
    mask = shamir.combine(shares)
    for peer in set(NODES) - {17}:  # all masks that the server can remove
        mask_of_pair = masking.keystream(masking.pair_seed(mask, keys[peer], config.binding(keys)), 20_000)
        late = late - mask_of_pair if peer > 17 else late + mask_of_pair
    assert bytes_look_uniform(late)
    assert ("unmask", 17) not in federation.seen


def test_secrets_are_forgotten():
    federation = Federation(lost={"unmask": {17}})
    federation.sum()
    assert federation.secrets_left(4) == {}
    assert all(key.startswith("held/") for key in federation.secrets_left(17))  # no key, no seed; and …
    federation.lost = {}
    federation.sum(session="round 2")
    assert federation.secrets_left(17) == {}  # … nothing once the next session began


# A server that deviates from the protocol.


def change_request(stage: str, victim: int, change: Callable[[RecordDict], None]):
    def request(kind, node, content):
        if (kind, node) == (stage, victim):
            content = through_the_wire(content)
            change(content)
        return content

    return request


def drop_all_but(record: str, keep: set[int]):
    def change(content):
        for node in list(content[record]):
            if int(node) not in keep:
                del content[record][node]

    return change


def own_key_missing(content):
    del content["keys"]["17"]


def own_key_changed(content):
    content["keys"]["17"] = bytes(64)


def another_twice(content):
    content["keys"]["4"] = content["keys"]["900"]


def another_spelled_twice(content):
    content["keys"]["0900"] = masking.derive_public_keys(b"\x01" * 32, b"\x02" * 32)


def many_invented(content):
    for i in range(1000, 1003):
        content["keys"][str(i)] = masking.derive_public_keys(bytes([i % 256]) * 32, bytes([i % 255]) * 32)


def small_order_point(content):
    content["keys"]["4"] = bytes(64)


def list_as_text(content):
    content["keys"]["4"] = "no bytes"


def no_list(content):
    del content["keys"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (own_key_missing, "own keys are missing"),
        (own_key_changed, "own keys are missing from the list, or changed"),
        (another_twice, "keys twice"),
        (another_spelled_twice, "cannot be read"),
        (many_invented, "not above half of 8 clients"),
        (small_order_point, "not usable"),
        (list_as_text, "cannot be read"),
        (no_list, "cannot be read"),
        (drop_all_but("keys", {17, 4}), "fewer than the threshold of 3"),
    ],
)
def test_a_wrong_list_of_keys_is_refused(change, reason):
    federation = Federation(request=change_request("shares", 17, change))
    result = federation.sum()
    assert reason in result.dropped[17]
    assert result.contributed == sorted(set(NODES) - {17})
    assert same(result.sums, plain_sum(result.contributed))
    assert federation.secrets_left(17) == {}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (drop_all_but("shares", {4}), "2 clients are fewer than the threshold of 3"),
        (lambda content: content["shares"].update({"5": b"x" * 94}), "not in the list"),
        (lambda content: content["shares"].update({"4": b"x"}), "from the client 4 was changed"),
        (lambda content: content["shares"].update({"4": content["shares"]["900"]}), "client 4 was changed"),
    ],
)
def test_wrong_shares_are_refused(change, reason):
    federation = Federation(request=change_request("masked", 17, change))
    result = federation.sum()
    assert reason in result.dropped[17]
    assert not federation.seen["masked", 17].array_records
    assert same(result.sums, plain_sum(set(NODES) - {17}))


@pytest.mark.parametrize("at", [0, 12, -1])
def test_a_changed_ciphertext_is_detected_and_its_sender_named(at):
    def flip(content):
        sealed = bytearray(content["shares"]["900"])
        sealed[at] ^= 1
        content["shares"]["900"] = bytes(sealed)

    result = Federation(request=change_request("masked", 17, flip)).sum()
    assert "The share from the client 900 was changed" in result.dropped[17]
    assert same(result.sums, plain_sum(set(NODES) - {17}))


def test_a_client_that_sends_garbage_to_everyone_is_named_by_everyone():
    def reply(kind, node, content):
        if (kind, node) == ("shares", 900):
            for peer in content["shares"]:
                content["shares"][peer] = bytes(ENCRYPTED_BYTES)
        return content

    with pytest.raises(SecureAggregationError) as error:
        Federation(reply=reply).sum()
    assert set(error.value.dropped) == set(NODES) - {900}
    assert all("client 900 was changed" in reason for reason in error.value.dropped.values())


def test_shares_of_a_wrong_length_are_dropped_by_the_server():
    def reply(kind, node, content):
        if (kind, node) == ("shares", 900):
            for peer in content["shares"]:
                content["shares"][peer] = b"garbage"
        return content

    result = Federation(reply=reply).sum()
    assert "do not have the length of the protocol" in result.dropped[900]
    assert same(result.sums, plain_sum(set(NODES) - {900}))


def test_clients_with_different_key_lists_cannot_decrypt_their_shares():
    """The server replaced a client's key by its own in one list: decryption fails."""

    def middle(content):
        content["keys"]["4"] = masking.derive_public_keys(b"\x01" * 32, b"\x02" * 32)

    try:
        dropped = Federation(request=change_request("shares", 17, middle)).sum().dropped
    except SecureAggregationError as error:
        dropped = error.dropped
    assert "client 17 was changed" in " ".join(dropped.values())


def take(federation: Federation, until: str) -> dict[str, RecordDict]:
    """Play a session up to (not including) a stage, and return the request of client 17 for it."""
    kept: dict[str, RecordDict] = {}

    def exchange(kind, requests):
        kept[kind] = requests[17]
        return {} if kind == until else federation.exchange(kind, requests)

    with pytest.raises(SecureAggregationError):
        secure_sum(exchange, no_work(NODES), threshold=3, session="s", shapes=SHAPES)
    return kept


def refusal(reply: RecordDict) -> str:
    assert reply.keys() == {"secure"}
    return str(reply.config_records["secure"]["refused"])


def test_unmasking_twice_is_refused():
    """The classical attack: first as if 4 had survived, then as if it had dropped out."""
    federation = Federation()
    requests = take(federation, "unmask")
    first = federation.ask("unmask", 17, requests["unmask"])
    assert set(first["shares"]) == {str(n) for n in NODES}
    assert all(len(share) == shamir.SHARE_BYTES for share in first["shares"].values())  # one of the two
    requests["unmask"]["fates"]["4"] = "dropped"
    assert "out of order" in refusal(federation.ask("unmask", 17, requests["unmask"]))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"4": "both"}, "either survived or dropped out"),
        ({"5": "dropped"}, "either survived or dropped out"),
        ({"17": "dropped"}, "its own values"),
        ({"4": "dropped", "900": "dropped", str(NODES[0]): "dropped"}, "2 clients are fewer"),
    ],
)
def test_unmasking_that_would_reveal_a_client_is_refused(change, reason):
    federation = Federation()
    request = take(federation, "unmask")["unmask"]
    valid = through_the_wire(request)
    request["fates"].update(change)
    assert reason in refusal(federation.ask("unmask", 17, request))
    assert federation.secrets_left(17) == {}
    assert "out of order" in refusal(federation.ask("unmask", 17, valid))  # no second try


def test_the_masks_are_used_once():
    """Two inputs under one mask would reveal their difference."""
    federation = Federation()
    requests = take(federation, "unmask")
    assert "out of order" in refusal(federation.ask("masked", 17, requests["masked"]))
    assert len(federation.work) == len(NODES)


def test_messages_out_of_order_and_unknown_ones_are_refused():
    federation = Federation()
    requests = take(federation, "masked")
    assert "no session" in refusal(
        federation.ask("masked", 55, requests["masked"])
    )  # a client that was restarted
    assert "no message 'open'" in refusal(federation.ask("open", 4, requests["masked"]))
    assert "started before" in refusal(federation.ask("keys", 17, requests["keys"]))
    assert "cannot be read" in refusal(federation.ask("keys", 55, RecordDict()))
    low = masking.SessionConfig("t", 2, 24, SHAPES).to_record()
    low["threshold"] = 1
    assert "reveal single clients" in refusal(federation.ask("keys", 55, RecordDict({"secure": low})))
    for bits in (63, 40, 25, 0, -1):  # others would let the server choose which values are too large
        low.update({"threshold": 2, "bits": bits})
        assert "fractional bits are not used" in refusal(
            federation.ask("keys", 55, RecordDict({"secure": low}))
        )


# A faulty client.


@pytest.mark.parametrize(
    ("vectors", "reason"),
    [
        ({"ψ/a": np.full((3, 2), np.nan), "weight": np.ones(1)}, "not finite"),
        ({"ψ/a": np.full((3, 2), 1e15), "weight": np.ones(1)}, "could overflow"),
        ({"ψ/a": np.ones((2, 3)), "weight": np.ones(1)}, "shape"),
        ({"ψ/a": np.ones((3, 2))}, "weight"),
    ],
)
def test_a_client_with_unusable_values_is_named_and_nothing_of_them_is_sent(vectors, reason):
    federation = Federation(lambda node: vectors if node == 17 else values_of(node))
    result = federation.sum()
    assert result.dropped[17] == f"refused 'masked': {messages.UNSPECIFIED}"
    assert any(reason in line for line in federation.log)
    assert same(result.sums, plain_sum(set(NODES) - {17}))


def test_an_error_in_the_clients_own_computation_is_not_hidden():
    def broken(_):
        raise KeyError("a bug")

    with pytest.raises(KeyError, match="a bug"):
        Federation(broken).sum()


@pytest.mark.parametrize("stage", masking.STAGES)
def test_an_unreadable_reply_drops_its_client(stage):
    def reply(kind, node, content):
        return (
            RecordDict({"secure": ConfigRecord({"session": "round 1"})})
            if (kind, node) == (stage, 17)
            else content
        )

    result = Federation(reply=reply).sum()
    assert f"sent a reply to {stage!r} that cannot be read" in result.dropped[17]
    assert same(result.sums, plain_sum(result.contributed))


def test_replies_of_another_session_and_unusable_keys_drop_their_client():
    def reply(kind, node, content):
        if (kind, node) == ("shares", 4):
            content["secure"]["session"] = "round 0"
        if (kind, node) == ("keys", 17):
            content["secure"]["keys"] = bytes(64)
        return content

    result = Federation(reply=reply).sum()
    assert "another session" in result.dropped[4]
    assert "not usable" in result.dropped[17]
    assert same(result.sums, plain_sum(result.contributed))


@pytest.mark.parametrize("lost", [{}, {"masked": {4}}])
def test_false_shares_are_detected(lost):
    def reply(kind, node, content):
        if (kind, node) == ("unmask", 17):
            content["shares"]["4"] = bytes(33)
        return content

    with pytest.raises(SecureAggregationError, match="mask of Client 4 cannot be removed"):
        Federation(lost=lost, reply=reply).sum()
