"""All that the cards say of minibert-en and minibert-ko, from their folders alone.

    PYTHONPATH=scripts python -m recipe.table --data DATA [--en FOLDER] [--ko FOLDER] [--tune] [--windows N]

Without a folder it is the bundled model's that is measured, so one call before and one after stand side by side.
`--tune` fine-tunes too, which takes most of an hour: NSMC, and KLUE NLI and YNAT beside a model of the same size that
begins with random weights.
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
from minibert.training.corpora import Document, encode_documents
from minibert.training.finetuning import SequenceTask, finetune
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
    """The documents of a text that no model has read, as sentences."""
    return texts.split(data / FOLDERS[language] / f"{name}.txt.xz", language, held_back=True)


def scores(
    folder: Path, data: Path, language: str, max_windows: int | None = None
) -> dict[str, Any]:
    """Everything that one model can do without further training.

    Args:
        folder: of the model.
        data: of the texts.
        language: en or ko.
        max_windows: so many windows of each text at most.
    """
    model, tokenizer = (
        BertForPreTraining.from_pretrained(folder).eval(),
        BertTokenizer.from_pretrained(folder),
    )
    prompts = measures.read_prompts(PROMPTS[language])
    found: dict[str, Any] = {"prompts": sum(measures.fitting_words(model, tokenizer, prompts))}

    def words(documents: Iterator[list[str]]) -> tuple[list[Document], dict[str, float]]:
        encoded = list(encode_documents(documents, tokenizer))
        return encoded, measures.masked_words(model, tokenizer, encoded, max_windows)

    if language == "en":
        _, found["words, WikiText-2 test"] = words(
            iter(measures.wikitext(data / "wikitext2" / "test.txt"))
        )
    for name in HELD_BACK[language]:
        encoded, found[f"words, {name}"] = words(held_back(data, language, name))
        if name == "wikipedia":
            found["next sentence"] = measures.next_sentences(model, tokenizer, encoded)
    found["sts"] = measures.sts_spearman(model.bert, tokenizer, data / STS[language])
    found["loading, ms"] = loading(folder)
    return found


def across(korean: Path, english: Path, data: Path) -> float:
    """How often a Korean sentence of KorSTS dev finds its English one of STS-B dev among all first sentences."""
    found = []
    for folder, language in ((korean, "ko"), (english, "en")):
        sentences = [row[5] for row in measures.sts_rows(data / STS[language])]
        model, tokenizer = BertModel.from_pretrained(folder), BertTokenizer.from_pretrained(folder)
        found.append(measures.vectors(model, tokenizer, sentences))
    return measures.found_across(*found, sentences)


def loading(folder: Path, repeats: int = 9) -> dict[str, float]:
    """Milliseconds of `BertModel.from_pretrained`, medians: the file in the page cache, and not."""

    def took() -> float:
        began = time.perf_counter()
        BertModel.from_pretrained(folder)
        return (time.perf_counter() - began) * 1e3

    def forget() -> None:
        file = os.open(folder / "model.safetensors", os.O_RDONLY)
        os.fsync(file)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(file)

    took()
    before: dict[str, Callable[[], None]] = {"warm": lambda: None, "cold": forget}
    times: dict[str, list[float]] = {name: [] for name in before}
    for _ in range(repeats):
        for name, prepare in before.items():
            prepare()
            times[name].append(took())
    return {name: statistics.median(found) for name, found in times.items()}


def tuned(folder: Path, data: Path) -> dict[str, float]:
    """Accuracy of a Korean model after fine-tuning by the package, and of random weights beside it."""

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
        "NSMC": (SequenceTask(text="document"), *nsmc, 1),
        "KLUE NLI": (
            SequenceTask(text="premise", pair="hypothesis", label="gold_label"),
            lines("klue/nli-train.tsv.xz"),
            lines("klue/nli-dev.tsv.xz"),
            3,
        ),
        "YNAT, 5,000 of train": (SequenceTask(text="title", label="topic"), *parts, 2),
    }
    found = {}
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
                found[key] = finetune(task, start, *paths, target, options)["accuracy"]
                print(key, found[key], file=sys.stderr, flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="Measures minibert-en and minibert-ko.")
    parser.add_argument("--data", type=Path, required=True, help="folder of texts")
    parser.add_argument(
        "--en",
        type=Path,
        default=BUNDLED_MODELS / "minibert-en",
        help="folder of the English model",
    )
    parser.add_argument(
        "--ko", type=Path, default=BUNDLED_MODELS / "minibert-ko", help="folder of the Korean model"
    )
    parser.add_argument("--only", choices=["en", "ko"], help="one of the models alone")
    parser.add_argument("--tune", action="store_true", help="fine-tune the Korean model too")
    parser.add_argument(
        "--windows", type=int, help="windows of each text at most; all of them if left out"
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
