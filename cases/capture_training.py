"""Capture the inputs of cases/training.yaml from a real training run.

A Bradley-Terry model ranks the patients of the diabetes data set (it ships with scikit-learn) by
the progression of their disease: a network gives each patient a score, and the loss of a pair
(i, j) with i ahead of j is -w log sigma(s_i - s_j), weighted by how far apart the two are. Its
backward pass is the operator: ``self`` is the batch of score differences and ``grad_output`` the
gradient of the mean loss with respect to log sigma, -w / pairs, times the loss scale that mixed
precision training multiplies by. One batch of pairs is captured at the beginning, one in the middle
and one late in training, when most pairs are decided and sigma(-x) is small.

Run with scikit-learn at hand, from any folder:

    python cases/capture_training.py            # rewrites cases/training.npz
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from sklearn.datasets import load_diabetes

PAIRS = 4096
HIDDEN = 64
RATE = 3e-3
LOSS_SCALE = 1024.0
CAPTURED = {"early": 1, "middle": 300, "late": 3000}
"""Moment → training step whose batch is captured, before its update."""
SEED = 20240229


def pairs(target: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Indices of PAIRS pairs, the one further ahead first, and weights with mean 1."""
    first, second = rng.integers(0, target.size, (2, 2 * PAIRS))
    differ = np.flatnonzero(target[first] != target[second])[:PAIRS]
    first, second = first[differ], second[differ]
    ahead = target[first] > target[second]
    weights = np.abs(target[first] - target[second])
    winner, loser = np.where(ahead, first, second), np.where(ahead, second, first)
    return winner, loser, weights / weights.mean()


class Scores:
    """A network of one hidden layer in fp32, trained by Adam (Kingma and Ba, 2015)."""

    def __init__(self, features: int, rng: np.random.Generator) -> None:
        shapes = [(features, HIDDEN), (HIDDEN,), (HIDDEN, 1)]
        self.parameters = [
            (rng.standard_normal(s) / np.sqrt(s[0])).astype(np.float32) for s in shapes
        ]
        self.parameters[1][:] = 0
        self._first = [np.zeros_like(p) for p in self.parameters]
        self._second = [np.zeros_like(p) for p in self.parameters]
        self._step = 0

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Scores of rows of features."""
        into, bias, out = self.parameters
        self._x, self._hidden = x, np.tanh(x @ into + bias)
        return (self._hidden @ out)[:, 0]

    def update(self, grad_scores: np.ndarray) -> None:
        """One step down the gradient that arrives at the scores of the last call."""
        out = self.parameters[2]
        inner = grad_scores[:, None] * out[:, 0] * (1 - self._hidden**2)
        grads = [self._x.T @ inner, inner.sum(0), self._hidden.T @ grad_scores[:, None]]
        self._step += 1
        for p, g, m, v in zip(self.parameters, grads, self._first, self._second, strict=True):
            m += 0.1 * (g - m)
            v += 0.001 * (g * g - v)
            scale = np.sqrt(1 - 0.999**self._step) / (1 - 0.9**self._step)
            p -= (RATE * scale * m / (np.sqrt(v) + 1e-8)).astype(np.float32)


def capture() -> dict[str, np.ndarray]:
    """Train, and return ``MOMENT_self`` and ``MOMENT_grad_output`` in fp32."""
    rng = np.random.default_rng(SEED)
    data, target = load_diabetes(return_X_y=True)
    features = ((data - data.mean(0)) / data.std(0)).astype(np.float32)
    scores, held = Scores(features.shape[1], rng), {}
    moments = {step: name for name, step in CAPTURED.items()}
    for step in range(1, max(moments) + 1):
        winner, loser, weights = pairs(target, rng)
        s = scores(features)
        x = s[winner] - s[loser]
        grad_output = (-LOSS_SCALE * weights / PAIRS).astype(np.float32)
        if step in moments:
            held[f"{moments[step]}_self"] = x.astype(np.float32)
            held[f"{moments[step]}_grad_output"] = grad_output
        grad_x = grad_output / LOSS_SCALE / (1 + np.exp(np.minimum(x, 80)))
        grad_scores = np.zeros_like(s)
        np.add.at(grad_scores, winner, grad_x)
        np.subtract.at(grad_scores, loser, grad_x)
        scores.update(grad_scores)
    return held


def main() -> None:
    """Write the captured arrays beside this script, or where --output says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    default = Path(__file__).with_name("training.npz")
    parser.add_argument("--output", type=Path, default=default)
    output = parser.parse_args().output
    held = capture()
    np.savez_compressed(output, **held)
    for name, array in held.items():
        low, middle, high = np.quantile(array, [0, 0.5, 1])
        print(f"{name:22} {array.size} values, {low:.4g} to {high:.4g}, median {middle:.4g}")


if __name__ == "__main__":
    main()
