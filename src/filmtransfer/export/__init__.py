"""Export a classifier: ONNX graphs, a page that runs in the browser, a folder for the Hugging Face hub."""

from .folded import folded_graph
from .hub import push, write_hub
from .model_card import model_card
from .parity import Parity, ParityError, compare, probe_images
from .quantisation import CalibrationImages, QuantisationLoss, quantise, read_calibration_images
from .shared import SharedSession, shared_backbone, user_file
from .web import write_web
from .write import ExportResult, load_classifier, write_folded, write_shared

__all__ = [
    "CalibrationImages",
    "ExportResult",
    "Parity",
    "ParityError",
    "QuantisationLoss",
    "SharedSession",
    "compare",
    "folded_graph",
    "load_classifier",
    "model_card",
    "probe_images",
    "push",
    "quantise",
    "read_calibration_images",
    "shared_backbone",
    "user_file",
    "write_folded",
    "write_hub",
    "write_shared",
    "write_web",
]
