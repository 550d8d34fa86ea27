"""A client's own policy: what it sends at most, whatever the server's plan promises.

The server writes the plan, so a plan binds nobody but the server. The policy is a file of the client's owner, and the
client's process enforces it before a message leaves the machine:

    secure_aggregation_only = true       # sums leave this machine only under the masks of secure aggregation
    min_clients = 3                      # clients of a round, counted by this client where it can be
    epsilon = 8.0                        # budget of differential privacy …
    delta = 1e-5                         # … both or none
    max_rounds = 20                      # rounds that this client ever answers
    plans = ["2f1b…"]                    # digests of the plans that it takes part in
    releases = ["train", "statistics", "scores", "evaluation"]   # what it sends at all
    max_releases = {statistics = 1}      # and how often at most; of train that is max_rounds

Every setting may be omitted; only epsilon needs releases, as it binds train alone. ``ledger.json`` in the folder of the
client's state counts what was released. It is charged before the work, and also holds the digest of the policy: another
policy, or none, is refused there.

The client's ε is that of the rounds it has answered, each as if it had been certain to take part (q = 1). That is above
the ε of random sampling, and needs neither the number of clients nor the secrecy of the sample.
"""

from __future__ import annotations

import hashlib
import json
import math
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from flwr.app import RecordDict

from ..errors import FitError, InputError, UpdateFileError, UsageError, check_count, check_flag, check_number
from ..files import make_folder, reading, write_atomically
from ..formatting import count
from . import messages
from .masking import SURVIVED, masked_work
from .plan import PRIVACY_NUMBERS, Plan
from .privacy import epsilon, renyi

LEDGER_FILE = "ledger.json"
Kind = Literal["train", "statistics", "scores", "evaluation"]  # of what a client releases
KINDS: tuple[Kind, ...] = get_args(Kind)
ARRAYS: dict[Kind, frozenset[str]] = {  # that leave with each
    "train": frozenset({"psi", "scale"}),
    "statistics": frozenset({"counts", "sums", "moments"}),
    "scores": frozenset({"correct", "losses", "moments", "histogram"}),
    "evaluation": frozenset(),
}
DIGEST_LENGTH = 64  # of SHA-256 in hexadecimal


class PolicyError(FitError):
    """Report a request that the client's own policy does not allow."""


@dataclass(frozen=True)
class Policy:
    """What a client's owner allows; the default allows everything."""

    secure_aggregation_only: bool = False
    min_clients: int = 1
    epsilon: float | None = None
    delta: float | None = None
    max_rounds: int | None = None
    plans: tuple[str, ...] | None = None
    releases: tuple[str, ...] | None = None  # all kinds
    max_releases: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_flag("secure_aggregation_only", self.secure_aggregation_only)
        check_count("min_clients", self.min_clients)
        if self.max_rounds is not None:
            check_count("max_rounds", self.max_rounds, 0)
        if (self.epsilon is None) != (self.delta is None):
            raise UsageError("A privacy budget is two numbers.", "Set epsilon and delta, or neither.")
        for name in ("epsilon", "delta"):
            if (value := getattr(self, name)) is not None:
                check_number(name, value, *PRIVACY_NUMBERS[name])
        _check_texts("plans", self.plans or (), lambda text: len(text) == DIGEST_LENGTH, "digests of plans")
        _check_texts("releases", self.releases or (), KINDS.__contains__, f"some of {', '.join(KINDS)}")
        if self.epsilon is not None and self.releases is None:
            raise UsageError(
                "The budget epsilon binds train only.",
                'Say with releases what may be sent at all, such as releases = ["train", "evaluation"].',
            )
        if not isinstance(self.max_releases, dict) or self.max_releases.keys() - (set(KINDS) - {"train"}):
            raise UsageError(
                f"max_releases cannot be {self.max_releases!r}.",
                "It is a table of statistics, scores and evaluation; that of train is max_rounds.",
            )
        for kind, limit in self.max_releases.items():
            check_count(f"max_releases.{kind}", limit, 0)

    @classmethod
    def load(cls, path: str | Path) -> Policy:
        """Read a policy file."""
        return cls.parse(read_policy(path), path)

    @classmethod
    def parse(cls, content: bytes, path: str | Path) -> Policy:
        """Return the policy of a file's content; errors name the file."""
        try:
            settings = tomllib.loads(content.decode())
        except ValueError as error:
            raise InputError(
                f"{path} is not a policy ({str(error).splitlines()[0]}).", "It is a TOML file."
            ) from None
        known = [f.name for f in fields(cls)]
        if unknown := sorted(settings.keys() - set(known)):
            raise UsageError(f"{path} has an unknown setting, {unknown[0]!r}.", f"Use {', '.join(known)}.")
        values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in settings.items()}
        try:
            return cls(**values)
        except UsageError as error:
            raise UsageError(f"{path}: {error.message}", error.hint) from None

    # The rules. The reasons continue a sentence that begins with the client's name.

    def check_plan(self, plan: Plan) -> None:
        """Raise an error that has all reasons why the plan itself is not allowed."""
        reasons, has = [], []
        if self.plans is not None and plan.digest not in self.plans:
            reasons.append("does not allow this plan")
            has.append(f"the digest {plan.digest}")
        if self.secure_aggregation_only and not plan.secure:
            reasons.append("allows secure aggregation only")
            has.append("secure=false")
        if plan.min_clients < self.min_clients:
            reasons.append(f"allows no round of fewer than {count(self.min_clients, 'client')}")
            has.append(f"min_clients={plan.min_clients}")
        if self.epsilon is not None and self.allows("train") and plan.privacy is None:
            reasons.append(f"requires differential privacy with ε of at most {self.epsilon:g}")
            has.append("no privacy")
        if reasons:
            raise PolicyError(f"its policy {'; '.join(reasons)}.", f"The plan has {', '.join(has)}.")

    def allows(self, kind: Kind) -> bool:
        """Return whether this kind of release is allowed at all."""
        return self.releases is None or kind in self.releases

    def check_release(self, release: Release) -> None:
        """Raise an error if this kind of release is not allowed, or not in this form."""
        if not self.allows(release.kind):
            raise PolicyError(f"its policy allows no {release.kind}.")
        if self.secure_aggregation_only and not release.masked:
            raise PolicyError("its policy allows secure aggregation only.")

    def check_clients(self, clients: int) -> None:
        """Raise an error if a masked sum would have too few clients."""
        if clients < self.min_clients:
            raise PolicyError(
                f"its policy allows no sum over fewer than {count(self.min_clients, 'client')}, and this one has {clients}."
            )

    def check_ledger(self, ledger: Ledger, kind: Kind) -> None:
        """Raise an error if the releases of this kind in the ledger exceed the budgets."""
        if kind != "train":
            limit = self.max_releases.get(kind)
            if limit is not None and ledger.releases.get(kind, 0) > limit:
                raise PolicyError(f"its policy allows no more {kind} (max_releases.{kind} = {limit}).")
            return
        if self.max_rounds is not None and ledger.rounds > self.max_rounds:
            raise PolicyError(f"its policy allows no more rounds (max_rounds = {self.max_rounds}).")
        if self.epsilon is not None and self.delta is not None:
            after = ledger.epsilon(self.delta)
            if not after <= self.epsilon:  # also where it is not a number
                raise PolicyError(
                    f"its policy allows ε = {self.epsilon:g} at δ = {self.delta:g}, and another round would make it {after:.3g}."
                )


def read_policy(path: str | Path) -> bytes:
    """Return the content of a policy file."""
    with reading(path, "A policy is a TOML file; see the documentation of federated learning."):
        return Path(path).read_bytes()


def policy_digest(content: bytes) -> str:
    """Return the digest of a policy file."""
    return hashlib.sha256(content).hexdigest()


@dataclass(frozen=True)
class Release:
    """What a reply would reveal, and whether only as secure aggregation allows it."""

    kind: Kind
    masked: bool


def releases_of(message_type: str, content: RecordDict) -> list[Release]:
    """Return what the reply to a request reveals, beyond the description that every client sends."""
    if message_type == messages.TRAIN:
        return [Release("train", masked=False)]
    if message_type in (messages.STATISTICS, messages.SCORES):
        return [Release(messages.requested_sums(content, message_type), masked=False)]
    if message_type == messages.EVALUATE:
        config = messages.read_config(content)
        # An accuracy on the images of fine-tuning is what secure aggregation protects; on test images it is not.
        accuracy = Release("evaluation", masked=not config.get("leave_one_out"))
        if "classes" not in config:
            return [accuracy]
        # The statistics are for the server's test images.
        return [accuracy, Release(messages.requested_sums(content, message_type), masked=False)]
    if message_type == messages.SECURE + "masked":
        work = masked_work(content)
        sums = "classes" in messages.read_config(work)
        return [Release(messages.requested_sums(work) if sums else "train", masked=True)]
    return []


def check_reply(releases: Sequence[Release], reply: RecordDict) -> None:
    """Raise an error unless the arrays of a reply are of the releases that were charged."""
    plain = [ARRAYS[release.kind] for release in releases if not release.masked]
    allowed = {"arrays": frozenset().union(*plain)}
    if any(release.masked for release in releases):
        allowed["masked"] = frozenset({"masked"})
    for name, record in reply.array_records.items():
        if not record.keys() <= allowed.get(name, frozenset()):
            raise PolicyError("its reply would have arrays that were not charged.")


def clients_of_sum(message_type: str, content: RecordDict) -> int | None:
    """Return how many clients a sum has at this stage of secure aggregation; None if the request does not say it."""
    records = content.config_records
    stage = message_type.removeprefix(messages.SECURE) if message_type.startswith(messages.SECURE) else ""
    if stage == "shares" and "keys" in records:
        return len(_clients(records["keys"]))
    if stage == "masked" and "shares" in records:
        return len(_clients(records["shares"])) + 1
    if stage == "unmask" and "fates" in records:
        _clients(records["fates"])
        return sum(fate == SURVIVED for fate in records["fates"].values())
    return None


def _clients(record: Mapping[str, object]) -> list[int]:
    try:
        return messages.client_numbers(record)
    except ValueError:
        raise PolicyError("the request has numbers of clients that cannot be read.") from None


@dataclass
class Ledger:
    """What a client has released so far; ``noise`` counts its answered rounds by the noise of their plan."""

    policy: str = ""  # the digest of the policy that the folder is bound to
    releases: dict[str, int] = field(default_factory=dict)
    noise: dict[str, int] = field(default_factory=dict)  # "0" without differential privacy

    @property
    def rounds(self) -> int:
        """The rounds that were answered."""
        return self.releases.get("train", 0)

    def epsilon(self, delta: float) -> float:
        """Return the ε of the answered rounds at δ; it is infinite after a round without noise."""
        if not self.noise:
            return 0.0
        if "0" in self.noise:
            return math.inf
        total = np.sum([n * renyi(1.0, float(noise)) for noise, n in self.noise.items()], axis=0)
        return epsilon(total, delta)

    def charge(self, release: Release, plan: Plan) -> None:
        """Count a release."""
        self.releases[release.kind] = self.releases.get(release.kind, 0) + 1
        if release.kind == "train":
            noise = repr(float(plan.privacy.noise)) if plan.privacy else "0"
            self.noise[noise] = self.noise.get(noise, 0) + 1

    @classmethod
    def load(cls, folder: Path) -> Ledger:
        """Return the ledger of a folder, an empty one if there is none; refuse one that was damaged."""
        path = folder / LEDGER_FILE
        if not path.exists():
            return cls()
        with reading(path, error=UpdateFileError):
            content = path.read_bytes()
        try:
            stored: dict[str, Any] = json.loads(content)
            ledger = cls(**stored)
            counts = [*ledger.releases.values(), *ledger.noise.values()]
            valid = isinstance(ledger.policy, str) and all(type(n) is int and n > 0 for n in counts)
            valid = valid and all(noise == "0" or 0 < float(noise) < math.inf for noise in ledger.noise)
        except (ValueError, TypeError, AttributeError, RecursionError):
            valid = False
        if not valid:
            raise UpdateFileError(
                f"{path} is not the ledger of a client.", "Restore it, or use another folder with --state."
            )
        return ledger

    def save(self, folder: Path) -> None:
        """Write the ledger; when this returns, it survives a kill and a power failure."""
        make_folder(folder, parents=True)
        content = json.dumps(asdict(self), sort_keys=True, indent=1)
        write_atomically(folder / LEDGER_FILE, content.encode() + b"\n")


def bind_policy(folder: Path, path: str | Path | None) -> str:
    """Bind a folder of state to a policy and return its digest, empty for none; refuse a changed or omitted one."""
    digest = ""
    if path is not None:
        content = read_policy(path)
        Policy.parse(content, path)
        digest = policy_digest(content)
    with _locked(folder):
        ledger = Ledger.load(folder)
        if ledger.policy and ledger.policy != digest:
            what = "is not the policy" if digest else "A policy is missing: there is one"
            named = f"{path} {what}" if digest else what
            raise UsageError(
                f"{named} that {folder} is bound to.",
                "Use the same file with --policy; for another policy use another folder with --state, whose ledger begins at zero.",
            )
        if digest != ledger.policy:
            ledger.policy = digest
            ledger.save(folder)
    return digest


@dataclass(frozen=True)
class PolicyGuard:
    """Admits a request under the policy of a client, and charges it to its ledger, before anything is computed."""

    folder: Path  # of the client's state
    path: Path | None  # of the policy
    digest: str  # of the policy that the client was started with

    def admit(self, message_type: str, plan: Plan, content: RecordDict) -> list[Release]:
        """Count and return what the reply to a request releases; raise an error if the client must not send it."""
        releases = releases_of(message_type, content)
        if message_type == messages.SECURE + "masked" and messages.read_plan(masked_work(content)) != plan:
            raise PolicyError("the request has two plans, which differ.")
        policy = self._policy()
        policy.check_plan(plan)
        if (clients := clients_of_sum(message_type, content)) is not None:
            policy.check_clients(clients)
        with _locked(self.folder):  # a server may send several requests at once
            ledger = Ledger.load(self.folder)
            if ledger.policy != self.digest:
                raise PolicyError("its ledger is bound to another policy.")
            for release in releases:
                policy.check_release(release)
                ledger.charge(release, plan)
                policy.check_ledger(ledger, release.kind)
            if releases:
                ledger.save(self.folder)
        return releases

    def _policy(self) -> Policy:
        if self.path is None:
            return Policy()
        try:
            content = read_policy(self.path)
        except FitError:
            raise PolicyError("its policy is missing.") from None
        if policy_digest(content) != self.digest:
            raise PolicyError("its policy has changed since it was started.")
        return Policy.parse(content, self.path)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Let one process at a time read and write the ledger of a folder."""
    import fcntl  # a client runs on systems that have it

    make_folder(folder, parents=True)
    with (folder / "ledger.lock").open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _check_texts(name: str, values: object, valid: Any, allowed: str) -> None:
    if not isinstance(values, tuple) or not all(isinstance(v, str) and valid(v) for v in values):
        shown = list(values) if isinstance(values, tuple) else values
        raise UsageError(f"{name} cannot be {shown!r}.", f"It is a list of {allowed}.")
