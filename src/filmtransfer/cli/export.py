"""fit export FILE --onnx OUT | --web FOLDER | --hub FOLDER"""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from ..errors import UsageError
from ..formatting import file_size
from .printing import Json, Printer, Threads, Weights
from .progress import phases


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
    false_alarm: Annotated[
        float | None,
        typer.Option(help="The share of in-distribution images that the export may reject (0.05)."),
    ] = None,
    weights: Weights = None,
    threads: Threads = None,
    as_json: Json = False,
) -> None:
    """Export a classifier as an ONNX graph, a web page, or a folder for the Hugging Face hub."""
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
    if sum(target is not None for target in (onnx, web, hub)) != 1:
        raise UsageError("Give one of --onnx, --web and --hub.", "For example: --onnx model.onnx")
    from ..model.ood import FALSE_ALARM, check_false_alarm

    false_alarm = FALSE_ALARM if false_alarm is None else false_alarm
    check_false_alarm(false_alarm)
    _check_paths(file, onnx, web, calibrate, ort)
    printer = Printer(as_json)
    if hub is not None:
        _export_to_hub(printer, file, hub, false_alarm, push, public)
        return
    with phases() as display:
        display.phase("loading the classifier")
        from ..export import load_classifier, read_calibration_images, write_folded, write_shared, write_web
        from ..training.torch_settings import configure_process

        configure_process(threads)
        clf = load_classifier(file, weights)
        images = None if calibrate is None else read_calibration_images(calibrate, clf)
        display.phase("building the graph and comparing it with torch")
        if web is not None:
            result = write_web(clf, web, ort, images, false_alarm)
        elif onnx is not None:
            write = partial(write_shared, user=_user_name(file)) if shared else write_folded
            result = write(clf, onnx, images=images, false_alarm=false_alarm)
    printer.skipped(images.skipped if images else [])
    if web is not None:
        printer.say(f"{web}: {len(result.files)} files, {file_size(sum(result.files.values()))}; try it with")
        printer.say(f"  python3 -m http.server 8080 --bind 127.0.0.1 --directory {web}")
    else:
        for path, count in result.files.items():
            unchanged = ", unchanged: it already contained this model" if path in result.unchanged else ""
            printer.say(f"{path}: {file_size(count)}{unchanged}")
    printer.say(result.rejection.line())
    printer.say(result.parity.line())
    for line in [] if result.loss is None else result.loss.lines():
        printer.say(line)
    printer.document(
        {
            "files": result.files,
            "unchanged": result.unchanged,
            "rejection": result.rejection.metadata(),
            "parity": {**vars(result.parity), "largest": result.parity.largest},
            "int8": None if result.loss is None else asdict(result.loss),
        }
    )


def _check_paths(
    file: str, onnx: Path | None, web: Path | None, calibrate: Path | None, ort: Path | None
) -> None:
    """Refuse what cannot be read or written before torch is imported."""
    from ..errors import InputError, UpdateFileError
    from ..files import check_writable, open_regular, reading
    from ..model.hub import SCHEME, find_update, repository

    if file.startswith(SCHEME):
        repository(file)
    else:
        path = find_update(file)
        with reading(path, error=UpdateFileError):
            open_regular(path).close()
    for folder in (calibrate, ort):
        if folder is not None and not folder.exists():
            raise InputError(f"There is no folder {folder}.", "Check the path.")
    if web is not None and web.exists() and not web.is_dir():
        raise InputError(f"{web} is a file, not a folder.", "Choose another name.")
    target = onnx or (web / "index.html" if web is not None and web.is_dir() else web)
    if target is not None:
        check_writable(target)


def _export_to_hub(
    printer: Printer, file: str, folder: Path, false_alarm: float, name: str | None, public: bool
) -> None:
    from ..export.hub import push, write_hub
    from ..export.rejection import Rejection
    from ..export.write import load_update
    from ..model.hub import check_online, repository

    if name is not None:
        check_online(f"{repository(name)[0]} cannot be written")  # before anything is written
    update = load_update(file)
    written = write_hub(update, folder, name, false_alarm)
    for path in written:
        printer.say(f"{path}: {file_size(path.stat().st_size)}")
    rejection = Rejection.of(update.predictor(), false_alarm)
    printer.say(rejection.line())
    address = name and push(folder, name, private=not public)
    if address:
        printer.say(address)
    files = {str(path): path.stat().st_size for path in written}
    printer.document({"files": files, "rejection": rejection.metadata(), "address": address})


def _user_name(file: str) -> str:
    """Return the user's name: that of the file, or of the folder or repository that contains it."""
    path = Path(file.removeprefix("hf://").partition("@")[0])
    if path.name == "update.safetensors":
        path = path.absolute().parent
    return path.stem if path.suffix == ".safetensors" else path.name
