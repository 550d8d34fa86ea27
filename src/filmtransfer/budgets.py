"""Budgets: what one input from outside may cost at most. No other module sets a limit of this kind.

An input is an image, an update file, an archive, a request or a message of a federation. Each is charged against its
budget from its header, before anything in it is expanded. docs/security.md states what an attacker can cost within
these limits. Limits that an operator may change are settings of the service (``serve/settings.py``), whose defaults
stand here.
"""

from __future__ import annotations

# Images

MAX_PIXELS = 100_000_000  # a small file can declare an image that does not fit into memory

# Update files

# Requests

# Federations
