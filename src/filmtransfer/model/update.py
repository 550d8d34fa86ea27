"""The update: all that is learned for a task, in one small .safetensors file.

Tensors: ``film/<site>.gamma|beta`` (or ``body/<name>``, where something else than FiLM was learned), ``head/<name>`` in its compact form, ``covariance_weights`` (e),
``unknown/<name>``, what tells images of none of the classes, and, if kept, ``support/<name>``: from these the head can be rebuilt with
classes and photos added or taken away. Everything else is one JSON document in the metadata. No time
and no path is written, so the same training gives the same bytes; only edits are dated.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..backbones import Backbone, BackboneFacts
from ..data.pixels import INTERPOLATIONS, MAX_SIZE, PixelSpec
from ..errors import InputError, UpdateFileError, UsageError
from ..files import write_atomically
from ..heads import HEADS, make_head
from .adapted import AdaptedModel
from .body import Body, load_numbers
from .hardware import Hardware
from .ood import Unknown
from .support import Support
from .tensor_file import pack, unpack

FORMAT = 1
KEY = "filmtransfer"
REQUIRED = {"format", "classes", "counts", "backbone", "pixels", "head", "settings", "seed", "versions"}


@dataclass
class Update:
    """What is learned for a task: ψ, the head, e; and what is needed to use it again."""

    body: dict[str, Tensor]  # ψ: what was learned of the backbone, by name
    head: str
    head_tensors: dict[str, Tensor]
    covariance_weights: Tensor | None
    classes: list[Any]
    counts: list[int]
    backbone: str
    backbone_digest: str
    pixels: PixelSpec
    settings: dict[str, Any] = field(default_factory=dict)
    results: dict[str, Any] = field(default_factory=dict)
    head_options: dict[str, Any] = field(default_factory=dict)
    seed: int = 0
    versions: dict[str, str] = field(default_factory=dict)
    support: Support | None = None
    unknown: Unknown | None = None
    temperature: float = 1.0  # of the probabilities: softmax(logits / temperature + log prior)
    edits: list[dict[str, Any]] = field(default_factory=list)  # what was changed after training, oldest first

    @classmethod
    def of(
        cls,
        model: AdaptedModel,
        classes: list[Any],
        *,
        settings: dict[str, Any],
        results: dict[str, Any],
        seed: int,
        versions: dict[str, str],
        support: Support | None = None,
        unknown: Unknown | None = None,
        temperature: float = 1.0,
    ) -> Update:
        """Take everything that was learned out of a configured model."""
        head = model.head
        weights = getattr(head, "weights", None)
        assert head.counts is not None
        return cls(
            body={k: p.detach().cpu().clone() for k, p in model.moving().items()},
            head=head.name,
            head_tensors={k: v.detach().cpu().clone() for k, v in head.compact().items()},
            covariance_weights=None if weights is None else weights.log.detach().cpu().clone(),
            classes=list(classes),
            counts=head.counts.tolist(),
            backbone=model.backbone.name,
            backbone_digest=model.backbone.digest,
            pixels=model.pixels,
            settings=settings,
            results=results,
            head_options=head.options(),
            seed=int(seed),
            versions=versions,
            support=support,
            unknown=unknown,
            temperature=temperature,
        )

    @property
    def film(self) -> dict[str, Tensor]:
        """The FiLM numbers; none if something else was learned."""
        return self.body if self.learns() == Body(film_from=self.learns().film_from) else {}

    def learns(self) -> Body:
        """What of the backbone was learned; files from before there was a choice have FiLM everywhere."""
        chosen = self.settings
        stage, options = chosen.get("film_from", 0), chosen.get("adapter_options", {})
        if type(stage) is not int or not isinstance(options, dict):
            raise UpdateFileError(f"FiLM cannot begin at stage {stage!r}.", "Train it again.")
        try:
            return Body.of(chosen.get("train", "adapter"), chosen.get("adapter", "film"), stage, options)
        except UsageError as error:  # not of the user: of the file
            raise UpdateFileError(error.message, "Train it again.") from None

    def apply(self, backbone: Backbone, hardware: Hardware | None = None) -> AdaptedModel:
        """The model again, on a backbone whose weights must be the ones it was made with."""
        if backbone.digest != self.backbone_digest:
            raise UpdateFileError(
                f"This update was made with {self.backbone}, weights {self.backbone_digest[:12]}…; "
                f"the backbone here is {backbone.name}, weights {backbone.digest[:12]}….",
                "Load it with the backbone and weights file it was trained with.",
            )
        self.check(backbone.features)
        head = make_head(self.head, **self.head_options)
        try:
            model = AdaptedModel(backbone, head, self.pixels.size, body=self.learns(), hardware=hardware)
        except UsageError as error:  # not of the user: of the file, or of the backbone it was given
            raise UpdateFileError(error.message, error.hint) from None
        if model.pixels.size != self.pixels.size:
            raise UpdateFileError(f"{self.backbone} cannot take images of {self.pixels.size} pixels.")
        model.pixels = self.pixels
        load_numbers(model.network, self.body)
        if self.covariance_weights is not None:
            with torch.no_grad():
                head.weights.log.copy_(self.covariance_weights)  # type: ignore[union-attr, operator]
        place = backbone.device if hardware is None else hardware.device
        head.restore({k: t.to(place) for k, t in self.head_tensors.items()}, torch.tensor(self.counts))
        if not head.finite():
            raise UpdateFileError("The head is not made of finite numbers.", "Train it again.")
        return model

    def numbers(self) -> int:
        """How many numbers this file stores for the model (support features not counted)."""
        tensors = [*self.body.values(), *self.head_tensors.values()]
        return sum(t.numel() for t in tensors) + (
            0 if self.covariance_weights is None else self.covariance_weights.numel()
        )

    def updateable(self, known: BackboneFacts) -> tuple[int, int]:
        """Updateable numbers by the paper's count (its table of parameters), and those of BiT for this task."""
        full = known.parameters + len(self.classes) * known.features  # every weight, and a head of C·D
        if self.learns().train == "all" and self.head == "linear":
            return full, full
        body = sum(tensor.numel() for tensor in self.body.values())
        return body + HEADS[self.head].updateable(len(self.classes), known.features), full

    def to_bytes(self) -> bytes:
        """The file's content; numbers that are not finite are refused before anything is replaced."""
        where = "film" if self.film else "body"
        tensors = {f"{where}/{k}": v for k, v in self.body.items()}
        tensors |= {f"head/{k}": v for k, v in self.head_tensors.items()}
        if self.covariance_weights is not None:
            tensors["covariance_weights/log"] = self.covariance_weights
        if self.support is not None:
            tensors |= self.support.tensors()
        if self.unknown is not None:
            tensors |= {f"unknown/{k}": v for k, v in self.unknown.tensors().items()}
        if any(t.is_floating_point() and not bool(torch.isfinite(t).all()) for t in tensors.values()):
            raise InputError(
                "What was learned is not made of finite numbers; nothing was written.",
                "Try a smaller learning rate, or fewer steps.",
            )
        return pack(tensors, KEY, self._metadata())

    def save(self, path: str | Path) -> int:
        """Write the file atomically; returns its size in bytes."""
        content = self.to_bytes()
        write_atomically(path, content)
        return len(content)

    @classmethod
    def load(cls, path: str | Path) -> Update:
        """Read and check a file. Nothing in it is ever run."""
        place = Path(path)
        try:
            content = place.read_bytes()
        except OSError as error:
            raise UpdateFileError(f"{place} cannot be read ({error.strerror}).") from None
        return cls.from_bytes(content, str(place))

    @classmethod
    def from_bytes(cls, content: bytes, source: str = "the update") -> Update:
        tensors, meta = unpack(content, KEY, source, "Copy it again, or train it again with 'fit train'.")
        if not isinstance(meta, dict):
            raise UpdateFileError(
                f"{source} is a safetensors file, but not an update of filmtransfer.",
                "Backbone weights go to --weights; updates are made by 'fit train'.",
            )
        if meta.get("format") != FORMAT:
            raise UpdateFileError(
                f"{source} has format {meta.get('format')!r}; this version reads format {FORMAT}.",
                "Use the version of filmtransfer that wrote it, or a newer one.",
            )
        try:
            return cls._checked(tensors, meta)
        except UpdateFileError as error:
            raise UpdateFileError(f"{source}: {error.message}", error.hint) from None
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise UpdateFileError(f"{source} lacks something or holds it wrongly ({error!r}).") from None

    @classmethod
    def _checked(cls, tensors: dict[str, Tensor], meta: dict[str, Any]) -> Update:
        if missing := REQUIRED - meta.keys():
            raise UpdateFileError(f"the metadata lack {', '.join(sorted(missing))}.")
        for name, tensor in tensors.items():
            if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
                raise UpdateFileError(f"{name} holds numbers that are not finite.", "Train it again.")
        if meta["head"] not in HEADS:
            raise UpdateFileError(f"the head {meta['head']!r} is not known here.")
        classes, counts = meta["classes"], meta["counts"]
        if not (isinstance(classes, list) and isinstance(counts, list) and len(classes) == len(counts) > 0):
            raise UpdateFileError("class names and counts do not fit.")
        if not all(isinstance(c, (str, int, float, bool)) for c in classes) or len(set(classes)) < len(
            classes
        ):
            raise UpdateFileError("class names have to be different texts or numbers.")
        if not all(type(n) is int and 0 < n < 2**31 for n in counts):
            raise UpdateFileError("counts have to be whole numbers above 0.")
        for part in ("settings", "versions", "backbone", "pixels"):
            if not isinstance(meta[part], dict):
                raise UpdateFileError(f"{part} is not a table.")
        spec = _pixels(meta["pixels"])
        options = meta.get("head_options", {})
        if not isinstance(options, dict) or options.keys() - {"covariance", "divisor", "temperature"}:
            raise UpdateFileError("the head's options are not known here.")
        _prior(meta["settings"].get("prior", "uniform"), len(classes))

        def group(name: str) -> dict[str, Tensor]:
            return {k.partition("/")[2]: v for k, v in tensors.items() if k.startswith(f"{name}/")}

        support, unknown = group("support"), group("unknown")
        return cls(
            body=group("film") or group("body"),
            head=meta["head"],
            head_tensors=group("head"),
            covariance_weights=group("covariance_weights").get("log"),
            classes=classes,
            counts=counts,
            backbone=str(meta["backbone"]["name"]),
            backbone_digest=str(meta["backbone"]["sha256"]),
            pixels=spec,
            settings=meta["settings"],
            results=dict(meta.get("results", {})),
            head_options=options,
            seed=int(meta["seed"]),
            versions=meta["versions"],
            support=Support.read(support, meta.get("support")) if support else None,
            unknown=Unknown.read(unknown) if unknown else None,
            temperature=_temperature(meta.get("temperature", 1.0)),
            edits=_edits(meta.get("edits", [])),
        )

    def check(self, features: int) -> None:
        """Every tensor has the kind and shape that classes and features ask for."""
        classes, rows = len(self.classes), sum(self.counts)
        packed = features * (features + 1) // 2
        shapes: dict[str, dict[str, tuple[int, ...]]] = {
            "lda": {"weight": (classes, features), "bias": (classes,)},
            "linear": {"weight": (classes, features), "bias": (classes,)},
            "protonets": {"means": (classes, features)},
            "qda": {"mean": (features,), "rows": (rows, features), "labels": (rows,)}
            if "rows" in self.head_tensors
            else {"means": (classes, features), "cholesky": (classes, packed)},
        }
        found = {name: tuple(tensor.shape) for name, tensor in self.head_tensors.items()}
        if found != shapes[self.head]:
            raise UpdateFileError(
                f"The {self.head} head has shapes {found}, but {classes} classes and {features} "
                f"features need {shapes[self.head]}.",
                "Train it again.",
            )
        for name, tensor in {**self.body, **self.head_tensors}.items():
            kind = torch.int64 if name == "labels" else torch.float32
            if tensor.dtype != kind:
                raise UpdateFileError(f"{name} is of kind {tensor.dtype}, not {kind}.", "Train it again.")
        weights = {"lda": 2, "qda": 3}.get(self.head, 0)
        logs = self.covariance_weights
        if weights != (0 if logs is None else logs.numel()) or (
            logs is not None and float(logs.abs().max()) > 50
        ):
            raise UpdateFileError("The covariance weights do not fit the head.", "Train it again.")
        if "labels" in self.head_tensors:
            self._check_labels(self.head_tensors["labels"])
        if self.support is not None:
            self.support.check(rows, features)
            self._check_labels(self.support.labels)
        if self.unknown is not None and not self.unknown.fits(classes, features):
            raise UpdateFileError("What tells unknown images does not fit the classes.", "Train it again.")

    def _check_labels(self, labels: Tensor) -> None:
        inside = bool(((labels >= 0) & (labels < len(self.classes))).all())
        if not inside or torch.bincount(labels, minlength=len(self.classes)).tolist() != self.counts:
            raise UpdateFileError("The labels of the support rows do not fit the counts.", "Train it again.")

    def _metadata(self) -> str:
        try:
            return json.dumps(
                {
                    "format": FORMAT,
                    "classes": self.classes,
                    "counts": self.counts,
                    "backbone": {"name": self.backbone, "sha256": self.backbone_digest},
                    "pixels": asdict(self.pixels),
                    "head": self.head,
                    "head_options": self.head_options,
                    "settings": self.settings,
                    "results": self.results,
                    "seed": self.seed,
                    "versions": self.versions,
                    **({} if self.temperature == 1 else {"temperature": self.temperature}),
                    **({} if self.support is None else {"support": self.support.words()}),
                    **({"edits": self.edits} if self.edits else {}),
                },
                sort_keys=True,
                separators=(",", ":"),
            )
        except TypeError:
            raise InputError(
                "Class labels of this kind cannot be saved.", "Use text or whole numbers as labels."
            ) from None


def _pixels(stored: dict[str, Any]) -> PixelSpec:
    """The pixel spec, with every value of a kind that can be worked with."""
    mean, std = (tuple(float(x) for x in stored[name]) for name in ("mean", "std"))
    rest = {k: v for k, v in stored.items() if k not in ("mean", "std")}
    spec = PixelSpec(mean=mean, std=std, **rest)  # type: ignore[arg-type]
    if type(spec.size) is not int or not 8 <= spec.size <= MAX_SIZE:
        raise UpdateFileError(f"an image size of {spec.size} is not possible.")
    if len(mean) != 3 or len(std) != 3 or not all(math.isfinite(x) for x in mean + std) or min(std) <= 0:
        raise UpdateFileError("the mean and standard deviation of the pixels are not possible.")
    if (
        spec.interpolation not in INTERPOLATIONS
        or spec.fit not in ("squash", "crop")
        or not 0 < spec.crop <= 1
    ):
        raise UpdateFileError("the way images are scaled is not known here.")
    return spec


def _prior(stored: Any, classes: int) -> None:
    if isinstance(stored, list):
        fits = len(stored) == classes and all(isinstance(p, float) and 0 < p < math.inf for p in stored)
    else:
        fits = stored in ("uniform", "empirical")
    if not fits:
        raise UpdateFileError("the stored prior does not fit the classes.")


def _temperature(stored: Any) -> float:
    if not isinstance(stored, (int, float)) or not 0 < stored < math.inf:
        raise UpdateFileError("the temperature has to be a number above 0.")
    return float(stored)


def _edits(stored: Any) -> list[dict[str, Any]]:
    if not isinstance(stored, list) or not all(isinstance(edit, dict) for edit in stored):
        raise UpdateFileError("the list of edits is not a list of tables.")
    return stored
