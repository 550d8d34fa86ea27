"""Fetch what the tests of pages need from npm, verified by digest.

python -m scripts.fetch_npm axe-core|onnxruntime-web FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path

from filmtransfer.errors import FitError
from filmtransfer.export.npm import NpmPackage, fetch_files
from filmtransfer.export.web import download_runtime

AXE = NpmPackage(
    "axe-core",
    "4.14.0",
    "sha512-9WTZxEjsZ7b13TH8JPmbV2z8CHbl80/2hm3XPEG4JgNdQLK81IBRXmSxHfMAOkSqQeRxT/0dwNDz2GOm3zzpcQ==",
)


def main(name: str, folder: Path) -> None:
    """Write the files of a package to a folder."""
    try:
        if name == AXE.name:
            fetch_files(
                AXE, {"axe.min.js": "axe.min.js"}, folder, "Check the connection to the npm registry."
            )
        else:
            download_runtime(folder)
    except FitError as error:
        raise SystemExit(str(error)) from None


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
