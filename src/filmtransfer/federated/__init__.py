"""Federated learning on Flower: ψ and summed statistics travel, images never do.

Flower reads the words below when it is imported: it sends no telemetry, looks for no newer version of itself
and installs nothing, unless somebody has said otherwise.
"""

import os

for _name, _value in (
    ("FLWR_TELEMETRY_ENABLED", "0"),
    ("FLWR_DISABLE_UPDATE_CHECK", "1"),
    ("FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION", "1"),
    ("RAY_USAGE_STATS_ENABLED", "0"),
):
    os.environ.setdefault(_name, _value)
