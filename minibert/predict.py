"""Ready-made predictions: a fine-tuned model, its tokenizer and texts in, plain dictionaries out.

One text gives one result, a list of texts a list of results. Texts go through the model sorted by length and packed,
so no time goes into padding; dropout is off.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from operator import attrgetter
from reprlib import Repr
from statistics import fmean
from typing import Any, NamedTuple

import torch
from torch import Tensor

from minibert.checks import check_count
from minibert.config import BertConfig
from minibert.heads import (
    BertForMaskedLM,
    BertForPreTraining,
    BertForQuestionAnswering,
    BertForSequenceClassification,
    BertForTokenClassification,
)
from minibert.inference.packing import IdRows, run_packed
from minibert.layouts import PackedLayout
from minibert.pretrained import PreTrainedModel
from minibert.tokenization.encoding import Encoding
from minibert.tokenization.tokenizer import BertTokenizer

Texts = str | Sequence[str]

_brief = Repr()
_brief.maxstring = 50


def classify(
    model: BertForSequenceClassification,
    tokenizer: BertTokenizer,
    texts: Texts,
    pairs: Texts | None = None,
) -> list[Any]:
    """Labels of texts, or of `texts` and `pairs` where the model compares two; of long ones the beginning counts.

    Returns:
        For each text a list of `{"label", "score"}`, all labels, best first. The score is a probability, by softmax,
        or by sigmoid where `problem_type` is "multi_label_classification"; of a regression it is the number itself.
    """
    _require(model, BertForSequenceClassification)
    config = model.config
    rows, second = _as_list(texts), None if pairs is None else _as_list(pairs)
    results = []
    batch = tokenizer(rows, second, truncation=True, max_length=_limit(model, tokenizer))
    for logits in logits_of_rows(model, batch["input_ids"], batch["token_type_ids"]):
        scores = class_scores(config, logits).tolist()
        labels = [
            {"label": config.id2label[number], "score": score}
            for number, score in enumerate(scores)
        ]
        results.append(sorted(labels, key=lambda label: -float(label["score"])))
    return results[0] if isinstance(texts, str) else results


def class_scores(config: BertConfig, logits: Tensor) -> Tensor:
    """Scores of a classifier's logits, both (..., labels), as `classify` explains them."""
    if config.problem_type == "multi_label_classification":
        return logits.sigmoid()
    return (
        logits
        if config.problem_type == "regression" or config.num_labels == 1
        else logits.softmax(-1)
    )


def logits_of_rows(
    model: BertForSequenceClassification, ids: IdRows, types: IdRows | None = None
) -> Tensor:
    """Logits of rows of token ids and token types: (N, labels) float32."""
    batch = {"input_ids": ids, "token_type_ids": types}
    found = _logits(model, batch, lambda ids, **inputs: model(ids, **inputs).logits, [1] * len(ids))
    return torch.cat(found) if found else torch.empty(0, model.config.num_labels)


def fill_mask(
    model: BertForMaskedLM | BertForPreTraining,
    tokenizer: BertTokenizer,
    texts: Texts,
    top: int = 5,
) -> list[Any]:
    """The `top` words behind each [MASK]; several in one text are guessed independently of each other.

    Returns:
        For each text a list, for each [MASK] in it a list of `{"token", "id", "score"}`, best first; the score is the
        word's probability.

    Raises:
        ValueError: a text without [MASK], or too long for the model.
    """
    _require(model, BertForMaskedLM, BertForPreTraining)
    check_count("top", top)
    rows, mask, limit = _as_list(texts), tokenizer.mask_token_id, _limit(model, tokenizer)
    batch = tokenizer(rows, verbose=False)
    masks = [row.count(mask) for row in batch["input_ids"]]
    for text, row, count in zip(rows, batch["input_ids"], masks, strict=True):
        if not count:
            raise ValueError(
                f"There is no {tokenizer.mask_token} in {_brief.repr(text)}; write it where a word is wanted."
            )
        if len(row) > limit:
            raise ValueError(
                f"{_brief.repr(text)} has {len(row)} tokens, but the model takes {limit}: shorten it."
            )
    # the decoder is as much work as several layers, so it sees the masked tokens only
    found = _logits(
        model, batch, lambda ids, **inputs: model(ids, positions=ids == mask, **inputs)[0], masks
    )
    results = []
    for logits in found:
        known = logits.softmax(-1)[
            :, : len(tokenizer)
        ]  # a vocabulary that was rounded up has rows without a word
        best = known.topk(min(top, known.shape[-1]))
        guesses = []
        for ids, scores in zip(best.indices.tolist(), best.values.tolist(), strict=True):
            words = zip(tokenizer.convert_ids_to_tokens(ids), ids, scores, strict=True)
            guesses.append(
                [{"token": token, "id": number, "score": score} for token, number, score in words]
            )
        results.append(guesses)
    return results[0] if isinstance(texts, str) else results


class _Word(NamedTuple):
    """A word of a text, `[start, end)` in characters, as one window sees it."""

    start: int
    end: int
    margin: int  # tokens from its first piece to the nearer end of the window
    label: str
    score: float


def find_entities(
    model: BertForTokenClassification,
    tokenizer: BertTokenizer,
    texts: Texts,
    stride: int | None = None,
    by_piece: bool = False,
) -> list[Any]:
    """Labelled spans of texts, such as names.

    A word has the label of its first piece. Neighbours of one kind make a span, which B- begins anew; I- continues,
    also where no B- came before; E- and L- end, and S- and U- are spans alone. A label without such a prefix is a
    kind itself, and O is none.

    Words are the tokenizer's: cut at white space and around punctuation. CoNLL's words are not, and a model that has
    learned `U.S.` as one word has never been asked about its parts.

    Args:
        model: a token classifier.
        tokenizer: its tokenizer.
        texts: one that is too long for the model is read in windows; of two windows that hold a word, the one counts
            that shows more around it.
        stride: tokens that neighbouring windows share; None: a quarter of a window.
        by_piece: a piece's label is its own and not that of its word, as a model has learned it from labels for each
            character: a name may end inside a word, as before a Korean particle.

    Returns:
        For each text a list of `{"label", "score", "start", "end", "text"}` in the order of the text: the kind, the
        mean probability of its words' labels, and where it lies, `[start, end)` in characters.
    """
    _require(model, BertForTokenClassification)
    rows = _as_list(texts)
    stride = _limit(model, tokenizer) // 4 if stride is None else stride
    words: list[dict[int, _Word]] = [{} for _ in rows]
    for sample, row, logits in _windows(model, tokenizer, rows, None, stride):
        scores, labels = logits.softmax(-1).max(-1)
        names = [model.config.id2label[label] for label in labels.tolist()]
        for number, word in _words(row, names, scores.tolist(), by_piece).items():
            known = words[sample].setdefault(number, word)
            # the window that shows its beginning, or else more around it; and as far as either reaches
            best = min(known, word, key=lambda seen: (seen.start, -seen.margin))
            words[sample][number] = best._replace(end=max(known.end, word.end))
    all_labels = set(model.config.id2label.values())
    results: list[list[dict[str, Any]]] = [[] for _ in rows]
    for numbered, text, entities in zip(words, rows, results, strict=True):
        own = [numbered[number] for number in sorted(numbered)]
        for kind, first, after in entity_spans([word.label for word in own], all_labels):
            start, end = own[first].start, own[after - 1].end
            score = fmean(word.score for word in own[first:after])
            entities.append(
                {"label": kind, "score": score, "start": start, "end": end, "text": text[start:end]}
            )
    return results[0] if isinstance(texts, str) else results


def _words(
    row: Encoding, labels: list[str], scores: list[float], by_piece: bool
) -> dict[int, _Word]:
    """The words of a window by their number in the text, or its pieces by where they begin."""
    words: dict[int, _Word] = {}
    for place, (number, (start, end)) in enumerate(zip(row.word_ids, row.offsets, strict=True)):
        if number is None:
            continue
        number = start if by_piece else number
        if number in words:
            words[number] = words[number]._replace(end=end)
        else:
            margin = min(place, len(row.ids) - 1 - place)
            words[number] = _Word(start, end, margin, labels[place], scores[place])
    return words


def entity_spans(labels: Sequence[str], known: Set[str]) -> list[tuple[str, int, int]]:
    """Neighbours of one kind, put together as `find_entities` does.

    Args:
        labels: one for each word.
        known: all labels that there are, which tell a prefix from a part of a name.

    Returns:
        Kind, first word and the word after the last of each span.
    """
    spans: list[tuple[str, int, int]] = []
    going_on = ""  # the kind of the span that the next word may continue
    for place, (prefix, kind) in enumerate(_prefix(label, known) for label in labels):
        if kind == "O":
            going_on = ""
            continue
        first = spans.pop()[1] if kind == going_on and prefix not in ("B", "S", "U") else place
        spans.append((kind, first, place + 1))
        going_on = "" if prefix in ("E", "L", "S", "U") else kind
    return spans


def _prefix(label: str, known: Set[str]) -> tuple[str, str]:
    """("B", "PER") of "B-PER"; a label that only looks like that, such as "E-mail", has the prefix ""."""
    prefix, dash, kind = label.partition("-")
    if (
        dash
        and prefix in tuple("BIELSU")
        and (prefix in "BI" or {f"B-{kind}", f"I-{kind}"} & known)
    ):
        return prefix, kind
    return "", label


def answer_question(
    model: BertForQuestionAnswering,
    tokenizer: BertTokenizer,
    questions: Texts,
    contexts: Texts,
    *,
    stride: int | None = None,
    max_answer_length: int = 30,
    no_answer: bool = False,
) -> Any:
    """The best answer to a question in a context, which may be longer than what the model takes at once.

    Of all windows, the span whose first token's start logit and last token's end logit have the largest sum
    (paper, section 4.2).

    Args:
        model: a question answerer.
        tokenizer: its tokenizer.
        questions: a question or several.
        contexts: the text that holds the answer, one for each question.
        stride: tokens of context that neighbouring windows share; None: a quarter of a window, or half of what a long
            question leaves of it.
        max_answer_length: tokens of the longest answer.
        no_answer: allow for questions that the context does not answer (paper, section 4.3): the score of that is
            what [CLS] has as start and end, in the window where it is lowest, and the text is empty where it is higher
            than the best span's.

    Returns:
        For each question `{"text", "score", "start", "end"}`: the answer, its two logits' sum, and where it lies,
        `[start, end)` in characters of the context. With `no_answer` also "no_answer_score".

    Raises:
        ValueError: a context without a word, or a question that leaves no room for it.
    """
    _require(model, BertForQuestionAnswering)
    check_count("max_answer_length", max_answer_length)
    rows, second, limit = _as_list(questions), _as_list(contexts), _limit(model, tokenizer)
    longest = max(
        map(len, tokenizer(rows, add_special_tokens=False, verbose=False)["input_ids"]), default=0
    )
    if longest > limit - 4:  # [CLS], two [SEP] and a token of the context
        raise ValueError(
            f"A question has {longest} tokens; the model has room for {limit - 4}: shorten it."
        )
    if stride is None:
        stride = max(0, min(limit // 4, (limit - longest - 3) // 2))
    spans: list[list[tuple[float, int, int]]] = [[] for _ in rows]
    nothing: list[list[float]] = [[] for _ in rows]
    for sample, row, logits in _windows(model, tokenizer, rows, second, stride):
        in_context = torch.tensor([number == 1 for number in row.sequence_ids])
        if span := best_span(logits, in_context, max_answer_length):
            score, first, last = span
            spans[sample].append((score, row.offsets[first][0], row.offsets[last][1]))
        nothing[sample].append(logits[0].sum().item())
    results = []
    for context, candidates, scores in zip(second, spans, nothing, strict=True):
        if not candidates:
            raise ValueError(f"The context {_brief.repr(context)} holds no word to answer with.")
        score, start, end = max(candidates)
        result = {"text": context[start:end], "score": score, "start": start, "end": end}
        if no_answer:
            result["no_answer_score"] = min(scores)
            if min(scores) > score:
                result |= {"text": "", "start": 0, "end": 0}
        results.append(result)
    return results[0] if isinstance(questions, str) else results


def _windows(
    model: PreTrainedModel,
    tokenizer: BertTokenizer,
    texts: list[str],
    pairs: list[str] | None,
    stride: int,
) -> Iterator[tuple[int, Encoding, Tensor]]:
    """Texts, or the second of pairs, in windows that the model takes: number of the text, tokens, logits of each."""
    batch = tokenizer(
        texts,
        pairs,
        truncation=True if pairs is None else "only_second",
        max_length=_limit(model, tokenizer),
        stride=stride,
        return_overflowing_tokens=True,
    )
    read = attrgetter("logits") if pairs is None else span_logits
    found = _logits(model, batch, lambda ids, **inputs: read(model(ids, **inputs)))
    return zip(batch["overflow_to_sample_mapping"], batch.encodings, found, strict=True)


def span_logits(output: Any) -> Tensor:
    """A question answerer's logits side by side: (tokens, 2) for packed rows."""
    return torch.stack([output.start_logits, output.end_logits], dim=-1)


def best_span(logits: Tensor, context: Tensor, longest: int) -> tuple[float, int, int] | None:
    """The span with the largest sum of its first token's start logit and its last token's end logit.

    Args:
        logits: start and end, (tokens, 2).
        context: which tokens may take part, (tokens,).
        longest: tokens of the longest span.

    Returns:
        The sum, first and last token; None where no token may take part.
    """
    sums = logits[:, None, 0] + logits[None, :, 1]  # (first token, last token)
    allowed = (context[:, None] & context).triu().tril(longest - 1)
    if not allowed.any():
        return None
    first, last = divmod(int(sums.masked_fill(~allowed, -torch.inf).argmax()), len(sums))
    return sums[first, last].item(), first, last


def _logits(
    model: PreTrainedModel,
    batch: Mapping[str, Any],
    score: Callable[..., Tensor],
    sizes: Sequence[int] | None = None,
) -> list[Tensor]:
    """`run_packed` on a batch of lists, whatever the config says: logits of each row, (size, classes) float32, CPU.

    `score` gets ids (tokens,) and the inputs that go with them.
    """

    def forward(ids: Tensor, layout: PackedLayout, types: Tensor | None) -> Tensor:
        options = {"output_attentions": False, "return_dict": True}
        logits = score(ids, token_type_ids=types, layout=layout, **options).float().cpu()
        if not logits.isfinite().all():
            raise ValueError("The model's logits are not finite: its weights are damaged.")
        return logits

    return run_packed(model, forward, batch["input_ids"], batch["token_type_ids"], sizes)


def _require(model: Any, *kinds: type) -> None:
    if not isinstance(model, kinds):
        raise TypeError(
            f"model should be a {' or '.join(k.__name__ for k in kinds)}, not a {type(model).__name__}."
        )


def _as_list(texts: Texts) -> list[str]:
    if isinstance(texts, Mapping | set):
        raise ValueError(
            f"texts is a {type(texts).__name__}; pass a string or a list of strings, and second texts on their own."
        )
    return [texts] if isinstance(texts, str) else list(texts)


def _limit(model: PreTrainedModel, tokenizer: BertTokenizer) -> int:
    return min(tokenizer.model_max_length, model.config.max_position_embeddings)
