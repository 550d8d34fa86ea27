"""ψ as one vector: the parameters of a model that are trained and sent, in the model's own order.

These are the trainable parameters of the backbone (FiLM), then the head's own weights if it has any; with a head
that is trained by batches every weight of the backbone, and the head. One vector instead of a tensor per layer: names
and shapes are known to both sides, and their digest shows whether they agree.
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
from ..heads import HEADS, make_head
from ..heads.head import options_of
from ..model import AdaptedModel, Hardware
from .plan import Plan


@dataclass(frozen=True)
class ParameterLayout:
    """The names and shapes of the tensors in the vector."""

    shapes: dict[str, tuple[int, ...]]

    @property
    def sizes(self) -> list[int]:
        """The number of elements of each tensor."""
        return [int(np.prod(shape)) for shape in self.shapes.values()]

    @property
    def length(self) -> int:
        """The length of the vector."""
        return sum(self.sizes)

    @property
    def digest(self) -> str:
        """A hash of names and shapes."""
        return hashlib.sha256(json.dumps(list(self.shapes.items())).encode()).hexdigest()


def make_model(
    plan: Plan, classes: int = 0, *, weights: str | None = None, backbone: Backbone | None = None
) -> AdaptedModel:
    """Return the model of a plan before the first round; a head trained by batches needs ``classes``."""
    training = plan.training
    if backbone is None:
        backbone = load_backbone(plan.backbone, weights, fold=training.body().folds)
    training = training.resolve(backbone)
    options: dict[str, object] = {"temperature": plan.temperature}
    known = options_of(HEADS[plan.head])
    model = AdaptedModel(
        backbone,
        make_head(plan.head, **{name: value for name, value in options.items() if name in known}),
        training.image_size,
        body=training.body(),
        seed=plan.seed,
        hardware=Hardware(backbone.device),
    )
    if plan.trained_by == "batches":
        model.head.zeros(torch.ones(classes, dtype=torch.long), torch.empty(backbone.features))
    return model


def parameter_layout(model: AdaptedModel) -> ParameterLayout:
    """Return the layout of a model's parameter vector."""
    return ParameterLayout({name: tuple(tensor.shape) for name, tensor in _tensors(model).items()})


def get_parameters(model: AdaptedModel) -> np.ndarray:
    """Return a copy of the model's parameters as one vector of its own dtype (float32)."""
    flat = [tensor.detach().cpu().reshape(-1) for tensor in _tensors(model).values()]
    return torch.cat(flat).numpy().copy() if flat else np.zeros(0, np.float32)


@torch.no_grad()
def set_parameters(model: AdaptedModel, vector: np.ndarray) -> None:
    """Set the model's parameters from a vector; a vector that does not fit changes nothing."""
    layout = parameter_layout(model)
    if vector.shape != (layout.length,):
        raise InputError(
            f"The message has {vector.size} parameters, but the model has {layout.length}.",
            "Server and clients need the same plan, backbone and version of filmtransfer.",
        )
    if not np.isfinite(vector).all():
        raise InputError("The message has parameters that are not finite.", "The model is not changed.")
    parts = torch.from_numpy(np.ascontiguousarray(vector)).split(layout.sizes)
    for tensor, part in zip(_tensors(model).values(), parts, strict=True):
        tensor.copy_(part.reshape(tensor.shape))


def _tensors(model: AdaptedModel) -> dict[str, Tensor]:
    tensors: dict[str, Tensor] = dict(model.backbone_parameters())
    tensors |= {f"head/{name}": tensor for name, tensor in model.head.named_parameters().items()}
    if model.head.trained_by == "batches":
        tensors |= {f"head/{name}": tensor for name, tensor in model.head.tensors().items()}
    return tensors
