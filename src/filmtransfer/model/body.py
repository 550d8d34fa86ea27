"""Which parameters of the backbone are trained for a task.

``train="adapter"`` trains the parameters of an adapter and nothing else: FiLM, unless another is named. ``"all"``
trains every weight, in a copy of its own (BiT), ``"none"`` leaves the backbone frozen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from ..errors import UsageError, invalid_choice

Train = Literal["adapter", "all", "none"]
TRAIN: tuple[Train, ...] = get_args(Train)


@dataclass(frozen=True)
class Body:
    """Which parameters of the backbone are trained; FiLM is trained from the stage ``film_from`` on."""

    train: Train = "adapter"
    adapter: str = "film"
    film_from: int = 0
    options: Mapping[str, object] = field(default_factory=dict)

    @classmethod
    def of(
        cls, train: str, adapter: str, film_from: int = 0, options: Mapping[str, object] | None = None
    ) -> Body:
        """Return a checked body, in which the options of the adapter are complete."""
        if train not in TRAIN:
            raise invalid_choice("train", train, TRAIN)
        if train != "adapter" and adapter != "film":
            raise UsageError(
                f"train={train!r} trains no adapter, but {adapter!r} was named.",
                "Leave one of them out, or say train='adapter'.",
            )
        if adapter == "film" and not options:  # the other adapters need torch to be described
            return cls(train, adapter, film_from)
        from ..adapters import complete_options

        return cls(train, adapter, film_from, complete_options(adapter, options))

    @property
    def folds(self) -> bool:
        """Whether frozen norms may be folded into the convolutions; not where these are trained."""
        return self.train != "all"

    @property
    def is_film(self) -> bool:
        """Whether the network has FiLM layers and no other trainable parameters."""
        return self.train != "all" and self.adapter == "film"

    @property
    def first_film_stage(self) -> int | None:
        """The first stage with FiLM; None if the backbone is left as it is, or something else is trained."""
        return self.film_from if self.is_film and self.train == "adapter" else None

    def describe(self) -> str:
        """Say what is trained of the backbone."""
        return "all weights" if self.train == "all" else f"the adapter {self.adapter}"
