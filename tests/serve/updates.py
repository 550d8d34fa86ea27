"""Updates of example users on the real backbone with small images; each has its own FiLM parameters, head and classes."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, lru_cache
from io import BytesIO
from typing import Any

import numpy as np
import torch

from filmtransfer.backbones import Backbone, load_backbone
from filmtransfer.data import LabelledImages, load
from filmtransfer.heads import make_head
from filmtransfer.model import AdaptedModel, Body, Support, Update
from filmtransfer.runtime.prepare import prepare_graph
from filmtransfer.seeding import make_generator
from filmtransfer.serve.engine.graph_features import GraphFeatures
from filmtransfer.serve.engine.multi_user import Engine
from filmtransfer.serve.engine.torch_features import TorchFeatures

from ..conftest import picture

SIZE = 64


@lru_cache(maxsize=1)
def backbone() -> Backbone:
    return load_backbone("efficientnet_lite0")


@cache
def engine(size: int = SIZE, runtime: str = "onnx", other_sizes: tuple[int, ...] = ()) -> Engine:
    """Return an engine; graphs are made in this process, not in a child."""
    if runtime == "torch":
        return Engine(TorchFeatures(backbone(), size))
    for side in (size, *other_sizes):
        for stage in (0, backbone().film_from):
            prepare_graph(backbone(), replace(backbone().pixels, size=side), stage)
    return Engine(GraphFeatures("efficientnet_lite0", image_size=size, threads=2, digest=backbone().digest))


def photo(kind: int, seed: int, size: int = 40) -> bytes:
    """Return a picture as the bytes of a PNG file."""
    file = BytesIO()
    picture(kind, seed, size).save(file, "PNG")
    return file.getvalue()


def update(
    user: int,
    head: str = "lda",
    *,
    film_from: int = 0,
    size: int = SIZE,
    prior: Any = "uniform",
    train: str = "adapter",
    shots: int = 3,
    keep: bool = False,
) -> Update:
    """Return an update of user number ``user`` with random FiLM parameters, without training."""
    names = [f"{what} of {user}" for what in ("disc", "bars", "plain")]
    photos = [(photo(c, 1000 * user + 10 * c + i), names[c]) for c in range(3) for i in range(shots)]
    body = Body.of(train, "film", film_from)
    model = AdaptedModel(backbone(), make_head(head), size, body=body)
    generator = make_generator(user, "disturb")
    with torch.no_grad():
        for parameter in model.backbone_parameters().values():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
        for weights in model.head.parameters():
            weights.add_(0.2 * torch.randn(weights.shape, generator=generator))
    images = load(LabelledImages.from_memory(*map(list, zip(*photos, strict=True))), model.pixels)
    labels = torch.from_numpy(images.labels)
    features = model.configure(torch.from_numpy(images.pixels), labels)
    settings = {"film_from": film_from, "train": train, "adapter": "film", "prior": prior}
    return Update.of(
        model,
        images.classes,
        settings=settings,
        results={},
        seed=user,
        versions={},
        support=_support(features, labels) if keep else None,
    )


def _support(features: torch.Tensor, labels: torch.Tensor) -> Support:
    names = [str(i) for i in range(len(labels))]
    return Support(
        features.numpy(), labels.numpy(), np.zeros(len(labels), bool), names, [n.zfill(32) for n in names]
    )


def in_float64(backbone: Backbone) -> Backbone:
    """Return the backbone in float64."""
    import copy

    return replace(backbone, module=copy.deepcopy(backbone.module).double())
