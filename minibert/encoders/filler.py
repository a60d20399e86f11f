"""The words behind [MASK]: `Filler`, and `fill_mask`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypedDict, overload

import numpy as np

from minibert.encoders.head_models import HeadModel, TextOrTexts, as_text_list, excerpt
from minibert.encoders.onnx.onnx_heads import OnnxModel
from minibert.encoders.rows.token_rows import token_types_of
from minibert.inference.finite import check_finite
from minibert.tokenization.pieces import pieces_by_id
from minibert.tokenization.tokenizer import BertTokenizer
from minibert.util.checks import check_count

if TYPE_CHECKING:
    from torch import Tensor

    from minibert.heads import BertForMaskedLM, BertForPreTraining


class MaskGuess(TypedDict):
    """A word for a [MASK]: its probability, its token id and the token itself."""

    score: float
    token: int
    token_str: str


class Filler(HeadModel):
    """A masked language model with its tokenizer.

    ```python
    filler = Filler.from_pretrained("minibert-en")
    filler.fill_mask("Paris is the [MASK] of France.")
    ```

    Args, attributes and errors are those of `HeadModel`.
    """

    kind = "masked"
    heads = ("BertForMaskedLM", "BertForPreTraining")

    @overload
    def fill_mask(self, texts: str, top_k: int = 5) -> list[list[MaskGuess]]: ...  # type: ignore[overload-overlap]
    @overload
    def fill_mask(self, texts: Sequence[str], top_k: int = 5) -> list[list[list[MaskGuess]]]: ...
    def fill_mask(self, texts: TextOrTexts, top_k: int = 5) -> Any:
        """As the function `fill_mask`, without model and tokenizer.

        Args:
            texts: A text or several.
            top_k: How many words to return for each [MASK].
        """
        check_count("top_k", top_k)
        tokenizer = self.tokenizer
        rows = as_text_list(texts)
        batch = tokenizer(rows, verbose=False)
        for text, ids in zip(rows, batch["input_ids"], strict=True):
            if tokenizer.mask_token_id not in ids:
                raise ValueError(
                    f"{excerpt(text)} has no {tokenizer.mask_token}. Write it where a word should "
                    "be guessed."
                )
            if len(ids) > self.max_length:
                raise ValueError(
                    f"{excerpt(text)} has {len(ids)} tokens, but the model takes "
                    f"{self.max_length}: shorten it."
                )
        self.warn_of_unread_ids(rows, batch["input_ids"])
        unnamed = [i for i, piece in enumerate(pieces_by_id(tokenizer)) if piece is None]
        results = []
        for logits in self._mask_logits(batch["input_ids"], token_types_of(batch)):
            # a vocabulary that was rounded up has rows without a word
            words = logits[:, : len(tokenizer)].clone()  # (masks, vocab)
            words[:, unnamed] = float("-inf")
            # by their logits: probabilities may be equal after rounding
            best = words.topk(min(top_k, words.shape[-1] - len(unnamed))).indices  # (masks, top_k)
            probabilities = logits.softmax(-1).gather(-1, best)
            masks = []
            for ids, scores in zip(best.tolist(), probabilities.tolist(), strict=True):
                guesses = zip(scores, ids, tokenizer.convert_ids_to_tokens(ids), strict=True)
                masks.append([MaskGuess(score=s, token=i, token_str=t) for s, i, t in guesses])
            results.append(masks)
        return results[0] if isinstance(texts, str) else results

    def _mask_logits(self, ids: list[list[int]], types: list[list[int]]) -> list[Tensor]:
        """The logits of each row's [MASK] tokens, (masks, vocab)."""
        import torch

        mask_id = self.tokenizer.mask_token_id
        if isinstance(self.model, OnnxModel):
            name = self.model.outputs[0]  # the logits of words
            arrays = self.model.graph.run(ids, types, [name])[name]
            results = []
            for logits, row in zip(arrays, ids, strict=True):
                masked = torch.from_numpy(logits[np.array(row) == mask_id])
                check_finite(masked)
                results.append(masked)
            return results
        from minibert.inference.logits import run_rows

        # the decoder is as much work as several layers, so it computes the masked tokens only
        def compute(row_ids: Tensor, **inputs: Any) -> Tensor:
            logits: Tensor = self.model(row_ids, positions=row_ids == mask_id, **inputs)[0]
            return logits  # (masks, vocab)

        return run_rows(self.model, compute, ids, types, [list(row).count(mask_id) for row in ids])


@overload
def fill_mask(  # type: ignore[overload-overlap]
    model: BertForMaskedLM | BertForPreTraining | OnnxModel,
    tokenizer: BertTokenizer,
    texts: str,
    top_k: int = 5,
) -> list[list[MaskGuess]]: ...


@overload
def fill_mask(
    model: BertForMaskedLM | BertForPreTraining | OnnxModel,
    tokenizer: BertTokenizer,
    texts: Sequence[str],
    top_k: int = 5,
) -> list[list[list[MaskGuess]]]: ...


def fill_mask(
    model: BertForMaskedLM | BertForPreTraining | OnnxModel,
    tokenizer: BertTokenizer,
    texts: TextOrTexts,
    top_k: int = 5,
) -> list[list[MaskGuess]] | list[list[list[MaskGuess]]]:
    """Predict the most probable words behind each [MASK].

    Several [MASK] tokens in one text are predicted independently of each other.

    Args:
        model: A model with a masked language modeling head, or its export.
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
    return Filler(model, tokenizer).fill_mask(texts, top_k)
