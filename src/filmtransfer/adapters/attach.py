"""Put an adapter into a backbone by its name.

The paper's comparison table sets FiLM against six other ways to change a frozen network with few numbers. All
are handled alike here: the backbone is frozen, the adapter's own numbers are what ``requires_grad``, and
their initial values come from a generator. With the same options the same names and shapes come out, so an
update is those numbers and the options.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import nn

from .. import film
from ..errors import UsageError, invalid_choice
from . import adaptformer, convpass, houlsby, lora, noah, vpt

Options = dict[str, Any]
Put = Callable[[nn.Module, Options, torch.Generator], None]

_KINDS: dict[str, tuple[Mapping[str, Any], Put]] = {
    "lora": (lora.DEFAULTS, lora.attach),
    "vpt": (vpt.DEFAULTS, vpt.attach),
    "adapter": (houlsby.DEFAULTS, houlsby.attach),
    "adaptformer": (adaptformer.DEFAULTS, adaptformer.attach),
    "convpass": (convpass.DEFAULTS, convpass.attach),
    "noah": (noah.DEFAULTS, noah.attach),
}
ADAPTERS: tuple[str, ...] = ("film", *_KINDS)


def attach(
    network: nn.Module,
    name: str,
    *,
    sites: Sequence[str],
    generator: torch.Generator,
    options: Mapping[str, Any] | None = None,
) -> nn.Module:
    """Freeze the network and put the adapter in; works in place.

    At the start the network computes what it did before, to rounding; prompts, which are random tokens, are the
    exception. ``sites`` are FiLM's; the others know their own places.
    """
    chosen = complete_options(name, options)
    network.eval().requires_grad_(False)
    if name == "film":
        film.attach(network, sites)
    else:
        _, put = _KINDS[name]
        put(network, chosen, generator)
    return network.eval()


def complete_options(name: str, options: Mapping[str, Any] | None = None) -> Options:
    """All options of an adapter, those not given at their defaults; plain enough for JSON."""
    if name not in ADAPTERS:
        raise invalid_choice("adapter", name, ADAPTERS)
    defaults = _KINDS[name][0] if name in _KINDS else {}
    given = dict(options or {})
    if strange := sorted(given.keys() - defaults.keys()):
        known = f"Its options are: {', '.join(defaults)}." if defaults else "It has no options."
        raise UsageError(f"The adapter {name!r} has no option {strange[0]!r}.", known)
    return {
        option: _checked(f"{name}'s {option}", given.get(option, default), default)
        for option, default in defaults.items()
    }


def count(network: nn.Module) -> int:
    """How many numbers are learned."""
    return sum(p.numel() for p in network.parameters() if p.requires_grad)


def _checked(what: str, value: Any, default: Any) -> Any:
    """The value if it is of the default's kind: a size, a scale or (None) a subnet."""
    if default is None:
        return noah.checked(value)
    plain = isinstance(value, (int, float)) and not isinstance(value, bool)
    if isinstance(default, int):
        least = min(default, 1)
        if not plain or value != int(value) or value < least:
            raise UsageError(f"{what} cannot be {value!r}.", f"It is a whole number from {least} on.")
        return int(value)
    if not plain or not math.isfinite(value):
        raise UsageError(f"{what} cannot be {value!r}.", "It is a finite number.")
    return float(value)
