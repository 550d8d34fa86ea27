"""What a graph is: the key by which it is found, and the facts that are stored inside it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..errors import UpdateFileError, UsageError
from ..parameters import check_parameters

if TYPE_CHECKING:
    from ..data.pixels import PixelSpec

KIND = "features"
FORMAT = 1  # of the graphs and of the files in the cache; a graph of another format has another key

Rows = tuple[np.ndarray, np.ndarray]


class Site(NamedTuple):
    """A FiLM site: the name of its norm, the number of channels and the index of its stage."""

    name: str
    channels: int
    stage: int


@dataclass(frozen=True)
class GraphKey:
    """Everything that the features of a graph depend on; two graphs with equal keys are interchangeable."""

    backbone: str
    digest: str  # of the weights
    size: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    film_from: int | None  # first stage with FiLM; None: FiLM nowhere

    @classmethod
    def of(cls, backbone: str, digest: str, spec: PixelSpec, film_from: int | None) -> GraphKey:
        """Return the key of a backbone with these weights and this input format."""
        return cls(backbone, digest, spec.size, tuple(spec.mean), tuple(spec.std), film_from)

    def with_digest(self, digest: str) -> GraphKey:
        """Return the key of the same backbone with other weights."""
        return replace(self, digest=digest)

    @property
    def file_name(self) -> str:
        """The name of the graph's file in the cache."""
        code = hashlib.sha256(json.dumps([asdict(self), FORMAT], sort_keys=True).encode()).hexdigest()
        readable = re.sub(r"[^A-Za-z0-9_.-]", "_", self.backbone)[:60]
        return f"{readable}-{self.size}-{code[:20]}.graph"


@dataclass(frozen=True)
class GraphFacts:
    """A graph's key, its sizes and the versions that made it."""

    key: GraphKey
    features: int  # D
    sites: tuple[Site, ...]  # with FiLM, in the order of the network
    versions: Mapping[str, str]

    @cached_property
    def channels(self) -> int:
        """P, the length of a row of γ or β."""
        return sum(site.channels for site in self.sites)

    @property
    def is_checked(self) -> bool:
        """Whether the version of onnxruntime that is installed is the one with which the graph was checked."""
        return self.versions.get("onnxruntime") == package_version("onnxruntime")

    def pack(self, parameters: Mapping[str, np.ndarray], film_from: int | None) -> Rows:
        """Return γ and β (P) of an update with FiLM from stage ``film_from`` on, in the order of the sites.

        Names and shapes have to match exactly and all values have to be finite. Before ``film_from``, γ = 1 and β = 0.
        """
        first = self.key.film_from
        if film_from is not None and (first is None or film_from < first):
            raise UsageError(
                f"This graph has no FiLM in stage {film_from}: it begins at stage {first}.",
                "Prepare the graph of the earlier stage.",
            )
        trained = [site for site in self.sites if film_from is not None and site.stage >= film_from]
        if film_from is not None and not trained:
            raise UsageError(f"FiLM cannot begin at stage {film_from}.", "No layer with FiLM follows.")
        shapes = {f"{site.name}.{kind}": (site.channels,) for site in trained for kind in ("gamma", "beta")}
        check_parameters(shapes, parameters)
        rows = np.ones(self.channels, np.float32), np.zeros(self.channels, np.float32)
        if trained:
            for row, kind in zip(rows, ("gamma", "beta"), strict=True):
                values = np.concatenate([parameters[f"{site.name}.{kind}"] for site in trained])
                row[self.channels - len(values) :] = values
        return rows

    def to_table(self) -> dict[str, object]:
        """Return the facts as they are stored in the properties of a graph."""
        return {"format": FORMAT, "kind": KIND, **asdict(self)}

    @classmethod
    def from_json(cls, text: str) -> GraphFacts:
        """Read the facts of a graph; raise an error if it is not a graph of this kind and format."""
        try:
            stored: dict[str, Any] = json.loads(text)
            if (stored["format"], stored["kind"]) != (FORMAT, KIND):
                raise ValueError
            key = {field.name: _frozen(stored["key"][field.name]) for field in fields(GraphKey)}
            sites = tuple(Site(*site) for site in stored["sites"])
            return cls(GraphKey(**key), int(stored["features"]), sites, stored["versions"])
        except (ValueError, KeyError, TypeError, AttributeError):
            raise UpdateFileError(
                "This is not a graph of a backbone.", "Delete the file: a new one is made when it is needed."
            ) from None


def package_version(name: str) -> str:
    """Return the version of an installed package without importing it; empty if it is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else value
