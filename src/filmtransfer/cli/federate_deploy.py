"""fit federate keys FOLDER | server | client"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import MissingExtraError, UsageError
from ..formatting import percent
from .printing import Json, Printer
from .settings import read_settings

app = typer.Typer(
    help="A federation of real machines.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Poll = Annotated[
    float, typer.Option(help="Seconds between two looks for news; fewer are brisker and busier.")
]
Insecure = Annotated[
    bool,
    typer.Option("--insecure", help="No encryption and no keys; only within this machine, to try it out."),
]


@app.command("keys")
def keys(
    folder: Annotated[Path, typer.Argument(help="Where the keys of the federation are kept.")],
    client: Annotated[
        list[str] | None, typer.Option(help="Make a key for this client. May be repeated.")
    ] = None,
    host: Annotated[
        list[str] | None,
        typer.Option(help="A name or address that clients reach the server by. May be repeated."),
    ] = None,
    days: Annotated[
        int | None, typer.Option(help="How long the server's certificate is valid (365).")
    ] = None,
    renew: Annotated[bool, typer.Option("--renew", help="Make a new certificate for the server.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the keys of the clients named.")] = False,
    as_json: Json = False,
) -> None:
    """Make certificates and keys; run it again to add clients or to renew the server's certificate."""
    need_flower()
    from ..federated.certificates import read_certificate
    from ..federated.keys import make_keys, public_keys

    printer = Printer(as_json)
    made = make_keys(folder, host or (), client or (), days=days, renew=renew, force=force)
    certificate = read_certificate(folder / "server.crt")
    if made.authority:
        printer.say(f"{folder}/ca.key is the authority of this federation: keep it to yourself.")
    printer.say(
        f"The server's certificate is for {', '.join(certificate.hosts)}, until {certificate.not_after:%Y-%m-%d}."
    )
    for name in made.clients:
        printer.say(
            f"Give {name}, over a safe way, the two files in {folder / 'clients' / name}, and nothing else."
        )
    if made.clients:
        printer.say("Then delete them here: the server needs only the public keys, in nodes/.")
    known = sorted(public_keys(folder))
    printer.say(f"Clients that may take part: {', '.join(known) if known else 'none yet'}.")
    printer.document(
        {
            "folder": str(folder),
            "authority": made.authority,
            "server": made.server,
            "hosts": certificate.hosts,
            "not_after": certificate.not_after.isoformat(),
            "made": {name: str(folder / "clients" / name) for name in made.clients},
            "clients": known,
        }
    )


@app.command("server")
def server(
    folder: Annotated[Path, typer.Option(help="The federation's state; started again on it, it goes on.")],
    keys: Annotated[Path | None, typer.Option(help="The folder of 'fit federate keys'.")] = None,
    host: Annotated[
        str | None, typer.Option(help="Address to listen on; by default all of this machine.")
    ] = None,
    port: Annotated[int, typer.Option(help="Port to listen on.")] = 9092,
    preset: Annotated[str, typer.Option(help="small, or one of the paper's: cifar100, quickdraw.")] = "small",
    rounds: Annotated[int | None, typer.Option(help="How many rounds.")] = None,
    clients_per_round: Annotated[int | None, typer.Option(help="How many clients in each.")] = None,
    min_clients: Annotated[
        int | None, typer.Option(help="Answers that a round needs; it is also how many are waited for.")
    ] = None,
    head: Annotated[str | None, typer.Option(help="protonets or lda.")] = None,
    backbone: Annotated[str | None, typer.Option(help="Pretrained backbone; see 'fit backbones'.")] = None,
    weights: Annotated[Path | None, typer.Option(help="Weights file for the backbone.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="Any other setting of the plan, as in --set steps=5.")
    ] = None,
    test: Annotated[Path | None, typer.Option(help="Images to try the final classifier on.")] = None,
    poll: Poll = 3.0,
    insecure: Insecure = False,
    as_json: Json = False,
) -> None:
    """Run a federation: wait for clients, train with them, write the classifier over all classes."""
    need_flower()
    from ..data import LabelledImages
    from ..federated.deployment.server import Endpoint, serve
    from ..federated.plan import named

    printer = Printer(as_json)
    if (keys is None) != insecure:
        raise UsageError(
            "A server needs --keys FOLDER, or --insecure to try it out on one machine.",
            "Make keys with: fit federate keys FOLDER --host NAME --client NAME",
        )
    chosen = {
        "rounds": rounds, "clients_per_round": clients_per_round, "min_clients": min_clients,
        "head": head, "backbone": backbone,
    }  # fmt: skip
    plan = named(preset).with_choices(
        **read_settings(settings, "steps=5") | {k: v for k, v in chosen.items() if v is not None}
    )
    if test is not None:
        LabelledImages.from_path(test)
    door = Endpoint(host or ("127.0.0.1" if insecure else "0.0.0.0"), port, keys)

    def tell(line: dict[str, Any]) -> None:
        printer.say(round_line(line, plan.rounds))

    result = serve(
        plan, folder, door, test=test, weights=weights, poll=_seconds(poll), say=printer.say, watch=tell
    )
    printer.say(
        f"{result['rounds']} rounds, {len(result['classes'])} classes: {folder / 'global.safetensors'}"
        + (f", accuracy {percent(result['accuracy'])}." if "accuracy" in result else ".")
    )
    printer.document(result)


@app.command("client")
def client(
    data: Annotated[Path, typer.Option(help="A folder with one subfolder per class, or a CSV: path,label.")],
    server: Annotated[str, typer.Option(help="The server's address, HOST:PORT.")],
    name: Annotated[str, typer.Option(help="What this client is called.")],
    keys: Annotated[
        Path | None, typer.Option(help="The folder with ca.crt and node.key that you were given.")
    ] = None,
    ca: Annotated[Path | None, typer.Option(help="The federation's certificate, instead of --keys.")] = None,
    key: Annotated[Path | None, typer.Option(help="Your private key, instead of --keys.")] = None,
    state: Annotated[
        Path | None, typer.Option(help="Where this client keeps its own; by default federate-NAME.")
    ] = None,
    test: Annotated[Path | None, typer.Option(help="Images to try the personal classifier on.")] = None,
    weights: Annotated[Path | None, typer.Option(help="Weights file for the backbone.")] = None,
    wait: Annotated[
        float | None,
        typer.Option(help="Seconds to wait for a server that is not there; by default for ever."),
    ] = None,
    poll: Poll = 3.0,
    insecure: Insecure = False,
    as_json: Json = False,
) -> None:
    """Take part in a federation with a folder of images, which stay here.

    It ends when the federation is over, or with Ctrl-C.
    """
    need_flower()
    from ..federated.deployment.client import ClientIdentity, join

    printer = Printer(as_json)
    if keys is not None:
        ca, key = ca or keys / "ca.crt", key or keys / "node.key"
    if insecure and (ca or key):
        raise UsageError("--insecure does without keys.", "Leave out one of the two.")
    if not insecure and (ca is None or key is None):
        raise UsageError(
            "A client needs --keys FOLDER (or --ca FILE and --key FILE).",
            "The server's owner makes them: fit federate keys FOLDER --client NAME",
        )
    membership = ClientIdentity(name, server, ca and ca.resolve(), key and key.resolve())
    place = state or Path(f"federate-{name}")
    join(data, membership, place, test=test, weights=weights, wait=wait, poll=_seconds(poll), say=printer.say)
    kept = place / "personal.safetensors"
    printer.document(
        {
            "name": name,
            "server": server,
            "state": str(place),
            "personal": str(kept) if kept.exists() else None,
        }
    )


def round_line(line: dict[str, Any], rounds: int) -> str:
    """A round as people want to hear of it."""
    parts = (
        [f"{len(set(line['clients']) - set(line['missing']) - set(line['refused']))} clients"]
        if line["round"]
        else []
    )
    for word in ("missing", "refused"):
        if line.get(word):
            parts.append(f"{word}: {', '.join(sorted(line[word]))}")
    if isinstance(line.get("loss"), float):
        parts.append(f"loss {line['loss']:.3f}")
    for word in ("global", "accuracy", "personalized"):
        if isinstance(line.get(word), float):
            parts.append(f"{word} {percent(line[word])}")
    if isinstance(line.get("epsilon"), float):
        parts.append(f"ε {line['epsilon']:.2f} at δ {line['delta']:g}")
    return f"Round {line['round']} of {rounds}: {', '.join(parts) or 'begun'}."


def _seconds(poll: float) -> float:
    if not 0.05 <= poll <= 60:
        raise UsageError(f"poll cannot be {poll}.", "It is a number of seconds from 0.05 to 60.")
    return poll


def need_flower() -> None:
    if importlib.util.find_spec("flwr") is None:
        raise MissingExtraError("fit federate", "federated")
