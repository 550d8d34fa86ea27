"""Simple CNAPs: FiLM parameters generated from the support images in one pass, instead of trained for each task.

A set encoder maps the frozen backbone's features of the support images to one vector (the mean of their encodings), and a
small network for each FiLM site maps that vector to Δγ and Δβ: ψ = (1 + Δγ, Δβ). The last layers start at 0, so an
untrained generator leaves the backbone unchanged. The head is Mahalanobis.
"""

from __future__ import annotations

import json
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ...arrays import is_finite, is_floating, to_tensor
from ...backbones import Backbone
from ...errors import InputError, UpdateFileError
from ...files import read_regular, reading, write_atomically
from ...model.tensor_file import pack, unpack
from ...model.update import copies
from ...seeding import make_generator

KEY = "filmtransfer-cnaps"
FORMAT = 1


class CNAPs(nn.Module):
    """The set encoder and the generators, which all users share with the backbone."""

    def __init__(self, backbone: Backbone, embedding: int = 64, hidden: int = 64, seed: int = 0) -> None:
        super().__init__()
        self.backbone_name, self.backbone_digest = backbone.name, backbone.digest
        self.embedding, self.hidden = embedding, hidden
        self.encoder = nn.Linear(backbone.features, embedding)
        self.generators = nn.ModuleDict()
        for site in backbone.sites:
            channels = _channels(backbone.module.get_submodule(site))
            self.generators[_key(site)] = nn.Sequential(
                nn.Linear(embedding, hidden), nn.ELU(), nn.Linear(hidden, 2 * channels)
            )
        self._start(make_generator(seed, "cnaps"))
        self.results: dict[str, object] = {}  # training settings and accuracies

    @torch.no_grad()
    def _start(self, generator: torch.Generator) -> None:
        for module in self.modules():
            if isinstance(module, nn.Linear):
                module.weight.normal_(0, module.in_features**-0.5, generator=generator)
                module.bias.zero_()
        for network in self.generators.values():
            last = network[2]  # type: ignore[index]
            last.weight.zero_()

    def encode(self, features: Tensor) -> Tensor:
        """Encode the frozen features (N, D) of a support set as one vector (E), independent of their order."""
        normalized = F.layer_norm(
            features, features.shape[-1:]
        )  # the scale of features depends on the backbone
        vector: Tensor = F.elu(self.encoder(normalized)).mean(0)
        return vector

    def changes(self, features: Tensor) -> dict[str, Tensor]:
        """Compute Δγ and Δβ by site."""
        vector = self.encode(features)
        deltas: dict[str, Tensor] = {}
        for key, network in self.generators.items():
            gamma, beta = network(vector).chunk(2)
            deltas[f"{_site(key)}.gamma"], deltas[f"{_site(key)}.beta"] = gamma, beta
        return deltas

    def film(self, features: Tensor) -> dict[str, Tensor]:
        """Compute ψ for a task from the frozen features of its support images."""
        return {name: delta + name.endswith("gamma") for name, delta in self.changes(features).items()}

    def parameter_count(self) -> int:
        """Return the number of parameters of encoder and generators."""
        return sum(p.numel() for p in self.parameters())

    def save(self, path: str | Path) -> int:
        """Write the generator atomically; return the size of the file in bytes."""
        if not all(bool(torch.isfinite(p).all()) for p in self.parameters()):
            raise InputError(
                "The parameters are not finite; nothing was written.", "Try a smaller learning rate."
            )
        meta = {
            "format": FORMAT,
            "backbone": {"name": self.backbone_name, "sha256": self.backbone_digest},
            "embedding": self.embedding,
            "hidden": self.hidden,
            "results": self.results,
        }
        content = pack(copies(self.state_dict()), KEY, json.dumps(meta, sort_keys=True))
        write_atomically(path, content)
        return len(content)

    @classmethod
    def load(cls, path: str | Path, backbone: Backbone) -> CNAPs:
        """Read and check a file, which belongs to the backbone it was trained with."""
        hint = "Train it with 'fit bench cnaps train'."
        with reading(path, hint, UpdateFileError):
            content = read_regular(path)
        tensors, meta = unpack(content, KEY, str(path), hint)
        if not isinstance(meta, dict) or meta.get("format") != FORMAT:
            raise UpdateFileError(f"{path} is not a Simple CNAPs file that this version can read.", hint)
        try:
            name, digest = str(meta["backbone"]["name"]), str(meta["backbone"]["sha256"])
            sizes = int(meta["embedding"]), int(meta["hidden"])
        except (KeyError, TypeError, ValueError):
            raise UpdateFileError(f"{path} is incomplete or damaged.", hint) from None
        if digest != backbone.digest:
            raise UpdateFileError(
                f"{path} was trained with {name}, weights {digest[:12]}…; the backbone here is {backbone.name}, "
                f"weights {backbone.digest[:12]}….",
                hint,
            )
        if not all(0 < size <= 4096 for size in sizes):
            raise UpdateFileError(f"{path} is incomplete or damaged.", hint)
        cnaps = cls(backbone, *sizes)
        shapes = {k: tuple(t.shape) for k, t in tensors.items()}
        if shapes != {k: tuple(t.shape) for k, t in cnaps.state_dict().items()} or not all(
            is_floating(t) and is_finite(t) for t in tensors.values()
        ):
            raise UpdateFileError(f"{path} does not fit {backbone.name}, or is not finite.", hint)
        cnaps.load_state_dict({name: to_tensor(t) for name, t in tensors.items()})
        cnaps.results = dict(meta.get("results") or {})
        return cnaps


def _key(site: str) -> str:
    return site.replace(".", "/")  # the name of a module has no dots


def _site(key: str) -> str:
    return key.replace("/", ".")


def _channels(norm: nn.Module) -> int:
    weight = norm.weight
    assert isinstance(weight, Tensor)
    return weight.numel()
