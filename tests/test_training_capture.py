"""The captured training data is what its script says, and comes out again where it can be run."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

CASES = Path(__file__).parent.parent / "cases"
MOMENTS = ("early", "middle", "late")


@pytest.fixture(scope="module")
def shipped():
    with np.load(CASES / "training.npz", allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


def test_the_file_is_small_and_plain(shipped):
    assert (CASES / "training.npz").stat().st_size <= 200_000
    assert set(shipped) == {f"{m}_{t}" for m in MOMENTS for t in ("self", "grad_output")}
    assert {(a.dtype.name, a.shape) for a in shipped.values()} == {("float32", (4096,))}


def test_pairs_are_decided_more_and_more_as_training_goes_on(shipped):
    decided = [float((shipped[f"{m}_self"] > 0).mean()) for m in MOMENTS]
    assert decided == sorted(decided)
    assert decided[0] < 0.6
    assert decided[-1] > 0.95
    assert shipped["late_self"].max() > 20


def test_gradients_are_those_of_a_weighted_mean_times_the_loss_scale(shipped):
    for moment in MOMENTS:
        gradients = shipped[f"{moment}_grad_output"].astype(np.float64)
        assert (gradients < 0).all()
        # The weights have mean 1, so that the gradients sum to minus the loss scale.
        assert abs(gradients.sum() + 1024) < 1e-3


def test_the_script_captures_the_same_again(shipped, monkeypatch):
    pytest.importorskip("sklearn", reason="capturing again needs scikit-learn")
    spec = importlib.util.spec_from_file_location("capture", CASES / "capture_training.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    # The first batch meets no update and hence no rounding of another BLAS.
    monkeypatch.setattr(script, "CAPTURED", {"early": 1})
    again = script.capture()
    assert np.array_equal(again["early_grad_output"], shipped["early_grad_output"])
    assert np.allclose(again["early_self"], shipped["early_self"], rtol=1e-4, atol=1e-5)
