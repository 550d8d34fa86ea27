"""Backbone features on onnxruntime, without torch: a graph with γ and β as inputs, made once and cached.

Only ``tracing``, ``graph``, ``parity`` and ``prepare``, which make a graph, import torch.
"""

from .cache import find, graph_folder, prepare_in_child, store
from .facts import GraphFacts, GraphKey, Site
from .session import FeatureSession, import_extra, open_session

__all__ = [
    "FeatureSession",
    "GraphFacts",
    "GraphKey",
    "Site",
    "find",
    "graph_folder",
    "import_extra",
    "open_session",
    "prepare_in_child",
    "store",
]
