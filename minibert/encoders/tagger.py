"""Labeled spans of texts, such as names."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import TypedDict, overload

import numpy as np

from minibert.encoders.entity_tags import entity_spans
from minibert.encoders.head_models import (
    Texts,
    as_text_list,
    outputs_of,
    require_model,
    token_limit,
)
from minibert.encoders.onnx_heads import OnnxHead
from minibert.encoders.windows import encode_windows, words_of_texts
from minibert.heads import BertForTokenClassification
from minibert.tokenization.tokenizer import BertTokenizer

TokenClassifier = BertForTokenClassification | OnnxHead


class Entity(TypedDict):
    """A labeled span of a text.

    It has its kind, the mean probability of its words, its text, and `[start, end)` in characters.
    """

    entity_group: str
    score: float
    word: str
    start: int
    end: int


@overload
def find_entities(  # type: ignore[overload-overlap]
    model: TokenClassifier,
    tokenizer: BertTokenizer,
    texts: str,
    stride: int | None = None,
    by_piece: bool = False,
) -> list[Entity]: ...


@overload
def find_entities(
    model: TokenClassifier,
    tokenizer: BertTokenizer,
    texts: Sequence[str],
    stride: int | None = None,
    by_piece: bool = False,
) -> list[list[Entity]]: ...


def find_entities(
    model: TokenClassifier,
    tokenizer: BertTokenizer,
    texts: Texts,
    stride: int | None = None,
    by_piece: bool = False,
) -> list[Entity] | list[list[Entity]]:
    """Labeled spans of texts, such as names.

    A word has the label of its first piece. Neighboring words of one kind form a span. B- begins a
    new one. I- and M- continue it, even if no B- came before. E- and L- end it, and S- and U- are
    spans alone. B and I without a kind are entities of the kind "_". A label without such a prefix
    is a kind itself, and O is not an entity.

    Words are the tokenizer's: split at white space and around punctuation. CoNLL splits
    differently: a model that was trained on `U.S.` as one word has never seen labels of its parts.

    Args:
        model: A token classifier, or one that `minibert export` has written.
        tokenizer: Its tokenizer.
        texts: A text or several. A text that is too long for the model is split into windows. If
            two windows show a word, the one with more around it decides.
        stride: Tokens that neighboring windows share. None: a quarter of a window.
        by_piece: Each piece has a label of its own, as in a model trained on labels of characters.
            A name may then end inside a word, as before a Korean particle.

    Returns:
        For each text a list of `{"entity_group", "score", "word", "start", "end"}` in the order of
        the text: the kind, the mean probability of its words' labels, the text, and `[start, end)`
        in characters.

    Raises:
        TypeError: `model` is not a token classifier.
        ValueError: The export has another head, `texts` is a mapping, `stride` does not fit, or
            the logits are not finite.
    """
    require_model(model, tokenizer, BertForTokenClassification, exports=True)
    rows = as_text_list(texts)
    limit = token_limit(model, tokenizer)
    batch = encode_windows(tokenizer, rows, None, limit, limit // 4 if stride is None else stride)
    examples = [
        {"input_ids": np.array(ids), "token_type_ids": np.array(types)}
        for ids, types in zip(batch["input_ids"], batch["token_type_ids"], strict=True)
    ]
    outputs = outputs_of(model, examples, lambda output: output.logits)
    labels = [logits.argmax(-1).tolist() for logits in outputs]
    scores = [logits.softmax(-1).amax(-1).tolist() for logits in outputs]
    results: list[list[Entity]] = []
    for text, views in zip(rows, words_of_texts(batch, len(rows), by_piece), strict=True):
        words = [views[number] for number in sorted(views)]
        tags = [model.config.id2label[labels[word.window][word.position]] for word in words]
        entities = []
        for kind, first, stop in entity_spans(tags):
            start, end = words[first].start, words[stop - 1].end
            score = fmean(scores[word.window][word.position] for word in words[first:stop])
            entities.append(
                Entity(entity_group=kind, score=score, word=text[start:end], start=start, end=end)
            )
        results.append(entities)
    return results[0] if isinstance(texts, str) else results
