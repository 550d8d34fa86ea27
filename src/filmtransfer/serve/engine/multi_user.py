"""Multi-user inference: one backbone pass for a batch in which every image belongs to another user.

A ``Member`` is what prediction needs of one update: FiLM parameters and a predictor, without the support features. An
``Engine`` holds the backbone once and predicts for any members together; its answers are those of
``FewShotClassifier.load(file)``.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import torch
from torch import Tensor

from ...backbones import Backbone
from ...data.pixels import PixelSpec, decode, to_square
from ...errors import InputError, UpdateFileError, UsageError
from ...film import FilmTable
from ...heads import make_head, map_state
from ...model import Label, Predictor, Update
from ...model.body import share_weights
from ...model.tensors import normalise

TENSOR_OVERHEAD = 500  # bytes that torch and Python need around the numbers of a tensor

# Members with equal heads or pixel specs share one object; a head of these has no state of its own.
_shared_head = cache(make_head)
_shared: Callable[[PixelSpec], PixelSpec] = cache(lambda spec: spec)


@dataclass(frozen=True, slots=True)
class Answer:
    """Classes with their probabilities, the most probable first; ``rejected`` means none of these."""

    classes: list[tuple[Label, float]]
    rejected: bool = False
    ood_score: float = 1.0


@dataclass(frozen=True, slots=True, eq=False)
class Member:
    """One user's update as the batch needs it: a row of FiLM parameters and the predictor."""

    film: Tensor
    predictor: Predictor  # its head is shared by all members with such a head; its state is this one's
    spec: PixelSpec
    threshold: float = 0.0  # of the OOD score

    @classmethod
    def of(cls, update: Update, table: FilmTable, sites: Sequence[str]) -> Member:
        """Take what prediction needs out of a checked update with FiLM at ``sites``."""
        predictor = update.predictor(update.restore_head(table.bare))
        ood = predictor.ood if predictor.ood is not None and predictor.ood.usable else None
        predictor = replace(
            predictor,
            head=_shared_head(update.head, **update.head_options),
            state=map_state(lambda tensor: tensor.detach().clone(), predictor.state),  # not the file's memory
            classes=[sys.intern(name) if isinstance(name, str) else name for name in update.classes],
            ood=ood,
            support=None,
        )
        threshold = 0.0 if ood is None else ood.threshold()
        return cls(table.pack(update.parameters, sites), predictor, _shared(update.pixels), threshold)

    @property
    def nbytes(self) -> int:
        """The memory that this member takes."""
        predictor = self.predictor
        tensors = [self.film, *predictor.state, predictor.log_prior]
        tensors += predictor.ood.tensors().values() if predictor.ood is not None else []
        blocks = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors}
        names = sum(map(sys.getsizeof, predictor.classes))
        return sum(blocks.values()) + TENSOR_OVERHEAD * len(tensors) + names


class Engine:
    """One backbone for all users; thread-safe."""

    def __init__(self, backbone: Backbone, image_size: int | None = None) -> None:
        self.backbone = backbone
        self.spec = replace(backbone.pixels, size=backbone.fit_size(image_size or backbone.pixels.size))
        self._network = share_weights(backbone.module)
        self._table = FilmTable(self._network, backbone.sites)
        self._lock = threading.Lock()  # of the table: one batch at a time

    def check(self, content: bytes) -> Update:
        """Return the update in a file's bytes; refuse one that cannot be served here."""
        update = Update.from_bytes(content)
        self._member(update)
        return update

    def member(self, content: bytes) -> Member:
        """Return what a batch needs of a file's bytes."""
        return self._member(Update.from_bytes(content))

    def pixels(self, image: bytes, spec: PixelSpec | None = None) -> np.ndarray:
        """Decode an image file to uint8 (3, S, S), for this engine or for a member (its ``spec``)."""
        return to_square(decode(image, near=(spec or self.spec).size), spec or self.spec)

    def fits(self, member: Member, pixels: np.ndarray) -> None:
        """Refuse pixels that this member cannot take."""
        wanted = (3, member.spec.size, member.spec.size)
        if pixels.dtype != np.uint8 or pixels.shape != wanted:
            raise InputError(
                f"The pixels are {pixels.dtype} of shape {pixels.shape}; "
                f"this classifier takes uint8 of shape {wanted}.",
                "Decode the image with engine.pixels(image, member.spec).",
            )

    @torch.no_grad()
    def answers(self, members: Sequence[Member], pixels: np.ndarray | Sequence[np.ndarray]) -> list[Answer]:
        """Predict ``pixels[i]`` (uint8) with ``members[i]``, in one backbone pass for every image size."""
        if len(members) != len(pixels):
            raise InputError(f"{len(members)} members but {len(pixels)} images.", "One image per member.")
        for member, square in zip(members, pixels, strict=True):
            self.fits(member, square)
        answers: dict[int, Answer] = {}
        for spec in dict.fromkeys(member.spec for member in members):
            rows = [i for i, member in enumerate(members) if member.spec == spec]
            batch = np.stack([pixels[i] for i in rows])
            features = self._features(batch, spec, [members[i].film for i in rows])
            answers |= zip(rows, _answers([members[i] for i in rows], features), strict=True)
        return [answers[i] for i in range(len(members))]

    def _features(self, pixels: np.ndarray, spec: PixelSpec, film: Sequence[Tensor]) -> Tensor:
        """Compute features (B, D), row i under the FiLM parameters ``film[i]``."""
        batch = normalise(torch.from_numpy(pixels).to(self.backbone.device), spec).to(self._table.bare.dtype)
        with self._lock, self._table.rows(film):
            features: Tensor = self._network(batch.contiguous(memory_format=self.backbone.memory_format))
        return features

    def _member(self, update: Update) -> Member:
        """Check that an update can share this backbone, and take what prediction needs."""
        backbone, body = self.backbone, update.body()
        if not body.is_film:
            raise UpdateFileError(
                f"This update trained {body.describe()}; only FiLM can share a backbone with other users.",
                "Train it again with the adapter film.",
            )
        update.check_backbone(backbone)
        try:
            sites = backbone.sites_from(body.film_from) if body.train == "adapter" else []
        except UsageError as error:  # not the user's mistake: the file's
            raise UpdateFileError(error.message, "Train it again.") from None
        return Member.of(update, self._table, sites)


def _answers(members: Sequence[Member], features: Tensor) -> list[Answer]:
    """Pass each row through its own head; beside the backbone pass this costs nothing."""
    answers: list[Answer] = []
    for member, row in zip(members, features.split(1), strict=True):
        predictor = member.predictor
        prediction = predictor.predict(row)
        (probabilities,) = prediction.probabilities.tolist()
        if any(p != p for p in probabilities):
            raise InputError(
                "The probabilities of this image are not finite.", "Go back to an earlier version."
            )
        order = sorted(range(len(probabilities)), key=lambda c: -probabilities[c])
        classes = [(predictor.classes[c], probabilities[c]) for c in order]
        if predictor.ood is None:
            answers.append(Answer(classes))
        else:
            score = float(predictor.ood_scores(prediction)[0])
            answers.append(Answer(classes, score < member.threshold, score))
    return answers
