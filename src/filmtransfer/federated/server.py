"""The server of a federation: the rounds of training, evaluation and the statistics, on any Flower grid.

A round never depends on one client: clients that do not answer in time are reported as missing, implausible replies are
refused and reported, and with too few usable replies the round is repeated with other clients. After every round a
checkpoint is written. Clients are sampled by name, with a generator seeded by the plan's seed and the round, and
aggregated in the order of their names: an interrupted and resumed federation ends with the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from flwr.serverapp import Grid

from ..errors import FitError, InputError
from ..formatting import capitalize, count
from ..heads import Statistics
from ..model import AdaptedModel
from ..seeding import make_generator, permutation
from . import messages
from .aggregation import aggregate_train, check_update, outliers
from .checkpoint import Checkpoint, SavedSums
from .client_manager import ClientManager, FederationError
from .communication import Communication, no_failures, without_contributors
from .compression import compress, decompress
from .evaluation import ClientEvaluation, ServerTest
from .parameters import ParameterLayout, get_parameters, parameter_layout
from .plan import Plan
from .privacy import Accountant, clip, noisy_mean, sample
from .records import Log, Observer, OnNames, OnRound, OnStatus, RoundRecord
from .statistics import array_shapes, from_arrays, to_arrays
from .transport import Transport, no_traffic

MAX_ATTEMPTS = 3  # at a round with too few usable replies


@dataclass(frozen=True)
class SummedStatistics:
    """The statistics over all clients, with the classes in order and the clients whose images are included."""

    statistics: Statistics
    classes: list[str]
    clients: list[str]


@dataclass(eq=False)
class FederatedServer:
    """Runs one federation; ``evaluate_fn`` evaluates ψ centrally in a simulation, else the clients do."""

    grid: Grid
    plan: Plan
    make_model: Callable[[int], AdaptedModel]  # given the number of classes, which a head of batches needs
    folder: Path | None = None
    evaluate_fn: Callable[[np.ndarray], RoundRecord] | None = None
    test: ServerTest | None = None  # the server's own test images
    log: Log = lambda _: None
    on_round: OnRound = lambda _: None
    on_status: OnStatus = lambda _: None
    on_names: OnNames = lambda _: None
    max_wait: float = 600.0

    def __post_init__(self) -> None:
        self._set_model(self.make_model(1))
        self.transport = Transport(self.grid, self.plan.timeout)
        observer = Observer(self.log, self.on_round, self.on_status, self.on_names)
        self.clients = ClientManager(self.transport, self.plan, self.model, observer, self.max_wait)
        self.communication = Communication(self.transport, self.plan, self.clients, self.log)
        self.reported_clients = -1  # fewer than the plan's clients per round
        self.accountant: Accountant | None = None  # with differential privacy, once the rounds begin

    def _set_model(self, model: AdaptedModel) -> None:
        self.model, self.start = model, get_parameters(model)
        self.layout: ParameterLayout = parameter_layout(model)

    def run(self) -> Checkpoint:
        """Run the remaining rounds."""
        plan = self.plan
        state = Checkpoint.load(self.folder, plan) if self.folder else None
        self.clients.wait_for_clients()
        classes = state.classes if state else self.clients.classes()
        if plan.trained_by == "batches":  # the head's parameters depend on the classes
            self._set_model(self.make_model(len(classes)))
        self.accountant = self._make_accountant(state)
        if self.accountant and state is None and plan.rounds:
            self.accountant.check_first_round()
        if state is None or state.done < plan.rounds:
            self.log(self.clients.describe())
            self.log(self._describe_plan())
            if self.accountant and (limit := self.accountant.limit(state.done if state else 0, plan.rounds)):
                self.log(limit)
        if state is None:
            initial: RoundRecord = {"round": 0}
            initial |= self.evaluate(self.start, 0)
            state = Checkpoint(self.start.copy(), classes, [], initial)
            self._save(state)
            self._publish(state, initial)
        else:
            self._resume(state)
        while state.done < plan.rounds:
            if self.accountant and not self.accountant.can_continue():
                self.log(
                    f"No further round: {self.accountant.summary()}, and one more would exceed the budget."
                )
                break
            number = state.done + 1
            update, record = self.run_round(number, state.psi)
            state.psi, state.summed = (state.psi + update).astype(state.psi.dtype), None
            if self.accountant:
                record |= {"epsilon": self.accountant.spend(), "delta": self.accountant.delta}
                state.accountant = self.accountant.to_json()
            if number == plan.rounds or (plan.evaluate_every and number % plan.evaluate_every == 0):
                record["unfinished"] = True
            state.rounds.append(record)
            # Before anything that depends on the new ψ leaves the server, the privacy spent on it is on disk.
            self._save(state)
            self._finish_round(state)
        return state

    def _resume(self, state: Checkpoint) -> None:
        """Finish the last round of a checkpoint if the server was killed after it had saved ψ."""
        if state.rounds and "unfinished" in state.rounds[-1]:
            self._finish_round(state)
        if state.done < self.plan.rounds:
            self.log(f"Resuming after round {state.done} of {self.plan.rounds}.")
        if self.folder:
            state.write_rounds(self.folder)

    def _finish_round(self, state: Checkpoint) -> None:
        """Evaluate the new ψ where the plan says so, and publish the record of the round."""
        record = state.rounds[-1]
        if "unfinished" in record:
            record |= self.evaluate(state.psi, state.done)
            del record["unfinished"]
            self._save(state)
        self._publish(state, record)

    def _describe_plan(self) -> str:
        """Return the number of rounds and of their clients in words."""
        plan = self.plan
        rounds = capitalize(count(plan.rounds, "round")) + (", each" if plan.rounds > 1 else "")
        each = "with all connected clients"
        if plan.privacy:
            expected = round(self._sampling_rate * len(self.clients))
            each = f"with about {expected} of {count(len(self.clients), 'client')}, drawn at random"
        elif 0 < plan.clients_per_round < len(self.clients.connected()):
            each = f"with {count(plan.clients_per_round, 'client')}, drawn at random"
        return f"{rounds} {each}." if plan.rounds else "No rounds: nothing is trained."

    def _save(self, state: Checkpoint) -> None:
        if self.folder:
            state.save(self.folder, self.plan)

    def _publish(self, state: Checkpoint, record: RoundRecord) -> None:
        if self.folder:
            state.write_rounds(self.folder)
        self.on_round(record)

    def run_round(self, number: int, psi: np.ndarray) -> tuple[np.ndarray, RoundRecord]:
        """Return the aggregated update of a round, and its record."""
        self.transport.traffic["training"] = no_traffic()
        failures = no_failures()
        train = self.train_securely if self.plan.secure else self.train
        for attempt in range(MAX_ATTEMPTS):
            self.clients.wait_for_clients()
            chosen = self.sample_clients(number, attempt)
            self.on_status(f"{self.plan.round_name(number)}: training on {count(len(chosen), 'client')}")
            result = train(number, psi, chosen, failures)
            if result is not None:
                update, record = result
                record |= {"round": number, "clients": sorted(chosen)}
                record |= without_contributors(failures, record["contributed"])
                return update, record | self.transport.traffic["training"]
            if attempt + 1 < MAX_ATTEMPTS:
                self.log(
                    f"{self.plan.round_name(number)}: fewer than {self.plan.min_clients} usable replies; it is repeated."
                )
        reasons = "; ".join(
            f"{name}: {reason}"
            for name, reason in sorted({**failures["missing"], **failures["refused"]}.items())
        )
        raise FederationError(
            f"{self.plan.round_name(number)} had fewer than {self.plan.min_clients} usable replies {MAX_ATTEMPTS} times ({reasons}).",
            "The checkpoint is kept: start again when the clients are connected.",
        )

    def sample_clients(self, number: int, attempt: int) -> dict[str, int]:
        """Return the clients of a round: their nodes by name."""
        connected = self.clients.connected()
        names, wanted = sorted(connected), self.plan.clients_per_round
        generator = make_generator(self.plan.seed, "clients", number, attempt)
        if self.accountant:  # the sample must stay secret: a known seed only in a simulation
            chosen = sample(names, self._sampling_rate, generator if self.evaluate_fn else None)
        else:
            if len(names) < wanted and len(names) != self.reported_clients:
                self.log(
                    f"The plan has {count(wanted, 'client')} per round, and {len(names)} "
                    f"{'is' if len(names) == 1 else 'are'} connected: all of them take part."
                )
                self.reported_clients = len(names)
            chosen = [names[i] for i in permutation(len(names), generator)[: wanted or None].tolist()]
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
        for name, reply in sorted(
            self.communication.request(messages.TRAIN, requests, "training", failures).items()
        ):
            try:
                vector = decompress(messages.read_arrays(reply), plan.compression, sizes)
                update = vector - received if plan.compression == "none" else vector
                check_update(update)
                # Its weight is not above the number of images that it described.
                described = self.clients.clients[chosen[name]].num_examples
                number_of = min(messages.read_examples(reply), described)
            except FitError as error:
                failures["refused"][name] = str(error)
                self.log(f"{self.plan.round_name(number)}: the reply of {name} is refused: {error}")
                continue
            updates[name], examples[name] = update, number_of
            if (loss := messages.read_finite_metric(reply, "loss")) is not None:
                losses[name] = loss
        if plan.privacy:
            total = np.zeros(self.layout.length)
            for name in sorted(updates):
                total += clip(updates[name], plan.privacy.clip)[0]
            return self._private_mean(total, number), {"contributed": sorted(updates)}
        if len(updates) < plan.min_clients:
            return None
        aggregated = aggregate_train(plan, number, updates, examples)
        record: RoundRecord = {
            "contributed": sorted(updates), "examples": sum(examples.values()), "outliers": outliers(updates, aggregated),
        }  # fmt: skip
        if losses:
            weight = sum(examples[name] for name in losses)
            record["loss"] = sum(losses[name] * examples[name] for name in losses) / weight
        return aggregated, record

    def train_securely(
        self, number: int, psi: np.ndarray, chosen: Mapping[str, int], failures: RoundRecord
    ) -> tuple[np.ndarray, RoundRecord] | None:
        """Train on the chosen clients by secure aggregation: only the sum of their updates is revealed."""
        plan = self.plan
        work = messages.make_request(plan, number, self.compress_parameters(psi)[0])
        shapes = {"psi": (self.layout.length,), "weight": (1,)}
        requests = dict.fromkeys(chosen.values(), work)
        sums = self.communication.sum_securely(requests, shapes, "training", failures)
        if plan.privacy:  # a failed round counts as one with an empty sample
            if sums is None:
                return self._private_mean(np.zeros(self.layout.length), number), {"contributed": []}
            # No client can be checked, but the norm of any sum is at most C for each. A limit that depended on who is in
            # the sum would change with one client by more than its own update.
            total, _ = clip(sums.arrays["psi"], plan.privacy.clip * len(self.clients))
            return self._private_mean(total, number), {"contributed": sums.clients}
        if sums is None:
            return None
        weight = float(sums.arrays["weight"][0])
        update = sums.arrays["psi"] / max(weight, 1.0)
        try:
            check_update(update)
        except InputError as error:
            self.log(f"{self.plan.round_name(number)}: the sum cannot be used: {error}")
            return None
        return update, {"contributed": sums.clients, "examples": round(weight)}

    # Differential privacy

    @property
    def _sampling_rate(self) -> float:
        """q of the next round: never above what the accountant charges, whoever has joined or left since the start."""
        assert self.accountant is not None
        roster = len(self.clients)
        return min(self.accountant.rate, min(self.plan.clients_per_round or roster, roster) / roster)

    def _make_accountant(self, state: Checkpoint | None) -> Accountant | None:
        if self.plan.privacy is None:
            return None
        new = Accountant.of(self.plan.privacy, len(self.clients), self.plan.clients_per_round)
        spent = state.accountant if state else ""
        return Accountant.from_json(spent).continued(new) if spent else new

    def _private_mean(self, total: np.ndarray, number: int) -> np.ndarray:
        """Return the noisy mean of clipped updates; its denominator does not depend on the sample."""
        privacy = self.plan.privacy
        assert privacy is not None
        generator = make_generator(self.plan.seed, "privacy noise", number) if self.evaluate_fn else None
        expected = self._sampling_rate * len(self.clients)
        return noisy_mean(total, privacy.noise * privacy.clip, expected, generator)

    def compress_parameters(self, psi: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Return the arrays to send for ψ, and ψ as clients receive it; compressed is its difference from the start."""
        method, sizes = self.plan.compression, self.layout.sizes
        if method == "none":
            return compress(psi, method, sizes), psi
        sent = compress(psi - self.start, method, sizes)
        return sent, self.start + decompress(sent, method, sizes)

    # Sums over images, evaluation and the final classifiers

    def final_statistics(self, state: Checkpoint) -> SummedStatistics:
        """Return the summed statistics under the final ψ, collected once: another sum would show what differs."""
        if state.summed is None:
            new = self.collect_statistics(state.psi)
            state.summed = SavedSums(to_arrays(new.statistics), new.classes, new.clients)
            self._save(state)
        saved = state.summed
        statistics = self.clients.read_statistics(saved.arrays, saved.classes)
        return SummedStatistics(statistics, saved.classes, saved.clients)

    def collect_statistics(self, psi: np.ndarray) -> SummedStatistics:
        """Return the summed statistics of all connected clients, and their classes."""
        self.clients.wait_for_clients()
        plan, chosen, classes = self.plan, self.clients.connected(), self.clients.classes()
        facts = (len(classes), self.model.backbone.features, plan.scatter)
        content = messages.make_request(plan, 0, self.compress_parameters(psi)[0], classes=classes)
        total = self.communication.sum_over_clients(
            messages.STATISTICS,
            dict.fromkeys(chosen.values(), content),
            array_shapes(*facts),
            lambda arrays, node: self.clients.read_statistics(arrays, classes, node),
            no_failures(),
        )
        if total is None:
            raise FederationError(
                "The statistics could not be summed." if plan.secure else "No client sent its statistics.",
                "Start again: the checkpoint is kept.",
            )
        return SummedStatistics(from_arrays(total.arrays, *facts), classes, total.clients)

    def evaluate(self, psi: np.ndarray, number: int) -> RoundRecord:
        """Evaluate ψ after a round: centrally in a simulation, on the clients' and the server's own images otherwise.

        That is shown as the status meanwhile, unless there is nothing to evaluate.
        """
        status = f"{self.plan.round_name(number)}: evaluating"
        if self.evaluate_fn:
            self.on_status(status)
            return self.evaluate_fn(psi)
        evaluation = ClientEvaluation(self.communication, self.test)
        if not evaluation.asked:
            return {}
        self.on_status(status)
        return evaluation.evaluate(self.model, number, psi, self.compress_parameters(psi)[0])

    def finish(self, psi: np.ndarray, trained: list[str]) -> dict[str, str]:
        """Let every client save its personalized classifier under the final ψ; return the file names by client."""
        content = messages.make_request(self.plan, self.plan.rounds, self.compress_parameters(psi)[0])
        # Each learns about itself only: who else was drawn is secret with differential privacy.
        requests = {
            node: messages.with_settings(content, trained=int(name in trained))
            for name, node in self.clients.connected().items()
        }
        replies, _ = self.transport.exchange(messages.FINISH, requests, "finishing")
        return {
            self.clients.clients[node].name: str(messages.read_about(reply).get("saved", ""))
            for node, reply in sorted(replies.items())
        }
