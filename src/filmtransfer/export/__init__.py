"""The way out: ONNX graphs, a page for the browser, a folder for the hub."""

from .card import card
from .folded import folded
from .hub import push, write_hub
from .int8 import Images, Loss, quantise, read_images
from .parity import Parity, ParityError, compare, probes
from .shared import SharedSession, shared_backbone, user_file
from .web import write_web
from .write import Exported, open_update, write_folded, write_shared

__all__ = [
    "Exported",
    "Images",
    "Loss",
    "Parity",
    "ParityError",
    "SharedSession",
    "card",
    "compare",
    "folded",
    "open_update",
    "probes",
    "push",
    "quantise",
    "read_images",
    "shared_backbone",
    "user_file",
    "write_folded",
    "write_hub",
    "write_shared",
    "write_web",
]
