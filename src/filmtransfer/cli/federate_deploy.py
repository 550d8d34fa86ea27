"""fit federate keys FOLDER | server | client"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from ..errors import MissingExtraError, UsageError, check_choice
from .federate_status import describe_result, observing
from .printing import Json, Printer
from .settings import read_settings

ALL_CONNECTED = 0  # clients per round
Poll = Annotated[
    float, typer.Option(help="Seconds between two requests for new messages; shorter is faster and busier.")
]
HeadName = Annotated[str | None, typer.Option(help="Head of the classifier, such as protonets or lda.")]
PlanSettings = Annotated[
    list[str] | None, typer.Option("--set", help="Another setting of the plan, as in --set steps=5.")
]
Insecure = Annotated[
    bool, typer.Option("--insecure", help="No encryption and no keys; only within one machine, for tests.")
]


def keys(
    folder: Annotated[Path, typer.Argument(help="Folder of the federation's keys.")],
    client: Annotated[
        list[str] | None, typer.Option(help="Create a key for this client. May be repeated.")
    ] = None,
    host: Annotated[
        list[str] | None, typer.Option(help="A host name or address of the server. May be repeated.")
    ] = None,
    days: Annotated[
        int | None, typer.Option(help="Days for which the server's certificate is valid (365).")
    ] = None,
    renew: Annotated[bool, typer.Option("--renew", help="Create a new certificate for the server.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the keys of the given clients.")] = False,
    as_json: Json = False,
) -> None:
    """Create certificates and keys; run it again to add clients or to renew the server's certificate."""
    require_flower()
    from ..federated.certificates import read_certificate
    from ..federated.keys import make_keys, public_keys

    printer = Printer(as_json)
    created = make_keys(folder, host or (), client or (), days=days, renew=renew, force=force)
    certificate = read_certificate(folder / "server.crt")
    if created.authority:
        printer.say(f"{folder}/ca.key is the private key of this federation's authority: keep it secret.")
    printer.say(
        f"The server's certificate is for {', '.join(certificate.hosts)}, until {certificate.not_after:%Y-%m-%d}."
    )
    for name in created.clients:
        printer.say(
            f"Send {name} the two files in {folder / 'clients' / name} over a secure channel, and nothing else."
        )
    if created.clients:
        printer.say("Then delete them here: the server needs only the public keys, in nodes/.")
    known = sorted(public_keys(folder))
    printer.say(f"Clients that may take part: {', '.join(known) if known else 'none yet'}.")
    printer.document(
        {
            "folder": str(folder),
            "authority": created.authority,
            "server": created.server,
            "hosts": certificate.hosts,
            "not_after": certificate.not_after.isoformat(),
            "made": {name: str(folder / "clients" / name) for name in created.clients},
            "clients": known,
        }
    )


def server(
    folder: Annotated[
        Path, typer.Option(help="Folder of the federation; an interrupted federation is resumed.")
    ],
    keys: Annotated[Path | None, typer.Option(help="The folder of 'fit federate keys'.")] = None,
    host: Annotated[
        str | None, typer.Option(help="Address to listen on; by default all addresses of this machine.")
    ] = None,
    port: Annotated[int, typer.Option(help="Port to listen on.")] = 9092,
    preset: Annotated[
        str, typer.Option(help="small, or one of the paper's: cifar100, quickdraw, released.")
    ] = "small",
    rounds: Annotated[int | None, typer.Option(help="Number of rounds.")] = None,
    clients_per_round: Annotated[
        int | None,
        typer.Option(
            help="Clients of each round, drawn at random; 0: all. By default all, or 5 with privacy or a paper's preset."
        ),
    ] = None,
    min_clients: Annotated[
        int | None, typer.Option(help="Replies that a round needs, and clients that the server waits for.")
    ] = None,
    head: HeadName = None,
    backbone: Annotated[str | None, typer.Option(help="Pretrained backbone; see 'fit backbones'.")] = None,
    weights: Annotated[Path | None, typer.Option(help="Weights file for the backbone.")] = None,
    settings: PlanSettings = None,
    test: Annotated[
        Path | None, typer.Option(help="Images on which to evaluate the final classifier.")
    ] = None,
    poll: Poll = 3.0,
    insecure: Insecure = False,
    as_json: Json = False,
) -> None:
    """Run a federation: wait for clients, train with them, write the classifier over all classes."""
    require_flower()
    printer = Printer(as_json)
    printer.say("Starting the server of a federation: checking plan, keys and folder.")
    if (keys is None) != insecure:
        raise UsageError(
            "A server needs --keys FOLDER, or --insecure for tests on one machine.",
            "Create keys with: fit federate keys FOLDER --host NAME --client NAME",
        )
    from ..data import LabelledImages
    from ..federated.plan import DEPLOYED_PRESETS, named_plan
    from ..federated.records import GLOBAL_UPDATE

    check_choice("The preset", preset, DEPLOYED_PRESETS)
    chosen = {
        "rounds": rounds, "clients_per_round": clients_per_round, "min_clients": min_clients,
        "head": head, "backbone": backbone,
    }  # fmt: skip
    overridden = read_settings(settings, "steps=5") | {k: v for k, v in chosen.items() if v is not None}
    plan = named_plan(preset).override(**clients_of_round(preset, overridden) | overridden)
    if plan.trained_by == "batches":
        raise UsageError(
            f"The {plan.head} head is federated in simulations only.",
            "Choose another head, such as protonets.",
        )
    if test is not None:
        LabelledImages.from_path(test)
    poll = _check_poll(poll)
    from ..federated.deployment.server import Endpoint, run_server

    endpoint = Endpoint(host or ("127.0.0.1" if insecure else "0.0.0.0"), port, keys)
    with observing(printer, plan.rounds) as observer, _naming_the_way_back(printer):
        result = run_server(plan, folder, endpoint, test=test, weights=weights, poll=poll, observer=observer)
    printer.say(describe_result(result, folder / GLOBAL_UPDATE))
    printer.document(result)


@contextmanager
def _naming_the_way_back(printer: Printer) -> Iterator[None]:
    """Say at Ctrl-C how an interrupted federation is resumed."""
    try:
        yield
    except KeyboardInterrupt:
        printer.say("To resume the federation, start the server again with the same arguments.")
        raise


def client(
    data: Annotated[Path, typer.Option(help="A folder with one subfolder per class, or a CSV: path,label.")],
    server: Annotated[str, typer.Option(help="The server's address, HOST:PORT.")],
    name: Annotated[str, typer.Option(help="Name of this client.")],
    keys: Annotated[
        Path | None, typer.Option(help="The folder with ca.crt and node.key from the server's owner.")
    ] = None,
    ca: Annotated[Path | None, typer.Option(help="The federation's certificate, instead of --keys.")] = None,
    key: Annotated[Path | None, typer.Option(help="Your private key, instead of --keys.")] = None,
    state: Annotated[
        Path | None, typer.Option(help="Folder of this client's state; by default federate-NAME.")
    ] = None,
    test: Annotated[
        Path | None, typer.Option(help="Images on which to evaluate the personalized classifier.")
    ] = None,
    weights: Annotated[Path | None, typer.Option(help="Weights file for the backbone.")] = None,
    policy: Annotated[
        Path | None, typer.Option(help="A TOML file with what this client sends at most, whatever the plan.")
    ] = None,
    wait: Annotated[
        float | None,
        typer.Option(help="Seconds to wait for a server that cannot be reached; by default without limit."),
    ] = None,
    poll: Poll = 3.0,
    insecure: Insecure = False,
    as_json: Json = False,
) -> None:
    """Take part in a federation with a folder of images, which stay on this machine.

    It ends when the federation is over, or with Ctrl-C.
    """
    require_flower()
    printer = Printer(as_json)
    printer.say(f"Starting the client {name}: checking images and keys.")
    if keys is not None:
        ca, key = ca or keys / "ca.crt", key or keys / "node.key"
    if insecure and (ca or key):
        raise UsageError("--insecure uses no keys.", "Omit one of the two options.")
    if not insecure and (ca is None or key is None):
        raise UsageError(
            "A client needs --keys FOLDER (or --ca FILE and --key FILE).",
            "The server's owner creates them: fit federate keys FOLDER --client NAME",
        )
    from ..federated.deployment.client import ClientFiles, ClientIdentity, run_client
    from ..federated.records import PERSONAL_UPDATE

    identity = ClientIdentity(name, server, ca and ca.resolve(), key and key.resolve())
    state = state or Path(f"federate-{name}")
    files = ClientFiles(data, state, test, weights, policy)
    run_client(files, identity, wait=wait, poll=_check_poll(poll), log=printer.say)
    update = state / PERSONAL_UPDATE
    personal = str(update) if update.exists() else None
    printer.document({"name": name, "server": server, "state": str(state), "personal": personal})


def clients_of_round(preset: str, chosen: Mapping[str, object]) -> dict[str, int]:
    """Return the clients of each round unless they are chosen: all, or as many as the preset says.

    A paper's experiment has its own number, and privacy needs rounds in which a client may be absent: the accountant
    counts on it.
    """
    return {"clients_per_round": ALL_CONNECTED} if preset == "small" and not chosen.get("privacy") else {}


def _check_poll(poll: float) -> float:
    if not 0.05 <= poll <= 60:
        raise UsageError(f"poll cannot be {poll}.", "It is a number of seconds from 0.05 to 60.")
    return poll


def require_flower() -> None:
    """Raise an error if the extra of ``fit federate`` is not installed."""
    if importlib.util.find_spec("flwr") is None:
        raise MissingExtraError("fit federate", "federated")
