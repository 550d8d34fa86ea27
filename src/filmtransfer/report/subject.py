"""What a report is about: photos, what a classifier said of them, and the classifier."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import torch
from torch import Tensor

from ..data import SkippedImage
from ..formatting import count
from ..heads import GaussianHead
from ..model import Update
from ..training.assess.evaluation import Evaluation, evaluate

Kind = Literal["train", "test"]


@dataclass(frozen=True)
class Photos:
    """N photos."""

    names: list[str]
    labels: Tensor  # (N), places in the classes
    features: Tensor  # (N, D)
    thumbnails: list[bytes]
    digests: list[str]

    def __len__(self) -> int:
        return len(self.names)


@dataclass(frozen=True)
class Judged:
    """What was said of some of the photos by a head that was built without them."""

    index: Tensor  # (n), places among the photos
    truths: Tensor  # (n)
    logits: Tensor  # (n, C), prior included
    temperature: float = 1.0

    def __len__(self) -> int:
        return len(self.index)

    @cached_property
    def probabilities(self) -> Tensor:
        return torch.softmax(self.logits.double() / self.temperature, 1)

    @cached_property
    def untempered(self) -> Tensor:
        """As the head itself gives them."""
        return torch.softmax(self.logits.double(), 1)

    @cached_property
    def said(self) -> Tensor:
        return self.probabilities.argmax(1)

    @cached_property
    def sure(self) -> Tensor:
        """How probable the class was that was said (n)."""
        return self.probabilities.max(1).values

    @cached_property
    def own(self) -> Tensor:
        """How probable the photo's own class was (n)."""
        return self.probabilities.gather(1, self.truths[:, None])[:, 0]

    @cached_property
    def right(self) -> Tensor:
        return self.said == self.truths

    @cached_property
    def evaluation(self) -> Evaluation:
        return evaluate(self.said, self.truths, self.logits.shape[1])


@dataclass(frozen=True)
class Learned:
    """The support photos behind the head: their features can build it again."""

    features: Tensor  # (N, D)
    labels: Tensor  # (N)
    tested: Tensor  # (N) bool: which of them may judge a head built without them
    names: list[str]


@dataclass(frozen=True)
class Strangers:
    """Photos of none of the classes, and how near to a class each was."""

    photos: Photos  # labels: the classes they were taken for
    scores: Tensor  # (n)
    known: Tensor  # the scores of the test photos
    left_out: Tensor  # the scores of left-out training photos, by which the threshold was set
    threshold: float
    false_alarm: float


@dataclass(frozen=True)
class Subject:
    """All that the parts of a report need."""

    kind: Kind
    title: str  # the name of the update
    classes: list[str]
    photos: Photos
    judged: Judged | None  # all photos that could be judged
    counted: Judged | None  # those that count for the figure at the top
    unseen: bool  # whether fine-tuning had not seen the ones that count
    learned: Learned | None
    head: GaussianHead
    update: Update
    sites: list[str] = field(default_factory=list)  # of FiLM, in the order of the network
    skipped: list[SkippedImage] = field(default_factory=list)
    seconds: float | None = None  # of fine-tuning
    stored: int | None = None  # bytes of the update file
    strangers: Strangers | None = None

    @property
    def moved(self) -> bool:
        """Whether fine-tuning changed anything that is kept."""
        results = self.update.results
        return bool(results.get("steps", 0)) and results.get("share", 1.0) != 0

    def basis(self, judged: Judged) -> str:
        """What a number was measured on, in words that end a sentence."""
        photos = count(len(judged), "photo")
        if self.kind == "test":
            return (
                f"the {photos} of the test folder" if len(judged) > 1 else "the one photo of the test folder"
            )
        each = (
            "each judged by a classifier built without it"
            if len(judged) > 1
            else "judged by a classifier built without it"
        )
        if not self.moved:
            return f"{photos} of yours, {each}"
        if self.counted is not None and self.unseen and len(judged) == len(self.counted):
            return f"{photos} of yours that fine-tuning had not seen, {each}"
        hidden = len(self.counted) if self.counted is not None and self.unseen else 0
        seen = f"{len(judged) - hidden:,} of them" if hidden else "them"
        return f"{photos} of yours, {each}; fine-tuning had seen {seen}, which makes this kinder than new photos will be"

    def about(self, i: int) -> str:
        """What to call photo i for someone who cannot see it."""
        return f"{self.photos.names[i]}, labelled {self.classes[int(self.photos.labels[i])]}"
