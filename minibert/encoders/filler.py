"""The words behind [MASK]."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypedDict, overload

from torch import Tensor

from minibert.encoders.head_models import Texts, as_text_list, excerpt, require_model, token_limit
from minibert.heads import BertForMaskedLM, BertForPreTraining
from minibert.inference.logits import run_rows
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
        mask_counts.append(list(ids).count(tokenizer.mask_token_id))
        if mask_counts[-1] == 0:
            raise ValueError(
                f"{excerpt(text)} has no {tokenizer.mask_token}. Write it where a word should be "
                "guessed."
            )
        if len(ids) > limit:
            raise ValueError(
                f"{excerpt(text)} has {len(ids)} tokens, but the model takes {limit}: shorten it."
            )

    # the decoder is as much work as several layers, so it computes the masked tokens only
    def compute(row_ids: Tensor, **inputs: Any) -> Tensor:
        positions = row_ids == tokenizer.mask_token_id
        logits: Tensor = model(row_ids, positions=positions, **inputs)[0]
        return logits  # (masks, vocab)

    results = []
    for logits in run_rows(
        model, compute, batch["input_ids"], batch["token_type_ids"], mask_counts
    ):
        # a vocabulary that was rounded up has rows without a word
        words = logits[:, : len(tokenizer)]  # (masks, vocab)
        # by their logits: probabilities may be equal after rounding
        best = words.topk(min(top_k, words.shape[-1])).indices  # (masks, top_k)
        probabilities = logits.softmax(-1).gather(-1, best)
        masks = []
        for ids, scores in zip(best.tolist(), probabilities.tolist(), strict=True):
            guesses = zip(scores, ids, tokenizer.convert_ids_to_tokens(ids), strict=True)
            masks.append([MaskGuess(score=s, token=i, token_str=t) for s, i, t in guesses])
        results.append(masks)
    return results[0] if isinstance(texts, str) else results
