"""Corpora as files of ids, their portions, and mixtures of corpora."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import full_disk
from recipe.mixtures import Mixture, Portions, documents_of

from minibert import BertTokenizer
from minibert.losses import IGNORED
from minibert.text import Table
from minibert.text.location import Location
from minibert.training.corpora import Corpus, TokenCache, encode_documents, mix
from minibert.training.data import pack
from minibert.training.options import PretrainOptions
from minibert.training.pretraining import PretrainingData

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "sat", "dog", "ran", "##s"]
DOCUMENTS = [
    ["The cat sat.", "The dog ran."],
    ["Dogs."],
    ["", " "],
    ["Cats sat", "", "the dogs ran"],
    ["ran ran ran"],
]


@pytest.fixture
def tokenizer(tmp_path: Path) -> BertTokenizer:
    (tmp_path / "vocab.txt").write_text("\n".join(WORDS) + "\n", encoding="utf-8")
    return BertTokenizer.from_pretrained(tmp_path)


def as_lists(documents: object) -> list[list[list[int]]]:
    return [[sentence.tolist() for sentence in document] for document in documents]  # type: ignore[attr-defined]


def test_a_cache_contains_the_ids_of_the_tokenizer(
    tokenizer: BertTokenizer, tmp_path: Path
) -> None:
    TokenCache.write(iter(DOCUMENTS), tokenizer, tmp_path / "cache")
    cache = TokenCache(tmp_path / "cache")
    expected = as_lists(list(encode_documents(DOCUMENTS, tokenizer)))
    assert len(cache) == len(expected) == 4  # a document without tokens is left out
    assert as_lists(cache) == expected
    assert cache.lengths.tolist() == [sum(map(len, document)) for document in expected]
    assert cache.ids.dtype == np.uint16


def test_repeated_documents_stay_separate(tokenizer: BertTokenizer, tmp_path: Path) -> None:
    TokenCache.write(DOCUMENTS * 5, tokenizer, tmp_path / "cache")
    cache = TokenCache(tmp_path / "cache")
    assert as_lists(cache) == as_lists(list(encode_documents(DOCUMENTS * 5, tokenizer)))


def test_an_incomplete_cache_raises_an_error(tokenizer: BertTokenizer, tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    TokenCache.write(DOCUMENTS, tokenizer, folder)

    def interrupted_documents() -> object:
        yield DOCUMENTS[0]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        TokenCache.write(interrupted_documents(), tokenizer, folder)  # type: ignore[arg-type]
    with pytest.raises(FileNotFoundError, match="no cache of tokens"):
        TokenCache(folder)
    TokenCache.write([["", " "]], tokenizer, folder)
    assert len(TokenCache(folder)) == 0


def write_corpus(path: Path, documents: int = 40) -> list[str]:
    """Write documents of two sentences and different words."""
    texts = [f"the cat{'s' * n} sat\nthe dog ran" for n in range(documents)]
    path.write_text("\n\n".join(texts), encoding="utf-8")
    return texts


def corpus_of(path: Path, tokenizer: BertTokenizer, **options: Any) -> Corpus:
    return Corpus([str(path)], tokenizer, path.parent / "tokens", **options)


def test_parts_contain_every_document_once(
    tokenizer: BertTokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Processes tokenize the parts, few parts are open at once, and a second run reuses them."""
    monkeypatch.setattr("minibert.training.corpora.PART_BYTES", 200)
    monkeypatch.setattr("minibert.training.corpora.EPOCH_PARTS", 1)
    path = tmp_path / "corpus.txt"
    path.write_text("\n\n".join(["the cat sat\nthe dog ran"] * 40), encoding="utf-8")
    corpus = corpus_of(path, tokenizer)
    assert len(corpus) > 3
    total = corpus.tokens
    turns = [corpus.portion(turn * total, (turn + 1) * total) for turn in range(2)]
    descriptors = Path("/proc/self/fd")
    if descriptors.is_dir():
        files = [os.path.realpath(descriptor) for descriptor in descriptors.iterdir()]
        assert 0 < sum(str(tmp_path / "tokens") in file for file in files) <= 3 * 2
    assert total == 40 * 6
    assert all(sum(map(len, map(np.concatenate, turn))) == total for turn in turns)
    second_run = corpus_of(path, tokenizer, tokenize=False)
    assert as_lists(corpus.portion(17, 99)) == as_lists(second_run.portion(17, 99))


@pytest.mark.needs("mapped files that can be replaced")
def test_an_edited_corpus_is_tokenized_again(tokenizer: BertTokenizer, tmp_path: Path) -> None:
    for text, tokens in (("the cat sat\nthe dog ran", 6), ("the cat sat", 3)):
        (tmp_path / "corpus.txt").write_text(text, encoding="utf-8")
        assert corpus_of(tmp_path / "corpus.txt", tokenizer).tokens == tokens


def test_every_document_is_read_before_any_is_repeated(
    tokenizer: BertTokenizer, tmp_path: Path
) -> None:
    write_corpus(tmp_path / "corpus.txt")
    corpus = corpus_of(tmp_path / "corpus.txt", tokenizer)
    documents = []
    for begin in range(0, 2 * corpus.tokens, 50):
        documents += corpus.portion(begin, begin + 50)
    first, second = (as_lists(documents[start : start + 40]) for start in (0, 40))
    assert sorted(first) == sorted(second) and first != second
    second_run = corpus_of(tmp_path / "corpus.txt", tokenizer)
    assert as_lists(corpus.portion(100, 150)) == as_lists(second_run.portion(100, 150))


def test_held_out_documents_are_never_read(tokenizer: BertTokenizer, tmp_path: Path) -> None:
    write_corpus(tmp_path / "corpus.txt")
    corpus = corpus_of(tmp_path / "corpus.txt", tokenizer, held_out=0.1)
    held_out = as_lists(corpus.held_out(10_000))
    assert 1 < len(held_out) < 9 and len(corpus.held_out(8)) == 1
    documents = as_lists(corpus.portion(0, 3 * corpus.tokens))
    assert len(documents) == 3 * (40 - len(held_out))
    assert not [document for document in held_out if document in documents]


def test_copies_and_further_files_do_not_change_what_is_held_out(
    tokenizer: BertTokenizer, tmp_path: Path
) -> None:
    write_corpus(tmp_path / "b.txt")
    first = Corpus([str(tmp_path / "b.txt")], tokenizer, tmp_path / "tokens", held_out=0.1)
    held_out = as_lists(first.held_out(10_000))
    write_corpus(tmp_path / "a.txt", 60)  # with a copy of each document
    files = [str(tmp_path / name) for name in ("a.txt", "b.txt")]
    both = Corpus(files, tokenizer, tmp_path / "more", held_out=0.1)
    assert held_out and not [row for row in held_out if row in as_lists(both.portion(0, 10**4))]
    other = Corpus(files, tokenizer, tmp_path / "more", held_out=0.1, seed=1)
    assert as_lists(other.held_out(10_000)) != as_lists(both.held_out(10_000))


@pytest.mark.parametrize(
    "kind", [".jsonl", ".jsonl.gz", ".txt.xz", ".txt.zst", ".parquet", ".arrow", "folder", "s3"]
)
def test_a_corpus_of_any_kind(
    kind: str, tokenizer: BertTokenizer, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    texts = write_corpus(tmp_path / "corpus.txt")
    plain_corpus = corpus_of(tmp_path / "corpus.txt", tokenizer)
    expected = sorted(as_lists(plain_corpus.portion(0, 10**3)))
    path = tmp_path / f"other{kind}"
    rows = "\n".join(json.dumps({"body": text}) for text in texts).encode()
    if kind == "folder":
        path.mkdir()
        (path / "a.txt").write_text("\n\n".join(texts[:20]), encoding="utf-8")
        (path / "b.txt").write_text("\n\n".join(texts[20:]), encoding="utf-8")
    elif kind == ".parquet":
        pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        parquet.write_table(pyarrow.table({"body": texts}), path)
    elif kind == ".arrow":
        pyarrow, feather = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.feather")
        feather.write_feather(pyarrow.table({"body": texts}), path, chunksize=3)
    elif kind == ".txt.xz":
        path.write_bytes(lzma.compress((tmp_path / "corpus.txt").read_bytes()))
    elif kind == ".txt.zst":
        path.write_bytes(
            pytest.importorskip("pyarrow").compress((tmp_path / "corpus.txt").read_bytes(), "zstd")
        )
    else:
        path.write_bytes(gzip.compress(rows) if kind.endswith("gz") else rows)
    name = str(path)
    if kind == "s3":
        pytest.importorskip("pyarrow")
        name = f"{request.getfixturevalue('bucket')}/texts/other.jsonl.gz"
        with Location(name).replacing() as temporary:
            temporary.write_bytes(gzip.compress(rows))
    table = None if kind in (".txt.xz", ".txt.zst", "folder") else Table("body")
    corpus = Corpus([name], tokenizer, tmp_path / "others", table=table)
    assert sorted(as_lists(corpus.portion(0, 10**3))) == expected


def test_a_table_without_a_header_is_tokenized_once(
    tokenizer: BertTokenizer, tmp_path: Path
) -> None:
    (tmp_path / "corpus.csv").write_text("1,the cat sat\n2,the dog ran\n", encoding="utf-8")
    table = Table("body", columns=("id", "body"))
    for tokenize in (True, False):
        corpus = corpus_of(tmp_path / "corpus.csv", tokenizer, table=table, tokenize=tokenize)
        assert corpus.tokens == 6


def test_a_share_of_each_corpus(tokenizer: BertTokenizer, tmp_path: Path) -> None:
    write_corpus(tmp_path / "a.txt", 40)
    write_corpus(tmp_path / "b.txt", 10)
    a, b = (Corpus([str(tmp_path / f"{name}.txt")], tokenizer, tmp_path / name) for name in "ab")
    (_, tokens_a), (_, tokens_b) = mix([(a, 1.0), (b, 3.0)])
    assert tokens_a + tokens_b == pytest.approx(a.tokens + b.tokens, abs=1)
    assert tokens_b == pytest.approx(3 * tokens_a, abs=3)


def test_a_corpus_that_cannot_be_read_raises_an_error(
    tokenizer: BertTokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "empty.txt").write_text("\n\n", encoding="utf-8")
    with pytest.raises(ValueError, match="The corpus holds no text: one sentence a line"):
        corpus_of(tmp_path / "empty.txt", tokenizer).portion(0, 5)
    (tmp_path / "latin.txt").write_bytes(b"cat\n" * 100 + b"caf\xe9\n")
    corpus = corpus_of(tmp_path / "latin.txt", tokenizer)
    waiting = corpus_of(tmp_path / "latin.txt", tokenizer, tokenize=False)  # in another process
    for reader in (corpus, waiting):
        with pytest.raises(ValueError, match=r"latin\.txt, line 101: the line is not UTF-8"):
            reader.portion(0, 5)
    with pytest.raises(FileNotFoundError, match=r"there is no file .*gone\.txt"):
        corpus_of(tmp_path / "gone.txt", tokenizer)
    # Several parts are tokenized in other processes.
    monkeypatch.setattr("minibert.training.corpora.PART_BYTES", 100)
    with pytest.raises(ValueError, match=r"latin\.txt, byte 400: the line is not UTF-8"):
        corpus_of(tmp_path / "latin.txt", tokenizer).portion(0, 10**6)
    compressed = (
        gzip.compress(b"cat\n" * 100),
        lzma.compress(b"cat\n" * 100),
        bz2.compress(b"cat\n" * 100),
    )
    for name, whole in zip(("gz", "xz", "bz2"), compressed, strict=True):
        (tmp_path / f"half.txt.{name}").write_bytes(whole[: len(whole) // 2] + b"?" * 9)
        with pytest.raises(ValueError, match=rf"half\.txt\.{name} is damaged"):
            corpus_of(tmp_path / f"half.txt.{name}", tokenizer).portion(0, 5)
    write_corpus(tmp_path / "vanishing.txt")
    corpus = corpus_of(tmp_path / "vanishing.txt", tokenizer)
    (tmp_path / "vanishing.txt").unlink()  # before the processes start
    with pytest.raises(
        ValueError,
        match=r"vanishing\.txt no longer exists: put it back",
    ):
        corpus.portion(0, 10**6)


def test_the_error_of_a_file_that_was_corrected_is_forgotten(
    tokenizer: BertTokenizer, tmp_path: Path
) -> None:
    path = tmp_path / "corpus.txt"
    path.write_bytes(b"caf\xe9\n")
    corpus_of(path, tokenizer)
    path.write_text("the cat sat\n", encoding="utf-8")
    with ThreadPoolExecutor(1) as other:
        waiting = corpus_of(path, tokenizer, tokenize=False)  # before the first process begins
        tokens = other.submit(lambda: waiting.tokens)
        with pytest.raises(TimeoutError):
            tokens.result(0.2)
        corpus_of(path, tokenizer)
        assert tokens.result(60) == 3


def test_a_part_that_no_process_tokenizes_raises_an_error(
    tokenizer: BertTokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("minibert.training.corpora.PART_BYTES", 200)
    path = tmp_path / "corpus.txt"
    write_corpus(path)
    corpus = corpus_of(path, tokenizer)
    assert len(corpus) > 1 and corpus.tokens
    shutil.rmtree(tmp_path / "tokens" / "000001")
    corpus.part.cache_clear()
    with pytest.raises(ChildProcessError, match="start again to continue"):
        corpus.part(1)
    write_corpus(path, 41)
    tokenizer.strip = lambda text: text  # type: ignore[attr-defined] # which has no name to load
    with pytest.raises(ChildProcessError, match="could not be started"):
        corpus_of(path, tokenizer).portion(0, 5)


def test_a_corpus_that_is_held_out_as_a_whole_says_so(
    tokenizer: BertTokenizer, tmp_path: Path
) -> None:
    (tmp_path / "corpus.txt").write_text("the cat sat\n\nthe dog ran\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"held_out is 0\.99, which leaves no document"):
        corpus_of(tmp_path / "corpus.txt", tokenizer, held_out=0.99).portion(0, 5)


def test_a_single_document_is_not_held_out(tokenizer: BertTokenizer, tmp_path: Path) -> None:
    (tmp_path / "corpus.txt").write_text("the cat sat\nthe dog ran\n", encoding="utf-8")
    corpus = corpus_of(tmp_path / "corpus.txt", tokenizer, held_out=0.99)
    assert len(corpus.portion(0, 5)) == 1 and corpus.held_out(100) == []


@pytest.mark.needs("limits of file sizes")
@pytest.mark.parametrize(("size", "name"), [(10, "ids.bin"), (100, "sentences.npy")])
def test_a_full_disk_is_named(
    size: int, name: str, tokenizer: BertTokenizer, tmp_path: Path
) -> None:
    with full_disk(size), pytest.raises(OSError, match=rf"{name} could not be written \(.*large"):
        TokenCache.write(DOCUMENTS, tokenizer, tmp_path / "cache")


@pytest.mark.parametrize("name", ["cache.json", "sentences.npy", "documents.npy", "ids.bin"])
def test_a_damaged_cache_raises_an_error(
    name: str, tokenizer: BertTokenizer, tmp_path: Path
) -> None:
    """If all documents were empty, reading a portion would never end."""
    TokenCache.write(DOCUMENTS, tokenizer, tmp_path / "cache")
    path = tmp_path / "cache" / name
    whole = path.read_bytes()
    for damaged in (
        b"{}",
        whole[:-8],
        whole[:-8] + bytes(8),
        whole.replace(b"uint16", b"uint32") + whole[-2:],
    ):
        path.write_bytes(damaged)
        with pytest.raises(
            ValueError,
            match="cache.* (is damaged: delete it, and its text is tokenized|is not JSON)",
        ):
            TokenCache(tmp_path / "cache")


@pytest.mark.parametrize("name", ["sentences.npy", "documents.npy", "ids.bin"])
def test_a_cache_that_lacks_a_file_is_damaged(
    name: str, tokenizer: BertTokenizer, tmp_path: Path
) -> None:
    TokenCache.write(DOCUMENTS, tokenizer, tmp_path / "cache")
    (tmp_path / "cache" / name).unlink()
    with pytest.raises(ValueError, match="is damaged: delete it, and its text is tokenized"):
        TokenCache(tmp_path / "cache")


def test_portions_contain_every_document_before_any_is_repeated() -> None:
    lengths = np.random.default_rng(0).integers(1, 40, 60)
    portions = Portions(lengths, size=100, seed=3)
    numbers = [number for epoch in range(50) for number in portions(epoch)]
    for start in range(0, len(numbers) - 60, 60):
        assert sorted(numbers[start : start + 60]) == list(range(60))
    assert numbers[:60] != numbers[60:120]  # in another order
    sizes = [lengths[portions(epoch)].sum() for epoch in range(50)]
    assert np.mean(sizes) == pytest.approx(100, abs=2)
    assert max(sizes) < 100 + 40
    assert portions(7) == Portions(lengths, size=100, seed=3)(7)


def test_a_portion_may_be_larger_than_the_corpus() -> None:
    numbers = Portions(np.array([3, 4, 5]), size=24)(0)
    assert sorted(numbers) == [0, 0, 1, 1, 2, 2]


def test_an_epoch_of_pretraining_reads_its_portion(tokenizer: BertTokenizer) -> None:
    documents = list(
        encode_documents([["cat " * 8] * 2, ["dog " * 8] * 2, ["ran " * 8] * 2], tokenizer)
    )
    lengths = np.array([16, 16, 16])
    data = PretrainingData(
        partial(documents_of, documents, Portions(lengths, 16), False),
        tokenizer,
        PretrainOptions(next_sentence=False, mask_probability=0.5),
    )
    portions = Portions(lengths, 16)
    for epoch in range(3):
        (document,) = portions(epoch)
        labels = np.concatenate([example["labels"] for example in data.epoch(epoch)])
        assert set(labels[labels != IGNORED].tolist()) == {int(documents[document][0][0])}


def test_an_epoch_within_one_long_document_still_has_pairs(tokenizer: BertTokenizer) -> None:
    documents = list(
        encode_documents([["cat cat"] * 40, ["dog dog"] * 2, ["ran ran"] * 2], tokenizer)
    )
    portions = Portions(np.array([80, 4, 4]), 8)
    single = [epoch for epoch in range(11) if len(portions(epoch)) < 2]
    assert len(single) > 5
    data = PretrainingData(
        partial(documents_of, documents, portions, True), tokenizer, PretrainOptions(max_length=16)
    )
    labels = set()
    for epoch in single:
        labels |= {example["next_sentence_label"] for example in data.epoch(epoch)}
    assert {0, 1} <= labels


def test_examples_of_a_mixture_have_the_labels_of_their_corpus() -> None:
    words = {"input_ids": np.array([2, 6, 3]), "labels": np.array([IGNORED, 6, IGNORED])}
    pairs = {
        "input_ids": np.array([2, 3]),
        "token_type_ids": np.array([0, 1]),
        "next_sentence_label": 1,
    }
    mixture = Mixture(
        [lambda _: [words], lambda _: [pairs, pairs]],
        ["labels"],
        ["next_sentence_label", "sentence"],
    )
    batch = pack(list(mixture.epoch(0)))
    assert batch["labels"].tolist() == [IGNORED, 6, *[IGNORED] * 5]
    assert batch["token_type_ids"].tolist() == [0, 0, 0, 0, 1, 0, 1]
    assert batch["next_sentence_label"].tolist() == [IGNORED, 1, 1]
    assert batch["sentence"].tolist() == [IGNORED] * 3
