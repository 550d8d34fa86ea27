"""Parameters by name, of FiLM or of another adapter: the check that they belong to a backbone."""

from __future__ import annotations

from collections.abc import Mapping

from .arrays import Array, is_finite
from .errors import UpdateFileError


def check_parameters(shapes: Mapping[str, tuple[int, ...]], values: Mapping[str, Array]) -> None:
    """Raise an error unless ``values`` has the names and shapes of the backbone's parameters and is finite."""
    if shapes.keys() != values.keys():
        differences = sorted(shapes.keys() ^ values.keys())[:3]
        raise UpdateFileError(
            f"The parameters belong to another backbone (first differences: {', '.join(differences)})."
        )
    for name, shape in shapes.items():
        if tuple(values[name].shape) != shape:
            raise UpdateFileError(
                f"The parameter {name} has shape {tuple(values[name].shape)}, that of the backbone {shape}."
            )
        if not is_finite(values[name]):
            raise UpdateFileError(f"The parameter {name} is not finite.")
