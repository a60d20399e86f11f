r"""Measures all figures of the model cards of minibert-en and minibert-ko.

    PYTHONPATH=scripts python -m recipe.table --data DATA [--en FOLDER] [--ko FOLDER] \
        [--tune] [--windows N]

The default folders are those of the bundled models. With `--tune`, the Korean model is also
fine-tuned on NSMC, KLUE NLI and YNAT, which takes almost an hour. On the last two, it is compared
with a randomly initialized model of the same size.
"""

from __future__ import annotations

import argparse
import json
import lzma
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from minibert import BertForPreTraining, BertModel, BertTokenizer
from minibert.checkpoints.source import BUNDLED_MODELS
from minibert.tasks.sequence import SequenceTask
from minibert.text import Table
from minibert.training.corpora import Document, encode_documents
from minibert.training.finetuning import finetune
from minibert.training.options import TrainingOptions
from recipe import measures, texts

PROMPTS = {
    language: Path(__file__).with_name(f"everyday-{language}.tsv") for language in ("en", "ko")
}
HELD_BACK = {
    "en": ("wikipedia", "books", "everyday"),
    "ko": ("wikipedia", "nsmc-reviews", "everyday"),
}
FOLDERS = {"en": "english", "ko": "korean"}
STS = {"en": "stsb/stsb-dev.csv", "ko": "korsts/sts-dev.tsv"}


def held_back(data: Path, language: str, name: str) -> Iterator[list[str]]:
    """Yields the documents of a text that no model is trained on, as lists of sentences."""
    return texts.split(data / FOLDERS[language] / f"{name}.txt.xz", language, held_back=True)


def scores(
    folder: Path, data: Path, language: str, max_windows: int | None = None
) -> dict[str, Any]:
    """Measures a model without fine-tuning.

    Args:
        folder: Folder of the model.
        data: Folder of the texts.
        language: "en" or "ko".
        max_windows: Maximum number of windows of each text. None: all.
    """
    model = BertForPreTraining.from_pretrained(folder).eval()
    tokenizer = BertTokenizer.from_pretrained(folder)
    prompts = measures.read_prompts(PROMPTS[language])
    result: dict[str, Any] = {"prompts": sum(measures.fitting_words(model, tokenizer, prompts))}

    def words(documents: Iterator[list[str]]) -> tuple[list[Document], dict[str, float]]:
        encoded = list(encode_documents(documents, tokenizer))
        return encoded, measures.masked_words(model, tokenizer, encoded, max_windows)

    if language == "en":
        wikitext = measures.wikitext(data / "wikitext2" / "test.txt")
        _, result["words, WikiText-2 test"] = words(iter(wikitext))
    for name in HELD_BACK[language]:
        encoded, result[f"words, {name}"] = words(held_back(data, language, name))
        if name == "wikipedia":
            result["next sentence"] = measures.next_sentences(model, tokenizer, encoded)
    result["sts"] = measures.sts_spearman(model.bert, tokenizer, data / STS[language])
    result["loading, ms"] = loading(folder)
    return result


def across(korean: Path, english: Path, data: Path) -> float:
    """Measures cross-lingual retrieval: the accuracy of finding STS-B sentences by those of KorSTS.

    KorSTS is a translation of STS-B. The first sentences of both dev sets are used.
    """
    vectors = []
    for folder, language in ((korean, "ko"), (english, "en")):
        sentences = [row[5] for row in measures.sts_rows(data / STS[language])]
        model, tokenizer = BertModel.from_pretrained(folder), BertTokenizer.from_pretrained(folder)
        vectors.append(measures.vectors(model, tokenizer, sentences))
    return measures.retrieval_accuracy(*vectors, sentences)


def loading(folder: Path, repeats: int = 9) -> dict[str, float]:
    """Returns the median milliseconds of loading a model, with and without the page cache."""

    def load() -> float:
        began = time.perf_counter()
        BertModel.from_pretrained(folder)
        return (time.perf_counter() - began) * 1e3

    def drop_cache() -> None:
        file = os.open(folder / "model.safetensors", os.O_RDONLY)
        os.fsync(file)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(file)

    load()
    preparations: dict[str, Callable[[], None]] = {"warm": lambda: None, "cold": drop_cache}
    times: dict[str, list[float]] = {name: [] for name in preparations}
    for _ in range(repeats):
        for name, prepare in preparations.items():
            prepare()
            times[name].append(load())
    return {name: statistics.median(values) for name, values in times.items()}


def tuned(folder: Path, data: Path) -> dict[str, float]:
    """Returns accuracies of a Korean model after fine-tuning, and those of random weights."""

    def lines(path: str) -> list[str]:
        with lzma.open(data / path, "rt", encoding="utf-8") as file:
            return file.read().splitlines()

    ynat = lines("klue/ynat-train.tsv.xz")
    order = np.random.default_rng(0).permutation(len(ynat) - 1) + 1
    parts = [[ynat[0], *(ynat[i] for i in numbers)] for numbers in (order[5000:], order[:5000])]
    nsmc = [
        [line for line in lines(f"nsmc/{part}.tsv.xz") if line.split("\t")[0].strip()]
        for part in ("train", "dev")
    ]
    tasks = {
        "NSMC": (SequenceTask(Table("document", label="label")), *nsmc, 1),
        "KLUE NLI": (
            SequenceTask(Table("premise", pair="hypothesis", label="gold_label")),
            lines("klue/nli-train.tsv.xz"),
            lines("klue/nli-dev.tsv.xz"),
            3,
        ),
        "YNAT, 5,000 of train": (SequenceTask(Table("title", label="topic")), *parts, 2),
    }
    accuracies = {}
    with tempfile.TemporaryDirectory() as temporary:
        random = Path(temporary, "random")
        tokenizer = BertTokenizer.from_pretrained(folder)
        BertModel(
            BertModel.from_pretrained(folder).config.replace(dtype="float32")
        ).save_pretrained(random)
        tokenizer.save_pretrained(random)
        for name, (task, train, dev, epochs) in tasks.items():
            paths = [Path(temporary, f"{name}-{part}.tsv") for part in ("train", "dev")]
            for path, rows in zip(paths, (train, dev), strict=True):
                path.write_text("\n".join(rows) + "\n", encoding="utf-8")
            for start in (folder,) if name == "NSMC" else (folder, random):
                options = TrainingOptions(epochs=epochs, learning_rate=2e-4, bf16=True)
                target = Path(temporary, f"{name}-{start.name}")
                key = name if start is folder else f"{name}, random weights"
                accuracies[key] = finetune(task, start, *paths, target, options)["accuracy"]
                print(key, accuracies[key], file=sys.stderr, flush=True)
    return accuracies


def main() -> None:
    parser = argparse.ArgumentParser(description="Measures minibert-en and minibert-ko.")
    parser.add_argument("--data", type=Path, required=True, help="Folder of the texts.")
    parser.add_argument(
        "--en",
        type=Path,
        default=BUNDLED_MODELS / "minibert-en",
        help="Folder of the English model (default: the bundled one).",
    )
    parser.add_argument(
        "--ko",
        type=Path,
        default=BUNDLED_MODELS / "minibert-ko",
        help="Folder of the Korean model (default: the bundled one).",
    )
    parser.add_argument("--only", choices=["en", "ko"], help="Measure one model only.")
    parser.add_argument("--tune", action="store_true", help="Fine-tune the Korean model, too.")
    parser.add_argument(
        "--windows", type=int, help="Maximum number of windows of each text (default: all)."
    )
    options = parser.parse_args()
    folders = {"en": options.en, "ko": options.ko}
    table: dict[str, Any] = {}
    for language in [options.only] if options.only else ["en", "ko"]:
        table[language] = scores(folders[language], options.data, language, options.windows)
        print(json.dumps(table[language], indent=1), file=sys.stderr, flush=True)
    table["a Korean sentence finds its English one"] = across(options.ko, options.en, options.data)
    if options.tune:
        table["fine-tuned"] = tuned(options.ko, options.data)
    print(json.dumps(table, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
