"""Keys: created once, never overwritten by mistake, private keys readable only by their owner."""

from __future__ import annotations

import json
import ssl
import stat
from datetime import UTC, datetime, timedelta

import pytest

pytest.importorskip("flwr")

from cryptography.hazmat.primitives.serialization import load_ssh_private_key
from flwr.supercore.primitives.asymmetric import public_key_to_bytes, uses_nist_ec_curve

from filmtransfer.cli import main
from filmtransfer.errors import UsageError
from filmtransfer.federated.certificates import (
    KeysError,
    make_authority,
    make_server_certificate,
    read_certificate,
)
from filmtransfer.federated.keys import (
    check_client_keys,
    check_server_keys,
    make_client_key,
    make_keys,
    public_keys,
)


def run(capsys, *words: str) -> tuple[int, str, str]:
    code = main(["federate", "keys", *words])
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    return code, captured.out, captured.err


def mode(path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def folder(tmp_path):
    make_keys(tmp_path / "keys", ["server.example", "192.168.1.5"], ["anna", "bob"])
    return tmp_path / "keys"


def test_a_server_certificate_is_for_the_given_hosts_and_always_for_this_machine(folder):
    certificate = check_server_keys(folder)
    assert set(certificate.hosts) == {"server.example", "192.168.1.5", "localhost", "127.0.0.1", "::1"}
    assert timedelta(days=364) < certificate.not_after - datetime.now(UTC) < timedelta(days=366)


def test_private_keys_are_their_owners_alone(folder):
    private = [*folder.rglob("*.key")]
    assert {p.relative_to(folder).as_posix() for p in private} == {
        "ca.key", "server.key", "clients/anna/node.key", "clients/bob/node.key"
    }  # fmt: skip
    assert {mode(path) for path in private} == {0o600}


def test_a_client_gets_the_authority_and_its_own_key_and_nothing_else(folder):
    parcel = folder / "clients" / "anna"
    assert sorted(p.name for p in parcel.iterdir()) == ["ca.crt", "node.key"]
    check_client_keys(parcel / "ca.crt", parcel / "node.key")


def test_node_keys_are_what_flower_reads_and_the_halves_belong_together(folder):
    private = load_ssh_private_key((folder / "clients" / "bob" / "node.key").read_bytes(), None)
    assert uses_nist_ec_curve(private.public_key())
    assert private.curve.name == "secp384r1"
    assert public_keys(folder)["bob"] == public_key_to_bytes(private.public_key())


def test_openssl_accepts_the_chain(folder):
    """Under the strict rules that newer Pythons use by default, too."""
    context = ssl.create_default_context(cafile=str(folder / "ca.crt"))
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(folder / "server.crt", folder / "server.key")
    ours, theirs = ssl.MemoryBIO(), ssl.MemoryBIO()
    client_end = context.wrap_bio(theirs, ours, server_hostname="server.example")
    server_end = server.wrap_bio(ours, theirs, server_side=True)
    for _ in range(4):
        for end in (client_end, server_end):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                pass
    assert client_end.getpeercert()


def test_run_again_it_adds_clients_and_keeps_the_rest(folder):
    before = {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    created = make_keys(folder, clients=["carla"])
    assert (created.authority, created.server, created.clients) == (False, False, ("carla",))
    assert all(path.read_bytes() == content for path, content in before.items())
    assert sorted(public_keys(folder)) == ["anna", "bob", "carla"]


def test_renewing_keeps_the_names_and_the_authority(folder):
    before, authority = (folder / "server.crt").read_bytes(), (folder / "ca.crt").read_bytes()
    created = make_keys(folder, ["new.example"], renew=True, days=10)
    assert created.server
    certificate = check_server_keys(folder)
    assert {"server.example", "new.example"} <= set(certificate.hosts)
    assert certificate.not_after - datetime.now(UTC) < timedelta(days=11)
    assert (folder / "server.crt").read_bytes() != before
    assert (folder / "ca.crt").read_bytes() == authority


def test_nothing_is_overwritten_silently(folder):
    for call in (
        lambda: make_authority(folder),
        lambda: make_client_key(folder, "anna"),
        lambda: make_keys(folder, clients=["new", "anna"]),
        lambda: make_keys(folder, ["other.example"]),
    ):
        with pytest.raises(KeysError) as caught:
            call()
        assert caught.value.hint
    assert "new" not in public_keys(folder)


def test_force_replaces_the_key_of_a_client(folder):
    before = public_keys(folder)
    make_keys(folder, clients=["anna"], force=True)
    after = public_keys(folder)
    assert after["anna"] != before["anna"]
    assert after["bob"] == before["bob"]


def test_an_expired_certificate_is_refused_before_anything_starts(folder):
    now = datetime.now(UTC)
    make_server_certificate(folder, not_before=now - timedelta(days=9), not_after=now - timedelta(days=1))
    with pytest.raises(KeysError, match="expired"):
        check_server_keys(folder)
    make_server_certificate(folder, not_before=now + timedelta(days=1), not_after=now + timedelta(days=2))
    with pytest.raises(KeysError, match="only from"):
        check_server_keys(folder)


def test_files_that_do_not_belong_together_are_refused(folder, tmp_path):
    other = tmp_path / "other"
    make_keys(other)
    (folder / "server.key").write_bytes((other / "server.key").read_bytes())
    with pytest.raises(KeysError, match="does not belong"):
        check_server_keys(folder)
    (folder / "server.crt").write_bytes((other / "server.crt").read_bytes())
    with pytest.raises(KeysError, match="not signed by"):
        check_server_keys(folder)


@pytest.mark.parametrize(
    "content", [b"", b"nonsense", b"-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----"]
)
def test_damaged_files_are_named(folder, content):
    parcel = folder / "clients" / "anna"
    (parcel / "node.key").write_bytes(content)
    with pytest.raises(KeysError, match=r"node\.key"):
        check_client_keys(parcel / "ca.crt", parcel / "node.key")
    (folder / "nodes" / "anna.pub").write_bytes(content)
    with pytest.raises(KeysError, match=r"anna\.pub"):
        public_keys(folder)
    (folder / "server.crt").write_bytes(content)
    with pytest.raises(KeysError, match=r"server\.crt"):
        read_certificate(folder / "server.crt")


def test_a_private_key_that_others_can_read_is_refused(folder):
    parcel = folder / "clients" / "anna"
    (parcel / "node.key").chmod(0o644)
    with pytest.raises(KeysError, match="Other users"):
        check_client_keys(parcel / "ca.crt", parcel / "node.key")


def test_one_key_under_two_names_is_refused(folder):
    (folder / "nodes" / "twin.pub").write_bytes((folder / "nodes" / "anna.pub").read_bytes())
    with pytest.raises(KeysError, match="two names"):
        public_keys(folder)


@pytest.mark.parametrize("name", ["", "../anna", "a b", ".hidden", "x" * 65, "a/b"])
def test_names_are_names(tmp_path, name):
    with pytest.raises(UsageError):
        make_keys(tmp_path / "keys", clients=[name])
    assert not (tmp_path / "keys").exists()


@pytest.mark.parametrize("host", ["https://x.example", "x:9092", "", "two words"])
def test_hosts_are_hosts(tmp_path, host):
    with pytest.raises(UsageError):
        make_keys(tmp_path / "keys", [host])
    assert not (tmp_path / "keys").exists()


# The command.


def test_the_command_names_the_files_of_each_client(tmp_path, capsys):
    code, out, _ = run(
        capsys, str(tmp_path / "k"), "--host", "x.example", "--client", "anna", "--client", "bob"
    )
    assert code == 0
    assert f"Send anna the two files in {tmp_path / 'k' / 'clients' / 'anna'}" in out
    assert "Clients that may take part: anna, bob." in out
    code, out, _ = run(capsys, str(tmp_path / "k"), "--client", "carla", "--json")
    document = json.loads(out)
    assert document["clients"] == ["anna", "bob", "carla"]
    assert list(document["made"]) == ["carla"]
    assert not document["authority"]


def test_the_command_ends_with_a_clear_line(tmp_path, capsys):
    path = str(tmp_path / "k")
    run(capsys, path, "--client", "anna")
    code, _, err = run(capsys, path, "--client", "anna")
    assert code == 4
    assert "anna already has a key" in err
    assert "--force" in err
    code, _, err = run(capsys, path, "--host", "new.example")
    assert code == 4
    assert "--renew" in err
    assert run(capsys, path, "--renew", "--days", "0")[0] == 2
