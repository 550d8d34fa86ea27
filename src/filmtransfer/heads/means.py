"""What heads that keep class means only share: ProtoNets and the cosine head."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Self

from ..arrays import Array, cast
from .head import Head, Shapes, State, check_support, class_means
from .statistics import Statistics


class Means(NamedTuple):
    """The state of a head of class means."""

    means: Array  # (C, D)


class MeansHead(Head):
    """A head of C·D parameters, the class means."""

    scatter = "none"

    def state_of(self, means: Array) -> State:
        """Return the state of class means."""
        return Means(means)

    def build(self, features: Array, labels: Array) -> State:
        """Compute the class means."""
        check_support(features, labels)
        return self.state_of(class_means(features, labels))

    def configure_from(self, statistics: Statistics) -> Self:
        """Configure the head from n_c and Σz."""
        return self.set_state(self.state_of(cast(statistics.means(), statistics.dtype)), statistics.counts)

    def tensors(self) -> dict[str, Array]:
        """Return the class means."""
        return {"means": self.configured()[0]}

    def restore(self, tensors: Mapping[str, Array], counts: Array) -> Self:
        """Configure the head from class means."""
        return self.set_state(self.state_of(tensors["means"]), counts)

    @classmethod
    def stored_shapes(cls, classes: int, features: int, examples: int) -> list[Shapes]:
        """Return the shape of the class means."""
        del examples
        return [{"means": (classes, features)}]
