"""Named entities and other tags: files in CoNLL format, and the task that `finetune` learns from them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from torch import Tensor, nn

from minibert.config import BertConfig
from minibert.files import read_text
from minibert.heads import BertForTokenClassification
from minibert.losses import IGNORED, cross_entropy
from minibert.pretrained import PreTrainedModel
from minibert.tasks import metrics
from minibert.tasks.windows import encode_windows
from minibert.tokenization.tokenizer import BertTokenizer
from minibert.training.data import Batch, Example, not_empty
from minibert.training.finetuning import Path_, Rows, Task, inputs_of, number_of, outputs_of


def read_conll(path: str | os.PathLike[str]) -> list[tuple[list[str], list[str]]]:
    """Words and tags of each sentence of a file in CoNLL format: a word a line, its tag last, empty lines between.

    A word may be a single character, a space as well, as in KLUE's named entities; lines with `## ` are comments.

    Raises:
        FileNotFoundError: no such file.
        ValueError: a line without a tag, no line at all, or whole texts where words should be.
    """
    sentences: list[tuple[list[str], list[str]]] = [([], [])]
    for number, line in enumerate(read_text(path).split("\n"), 1):
        fields = line.rstrip().split("\t") if "\t" in line.rstrip() else line.split()
        if line.startswith("## "):
            continue
        if not fields or fields[0] == "-DOCSTART-":
            sentences.append(([], []))
        elif len(fields) == 1:
            raise ValueError(
                f"{path}, line {number}: {line!r} should be a word and, last, its tag."
            )
        else:
            sentences[-1][0].append(fields[0])
            sentences[-1][1].append(fields[-1])
    found = not_empty(path, [sentence for sentence in sentences if sentence[0]])
    words = [word for words, _ in found for word in words]
    if 2 * len(texts := [word for word in words if word.count(" ") > 1]) > len(words):
        raise ValueError(
            f"{path} holds texts where words should be, such as {texts[0]!r:.40}: is it for another task?"
        )
    return found


@dataclass(frozen=True)
class TokenTask(Task):
    """A tag for every word, or for every character, from files in CoNLL format.

    A word's first piece speaks for it (paper, section 5.3). Where all words are single characters (KLUE), the text is
    put together from them, and each piece has the tag of its first character: so a particle is no part of a name where
    `find_entities` is asked `by_piece=True`.
    """

    model_class: ClassVar[type[PreTrainedModel]] = BertForTokenClassification
    metric: ClassVar[str] = "f1"

    def read(self, path: Path_, dev: bool = False) -> list[tuple[list[str], list[str]]]:
        """Words and tags of each sentence."""
        return read_conll(path)

    def config(self, rows: Rows) -> dict[str, Any]:
        """The tags by name, in alphabetical order."""
        return {"id2label": dict(enumerate(sorted({tag for _, tags in rows for tag in tags})))}

    def examples(
        self, rows: Rows, tokenizer: BertTokenizer, config: BertConfig, max_length: int
    ) -> list[Example]:
        """Sentences; only the pieces that speak for a word or a character have a label.

        A sentence of more than `max_length` tokens is read through windows that share a quarter. A word that is in
        two of them has its label in the first.
        """
        by_character = _are_characters(rows)
        texts: list[Any] = [words for words, _ in rows]
        if by_character:
            texts = ["".join(words) for words in texts]
        encoded = encode_windows(
            tokenizer,
            texts,
            None,
            max_length,
            stride=max(0, min(max_length // 4, max_length - 3)),
            is_split_into_words=not by_character,
        )
        examples = []
        seen: set[tuple[int, int | None]] = set()
        for window, row in enumerate(encoded["overflow_to_sample_mapping"]):
            ids = np.array(encoded["input_ids"][window])
            words = np.full(len(ids), -1)
            places = zip(encoded.word_ids(window), encoded["offset_mapping"][window], strict=True)
            for place, (word, (start, _)) in enumerate(places):
                tagged = start if by_character else word
                if word is not None and (row, tagged) not in seen:
                    seen.add((row, tagged))
                    words[place] = tagged
            labels = [
                IGNORED if word < 0 else number_of(rows[row][1][word], config)
                for word in words.tolist()
            ]
            examples.append(
                {"input_ids": ids, "labels": np.array(labels), "words": words, "row": row}
            )
        return examples

    def losses(self, model: nn.Module, batch: Batch) -> dict[str, Tensor]:
        """Cross entropy of the words' tags."""
        logits = model(**inputs_of(batch)).logits
        return {"labels": cross_entropy(logits, batch["labels"], "sum")}

    def scores(self, model: Any, rows: Rows, examples: Sequence[Example]) -> dict[str, float]:
        """F1 of entities, over every word of every sentence; a word without a WordPiece gets the tag O."""
        names = model.config.id2label
        predictions: list[list[str]] = [[""] * len(tags) for _, tags in rows]
        best = outputs_of(model, examples, lambda output: output.logits.argmax(-1))
        for example, given in zip(examples, best, strict=True):
            words = example["words"]
            for word, tag in zip(
                words[words >= 0].tolist(), given[words >= 0].tolist(), strict=True
            ):
                predictions[example["row"]][word] = names[tag]
        by_character = _are_characters(rows)
        for (words, _), tags in zip(rows, predictions, strict=True):
            for place in reversed(range(len(tags))):
                if not tags[place]:
                    tags[place] = _tag_between(words, tags, place) if by_character else "O"
        return metrics.entity_scores([tags for _, tags in rows], predictions)


def _are_characters(rows: Rows) -> bool:
    return all(len(word) == 1 for words, _ in rows for word in words)


def _tag_between(characters: Sequence[str], tags: Sequence[str], place: int) -> str:
    """The tag of a character that begins no piece: a space goes on with what follows, any other with its piece."""
    if characters[place].isspace():
        return (
            tags[place + 1] if place + 1 < len(tags) and tags[place + 1].startswith("I-") else "O"
        )
    begins = next((tag for tag in reversed(tags[:place]) if tag), "O")
    return f"I-{begins[2:]}" if begins[:2] in ("B-", "I-") else begins
