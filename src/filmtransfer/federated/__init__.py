"""Federated learning on Flower: ψ and summed statistics are sent, images never are.

Flower reads the environment variables below when it is imported: no telemetry, no check for updates and no
installation of packages, unless the user has set them otherwise.
"""

import os

for _name, _value in (
    ("FLWR_TELEMETRY_ENABLED", "0"),
    ("FLWR_DISABLE_UPDATE_CHECK", "1"),
    ("FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION", "1"),
    ("RAY_USAGE_STATS_ENABLED", "0"),
):
    os.environ.setdefault(_name, _value)
