"""The location of an update: every malformed address is a mistake of usage."""

from __future__ import annotations

import pytest

from filmtransfer.backbones.hub import hub_reachable
from filmtransfer.errors import UsageError
from filmtransfer.model.hub import find_update, repository


@pytest.mark.parametrize(
    "address",
    [
        "hf://", "hf://x", "hf://../x", "hf://x/..", "hf://a/b/c", "hf://a//b", "hf://a/b@", "hf://a/b@../c", "hf://a b/c",
        "hf://a/b\n", "hf://a/b.git", "hf://-a/b", "hf://a/b-", "hf://a--b/c", "hf://" + "a" * 90 + "/" + "b" * 90, "hf:/../x",
        "hf://a/\x1b[2J", "https://example.org/x.safetensors", "https:/example.org/x", "s3://a/b", "file:///etc/passwd", "HF://a/b",
    ],
)  # fmt: skip
def test_malformed_addresses_are_refused(address):
    with pytest.raises(UsageError):
        find_update(address)


def test_addresses_of_repositories():
    assert repository("hf://ana/pets") == ("ana/pets", None)
    assert repository("ana.b-c_d/pets.v2@refs/pr/1") == ("ana.b-c_d/pets.v2", "refs/pr/1")
    assert repository("a/b@v1.0") == ("a/b", "v1.0")


def test_paths_are_no_addresses(tmp_path):
    odd = tmp_path / "a:" / "b"
    odd.parent.mkdir()
    odd.write_bytes(b"")
    assert find_update(odd) == odd


def test_a_malformed_endpoint_is_refused(monkeypatch):
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_ENDPOINT", "https://localhost:99999999")
    with pytest.raises(UsageError, match="HF_ENDPOINT"):
        hub_reachable()
