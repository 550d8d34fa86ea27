"""Compression of the parameter vector."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from filmtransfer.errors import InputError
from filmtransfer.federated.compression import compress, decompress
from filmtransfer.federated.plan import Plan
from tests.federated.tiny import PLAN, make_server, population


@pytest.mark.parametrize(("method", "size"), [("none", 4), ("float16", 2), ("int8", 1)])
def test_decompression_inverts_compression(method, size):
    generator = np.random.default_rng(0)
    vector = np.concatenate([generator.normal(0, 1e-3, 50), np.zeros(7), generator.normal(0, 5, 20)])
    compressed = compress(vector, method, [50, 7, 20])
    assert compressed["psi"].nbytes == size * 77
    restored = decompress(compressed, method, [50, 7, 20])
    scale = np.repeat([np.abs(vector[:50]).max(), 0, np.abs(vector[57:]).max()], [50, 7, 20])
    tolerance = {"none": 1e-7, "float16": 1e-3, "int8": 0.5 / 127 + 1e-6}[method]
    assert (np.abs(restored - vector) <= tolerance * scale + (1e-7 if method == "float16" else 0)).all()


def test_malformed_arrays_are_refused():
    valid = compress(np.ones(5), "int8", [3, 2])
    for malformed in (
        {}, {"psi": valid["psi"]}, valid | {"psi": valid["psi"][:4]}, valid | {"scale": valid["scale"][:1]},
        valid | {"psi": valid["psi"].astype(np.int16)},
    ):  # fmt: skip
        with pytest.raises(InputError):
            decompress(malformed, "int8", [3, 2])


@pytest.mark.slow
@pytest.mark.parametrize("method", ["float16", "int8"])
def test_a_compressed_federation_stays_close_to_the_uncompressed_one(method):
    plain, compressed = (
        make_server(population(replace(PLAN, compression=c))).run() for c in ("none", method)
    )
    change = plain.psi - population().start
    assert np.linalg.norm(compressed.psi - plain.psi) < 0.5 * np.linalg.norm(change)
    ratio = {"float16": 0.52, "int8": 0.28}[method]
    assert compressed.rounds[0]["bytes_up"] < ratio * plain.rounds[0]["bytes_up"]
    assert compressed.rounds[0]["bytes_down"] < ratio * plain.rounds[0]["bytes_down"] + 5_000
    assert Plan().compression == "none"
