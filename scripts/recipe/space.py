"""The space of both models' sentence vectors, in which a sentence means the same in English and in Korean.

Two teachers define it. multilingual-e5-small, projected to the first 256 principal components of its vectors, knows
both languages; all-MiniLM-L6-v2 knows English a little better, and shows the state of every token. An English sentence
lies half-way between the two, MiniLM's vectors being turned to where those of e5 are nearest; a Korean one where a
linear map, fitted on English, brings the vector of e5. On the dev sets, by Spearman's correlation:

    e5 alone, in 256 numbers         STS-B 0.849   KorSTS 0.788   a Korean sentence finds its English one: 84%
    MiniLM alone, in 256 numbers     STS-B 0.866
    half-way; its Korean side        STS-B 0.878   KorSTS 0.776   84%
    MiniLM mapped to half-way        STS-B 0.864
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from minibert.files import replacing

Floats = NDArray[np.float32]


def principal_components(vectors: Floats, size: int) -> tuple[Floats, Floats, float]:
    """The mean, the first directions (width, size), and the share of the energy that they keep."""
    mean = vectors.mean(0)
    energies, directions = np.linalg.eigh(np.cov((vectors - mean).T))
    kept = float(energies[-size:].sum() / energies.sum())
    return mean, directions[:, ::-1][:, :size].astype(np.float32), kept


def turning(vectors: Floats, wanted: Floats) -> Floats:
    """The rotation that brings the directions of `vectors` (n, size) nearest to those of `wanted` (Procrustes)."""
    left, _, right = np.linalg.svd(unit(vectors).T @ unit(wanted))
    return np.asarray(left @ right, dtype=np.float32)


def linear_map(vectors: Floats, wanted: Floats, ridge: float = 1e-3) -> tuple[Floats, Floats]:
    """Weight (width, size) and bias that bring `vectors` to `wanted`, by least squares."""
    mean, aim = vectors.mean(0), wanted.mean(0)
    x = vectors - mean
    moment = x.T @ x / len(x)
    moment += ridge * moment.diagonal().mean() * np.eye(len(moment), dtype=np.float32)
    weight = np.linalg.solve(moment, x.T @ (wanted - aim) / len(x)).astype(np.float32)
    return weight, aim - mean @ weight


def unit(vectors: Floats) -> Floats:
    """The same of length 1."""
    return np.asarray(vectors / np.linalg.norm(vectors, axis=-1, keepdims=True), dtype=np.float32)


@dataclass(frozen=True)
class Space:
    """How the teachers' vectors come to the space, 256 numbers.

    Attributes:
        e5_mean: (384,)
        e5_directions: (384, 256)
        minilm_mean: (384,)
        minilm_directions: (384, 256)
        e5_weight: (384, 256), for sentences that e5 alone has read.
        e5_bias: (256,)
        minilm_weight: (384, 256), for states that MiniLM alone has.
        minilm_bias: (256,)
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
        """Fits it on the vectors (n, 384) of the same English sentences by both.

        Args:
            e5: by e5.
            minilm: by MiniLM.
            mean: of the vectors of e5 in both languages.
            directions: of these, (384, 256).
        """
        minilm_mean, components, _ = principal_components(minilm, directions.shape[1])
        turned = components @ turning((minilm - minilm_mean) @ components, (e5 - mean) @ directions)
        wanted = _half_way((e5 - mean) @ directions, (minilm - minilm_mean) @ turned)
        maps = (*linear_map(e5, wanted), *linear_map(minilm, wanted))
        return cls(mean, directions, minilm_mean, turned, *maps)

    def of_both(self, e5: Floats, minilm: Floats) -> Floats:
        """Sentences that both teachers have read: (n, 256)."""
        return _half_way(
            (e5 - self.e5_mean) @ self.e5_directions,
            (minilm - self.minilm_mean) @ self.minilm_directions,
        )

    def of_e5(self, e5: Floats) -> Floats:
        """Sentences that e5 alone has read: (n, 256)."""
        return np.asarray(e5 @ self.e5_weight + self.e5_bias, dtype=np.float32)

    def save(self, path: Path) -> None:
        """Writes everything."""
        with replacing(path) as temporary, temporary.open("wb") as file:
            np.savez(file, **vars(self))

    @classmethod
    def read(cls, path: Path) -> Space:
        """What `save` has written."""
        with np.load(path) as found:
            return cls(**found)


def _half_way(first: Floats, second: Floats) -> Floats:
    return (unit(first) + unit(second)) / 2
