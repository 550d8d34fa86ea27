"""Every setting of a training run, declared once: name, type, default, bounds and help.

The options of ``fit train``, recipe keys, the estimator's documentation, federated plans and ORBIT's settings
are derived from these fields. ``fit --help`` imports this module, so it does not import torch: methods that
need torch import it themselves.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import Field, asdict, dataclass, field, fields, replace
from functools import cache
from types import NoneType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from ..errors import UsageError, check_choice

if TYPE_CHECKING:
    from ..backbones import Backbone
    from ..model import Body
    from .baselines.batch import Rule

Split = Literal["auto", "paper", "split", "no_split", "use_all", "resplit"]
TrainedPart = Literal["adapter", "all", "none"]
AdapterName = Literal["film", "lora", "vpt", "adapter", "adaptformer", "convpass", "noah"]
RuleName = Literal["cosine", "hyperrule"]

T = TypeVar("T")
SMALL_IMAGE = 32  # "unless the image size was 32×32 pixels or less" (paper)


def setting(
    default: T,
    help: str,
    *,
    minimum: float = -math.inf,
    maximum: float = math.inf,
    above: float = -math.inf,
    none: str = "",
) -> T:
    """Declare a field: its help, its bounds (minimum ≤ value ≤ maximum, value > above), what None means."""
    bounds = {"minimum": minimum, "maximum": maximum, "above": above}
    return field(default=default, metadata={"help": help, "none": none, **bounds})


def _side(default: T, help: str, none: str = "") -> T:
    """Declare the side of an image, in pixels."""
    return setting(default, help, minimum=32, maximum=4096, none=none)


@dataclass(frozen=True)
class TrainingConfig:
    """Everything that determines a training run, beside data, backbone, head and seed."""

    steps: int | None = setting(
        400,
        "Training steps; 0 builds the head on the frozen backbone, within seconds.",
        minimum=0,
        none="as many as the BiT-HyperRule takes for the number of images",
    )
    learning_rate: float = setting(0.0035, "Learning rate of the optimiser.", above=0)
    split: Split = setting("auto", "How episodes divide the images into support and query (docs/presets.md).")
    support_size: int = setting(100, "Support images of an episode.", minimum=2)
    max_query: int = setting(2000, "Query images of an episode, at most.", minimum=1)
    image_size: int = _side(384, "Side of the images in pixels, for the head and for prediction.")
    small_image_size: int = _side(
        224,
        f"The same where no image is larger than {SMALL_IMAGE} pixels; image_size, if that alone is given.",
    )
    train_size: int | None = _side(
        None, "Side of the images in pixels during training.", none="as in prediction"
    )
    micro_batch: int = setting(64, "Images in memory at once during training.", minimum=1)
    film_from: int | None = setting(
        0,
        "Stage of the backbone from which on FiLM is trained, 0 for all ('fit show --backbone').",
        minimum=0,
        none="what suits the backbone",
    )
    cache_mb: float = setting(256, "Memory for activations below FiLM, in MB; 0 caches none.", minimum=0)
    hold_out: float = setting(
        0.0,
        "Fraction of each class held out of training to choose the interpolation factor α; 0: α = 1.",
        minimum=0,
        maximum=0.5,
    )
    train: TrainedPart = setting(
        "adapter", "What is trained of the backbone: an adapter, all of its weights, or nothing."
    )
    adapter: AdapterName = setting("film", "FiLM, or one of the adapters that the paper compares it with.")
    adapter_options: Mapping[str, Any] = field(
        default_factory=dict, hash=False, metadata={"help": "Sizes of the adapter, as in {rank=8}."}
    )
    rule: RuleName = setting(
        "cosine", "How a linear head is trained: AdamW with cosine decay, or the BiT-HyperRule."
    )
    batch: int = setting(32, "Images of a step with the linear head.", minimum=1)
    weight_decay: float = setting(0.0, "Weight decay of the optimiser.", minimum=0)
    search_steps: int = setting(
        0, "Steps to train NOAH's supernet, from which its subnet is chosen; 0: no search.", minimum=0
    )
    time_limit: float | None = setting(
        None, "Stop training after this many seconds.", above=0, none="no limit"
    )

    def validate(self) -> TrainingConfig:
        """Return the config; raise a UsageError for the first value that is not allowed."""
        for declared in settings():
            declared.check(getattr(self, declared.name))
        if self.search_steps and self.adapter != "noah":
            raise UsageError(
                f"There is nothing to search for {self.adapter}.", "search_steps is for adapter='noah'."
            )
        self.body()  # knows the adapters and their options
        return self

    def override(self, **chosen: Any) -> TrainingConfig:
        """Return the config with some settings replaced (None: not replaced), after validation."""
        return replace(self, **{k: v for k, v in chosen.items() if v is not None}).validate()

    def resolve(self, backbone: Backbone, images: int = 0) -> TrainingConfig:
        """Return the config with what it leaves to the backbone and to the number of images."""
        from .baselines.hyperrule import schedule

        film_from = backbone.film_from if self.film_from is None else self.film_from
        steps = schedule(images)[-1] if self.steps is None else self.steps
        return replace(self, film_from=film_from, steps=steps)

    def size_for(self, largest_side: int) -> int:
        """Return the image size of the head and of prediction, given the largest side among the images."""
        from .baselines.hyperrule import SMALL, resolution

        if self.rule == "hyperrule":
            small = resolution(largest_side, largest_side) == SMALL
        else:
            small = largest_side <= SMALL_IMAGE
        return self.small_image_size if largest_side > 0 and small else self.image_size

    def train_size_for(self, largest_side: int) -> int:
        """Return the image size of training; the HyperRule trains on random crops of larger squares."""
        from .baselines.hyperrule import MARGIN

        size = self.size_for(largest_side)
        return size + MARGIN if self.rule == "hyperrule" else min(self.train_size or size, size)

    def body(self) -> Body:
        """Return what is trained of the backbone."""
        from ..model import Body

        return Body.of(self.train, self.adapter, self.film_from or 0, self.adapter_options)

    def batch_rule(self, images: int, size: int) -> Rule:
        """Return the schedule of batch training, with predictions at ``size`` pixels."""
        from .baselines.batch import CosineSchedule
        from .baselines.hyperrule import HyperRule

        steps = self.steps or 0
        if self.rule == "hyperrule":
            return HyperRule(
                images=images, steps=steps, batch=self.batch, learning_rate=self.learning_rate, crop=size
            )
        return CosineSchedule(steps, self.learning_rate, self.batch, self.weight_decay)

    def to_dict(self) -> dict[str, Any]:
        """Return the settings by name, as update files and results store them; no time limit is no entry."""
        return {k: v for k, v in asdict(self).items() if not (k == "time_limit" and v is None)}


@dataclass(frozen=True)
class Setting:
    """A field of TrainingConfig as its users see it."""

    name: str
    kind: type  # int, float, str (one of the choices) or Mapping
    optional: bool  # whether None is a value
    choices: tuple[str, ...]  # the values of a setting that has few
    default: object
    help: str
    none: str = ""  # what None means
    minimum: float = -math.inf
    maximum: float = math.inf
    above: float = -math.inf

    def allowed(self) -> str:
        """Return in words which values are allowed."""
        if self.choices:
            return f"one of {', '.join(self.choices)}"
        if self.kind is Mapping:
            return "a mapping of names to values"
        number = "a whole number" if self.kind is int else "a number"
        if self.maximum < math.inf:
            return f"{number} from {self.minimum:g} to {self.maximum:g}"
        return (
            f"{number} above {self.above:g}" if self.above == 0 else f"{number} of at least {self.minimum:g}"
        )

    def check(self, value: object) -> None:
        """Raise a UsageError for a value that is not allowed."""
        if value is None and self.optional:
            return
        if self.choices:
            check_choice(self.name, value, self.choices)
            return
        kinds = (int, float) if self.kind is float else self.kind
        valid = isinstance(value, kinds) and not isinstance(value, bool)
        if valid and isinstance(value, (int, float)):
            valid = self.minimum <= value <= self.maximum and self.above < value < math.inf
        if not valid:
            raise UsageError(f"{self.name} cannot be {value!r}.", f"It is {self.allowed()}.")


@cache
def settings() -> tuple[Setting, ...]:
    """Return all training settings, in the order of their declaration."""
    hints = get_type_hints(TrainingConfig)
    return tuple(_setting(declared, hints[declared.name]) for declared in fields(TrainingConfig))


def names() -> list[str]:
    """Return the names of all training settings."""
    return [declared.name for declared in settings()]


def _setting(declared: Field[Any], hint: Any) -> Setting:
    optional = NoneType in get_args(hint)
    kind = next(kind for kind in get_args(hint) if kind is not NoneType) if optional else hint
    literal = get_origin(kind) is Literal
    return Setting(
        declared.name,
        str if literal else get_origin(kind) or kind,
        optional,
        get_args(kind) if literal else (),
        getattr(TrainingConfig(), declared.name),
        **declared.metadata,
    )
