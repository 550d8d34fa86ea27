"""torch's optimisers without torch._dynamo, which takes longer to import than a short training takes.

The methods of ``torch.optim`` are wrapped so that torch.compile leaves them alone, and the wrappers import torch._dynamo
at their first call, compiled or not. No optimiser is compiled here, so these classes use the methods inside the wrappers.
"""

from __future__ import annotations

import inspect
from typing import Any, TypeVar

import torch

Optimiser = TypeVar("Optimiser", bound=torch.optim.Optimizer)


def without_dynamo(optimiser: type[Optimiser]) -> type[Optimiser]:
    """Return the same optimiser, whose methods do not import torch._dynamo."""
    methods: dict[str, Any] = {
        name: inspect.unwrap(getattr(optimiser, name)) for name in ("add_param_group", "zero_grad", "step")
    }
    methods["step"] = torch.no_grad()(methods["step"])  # as the wrapper did
    return type(optimiser.__name__, (optimiser,), methods | {"__module__": __name__})


SGD = without_dynamo(torch.optim.SGD)
Adam = without_dynamo(torch.optim.Adam)
AdamW = without_dynamo(torch.optim.AdamW)
