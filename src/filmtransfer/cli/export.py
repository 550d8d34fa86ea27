"""fit export FILE --onnx OUT | --web FOLDER | --hub FOLDER"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import UsageError
from ..formatting import file_size
from .printing import Json, Printer, Threads

if TYPE_CHECKING:
    from ..export import Exported


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
        Path | None, typer.Option(help="With --web: a folder with onnxruntime-web; else npm fetches it once.")
    ] = None,
    hub: Annotated[Path | None, typer.Option(help="Write a folder in the Hugging Face layout.")] = None,
    push: Annotated[str | None, typer.Option(help="With --hub: send the folder to OWNER/NAME.")] = None,
    public: Annotated[
        bool, typer.Option("--public", help="With --push: a new repository is public.")
    ] = False,
    int8: Annotated[
        bool, typer.Option("--int8", help="8-bit numbers; needs --calibrate. The loss is measured.")
    ] = False,
    calibrate: Annotated[
        Path | None, typer.Option(help="Images for --int8: half calibrate, half measure the loss.")
    ] = None,
    weights: Annotated[str | None, typer.Option(help="Weights file, if the backbone needs one.")] = None,
    threads: Threads = None,
    as_json: Json = False,
) -> None:
    """Take a classifier elsewhere: an ONNX graph, a web page, or a folder for the hub."""
    if sum(place is not None for place in (onnx, web, hub)) != 1:
        raise UsageError("Say where to: one of --onnx, --web and --hub.", "For example: --onnx model.onnx")
    for wrong, name, needs in (
        (shared and onnx is None, "--shared", "--onnx"),
        (ort is not None and web is None, "--ort", "--web"),
        (push is not None and hub is None, "--push", "--hub"),
        (public and push is None, "--public", "--push"),
        (int8 and hub is not None, "--int8", "--onnx or --web"),
        (int8 and calibrate is None, "--int8", "--calibrate FOLDER"),
        (calibrate is not None and not int8, "--calibrate", "--int8"),
    ):
        if wrong:
            raise UsageError(f"{name} goes with {needs}.", f"Give {needs} too, or leave {name} out.")
    printer = Printer(as_json)
    if hub is not None:
        _hub(printer, file, hub, push, public)
        return
    from ..export import open_update, read_images, write_folded, write_shared, write_web
    from ..training.torch_settings import prepare

    prepare(threads)
    clf = open_update(file, weights)
    images = None if calibrate is None else read_images(calibrate, clf)
    for miss in images.skipped if images else []:
        printer.note(f"left out: {miss.name}: {miss.reason}")
    if web is not None:
        done = write_web(clf, web, ort, images)
        printer.say(f"{web}: {len(done.files)} files, {file_size(sum(done.files.values()))}; try it with")
        printer.say(f"  python3 -m http.server --directory {web}")
        _report(printer, done, listed=False)
        return
    assert onnx is not None
    if shared:
        _report(printer, write_shared(clf, onnx, _user(file), images))
    else:
        _report(printer, write_folded(clf, onnx, images))


def _report(printer: Printer, done: Exported, listed: bool = True) -> None:
    for path, count in done.files.items() if listed else ():
        same = ", unchanged: it held this model already" if path in done.unchanged else ""
        printer.say(f"{path}: {file_size(count)}{same}")
    printer.say(done.parity.line())
    for line in [] if done.loss is None else done.loss.lines():
        printer.say(line)
    document: dict[str, Any] = {
        "files": done.files,
        "unchanged": done.unchanged,
        "parity": {**vars(done.parity), "largest": done.parity.largest},
        "int8": None if done.loss is None else done.loss.to_dict(),
    }
    printer.document(document)


def _hub(printer: Printer, file: str, folder: Path, push: str | None, public: bool) -> None:
    from ..export.hub import push as send
    from ..export.hub import write_hub
    from ..export.write import open_file
    from ..model.hub import check_online, repository

    if push is not None:
        check_online(f"{repository(push)[0]} cannot be written")  # before anything is
    update = open_file(file)
    written = write_hub(update, folder, push)
    for path in written:
        printer.say(f"{path}: {file_size(path.stat().st_size)}")
    address = None
    if push is not None:
        address = send(folder, push, private=not public)
        printer.say(address)
    printer.document({"files": {str(path): path.stat().st_size for path in written}, "address": address})


def _user(file: str) -> str:
    """What to call the user: the file's name, or that of the folder or repository around it."""
    path = Path(file.removeprefix("hf://").partition("@")[0])
    if path.name == "update.safetensors":
        path = path.absolute().parent
    return path.stem if path.suffix == ".safetensors" else path.name
