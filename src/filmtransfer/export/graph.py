"""From torch to an ONNX graph in one file.

    pixels  uint8 (B, 3, S, S), RGB, as ``data.pixels`` makes them; normalisation is inside
    →  probabilities (B, C) · logits (B, C) · features (B, D)

The graph is traced by TorchScript. torch's newer exporter gives the same numbers and takes fifteen times as long
(docs/log.md); this is the only place that would change. Weights are inside the file. No time and no path is written: the same
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

from ..data.pixels import PixelSpec, normalise
from ..errors import InputError, MissingExtraError
from .head import HeadGraph

KEY = "filmtransfer"
OPSET = 18
ALMOST_ZERO = 1e-30
OUTPUTS = ("probabilities", "logits", "features")


class Pipeline(nn.Module):
    """The whole walk of an image, normalisation to probabilities."""

    def __init__(self, network: nn.Module, pixels: PixelSpec, head: HeadGraph) -> None:
        super().__init__()
        self.network, self.pixels, self.head = network, pixels, head

    def forward(self, pixels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        features = self.network(normalise(pixels, self.pixels))
        probabilities, logits = self.head(features)
        return probabilities, logits, features


def trace(
    module: nn.Module,
    example: Mapping[str, Tensor],
    outputs: Sequence[str],
    facts: Mapping[str, Any],
    fixed: Sequence[str] = (),
) -> bytes:
    """The content of an .onnx file; ``fixed`` outputs have no batch. ``facts`` go into its metadata."""
    onnx = import_onnx()
    content = io.BytesIO()
    rows = [name for name in (*example, *outputs) if name not in fixed]
    try:
        with torch.no_grad(), quietly():
            torch.onnx.export(
                module.eval(),
                tuple(example.values()),
                content,  # type: ignore[arg-type]
                input_names=list(example),
                output_names=list(outputs),
                dynamic_axes={name: {0: "batch"} for name in rows},
                opset_version=OPSET,
                dynamo=False,
            )
    except (torch.onnx.errors.OnnxExporterError, RuntimeError) as error:
        raise InputError(
            f"This network cannot be written as ONNX ({' '.join(str(error).split())[:160]}).",
            "Learn FiLM on a backbone of 'fit backbones': all of these can.",
        ) from None
    model = onnx.load_from_string(content.getvalue())
    model.producer_name = KEY
    _keep_pads(onnx, model)
    onnx.helper.set_model_props(model, {KEY: json.dumps(dict(facts), sort_keys=True)})
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString(deterministic=True))


def _keep_pads(onnx: Any, model: Any) -> None:
    """Let zeros around a max-pool count, as they do in BiT.

    onnxruntime moves such a padding into the pool, where it counts as −∞ (seen in 1.31: wrong by a third of a
    probability on BiT). It leaves alone a padding that is not exactly 0, so it is made the smallest number that behaves.
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


def facts_of(content: bytes) -> dict[str, Any]:
    """What ``trace`` wrote into the metadata; empty if the graph is not ours."""
    onnx = import_onnx()
    try:
        model = onnx.load_from_string(content)
        found = json.loads(next((p.value for p in model.metadata_props if p.key == KEY), "{}"))
    except Exception:  # protobuf raises its own kinds, by version
        return {}
    return found if isinstance(found, dict) else {}


def session(content: bytes, threads: int | None = None) -> Any:
    """An onnxruntime session on the CPU; warnings about its own optimisations are not ours to print."""
    runtime = import_onnxruntime()
    options = runtime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = threads or torch.get_num_threads()
    options.inter_op_num_threads = 1
    return runtime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def import_onnx() -> Any:
    try:
        import onnx
    except ImportError:
        raise MissingExtraError("Exporting", "export") from None
    return onnx


def import_onnxruntime() -> Any:
    try:
        import onnxruntime
    except ImportError:
        raise MissingExtraError("Exporting", "export") from None
    return onnxruntime


@contextmanager
def quietly() -> Iterator[None]:
    """Without the exporters' remarks on themselves; whether the graph is right is measured, not hoped."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
