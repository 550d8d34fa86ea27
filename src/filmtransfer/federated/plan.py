"""A plan: everything a federation agrees on before its first round.

It travels to every client, so it is plain numbers and words. The paper's are there by name (its appendix on
federated learning); what is random follows from ``seed``, the round and the client's name.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from ..errors import UsageError, invalid_choice
from ..training.presets import Settings, preset

ALGORITHMS = ("fedavg", "fedprox", "trimmed_mean", "median", "krum", "multikrum")
ROBUST = ("trimmed_mean", "median", "krum", "multikrum")
COMPRESSIONS = ("none", "float16", "int8")
HEADS = ("protonets", "lda", "linear")
PRESETS = ("cifar100", "quickdraw", "released", "bit", "small")


@dataclass(frozen=True)
class Privacy:
    """User-level differential privacy of ψ: each client's step is clipped, the mean gets Gaussian noise."""

    clip: float = 1.0  # the longest step of a client, in the Euclidean norm
    noise: float = 1.0  # standard deviation of the noise on the sum, in units of the clip
    delta: float = 1e-5
    epsilon: float = 8.0  # the budget: no round is begun that would go beyond it


@dataclass(frozen=True)
class Plan:
    """What the server wants of its clients."""

    rounds: int = 60
    clients_per_round: int = 5
    steps: int = 10  # of each client in each round
    learning_rate: float = 0.003
    decay: float = 0.3  # of the learning rate …
    decay_every: int = 20  # … after so many rounds; 0: constant
    head: str = "protonets"
    temperature: float = 1.0  # of ProtoNets, in the episodes; the paper has 1
    train: str = "adapter"  # "all": every weight and a linear head travel (BiT)
    algorithm: str = "fedavg"
    mu: float = 0.01  # FedProx
    trim: float = 0.2  # of the clients' numbers at each end, in the trimmed mean
    malicious: int = 1  # clients that Krum has to withstand
    compression: str = "none"
    secure: bool = False
    privacy: Privacy | None = None
    weight_decay: float = 0.0
    split: str = "paper"
    support_size: int = 100
    max_query: int = 2000
    image_size: int = 224  # one for all clients, whatever their images
    film_from: int | None = 0
    micro_batch: int = 64
    batch: int = 32  # of a linear head's steps
    backbone: str = "efficientnet_lite0"
    seed: int = 0
    min_clients: int = 2  # a round with fewer answers changes nothing
    timeout: float = 3600.0  # seconds that a round waits for its clients
    evaluate_every: int = 1  # rounds between two evaluations; 0: only at the end

    def rate(self, server_round: int) -> float:
        """The learning rate of a round (1 is the first)."""
        times = (server_round - 1) // self.decay_every if self.decay_every else 0
        return self.learning_rate * self.decay**times

    def settings(self, server_round: int = 1) -> Settings:
        """What a client's fine-tuning is told in a round."""
        return Settings(
            steps=self.steps,
            learning_rate=self.rate(server_round),
            split=self.split,
            support_size=self.support_size,
            max_query=self.max_query,
            image_size=self.image_size,
            small_image_size=self.image_size,
            film_from=self.film_from,
            micro_batch=self.micro_batch,
            train=self.train,
            batch=self.batch,
            weight_decay=self.weight_decay,
        )

    def with_choices(self, **chosen: Any) -> Plan:
        """This plan with whatever was chosen by hand (None means not chosen), looked at."""
        unknown = chosen.keys() - {f.name for f in fields(self)}
        if unknown:
            raise invalid_choice("A setting", sorted(unknown)[0], sorted(f.name for f in fields(self)))
        if isinstance(said := chosen.get("privacy"), Mapping):
            names = [f.name for f in fields(Privacy)]
            if said.keys() - set(names):
                raise invalid_choice("Of privacy a setting", sorted(said.keys() - set(names))[0], names)
            chosen["privacy"] = Privacy(**said)
        plan = replace(self, **{k: v for k, v in chosen.items() if v is not None})
        plan.check()
        return plan

    def check(self) -> None:
        for name, least in (
            ("rounds", 0), ("clients_per_round", 1), ("steps", 0), ("decay_every", 0), ("malicious", 0),
            ("min_clients", 1), ("evaluate_every", 0),
        ):  # fmt: skip
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise UsageError(f"{name} cannot be {value!r}.", f"It is a whole number of at least {least}.")
        for name, allowed in (("algorithm", ALGORITHMS), ("compression", COMPRESSIONS), ("head", HEADS)):
            if getattr(self, name) not in allowed:
                raise invalid_choice(f"The {name}", getattr(self, name), allowed)
        if not 0 < self.decay <= 1:
            raise UsageError(f"decay cannot be {self.decay}.", "It is above 0 and at most 1.")
        if not 0 < self.temperature < math.inf:
            raise UsageError(f"temperature cannot be {self.temperature}.", "It is a number above 0.")
        if not 0 <= self.mu < math.inf:
            raise UsageError(f"mu cannot be {self.mu}.", "It is at least 0.")
        if not 0 <= self.trim < 0.5:
            raise UsageError(f"trim cannot be {self.trim}.", "It is at least 0 and below 0.5.")
        if not 0 < self.timeout < math.inf:
            raise UsageError(f"timeout cannot be {self.timeout}.", "It is a number of seconds above 0.")
        if (self.train == "all") != (self.head == "linear"):
            raise UsageError(
                f"train={self.train!r} with the head {self.head!r} is not a federation we know.",
                "BiT is train='all' with head='linear'; FiT is train='adapter' with protonets or lda.",
            )
        if self.min_clients > self.clients_per_round:
            raise UsageError(
                f"A round of {self.clients_per_round} clients never has {self.min_clients} answers.",
                "Lower min_clients, or raise clients_per_round.",
            )
        if self.secure and self.algorithm in ROBUST:
            raise UsageError(
                f"{self.algorithm} compares single clients, which secure aggregation hides.",
                "Choose one of the two; fedavg and fedprox go with secure aggregation.",
            )
        if self.secure and self.compression != "none":
            raise UsageError(
                "Masked numbers are whole numbers of 64 bits: nothing is left to compress.",
                "Choose secure aggregation or compression.",
            )
        if self.privacy and self.algorithm in ROBUST:
            raise UsageError(
                f"The noise of differential privacy is known for a mean, not for {self.algorithm}.",
                "Use fedavg or fedprox.",
            )
        self.settings().with_choices()

    def to_json(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Plan:
        found = json.loads(text)
        privacy = found.pop("privacy", None)
        return cls(**found, privacy=None if privacy is None else Privacy(**privacy))


def from_settings(settings: Mapping[str, Any]) -> Plan:
    """The plan of a benchmark's run: the named one (``preset``), with what else the settings say of a plan."""
    known = {f.name for f in fields(Plan)}
    chosen = {name: value for name, value in settings.items() if name in known}
    return named(str(settings.get("preset", "small"))).with_choices(**chosen)


def named(name: str) -> Plan:
    """The plan of one of the paper's experiments, or ``small``, which suits two CPU cores."""
    if name == "cifar100":
        return _paper("federated_cifar100", rounds=60, decay=0.3, decay_every=20)
    if name == "quickdraw":
        return _paper("federated_quickdraw", rounds=120, decay=1.0, decay_every=0)
    if name == "released":  # with the weight decay of the authors' released code
        return replace(named("cifar100"), weight_decay=1e-3)
    if name == "bit":
        return replace(
            named("cifar100"), train="all", head="linear", learning_rate=0.003, decay=1.0, decay_every=0
        )
    if name == "small":
        # The temperature was found on efficientnet_lite0 (docs/log.md).
        return Plan(rounds=20, split="auto", image_size=96, film_from=None, temperature=400.0)
    raise invalid_choice("The preset", name, PRESETS)


def _paper(name: str, **chosen: Any) -> Plan:
    said = preset(name)
    return Plan(
        steps=said.steps or 0,
        learning_rate=said.learning_rate,
        split=said.split,
        support_size=said.support_size,
        max_query=said.max_query,
        image_size=said.small_image_size,  # both sets have images of at most 32 pixels
        **chosen,
    )
