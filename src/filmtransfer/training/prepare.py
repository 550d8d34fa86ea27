"""Everything that training needs, before it begins: a bare model, and the images at the sizes it asks for."""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor

from ..backbones import Backbone, load_backbone
from ..data import LabelledImages, LoadedImages, largest_side, load, resize
from ..errors import UsageError
from ..heads import GaussianHead
from ..model import AdaptedModel, Hardware
from .baselines.batch import Cosine
from .baselines.noah_search import find_subnet
from .finetune.parallel import World
from .presets import Settings

UNEQUAL = 3  # say so when the largest class has more than this many times the images of the smallest


@dataclass(frozen=True)
class Prepared:
    """A bare model, and a task's images."""

    model: AdaptedModel
    loaded: LoadedImages
    pixels: Tensor  # for the head
    small: Tensor  # for fine-tuning
    settings: Settings


def prepare(
    images: LabelledImages,
    settings: Settings,
    head: GaussianHead,
    hardware: Hardware,
    *,
    name: str,
    weights: str | None = None,
    backbone: Backbone | None = None,
    seed: int = 0,
    strict: bool = False,
    time_limit: float | None = None,
) -> Prepared:
    """Load the backbone, unless it is at hand, and read the images; nothing is learned yet, but for NOAH's search."""
    if hardware.device.type == "mps" and World.current().size > 1:
        raise UsageError("Apple's GPU cannot be shared by several processes.", "Start one, without torchrun.")
    found = backbone or load_backbone(name, weights, fold=settings.body().folds)
    settings = settings.on(found, len(images))
    side = largest_side(images.sources)
    head_size, train_size = (
        found.fit_size(size) for size in (settings.size_for(side), settings.train_size_for(side))
    )
    loaded = load(images, replace(found.pixels, size=max(train_size, head_size)), strict=strict)
    pixels, small = (
        resize(loaded.pixels, size, found.pixels.interpolation) for size in (head_size, train_size)
    )
    if settings.search_steps:
        rule = Cosine(settings.search_steps, settings.learning_rate, settings.batch, settings.weight_decay)
        subnet = find_subnet(
            found, small, loaded.labels, rule, seed=seed, hardware=hardware, time_limit=time_limit
        )
        settings = replace(settings, adapter_options={**settings.adapter_options, "subnet": subnet})
    model = AdaptedModel(found, head, head_size, body=settings.body(), seed=seed, hardware=hardware)
    return Prepared(model, loaded, pixels, small, settings)


def remarks(loaded: LoadedImages, equally_likely: bool) -> list[str]:
    """What a user should know of the images before they are learned from."""
    notes = list(loaded.warnings)
    if loaded.skipped:
        first = loaded.skipped[0]
        notes.append(f"{len(loaded.skipped)} images left out, the first: {first.name}: {first.reason}.")
    counts = loaded.counts()
    if max(counts) > UNEQUAL * min(counts) and equally_likely:
        notes.append(
            f"Classes have from {min(counts)} to {max(counts)} images, but are taken as equally likely. "
            "If they are not, use prior='empirical'."
        )
    if max(counts) == 1:
        notes.append("Every class has one image: the head is built, but there is no fine-tuning.")
    return notes
