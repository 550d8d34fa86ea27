"""A small subject with a known truth: classes far apart, one photo with a wrong label, one that is there twice."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import torch
from PIL import Image

from filmtransfer.data.pixels import PixelSpec
from filmtransfer.heads import GaussianHead, make_head
from filmtransfer.model import Update
from filmtransfer.report.subject import Judged, Kind, Learned, Photos, Subject
from filmtransfer.training.assess.leave_one_out import leave_out

D = 16


def jpeg(seed: int) -> bytes:
    rng = np.random.default_rng(seed)
    buffer = io.BytesIO()
    pixels = np.full((24, 32, 3), rng.integers(0, 255, 3), dtype=np.uint8)
    pixels[:8] = rng.integers(0, 255, 3)
    Image.fromarray(pixels).save(buffer, format="JPEG")
    return buffer.getvalue()


def features(labels: torch.Tensor, spread: float = 0.35, seed: int = 0, width: int = D) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    means = torch.randn(int(labels.max()) + 1, width, generator=generator)
    return means[labels] + spread * torch.randn(len(labels), width, generator=generator)


def photos(labels: torch.Tensor, z: torch.Tensor, pictures: bool = True) -> Photos:
    count = len(labels)
    thumbnails = [jpeg(i) if pictures else b"" for i in range(count)]
    names = [f"folder/{i:03}.jpg" for i in range(count)]
    return Photos(names, labels, z, thumbnails, [f"{i:032x}" for i in range(count)])


def update_of(head: GaussianHead, names: list[str], **more: Any) -> Update:
    assert head.counts is not None
    weights = getattr(head, "weights", None)
    known: dict[str, Any] = {
        "body": {f"block{i}.{k}": torch.randn(6).abs() * 0.1 + (k == "gamma") for i in range(3) for k in ("gamma", "beta")},
        "results": {"steps": 5, "share": 1.0, "stopped": "done"},
        "settings": {"prior": "uniform"},
    }  # fmt: skip
    return Update(
        head=head.name,
        head_tensors=head.compact(),
        covariance_weights=None if weights is None else weights.log.detach(),
        classes=list(names),
        counts=head.counts.tolist(),
        backbone="made_up",
        backbone_digest="0" * 64,
        pixels=PixelSpec(64, (0.5, 0.5, 0.5), (0.5, 0.5, 0.5)),
        versions={"filmtransfer": "0"},
        **(known | more),
    )


def subject(
    labels: torch.Tensor,
    z: torch.Tensor,
    *,
    names: list[str] | None = None,
    head: str = "lda",
    temperature: float = 1.0,
    judge: bool = True,
    pictures: bool = True,
    kind: Kind = "train",
    **more: Any,
) -> Subject:
    """As training makes it: every photo judged by a head built without it; the second half counts."""
    classes = int(labels.max()) + 1
    names = names or [f"kind {c}" for c in range(classes)]
    with torch.no_grad():
        built = make_head(head).configure(z, labels)
    judged = counted = None
    tested = torch.zeros(len(labels), dtype=torch.bool)
    if judge:
        left = leave_out(built, z, labels)
        judged = Judged(left.index, labels[left.index], left.logits, temperature)
        tested[left.index] = True
        tested[: len(labels) // 2] = False
        part = left.of(tested)
        counted = Judged(part.index, labels[part.index], part.logits, temperature)
    update = update_of(built, names, **more)
    return Subject(
        kind=kind,
        title="made up",
        classes=names,
        photos=photos(labels, z, pictures),
        judged=judged,
        counted=counted,
        unseen=True,
        learned=Learned(z, labels, tested, [""] * len(labels)),
        head=built,
        update=update,
        sites=list(dict.fromkeys(name.rpartition(".")[0] for name in update.film)),
    )
