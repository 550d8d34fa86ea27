"""The rounds: who takes part, what they send, what becomes of ψ. On any of Flower's grids.

A round never hangs on one client: who does not answer in time is named and left out, who sends nonsense is refused and
named, and with too few answers the round is repeated with others. After every round all of it is on disk. Clients are
chosen by name, from a generator of the plan's seed and the round, and added up in the order of their names: a
federation that was killed and started again ends with the same bits.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import ConfigRecord, RecordDict
from flwr.serverapp import Grid

from ..errors import FitError, InputError
from ..heads import Statistics
from ..model import AdaptedModel
from ..seeding import make_generator, permutation
from . import messages
from .aggregation import aggregate, check_step, outvoted
from .checkpoint import Checkpoint
from .client_manager import ClientManager, FederationError
from .compression import decode, encode
from .parameters import ParameterLayout, layout_of, read
from .plan import Plan
from .privacy import Accountant, clip, noisy_mean, sample
from .secure_aggregation import SecureAggregationError, SecureSum, majority, secure_sum
from .statistics import from_arrays, shapes_of
from .transport import Traffic, Transport

TRIES = 3  # of a round with too few answers

Say = Callable[[str], None]
Trouble = dict[str, dict[str, str]]  # "missing" and "refused", each: client → why


class FederatedServer:
    """One federation. ``evaluate`` sees from above, in a simulation; in earnest the clients are asked."""

    def __init__(
        self,
        grid: Grid,
        plan: Plan,
        model: Callable[[int], AdaptedModel],
        *,
        folder: Path | None = None,
        evaluate: Callable[[np.ndarray], dict[str, Any]] | None = None,
        say: Say = lambda _: None,
        watch: Callable[[dict[str, Any]], None] = lambda _: None,
        wait: float = 600.0,
    ) -> None:
        self.plan = plan
        self.make_model = model  # given the number of classes, which a linear head needs
        self.model = model(1)
        self.folder = folder
        self.evaluate = evaluate
        self.say = say
        self.watch = watch
        self.talk = Transport(grid, plan.timeout)
        self.roster = ClientManager(self.talk, plan, self.model, say, wait)

    def run(self) -> Checkpoint:
        """All rounds that are still to come."""
        plan = self.plan
        state = Checkpoint.load(self.folder, plan) if self.folder else None
        self.roster.gather()
        classes = state.classes if state else self.roster.classes()
        self.model = self.make_model(len(classes))
        self.start = read(self.model)
        self.layout: ParameterLayout = layout_of(self.model)
        if state is None:
            state = Checkpoint(self.start.copy(), classes, [], {"round": 0, **self.measure(self.start)})
            self.keep(state, state.began)
        elif state.done < plan.rounds:
            self.say(f"Going on after round {state.done}.")
        budget = self.accountant(state)
        while state.done < plan.rounds:
            if budget and not budget.can_continue():
                self.say(f"No further round: {budget.summary()}, and one more would go beyond the budget.")
                break
            number = state.done + 1
            step, line = self.round(number, state.psi)
            state.psi = (state.psi + step).astype(state.psi.dtype)
            if budget:
                line |= {"epsilon": budget.spend(), "delta": budget.delta}
                state.spent = budget.to_json()
            if number == plan.rounds or (plan.evaluate_every and number % plan.evaluate_every == 0):
                line |= self.measure(state.psi)
            state.rounds.append(line)
            self.keep(state, line)
        return state

    def keep(self, state: Checkpoint, line: dict[str, Any]) -> None:
        if self.folder:
            state.save(self.folder, self.plan)
        self.watch(line)

    def round(self, number: int, psi: np.ndarray) -> tuple[np.ndarray, dict[str, Any]]:
        """The step of a round, and what there is to say about it."""
        self.talk.traffic["training"] = Traffic()
        trouble: Trouble = {"missing": {}, "refused": {}}
        for attempt in range(TRIES):
            self.roster.gather()
            chosen = self.choose(number, attempt)
            found = (self.securely if self.plan.secure else self.openly)(number, psi, chosen, trouble)
            if found is not None:
                step, line = found
                head = {"round": number, "clients": sorted(chosen), **trouble}
                return step, head | line | self.talk.traffic["training"].line()
            self.say(f"Round {number}: fewer than {self.plan.min_clients} usable answers; it is repeated.")
        reasons = "; ".join(
            f"{n}: {w}" for n, w in sorted({**trouble["missing"], **trouble["refused"]}.items())
        )
        raise FederationError(
            f"Round {number} had fewer than {self.plan.min_clients} usable answers {TRIES} times ({reasons}).",
            "What was learned until then is kept: start it again when the clients are there.",
        )

    def choose(self, number: int, attempt: int) -> dict[str, int]:
        """The clients of a round, by name."""
        here = self.roster.here()
        names, wanted = sorted(here), self.plan.clients_per_round
        generator = make_generator(self.plan.seed, "clients", number, attempt)
        if self.plan.privacy:  # who was drawn is part of the secret: a known seed only in a simulation
            picked = sample(names, self.per_round / len(self.roster), generator if self.evaluate else None)
        else:
            if len(names) < wanted:
                self.say(f"Round {number}: {len(names)} clients are there, {wanted} were asked for.")
            picked = [names[i] for i in permutation(len(names), generator)[:wanted].tolist()]
        return {name: here[name] for name in sorted(picked)}

    def openly(
        self, number: int, psi: np.ndarray, chosen: Mapping[str, int], trouble: Trouble
    ) -> tuple[np.ndarray, dict[str, Any]] | None:
        """Single replies, looked at one by one."""
        plan, sizes = self.plan, self.layout.sizes
        sent, arrived = self.pack(psi)
        requests = dict.fromkeys(chosen.values(), messages.request(plan, number, sent))
        steps: dict[str, np.ndarray] = {}
        examples: dict[str, int] = {}
        losses: dict[str, float] = {}
        for name, reply in sorted(self.ask(messages.ROUND, requests, "training", trouble).items()):
            try:
                vector = decode(messages.arrays_of(reply), plan.compression, sizes)
                step = vector - arrived if plan.compression == "none" else vector
                check_step(step)
                count, loss = messages.number(reply, "num-examples"), messages.number(reply, "loss")
                if not count >= 1:
                    raise InputError("it speaks for no examples.")
            except FitError as error:
                trouble["refused"][name] = str(error)
                self.say(f"Round {number}: what {name} sent is refused: {error}")
                continue
            steps[name], examples[name], losses[name] = step, int(count), loss
        if plan.privacy:
            total = np.zeros(self.layout.length)
            for name in sorted(steps):
                total += clip(steps[name], plan.privacy.clip)[0]
            return self.private(total, number), {}
        if len(steps) < plan.min_clients:
            return None
        step = aggregate(plan, number, steps, examples)
        everything = sum(examples.values())
        return step, {
            "examples": everything,
            "loss": sum(losses[name] * examples[name] for name in losses) / everything,
            "outvoted": outvoted(steps, step),
        }

    def securely(
        self, number: int, psi: np.ndarray, chosen: Mapping[str, int], trouble: Trouble
    ) -> tuple[np.ndarray, dict[str, Any]] | None:
        """Only the sum of what the clients send is ever seen."""
        plan = self.plan
        work = messages.request(plan, number, self.pack(psi)[0])
        shapes = {"psi": (self.layout.length,), "weight": (1,)}
        sums = self.sum_securely(chosen, work, shapes, "training", trouble)
        if plan.privacy:  # a round that failed is one in which nobody came, and is paid for
            return self.private(np.zeros(self.layout.length) if sums is None else sums["psi"], number), {}
        if sums is None:
            return None
        weight = float(sums["weight"][0])
        step = sums["psi"] / max(weight, 1.0)
        try:
            check_step(step)
        except InputError as error:
            self.say(f"Round {number}: the sum cannot be used: {error}")
            return None
        return step, {"examples": round(weight)}

    # Privacy

    @property
    def per_round(self) -> int:
        return min(self.plan.clients_per_round, len(self.roster))

    def accountant(self, state: Checkpoint) -> Accountant | None:
        privacy = self.plan.privacy
        if privacy is None:
            return None
        new = Accountant(len(self.roster), self.per_round, privacy.noise, privacy.delta, privacy.epsilon)
        return Accountant.from_json(state.spent).continued(new) if state.spent else new

    def private(self, total: np.ndarray, number: int) -> np.ndarray:
        """The mean of clipped steps with noise; its divisor does not depend on who took part."""
        privacy = self.plan.privacy
        assert privacy is not None
        generator = make_generator(self.plan.seed, "privacy noise", number) if self.evaluate else None
        return noisy_mean(
            total,
            limit=privacy.clip,
            noise=privacy.noise,
            denominator=self.per_round,
            generator=generator,
        )

    # Talking

    def pack(self, psi: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """ψ as it is sent, and as it arrives: compressed is its difference from the common start."""
        how, sizes = self.plan.compression, self.layout.sizes
        if how == "none":
            return encode(psi, how, sizes), psi
        sent = encode(psi - self.start, how, sizes)
        return sent, self.start + decode(sent, how, sizes)

    def ask(
        self, kind: str, requests: Mapping[int, RecordDict], purpose: str, trouble: Trouble
    ) -> dict[str, RecordDict]:
        """Replies by name; who is missing or cannot take part is noted and said."""
        answers, silent = self.talk.exchange(kind, requests, purpose)
        found: dict[str, RecordDict] = {}
        for node in sorted(requests):
            name = self.roster.members[node].name
            if node in silent:
                trouble["missing"][name] = silent[node]
                self.say(f"{name} is missing: {silent[node]}")
            elif why := messages.refusal(answers[node]):
                trouble["refused"][name] = why
                self.say(f"{name} cannot take part: {why}")
            else:
                found[name] = answers[node]
        return found

    def sum_securely(
        self,
        chosen: Mapping[str, int],
        work: RecordDict,
        shapes: Mapping[str, tuple[int, ...]],
        purpose: str,
        trouble: Trouble,
    ) -> dict[str, np.ndarray] | None:
        """Sums over the clients that stayed to the end; None if too few did."""
        plan = ConfigRecord({"plan": self.plan.to_json()})

        def send(stage: str, requests: Mapping[int, RecordDict]) -> dict[int, RecordDict]:
            full = {node: RecordDict({**content, "config": plan}) for node, content in requests.items()}
            return self.ask_nodes(messages.SECURE + stage, full, purpose, trouble)

        if len(chosen) < max(self.plan.min_clients, 2):
            return None
        try:
            made: SecureSum | None = secure_sum(
                send,
                list(chosen.values()),
                threshold=majority(len(chosen)),
                session=secrets.token_hex(8),
                work=work,
                shapes=dict(shapes),
            )
            dropped = made.dropped if made else {}
        except SecureAggregationError as error:
            made, dropped = None, error.dropped
            self.say(str(error))
        for node, why in dropped.items():
            name = self.roster.members[node].name
            if trouble["missing"].setdefault(name, why) == why:
                self.say(f"{name} is missing: {why}")
        return made.sums if made and len(made.contributed) >= self.plan.min_clients else None

    def ask_nodes(
        self, kind: str, requests: Mapping[int, RecordDict], purpose: str, trouble: Trouble
    ) -> dict[int, RecordDict]:
        found = self.ask(kind, requests, purpose, trouble)
        return {node: found[name] for node in requests if (name := self.roster.members[node].name) in found}

    def measure(self, psi: np.ndarray) -> dict[str, Any]:
        """Accuracy: seen from above in a simulation, on the clients' own test images otherwise."""
        if self.evaluate:
            return self.evaluate(psi)
        if self.plan.head == "linear":
            return {}
        content = messages.request(self.plan, 0, self.pack(psi)[0])
        able = [node for node in self.roster.here().values() if self.roster.members[node].tests]
        answers, _ = self.talk.exchange(messages.EVALUATE, dict.fromkeys(able, content), "evaluating")
        found = {}
        for node, reply in answers.items():
            if not messages.refusal(reply) and messages.number(reply, "num-examples") > 0:
                found[self.roster.members[node].name] = messages.number(reply, "accuracy")
        if not found:
            return {}
        mean = sum(found.values()) / len(found)
        return {"personalized": mean, "clients_accuracy": dict(sorted(found.items()))}

    def statistics(self, psi: np.ndarray) -> tuple[Statistics, list[str]]:
        """The summed statistics of all clients that are there, and the classes they are of."""
        self.roster.gather()
        plan, chosen, classes = self.plan, self.roster.here(), self.roster.classes()
        features = self.model.backbone.features
        content = messages.request(plan, 0, self.pack(psi)[0], classes=classes)
        trouble: Trouble = {"missing": {}, "refused": {}}
        if plan.secure:
            shapes = shapes_of(len(classes), features, plan.head)
            sums = self.sum_securely(chosen, content, shapes, "statistics", trouble)
            if sums is None:
                raise FederationError("The statistics could not be summed.", "Start it again: ψ is kept.")
            return from_arrays(sums, len(classes), features, plan.head), classes
        total: Statistics | None = None
        requests = dict.fromkeys(chosen.values(), content)
        for name, reply in sorted(self.ask(messages.STATISTICS, requests, "statistics", trouble).items()):
            try:
                part = from_arrays(messages.arrays_of(reply), len(classes), features, plan.head)
            except FitError as error:
                self.say(f"The statistics of {name} are refused: {error}")
                continue
            total = part if total is None else total + part
        if total is None:
            raise FederationError("No client sent its statistics.", "Start it again: ψ is kept.")
        return total, classes

    def finish(self, psi: np.ndarray) -> dict[str, str]:
        """Let every client keep its personal classifier under the final ψ; what each of them wrote."""
        content = messages.request(self.plan, self.plan.rounds, self.pack(psi)[0])
        nodes = dict.fromkeys(self.roster.here().values(), content)
        answers, _ = self.talk.exchange(messages.FINISH, nodes, "finishing")
        return {
            self.roster.members[node].name: str(messages.config_of(reply, "about").get("saved", ""))
            for node, reply in sorted(answers.items())
        }
