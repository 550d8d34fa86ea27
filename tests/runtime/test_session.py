"""Features do not depend on the batch, the threads or the neighbours of an image."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from filmtransfer import InputError, UpdateFileError, UsageError
from filmtransfer.runtime import FeatureSession
from filmtransfer.runtime.parity import probe_images
from filmtransfer.runtime.session import MissingRuntimeError
from tests.export.small_classifiers import SIDE
from tests.runtime.conftest import lite0_graph, lite0_session

PIXELS = probe_images(SIDE, 11).numpy()


def rows(session: FeatureSession, count: int = len(PIXELS)) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    noise = 0.1 * rng.standard_normal((2, count, session.facts.channels), np.float32)
    return 1 + noise[0], noise[1]


def test_a_batch_gives_the_features_of_its_images():
    session = lite0_session()
    gamma, beta = rows(session)
    alone = np.concatenate(
        [session.features(PIXELS[i : i + 1], gamma[i], beta[i]) for i in range(len(PIXELS))]
    )
    for threads in (1, 2, 3, 16):
        together = lite0_session(threads=threads).features(PIXELS, gamma, beta)
        assert together.shape == (len(PIXELS), 1280)
        assert together.dtype == np.float32
        np.testing.assert_array_equal(together, alone)


def test_one_row_serves_all_images():
    session = lite0_session()
    gamma, beta = rows(session, 1)
    count = len(PIXELS)
    repeated = session.features(PIXELS, gamma.repeat(count, 0), beta.repeat(count, 0))
    np.testing.assert_array_equal(session.features(PIXELS, gamma[0], beta[0]), repeated)
    np.testing.assert_array_equal(session.features(PIXELS, gamma[0].astype(float), beta[0]), repeated)


def test_no_images_have_no_features():
    session = lite0_session(threads=2)
    gamma, beta = rows(session, 1)
    assert session.features(PIXELS[:0], gamma[0], beta[0]).shape == (0, 1280)


def test_threads_share_a_session():
    session = lite0_session(threads=2)
    gamma, beta = rows(session)
    expected = session.features(PIXELS, gamma, beta)
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: session.features(PIXELS, gamma, beta), range(8)))
    for result in results:
        np.testing.assert_array_equal(result, expected)


def test_wrong_inputs_are_refused():
    session = lite0_session()
    gamma, beta = rows(session, 2)
    for pixels in (PIXELS[:2].astype(np.float32), PIXELS[0], PIXELS[:2, :, 1:]):
        with pytest.raises(InputError, match=r"uint8 of shape \(B, 3, 64, 64\)"):
            session.features(pixels, gamma, beta)
    for wrong in (gamma[:, 1:], gamma[:1], gamma[0, 1:]):
        with pytest.raises(InputError, match="one row for each image"):
            session.features(PIXELS[:2], wrong, beta)
    with pytest.raises(UsageError, match="threads"):
        FeatureSession(lite0_graph(), 0)
    with pytest.raises(UpdateFileError, match="cannot open the graph"):
        FeatureSession(lite0_graph()[:1000], 1)


def test_a_missing_onnxruntime_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(MissingRuntimeError, match="pip install"):
        lite0_session()


@pytest.mark.process(seconds=2)
def test_no_module_that_uses_a_graph_imports_torch():
    code = "import sys, filmtransfer.runtime; print(sorted({'torch', 'timm', 'onnx', 'scipy'} & sys.modules.keys()))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
