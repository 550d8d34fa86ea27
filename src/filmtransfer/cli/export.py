"""fit export FILE --onnx OUT | --web FOLDER | --hub FOLDER"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from ..errors import UsageError
from ..formatting import file_size
from .printing import Json, Printer, Threads, Weights


def export(
    file: Annotated[str, typer.Argument(help="An update file, a hub folder, or hf://OWNER/NAME.")],
    onnx: Annotated[Path | None, typer.Option(help="Write an ONNX graph.")] = None,
    shared: Annotated[
        bool,
        typer.Option(
            "--shared",
            help="With --onnx: a backbone for all users that takes FiLM as input, and this user's file beside it.",
        ),
    ] = False,
    web: Annotated[
        Path | None, typer.Option(help="Write a web page that runs the model in the browser.")
    ] = None,
    ort: Annotated[
        Path | None,
        typer.Option(help="With --web: a folder with onnxruntime-web; else npm downloads it once."),
    ] = None,
    hub: Annotated[Path | None, typer.Option(help="Write a folder in the Hugging Face layout.")] = None,
    push: Annotated[str | None, typer.Option(help="With --hub: upload the folder to OWNER/NAME.")] = None,
    public: Annotated[
        bool, typer.Option("--public", help="With --push: a new repository is public.")
    ] = False,
    int8: Annotated[
        bool, typer.Option("--int8", help="Quantise to 8 bits; needs --calibrate. The loss is measured.")
    ] = False,
    calibrate: Annotated[
        Path | None, typer.Option(help="Images for --int8: half calibrate, half measure the loss.")
    ] = None,
    weights: Weights = None,
    threads: Threads = None,
    as_json: Json = False,
) -> None:
    """Export a classifier as an ONNX graph, a web page, or a folder for the Hugging Face hub."""
    if sum(target is not None for target in (onnx, web, hub)) != 1:
        raise UsageError("Give one of --onnx, --web and --hub.", "For example: --onnx model.onnx")
    for wrong, name, needed in (
        (shared and onnx is None, "--shared", "--onnx"),
        (ort is not None and web is None, "--ort", "--web"),
        (push is not None and hub is None, "--push", "--hub"),
        (public and push is None, "--public", "--push"),
        (int8 and hub is not None, "--int8", "--onnx or --web"),
        (int8 and calibrate is None, "--int8", "--calibrate FOLDER"),
        (calibrate is not None and not int8, "--calibrate", "--int8"),
    ):
        if wrong:
            raise UsageError(f"{name} needs {needed}.", f"Add {needed}, or remove {name}.")
    printer = Printer(as_json)
    if hub is not None:
        _export_to_hub(printer, file, hub, push, public)
        return
    from ..export import load_classifier, read_calibration_images, write_folded, write_shared, write_web
    from ..training.torch_settings import configure_process

    configure_process(threads)
    clf = load_classifier(file, weights)
    images = None if calibrate is None else read_calibration_images(calibrate, clf)
    printer.skipped(images.skipped if images else [])
    if web is not None:
        result = write_web(clf, web, ort, images)
        printer.say(f"{web}: {len(result.files)} files, {file_size(sum(result.files.values()))}; try it with")
        printer.say(f"  python3 -m http.server --directory {web}")
    else:
        assert onnx is not None
        result = (
            write_shared(clf, onnx, _user_name(file), images) if shared else write_folded(clf, onnx, images)
        )
        for path, count in result.files.items():
            unchanged = ", unchanged: it already contained this model" if path in result.unchanged else ""
            printer.say(f"{path}: {file_size(count)}{unchanged}")
    printer.say(result.parity.line())
    for line in [] if result.loss is None else result.loss.lines():
        printer.say(line)
    printer.document(
        {
            "files": result.files,
            "unchanged": result.unchanged,
            "parity": {**vars(result.parity), "largest": result.parity.largest},
            "int8": None if result.loss is None else asdict(result.loss),
        }
    )


def _export_to_hub(printer: Printer, file: str, folder: Path, name: str | None, public: bool) -> None:
    from ..export.hub import push, write_hub
    from ..export.write import load_update
    from ..model.hub import check_online, repository

    if name is not None:
        check_online(f"{repository(name)[0]} cannot be written")  # before anything is written
    written = write_hub(load_update(file), folder, name)
    for path in written:
        printer.say(f"{path}: {file_size(path.stat().st_size)}")
    address = name and push(folder, name, private=not public)
    if address:
        printer.say(address)
    printer.document({"files": {str(path): path.stat().st_size for path in written}, "address": address})


def _user_name(file: str) -> str:
    """Return the user's name: that of the file, or of the folder or repository that contains it."""
    path = Path(file.removeprefix("hf://").partition("@")[0])
    if path.name == "update.safetensors":
        path = path.absolute().parent
    return path.stem if path.suffix == ".safetensors" else path.name
