"""The policy of a client: what it allows, and the ledger of what was released."""

from __future__ import annotations

import json
from dataclasses import replace
from multiprocessing.pool import ThreadPool
from pathlib import Path

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict

from filmtransfer.errors import FitError, InputError, UpdateFileError, UsageError
from filmtransfer.federated import messages
from filmtransfer.federated.app import make_client_app
from filmtransfer.federated.client import Client
from filmtransfer.federated.plan import Plan, Privacy
from filmtransfer.federated.policy import (
    Ledger,
    Policy,
    PolicyError,
    PolicyGuard,
    Release,
    bind_policy,
    check_reply,
)
from filmtransfer.federated.privacy import Accountant
from tests.federated.tiny import ALL, make_server, population

SECURE = replace(ALL, secure=True)
PRIVATE = replace(ALL, privacy=Privacy(noise=4.0))
BUDGET = 'epsilon = 8\ndelta = 1e-5\nreleases = ["train"]'
FOUR = {str(node): b"key" for node in range(4)}


def guard(folder: Path, text: str = "") -> PolicyGuard:
    path = folder / "policy.toml"
    path.write_text(text)
    return PolicyGuard(folder / "state", path, bind_policy(folder / "state", path))


def request(plan: Plan, **settings) -> RecordDict:
    return messages.make_request(plan, 1, None, **settings)


def masked(plan: Plan, clients: int = 4, inner: Plan | None = None, **settings) -> RecordDict:
    shares = ConfigRecord({str(node): b"share" for node in range(clients - 1)})
    work = messages.make_request(inner or plan, 1, None, **settings)
    return RecordDict({**request(plan), "shares": shares, "work.config": work["config"]})


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("min_clients = 0", UsageError, "min_clients cannot be 0"),
        ("min_clients = 2.5", UsageError, "min_clients cannot be 2.5"),
        ("min_client = 3", UsageError, "unknown setting, 'min_client'"),
        ("secure_aggregation_only = 1", UsageError, "secure_aggregation_only cannot be 1"),
        ("epsilon = 8.0", UsageError, "Set epsilon and delta"),
        ("epsilon = -1.0\ndelta = 1e-5", UsageError, "epsilon cannot be -1.0"),
        ("epsilon = inf\ndelta = 1e-5", UsageError, "epsilon cannot be inf"),
        ("epsilon = 8\ndelta = 2.0", UsageError, "delta cannot be 2.0"),
        ("max_rounds = -1", UsageError, "max_rounds cannot be -1"),
        ("max_rounds = true", UsageError, "max_rounds cannot be True"),
        ('plans = ["abc"]', UsageError, "plans cannot be"),
        ('plans = "abc"', UsageError, "plans cannot be 'abc'"),
        (
            'releases = ["trian"]',
            UsageError,
            r"releases cannot be \['trian'\]. It is a list of some of train",
        ),
        ("releases = [[1]]", UsageError, "releases cannot be"),
        ("epsilon = 8\ndelta = 1e-5", UsageError, "epsilon binds train only"),
        ("max_releases = 3", UsageError, "max_releases cannot be 3"),
        ("max_releases = {train = 3}", UsageError, "that of train is max_rounds"),
        ("max_releases = {scores = -1}", UsageError, "max_releases.scores cannot be -1"),
        ("min_clients 3", InputError, "is not a policy"),
        ("\x00", InputError, "is not a policy"),
    ],
)
def test_a_policy_that_is_not_valid_is_refused_in_one_line_that_names_the_file(text, error, words, tmp_path):
    path = tmp_path / "policy.toml"
    path.write_text(text)
    with pytest.raises(error, match=words) as raised:
        Policy.load(path)
    assert type(raised.value) is error
    assert str(raised.value).startswith(str(path))
    assert "\n" not in str(raised.value)


def test_a_policy_that_does_not_exist_is_an_input_error(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        Policy.load(tmp_path / "policy.toml")


def test_all_settings_are_read(tmp_path):
    path = tmp_path / "policy.toml"
    path.write_text(
        f"secure_aggregation_only = true\nmin_clients = 3\nepsilon = 8\ndelta = 1e-5\nmax_rounds = 5\n"
        f'plans = ["{ALL.digest}"]\nreleases = ["train"]\nmax_releases = {{scores = 2}}'
    )
    assert Policy.load(path) == Policy(True, 3, 8, 1e-5, 5, (ALL.digest,), ("train",), {"scores": 2})


PLAIN_SUMS = {"classes": ["a"]}


def with_total(content: RecordDict, name: str = messages.TOTAL) -> RecordDict:
    return RecordDict({**content, name: ArrayRecord({"counts": Array(np.ones(1))})})


REFUSED = {
    "plan": (f'plans = ["{"0" * 64}"]', messages.DESCRIBE, request(ALL), "does not allow this plan"),
    "plain plan": ("secure_aggregation_only = true", messages.DESCRIBE, request(ALL), "secure aggregation only"),
    "plain update": ("secure_aggregation_only = true", messages.TRAIN, request(SECURE), "secure aggregation only"),
    "plain sums": (
        "secure_aggregation_only = true", messages.STATISTICS, request(SECURE, **PLAIN_SUMS), "secure aggregation only",
    ),
    "plain scores": (
        "secure_aggregation_only = true", messages.SCORES, with_total(request(SECURE, **PLAIN_SUMS)), "secure aggregation only",
    ),
    "sums with an evaluation": (
        "secure_aggregation_only = true", messages.EVALUATE, request(SECURE, **PLAIN_SUMS), "secure aggregation only",
    ),
    "accuracy on own images": (
        "secure_aggregation_only = true", messages.EVALUATE, request(SECURE, leave_one_out=1), "secure aggregation only",
    ),
    "promised clients": ("min_clients = 5", messages.DESCRIBE, request(ALL), "no round of fewer than 5 clients"),
    "clients with keys": (
        "min_clients = 2", "query.secure_shares",
        RecordDict({**request(SECURE), "keys": ConfigRecord({"1": b"key"})}), "this one has 1",
    ),
    "clients with shares": ("min_clients = 2", "query.secure_masked", masked(SECURE, 1), "this one has 1"),
    "clients that stayed": (
        "min_clients = 2", "query.secure_unmask",
        RecordDict({**request(SECURE), "fates": ConfigRecord({"1": "survived", "2": "dropped"})}), "this one has 1",
    ),
    "another plan inside": ("", "query.secure_masked", masked(SECURE, inner=ALL), "two plans, which differ"),
    "no noise": (BUDGET, messages.DESCRIBE, request(ALL), "requires differential privacy"),
    "too little noise": (BUDGET.replace("8", "0.5"), messages.TRAIN, request(PRIVATE), "another round would make it"),
    "spellings of one key": (
        "min_clients = 2", "query.secure_shares",
        RecordDict({**request(SECURE), "keys": ConfigRecord(dict.fromkeys(("1", "01", "001"), b"key"))}), "cannot be read",
    ),
    "spellings of one share": (
        "min_clients = 2", "query.secure_masked",
        RecordDict({**masked(SECURE), "shares": ConfigRecord({"2": b"share", "+2": b"share"})}), "cannot be read",
    ),
    "spellings of one fate": (
        "min_clients = 2", "query.secure_unmask",
        RecordDict({**request(SECURE), "fates": ConfigRecord({"1": "survived", " 1": "survived"})}), "cannot be read",
    ),
    "no more statistics": ("max_releases = {statistics = 0}", messages.STATISTICS, request(ALL), "no more statistics"),
    "rounds": ("max_rounds = 0", messages.TRAIN, request(ALL), "allows no more rounds"),
    **{
        f"no {kind}": (f"releases = {json.dumps(sorted({'train', 'statistics', 'scores', 'evaluation'} - {kind}))}",
        message_type, request(ALL), f"no {kind}")
        for kind, message_type in (("train", messages.TRAIN), ("statistics", messages.STATISTICS), ("evaluation", messages.EVALUATE))
    },
    "no statistics with an evaluation": (
        'releases = ["evaluation"]', messages.EVALUATE, request(ALL, **PLAIN_SUMS), "allows no statistics",
    ),
    "no masked update": ('releases = ["statistics"]', "query.secure_masked", masked(SECURE), "allows no train"),
    "no masked statistics": ('releases = ["train"]', "query.secure_masked", masked(SECURE, **PLAIN_SUMS), "allows no statistics"),
}  # fmt: skip


@pytest.mark.parametrize("rule", REFUSED)
def test_a_request_that_the_policy_does_not_allow_is_refused_and_not_charged(rule, tmp_path):
    text, message_type, content, words = REFUSED[rule]
    with pytest.raises(PolicyError, match=words):
        guard(tmp_path, text).admit(message_type, messages.read_plan(content), content)
    assert not Ledger.load(tmp_path / "state").releases


@pytest.mark.parametrize(
    "total", [ConfigRecord(), MetricRecord(), ArrayRecord(), ConfigRecord({"counts": 1.0})]
)
@pytest.mark.parametrize(
    "message_type", [messages.STATISTICS, messages.SCORES, messages.EVALUATE, "query.secure_masked"]
)
def test_a_total_that_is_no_sum_does_not_turn_statistics_into_scores(message_type, total, tmp_path):
    """Neither for the policy nor for the client, which ask the same function."""
    work = message_type.endswith("masked")
    content = masked(SECURE, **PLAIN_SUMS) if work else request(SECURE, **PLAIN_SUMS)
    content["work.total" if work else messages.TOTAL] = total
    bound = guard(tmp_path, 'releases = ["train", "scores", "evaluation"]')
    with pytest.raises(FitError, match="are no arrays"):
        bound.admit(message_type, SECURE, content)
    assert not Ledger.load(tmp_path / "state").releases
    client = population(ALL).client(0)
    plain = messages.make_request(ALL, 1, {"psi": population(ALL).start}, classes=client.examples.classes)
    asked = RecordDict({**plain, messages.TOTAL: total})
    with pytest.raises(InputError, match="are no arrays"):
        client.compute(asked) if work else client.handle(message_type, asked, RecordDict(), 1)


@pytest.mark.parametrize(
    ("message_type", "content"),
    [
        (messages.STATISTICS, with_total(request(ALL, **PLAIN_SUMS))),
        (messages.EVALUATE, with_total(request(ALL, **PLAIN_SUMS))),
        (messages.SCORES, request(ALL, **PLAIN_SUMS)),
    ],
)
def test_a_request_asks_for_the_sums_of_its_type(message_type, content, tmp_path):
    with pytest.raises(InputError, match="cannot ask for"):
        guard(tmp_path).admit(message_type, ALL, content)


def test_only_the_arrays_that_were_charged_leave():
    statistics = messages.make_reply("anna", {"counts": np.ones(1), "sums": np.ones((1, 2))})
    check_reply([Release("statistics", masked=False)], statistics)
    check_reply([], messages.make_reply("anna"))
    masked_sum = RecordDict({"masked": ArrayRecord({"masked": Array(np.ones(3, np.uint64))})})
    check_reply([Release("train", masked=True)], masked_sum)
    for charged, reply in (
        ([], statistics),
        ([Release("scores", masked=False)], statistics),
        ([Release("statistics", masked=True)], statistics),
        ([Release("train", masked=False)], masked_sum),
    ):
        with pytest.raises(PolicyError, match="not charged"):
            check_reply(charged, reply)


def test_a_reply_with_arrays_that_were_not_charged_does_not_leave(tmp_path):
    client = population(ALL).client(0)
    client.handle = lambda *_: messages.make_reply("anna", {"counts": np.ones(1)})
    bound = guard(tmp_path)
    app = make_client_app(lambda *_: client, lambda _, *rest: bound.admit(*rest))
    context = Context(1, 1, {"name": "anna", "state": str(tmp_path / "state")}, RecordDict(), {})
    sent = Message(request(ALL), dst_node_id=1, message_type=messages.TRAIN)
    reply = app(sent, context)
    assert messages.read_refusal(reply.content) == messages.UNSPECIFIED
    assert not reply.content.array_records


def test_the_ledger_stops_at_the_limit_of_each_kind(tmp_path):
    limited = guard(tmp_path, "max_releases = {statistics = 1, evaluation = 2}")
    limited.admit(messages.STATISTICS, ALL, request(ALL, **PLAIN_SUMS))
    limited.admit(messages.EVALUATE, ALL, request(ALL))
    with pytest.raises(PolicyError, match=r"no more statistics \(max_releases.statistics = 1\)"):
        limited.admit(messages.EVALUATE, ALL, request(ALL, **PLAIN_SUMS))
    limited.admit(messages.EVALUATE, ALL, request(ALL))
    with pytest.raises(PolicyError, match="no more evaluation"):
        limited.admit(messages.EVALUATE, ALL, request(ALL))
    limited.admit(messages.SCORES, ALL, with_total(request(ALL)))
    assert Ledger.load(tmp_path / "state").releases == {"statistics": 1, "evaluation": 2, "scores": 1}


def test_what_a_strict_policy_allows_is_admitted_and_charged(tmp_path):
    strict = guard(tmp_path, "secure_aggregation_only = true\nmin_clients = 2\nmax_rounds = 1")
    scores = with_total(masked(SECURE, **PLAIN_SUMS), "work.total")
    for message_type, content in (
        (messages.DESCRIBE, request(SECURE)),
        ("query.secure_keys", request(SECURE)),
        ("query.secure_shares", RecordDict({**request(SECURE), "keys": ConfigRecord(dict(FOUR))})),
        ("query.secure_masked", masked(SECURE)),
        ("query.secure_unmask", RecordDict({**request(SECURE), "fates": ConfigRecord({"1": "survived", "2": "survived"})})),
        ("query.secure_masked", masked(SECURE, **PLAIN_SUMS)),
        ("query.secure_masked", scores),
        (messages.EVALUATE, request(SECURE)),
        (messages.FINISH, request(SECURE)),
    ):  # fmt: skip
        strict.admit(message_type, SECURE, content)
    ledger = Ledger.load(tmp_path / "state")
    assert ledger.releases == {"train": 1, "statistics": 1, "scores": 1, "evaluation": 1}
    with pytest.raises(PolicyError, match="allows no more rounds"):
        strict.admit("query.secure_masked", SECURE, masked(SECURE))


def test_the_ledger_stops_at_the_budget_by_the_clients_own_account(tmp_path):
    """As if it were certain to take part in each round, and whatever budget the plan promises."""
    allowed = 3
    budget = Accountant(1, 1, 4.0, 1e-5, 1).after(allowed)
    private = guard(tmp_path, BUDGET.replace("8", str(budget + 1e-9)))
    for _ in range(allowed):
        private.admit(messages.TRAIN, PRIVATE, request(PRIVATE))
    with pytest.raises(PolicyError, match="another round would make it"):
        private.admit(messages.TRAIN, PRIVATE, request(PRIVATE))
    ledger = Ledger.load(tmp_path / "state")
    assert ledger.rounds == allowed
    assert ledger.epsilon(1e-5) == pytest.approx(budget)
    other = replace(PRIVATE, privacy=Privacy(noise=1e300))  # almost no ε, but what was spent stays spent
    private.admit(messages.TRAIN, other, request(other))
    none = replace(PRIVATE, privacy=Privacy(noise=1e-300))
    with pytest.raises(PolicyError, match="would make it inf"):
        private.admit(messages.TRAIN, none, request(none))


def test_rounds_without_noise_count_as_infinite(tmp_path):
    PolicyGuard(tmp_path / "state", None, "").admit(messages.TRAIN, ALL, request(ALL))
    private = guard(tmp_path, BUDGET.replace("8", "100"))
    with pytest.raises(PolicyError, match="would make it inf"):
        private.admit(messages.TRAIN, PRIVATE, request(PRIVATE))


def test_requests_at_the_same_time_are_charged_one_by_one(tmp_path):
    limited = guard(tmp_path, "max_rounds = 5")

    def answered(_: int) -> bool:
        try:
            limited.admit(messages.TRAIN, ALL, request(ALL))
        except PolicyError:
            return False
        return True

    with ThreadPool(8) as pool:
        assert sum(pool.map(answered, range(20))) == 5
    assert Ledger.load(tmp_path / "state").rounds == 5


def test_a_changed_or_missing_policy_is_noticed(tmp_path):
    bound = guard(tmp_path, "max_rounds = 1")
    path, state = tmp_path / "policy.toml", tmp_path / "state"
    assert bind_policy(state, path) == bound.digest
    path.write_text("max_rounds = 100")
    with pytest.raises(PolicyError, match="has changed"):
        bound.admit(messages.TRAIN, ALL, request(ALL))
    with pytest.raises(UsageError, match=r"is not the policy that .* is bound to"):
        bind_policy(state, path)
    path.unlink()
    with pytest.raises(PolicyError, match="is missing"):
        bound.admit(messages.DESCRIBE, ALL, request(ALL))
    with pytest.raises(UsageError, match="A policy is missing"):
        bind_policy(state, None)
    with pytest.raises(PolicyError, match="bound to another policy"):
        PolicyGuard(state, None, "").admit(messages.TRAIN, ALL, request(ALL))


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"[" * 9999, b'{"releases": 1}', b'{"noise": {"x": 1}}', b'{"noise": {"0": -1}}', b"\xff", b'{"a": 1}'],
)  # fmt: skip
def test_a_damaged_ledger_is_refused(content, tmp_path):
    (tmp_path / "ledger.json").write_bytes(content)
    with pytest.raises(UpdateFileError, match="not the ledger of a client"):
        Ledger.load(tmp_path)


@pytest.mark.slow(seconds=6)
@pytest.mark.parametrize(
    ("text", "part"),
    [("max_rounds = 1", "rounds"), ('releases = ["train", "evaluation"]', "statistics"),
     ("secure_aggregation_only = true", "roster")],
)  # fmt: skip
def test_the_server_reports_a_refusal_and_continues_with_the_others(text, part, tmp_path):
    plan = replace(ALL, rounds=2)
    clients = population(plan)
    bound = guard(tmp_path, text)

    def client(i: int) -> Client:
        instance = clients.client(i)
        handle = instance.handle

        def admitted(message_type, content, *rest):
            if i == 1:
                bound.admit(message_type, messages.read_plan(content), content)
            return handle(message_type, content, *rest)

        instance.handle = admitted
        return instance

    log: list[str] = []
    server = make_server(clients, client=client, log=log.append)
    server.evaluate_fn = None
    state = server.run()
    summed = server.collect_statistics(state.psi)
    reported = [line for line in log if line.startswith("client-1")]
    others = ["client-0", "client-2", "client-3"]
    if part == "rounds":
        assert [record["contributed"] for record in state.rounds] == [clients.names, others]
        assert reported == ["client-1 refused: its policy allows no more rounds (max_rounds = 1)."]
    elif part == "statistics":
        assert summed.clients == others
        assert reported[-1] == "client-1 refused: its policy allows no statistics."
    else:
        assert reported == [
            "client-1 is refused: its policy allows secure aggregation only. The plan has secure=false."
        ]
        assert all(record["contributed"] == others for record in state.rounds)
