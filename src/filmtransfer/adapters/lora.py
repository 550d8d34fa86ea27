"""LoRA (Hu et al., 2022), through peft: W + s · B A with A: in → rank, B: rank → out.

On transformers W is the fused query, key and value matrix of every block: rank 8 on 12 blocks of width 768 are
the published 0.3 M, with s = 1 (ZhangYuanhan-AI/NOAH: experiments/LoRA/ViT-B_prompt_lora_8.yaml,
model/supernet_vision_transformer_timm.py). ConvNets have no such matrix: there W is every 1×1 convolution of the
blocks, which is a matrix too (ConvNeXt's are linear layers).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from ..backbones import family_of, stages
from ..errors import MissingExtraError, UsageError
from .adapter import TRANSFORMERS, finite, integer_from, option, transformer_blocks, uniform


@dataclass(frozen=True)
class LoRAOptions:
    """The options of LoRA."""

    rank: int = option(8, "rank of B A", integer_from(1))
    scale: float = option(1.0, "factor s of B A", finite)


def attach(network: nn.Module, options: LoRAOptions, generator: torch.Generator) -> None:
    """Add LoRA of the same rank to all matrices."""
    insert(network, dict.fromkeys(targets(network), options.rank), options.scale, generator)


def targets(network: nn.Module) -> list[str]:
    """Return the names of the matrices that LoRA adapts, in the order of the network."""
    if family_of(network) in TRANSFORMERS:
        names = [f"blocks.{i}.attn.qkv" for i in range(len(transformer_blocks(network, "lora", "attn")))]
        existing = {name for name, _ in network.named_modules()}
        names = [name for name in names if name in existing]
    else:
        middle = [part for stage in stages(network)[1:-1] for part in stage.parts]
        names = [
            name
            for name, module in network.named_modules()
            if any(name.startswith(f"{part}.") for part in middle) and _is_matrix(module)
        ]
    if not names:
        raise UsageError(f"{type(network).__name__} has no matrix that LoRA can adapt.", "Choose film.")
    return names


def insert(network: nn.Module, ranks: Mapping[str, int], scale: float, generator: torch.Generator) -> None:
    """Add LoRA of its own rank at each name and freeze all other parameters; works in place."""
    try:
        from peft import LoraConfig, inject_adapter_in_model
    except ImportError:
        raise MissingExtraError("LoRA", "bench") from None
    config = LoraConfig(
        target_modules=list(ranks),
        rank_pattern=dict(ranks),
        alpha_pattern={name: scale * rank for name, rank in ranks.items()},  # peft divides it by the rank
    )
    with torch.random.fork_rng(devices=[]):  # peft draws from the global generator
        inject_adapter_in_model(config, network)
    for name in ranks:
        down = cast(Tensor, network.get_submodule(f"{name}.lora_A.default").weight)
        bound = down[0].numel() ** -0.5
        down.data.copy_(uniform(tuple(down.shape), bound, network, generator))


def _is_matrix(module: nn.Module) -> bool:
    if isinstance(module, nn.Conv2d):
        return module.kernel_size == (1, 1) and module.groups == 1
    return isinstance(module, nn.Linear)
