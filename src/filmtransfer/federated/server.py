"""The server of a federation: the rounds of training, evaluation and the statistics, on any Flower grid.

A round never depends on one client: clients that do not answer in time are reported as missing, implausible replies are
refused and reported, and with too few usable replies the round is repeated with other clients. After every round a
checkpoint is written. Clients are sampled by name, with a generator seeded by the plan's seed and the round, and
aggregated in the order of their names: an interrupted and resumed federation ends with the same bits.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from flwr.app import ConfigRecord, RecordDict
from flwr.serverapp import Grid

from ..errors import FitError, InputError
from ..heads import Statistics
from ..model import AdaptedModel
from ..seeding import make_generator, permutation
from . import messages
from .aggregation import aggregate_train, check_update, outliers
from .checkpoint import Checkpoint
from .client_manager import ClientManager, FederationError
from .compression import compress, decompress
from .fixed_point import Shapes
from .parameters import ParameterLayout, get_parameters, parameter_layout
from .plan import Plan
from .privacy import Accountant, clip, noisy_mean, sample
from .records import Log, OnRound, RoundRecord
from .secure_aggregation import SecureAggregationError, majority, secure_sum
from .statistics import array_shapes, from_arrays
from .transport import Transport, no_traffic

MAX_ATTEMPTS = 3  # at a round with too few usable replies


@dataclass(eq=False)
class FederatedServer:
    """Runs one federation; ``evaluate_fn`` evaluates ψ centrally in a simulation, else the clients do."""

    grid: Grid
    plan: Plan
    make_model: Callable[[int], AdaptedModel]  # given the number of classes, which a head of batches needs
    folder: Path | None = None
    evaluate_fn: Callable[[np.ndarray], RoundRecord] | None = None
    log: Log = lambda _: None
    on_round: OnRound = lambda _: None
    max_wait: float = 600.0

    def __post_init__(self) -> None:
        self.model = self.make_model(1)
        self.transport = Transport(self.grid, self.plan.timeout)
        self.clients = ClientManager(self.transport, self.plan, self.model, self.log, self.max_wait)

    def run(self) -> Checkpoint:
        """Run the remaining rounds."""
        plan = self.plan
        state = Checkpoint.load(self.folder, plan) if self.folder else None
        self.clients.wait_for_clients()
        classes = state.classes if state else self.clients.classes()
        self.model = self.make_model(len(classes))
        self.start = get_parameters(self.model)
        self.layout: ParameterLayout = parameter_layout(self.model)
        if state is None:
            initial: RoundRecord = {"round": 0}
            initial |= self.evaluate(self.start)
            state = Checkpoint(self.start.copy(), classes, [], initial)
            self._save(state, initial)
        elif state.done < plan.rounds:
            self.log(f"Resuming after round {state.done}.")
        accountant = self._accountant(state)
        while state.done < plan.rounds:
            if accountant and not accountant.can_continue():
                self.log(f"No further round: {accountant.summary()}, and one more would exceed the budget.")
                break
            number = state.done + 1
            update, record = self.run_round(number, state.psi)
            state.psi = (state.psi + update).astype(state.psi.dtype)
            if accountant:
                record |= {"epsilon": accountant.spend(), "delta": accountant.delta}
                state.accountant = accountant.to_json()
            if number == plan.rounds or (plan.evaluate_every and number % plan.evaluate_every == 0):
                record |= self.evaluate(state.psi)
            state.rounds.append(record)
            self._save(state, record)
        return state

    def _save(self, state: Checkpoint, record: RoundRecord) -> None:
        if self.folder:
            state.save(self.folder, self.plan)
        self.on_round(record)

    def run_round(self, number: int, psi: np.ndarray) -> tuple[np.ndarray, RoundRecord]:
        """Return the aggregated update of a round, and its record."""
        self.transport.traffic["training"] = no_traffic()
        failures: RoundRecord = {"missing": {}, "refused": {}}
        train = self.train_securely if self.plan.secure else self.train
        for attempt in range(MAX_ATTEMPTS):
            self.clients.wait_for_clients()
            chosen = self.sample_clients(number, attempt)
            result = train(number, psi, chosen, failures)
            if result is not None:
                update, record = result
                record |= {"round": number, "clients": sorted(chosen)}
                return update, record | failures | self.transport.traffic["training"]
            self.log(f"Round {number}: fewer than {self.plan.min_clients} usable replies; it is repeated.")
        reasons = "; ".join(
            f"{name}: {reason}"
            for name, reason in sorted({**failures["missing"], **failures["refused"]}.items())
        )
        raise FederationError(
            f"Round {number} had fewer than {self.plan.min_clients} usable replies {MAX_ATTEMPTS} times ({reasons}).",
            "The checkpoint is kept: start again when the clients are connected.",
        )

    def sample_clients(self, number: int, attempt: int) -> dict[str, int]:
        """Return the clients of a round: their nodes by name."""
        connected = self.clients.connected()
        names, count = sorted(connected), self.plan.clients_per_round
        generator = make_generator(self.plan.seed, "clients", number, attempt)
        if self.plan.privacy:  # the sample must stay secret: a known seed only in a simulation
            rate = self._expected_clients / len(self.clients)
            chosen = sample(names, rate, generator if self.evaluate_fn else None)
        else:
            if len(names) < count:
                self.log(f"Round {number}: {len(names)} clients are connected instead of {count}.")
            chosen = [names[i] for i in permutation(len(names), generator)[:count].tolist()]
        return {name: connected[name] for name in sorted(chosen)}

    def train(
        self, number: int, psi: np.ndarray, chosen: Mapping[str, int], failures: RoundRecord
    ) -> tuple[np.ndarray, RoundRecord] | None:
        """Train on the chosen clients and aggregate their checked updates; None if too few are usable."""
        plan, sizes = self.plan, self.layout.sizes
        sent, received = self.compress_parameters(psi)
        requests = dict.fromkeys(chosen.values(), messages.make_request(plan, number, sent))
        updates: dict[str, np.ndarray] = {}
        examples: dict[str, int] = {}
        losses: dict[str, float] = {}
        for name, reply in sorted(self.request(messages.TRAIN, requests, "training", failures).items()):
            try:
                vector = decompress(messages.read_arrays(reply), plan.compression, sizes)
                update = vector - received if plan.compression == "none" else vector
                check_update(update)
                count = messages.read_metric(reply, "num-examples")
                loss = messages.read_metric(reply, "loss")
                if not count >= 1:
                    raise InputError("it trained on no examples.")
            except FitError as error:
                failures["refused"][name] = str(error)
                self.log(f"Round {number}: the reply of {name} is refused: {error}")
                continue
            updates[name], examples[name], losses[name] = update, int(count), loss
        if plan.privacy:
            total = np.zeros(self.layout.length)
            for name in sorted(updates):
                total += clip(updates[name], plan.privacy.clip)[0]
            return self._private_mean(total, number), {}
        if len(updates) < plan.min_clients:
            return None
        aggregated = aggregate_train(plan, number, updates, examples)
        total_examples = sum(examples.values())
        return aggregated, {
            "examples": total_examples,
            "loss": sum(losses[name] * examples[name] for name in losses) / total_examples,
            "outliers": outliers(updates, aggregated),
        }

    def train_securely(
        self, number: int, psi: np.ndarray, chosen: Mapping[str, int], failures: RoundRecord
    ) -> tuple[np.ndarray, RoundRecord] | None:
        """Train on the chosen clients by secure aggregation: only the sum of their updates is revealed."""
        plan = self.plan
        work = messages.make_request(plan, number, self.compress_parameters(psi)[0])
        shapes = {"psi": (self.layout.length,), "weight": (1,)}
        sums = self.sum_securely(chosen, work, shapes, "training", failures)
        if plan.privacy:  # a failed round counts as one with an empty sample
            total = np.zeros(self.layout.length) if sums is None else sums["psi"]
            return self._private_mean(total, number), {}
        if sums is None:
            return None
        weight = float(sums["weight"][0])
        update = sums["psi"] / max(weight, 1.0)
        try:
            check_update(update)
        except InputError as error:
            self.log(f"Round {number}: the sum cannot be used: {error}")
            return None
        return update, {"examples": round(weight)}

    # Differential privacy

    @property
    def _expected_clients(self) -> int:
        return min(self.plan.clients_per_round, len(self.clients))

    def _accountant(self, state: Checkpoint) -> Accountant | None:
        privacy = self.plan.privacy
        if privacy is None:
            return None
        new = Accountant(
            len(self.clients), self._expected_clients, privacy.noise, privacy.delta, privacy.epsilon
        )
        return Accountant.from_json(state.accountant).continued(new) if state.accountant else new

    def _private_mean(self, total: np.ndarray, number: int) -> np.ndarray:
        """Return the noisy mean of clipped updates; its denominator does not depend on the sample."""
        privacy = self.plan.privacy
        assert privacy is not None
        generator = make_generator(self.plan.seed, "privacy noise", number) if self.evaluate_fn else None
        return noisy_mean(total, privacy.noise * privacy.clip, self._expected_clients, generator)

    # Communication

    def compress_parameters(self, psi: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Return the arrays to send for ψ, and ψ as clients receive it; compressed is its difference from the start."""
        method, sizes = self.plan.compression, self.layout.sizes
        if method == "none":
            return compress(psi, method, sizes), psi
        sent = compress(psi - self.start, method, sizes)
        return sent, self.start + decompress(sent, method, sizes)

    def request(
        self, message_type: str, requests: Mapping[int, RecordDict], purpose: str, failures: RoundRecord
    ) -> dict[str, RecordDict]:
        """Return the replies by client name; missing clients and refusals are recorded and logged."""
        replies, missing = self.transport.exchange(message_type, requests, purpose)
        usable: dict[str, RecordDict] = {}
        for node in sorted(requests):
            name = self.clients.clients[node].name
            if node in missing:
                failures["missing"][name] = missing[node]
                self.log(f"{name} is missing: {missing[node]}")
            elif reason := messages.read_refusal(replies[node]):
                failures["refused"][name] = reason
                self.log(f"{name} cannot take part: {reason}")
            else:
                usable[name] = replies[node]
        return usable

    def sum_securely(
        self, chosen: Mapping[str, int], work: RecordDict, shapes: Shapes, purpose: str, failures: RoundRecord
    ) -> dict[str, np.ndarray] | None:
        """Return the sums over the clients that stayed to the end; None if too few did."""
        if len(chosen) < max(self.plan.min_clients, 2):
            return None
        plan = ConfigRecord({"plan": self.plan.to_json()})

        def exchange(stage: str, requests: Mapping[int, RecordDict]) -> dict[int, RecordDict]:
            contents = {node: RecordDict({**content, "config": plan}) for node, content in requests.items()}
            replies = self.request(messages.SECURE + stage, contents, purpose, failures)
            return {chosen[name]: reply for name, reply in replies.items()}

        total, contributed, dropped = None, 0, {}
        try:
            result = secure_sum(
                exchange,
                list(chosen.values()),
                threshold=majority(len(chosen)),
                session=secrets.token_hex(8),
                work=work,
                shapes=shapes,
            )
            total, contributed, dropped = result.sums, len(result.contributed), result.dropped
        except SecureAggregationError as error:
            dropped = error.dropped
            self.log(str(error))
        for node, reason in dropped.items():
            name = self.clients.clients[node].name
            if failures["missing"].setdefault(name, reason) == reason:
                self.log(f"{name} is missing: {reason}")
        return total if contributed >= self.plan.min_clients else None

    # Evaluation and the final classifiers

    def evaluate(self, psi: np.ndarray) -> RoundRecord:
        """Evaluate ψ: centrally in a simulation, on the clients' own test images otherwise."""
        if self.evaluate_fn:
            return self.evaluate_fn(psi)
        if self.plan.trained_by == "batches":  # there are no personalized classifiers
            return {}
        content = messages.make_request(self.plan, 0, self.compress_parameters(psi)[0])
        clients = self.clients.clients
        nodes = [node for node in self.clients.connected().values() if clients[node].num_test_examples]
        replies, _ = self.transport.exchange(messages.EVALUATE, dict.fromkeys(nodes, content), "evaluating")
        accuracy = {
            clients[node].name: messages.read_metric(reply, "accuracy")
            for node, reply in replies.items()
            if not messages.read_refusal(reply) and messages.read_metric(reply, "num-examples") > 0
        }
        if not accuracy:
            return {}
        mean = sum(accuracy.values()) / len(accuracy)
        return {"personalized": mean, "clients_accuracy": dict(sorted(accuracy.items()))}

    def collect_statistics(self, psi: np.ndarray) -> tuple[Statistics, list[str]]:
        """Return the summed statistics of all connected clients, and their classes."""
        self.clients.wait_for_clients()
        plan, chosen, classes = self.plan, self.clients.connected(), self.clients.classes()
        features = self.model.backbone.features
        content = messages.make_request(plan, 0, self.compress_parameters(psi)[0], classes=classes)
        failures: RoundRecord = {"missing": {}, "refused": {}}
        if plan.secure:
            shapes = array_shapes(len(classes), features, plan.scatter)
            sums = self.sum_securely(chosen, content, shapes, "statistics", failures)
            if sums is None:
                raise FederationError(
                    "The statistics could not be summed.", "Start again: the checkpoint is kept."
                )
            return from_arrays(sums, len(classes), features, plan.scatter), classes
        total: Statistics | None = None
        requests = dict.fromkeys(chosen.values(), content)
        replies = self.request(messages.STATISTICS, requests, "statistics", failures)
        for name, reply in sorted(replies.items()):
            try:
                part = from_arrays(messages.read_arrays(reply), len(classes), features, plan.scatter)
            except FitError as error:
                self.log(f"The statistics of {name} are refused: {error}")
                continue
            total = part if total is None else total + part
        if total is None:
            raise FederationError("No client sent its statistics.", "Start again: the checkpoint is kept.")
        return total, classes

    def finish(self, psi: np.ndarray) -> dict[str, str]:
        """Let every client save its personalized classifier under the final ψ; return the file names by client."""
        content = messages.make_request(self.plan, self.plan.rounds, self.compress_parameters(psi)[0])
        nodes = dict.fromkeys(self.clients.connected().values(), content)
        replies, _ = self.transport.exchange(messages.FINISH, nodes, "finishing")
        return {
            self.clients.clients[node].name: str(messages.read_about(reply).get("saved", ""))
            for node, reply in sorted(replies.items())
        }
