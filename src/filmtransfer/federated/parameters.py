"""ψ as one vector: what of a model travels, in the model's own order.

That is what is learned of the backbone (FiLM), then the head's covariance weights e if it has any; with a linear head
every weight, and the head. One vector instead of a tensor per layer: names and shapes are known to both sides,
and their digest says whether they are the same.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..backbones import Backbone, load_backbone
from ..errors import InputError
from ..heads import make_head
from ..model import AdaptedModel, Hardware
from .plan import Plan


@dataclass(frozen=True)
class ParameterLayout:
    """The names and shapes behind the vector."""

    shapes: dict[str, tuple[int, ...]]

    @property
    def sizes(self) -> list[int]:
        return [int(np.prod(shape)) for shape in self.shapes.values()]

    @property
    def length(self) -> int:
        return sum(self.sizes)

    @property
    def digest(self) -> str:
        return hashlib.sha256(json.dumps(list(self.shapes.items())).encode()).hexdigest()


def make_model(
    plan: Plan, classes: int = 0, *, weights: str | None = None, backbone: Backbone | None = None
) -> AdaptedModel:
    """The model that a plan speaks of, as it is before the first round; a linear head needs its classes."""
    settings = plan.training
    body = settings.body()
    if backbone is None:
        backbone = load_backbone(plan.backbone, weights, fold=body.folds)
    settings = settings.resolve(backbone)
    head = make_head(plan.head, **({"temperature": plan.temperature} if plan.head == "protonets" else {}))
    model = AdaptedModel(
        backbone,
        head,
        settings.image_size,
        body=settings.body(),
        seed=plan.seed,
        hardware=Hardware(backbone.device),
    )
    if plan.head == "linear":
        head.zeros(torch.ones(classes, dtype=torch.long), backbone.features)
    return model


def layout_of(model: AdaptedModel) -> ParameterLayout:
    return ParameterLayout({name: tuple(tensor.shape) for name, tensor in _tensors(model).items()})


def read(model: AdaptedModel) -> np.ndarray:
    """The model's numbers, float32 (or what the model computes in)."""
    flat = [tensor.detach().cpu().reshape(-1) for tensor in _tensors(model).values()]
    return torch.cat(flat).numpy().copy() if flat else np.zeros(0, np.float32)


@torch.no_grad()
def write(model: AdaptedModel, vector: np.ndarray) -> None:
    """Set the model's numbers; nothing changes if they do not fit."""
    layout = layout_of(model)
    if vector.shape != (layout.length,):
        raise InputError(
            f"{vector.size} numbers came for a model of {layout.length}.",
            "Server and clients need the same plan, backbone and version of filmtransfer.",
        )
    if not np.isfinite(vector).all():
        raise InputError("Numbers that are not finite came for the model.", "It is left as it was.")
    parts = torch.from_numpy(np.ascontiguousarray(vector)).split(layout.sizes)
    for tensor, part in zip(_tensors(model).values(), parts, strict=True):
        tensor.copy_(part.reshape(tensor.shape))


def _tensors(model: AdaptedModel) -> dict[str, Tensor]:
    found: dict[str, Tensor] = dict(model.backbone_parameters())
    found |= {f"head/{name}": tensor for name, tensor in model.head.named_parameters()}
    if model.head.name == "linear":
        weight, bias = model.head.configured()
        found |= {"head/weight": weight, "head/bias": bias}
    return found
