"""Small classifiers to export: real lite0 weights, or a small network of each family with random ones."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import torch
from benchmarks.random_weights import randomize_weights
from torch import nn

from filmtransfer import FewShotClassifier
from filmtransfer.backbones import Backbone, BackboneRecord, assemble, load_backbone
from filmtransfer.backbones.catalogue import pixel_spec
from filmtransfer.export import probe_images
from filmtransfer.heads import make_head
from filmtransfer.model import AdaptedModel, Body, OODDetector, Update
from filmtransfer.model.tensors import normalise
from filmtransfer.training.assess.assessment import assess

import timm  # isort: skip  (behind filmtransfer, which makes it importable)
from timm.layers import GroupNormAct, StdConv2d  # isort: skip
from timm.models.resnetv2 import ResNetV2  # isort: skip

SIDE = 64
CLASSES = ["cup", "keys", "plant"]


FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "resnetv2": ("resnetv2_50x1_bit", {"layers": (1, 1), "channels": (128, 256), "stem_chs": 32}),
    "efficientnet": ("mobilenetv2_050", {}),
    "efficientnetv2": ("tf_efficientnetv2_b0", {"channel_multiplier": 0.5, "depth_multiplier": 0.3}),
    "convnext": ("convnext_atto", {"depths": (1, 1, 1, 1), "dims": (8, 16, 24, 32)}),
    "vision_transformer": (
        "vit_tiny_patch16_224",
        {"depth": 2, "embed_dim": 24, "num_heads": 3, "dynamic_img_size": True},
    ),
    "resnet": ("resnet18", {"layers": (1, 1, 1, 1)}),
    "mobilenetv3": ("mobilenetv3_small_050", {}),
    "regnet": ("regnety_002", {}),
}


@cache
def lite0(fold: bool = True) -> Backbone:
    """Return efficientnet_lite0 with its real weights."""
    return load_backbone("efficientnet_lite0", fold=fold)


def small(architecture: str, **settings: Any) -> Backbone:
    """Return a timm network with fewer blocks, whose features differ between images."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model: nn.Module = (
            _bit(**settings)
            if architecture == "resnetv2_50x1_bit"
            else timm.create_model(architecture, num_classes=0, **settings)
        )
    record = BackboneRecord(architecture, architecture, "none")
    images = normalise(probe_images(SIDE, 24, seed=2), pixel_spec(record, model))
    return assemble(record, randomize_weights(model, images, generator=torch.Generator().manual_seed(0)))


def small_family(family: str) -> Backbone:
    """Return a small network of a family."""
    architecture, settings = FAMILIES[family]
    return small(architecture, **settings)


def _bit(**settings: Any) -> nn.Module:
    """Return a small BiT: standardised weights, GroupNorm first, zeros around its max-pool."""
    network: nn.Module = ResNetV2(
        num_classes=0,
        preact=True,
        stem_type="fixed",
        conv_layer=StdConv2d,
        norm_layer=GroupNormAct,
        **settings,
    )
    return network


def classifier(
    backbone: Backbone,
    head: str = "lda",
    *,
    body: Body | None = None,
    rows: int = 12,
    prior: Any = "uniform",
    seed: int = 0,
    change: float = 0.1,
    rejects: bool = True,
    **options: Any,
) -> FewShotClassifier:
    """Return a classifier whose trainable parameters all differ from their initial values, with an OOD detector."""
    model = AdaptedModel(backbone, make_head(head, **options), SIDE, body=body)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.backbone_parameters().values():
            parameter.add_(change * torch.randn(parameter.shape, generator=generator))
    support, labels = probe_images(model.pixels.size, rows, seed=seed + 1), torch.arange(rows) % len(CLASSES)
    model.configure(support, labels)
    update = Update.of(
        model,
        CLASSES,
        settings={
            "prior": prior,
            "train": model.body.train,
            "adapter": model.body.adapter,
            "film_from": model.body.film_from,
            "adapter_options": dict(model.body.options),
        },
        results={},
        seed=seed,
        versions={},
        ood=_detector(model, support, labels) if rejects else None,
    )
    clf = FewShotClassifier(backbone=backbone.name, head=head, prior=prior)
    clf._take(update, model)
    return clf


def _detector(model: AdaptedModel, support: torch.Tensor, labels: torch.Tensor) -> OODDetector:
    """Return the detector that training would make of the support images."""
    everything, uniform = np.ones(len(labels), bool), np.zeros(len(CLASSES))
    assessment = assess(model.head, model.features(support), labels, everything, uniform, seed=0)
    assert assessment is not None
    assert assessment.ood is not None
    return assessment.ood
