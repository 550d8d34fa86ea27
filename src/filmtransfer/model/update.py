"""The update: all that is learned for a task, in one small .safetensors file.

Tensors: ``film/<site>.gamma|beta`` (or ``body/<name>``, where another adapter or the weights were trained),
``head/<name>`` in its compact form, ``covariance_weights/log`` (the head's own weights), ``ood/<name>`` (the OOD
detector) and, if kept, ``support/<name>``: from these the head can be rebuilt with classes and photos added or removed.
Everything else is one JSON document in the metadata. No time and no path is written, so the same training gives the
same bytes; only edits are dated.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np

from ..arrays import Array, is_finite, is_floating, labels_like, like, to_numpy
from ..budgets import MAX_HEAD_BYTES, MAX_HEAD_OPERATIONS, MAX_UPDATE_BYTES
from ..data.pixels import PixelSpec
from ..errors import InputError, UpdateFileError, UsageError
from ..files import read_at_most, write_atomically
from ..formatting import file_size, finite_json
from ..heads import HEADS, Head, SingularError, make_head
from .body import Body
from .estimate import Estimate
from .metadata import FORMAT, Json, JsonTable, read_metadata
from .ood import MIN_SCORES, OODDetector
from .predictor import NO_SCORES, FeaturePredictor, Prior, log_prior
from .support import Label, Support
from .tensor_file import pack, unpack

if TYPE_CHECKING:
    from ..backbones import Backbone, BackboneFacts
    from .adapted import AdaptedModel
    from .hardware import Hardware

KEY = "filmtransfer"
NUMPY = np.empty(0, np.float32)  # the kind of arrays that prediction uses
EARLIER_FEDERATION = (
    f"it comes from a federation that collected no scores of held-out images, or fewer than {MIN_SCORES}",
    "Run the federation again with two or more photos of each class.",
)
MAX_LOG_WEIGHT = 50  # of the head's weights; no training leads there, and float32 overflows at 88


class KnownBackbone(Protocol):
    """What identifies a backbone: a loaded one, or one whose weights are in a graph."""

    @property
    def name(self) -> str: ...
    @property
    def digest(self) -> str: ...
    @property
    def features(self) -> int: ...
    def fit_size(self, size: int) -> int: ...


@dataclass
class Update:
    """What is learned for a task: ψ, the head and its weights e; and what is needed to use it again."""

    parameters: dict[str, np.ndarray]  # ψ: what was trained of the backbone, by name
    head: str
    head_tensors: dict[str, np.ndarray]
    head_weights: np.ndarray | None  # log e
    classes: list[Label]
    counts: list[int]
    backbone: str
    backbone_digest: str
    pixels: PixelSpec
    settings: JsonTable = field(default_factory=dict)
    results: JsonTable = field(default_factory=dict)
    head_options: JsonTable = field(default_factory=dict)
    seed: int = 0
    versions: dict[str, str] = field(default_factory=dict)
    support: Support | None = None
    ood: OODDetector | None = None
    temperature: float = 1.0  # T of the probabilities (predictor.py)
    edits: list[JsonTable] = field(default_factory=list)  # changes after training, oldest first

    @classmethod
    def of(cls, model: AdaptedModel, classes: Sequence[Label], **facts: object) -> Update:
        """Take everything that was learned out of a configured model; ``facts`` are further fields."""
        head, weights = model.head, model.head.log_weights()
        assert head.counts is not None
        return cls(
            parameters=copies(model.backbone_parameters()),
            head=head.name,
            head_tensors=copies(head.tensors()),
            head_weights=None if weights is None else to_numpy(weights).copy(),
            classes=list(classes),
            counts=head.counts.tolist(),
            backbone=model.backbone.name,
            backbone_digest=model.backbone.digest,
            pixels=model.pixels,
            head_options=dict(head.options()),
            **facts,  # type: ignore[arg-type]
        )

    @property
    def prior(self) -> Prior:
        """The class prior that was chosen at training."""
        prior: Prior = self.settings.get("prior", "uniform")
        return prior

    @property
    def estimate(self) -> Estimate | None:
        """The estimate of its accuracy, if there is one."""
        return Estimate.read(self.results)

    @property
    def film(self) -> dict[str, np.ndarray]:
        """The FiLM parameters; none if something else was trained."""
        return self.parameters if self.body().is_film else {}

    def body(self) -> Body:
        """Return what of the backbone was trained; the first files have FiLM everywhere."""
        chosen = self.settings
        stage, options = chosen.get("film_from", 0), chosen.get("adapter_options", {})
        if type(stage) is not int or not isinstance(options, dict):
            raise UpdateFileError(f"FiLM cannot begin at stage {stage!r}.", "Train it again.")
        try:
            return Body.of(chosen.get("train", "adapter"), chosen.get("adapter", "film"), stage, options)
        except UsageError as error:  # not the user's mistake: the file's
            raise UpdateFileError(error.message, "Train it again.") from None

    # From the file to a classifier

    def apply(self, backbone: Backbone, hardware: Hardware | None = None) -> AdaptedModel:
        """Return the model again, on a backbone with the same weights."""
        from .adapted import AdaptedModel, load_update

        self.check_backbone(backbone)
        try:
            model = AdaptedModel(
                backbone,
                make_head(self.head, **self.head_options),
                self.pixels.size,
                body=self.body(),
                hardware=hardware,
            )
        except UsageError as error:  # not the user's mistake: the file's, or the backbone's
            raise UpdateFileError(error.message, error.hint) from None
        load_update(model, self)
        return model

    def predictor(self, head: Head | None = None, prior: Prior | None = None) -> FeaturePredictor:
        """Return what turns features into probabilities, with the prior of the file unless another is given."""
        head = head or self.restore_head()
        return FeaturePredictor(
            head,
            head.configured(),
            self.classes,
            log_prior(self.prior if prior is None else prior, self.counts),
            self.temperature,
            self.ood,
            self.support,
            self.no_ood(),
        )

    def no_ood(self) -> tuple[str, str]:
        """Return why there would be no OOD detector, and what to do."""
        stored = self.results.get("not_assessed")  # a federation writes it
        if isinstance(stored, dict):
            return str(stored.get("reason", "")), str(stored.get("hint", ""))
        return EARLIER_FEDERATION if self.settings.get("preset") == "federated" else NO_SCORES

    def restore_head(self, kind: Array = NUMPY) -> Head:
        """Return the configured head: of numpy arrays, or of tensors with the device and dtype of ``kind``."""
        self.check_cost()
        head = make_head(self.head, **self.head_options).match(kind)
        head.set_log_weights(self.head_weights)
        tensors = {
            name: like(tensor, kind) if is_floating(tensor) else labels_like(tensor, kind)
            for name, tensor in self.head_tensors.items()
        }
        try:
            finite = head.restore(tensors, labels_like(np.array(self.counts), kind)).is_finite()
        except SingularError:
            finite = False
        if not finite:
            raise UpdateFileError("The head is not made of finite numbers.", "Train it again.")
        return head

    def check_backbone(self, backbone: KnownBackbone) -> None:
        """Refuse a backbone that this update was not made with, and tensors that do not fit it."""
        if backbone.digest != self.backbone_digest:
            raise UpdateFileError(
                f"This update was made with {self.backbone}, weights {self.backbone_digest[:12]}…; "
                f"the backbone here is {backbone.name}, weights {backbone.digest[:12]}….",
                f"Use the backbone and weights it was trained with, or train it again on {backbone.name}.",
            )
        self.check(backbone.features)
        if backbone.fit_size(self.pixels.size) != self.pixels.size:
            raise UpdateFileError(f"{self.backbone} cannot take images of {self.pixels.size} pixels.")

    # Sizes

    def check_cost(
        self, memory: int = MAX_HEAD_BYTES, operations: int = MAX_HEAD_OPERATIONS, hint: str = ""
    ) -> None:
        """Refuse a head that would take more bytes of memory or more arithmetic to restore."""
        cost = HEADS[self.head].restoring_cost(self._head_shapes(), self.counts)
        if cost.bytes > memory or cost.operations > operations:
            raise UpdateFileError(
                f"The {self.head} head of {len(self.classes):,} classes and {sum(self.counts):,} photos is too large: "
                f"it takes {file_size(cost.bytes)} of memory and {cost.operations / 1e9:,.0f} billion operations.",
                hint or "Train it again with the lda head, or with fewer photos.",
            )

    def stored_parameters(self) -> int:
        """Return how many parameters this file stores for the model (support features not counted)."""
        tensors = [*self.parameters.values(), *self.head_tensors.values()]
        return sum(t.size for t in tensors) + len(HEADS[self.head].weight_names)

    def updateable(self, facts: BackboneFacts) -> tuple[int, int]:
        """Return the updateable parameters by the paper's count, and those of BiT for this task."""
        full = facts.parameters + len(self.classes) * facts.features  # every weight, and a head of C·D
        head = HEADS[self.head]
        if self.body().train == "all" and head.trained_by == "batches":
            return full, full
        trained = sum(tensor.size for tensor in self.parameters.values())
        return trained + head.updateable(len(self.classes), facts.features), full

    # Reading and writing

    def compact(self) -> Update:
        """Return the update without statistics: a smaller file to send, which predicts the same and cannot be edited."""
        return replace(self, support=None)

    def to_bytes(self) -> bytes:
        """Return the file's content; tensors that are not finite are refused before anything is replaced."""
        tensors = {f"{'film' if self.film else 'body'}/{k}": v for k, v in self.parameters.items()}
        tensors |= {f"head/{k}": v for k, v in self.head_tensors.items()}
        if self.head_weights is not None:
            tensors["covariance_weights/log"] = self.head_weights
        if self.support is not None:
            tensors |= self.support.tensors()
        if self.ood is not None:
            tensors |= {f"ood/{k}": v for k, v in self.ood.tensors().items()}
        if any(is_floating(t) and not is_finite(t) for t in tensors.values()):
            raise InputError(
                "The trained parameters are not finite; nothing was written.",
                "Try a smaller learning rate, or fewer steps.",
            )
        try:
            metadata = json.dumps(
                finite_json(self._metadata()), sort_keys=True, separators=(",", ":"), allow_nan=False
            )
        except TypeError:
            raise InputError(
                "Class labels of this type cannot be saved.", "Use text or whole numbers as labels."
            ) from None
        return pack(tensors, KEY, metadata)

    def _metadata(self) -> JsonTable:
        return {
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
            **({} if self.support is None else {"support": self.support.metadata()}),
            **({"edits": self.edits} if self.edits else {}),
        }

    def save(self, path: str | Path) -> int:
        """Write the file atomically; return its size in bytes."""
        content = self.to_bytes()
        write_atomically(path, content)
        return len(content)

    @classmethod
    def load(cls, path: str | Path) -> Update:
        """Read and check a file. Nothing in it is ever run."""
        return cls.from_bytes(read_at_most(path, MAX_UPDATE_BYTES, UpdateFileError), str(path))

    @classmethod
    def from_bytes(cls, content: bytes, source: str = "the update") -> Update:
        """Read and check the content of a file; ``source`` is its name in errors."""
        tensors, metadata = unpack(content, KEY, source, "Copy it again, or train it again with 'fit train'.")
        try:
            return cls._read(tensors, read_metadata(metadata))
        except UpdateFileError as error:
            raise UpdateFileError(f"{source}: {error.message}", error.hint) from None
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise UpdateFileError(
                f"{source}: an entry is missing or has the wrong type ({error!r})."
            ) from None

    @classmethod
    def _read(cls, tensors: Mapping[str, np.ndarray], fields: JsonTable) -> Update:
        for name, tensor in tensors.items():
            if is_floating(tensor) and not is_finite(tensor):
                raise UpdateFileError(f"{name} holds values that are not finite.", "Train it again.")

        def group(name: str) -> dict[str, np.ndarray]:
            return {k.partition("/")[2]: v for k, v in tensors.items() if k.startswith(f"{name}/")}

        _check_pairs(group("film"))
        stored: Json = fields.pop("support")
        support, ood = group("support"), group("ood") or group("unknown")  # as the first files call it
        update = cls(
            parameters=group("film") or group("body"),
            head_tensors=group("head"),
            head_weights=group("covariance_weights").get("log"),
            support=Support.read(support, stored) if support else None,
            ood=OODDetector.read(ood) if ood else None,
            **fields,
        )
        update._check_contents()
        return update

    def check(self, features: int) -> None:
        """Refuse tensors that are not of a backbone with so many features."""
        self._check_head(features)
        if self.support is not None and self.support.features.shape[1] != features:
            raise UpdateFileError("The kept support features are not of this backbone.", "Train it again.")
        if self.ood is not None and not self.ood.fits(len(self.classes), features):
            raise UpdateFileError("The OOD detector does not fit the classes.", "Train it again.")

    def _check_contents(self) -> None:
        """Refuse tensors that do not fit each other and the classes, whatever the backbone: edits and costs rely on it."""
        sizes = {size for tensor in self.head_tensors.values() for size in tensor.shape}
        shapes = self._head_shapes()
        head, classes, examples = HEADS[self.head], len(self.classes), sum(self.counts)
        if not any(shapes in head.stored_shapes(classes, features, examples) for features in sizes):
            raise UpdateFileError(f"the {self.head} head has shapes {shapes}, which do not fit its classes.")
        for name, tensor in {**self.parameters, **self.head_tensors}.items():
            dtype = np.int64 if name == "labels" else np.float32
            if tensor.dtype != dtype:
                raise UpdateFileError(
                    f"{name} is of type {tensor.dtype}, not {np.dtype(dtype)}.", "Train it again."
                )
        weights, names = self.head_weights, head.weight_names
        stored = ((0,), "float32") if weights is None else (weights.shape, weights.dtype.name)
        if stored != ((len(names),), "float32") or (
            weights is not None and float(np.abs(weights).max()) > MAX_LOG_WEIGHT
        ):
            raise UpdateFileError("The covariance weights do not fit the head.", "Train it again.")
        if "labels" in self.head_tensors:
            self._check_labels(self.head_tensors["labels"])
        if self.support is not None:
            self.support.check(examples)
            self._check_labels(self.support.labels)

    def _head_shapes(self) -> dict[str, tuple[int, ...]]:
        return {name: tuple(tensor.shape) for name, tensor in self.head_tensors.items()}

    def _check_head(self, features: int) -> None:
        shapes, classes = self._head_shapes(), len(self.classes)
        possible = HEADS[self.head].stored_shapes(classes, features, sum(self.counts))
        if shapes not in possible:
            raise UpdateFileError(
                f"The {self.head} head has shapes {shapes}, but {classes} classes and {features} "
                f"features need {' or '.join(map(str, possible))}.",
                "Train it again.",
            )

    def _check_labels(self, labels: np.ndarray) -> None:
        integers = labels.ndim == 1 and labels.dtype == np.int64
        inside = integers and bool(((labels >= 0) & (labels < len(self.classes))).all())
        if not inside or np.bincount(labels, minlength=len(self.classes)).tolist() != self.counts:
            raise UpdateFileError("The labels of the support rows do not fit the counts.", "Train it again.")


def _check_pairs(film: Mapping[str, np.ndarray]) -> None:
    """Refuse FiLM parameters that are not a γ and a β of one length for each site."""
    for name, tensor in film.items():
        site, _, kind = name.rpartition(".")
        other = film.get(f"{site}.{'beta' if kind == 'gamma' else 'gamma'}")
        if kind not in ("gamma", "beta") or other is None or tensor.ndim != 1 or tensor.shape != other.shape:
            raise UpdateFileError(
                "FiLM parameters are missing or have another shape: they may belong to another backbone.",
                "Train it again.",
            )


def copies(arrays: Mapping[str, Array]) -> dict[str, np.ndarray]:
    """Return copies as numpy arrays, without gradients."""
    return {name: to_numpy(array).copy() for name, array in arrays.items()}
