"""Multi-user inference: one backbone pass for a batch in which every image belongs to another user.

A ``Member`` is what prediction needs of one update: FiLM parameters and a predictor, without the support features. An
``Engine`` holds the backbone once and predicts for any members together; its answers are those of
``Predictor.load(file)``.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Literal, Protocol

import numpy as np

from ...budgets import MAX_SERVED_HEAD_BYTES, MAX_SERVED_HEAD_OPERATIONS
from ...data.pixels import MAX_SIZE, PixelSpec, read_square
from ...errors import InputError, UpdateFileError
from ...heads import Head, make_head, map_state
from ...model import FeaturePredictor, Label, Update
from ...model.update import KnownBackbone

SHARED = 256  # kinds of heads and of pixel specs; users may bring others
UPLOAD_HINT = "Send a .safetensors file that 'fit train' or this service has written."
ARRAY_OVERHEAD = 150  # bytes that numpy and Python need around the numbers of an array

# Members with equal heads or pixel specs share one object; a head of these has no state of its own.
_shared_spec: Callable[[PixelSpec], PixelSpec] = lru_cache(SHARED)(lambda spec: spec)
_made_head = lru_cache(SHARED)(make_head)


@dataclass(frozen=True)
class BatchPlan:
    """How images are best computed together."""

    batch: int  # images of one pass
    passes_at_once: int  # in threads of their own
    wait: float  # seconds that the first image waits for others


class MultiUserFeatures(Protocol):
    """What computes the features of a multi-user batch: ``GraphFeatures`` or ``TorchFeatures``."""

    spec: PixelSpec  # the native input format
    plan: BatchPlan

    @property
    def backbone(self) -> KnownBackbone:
        """The backbone."""
        ...

    def row(self, update: Update) -> np.ndarray:
        """Return the FiLM parameters of a checked update as a batch needs them (2, ·)."""
        ...

    def group(self, update: Update) -> int | None:
        """Return what images must have in common, beside their size, to share a pass."""
        ...

    def features(
        self, pixels: np.ndarray, spec: PixelSpec, group: int | None, rows: Sequence[np.ndarray]
    ) -> np.ndarray:
        """Compute features (B, D), image i with the FiLM parameters ``rows[i]``."""
        ...


@dataclass(frozen=True, slots=True)
class Answer:
    """Classes with their probabilities, the most probable first; ``rejected`` means none of these."""

    classes: list[tuple[Label, float]]
    rejected: bool = False
    ood_score: float = 1.0


@dataclass(frozen=True, slots=True, eq=False)
class Member:
    """One user's update as the batch needs it: a row of FiLM parameters and the predictor."""

    film: np.ndarray
    predictor: FeaturePredictor  # its head is shared by all members with such a head; its state is this one's
    spec: PixelSpec
    group: int | None = None  # of images that can share a pass
    threshold: float = 0.0  # of the OOD score

    @classmethod
    def of(cls, update: Update, film: np.ndarray, group: int | None) -> Member:
        """Take what prediction needs out of a checked update."""
        predictor = update.predictor()
        ood = predictor.ood if predictor.ood is not None and predictor.ood.usable else None
        predictor = replace(
            predictor,
            head=_shared_head(update),
            state=map_state(np.array, predictor.state),  # copies: not the file's memory
            classes=[sys.intern(name) if isinstance(name, str) else name for name in update.classes],
            ood=None
            if ood is None
            else replace(ood, directions=ood.directions.copy(), known=ood.known.copy()),
            support=None,
        )
        threshold = 0.0 if ood is None else ood.threshold()
        return cls(film, predictor, _shared_spec(update.pixels), group, threshold)

    @property
    def nbytes(self) -> int:
        """The memory that this member takes."""
        predictor = self.predictor
        arrays = [self.film, *predictor.state, predictor.log_prior]
        arrays += predictor.ood.tensors().values() if predictor.ood is not None else []
        names = sum(map(sys.getsizeof, predictor.classes))
        return sum(int(array.nbytes) + ARRAY_OVERHEAD for array in arrays) + names


class Engine:
    """One backbone for all users; thread-safe."""

    def __init__(self, source: MultiUserFeatures) -> None:
        self.source = source
        self._checking = threading.Lock()

    @classmethod
    def open(
        cls,
        backbone: str,
        weights: str | Path | None = None,
        *,
        image_size: int | None = None,
        threads: int | None = None,
        runtime: Literal["onnx", "torch"] = "onnx",
        on_phase: Callable[[str], None] | None = None,
    ) -> Engine:
        """Return the engine of a backbone; "onnx" imports no torch, and makes the graph in a child process if needed.

        ``on_phase`` is called with what is being done before it takes many seconds.
        """
        if runtime == "onnx":
            from .graph_features import GraphFeatures

            return cls(GraphFeatures(backbone, weights, image_size, threads, on_phase=on_phase))
        from ...backbones import load_backbone
        from ...training.torch_settings import configure_process
        from .torch_features import TorchFeatures

        configure_process(threads)
        return cls(TorchFeatures(load_backbone(backbone, weights), image_size))

    @property
    def backbone(self) -> str:
        """The name of the backbone."""
        return self.source.backbone.name

    @property
    def spec(self) -> PixelSpec:
        """The native input format."""
        return self.source.spec

    @property
    def plan(self) -> BatchPlan:
        """How images are best computed together."""
        return self.source.plan

    def check(
        self, content: bytes, largest: int = MAX_SIZE, accept: Callable[[Update], None] = lambda _: None
    ) -> Update:
        """Return the update in a file's bytes; refuse one that cannot be served here, or takes images above ``largest``.

        ``accept`` refuses others before their head is restored. One file is checked at a time: each may take memory.
        """
        with self._checking:
            return self._check(content, largest, accept)

    def _check(self, content: bytes, largest: int, accept: Callable[[Update], None]) -> Update:
        try:
            update = Update.from_bytes(content, "The file")
        except UpdateFileError as error:  # its hint is for the command line
            raise UpdateFileError(error.message, UPLOAD_HINT) from None
        if update.pixels.size > largest:  # one such image would take the time of hundreds
            raise UpdateFileError(
                f"This classifier takes images of {update.pixels.size} pixels; the service allows {largest}.",
                "Train it again with a smaller image size (fit train --image-size).",
            )
        accept(update)
        update.check_cost(MAX_SERVED_HEAD_BYTES, MAX_SERVED_HEAD_OPERATIONS)
        try:
            self._member(update)
        except UpdateFileError as error:
            raise UpdateFileError(error.message, error.hint or UPLOAD_HINT) from None
        return update

    def member(self, content: bytes) -> Member:
        """Return what a batch needs of a file's bytes."""
        return self._member(Update.from_bytes(content))

    def pixels(self, image: bytes, spec: PixelSpec | None = None) -> np.ndarray:
        """Decode an image file to uint8 (3, S, S), for this engine or for a member (its ``spec``)."""
        return read_square(image, spec or self.spec)

    def fits(self, member: Member, pixels: np.ndarray) -> None:
        """Refuse pixels that this member cannot take."""
        wanted = (3, member.spec.size, member.spec.size)
        if pixels.dtype != np.uint8 or pixels.shape != wanted:
            raise InputError(
                f"The pixels are {pixels.dtype} of shape {pixels.shape}; "
                f"this classifier takes uint8 of shape {wanted}.",
                "Decode the image with engine.pixels(image, member.spec).",
            )

    def answers(self, members: Sequence[Member], pixels: Sequence[np.ndarray] | np.ndarray) -> list[Answer]:
        """Predict ``pixels[i]`` (uint8) with ``members[i]``, in one backbone pass for every image size."""
        if len(members) != len(pixels):
            raise InputError(f"{len(members)} members but {len(pixels)} images.", "One image per member.")
        for member, square in zip(members, pixels, strict=True):
            self.fits(member, square)
        answers: dict[int, Answer] = {}
        for spec, group in dict.fromkeys((member.spec, member.group) for member in members):
            rows = [i for i, member in enumerate(members) if (member.spec, member.group) == (spec, group)]
            batch = np.stack([pixels[i] for i in rows])
            features = self.source.features(batch, spec, group, [members[i].film for i in rows])
            answers |= zip(rows, _answers([members[i] for i in rows], features), strict=True)
        return [answers[i] for i in range(len(members))]

    def _member(self, update: Update) -> Member:
        """Check that an update can share this backbone, and take what prediction needs."""
        body = update.body()
        if not body.is_film:
            raise UpdateFileError(
                f"This update trained {body.describe()}; only FiLM can share a backbone with other users.",
                "Train it again with the adapter film.",
            )
        update.check_backbone(self.source.backbone)
        return Member.of(update, self.source.row(update), self.source.group(update))


def _shared_head(update: Update) -> Head:
    """Return the unconfigured head that all members with such a head share."""
    try:
        return _made_head(update.head, **update.head_options)
    except TypeError:  # options that cannot be keys, such as lists
        return make_head(update.head, **update.head_options)


def _answers(members: Sequence[Member], features: np.ndarray) -> list[Answer]:
    """Pass each row through its own head; beside the backbone pass this costs nothing."""
    answers: list[Answer] = []
    for i, member in enumerate(members):
        predictor = member.predictor
        prediction = predictor.predict(features[i : i + 1])
        (probabilities,) = prediction.probabilities.tolist()
        order = sorted(range(len(probabilities)), key=lambda c: -probabilities[c])
        classes = [(predictor.classes[c], probabilities[c]) for c in order]
        if predictor.ood is None:
            answers.append(Answer(classes))
        else:
            score = float(predictor.ood_scores(prediction)[0])
            answers.append(Answer(classes, score < member.threshold, score))
    return answers
