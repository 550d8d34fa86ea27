"""Folding of frozen layers, and activations that save memory.

Norms without FiLM are never trained and are folded into the convolution before them,

    norm(conv(x)) = s ⊙ (W * x) + (b − s ⊙ m)   with   s = w / √(v + ε)

and BiT's convolutions, which standardise their weights in every forward pass, are replaced by plain convolutions
with standardised weights. The backbone is the same function up to rounding, with fewer passes over memory.

Autograd copies the input of an in-place activation whose gradient needs that input. The gradient of ReLU6 follows
from its output, which the next convolution keeps anyway; other activations are computed out of place.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, cast

import torch
from torch import Tensor, nn


def fold_frozen_layers(network: nn.Module, sites: Collection[str]) -> None:
    """Do all computations that do not depend on the images; works in place."""
    standardise_weights(network)
    if any(isinstance(module, nn.BatchNorm2d) for module in network.modules()):
        fold_frozen_norms(network, sites, size=64)
    replace_activations(network)


def replace_activations(network: nn.Module) -> None:
    """Replace activations by equivalent ones that copy no input; works in place."""
    for name, module in list(network.named_modules()):
        if isinstance(module, nn.ReLU6):
            network.set_submodule(name, ReLU6())
        elif getattr(module, "inplace", False) and not isinstance(module, nn.ReLU):
            module.inplace = False


class ReLU6(nn.Module):
    """min(max(x, 0), 6) in place, with a gradient computed from the output."""

    def forward(self, x: Tensor) -> Tensor:
        """Apply the activation in place."""
        if torch.is_grad_enabled() and x.requires_grad:
            activated: Tensor = _ReLU6.apply(x)  # type: ignore[no-untyped-call]
            return activated
        return nn.functional.hardtanh(x, 0.0, 6.0, inplace=True)


class _ReLU6(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.mark_dirty(x)
        output = nn.functional.hardtanh(x, 0.0, 6.0, inplace=True)
        ctx.save_for_backward(output)
        return output

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (output,) = ctx.saved_tensors
        # The derivative is 0 where the input, and hence the output, is not inside (0, 6).
        input_gradient: Tensor = torch.ops.aten.hardtanh_backward(gradient, output, 0.0, 6.0)
        return input_gradient


@torch.no_grad()
def standardise_weights(network: nn.Module) -> int:
    """Replace weight-standardised convolutions by plain ones and return their number; works in place."""
    convolutions = [
        (name, module)
        for name, module in network.named_modules()
        if isinstance(module, nn.Conv2d) and type(module).__name__ in ("StdConv2d", "StdConv2dSame")
    ]
    for name, convolution in convolutions:
        weight = nn.functional.batch_norm(
            convolution.weight.reshape(1, convolution.out_channels, -1),
            None,
            None,
            training=True,
            momentum=0.0,
            eps=cast(float, convolution.eps),
        ).reshape_as(convolution.weight)
        kind = _SameConv2d if getattr(convolution, "same_pad", False) else nn.Conv2d
        padding = cast(tuple[int, int], convolution.padding)
        plain = plain_convolution(convolution, kind, padding, nn.Parameter(weight, requires_grad=False))
        network.set_submodule(name, plain)
    return len(convolutions)


def plain_convolution(
    convolution: nn.Conv2d, kind: type[nn.Conv2d], padding: tuple[int, int], weight: Tensor
) -> nn.Conv2d:
    """Return a convolution of another kind, padding and weight with the same bias and other settings."""
    plain = kind(
        convolution.in_channels,
        convolution.out_channels,
        convolution.kernel_size,  # type: ignore[arg-type]
        convolution.stride,  # type: ignore[arg-type]
        padding,
        convolution.dilation,  # type: ignore[arg-type]
        convolution.groups,
        bias=convolution.bias is not None,
    )
    plain.weight, plain.bias = weight, convolution.bias
    return plain


def same_padding(convolution: nn.Conv2d, x: Tensor) -> list[int]:
    """Return TensorFlow's padding of the input x: left, right, top, bottom."""
    padding: list[int] = []
    for size, kernel, stride, dilation in zip(
        x.shape[-2:], convolution.kernel_size, convolution.stride, convolution.dilation, strict=True
    ):
        total = max((-(-size // stride) - 1) * stride + (kernel - 1) * dilation + 1 - size, 0)
        padding = [total // 2, total - total // 2, *padding]
    return padding


class _SameConv2d(nn.Conv2d):
    """A convolution with TensorFlow's padding, which depends on the image size."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(nn.functional.pad(x, same_padding(self, x)))


@torch.no_grad()
def fold_frozen_norms(network: nn.Module, keep: Collection[str], size: int) -> int:
    """Fold each BatchNorm that directly follows a convolution, except those in ``keep``.

    The convolution before each norm is determined by the forward pass of one image of side ``size``. Works in
    place and returns the number of folded norms.
    """
    pairs = {name: pair for name, pair in _pairs(network, size).items() if name not in keep}
    for name, (convolution, norm) in pairs.items():
        _fold(convolution, norm)
        activation = getattr(norm, "act", None)  # timm fuses it with the norm
        network.set_submodule(name, activation if isinstance(activation, nn.Module) else nn.Identity())
    return len(pairs)


def _pairs(network: nn.Module, size: int) -> dict[str, tuple[nn.Conv2d, nn.BatchNorm2d]]:
    """Return the convolution and the norm of each pair, by the name of the norm."""
    names = {module: name for name, module in network.named_modules()}
    outputs: dict[int, tuple[nn.Module, Tensor]] = {}  # keeping the tensor keeps its id unique
    pairs: dict[str, tuple[nn.Conv2d, nn.BatchNorm2d]] = {}

    def after_convolution(module: nn.Module, _inputs: object, output: Tensor) -> None:
        outputs[id(output)] = (module, output)

    def before_norm(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        if id(inputs[0]) in outputs:
            convolution = cast(nn.Conv2d, outputs[id(inputs[0])][0])
            pairs[names[module]] = (convolution, cast(nn.BatchNorm2d, module))

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
