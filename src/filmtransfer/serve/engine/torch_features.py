"""Features of a multi-user batch with torch: the fallback where onnxruntime cannot be used."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from ...arrays import to_numpy, to_tensor
from ...backbones import Backbone
from ...data.pixels import PixelSpec
from ...errors import UpdateFileError, UsageError
from ...film import FilmTable
from ...model import Update
from ...model.network import share_weights
from ...model.tensors import normalise
from .multi_user import BatchPlan


class TorchFeatures:
    """One backbone whose norms take their parameters from a table; thread-safe."""

    def __init__(self, backbone: Backbone, image_size: int | None = None) -> None:
        self.backbone = backbone
        self.plan = BatchPlan(batch=32, passes_at_once=1, wait=0.002)
        self.spec = replace(backbone.pixels, size=backbone.fit_size(image_size or backbone.pixels.size))
        self._network = share_weights(backbone.module)
        self._table = FilmTable(self._network, backbone.sites)
        self._lock = threading.Lock()  # of the table: one batch at a time

    def row(self, update: Update) -> np.ndarray:
        """Return the folded FiLM parameters (2, ·) of a checked update."""
        stage = update.body().first_film_stage
        try:
            sites = [] if stage is None else self.backbone.sites_from(stage)
        except UsageError as error:  # not the user's mistake: the file's
            raise UpdateFileError(error.message, "Train it again.") from None
        return to_numpy(self._table.pack({k: to_tensor(v) for k, v in update.film.items()}, sites))

    def group(self, update: Update) -> int | None:
        """Return what images must have in common, beside their size, to share a pass: nothing."""
        del update
        return None

    @torch.no_grad()
    def features(
        self, pixels: np.ndarray, spec: PixelSpec, group: int | None, rows: Sequence[np.ndarray]
    ) -> np.ndarray:
        """Compute features (B, D), image i with the FiLM parameters ``rows[i]``."""
        del group
        batch = normalise(to_tensor(pixels).to(self.backbone.device), spec).to(self._table.bare.dtype)
        with self._lock, self._table.rows([to_tensor(row) for row in rows]):
            features = self._network(batch.contiguous(memory_format=self.backbone.memory_format))
        return to_numpy(features)
