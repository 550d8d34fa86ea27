"""The methods of the paper's tables by name, with their settings; and the names of the splits."""

from __future__ import annotations

METHODS: dict[str, dict[str, str | int]] = {
    "BiT": {"head": "linear", "train": "all", "preset": "bit"},
    "BiT-FiLM": {"head": "linear", "train": "adapter", "preset": "bit"},  # BiT's protocol, trains FiLM
    "FiT-QDA": {"head": "qda"},
    "FiT-LDA": {"head": "lda"},
    "FiT-ProtoNets": {"head": "protonets"},
    # {LDA, linear} × {None, FiLM, All}: None learns only the covariance weights e, or solves for the linear head.
    "LDA-None": {"head": "lda", "train": "none"},
    "LDA-FiLM": {"head": "lda"},
    "LDA-All": {"head": "lda", "train": "all"},
    "Linear-None": {"head": "linear", "train": "none"},
    "Linear-FiLM": {"head": "linear", "train": "adapter", "preset": "bit"},
    "Linear-All": {"head": "linear", "train": "all", "preset": "bit"},
    # The head on the frozen backbone: nothing is trained.
    "Frozen-LDA": {"head": "lda", "train": "none", "steps": 0},
    "Frozen-QDA": {"head": "qda", "train": "none", "steps": 0},
    "Frozen-ProtoNets": {"head": "protonets", "train": "none", "steps": 0},
}

# The competitors, each with the linear head of its authors and with the heads of FiT.
for _title in ("VPT", "Adapter", "AdaptFormer", "LoRA", "NOAH", "Convpass", "FiLM"):
    _adapter = _title.lower()
    METHODS[_title] = {"head": "linear", "adapter": _adapter, "preset": "adapters"}
    for _head in ("LDA", "QDA", "ProtoNets"):
        if _adapter != "film":
            METHODS[f"{_title}-{_head}"] = {"head": _head.lower(), "adapter": _adapter}

# How the images are split in the episodes: the three options of the ablation, and ours.
SPLITS = {"no_split": "No Split", "split": "Split", "use_all": "Use All", "resplit": "Resplit"}
