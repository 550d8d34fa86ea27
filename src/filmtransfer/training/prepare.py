"""What training needs before it begins: a model whose head is not built yet, and the images at the sizes of the config."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ..backbones import Backbone
from ..data import LabelledImages, LoadedImages, largest_side, load
from ..errors import FitWarning, SkippedImageWarning, UsageError
from ..formatting import capitalize, count
from ..heads import Head
from ..model import AdaptedModel, Hardware
from ..model.tensors import resize
from .baselines.noah_search import find_subnet
from .config import TrainingConfig
from .finetune.parallel import World

# A warning is given if the largest class has more than this many times the images of the smallest.
IMBALANCE = 3


@dataclass(frozen=True)
class Prepared:
    """A model to be trained, and the images of a task."""

    model: AdaptedModel
    loaded: LoadedImages
    pixels: Tensor  # for the head, at the size of prediction
    train_pixels: Tensor  # at the size of training
    labels: Tensor
    config: TrainingConfig


def prepare(
    images: LabelledImages,
    config: TrainingConfig,
    head: Head,
    backbone: Backbone,
    hardware: Hardware,
    *,
    seed: int = 0,
    strict: bool = False,
) -> Prepared:
    """Read the images and attach the adapter to the backbone; NOAH's search is the only training done here."""
    if hardware.device.type == "mps" and World.current().size > 1:
        raise UsageError("Apple's GPU cannot be shared by several processes.", "Start one, without torchrun.")
    config = config.resolve(backbone, len(images))
    side = largest_side(images.sources)
    size, train_size = (backbone.fit_size(s) for s in (config.size_for(side), config.train_size_for(side)))
    loaded = load(images, replace(backbone.pixels, size=max(train_size, size)), strict=strict)
    squares, labels = torch.from_numpy(loaded.pixels), torch.from_numpy(loaded.labels)
    pixels, train_pixels = (resize(squares, s, backbone.pixels.interpolation) for s in (size, train_size))
    if config.search_steps:
        subnet = find_subnet(backbone, train_pixels, labels, config, seed=seed, hardware=hardware)
        config = replace(config, adapter_options={**config.adapter_options, "subnet": subnet})
    model = AdaptedModel(backbone, head, size, body=config.body(), seed=seed, hardware=hardware)
    return Prepared(model, loaded, pixels, train_pixels, labels, config)


def remarks(loaded: LoadedImages, uniform_prior: bool) -> list[FitWarning]:
    """Return what a user should know about the images before training."""
    notes = [FitWarning(text) for text in loaded.warnings]
    if loaded.skipped:
        first = loaded.skipped[0]
        skipped = capitalize(count(len(loaded.skipped), "image was", "images were"))
        which = "" if len(loaded.skipped) == 1 else ", the first"
        notes.append(SkippedImageWarning(f"{skipped} skipped{which}: {first.name}: {first.reason}."))
    counts = loaded.counts()
    if max(counts) > IMBALANCE * min(counts) and uniform_prior:
        notes.append(
            FitWarning(
                f"Classes have from {min(counts)} to {max(counts)} images, but the prior is uniform. "
                "If images of larger classes are more likely in use, set prior='empirical'."
            )
        )
    if max(counts) == 1:
        notes.append(FitWarning("Every class has one image: the head is built, but there is no fine-tuning."))
    return notes
