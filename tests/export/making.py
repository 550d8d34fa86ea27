"""Small classifiers to export: real lite0 weights, or a narrow network of each family with random ones."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from benchmarks.lively import liven
from torch import nn

from filmtransfer import FewShotClassifier
from filmtransfer.backbones import Backbone, BackboneRecord, assemble, load_backbone
from filmtransfer.backbones.catalogue import pixel_spec
from filmtransfer.data.pixels import normalise
from filmtransfer.export import probe_images
from filmtransfer.heads import make_head
from filmtransfer.model import AdaptedModel, Body, Update

import timm  # isort: skip  (behind filmtransfer, which makes it importable)
from timm.layers import GroupNormAct, StdConv2d  # isort: skip
from timm.models.resnetv2 import ResNetV2  # isort: skip

SIDE = 64
CLASSES = ["cup", "keys", "plant"]


@cache
def lite0(fold: bool = True) -> Backbone:
    return load_backbone("efficientnet_lite0", fold=fold)


def small(architecture: str, **settings: Any) -> Backbone:
    """A network of timm's with fewer blocks, whose features differ between images."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model: nn.Module = (
            _bit(**settings)
            if architecture == "resnetv2_50x1_bit"
            else timm.create_model(architecture, num_classes=0, **settings)
        )
    record = BackboneRecord(architecture, architecture, "none")
    seen = normalise(probe_images(SIDE, 24, seed=2), pixel_spec(record, model))
    return assemble(record, liven(model, seen, generator=torch.Generator().manual_seed(0)))


def _bit(**settings: Any) -> nn.Module:
    """BiT with what makes it BiT: standardised weights, GroupNorm first, zeros around its max-pool."""
    made: nn.Module = ResNetV2(
        num_classes=0,
        preact=True,
        stem_type="fixed",
        conv_layer=StdConv2d,
        norm_layer=GroupNormAct,
        **settings,
    )
    return made


def classifier(
    backbone: Backbone,
    head: str = "lda",
    *,
    body: Body | None = None,
    rows: int = 12,
    prior: Any = "uniform",
    seed: int = 0,
    move: float = 0.1,
    **options: Any,
) -> FewShotClassifier:
    """Everything learned stands somewhere else than at its start."""
    model = AdaptedModel(backbone, make_head(head, **options), SIDE, body=body)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.backbone_parameters().values():
            parameter.add_(move * torch.randn(parameter.shape, generator=generator))
    model.configure(probe_images(model.pixels.size, rows, seed=seed + 1), torch.arange(rows) % len(CLASSES))
    learns = model.body
    update = Update.of(
        model,
        CLASSES,
        settings={
            "prior": prior,
            "train": learns.train,
            "adapter": learns.adapter,
            "film_from": learns.film_from,
            "adapter_options": dict(learns.options),
        },
        results={},
        seed=seed,
        versions={},
    )
    clf = FewShotClassifier(backbone=backbone.name, head=head, prior=prior)
    clf._take(update, model)
    return clf
