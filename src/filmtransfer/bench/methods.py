"""The methods of the paper's tables by name: which head, what of the backbone is learned; and the ways to split."""

from __future__ import annotations

from typing import Any

METHODS: dict[str, dict[str, Any]] = {
    "BiT": {"head": "linear", "train": "all", "preset": "bit"},
    "BiT-FiLM": {"head": "linear", "train": "adapter", "preset": "bit"},  # BiT's protocol, FiLM's numbers
    "FiT-QDA": {"head": "qda"},
    "FiT-LDA": {"head": "lda"},
    "FiT-ProtoNets": {"head": "protonets"},
    # {LDA, linear} × {None, FiLM, All}: None learns e alone, or solves for the linear head.
    "LDA-None": {"head": "lda", "train": "none"},
    "LDA-FiLM": {"head": "lda"},
    "LDA-All": {"head": "lda", "train": "all"},
    "Linear-None": {"head": "linear", "train": "none"},
    "Linear-FiLM": {"head": "linear", "train": "adapter", "preset": "bit"},
    "Linear-All": {"head": "linear", "train": "all", "preset": "bit"},
    # The head on the bare backbone: nothing is learned.
    "Frozen-LDA": {"head": "lda", "train": "none", "steps": 0},
    "Frozen-QDA": {"head": "qda", "train": "none", "steps": 0},
    "Frozen-ProtoNets": {"head": "protonets", "train": "none", "steps": 0},
}

# The competitors, each with the linear head of its authors and with ours.
for _title, _adapter in {
    "VPT": "vpt",
    "Adapter": "adapter",
    "AdaptFormer": "adaptformer",
    "LoRA": "lora",
    "NOAH": "noah",
    "Convpass": "convpass",
    "FiLM": "film",
}.items():
    METHODS[_title] = {"head": "linear", "adapter": _adapter, "preset": "adapters"}
    for _head in ("LDA", "QDA", "ProtoNets"):
        if _adapter != "film":
            METHODS[f"{_title}-{_head}"] = {"head": _head.lower(), "adapter": _adapter}

# How the images are used in the episodes: the ablation's three ways, and ours.
SPLITS = {"no_split": "No Split", "split": "Split", "use_all": "Use All", "resplit": "Resplit"}
