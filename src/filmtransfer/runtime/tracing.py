"""Convert a torch module to an ONNX graph in one file.

The graph is traced by TorchScript. torch's newer exporter gives the same results and takes fifteen times as long
(docs/decisions.md); only this module would change. Weights are inside the file. No time and no path is written: the same
model gives the same bytes.
"""

from __future__ import annotations

import io
import json
import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from ..backbones.frozen import plain_convolution, same_padding
from ..errors import InputError
from .session import KEY, import_extra

OPSET = 18
ALMOST_ZERO = 1e-30


def trace(
    module: nn.Module,
    example: Mapping[str, Tensor],
    outputs: Sequence[str],
    metadata: Mapping[str, object],
    fixed: Sequence[str] = (),
) -> bytes:
    """Return the content of an .onnx file; ``fixed`` inputs and outputs have no batch axis, ``metadata`` goes into its properties."""
    onnx = import_extra("onnx")
    content = io.BytesIO()
    batched = [name for name in (*example, *outputs) if name not in fixed]
    try:
        with torch.no_grad(), suppress_warnings():
            torch.onnx.export(
                module.eval(),
                tuple(example.values()),
                content,  # type: ignore[arg-type]
                input_names=list(example),
                output_names=list(outputs),
                dynamic_axes={name: {0: "batch"} for name in batched},
                opset_version=OPSET,
                dynamo=False,
            )
    except (torch.onnx.errors.OnnxExporterError, RuntimeError) as error:
        raise InputError(
            f"This network cannot be written as ONNX ({' '.join(str(error).split())[:160]}).",
            "Train FiLM on a backbone of 'fit backbones': all of these can be exported.",
        ) from None
    model = onnx.load_from_string(content.getvalue())
    model.producer_name = KEY
    _keep_pads(onnx, model)
    onnx.helper.set_model_props(model, {KEY: json.dumps(dict(metadata), sort_keys=True)})
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString(deterministic=True))


def _keep_pads(onnx: Any, model: Any) -> None:
    """Keep the zeros that BiT pads its max-pool with.

    onnxruntime moves such a padding into the pool, where it counts as −∞ (in 1.31 probabilities of BiT are wrong by up
    to a third). It does not touch a padding that is not exactly 0, so the padding becomes a negligible number.
    """
    pools = {name for node in model.graph.node if node.op_type == "MaxPool" for name in node.input}
    for node in model.graph.node:
        if node.op_type == "Pad" and node.output[0] in pools:
            name = f"{node.output[0]}_almost_zero"
            tiny = onnx.helper.make_tensor(name, onnx.TensorProto.FLOAT, [], [ALMOST_ZERO])
            model.graph.initializer.append(tiny)
            node.input[:] = [*node.input[:2], name]
    used = {name for node in model.graph.node for name in node.input}
    for unused in [tensor for tensor in model.graph.initializer if tensor.name not in used]:
        model.graph.initializer.remove(unused)


@contextmanager
def suppress_warnings() -> Iterator[None]:
    """Suppress the exporters' warnings and log messages; parity.py measures whether the graph is correct."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


@torch.no_grad()
def fix_image_size(network: nn.Module, size: int) -> nn.Module:
    """Compute in place what depends only on the image size, so that the graph does not compute it for every image.

    This is a transformer's position embedding, and the padding of TensorFlow's convolutions.
    """
    if hasattr(network, "set_input_size") and getattr(network, "pos_embed", None) is not None:
        network.set_input_size(img_size=(size, size))  # type: ignore[operator]
    pads: dict[nn.Conv2d, list[int]] = {}

    def record_padding(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        assert isinstance(module, nn.Conv2d)
        pads[module] = same_padding(module, inputs[0])

    same = {
        name: module
        for name, module in network.named_modules()
        if isinstance(module, nn.Conv2d) and type(module).__name__.endswith(("Conv2dSame", "SameConv2d"))
    }
    hooks = [module.register_forward_pre_hook(record_padding) for module in same.values()]
    network(torch.zeros(1, 3, size, size))
    for hook in hooks:
        hook.remove()
    for name, module in same.items():
        network.set_submodule(name, _with_explicit_padding(module, pads[module]))
    return network


def _with_explicit_padding(same: nn.Conv2d, pads: list[int]) -> nn.Module:
    """Return the same convolution with explicit padding."""
    left, right, top, bottom = pads
    even = left == right and top == bottom
    plain = plain_convolution(same, nn.Conv2d, (top, left) if even else (0, 0), same.weight)
    return plain if even else nn.Sequential(nn.ZeroPad2d((left, right, top, bottom)), plain)
