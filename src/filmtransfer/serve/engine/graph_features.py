"""Features of a multi-user batch on onnxruntime: every image has its own row of γ and β; torch is not imported.

For every image size there are at most two graphs: one with FiLM from the stage on where the fast preset begins, which is
cheaper, and one with FiLM everywhere. A graph that is missing is made in a child process, when the first update that
needs it is loaded.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ...backbones import backbone_facts, record_for
from ...data.pixels import PixelSpec
from ...errors import UpdateFileError, UsageError
from ...model import Update
from ...processes import default_threads
from ...runtime import FeatureSession, GraphKey
from ...runtime.weights_index import open_graph
from .multi_user import BatchPlan

MAX_GRAPHS = (
    8  # of one service: image sizes come from users, and each takes seconds, memory and space on the disk
)


@dataclass(frozen=True)
class GraphBackbone:
    """What is known of a backbone whose weights are in a graph."""

    name: str
    digest: str
    features: int

    def fit_size(self, size: int) -> int:
        """Return the largest image size up to ``size`` that the backbone can take."""
        return backbone_facts(self.name).fit_size(size)


class GraphFeatures:
    """The graphs of one backbone; thread-safe."""

    def __init__(
        self,
        backbone: str,
        weights: str | Path | None = None,
        image_size: int | None = None,
        threads: int | None = None,
        digest: str = "",
        on_phase: Callable[[str], None] | None = None,
    ) -> None:
        """``digest`` is that of the weights, if it is known; ``on_phase`` is called before a graph is made."""
        facts, self._weights, self._on_phase = backbone_facts(backbone), weights, on_phase
        # A pass of several images gains nothing: the activations of one stay in the cache (benchmarks/results/runtime.md).
        self.plan = BatchPlan(1, threads or default_threads(), wait=0.0)
        self.spec = replace(facts.pixels, size=facts.fit_size(image_size or facts.pixels.size))
        self._usual_stage = record_for(backbone).film_from
        self._sessions: dict[GraphKey, FeatureSession] = {}
        self._lock = threading.Lock()
        first = self._open(GraphKey.of(backbone, digest, self.spec, self._usual_stage))
        self.backbone = GraphBackbone(backbone, first.facts.key.digest, first.facts.features)

    def row(self, update: Update) -> np.ndarray:
        """Return the trained part of γ and β (2, ·) of a checked update; it ends with the last site of the network."""
        stage = update.body().first_film_stage
        facts = self._session(update.pixels, stage).facts
        try:
            rows = np.stack(facts.pack(update.film, stage))
        except UsageError as error:  # not the user's mistake: the file's
            raise UpdateFileError(error.message, "Train it again.") from None
        trained = sum(site.channels for site in facts.sites if stage is not None and site.stage >= stage)
        return rows[:, rows.shape[1] - trained :].copy()

    def group(self, update: Update) -> int | None:
        """Return what images must have in common, beside their size, to share a pass: the first stage of the graph."""
        return self._graph_stage(update.body().first_film_stage)

    def features(
        self, pixels: np.ndarray, spec: PixelSpec, group: int | None, rows: Sequence[np.ndarray]
    ) -> np.ndarray:
        """Compute features (B, D), image i with the FiLM parameters ``rows[i]``."""
        session = self._session(spec, group)
        film = np.zeros((2, len(rows), session.facts.channels), np.float32)
        film[0] = 1  # γ = 1 and β = 0 where FiLM was not trained
        for i, row in enumerate(rows):
            film[:, i, film.shape[2] - row.shape[1] :] = row
        return session.features(pixels, film[0], film[1])

    def _graph_stage(self, stage: int | None) -> int:
        return self._usual_stage if stage is None or stage >= self._usual_stage else 0

    def _session(self, spec: PixelSpec, stage: int | None) -> FeatureSession:
        if (spec.mean, spec.std) != (self.spec.mean, self.spec.std):
            raise UpdateFileError(
                f"This classifier normalises its images in another way than {self.backbone.name}.",
                "Train it again.",
            )
        return self._open(
            GraphKey.of(self.backbone.name, self.backbone.digest, spec, self._graph_stage(stage))
        )

    def _open(self, key: GraphKey) -> FeatureSession:
        """Return an open graph; the first caller opens or makes it, the others wait."""
        session = self._sessions.get(key)
        if session is None:
            with self._lock:
                session = self._sessions.get(key)
                if session is None:
                    if len(self._sessions) == MAX_GRAPHS:
                        raise UpdateFileError(
                            "This service has classifiers of too many different image sizes.",
                            f"Train it with images of {self.spec.size} pixels.",
                        )
                    session = open_graph(
                        key.backbone, key, weights=self._weights, threads=1, on_phase=self._on_phase
                    )
                    self._sessions[session.facts.key] = session
        return session
