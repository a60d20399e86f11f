"""Several corpora in one run of pre-training, each with its share.

Portions     an epoch of a pre-training run is so many tokens of a corpus, not all of it
Mixture      the examples of several datasets, each epoch new ones of each
AsAsked      gaps cut as the tokenizer cuts them in what people ask
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from minibert.losses import IGNORED
from minibert.training.corpora import Document
from minibert.training.data import Epochs, Example


class Portions:
    """Which documents an epoch takes, where it does not take all of them.

    The documents stand in a random order, after the last one in another, and so on without end; each epoch takes up
    where the one before ended. Every document is read before any is read again.

    Args:
        lengths: tokens of each document, or what else is to be counted.
        size: tokens of an epoch.
        seed: of the order.
    """

    def __init__(self, lengths: npt.NDArray[np.int64], size: int, seed: int = 0) -> None:
        self.lengths, self.size, self.seed = lengths, size, seed
        self.total = int(lengths.sum())

    def __call__(self, epoch: int) -> list[int]:
        """The numbers of the documents of an epoch."""
        numbers: list[int] = []
        begin, end = epoch * self.size, (epoch + 1) * self.size
        for round_ in range(begin // self.total, (end - 1) // self.total + 1):
            order = np.random.default_rng([self.seed, round_]).permutation(len(self.lengths))
            starts = round_ * self.total + np.cumsum(self.lengths[order]) - self.lengths[order]
            first, last = np.searchsorted(starts, [begin, end])
            numbers += order[first:last].tolist()
        return numbers


def documents_of(
    cache: Sequence[Document], portions: Portions, pairs: bool, epoch: int
) -> list[Document]:
    """The documents of an epoch, for pairs two or more: within one long document, a pair needs another one."""
    chosen = portions(epoch)
    others = np.random.default_rng([portions.seed, epoch]).permutation(len(cache)).tolist()
    return [
        cache[n]
        for n in chosen + [n for n in others if n not in chosen][: max(0, 1 + pairs - len(chosen))]
    ]


class Mixture:
    """The examples of several datasets in one, with the labels of all of them.

    An example has `IGNORED` for what its own dataset does not ask.

    Args:
        datasets: in an epoch every one gives the examples of its own epoch of the same number.
        token_labels: names of labels for each token.
        labels: names of labels for each example.
    """

    def __init__(
        self, datasets: Sequence[Epochs], token_labels: Sequence[str], labels: Sequence[str]
    ) -> None:
        self.datasets, self.token_labels, self.labels = datasets, token_labels, labels

    def epoch(self, number: int) -> Sequence[Example]:
        """The examples of one epoch."""
        examples = (example for epochs in self.datasets for example in epochs(number))
        return [complete(example, self.token_labels, self.labels) for example in examples]


def complete(example: Example, token_labels: Sequence[str], labels: Sequence[str]) -> Example:
    """An example with these labels alone, and `IGNORED` for those that it does not have."""
    ids = example["input_ids"]
    found: Example = {
        "input_ids": ids,
        "token_type_ids": example.get("token_type_ids", np.zeros_like(ids)),
    }
    found |= {name: example.get(name, np.full_like(ids, IGNORED)) for name in token_labels}
    return found | {name: example.get(name, IGNORED) for name in labels}


class AsAsked:
    """Examples in which a hidden beginning of a word is cut off from the rest, as in what people ask.

    A Korean word carries its particle: 우산을. Where a text has it, the pieces are 우산 ##을, and with the first one
    hidden [MASK] ##을; but who asks writes "[MASK]을", which the tokenizer cuts into [MASK] 을. A model that has never
    read that puts pieces of words and quotation marks there: a fitting word among its first five in 15 of 100 prompts,
    where the same model finds 38 if it is given [MASK] ##을.

    Args:
        dataset: of examples with hidden words.
        tokenizer: that of the examples.
        share: of the gaps that are cut off.
        seed: which ones.
    """

    def __init__(self, dataset: Epochs, tokenizer: Any, share: float = 0.5, seed: int = 0) -> None:
        self.dataset, self.share, self.seed = dataset, share, seed
        self.mask_id = tokenizer.mask_token_id
        words = tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
        numbers = {word: number for number, word in enumerate(words)}
        alone = [
            numbers.get(word[2:], n) if word.startswith("##") else n for n, word in enumerate(words)
        ]
        self.alone = np.array(
            alone
        )  # of every piece the one that is written alike and begins a word

    def __call__(self, epoch: int) -> list[Example]:
        """The examples of one epoch."""
        rng = np.random.default_rng([self.seed, epoch])
        return [self._cut(example, rng) for example in self.dataset(epoch)]

    def _cut(self, example: Example, rng: np.random.Generator) -> Example:
        ids = example["input_ids"]
        behind = np.append(False, ids[:-1] == self.mask_id) & (rng.random(len(ids)) < self.share)
        return {**example, "input_ids": np.where(behind, self.alone[ids], ids)}
