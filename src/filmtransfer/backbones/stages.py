"""A backbone as a chain of stages, so that it can be cut.

Below the first stage that learns nothing ever changes: its activations are computed once and kept. Every
family here is a plain chain, stem → stages → head, in its own names; the table says which. A part is a
submodule or a method of the network.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from ..errors import UsageError
from .sites import family_of


@dataclass(frozen=True)
class Stage:
    """A stretch of the network: its name, and the parts an image walks through."""

    name: str
    parts: tuple[str, ...]

    def holds(self, site: str) -> bool:
        return any(site == part or site.startswith(f"{part}.") for part in self.parts)


# Stem, the container of the stages (its children are the stages) or their names, and what follows.
_CHAINS: dict[str, tuple[tuple[str, ...], str | tuple[str, ...], tuple[str, ...]]] = {
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
_CHAINS["vision_transformer"] = _CHAINS["deit"]


def stages(network: nn.Module) -> list[Stage]:
    """The chain that ``network`` is, in order: stem, its stages, head."""
    stem, middle, head = _CHAINS[family_of(network)]
    if isinstance(middle, str):
        container = network.get_submodule(middle)
        middle = tuple(f"{middle}.{name}" for name, _ in container.named_children())
    return [Stage("stem", stem), *(Stage(name, (name,)) for name in middle), Stage("head", head)]


def stage_of(site: str, chain: Sequence[Stage]) -> int:
    """The number of the stage that a FiLM site stands in; what no other part holds is the head's."""
    return next((i for i, stage in enumerate(chain) if stage.holds(site)), len(chain) - 1)


def sites_from(stage: int, sites: Sequence[str], chain: Sequence[Stage]) -> list[str]:
    """The FiLM sites of ``stage`` and of those after it."""
    found = [site for site in sites if stage_of(site, chain) >= stage]
    if stage < 0 or not found:
        names = ", ".join(f"{i} {s.name}" for i, s in enumerate(chain))
        last = max(stage_of(site, chain) for site in sites)
        raise UsageError(
            f"FiLM cannot begin at stage {stage}.", f"film_from is 0 to {last}; the stages are {names}."
        )
    return found


def split_parts(network: nn.Module, learned: Sequence[str]) -> tuple[list[str], list[str]]:
    """All parts in order, cut before the first one that holds a learned site."""
    parts = [part for stage in stages(network) for part in stage.parts]
    first = next(
        (i for i, part in enumerate(parts) if any(Stage("", (part,)).holds(site) for site in learned)),
        len(parts) - 1,
    )
    return parts[:first], parts[first:]


def run_parts(network: nn.Module, parts: Sequence[str], x: Tensor) -> Tensor:
    """Through some parts of the network."""
    for part in parts:
        owner, _, name = part.rpartition(".")
        x = getattr(network.get_submodule(owner), name)(x)
    return x
