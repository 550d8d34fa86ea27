"""A maker of downloads without torch; the environment variable FAKE_DOWNLOAD says what happens."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from filmtransfer.processes import terminate_with_parent
from filmtransfer.serve.make_download import ERROR_FILE, MADE_FILE, THUMBNAILS


def main() -> int:
    terminate_with_parent()
    folder, (action, _, value) = Path(sys.argv[2]), os.environ.get("FAKE_DOWNLOAD", "").partition(":")
    if action == "sleep":
        Path(value).write_text(str(os.getpid()))
        time.sleep(600)
    if action == "alone":  # an error unless this is the only one
        with Path(value).open("x"):
            time.sleep(0.3)
        Path(value).unlink()
    if action == "die":
        print("secret detail", file=sys.stderr, flush=True)
        os._exit(9)
    if action == "error":
        error = {"message": "It cannot be made.", "hint": "Do something else.", "exit_code": int(value)}
        (folder / ERROR_FILE).write_text(json.dumps(error))
        return int(value)
    facts = {
        "environment": lambda: dict(os.environ),
        "thumbnails": lambda: [file.name for file in (folder / THUMBNAILS).iterdir()],
    }
    made = facts.get(action, lambda: sys.argv[1:])()
    (folder / MADE_FILE).write_text(json.dumps(made))
    return 0


if __name__ == "__main__":
    sys.exit(main())
