"""``python -m filmtransfer`` is the command ``fit``."""

import sys

from .cli import main

sys.exit(main())
