"""Further content of a page: a pre-training run, and the articles in scenes.

There is an article for each language. A page gets the one that fits its model.
"""

import json
import lzma
import os
from collections.abc import Iterable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from minibert.learn.build import PAGE, load_page_model, part
from minibert.learn.live import embed_model

PROMPT = "I have a [MASK]."
POINTS = 200  # of the curve of losses
_WEIGHTS = ("floats", "whole")


def snapshots(run: str | os.PathLike[str]) -> list[Path]:
    """Return the snapshots of a run from `minibert pretrain --checkpoints`, in order.

    Raises:
        FileNotFoundError: The run has no snapshots.
    """
    folders = sorted(Path(run, "checkpoints").glob("step-*"))
    if not folders:
        raise FileNotFoundError(
            f"{os.fspath(run)} holds no snapshots: minibert pretrain --checkpoints N keeps them."
        )
    return folders


def run_for_page(run: str | os.PathLike[str], largest: int = 127) -> dict[str, Any]:
    """Return the pre-training run in a folder, ready for JSON. `largest` as in `embed_model`.

    Returns:
        The result of `embed_model`, with the weights of each snapshot in `snapshots`. Also `steps`,
        the step of each snapshot, and `log`, the MLM loss over the steps, or the total loss if the
        run did not log the MLM loss.

    Raises:
        FileNotFoundError: The run has no snapshots or no log.
    """
    folders = snapshots(run)
    contents = [embed_model(*load_page_model(path), largest) for path in folders]
    logged = _logged_losses(Path(run, "log.jsonl"))
    # Most is learned early, so each point is the mean of more steps than the one before.
    ends = sorted({round(end) for end in np.geomspace(1, max(len(logged), 1), POINTS)})
    parts = [logged[start:end] for start, end in pairwise([0, *ends])]
    return {
        **{name: value for name, value in contents[-1].items() if name not in _WEIGHTS},
        "snapshots": [{name: content[name] for name in _WEIGHTS} for content in contents],
        "steps": [int(path.name.removeprefix("step-")) for path in folders],
        "log": [np.mean(part, axis=0).round(3).tolist() for part in parts if part],
        "folder": os.fspath(run),
    }


def _logged_losses(log: Path) -> list[tuple[int, float]]:
    """Return the steps of a log, each with its MLM loss, or its total loss."""
    losses = []
    for line in log.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        loss = record.get("mlm_loss", record.get("loss"))
        if loss is not None:
            losses.append((record["step"], loss))
    return losses


def articles() -> dict[str, dict[str, Any]]:
    """Return the definition of each article by language.

    `text` is its first text, and `model` a model that it fits. `needs` lists for each scene the
    words that have to be single pieces of the model.
    """
    contents: dict[str, dict[str, Any]] = json.loads(part("article/articles.json"))
    return contents


def fitting_article(tokenizer: Any, preferred: str = "en") -> str:
    """Return the language of the article whose scenes fit the pieces of a tokenizer.

    Args:
        tokenizer: Tokenizer of the model on the page.
        preferred: The language to try first.

    Raises:
        ValueError: No article fits.
    """
    choices = articles()
    languages = sorted(choices, key=lambda language: language != preferred)
    reasons = []
    for language in languages:
        missing = missing_words(tokenizer, choices[language]["needs"])
        if not missing:
            return language
        pieces = " ".join(tokenizer.tokenize(missing[0]))
        model = choices[language]["model"]
        reasons.append(f"those of {model} need {missing[0]}, which it cuts into {pieces}")
    advice = " or ".join(choices[language]["model"] for language in languages)
    raise ValueError(
        f"the scenes of the article do not fit this model's pieces: {'; '.join(reasons)}. Take "
        f"{advice}, or look at this model with minibert view."
    )


def missing_words(tokenizer: Any, needs: Mapping[str, Iterable[str]]) -> list[str]:
    """Return the words in `needs` that are not single pieces of a tokenizer, in order."""
    vocabulary = tokenizer.get_vocab()
    missing = []
    for words in needs.values():
        for word in words:
            is_piece = word in vocabulary
            if is_piece and not word.startswith("##"):
                is_piece = tokenizer.tokenize(word) == [word]
            if not is_piece:
                missing.append(word)
    return missing


def article_texts(article: str) -> dict[str, dict[str, str]]:
    """Return the texts of an article by their name and the language of the reader.

    Each scene has a file of texts, those that both articles have and those of each article.
    `title` of the scene "head" is called "head.title". Texts beside the scenes have another file.
    """
    texts = _texts_of("texts.json", article)
    for folder in sorted((PAGE / "article" / "scenes").iterdir()):
        for name, text in _texts_of(f"scenes/{folder.name}/texts.json", article).items():
            texts[f"{folder.name}.{name}"] = text
    return texts


def _texts_of(file: str, article: str) -> dict[str, dict[str, str]]:
    contents = json.loads(part(f"article/{file}"))
    return {**contents.get("both", {}), **contents.get(article, {})}


def article(language: str = "en") -> dict[str, Any]:
    """Return the content that an article adds to a page of its first text.

    Args:
        language: "en" or "ko".

    Returns:
        `lesson`, its texts and sentences, and `run`, a bundled pre-training run, if one of its
        scenes shows it.
    """
    content = articles()[language]
    lesson: dict[str, Any] = {
        "language": language,
        "texts": article_texts(language),
        "sentences": part(f"article/{language}/sentences.txt").splitlines(),
    }
    for name in ("crowds", "measured", "examples", "labeled"):
        lesson[name] = json.loads(part(f"article/{language}/{name}.json"))
    lesson["studied"] = json.loads(part("article/studied.json")).get(language)
    added: dict[str, Any] = {"lesson": lesson}
    if content["run"] is not None:
        added["run"] = json.loads(lzma.decompress((PAGE / "article" / content["run"]).read_bytes()))
    return added
