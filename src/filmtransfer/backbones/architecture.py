"""What timm knows of a backbone: its network, and the facts that follow from it."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor, nn

from ..data.pixels import PixelSpec
from .catalogue import BackboneRecord
from .facts import BackboneFacts
from .sites import family_of, film_sites
from .stages import stages
from .timm_import import timm


def build(record: BackboneRecord) -> nn.Module:
    """Return the architecture with random weights, whose output is features (B, D) instead of logits."""
    is_transformer = record.architecture.startswith(("vit_", "deit", "eva02", "flexivit"))
    options: dict[str, Any] = {"dynamic_img_size": True} if is_transformer else {}  # any size, as ConvNets
    with torch.random.fork_rng(devices=[]):  # timm draws initial weights from the global generator
        try:
            model: nn.Module = timm.create_model(
                record.architecture, pretrained=False, num_classes=0, **options
            )
        except TypeError:  # a transformer without that option
            model = timm.create_model(record.architecture, pretrained=False, num_classes=0)
    return model.eval()


def feature_size(model: nn.Module) -> int:
    """Return D, the number of features per image (MobileNetV3 widens after pooling)."""
    return int(getattr(model, "head_hidden_size", None) or model.num_features)  # type: ignore[arg-type]


def pixel_spec(record: BackboneRecord, model: nn.Module) -> PixelSpec:
    """Return the input format of these weights, at the image size of their pretraining."""
    config = timm.get_pretrained_cfg(record.timm_name)
    values: Any = (config.to_dict() if config is not None else None) or model.pretrained_cfg
    return PixelSpec(
        size=int(values["input_size"][-1]),
        mean=tuple(float(x) for x in values["mean"]),  # type: ignore[arg-type]
        std=tuple(float(x) for x in values["std"]),  # type: ignore[arg-type]
        interpolation=str(values.get("interpolation", "bicubic")).replace("random", "bicubic"),
        crop=float(values.get("crop_pct") or 0.875),
    )


def patch_size(model: nn.Module) -> int:
    """Return the side of a transformer's patches; 1 for other networks."""
    size = getattr(getattr(model, "patch_embed", None), "patch_size", 1)
    return int(size[0]) if isinstance(size, (tuple, list)) else int(size)


def hub_id(record: BackboneRecord) -> str:
    """Return the repository of these weights on the hub; "" if there is none."""
    config = timm.get_pretrained_cfg(record.timm_name)
    return str(config.hf_hub_id or "") if config is not None else ""


def derive_facts(record: BackboneRecord) -> BackboneFacts:
    """Return the facts of a backbone from its architecture, without allocating weights."""
    with torch.device("meta"):
        model = build(record)
    sites = film_sites(model)
    return BackboneFacts(
        family=family_of(model),
        parameters=sum(p.numel() for p in model.parameters()),
        features=feature_size(model),
        site_names=tuple(sites),
        channels=tuple(cast(Tensor, model.get_submodule(site).weight).numel() for site in sites),
        stages=tuple(stages(model)),
        pixels=pixel_spec(record, model),
        patch=patch_size(model),
        hub_id=hub_id(record),
    )
