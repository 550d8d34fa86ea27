"""One backbone for all users: a graph with γ and β as inputs, and a small file for each user.

    backbone   pixels (B, 3, S, S), gamma (B, P), beta (B, P)  →  features (B, D)
    user       features (B, D)  →  probabilities (B, C), logits (B, C), gamma (P), beta (P), ood_score (B), rejected (B)

P is the number of channels of all FiLM sites, in the order of the network. Every image has its own row of γ and β, so one batch
may serve several users. A user's file is a graph too: it needs onnxruntime and none of our code. To read γ and β from it,
run it on features of zeros.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from .. import film
from ..data.pixels import PixelSpec
from ..errors import InputError, UpdateFileError, UsageError
from ..estimator import FewShotClassifier
from ..model.ood import FALSE_ALARM
from ..model.tensors import normalise
from ..processes import usable_cores
from ..runtime.session import open_session
from ..runtime.tracing import fix_image_size, trace
from .folded import check_not_folded, example_pixels, graph_metadata
from .graph import OUTPUTS, HeadGraph, head_graph, read_metadata
from .rejection import Rejection


class SharedBackbone(nn.Module):
    """The backbone with the FiLM parameters as inputs."""

    def __init__(self, network: nn.Module, pixels: PixelSpec) -> None:
        super().__init__()
        self.network, self.pixels = network, pixels

    def forward(self, pixels: Tensor, gamma: Tensor, beta: Tensor) -> Tensor:
        """Compute features (B, D) with a row of γ and β for each image."""
        begin = 0
        for layer in film.layers(self.network).values():
            end = begin + layer.gamma.numel()
            layer.rows = gamma[:, begin:end], beta[:, begin:end]
            begin = end
        features: Tensor = self.network(normalise(pixels, self.pixels))
        return features


class UserGraph(nn.Module):
    """A user's head with its OOD detector, and the FiLM parameters."""

    gamma: Tensor
    beta: Tensor

    def __init__(self, head: HeadGraph, gamma: Tensor, beta: Tensor) -> None:
        super().__init__()
        self.head = head
        self.register_buffer("gamma", gamma)
        self.register_buffer("beta", beta)

    def forward(self, features: Tensor) -> tuple[Tensor, ...]:
        """Return probabilities, logits, γ, β and, with an OOD detector, scores and rejections."""
        probabilities, logits, *rejection = self.head(features)
        return probabilities, logits, self.gamma.clone(), self.beta.clone(), *rejection


def shared_backbone(clf: FewShotClassifier) -> bytes:
    """Return the graph that all users of this backbone and image size share."""
    network = copy.deepcopy(_film_network(clf)).cpu().eval().requires_grad_(False)
    film.reset(network)  # nothing of this user is in it
    network = fix_image_size(network, clf.model_.pixels.size)
    gamma, beta = (rows.expand(2, -1) for rows in film_rows(clf))
    example = {"pixels": example_pixels(clf), "gamma": gamma, "beta": beta}
    return trace(
        SharedBackbone(network, clf.model_.pixels), example, ["features"], graph_metadata(clf, "shared")
    )


def user_file(clf: FewShotClassifier, false_alarm: float = FALSE_ALARM) -> bytes:
    """Return the graph of the user's γ, β, head and OOD detector."""
    rejection = Rejection.of(clf.predictor_, false_alarm)
    gamma, beta = film_rows(clf)
    example = {"features": torch.zeros(2, clf.model_.backbone.features)}
    return trace(
        UserGraph(head_graph(clf.predictor_, rejection), gamma, beta),
        example,
        [*OUTPUTS[:2], "gamma", "beta", *rejection.outputs],
        graph_metadata(clf, "user", rejection),
        fixed=["gamma", "beta"],
    )


def film_rows(clf: FewShotClassifier) -> tuple[Tensor, Tensor]:
    """Return γ and β of all sites as one row each; 1 and 0 where FiLM was not trained."""
    layers = film.layers(_film_network(clf)).values()
    pairs = zip(*((layer.gamma, layer.beta) for layer in layers), strict=True)
    gamma, beta = (torch.cat(part).detach().cpu() for part in pairs)
    return gamma, beta


class SharedSession:
    """A shared backbone in memory, with the users added to it."""

    def __init__(self, backbone: bytes, threads: int | None = None) -> None:
        self._metadata = read_metadata(backbone)
        if self._metadata.get("kind") != "shared":
            raise UpdateFileError("This is not a shared backbone.", "Export one with --shared.")
        self._threads = threads or usable_cores()
        self._session = open_session(backbone, self._threads)
        self._users: dict[str, tuple[Any, np.ndarray, np.ndarray]] = {}

    def add(self, name: str, content: bytes) -> None:
        """Add a user's file, which must have been exported for this backbone."""
        metadata = read_metadata(content)
        if metadata.get("kind") != "user" or any(
            metadata.get(key) != self._metadata[key] for key in ("backbone", "pixels", "features")
        ):
            raise UpdateFileError(
                f"{name} is not a user of this backbone.",
                "Export both from the same backbone and image size.",
            )
        head = open_session(content, self._threads)
        zeros = np.zeros((1, self._metadata["features"]), np.float32)
        gamma, beta = head.run(["gamma", "beta"], {"features": zeros})
        self._users[name] = (head, gamma, beta)

    def run(self, pixels: np.ndarray, users: Sequence[str]) -> list[Mapping[str, np.ndarray]]:
        """Return all outputs for each image by its own user, in one pass of the backbone.

        They are ``probabilities``, ``logits``, ``features`` and, if the user's file can reject images, ``ood_score`` and
        ``rejected``.
        """
        if len(pixels) != len(users):
            raise InputError(f"{len(pixels)} images but {len(users)} users.", "One user per image.")
        if unknown := [user for user in users if user not in self._users]:
            raise InputError(f"There is no user {unknown[0]}.", f"There are: {', '.join(self._users)}.")
        rows = [np.stack([self._users[user][i] for user in users]) for i in (1, 2)]
        (features,) = self._session.run(["features"], {"pixels": pixels, "gamma": rows[0], "beta": rows[1]})
        results: list[Mapping[str, np.ndarray]] = []
        for user, row in zip(users, features, strict=True):
            head = self._users[user][0]
            names = [node.name for node in head.get_outputs() if node.name not in ("gamma", "beta")]
            outputs = dict(zip(names, head.run(names, {"features": row[None]}), strict=True))
            results.append({**{name: value[0] for name, value in outputs.items()}, "features": row})
        return results


def _film_network(clf: FewShotClassifier) -> nn.Module:
    body = clf.model_.body
    if not body.is_film:
        raise UsageError(
            f"This update trained {body.describe()}: there is no backbone that others share.",
            "Export it without --shared, as one folded file.",
        )
    check_not_folded(clf.model_)
    return clf.model_.network
