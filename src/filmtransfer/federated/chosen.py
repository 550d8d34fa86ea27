"""From the settings of a benchmark's run to the plan of its federation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from .plan import Plan, named

PRESET = "small"  # where a run names none


def plan_of(settings: Mapping[str, Any]) -> Plan:
    """The named plan (``preset``), with whatever else the settings say of a plan; anything else is left aside."""
    known = {field.name for field in fields(Plan)}
    chosen = {name: value for name, value in settings.items() if name in known}
    return named(str(settings.get("preset", PRESET))).with_choices(**chosen)
