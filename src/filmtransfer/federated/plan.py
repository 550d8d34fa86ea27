"""The plan of a federation: all settings that server and clients share.

It is sent to every client, so it has only numbers and strings. The plans of the paper (its appendix on federated
learning) have names; all randomness is determined by ``seed``, the round and the client's name.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from ..errors import UsageError, check_choice, check_count, check_flag, check_number, invalid_choice
from ..formatting import count
from ..heads import HEADS, Scatter
from ..heads.head import TrainedBy
from ..training import config
from ..training.config import TrainingConfig
from ..training.presets import preset

ALGORITHMS = ("fedavg", "fedprox", "trimmed_mean", "median", "krum", "multikrum")
ROBUST = ("trimmed_mean", "median", "krum", "multikrum")
COMPRESSIONS = ("none", "float16", "int8")
# Heads with a global classifier: from sums that can be sent, or as parameters trained by batches.
FEDERATED_HEADS = [
    name for name, head in HEADS.items() if head.scatter in ("none", "task") or head.trained_by == "batches"
]
PRESETS = ("cifar100", "quickdraw", "released", "bit", "small")
# The head of "bit" is federated in simulations only.
DEPLOYED_PRESETS = tuple(name for name in PRESETS if name != "bit")
# Training settings that a plan does not have; image_size applies to images of any size.
NOT_SHARED = {
    "small_image_size", "train_size", "cache_mb", "hold_out", "adapter", "adapter_options", "rule", "search_steps",
    "time_limit",
}  # fmt: skip
TRAINING = [name for name in config.names() if name not in NOT_SHARED]

# What a setting may be: whole numbers with their minimum, and other numbers with a condition, also in words.
COUNTS = {
    "rounds": 0, "clients_per_round": 0, "decay_every": 0, "malicious": 0, "min_clients": 1, "evaluate_every": 0,
}  # fmt: skip
NumberRule = tuple[Callable[[float], bool], str]
POSITIVE: NumberRule = (lambda value: value > 0, "a number above 0")
NUMBERS: dict[str, NumberRule] = {
    "decay": (lambda value: 0 < value <= 1, "a number above 0 and at most 1"),
    "temperature": POSITIVE,
    "mu": (lambda value: value >= 0, "a number of at least 0"),
    "trim": (lambda value: 0 <= value < 0.5, "a number of at least 0 and below 0.5"),
    "seed": (lambda value: isinstance(value, int), "a whole number"),
    "timeout": (lambda value: value > 0, "a number of seconds above 0"),
}
PRIVACY_NUMBERS: dict[str, NumberRule] = {
    "clip": POSITIVE,
    "noise": POSITIVE,
    "delta": (lambda value: 0 < value < 1, "a number above 0 and below 1"),
    "epsilon": POSITIVE,
}


@dataclass(frozen=True)
class Privacy:
    """User-level differential privacy of ψ: updates of clients are clipped, and Gaussian noise is added to the mean."""

    clip: float = 1.0  # the largest Euclidean norm of a client's update
    noise: float = 1.0  # standard deviation of the noise on the sum, in units of the clip
    delta: float = 1e-5
    epsilon: float = 8.0  # the budget: no round is started that would exceed it

    def __post_init__(self) -> None:
        for name, rule in PRIVACY_NUMBERS.items():
            check_number(name, getattr(self, name), *rule)

    @classmethod
    def from_settings(cls, settings: object) -> Privacy:
        """Return the privacy of a plan from its settings by name."""
        if isinstance(settings, Privacy):
            return settings
        if not isinstance(settings, Mapping):
            raise UsageError(
                f"privacy cannot be {settings!r}.", "As in --set 'privacy={noise=2.0, clip=0.5}'."
            )
        names = [f.name for f in fields(cls)]
        if unknown := sorted(settings.keys() - set(names)):
            raise invalid_choice("A setting of privacy", unknown[0], names)
        return cls(**settings)


@dataclass(frozen=True)
class Plan:
    """The settings of a federation."""

    rounds: int = 60
    clients_per_round: int = 5  # 0: all that are connected
    decay: float = 0.3  # factor of the learning rate …
    decay_every: int = 20  # … after this many rounds; 0: constant
    head: str = "protonets"
    temperature: float = 1.0  # τ in the episodes, for heads with this option; the paper has 1
    algorithm: str = "fedavg"
    mu: float = 0.01  # μ of FedProx's proximal term
    trim: float = 0.2  # fraction of the values removed at each end, in the trimmed mean
    malicious: int = 1  # number of malicious clients that Krum assumes
    compression: str = "none"
    secure: bool = False
    privacy: Privacy | None = None
    training: TrainingConfig = field(  # of each client in each round; all weights with a linear head: BiT
        default_factory=lambda: preset("federated_cifar100", image_size=224)
    )
    backbone: str = "efficientnet_lite0"
    seed: int = 0
    min_clients: int = 2  # usable replies that a round needs
    timeout: float = 3600.0  # seconds that a round waits for its clients
    evaluate_every: int = 1  # rounds between two evaluations; 0: only at the end
    assess: bool = True  # whether the clients' summed scores calibrate the classifier over all classes

    @property
    def trained_by(self) -> TrainedBy:
        """How the head is trained."""
        return HEADS[self.head].trained_by

    @property
    def scatter(self) -> Scatter:
        """The second moments that the global head needs."""
        return HEADS[self.head].scatter or "none"

    def rate(self, server_round: int) -> float:
        """Return the learning rate of a round (1 is the first)."""
        times = (server_round - 1) // self.decay_every if self.decay_every else 0
        return self.training.learning_rate * self.decay**times

    def round_name(self, server_round: int) -> str:
        """Return a round in words; 0 is the evaluation before the first."""
        return f"Round {server_round} of {self.rounds}" if server_round else "Before the first round"

    def training_config(self, server_round: int = 1) -> TrainingConfig:
        """Return the training config of a client in a round."""
        return replace(self.training, learning_rate=self.rate(server_round))

    @staticmethod
    def names() -> set[str]:
        """Return the names of all settings of a plan, including those of the training."""
        return {f.name for f in fields(Plan)} - {"training"} | set(TRAINING)

    def override(self, **chosen: Any) -> Plan:
        """Return this plan with the chosen settings (None: not chosen), validated."""
        if unknown := sorted(chosen.keys() - self.names()):
            raise invalid_choice("A setting", unknown[0], sorted(self.names()))
        if chosen.get("privacy") is not None:
            chosen["privacy"] = Privacy.from_settings(chosen["privacy"])
        training = {name: chosen.pop(name) for name in TRAINING if name in chosen}
        training["small_image_size"] = training.get("image_size")
        chosen["training"] = self.training.override(**training)
        plan = replace(self, **{k: v for k, v in chosen.items() if v is not None})
        plan.validate()
        return plan

    def validate(self) -> None:
        """Raise an error if a setting is invalid, or settings contradict each other."""
        for name, minimum in COUNTS.items():
            check_count(name, getattr(self, name), minimum)
        for name, rule in NUMBERS.items():
            check_number(name, getattr(self, name), *rule)
        for name in ("secure", "assess"):
            check_flag(name, getattr(self, name))
        if not isinstance(self.backbone, str):
            raise UsageError(
                f"backbone cannot be {self.backbone!r}.", "It is the name of one; see 'fit backbones'."
            )
        for name, allowed in (
            ("algorithm", ALGORITHMS),
            ("compression", COMPRESSIONS),
            ("head", FEDERATED_HEADS),
        ):
            check_choice(f"The {name}", getattr(self, name), allowed)
        self._validate_combinations()

    def _validate_combinations(self) -> None:
        if (self.training.train == "all") != (self.trained_by == "batches"):
            raise UsageError(
                f"train={self.training.train!r} with the head {self.head!r} cannot be federated.",
                "Use train='all' with a head trained by batches (BiT), and train='adapter' with others (FiT).",
            )
        if self.clients_per_round and self.min_clients > self.clients_per_round:
            raise UsageError(
                f"A round of {count(self.clients_per_round, 'client')} never has {self.min_clients} replies.",
                "Lower min_clients, or raise clients_per_round.",
            )
        if self.secure and self.algorithm in ROBUST:
            raise UsageError(
                f"{self.algorithm} compares single clients, which secure aggregation hides.",
                "Choose one of the two; fedavg and fedprox can be combined with secure aggregation.",
            )
        if self.secure and self.compression != "none":
            raise UsageError(
                "Masked values are 64-bit integers, which cannot be compressed.",
                "Choose secure aggregation or compression.",
            )
        if self.privacy and self.algorithm in ROBUST:
            raise UsageError(
                f"Differential privacy is implemented for a mean, not for {self.algorithm}.",
                "Use fedavg or fedprox.",
            )

    @classmethod
    def from_settings(cls, settings: Mapping[str, object]) -> Plan:
        """Return the plan of a benchmark's run: its preset with the settings that belong to a plan."""
        chosen = {name: value for name, value in settings.items() if name in cls.names()}
        return named_plan(str(settings.get("preset", "small"))).override(**chosen)

    def to_dict(self) -> dict[str, Any]:
        """Return all settings by name, including those of the training."""
        own = asdict(self)
        training = own.pop("training")
        return own | {name: training[name] for name in TRAINING}

    def to_json(self) -> str:
        """Return the settings as JSON."""
        return json.dumps(self.to_dict(), sort_keys=True)

    @property
    def digest(self) -> str:
        """A hash of all settings, by which a client's policy names a plan."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """Return the plan that ``to_json`` wrote."""
        return cls.from_dict(json.loads(text))

    @classmethod
    def from_dict(cls, settings: Mapping[str, Any]) -> Plan:
        """Return the plan with these settings, exactly: None is a value of ``film_from``."""
        own = {name: value for name, value in settings.items() if name not in TRAINING}
        training = {name: settings[name] for name in TRAINING if name in settings}
        if "image_size" in training:
            training["small_image_size"] = training["image_size"]
        if own.get("privacy") is not None:
            own["privacy"] = Privacy(**own["privacy"])
        plan = cls(**own)
        return replace(plan, training=replace(plan.training, **training))


def named_plan(name: str) -> Plan:
    """Return the plan of one of the paper's experiments, or ``small``, which suits two CPU cores."""
    if name == "cifar100":
        return Plan(rounds=60, decay=0.3, decay_every=20)
    if name == "quickdraw":
        training = preset("federated_quickdraw", image_size=224)  # its images have 28 pixels
        return Plan(rounds=120, decay=1.0, decay_every=0, training=training)
    if name == "released":  # with the weight decay of the authors' released code
        return named_plan("cifar100").override(weight_decay=1e-3)
    if name == "bit":
        return named_plan("cifar100").override(train="all", head="linear", decay=1.0, decay_every=0)
    if name == "small":
        # The temperature was chosen for efficientnet_lite0 (docs/log.md).
        return Plan.from_dict(
            {"rounds": 20, "split": "auto", "image_size": 96, "film_from": None, "temperature": 400.0}
        )
    raise invalid_choice("The preset", name, PRESETS)
