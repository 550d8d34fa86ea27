"""Features for the predictions of one update: from the backbone's graph, or from torch where that is not possible."""

from __future__ import annotations

import warnings
from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np

from ..data.pixels import PixelSpec
from ..errors import FitError, FitWarning, UnavailableError, UsageError, check_count, first_line
from ..model.classification import Extractor
from ..model.update import Update
from ..processes import default_threads
from .cache import find, writable_folder
from .facts import GraphKey
from .session import FeatureSession
from .weights_index import remember, weights_source

if TYPE_CHECKING:
    from ..model import AdaptedModel


class GraphExtractor:
    """The graph of a backbone with the FiLM parameters of one update."""

    def __init__(self, session: FeatureSession, update: Update) -> None:
        update.check(session.facts.features)
        self.pixels: PixelSpec = update.pixels
        self.session = session
        self.gamma, self.beta = session.facts.pack(update.film, update.body().first_film_stage)

    def extract(self, squares: np.ndarray) -> np.ndarray:
        """Compute features (B, D) of uint8 squares (B, 3, S, S)."""
        return self.session.features(squares, self.gamma, self.beta)


def graph_key(update: Update) -> GraphKey:
    """Return the key of the graph that an update needs."""
    return GraphKey.of(update.backbone, update.backbone_digest, update.pixels, update.body().first_film_stage)


def find_extractor(
    update: Update,
    runtime: str = "auto",
    *,
    weights: str | None = None,
    device: str = "auto",
    threads: int | None = None,
) -> Extractor:
    """Return what computes features: the stored graph, else torch; "onnx" makes the graph, "torch" ignores it."""
    body, on_cpu = update.body(), device in ("auto", "cpu")
    if threads is not None:
        check_count("threads", threads)
    if weights is not None:  # an error if there is no such file, whether it is needed or not
        weights_source(update.backbone, weights)
    if runtime == "onnx" and not (body.is_film and on_cpu):
        reason = f"it trained {body.describe()}" if on_cpu else f"it runs on the CPU, not on {device}"
        raise UsageError(f"onnxruntime cannot be used: {reason}.", "Use --runtime torch.")
    if runtime != "torch" and body.is_film and on_cpu:
        session = find(graph_key(update), threads or default_threads())
        if session is not None:
            return GraphExtractor(session, update)
    if find_spec("torch") is None:
        if runtime == "torch" or not body.is_film or not on_cpu:
            from ..installation import install_command

            raise UnavailableError(
                "This needs torch, which is not installed.", f"Install it with: {install_command('torch')}"
            )
        raise UnavailableError(
            f"There is no graph of {update.backbone} for images of {update.pixels.size} pixels here, and torch, "
            "which makes it, is not installed.",
            "Copy the cache folder of a machine that has it (FILMTRANSFER_CACHE), or install filmtransfer with torch.",
        )
    model = _torch_model(update, weights, device, threads)
    return GraphExtractor(make_graph(model, weights, threads), update) if runtime == "onnx" else model


def _torch_model(update: Update, weights: str | None, device: str, threads: int | None) -> AdaptedModel:
    """Load the backbone and the update on it. This imports torch."""
    from ..backbones import load_backbone
    from ..model.hardware import Hardware, choose_threads

    choose_threads(threads)
    hardware = Hardware.choose(device)
    return update.apply(load_backbone(update.backbone, weights, fold=update.body().folds), hardware)


def make_graph(model: AdaptedModel, weights: str | None = None, threads: int | None = None) -> FeatureSession:
    """Make the graph that predictions of such a model need, and keep it; ``weights`` is where its weights came from."""
    from .prepare import prepare_graph

    stage = model.body.first_film_stage
    session = prepare_graph(model.backbone, model.pixels, stage, threads or default_threads())
    remember(model.backbone.name, weights, model.backbone.digest)
    return session


def prepare_predictions(model: AdaptedModel | None, weights: str | None = None) -> bool:
    """Make the graph of a model, so that predictions do not need torch; return whether it is there now.

    What was trained or predicted is safe by then: an error is reported as a warning.
    """
    if model is None or not model.body.is_film:
        return False
    if find_spec("onnxruntime") is None or find_spec("onnx") is None:
        return False
    if writable_folder(model.backbone.name) is None:
        return False
    try:
        make_graph(model, weights)
    except Exception as error:  # of torch's exporter, onnx or onnxruntime; torch can still predict
        reason = error.message if isinstance(error, FitError) else first_line(error)
        warnings.warn(FitWarning(f"Predictions will use torch: {reason}"), stacklevel=2)
        return False
    return True
