"""Many users' updates on one backbone: one pass for a batch in which every image belongs to another user.

A ``Member`` is what prediction needs of one update, and no more: no support features, no history. An ``Engine`` holds
the backbone, once, and answers for any members together; the answers are those of ``FewShotClassifier.load(file)``.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import torch
from torch import Tensor

from ...backbones import Backbone
from ...data.pixels import PixelSpec, decode, normalise, to_square
from ...errors import InputError, UpdateFileError, UsageError
from ...estimator import FALSE_ALARM
from ...film import FilmTable
from ...heads import GaussianHead, State, log_prior, make_head
from ...model import Update
from ...model.body import share_weights
from ...model.ood import Unknown

TENSOR = 500  # bytes that torch and Python need around the numbers of a tensor


@dataclass(frozen=True, slots=True)
class Answer:
    """Classes with their probabilities, the most probable first; ``unknown`` means none of these."""

    classes: list[tuple[Any, float]]
    unknown: bool = False
    known: float = 1.0


@dataclass(frozen=True, slots=True, eq=False)
class Member:
    """One user's update, ready for the batch: FiLM numbers folded into a row, the head, and the words."""

    film: Tensor
    head: GaussianHead  # shared by all members with such a head; what is this one's is its state
    state: State
    classes: list[Any]
    log_prior: Tensor
    spec: PixelSpec
    temperature: float = 1.0
    unknown: Unknown | None = None
    threshold: float = 0.0

    @classmethod
    def of(cls, update: Update, table: FilmTable, sites: Sequence[str]) -> Member:
        """Take what prediction needs out of a checked update whose FiLM stands at ``sites``."""
        like = table.bare
        head = make_head(update.head, **update.head_options).to(like.dtype)
        if update.covariance_weights is not None:
            with torch.no_grad():
                head.weights.log.copy_(update.covariance_weights)  # type: ignore[union-attr, operator]
        tensors = {
            k: t.to(like) if t.is_floating_point() else t.to(like.device)
            for k, t in update.head_tensors.items()
        }
        head.restore(tensors, torch.tensor(update.counts))
        if not head.finite():
            raise UpdateFileError("The head is not made of finite numbers.", "Train it again.")
        prior: Any = update.settings.get("prior", "uniform")  # a word, or a list of numbers
        unknown, threshold = _doubts(update)
        return cls(
            film=table.pack(update.body, sites),
            head=_evaluator(update.head, tuple(sorted(update.head_options.items()))),
            state=tuple(own(tensor) for tensor in head.configured()),
            classes=[sys.intern(name) if isinstance(name, str) else name for name in update.classes],
            log_prior=log_prior(prior, torch.tensor(update.counts)),
            spec=_shared(update.pixels),
            temperature=update.temperature,
            unknown=unknown,
            threshold=threshold,
        )

    @property
    def nbytes(self) -> int:
        """The memory that this member takes."""
        tensors = list(_tensors([self.film, self.state, self.log_prior, self.unknown]))
        blocks = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors}
        return sum(blocks.values()) + TENSOR * len(tensors) + sum(map(sys.getsizeof, self.classes))


class Engine:
    """One backbone for all users; thread-safe."""

    def __init__(self, backbone: Backbone, image_size: int | None = None) -> None:
        self.backbone = backbone
        self.spec = replace(backbone.pixels, size=backbone.fit_size(image_size or backbone.pixels.size))
        self._network = share_weights(backbone.module)
        self._table = FilmTable(self._network, backbone.sites)
        self._lock = threading.Lock()  # of the table: one batch at a time

    def check(self, content: bytes) -> Update:
        """The update in a file's bytes, if it can be served here."""
        update = Update.from_bytes(content)
        Member.of(update, self._table, self._film_sites(update))
        return update

    def member(self, content: bytes) -> Member:
        """What a file's bytes bring to a batch."""
        update = Update.from_bytes(content)
        return Member.of(update, self._table, self._film_sites(update))

    def pixels(self, image: bytes, spec: PixelSpec | None = None) -> Tensor:
        """An image file's bytes as uint8 (3, S, S): as this engine has it, or as a member does (its ``spec``)."""
        return to_square(decode(image, near=(spec or self.spec).size), spec or self.spec)

    def fits(self, member: Member, pixels: Tensor) -> None:
        """Refuse pixels that this member cannot take."""
        wanted = (3, member.spec.size, member.spec.size)
        if pixels.dtype != torch.uint8 or tuple(pixels.shape) != wanted:
            raise InputError(
                f"The pixels are {pixels.dtype} of shape {tuple(pixels.shape)}; "
                f"this classifier takes uint8 of shape {wanted}.",
                "Decode the image with engine.pixels(image, member.spec).",
            )

    @torch.no_grad()
    def answers(self, members: Sequence[Member], pixels: Tensor | Sequence[Tensor]) -> list[Answer]:
        """What ``members[i]`` says to ``pixels[i]`` (uint8), from one backbone pass for every image size."""
        if len(members) != len(pixels):
            raise InputError(f"{len(members)} members but {len(pixels)} images.", "One image per member.")
        for member, square in zip(members, pixels, strict=True):
            self.fits(member, square)
        found: dict[int, Answer] = {}
        for spec in dict.fromkeys(member.spec for member in members):
            rows = [i for i, member in enumerate(members) if member.spec == spec]
            batch = pixels if isinstance(pixels, Tensor) else torch.stack([pixels[i] for i in rows])
            if len(batch) != len(rows):
                batch = batch[rows]
            features = self._features(batch, spec, [members[i].film for i in rows])
            found |= zip(rows, _heads([members[i] for i in rows], features), strict=True)
        return [found[i] for i in range(len(members))]

    def _features(self, pixels: Tensor, spec: PixelSpec, film: Sequence[Tensor]) -> Tensor:
        """Features (B, D), row i under the FiLM numbers ``film[i]``."""
        batch = normalise(pixels.to(self.backbone.device), spec).to(self._table.bare.dtype)
        with self._lock, self._table.rows(film):
            features: Tensor = self._network(batch.contiguous(memory_format=self.backbone.memory_format))
        return features

    def _film_sites(self, update: Update) -> list[str]:
        """The sites where an update learned FiLM, after a look at all that has to fit."""
        backbone, body = self.backbone, update.learns()
        if update.backbone_digest != backbone.digest:
            raise UpdateFileError(
                f"This update was made with {update.backbone}, weights {update.backbone_digest[:12]}…; "
                f"here is {backbone.name}, weights {backbone.digest[:12]}….",
                f"Train it again with --backbone {backbone.name}.",
            )
        if body.train == "all" or body.adapter != "film":
            learned = "all weights of the backbone" if body.train == "all" else f"the adapter {body.adapter}"
            raise UpdateFileError(
                f"This update learned {learned}; only FiLM can share a backbone with other users.",
                "Train it again with the adapter film.",
            )
        update.check(backbone.features)
        if backbone.fit_size(update.pixels.size) != update.pixels.size:
            raise UpdateFileError(f"{backbone.name} cannot take images of {update.pixels.size} pixels.")
        try:
            return backbone.sites_from(body.film_from) if body.train == "adapter" else []
        except UsageError as error:  # not of the user: of the file
            raise UpdateFileError(error.message, "Train it again.") from None


def _heads(members: Sequence[Member], features: Tensor) -> list[Answer]:
    """Each row through its own head. Next to the pass this is nothing, so there is no need to stack heads."""
    answers: list[Answer] = []
    for member, row in zip(members, features.split(1), strict=True):
        logits = member.head.evaluate(member.state, row).cpu().double()
        (probabilities,) = torch.softmax(logits / member.temperature + member.log_prior, 1).tolist()
        if any(p != p for p in probabilities):
            raise InputError(
                "This classifier gives no finite numbers for this image.", "Go back to an earlier version."
            )
        order = sorted(range(len(probabilities)), key=lambda c: -probabilities[c])
        classes = [(member.classes[c], probabilities[c]) for c in order]
        if member.unknown is None:
            answers.append(Answer(classes))
        else:
            score = float(member.unknown.scores(row.cpu(), logits)[0])
            answers.append(Answer(classes, score < member.threshold, score))
    return answers


def _doubts(update: Update) -> tuple[Unknown | None, float]:
    """What tells "none of these", and its threshold; updates from too few photos never doubt."""
    try:
        return update.unknown, update.unknown.threshold(FALSE_ALARM) if update.unknown else 0.0
    except InputError:
        return None, 0.0


@cache
def _evaluator(name: str, options: tuple[tuple[str, Any], ...]) -> GaussianHead:
    """A head of this kind without a state of its own."""
    return make_head(name, **dict(options))


@cache
def _shared(spec: PixelSpec) -> PixelSpec:
    """Equal specs are one object."""
    return spec


def own(tensor: Tensor) -> Tensor:
    """With memory of its own: not a view that keeps a whole file."""
    return tensor.detach().clone()


def _tensors(of: Any) -> Iterator[Tensor]:
    """The tensors in a value, as deep as tuples, lists, tables and dataclasses go."""
    if isinstance(of, Tensor):
        yield of
    elif isinstance(of, (list, tuple)):
        for part in of:
            yield from _tensors(part)
    elif isinstance(of, dict):
        yield from _tensors(list(of.values()))
    elif hasattr(of, "__dataclass_fields__"):
        yield from _tensors([getattr(of, name) for name in of.__dataclass_fields__])
