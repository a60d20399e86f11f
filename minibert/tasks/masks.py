"""The words behind [MASK]."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypedDict, overload

from torch import Tensor

from minibert.heads import BertForMaskedLM, BertForPreTraining
from minibert.inference.logits import run_rows
from minibert.tasks.predicting import Texts, as_text_list, excerpt, require_model, token_limit
from minibert.tokenization.tokenizer import BertTokenizer
from minibert.util.checks import check_count


class MaskGuess(TypedDict):
    """A word for a [MASK]: its probability, its token id and the token itself."""

    score: float
    token: int
    token_str: str


@overload
def fill_mask(  # type: ignore[overload-overlap]
    model: BertForMaskedLM | BertForPreTraining,
    tokenizer: BertTokenizer,
    texts: str,
    top_k: int = 5,
) -> list[list[MaskGuess]]: ...


@overload
def fill_mask(
    model: BertForMaskedLM | BertForPreTraining,
    tokenizer: BertTokenizer,
    texts: Sequence[str],
    top_k: int = 5,
) -> list[list[list[MaskGuess]]]: ...


def fill_mask(
    model: BertForMaskedLM | BertForPreTraining,
    tokenizer: BertTokenizer,
    texts: Texts,
    top_k: int = 5,
) -> list[list[MaskGuess]] | list[list[list[MaskGuess]]]:
    """Predict the most probable words behind each [MASK].

    Several [MASK] tokens in one text are predicted independently of each other.

    Args:
        model: A model with a masked language modeling head.
        tokenizer: Its tokenizer.
        texts: A text or several.
        top_k: How many words to return for each [MASK].

    Returns:
        For each text a list, for each [MASK] in it a list of `{"score", "token", "token_str"}`,
        best first. The score is the word's probability, `token` its id.

    Raises:
        TypeError: `model` has no masked language modeling head.
        ValueError: A text has no [MASK], or more tokens than the model takes, or `top_k` is less
            than 1.
    """
    require_model(model, tokenizer, BertForMaskedLM, BertForPreTraining)
    check_count("top_k", top_k)
    rows = as_text_list(texts)
    batch = tokenizer(rows, verbose=False)
    limit = token_limit(model, tokenizer)
    mask_counts = []
    for text, ids in zip(rows, batch["input_ids"], strict=True):
        mask_counts.append(_count_masks(text, ids, tokenizer, limit))

    # the decoder is as much work as several layers, so it computes the masked tokens only
    def compute(row_ids: Tensor, **inputs: Any) -> Tensor:
        positions = row_ids == tokenizer.mask_token_id
        logits: Tensor = model(row_ids, positions=positions, **inputs)[0]
        return logits  # (masks, vocab)

    ids, types = batch["input_ids"], batch["token_type_ids"]
    logits = run_rows(model, compute, ids, types, mask_counts)
    results = [_guesses(row_logits, tokenizer, top_k) for row_logits in logits]
    return results[0] if isinstance(texts, str) else results


def _count_masks(text: str, ids: Sequence[int], tokenizer: BertTokenizer, limit: int) -> int:
    """Count the [MASK] tokens of a text.

    Raises:
        ValueError: The text has no [MASK] or is too long.
    """
    count = list(ids).count(tokenizer.mask_token_id)
    if count == 0:
        raise ValueError(
            f"{excerpt(text)} has no {tokenizer.mask_token}. Write it where a word should be "
            "guessed."
        )
    if len(ids) > limit:
        raise ValueError(
            f"{excerpt(text)} has {len(ids)} tokens, but the model takes {limit}: shorten it."
        )
    return count


def _guesses(logits: Tensor, tokenizer: BertTokenizer, top_k: int) -> list[list[MaskGuess]]:
    """The best words of each [MASK] of a text, from `logits` (masks, vocab)."""
    # a vocabulary that was rounded up has rows without a word
    probabilities = logits.softmax(-1)[:, : len(tokenizer)]
    best = probabilities.topk(min(top_k, probabilities.shape[-1]))
    masks = []
    for ids, scores in zip(best.indices.tolist(), best.values.tolist(), strict=True):
        tokens = tokenizer.convert_ids_to_tokens(ids)
        guesses = [
            MaskGuess(score=score, token=token_id, token_str=token)
            for token, token_id, score in zip(tokens, ids, scores, strict=True)
        ]
        masks.append(guesses)
    return masks
