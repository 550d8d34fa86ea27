"""The adapters by name, and how one of them is attached to a backbone.

The paper compares FiLM with six other ways to adapt a frozen network with few parameters. All are used alike: the
backbone is frozen, exactly the parameters of the adapter require a gradient, and their initial values come from a
generator. Names and shapes depend on the options only, so an update consists of the parameters and the options.
A new adapter is a module and its entry in ``ADAPTERS``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import nn

from .. import film
from ..backbones import film_sites
from ..errors import UsageError, check_choice
from . import adaptformer, convpass, houlsby, lora, noah, vpt
from .adapter import Adapter, BottleneckOptions


@dataclass(frozen=True)
class NoOptions:
    """The options of an adapter that has none."""


def _attach_film(network: nn.Module, _options: NoOptions, _generator: torch.Generator) -> None:
    film.attach(network, film_sites(network))


ADAPTERS: dict[str, Adapter[Any]] = {
    "film": Adapter(NoOptions, _attach_film),
    "lora": Adapter(lora.LoRAOptions, lora.attach),
    "vpt": Adapter(vpt.VPTOptions, vpt.attach),
    "adapter": Adapter(BottleneckOptions, houlsby.attach),
    "adaptformer": Adapter(adaptformer.AdaptFormerOptions, adaptformer.attach),
    "convpass": Adapter(BottleneckOptions, convpass.attach),
    "noah": Adapter(noah.NOAHOptions, noah.attach),
}


def attach(
    network: nn.Module, name: str, *, generator: torch.Generator, options: Mapping[str, object] | None = None
) -> nn.Module:
    """Freeze the network and attach an adapter; works in place.

    The initial features are those of the network before, up to rounding, except with prompts, which are random tokens.
    """
    values = complete_options(name, options)
    adapter = ADAPTERS[name]
    adapter.attach(network.eval().requires_grad_(False), adapter.options(**values), generator)
    return network.eval()


def complete_options(name: str, options: Mapping[str, object] | None = None) -> dict[str, object]:
    """Return all options of an adapter, checked and with defaults for those not given, as JSON values."""
    check_choice("adapter", name, ADAPTERS)
    given = dict(options or {})
    known = {field.name: field for field in fields(ADAPTERS[name].options)}
    if unknown := sorted(given.keys() - known.keys()):
        hint = f"Its options are: {', '.join(known)}." if known else "It has no options."
        raise UsageError(f"The adapter {name!r} has no option {unknown[0]!r}.", hint)
    complete = {}
    for key, field in known.items():
        value = given.get(key, field.default)
        try:
            complete[key] = field.metadata["check"](value)
        except ValueError as error:
            raise UsageError(f"{name}'s {key} cannot be {value!r}.", str(error)) from None
    return complete
