"""Logits of many rows of token ids, whatever head the model has."""

from collections.abc import Callable, Sequence

from torch import Tensor

from minibert.base import PreTrainedModel
from minibert.inference.finite import check_finite
from minibert.inference.packing import IdRows, run_packed
from minibert.layouts import PackedLayout


def run_rows(
    model: PreTrainedModel,
    compute: Callable[..., Tensor],
    ids: IdRows,
    types: IdRows | None = None,
    sizes: Sequence[int] | None = None,
) -> list[Tensor]:
    """Runs a model on rows of token ids, sorted by length and packed without padding.

    Args:
        model: The model. Dropout is off meanwhile.
        compute: Calls the model. It takes the ids (tokens,) and keyword arguments of `forward`,
            and returns logits.
        ids: Token ids of each row.
        types: Token types of each row. None: all 0.
        sizes: How many logits each row has. None: one for each of its tokens.

    Returns:
        The logits of each row, (size, classes), float32, on the CPU.

    Raises:
        NotFiniteError: The logits are not finite.
    """

    def forward(row_ids: Tensor, layout: PackedLayout, row_types: Tensor | None) -> Tensor:
        logits = compute(
            row_ids,
            token_type_ids=row_types,
            layout=layout,
            output_attentions=False,
            return_dict=True,
        )
        logits = logits.float().cpu()
        check_finite(logits, model=model.config.name_or_path)
        return logits

    return run_packed(model, forward, ids, types, sizes)
