"""MATLAB's files, against scipy's reader, and what scipy's reader does not survive."""

from __future__ import annotations

import io
import random

import numpy as np
import pytest
from scipy.io import loadmat, savemat

from filmtransfer.bench.datasets.matlab import read_matlab
from filmtransfer.errors import UpdateFileError

KINDS = ("u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f4", "f8")


def saved(compressed: bool, **values: object) -> bytes:
    stream = io.BytesIO()
    savemat(stream, values, do_compression=compressed)
    return stream.getvalue()


@pytest.mark.parametrize("compressed", [True, False])
@pytest.mark.parametrize("shape", [(1, 3), (5, 1), (4, 3, 3, 2), (1, 1)])
def test_matrices_equal_those_of_scipy(tmp_path, compressed, shape):
    file = tmp_path / "a.mat"
    rng = np.random.default_rng(0)
    values = {f"m_{kind}": rng.integers(0, 100, shape).astype(kind) for kind in KINDS}
    file.write_bytes(saved(compressed, note="some words", **values))
    expected = loadmat(file)
    for name in values:
        got = read_matlab(file, name)
        assert got.dtype == expected[name].dtype
        assert np.array_equal(got, expected[name])


def test_the_other_byte_order(tmp_path):
    """One matrix x = [1 2] of doubles, as a big-endian machine writes it: stored as bytes, read as doubles."""
    flags = b"\0\0\0\6" + b"\0\0\0\x08" + b"\0\0\0\6" + b"\0\0\0\0"
    shape = b"\0\0\0\5" + b"\0\0\0\x08" + b"\0\0\0\1" + b"\0\0\0\2"
    name, values = b"\0\1\0\1" + b"x\0\0\0", b"\0\2\0\2" + b"\1\2\0\0"
    body = flags + shape + name + values
    content = b" " * 124 + b"\1\0MI" + b"\0\0\0\x0e" + len(body).to_bytes(4, "big") + body
    (tmp_path / "a.mat").write_bytes(content)
    got = read_matlab(tmp_path / "a.mat", "x")
    assert got.tolist() == [[1.0, 2.0]]
    assert got.dtype == np.float64


def test_other_content_than_numeric_matrices_is_rejected(tmp_path):
    file = tmp_path / "a.mat"
    file.write_bytes(saved(False, words="text", whole=np.array([[1 + 2j]])))
    for name, words in (
        ("words", "not a numeric matrix"),
        ("whole", "not a numeric matrix"),
        ("absent", "no matrix absent"),
    ):
        with pytest.raises(UpdateFileError, match=rf"a\.mat is damaged: .*{words}"):
            read_matlab(file, name)
    file.write_bytes(b"MATLAB 7.3 MAT-file, which is HDF5".ljust(600))
    with pytest.raises(UpdateFileError, match="version 5"):
        read_matlab(file, "message")


@pytest.mark.parametrize("compressed", [True, False])
def test_wrong_bytes_give_an_error_or_a_matrix_and_never_a_crash(tmp_path, compressed):
    whole = saved(compressed, ids=np.arange(300, dtype=np.uint16)[None])
    file = tmp_path / "a.mat"
    rng = random.Random(0)
    refused = []
    for _ in range(400):
        content = bytearray(whole)
        for _ in range(rng.choice([1, 2, 8])):
            content[rng.randrange(124, len(content) if rng.random() < 0.5 else 240)] = rng.randrange(256)
        file.write_bytes(content[: rng.choice([len(content), rng.randrange(len(content))])])
        try:
            read_matlab(file, "ids")
        except UpdateFileError as error:
            refused.append(error.message)
    assert len(refused) > 200
    assert all(str(file) in line for line in refused)
