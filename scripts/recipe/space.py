"""The vector space that both models share, so that translations have similar sentence vectors.

Two teachers define it. multilingual-e5-small supports both languages. all-MiniLM-L6-v2 is slightly
better in English, and its token states are targets as well. The vectors of e5 are projected to
their first 256 principal components, and those of MiniLM are rotated towards them. The vector of an
English sentence is the mean of the two. That of a Korean sentence is a linear map of e5's vector,
which is fitted on English.

On the dev sets, with Spearman's correlation and cross-lingual retrieval:

                                     STS-B   KorSTS   Korean to English
    e5 in 256 dimensions             0.849   0.788    84%
    MiniLM in 256 dimensions         0.866
    mean, and its map for Korean     0.878   0.776    84%
    MiniLM mapped to the mean        0.864
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from minibert.util.files import replacing

Floats = NDArray[np.float32]


def principal_components(vectors: Floats, size: int) -> tuple[Floats, Floats, float]:
    """Returns the mean, the first `size` components (width, size), and their share of variance."""
    mean = vectors.mean(0)
    energies, directions = np.linalg.eigh(np.cov((vectors - mean).T))
    share = float(energies[-size:].sum() / energies.sum())
    return mean, directions[:, ::-1][:, :size].astype(np.float32), share


def rotation(vectors: Floats, targets: Floats) -> Floats:
    """Returns the rotation of `vectors` (n, size) that is nearest to `targets` (Procrustes)."""
    left, _, right = np.linalg.svd(unit(vectors).T @ unit(targets))
    return np.asarray(left @ right, dtype=np.float32)


def linear_map(vectors: Floats, targets: Floats, ridge: float = 1e-3) -> tuple[Floats, Floats]:
    """Fits a weight (width, size) and a bias from `vectors` to `targets` by ridge regression."""
    mean, target_mean = vectors.mean(0), targets.mean(0)
    x = vectors - mean
    moment = x.T @ x / len(x)
    moment += ridge * moment.diagonal().mean() * np.eye(len(moment), dtype=np.float32)
    weight = np.linalg.solve(moment, x.T @ (targets - target_mean) / len(x)).astype(np.float32)
    return weight, target_mean - mean @ weight


def unit(vectors: Floats) -> Floats:
    """Returns L2-normalized vectors."""
    return np.asarray(vectors / np.linalg.norm(vectors, axis=-1, keepdims=True), dtype=np.float32)


@dataclass(frozen=True)
class Space:
    """Maps from the vectors of the teachers to the space, which has 256 dimensions.

    Attributes:
        e5_mean: Mean of e5's vectors, (384,).
        e5_directions: Projection of e5's vectors, (384, 256).
        minilm_mean: Mean of MiniLM's vectors, (384,).
        minilm_directions: Projection of MiniLM's vectors, (384, 256).
        e5_weight: Linear map for sentences of which only e5 has vectors, (384, 256).
        e5_bias: Its bias, (256,).
        minilm_weight: Linear map for the token states of MiniLM, (384, 256).
        minilm_bias: Its bias, (256,).
    """

    e5_mean: Floats
    e5_directions: Floats
    minilm_mean: Floats
    minilm_directions: Floats
    e5_weight: Floats
    e5_bias: Floats
    minilm_weight: Floats
    minilm_bias: Floats

    @classmethod
    def fit(cls, e5: Floats, minilm: Floats, mean: Floats, directions: Floats) -> Space:
        """Fits the maps on English sentences.

        Args:
            e5: Vectors of the sentences by e5, (n, 384).
            minilm: Vectors of the sentences by MiniLM, (n, 384).
            mean: Mean of e5's vectors in both languages.
            directions: Projection of e5's vectors, (384, 256).
        """
        minilm_mean, components, _ = principal_components(minilm, directions.shape[1])
        projected = (e5 - mean) @ directions
        turned = components @ rotation((minilm - minilm_mean) @ components, projected)
        targets = _mean_direction(projected, (minilm - minilm_mean) @ turned)
        maps = (*linear_map(e5, targets), *linear_map(minilm, targets))
        return cls(mean, directions, minilm_mean, turned, *maps)

    def of_both(self, e5: Floats, minilm: Floats) -> Floats:
        """Maps sentences of which both teachers have vectors to (n, 256)."""
        return _mean_direction(
            (e5 - self.e5_mean) @ self.e5_directions,
            (minilm - self.minilm_mean) @ self.minilm_directions,
        )

    def of_e5(self, e5: Floats) -> Floats:
        """Maps sentences of which only e5 has vectors to (n, 256)."""
        return np.asarray(e5 @ self.e5_weight + self.e5_bias, dtype=np.float32)

    def save(self, path: Path) -> None:
        """Writes all maps to a file."""
        with replacing(path) as temporary, temporary.open("wb") as file:
            np.savez(file, **vars(self))

    @classmethod
    def read(cls, path: Path) -> Space:
        """Reads the file that `save` wrote."""
        with np.load(path) as arrays:
            return cls(**arrays)


def _mean_direction(first: Floats, second: Floats) -> Floats:
    return (unit(first) + unit(second)) / 2
