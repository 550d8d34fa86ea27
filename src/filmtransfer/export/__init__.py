"""Export a classifier: ONNX graphs, a page that runs in the browser, a folder for the Hugging Face hub."""

from ..runtime.parity import ParityError, probe_images
from .folded import folded_graph
from .hub import push, write_hub
from .parity import compare
from .quantisation import read_calibration_images
from .shared import SharedSession, shared_backbone, user_file
from .web import write_web
from .write import ExportResult, load_classifier, write_folded, write_shared

__all__ = [
    "ExportResult",
    "ParityError",
    "SharedSession",
    "compare",
    "folded_graph",
    "load_classifier",
    "probe_images",
    "push",
    "read_calibration_images",
    "shared_backbone",
    "user_file",
    "write_folded",
    "write_hub",
    "write_shared",
    "write_web",
]
