"""Corpora as files of ids, their portions, and several corpora in one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from recipe.mixtures import Mixture, Portions

from minibert import BertTokenizer
from minibert.losses import IGNORED
from minibert.training.corpora import TokenCache
from minibert.training.data import pack
from minibert.training.pretraining import PretrainingData, encode_documents

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "sat", "dog", "ran", "##s"]
DOCUMENTS = [["The cat sat.", "The dog ran."], ["Dogs."], ["", " "], ["Cats sat", "", "the dogs ran"], ["ran ran ran"]]


@pytest.fixture
def tokenizer(tmp_path: Path) -> BertTokenizer:
    (tmp_path / "vocab.txt").write_text("\n".join(WORDS) + "\n", encoding="utf-8")
    return BertTokenizer.from_pretrained(tmp_path)


def as_lists(documents: object) -> list[list[list[int]]]:
    return [[sentence.tolist() for sentence in document] for document in documents]  # type: ignore[attr-defined]


def test_a_cache_holds_what_the_tokenizer_gives(tokenizer: BertTokenizer, tmp_path: Path) -> None:
    TokenCache.write(iter(DOCUMENTS), tokenizer, tmp_path / "cache")
    cache = TokenCache(tmp_path / "cache")
    wanted = as_lists(list(encode_documents(DOCUMENTS, tokenizer)))
    assert len(cache) == len(wanted) == 4  # the document without a token is left out
    assert as_lists(cache) == wanted
    assert as_lists(cache[1:3]) == wanted[1:3]
    assert cache.lengths.tolist() == [sum(map(len, document)) for document in wanted]
    assert cache.ids.dtype == np.uint16


def test_documents_of_many_chunks_stay_apart(
    tokenizer: BertTokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = TokenCache.write(DOCUMENTS * 5, tokenizer, tmp_path / "cache")
    assert as_lists(cache) == as_lists(list(encode_documents(DOCUMENTS * 5, tokenizer)))


def test_a_cache_that_was_interrupted_is_refused(tokenizer: BertTokenizer, tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    TokenCache.write(DOCUMENTS, tokenizer, folder)

    def broken_off() -> object:
        yield DOCUMENTS[0]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        TokenCache.write(broken_off(), tokenizer, folder)  # type: ignore[arg-type]
    with pytest.raises(FileNotFoundError, match="no cache of tokens"):
        TokenCache(folder)
    with pytest.raises(ValueError, match="no tokens"):
        TokenCache.write([["", " "]], tokenizer, folder)


def test_portions_read_every_document_before_any_again() -> None:
    lengths = np.random.default_rng(0).integers(1, 40, 60)
    portions = Portions(lengths, size=100, seed=3)
    read = [number for epoch in range(50) for number in portions(epoch)]
    for start in range(0, len(read) - 60, 60):
        assert sorted(read[start : start + 60]) == list(range(60))
    assert read[:60] != read[60:120]  # in another order
    sizes = [lengths[portions(epoch)].sum() for epoch in range(50)]
    assert np.mean(sizes) == pytest.approx(100, abs=2)
    assert max(sizes) < 100 + 40
    assert portions(7) == Portions(lengths, size=100, seed=3)(7)


def test_a_portion_may_be_more_than_the_corpus() -> None:
    numbers = Portions(np.array([3, 4, 5]), size=24)(0)
    assert sorted(numbers) == [0, 0, 1, 1, 2, 2]


def test_an_epoch_of_pretraining_reads_its_portion(tokenizer: BertTokenizer) -> None:
    documents = list(encode_documents([["cat " * 8] * 2, ["dog " * 8] * 2, ["ran " * 8] * 2], tokenizer))
    lengths = np.array([16, 16, 16])
    data = PretrainingData(
        documents, tokenizer, next_sentence=False, mask_probability=0.5, portions=Portions(lengths, 16)
    )
    words = [{int(i) for e in data.epoch(n) for i in e["labels"] if i != IGNORED} for n in range(3)]
    read = Portions(lengths, 16)
    for number, found in enumerate(words):
        (document,) = read(number)
        assert found == {int(documents[document][0][0])}


def test_an_epoch_within_one_long_document_still_makes_pairs(tokenizer: BertTokenizer) -> None:
    documents = list(encode_documents([["cat cat"] * 40, ["dog dog"] * 2, ["ran ran"] * 2], tokenizer))
    portions = Portions(np.array([80, 4, 4]), 8)
    few = [number for number in range(11) if len(portions(number)) < 2]
    assert len(few) > 5
    data = PretrainingData(documents, tokenizer, portions=portions, max_length=16)
    labels = [{example["next_sentence_label"] for example in data.epoch(number)} for number in few]
    assert {0, 1} <= set.union(*labels)


def test_a_mixture_asks_each_example_what_its_corpus_asks() -> None:
    words = {"input_ids": np.array([2, 6, 3]), "labels": np.array([IGNORED, 6, IGNORED])}
    pairs = {"input_ids": np.array([2, 3]), "token_type_ids": np.array([0, 1]), "next_sentence_label": 1}
    mixture = Mixture([lambda _: [words], lambda _: [pairs, pairs]], ["labels"], ["next_sentence_label", "sentence"])
    batch = pack(list(mixture.epoch(0)))
    assert batch["labels"].tolist() == [IGNORED, 6, *[IGNORED] * 5]
    assert batch["token_type_ids"].tolist() == [0, 0, 0, 0, 1, 0, 1]
    assert batch["next_sentence_label"].tolist() == [IGNORED, 1, 1]
    assert batch["sentence"].tolist() == [IGNORED] * 3
