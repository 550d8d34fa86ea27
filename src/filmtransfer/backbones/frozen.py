"""Frozen work done once, and activations that keep nothing they do not need.

Norms that carry no FiLM and never learn go into the convolution before them,

    norm(conv(x)) = s ⊙ (W * x) + (b − s ⊙ m)   with   s = w / √(v + ε)

and BiT's convolutions, which standardise their weights in every pass, get weights that are standard
already. The backbone is the same function to rounding, with fewer passes over memory.

An activation that works in place and needs its input for the gradient makes autograd copy it first. ReLU6's
gradient can be had from its output, which the next convolution keeps anyway; the others work out of place.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import torch
from torch import Tensor, nn


def fold_frozen_layers(network: nn.Module, sites: Collection[str]) -> None:
    """Everything that can be done before the first image; works in place."""
    standardise_weights(network)
    if any(isinstance(module, nn.BatchNorm2d) for module in network.modules()):
        fold_frozen_norms(network, sites, size=64)
    replace_activations(network)


def replace_activations(network: nn.Module) -> None:
    """The same activations without the copies."""
    for name, module in list(network.named_modules()):
        if isinstance(module, nn.ReLU6):
            _put(network, name, ReLU6())
        elif getattr(module, "inplace", False) and not isinstance(module, nn.ReLU):
            module.inplace = False


class ReLU6(nn.Module):
    """min(max(x, 0), 6) in place, with the gradient from the result."""

    def forward(self, x: Tensor) -> Tensor:
        if torch.is_grad_enabled() and x.requires_grad:
            kept: Tensor = _ReLU6.apply(x)  # type: ignore[no-untyped-call]
            return kept
        return nn.functional.hardtanh(x, 0.0, 6.0, inplace=True)


class _ReLU6(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.mark_dirty(x)
        result = nn.functional.hardtanh(x, 0.0, 6.0, inplace=True)
        ctx.save_for_backward(result)
        return result

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (result,) = ctx.saved_tensors
        # Outside (0, 6) input and result agree on where they are, so either tells where the slope is 0.
        slope: Tensor = torch.ops.aten.hardtanh_backward(gradient, result, 0.0, 6.0)
        return slope


@torch.no_grad()
def standardise_weights(network: nn.Module) -> int:
    """Replace weight-standardised convolutions by plain ones; returns how many."""
    found = [(n, m) for n, m in network.named_modules() if type(m).__name__ in ("StdConv2d", "StdConv2dSame")]
    for name, module in found:
        convolution: Any = module
        weight = nn.functional.batch_norm(
            convolution.weight.reshape(1, convolution.out_channels, -1),
            None,
            None,
            training=True,
            momentum=0.0,
            eps=convolution.eps,
        ).reshape_as(convolution.weight)
        plain = _SameConv2d if getattr(convolution, "same_pad", False) else nn.Conv2d
        made = plain(
            convolution.in_channels,
            convolution.out_channels,
            convolution.kernel_size,
            convolution.stride,
            convolution.padding,
            convolution.dilation,
            convolution.groups,
            bias=convolution.bias is not None,
        )
        made.weight = nn.Parameter(weight, requires_grad=False)
        made.bias = convolution.bias
        _put(network, name, made)
    return len(found)


class _SameConv2d(nn.Conv2d):
    """TensorFlow's padding, which depends on the image's size."""

    def forward(self, x: Tensor) -> Tensor:
        pads: list[int] = []
        for size, kernel, stride, dilation in zip(
            x.shape[-2:], self.kernel_size, self.stride, self.dilation, strict=True
        ):
            total = max((-(-size // stride) - 1) * stride + (kernel - 1) * dilation + 1 - size, 0)
            pads = [total // 2, total - total // 2, *pads]
        return super().forward(nn.functional.pad(x, pads))


@torch.no_grad()
def fold_frozen_norms(network: nn.Module, keep: Collection[str], size: int) -> int:
    """Fold each BatchNorm that directly follows a convolution, except those in ``keep``.

    Which convolution feeds which norm is seen from one small image passing through. Works in
    place; returns how many norms were folded.
    """
    pairs = _pairs(network, size)
    folded = 0
    for name, (convolution, norm) in pairs.items():
        if name in keep:
            continue
        _fold(convolution, norm)
        _put(network, name, _rest(norm))
        folded += 1
    return folded


def _pairs(network: nn.Module, size: int) -> dict[str, tuple[nn.Conv2d, nn.BatchNorm2d]]:
    names = {module: name for name, module in network.named_modules()}
    made: dict[int, tuple[nn.Conv2d, Tensor]] = {}  # holding the tensor keeps its id unique
    pairs: dict[str, tuple[nn.Conv2d, nn.BatchNorm2d]] = {}

    def after_convolution(module: Any, _inputs: Any, output: Tensor) -> None:
        made[id(output)] = (module, output)

    def before_norm(module: Any, inputs: tuple[Tensor, ...]) -> None:
        if id(inputs[0]) in made:
            pairs[names[module]] = (made[id(inputs[0])][0], module)

    hooks = []
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            hooks.append(module.register_forward_hook(after_convolution))
        elif isinstance(module, nn.BatchNorm2d):
            hooks.append(module.register_forward_pre_hook(before_norm))
    try:
        weight = next(network.parameters())
        network(torch.zeros(1, 3, size, size, dtype=weight.dtype, device=weight.device))
    finally:
        for hook in hooks:
            hook.remove()
    return pairs


def _fold(convolution: nn.Conv2d, norm: nn.BatchNorm2d) -> None:
    assert norm.running_var is not None
    assert norm.running_mean is not None
    scale = norm.weight / torch.sqrt(norm.running_var + norm.eps)
    bias = convolution.bias if convolution.bias is not None else torch.zeros_like(scale)
    convolution.weight.copy_(convolution.weight * scale[:, None, None, None])
    convolution.bias = nn.Parameter(norm.bias + (bias - norm.running_mean) * scale, requires_grad=False)


def _rest(norm: nn.Module) -> nn.Module:
    """What is left of a norm: the activation that timm fuses with it, or nothing."""
    act = getattr(norm, "act", None)
    return act if isinstance(act, nn.Module) else nn.Identity()


def _put(network: nn.Module, name: str, module: nn.Module) -> None:
    parent, _, leaf = name.rpartition(".")
    setattr(network.get_submodule(parent), leaf, module)
