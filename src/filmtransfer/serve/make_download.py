"""Make one file for download in a process of its own: an ONNX graph, a web page, or a report of a version.

    python -m filmtransfer.serve.make_download KIND FOLDER [--weights FILE] [--seconds S] [--megabytes M]

The folder has what it is made from: ``classifier.safetensors``, and for a report ``report.json`` and ``thumbnails/``. The
file that was made is ``FOLDER/made``. What a person can do about an error is written to ``FOLDER/error.json``.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from ..errors import FitError, UnavailableError
from ..files import make_folder
from ..processes import terminate_with_parent

DownloadKind = Literal["onnx", "web", "report"]

UPDATE_FILE, REPORT_FILE, THUMBNAILS = "classifier.safetensors", "report.json", "thumbnails"
MADE_FILE, ERROR_FILE = "made", "error.json"
NICE = 10  # predictions go first


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the file; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m filmtransfer.serve.make_download", description=__doc__)
    parser.add_argument("kind", choices=MAKERS)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--weights", help="weights file of the backbone")
    parser.add_argument("--seconds", type=int, help="the most processor time")
    parser.add_argument("--megabytes", type=int, help="the most memory")
    args = parser.parse_args(arguments)
    terminate_with_parent()
    limit_process(args.seconds, args.megabytes)
    try:
        MAKERS[args.kind](args.folder, args.weights)
    except (FitError, MemoryError) as error:
        if not isinstance(error, FitError):
            error = UnavailableError("It needs more memory than this service allows.")
        document = {"message": error.message, "hint": error.hint, "exit_code": error.exit_code}
        (args.folder / ERROR_FILE).write_text(json.dumps(document))
        return error.exit_code
    return 0


def limit_process(seconds: int | None, megabytes: int | None) -> None:
    """Limit the processor time and the memory of this process, and let others go first."""
    import resource  # here: Windows has none, and the service refuses to start there with a clear message

    os.nice(NICE)
    for kind, limit in (
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_DATA, None if megabytes is None else megabytes * 2**20),
    ):
        if limit is not None:
            resource.setrlimit(kind, (limit, limit))


def make_onnx(folder: Path, weights: str | None) -> None:
    """Make one .onnx file."""
    from ..export import load_classifier, write_folded
    from ..training.torch_settings import configure_process

    configure_process(1)
    target = folder / "classifier.onnx"
    write_folded(load_classifier(folder / UPDATE_FILE, weights), target)
    target.rename(folder / MADE_FILE)


def make_web(folder: Path, weights: str | None) -> None:
    """Make a .zip file of the page that classifies in a browser."""
    from ..export import load_classifier, write_web
    from ..export.web import cached_runtime
    from ..training.torch_settings import configure_process

    runtime = (
        cached_runtime()
    )  # an error before torch is loaded, and no download: npm would outlive this process
    if runtime is None:
        raise UnavailableError(
            "The web page cannot be made here: this service has no copy of onnxruntime-web.",
            "Ask the administrator to run 'fit export FILE --web FOLDER' once, with network access and the 'fit' of the service.",
        )
    configure_process(1)
    clf = load_classifier(folder / UPDATE_FILE, weights)
    page = make_folder(folder / "page")
    write_web(clf, page / "classifier", runtime)
    archive = shutil.make_archive(str(page), "zip", page, "classifier")
    Path(archive).rename(folder / MADE_FILE)


def make_report(folder: Path, weights: str | None) -> None:
    """Make the report (HTML) from the statistics in the file and the thumbnails of the photos that are still there."""
    from ..report import collect_update, write_report

    del weights
    about = json.loads((folder / REPORT_FILE).read_text())
    thumbnails = {file.stem: file.read_bytes() for file in (folder / THUMBNAILS).iterdir()}
    data = collect_update(folder / UPDATE_FILE, thumbnails)
    write_report(folder / MADE_FILE, replace(data, title=about["title"]))


MAKERS: dict[DownloadKind, Callable[[Path, str | None], None]] = {
    "onnx": make_onnx,
    "web": make_web,
    "report": make_report,
}

if __name__ == "__main__":
    sys.exit(main())
