"""The stages of a backbone, by which it is split into a frozen and a trainable part.

Every supported family is a plain sequence, stem → stages → head, whose parts are listed in a table by family. A part
is a submodule or a method of the network. Activations below the first trainable part never change, so that they can
be computed once and cached.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..errors import UsageError
from .sites import family_of

if TYPE_CHECKING:
    from torch import Tensor, nn


@dataclass(frozen=True)
class Stage:
    """A stage of the network and its parts, in the order of computation."""

    name: str
    parts: tuple[str, ...]

    def contains(self, site: str) -> bool:
        """Return whether a FiLM site or parameter is in this stage."""
        return any(site == part or site.startswith(f"{part}.") for part in self.parts)


# Parts of the stem; the container whose children are the stages, or their names; and parts of the head.
_FAMILIES: dict[str, tuple[tuple[str, ...], str | tuple[str, ...], tuple[str, ...]]] = {
    "convnext": (("stem",), "stages", ("norm_pre", "forward_head")),
    "deit": (("patch_embed", "_pos_embed", "patch_drop", "norm_pre"), "blocks", ("norm", "forward_head")),
    "efficientnet": (("conv_stem", "bn1"), "blocks", ("conv_head", "bn2", "forward_head")),
    "mobilenetv3": (("conv_stem", "bn1"), "blocks", ("forward_head",)),
    "regnet": (("stem",), ("s1", "s2", "s3", "s4"), ("final_conv", "forward_head")),
    "resnet": (
        ("conv1", "bn1", "act1", "maxpool"),
        ("layer1", "layer2", "layer3", "layer4"),
        ("forward_head",),
    ),
    "resnetv2": (("stem",), "stages", ("norm", "forward_head")),
}
_FAMILIES["vision_transformer"] = _FAMILIES["deit"]


def stages(network: nn.Module) -> list[Stage]:
    """Return the stages of a network in order: stem, stages, head."""
    stem, middle, head = _FAMILIES[family_of(network)]
    if isinstance(middle, str):
        container = network.get_submodule(middle)
        middle = tuple(f"{middle}.{name}" for name, _ in container.named_children())
    return [Stage("stem", stem), *(Stage(name, (name,)) for name in middle), Stage("head", head)]


def stage_of(site: str, stages: Sequence[Stage]) -> int:
    """Return the index of the stage that contains a FiLM site; the head, if no other does."""
    return next((i for i, stage in enumerate(stages) if stage.contains(site)), len(stages) - 1)


def sites_from(stage: int, sites: Sequence[str], stages: Sequence[Stage]) -> list[str]:
    """Return the FiLM sites of ``stage`` and of all later stages."""
    selected = [site for site in sites if stage_of(site, stages) >= stage]
    if stage < 0 or not selected:
        names = ", ".join(f"{i} {s.name}" for i, s in enumerate(stages))
        last = max(stage_of(site, stages) for site in sites)
        raise UsageError(
            f"FiLM cannot begin at stage {stage}.", f"film_from is 0 to {last}; the stages are {names}."
        )
    return selected


def split_parts(network: nn.Module, trainable: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return all parts in order, split before the first one with a trainable parameter."""
    parts = [part for stage in stages(network) for part in stage.parts]
    first = next(
        (i for i, part in enumerate(parts) if any(Stage("", (part,)).contains(name) for name in trainable)),
        len(parts) - 1,
    )
    return parts[:first], parts[first:]


def run_parts(network: nn.Module, parts: Sequence[str], x: Tensor) -> Tensor:
    """Run the given parts of the network in order."""
    for part in parts:
        owner, _, name = part.rpartition(".")
        x = getattr(network.get_submodule(owner), name)(x)
    return x
