"""FewShotClassifier: the Python entry point, with the conventions of scikit-learn."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self, cast

import numpy as np

from .backbones import Backbone, load_backbone
from .data import LabelledImages, LoadedImages
from .data.inputs import Images, Labels, is_held
from .errors import FitWarning, InputError, check_count
from .formatting import count
from .heads import HeadName, make_head
from .model import (
    AdaptedModel,
    Estimate,
    FeaturePredictor,
    Hardware,
    Prior,
    Update,
    describe_estimate,
    log_prior,
)
from .model.adapted import load_update
from .model.hardware_names import DeviceName, Precision
from .model.hub import find_update
from .model.metadata import library_versions
from .predictor import ImagePredictions
from .scikit import ScikitClassifier, check_is_fitted
from .training import edit, phases
from .training.adapt import Adapted, adapt
from .training.assess.assessment import Assessment, assess, with_assessment
from .training.callbacks import NO_CALLBACKS, Callbacks
from .training.config import AdapterName, RuleName, Split, TrainedPart, TrainingConfig, names
from .training.finetune.gradient import NonFiniteError
from .training.finetune.outcome import describe_stop
from .training.finetune.parallel import local_rank
from .training.prepare import Prepared, prepare, remarks
from .training.presets import PresetName
from .training.progress import Reporter
from .training.validation import check_seed, check_settings, training_config


class FewShotClassifier(ImagePredictions, ScikitClassifier):
    """A classifier from a handful of images per class.

    Parameters
    ----------
    backbone : name of a pretrained network (``fit backbones`` lists them); ``weights`` a file for it.
    head : "lda", "qda", "protonets", "linear", "cosine" or "mahalanobis"; ``head_options`` go to it.
    preset : "fast" (laptop) or one of the paper's settings, "paper" first of all.
    steps, learning_rate, … : the fields of ``TrainingConfig``, in place of the preset's values; docs/reference.md
        has the type, default, bounds and meaning of each. ``steps=0`` trains nothing and takes seconds; with the
        linear head ``train="all"`` is full fine-tuning, and ``preset="bit"`` is BiT with its HyperRule.
    prior : "uniform", "empirical" or C positive numbers; used at prediction only.
    seed : the seed of everything random.
    strict : refuse unreadable images instead of skipping them.
    keep_statistics : store the features of the photos in the update, so that it can be edited and explained;
        ``save(path, compact=True)`` leaves them out of a file.
    device : "auto" (a GPU if there is one), "cpu", "cuda", "cuda:1" or "mps".
    precision : "float32", or "bfloat16" for the backbone on a GPU (or a CPU that can).
    compile : compile the backbone with torch.compile; pays on long runs of some backbones.
    verbose : 0 trains silently, 1 prints phases and progress on stderr, 2 every step. The logger "filmtransfer" has the
        same at the levels INFO and DEBUG, and ``fit(…, callbacks=Callbacks(on_phase=…))`` calls your own functions.
    """

    def __init__(
        self,
        backbone: str = "efficientnet_lite0",
        head: HeadName = "lda",
        steps: int | Literal["auto"] = "auto",
        seed: int = 0,
        *,
        head_options: Mapping[str, Any] | None = None,
        preset: PresetName = "fast",
        learning_rate: float | None = None,
        split: Split | None = None,
        support_size: int | None = None,
        max_query: int | None = None,
        image_size: int | None = None,
        small_image_size: int | None = None,
        train_size: int | None = None,
        micro_batch: int | None = None,
        film_from: int | None = None,
        cache_mb: float | None = None,
        hold_out: float | None = None,
        train: TrainedPart | None = None,
        adapter: AdapterName | None = None,
        adapter_options: Mapping[str, Any] | None = None,
        rule: RuleName | None = None,
        batch: int | None = None,
        weight_decay: float | None = None,
        search_steps: int | None = None,
        time_limit: float | None = None,
        prior: Prior = "uniform",
        weights: str | None = None,
        strict: bool = False,
        keep_statistics: bool = True,
        device: DeviceName = "auto",
        precision: Precision = "float32",
        compile: bool = False,
        verbose: int = 0,
    ) -> None:
        self.backbone = backbone
        self.head = head
        self.steps = steps
        self.seed = seed
        self.head_options = head_options
        self.preset = preset
        self.learning_rate = learning_rate
        self.split = split
        self.support_size = support_size
        self.max_query = max_query
        self.image_size = image_size
        self.small_image_size = small_image_size
        self.train_size = train_size
        self.micro_batch = micro_batch
        self.film_from = film_from
        self.cache_mb = cache_mb
        self.hold_out = hold_out
        self.train = train
        self.adapter = adapter
        self.adapter_options = adapter_options
        self.rule = rule
        self.batch = batch
        self.weight_decay = weight_decay
        self.search_steps = search_steps
        self.time_limit = time_limit
        self.prior = prior
        self.weights = weights
        self.strict = strict
        self.keep_statistics = keep_statistics
        self.device = device
        self.precision = precision
        self.compile = compile
        self.verbose = verbose

    # Fitting

    def fit(
        self, images: Images, labels: Labels | None = None, *, callbacks: Callbacks = NO_CALLBACKS
    ) -> Self:
        """Train on images and their labels, or on pairs (image, label), as in a torch data set.

        Images are paths, PIL images, arrays, tensors or bytes of files; docs/howto.md has a table of what is understood.
        A path that does not exist is an error; a file that cannot be read is skipped with a warning unless ``strict``.
        """
        config = self.training_config()
        reporter = self._reporter(callbacks)
        if not is_held(images):  # a mistake in the settings is an error before it is read
            check_settings(self.backbone, self.weights, self.head, self.head_options, self.prior)
            reporter.callbacks.phase("reading the data set")
        near = max(config.image_size, config.small_image_size, config.train_size or 0)
        self._fit_reported(LabelledImages.from_memory(images, labels, near=near), reporter)
        return self._warned()

    def fit_folder(self, folder: str | Path, *, callbacks: Callbacks = NO_CALLBACKS) -> Self:
        """Train on a folder with one subfolder per class, or on a CSV of paths and labels."""
        self._fit_reported(LabelledImages.from_path(folder), self._reporter(callbacks))
        return self._warned()

    def fit_images(self, images: LabelledImages, callbacks: Callbacks = NO_CALLBACKS) -> Self:
        """Train on labelled images."""
        return self._fit_reported(images, self._reporter(callbacks))

    def _reporter(self, callbacks: Callbacks) -> Reporter:
        check_count("verbose", int(self.verbose) if isinstance(self.verbose, bool) else self.verbose, 0)
        return Reporter(callbacks, int(self.verbose) if local_rank() == 0 else 0)

    def _fit_reported(self, images: LabelledImages, reporter: Reporter) -> Self:
        prepared = self.prepare(images, callbacks=reporter.callbacks)
        self.fit_prepared(prepared, reporter.callbacks)
        reporter.finish(_describe_result(self.update_))
        return self

    def _warned(self) -> Self:
        """Warn the caller of ``fit`` that Ctrl-C has ended fine-tuning: the program goes on with what there is."""
        history = self.history_
        if history.stopped == "interrupted":
            stop = describe_stop(history.stopped, history.steps)
            warnings.warn(f"Fine-tuned {count(history.steps, 'step')}{stop}.", FitWarning, stacklevel=3)
        return self

    def fit_prepared(self, prepared: Prepared, callbacks: Callbacks = NO_CALLBACKS) -> Self:
        """Train on images that ``prepare`` has read."""
        model, loaded = prepared.model, prepared.loaded
        try:
            adapted = adapt(
                model,
                prepared.pixels,
                prepared.train_pixels,
                prepared.labels,
                prepared.config,
                seed=self.seed,
                callbacks=callbacks,
            )
        except NonFiniteError as error:  # before any training
            raise InputError(
                f"{self.backbone} gives no finite features for {_enumerate(loaded.names, error.images)}.",
                "Are its weights complete? If so, remove the image.",
            ) from None
        if adapted.history.not_finite:
            warnings.warn(
                "Fine-tuning stopped at features that are not finite, of "
                f"{_enumerate(loaded.names, adapted.history.not_finite)}. The last finite parameters are kept.",
                FitWarning,
                stacklevel=4,
            )
        callbacks.phase(phases.ASSESSMENT)
        self._adopt(model, loaded, prepared.config, adapted)
        if callbacks.on_fitted is not None:
            callbacks.on_fitted(loaded, adapted)
        return self

    def prepare(
        self,
        images: LabelledImages,
        backbone: Backbone | None = None,
        callbacks: Callbacks = NO_CALLBACKS,
    ) -> Prepared:
        """Validate the settings, load the backbone (unless it is given) and read the images."""
        config = self.training_config()
        check_seed(self.seed)
        head = make_head(self.head, **(self.head_options or {}))  # a wrong name is an error before any work
        device = self.device if backbone is None or self.device != "auto" else str(backbone.device)
        hardware = Hardware.choose(device, self.precision, self.compile, local_rank())
        if backbone is None:
            callbacks.phase(phases.loading(self.backbone))
            backbone = load_backbone(self.backbone, self.weights, fold=config.body().folds)
        callbacks.phase(f"reading {count(len(images), 'photo')}")
        prepared = prepare(images, config, head, backbone, hardware, seed=self.seed, strict=self.strict)
        log_prior(self.prior, prepared.loaded.counts())  # an error before any work if it does not fit
        for note in remarks(prepared.loaded, isinstance(self.prior, str) and self.prior == "uniform"):
            warnings.warn(note, stacklevel=4)  # the caller of fit
        return prepared

    def training_config(self) -> TrainingConfig:
        """Return the preset, with the settings that were given in place of its own."""
        chosen = {name: getattr(self, name) for name in names()}
        chosen["steps"] = None if self.steps == "auto" else self.steps
        return training_config(self.preset, self.head, chosen)

    # Predicting

    @property
    def predictor_(self) -> FeaturePredictor:
        """What turns features into probabilities, under the present ``prior``."""
        check_is_fitted(self)
        return self.update_.predictor(self._head, self.prior)

    @property
    def estimate_(self) -> Estimate | None:
        """The estimate of the accuracy on new images; None where no class had an image to spare for it."""
        check_is_fitted(self)
        return super().estimate_

    def _extractor(self) -> AdaptedModel:
        return self.model_

    # Editing: in milliseconds, without training, from the statistics

    def add(self, images: Images, label: Any) -> Self:
        """Add photos to a class, or make a new class of them."""
        check_is_fitted(self)
        return self._edited(edit.add_images(self.update_, label, images, self))

    def forget(self, images: Images) -> Self:
        """Forget photos, given as they were at training, or by name ("cup/1.jpg")."""
        check_is_fitted(self)
        return self._edited(edit.forget_images(self.update_, images))

    def remove_class(self, label: Any) -> Self:
        """Forget a class and all of its photos."""
        check_is_fitted(self)
        return self._edited(edit.remove_class(self.update_, label))

    def merge_classes(self, labels: Sequence[Any], into: Any) -> Self:
        """Make one class of several."""
        check_is_fitted(self)
        return self._edited(edit.merge_classes(self.update_, labels, into))

    def rename_class(self, label: Any, to: Any) -> Self:
        """Give a class another name; this needs no statistics."""
        check_is_fitted(self)
        self._take(edit.rename_class(self.update_, label, to), self.model_)
        return self

    # The file

    def save(self, path: str | Path, *, compact: bool = False) -> int:
        """Write the update, atomically; return its size in bytes. A compact file has no features or names of photos."""
        check_is_fitted(self)
        return (self.update_.compact() if compact else self.update_).save(path)

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        backbone: Backbone | None = None,
        weights: str | None = None,
        device: DeviceName = "auto",
    ) -> FewShotClassifier:
        """Return the classifier of an update file; the backbone is loaded as at training, unless it is given."""
        if backbone is not None and device == "auto":  # stay on the device of the backbone
            hardware = Hardware(backbone.device)
        else:
            hardware = Hardware.choose(device)
        update = Update.load(path)
        clf = cls(
            backbone=update.backbone,
            head=cast("HeadName", update.head),
            seed=update.seed,
            weights=weights,
            device=device,
        )
        clf.prior = update.prior
        body = update.body()
        clf.train, clf.adapter = body.train, cast("AdapterName", body.adapter)
        clf.adapter_options = dict(body.options)
        clf.film_from, clf.head_options = body.film_from, dict(update.head_options)
        backbone = backbone or load_backbone(update.backbone, weights, fold=body.folds)
        clf.assessment_ = None
        clf._take(update, update.apply(backbone, hardware))
        return clf

    @classmethod
    def from_hub(
        cls, location: str | Path, *, weights: str | None = None, device: DeviceName = "auto"
    ) -> FewShotClassifier:
        """Return the classifier of a folder in the hub's layout (``fit export --hub``) or of ``hf://owner/name``."""
        return cls.load(find_update(location), weights=weights, device=device)

    # State

    def _adopt(
        self, model: AdaptedModel, loaded: LoadedImages, config: TrainingConfig, adapted: Adapted
    ) -> None:
        prior = self.prior if isinstance(self.prior, str) else [float(p) for p in self.prior]
        update = Update.of(
            model,
            loaded.classes,
            settings=config.to_dict() | {"preset": self.preset, "prior": prior},
            results=adapted.results(),
            seed=int(self.seed),
            versions=library_versions(),
            support=adapted.support(loaded) if self.keep_statistics else None,
        )
        log_pi = log_prior(prior, update.counts)
        assessment = assess(
            model.head, adapted.features, loaded.labels, adapted.unseen(), log_pi, seed=self.seed
        )
        self.history_ = adapted.history
        self.skipped_ = loaded.skipped
        self.assessment_: Assessment | None = assessment
        self._take(with_assessment(update, assessment), model)

    def _edited(self, edited: edit.Edited) -> Self:
        load_update(self.model_, edited.update)
        self.prior = edited.update.prior
        self.assessment_ = edited.assessment
        self._take(edited.update, self.model_)
        return self

    def _take(self, update: Update, model: AdaptedModel) -> None:
        self.update_, self.model_ = update, model
        self._head = update.restore_head()
        self.classes_ = np.asarray(update.classes)
        self.counts_ = np.asarray(update.counts)


def _describe_result(update: Update) -> str:
    """Return what was trained in one line."""
    photos = count(sum(update.counts), "photo")
    return f"trained {len(update.classes)} classes on {photos}. {describe_estimate(update.estimate)}"


def _enumerate(names: Sequence[str], images: Sequence[int]) -> str:
    rest = f" and {len(images) - 1} more" if len(images) > 1 else ""
    return names[images[0]] + rest
