"""Convert a torch module to an ONNX graph in one file.

    pixels  uint8 (B, 3, S, S), RGB, as ``data.pixels`` makes them; normalisation is inside
    →  probabilities (B, C) · logits (B, C) · features (B, D)

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
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

from ..data.pixels import PixelSpec
from ..errors import InputError, MissingExtraError
from ..heads import Scores
from ..model import Predictor, log_posterior
from ..model.metadata import JsonTable
from ..model.tensors import normalise

KEY = "filmtransfer"
OPSET = 18
ALMOST_ZERO = 1e-30
OUTPUTS = ("probabilities", "logits", "features")


class HeadGraph(nn.Module):
    """The head with prior and temperature: features (B, D) → probabilities (B, C) and logits (B, C)."""

    log_prior: Tensor

    def __init__(self, scores: Scores, log_prior: Tensor, temperature: float) -> None:
        super().__init__()
        self.scores = scores
        self.register_buffer("log_prior", log_prior.float())
        self.temperature = float(temperature)

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Compute probabilities and logits."""
        relative, shared = self.scores(features)
        return log_posterior(relative, self.log_prior, self.temperature).exp(), relative + shared


def head_graph(predictor: Predictor) -> HeadGraph:
    """Return the module of a predictor; its head has to be configured."""
    return HeadGraph(predictor.head.scores(), predictor.log_prior.cpu(), predictor.temperature).eval()


class FoldedClassifier(nn.Module):
    """A complete classifier, from normalisation to probabilities."""

    def __init__(self, network: nn.Module, pixels: PixelSpec, head: HeadGraph) -> None:
        super().__init__()
        self.network, self.pixels, self.head = network, pixels, head

    def forward(self, pixels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return probabilities (B, C), logits (B, C) and features (B, D)."""
        features = self.network(normalise(pixels, self.pixels))
        probabilities, logits = self.head(features)
        return probabilities, logits, features


def trace(
    module: nn.Module,
    example: Mapping[str, Tensor],
    outputs: Sequence[str],
    metadata: Mapping[str, object],
    fixed: Sequence[str] = (),
) -> bytes:
    """Return the content of an .onnx file; ``fixed`` outputs have no batch axis, ``metadata`` goes into its properties."""
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


def read_metadata(content: bytes) -> JsonTable:
    """Return the metadata that ``trace`` wrote; empty if the graph is not ours."""
    onnx = import_extra("onnx")
    try:
        model = onnx.load_from_string(content)
        metadata = json.loads(next((p.value for p in model.metadata_props if p.key == KEY), "{}"))
    except Exception:  # protobuf's exceptions depend on its version
        return {}
    return metadata if isinstance(metadata, dict) else {}


def open_session(content: bytes, threads: int | None = None) -> Any:
    """Return an onnxruntime session on the CPU that prints errors only."""
    runtime = import_extra("onnxruntime")
    options = runtime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = threads or torch.get_num_threads()
    options.inter_op_num_threads = 1
    return runtime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def import_extra(name: str) -> Any:
    """Import a module of the extra ``export``, or name the extra if it is missing."""
    try:
        return import_module(name)
    except ImportError:
        raise MissingExtraError("Exporting", "export") from None


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
