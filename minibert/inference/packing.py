"""Many rows through a model: sorted by length, packed without padding, returned in their order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import chain
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from minibert.base import PreTrainedModel
from minibert.inference.batching import BATCH_TOKENS, Report, batches
from minibert.inference.threads import free_threads
from minibert.layouts import PackedLayout

IdRows = Sequence[Sequence[int]]  # token ids or token types, a list or an array for each row


def run_packed(
    model: PreTrainedModel,
    forward: Callable[[Tensor, PackedLayout, Tensor | None], Tensor],
    rows: IdRows,
    types: IdRows | None = None,
    sizes: Sequence[int] | None = None,
    *,
    batch_tokens: int = BATCH_TOKENS,
    report: Report | None = None,
) -> list[Tensor]:
    """Runs a model on rows of token ids, many of them in one pass. No row attends to another.

    It runs without dropout and gradients, and in the model's own precision whatever
    `torch.autocast` around the call says.

    An optimized model on the CPU runs many batches side by side, each in a thread of its own, which
    waits for the others only at the end. A few batches run one after the other, each shared among
    all threads.

    Args:
        model: It is in eval mode meanwhile.
        forward: Runs it on ids (tokens,) with their layout and token types (tokens,), and returns
            (sum of sizes, ...).
        rows: Token ids of each row.
        types: Token types of each row. None: all 0.
        sizes: How many results each row has. None: one for each of its tokens.
        batch_tokens: Tokens of one pass at most. An optimized model on the CPU may take fewer.
        report: Progress callback. Receives the indices of finished rows.

    Returns:
        The results of each row, (size, ...).

    Raises:
        ValueError: An id has no row in the embedding table. The error names the model.
    """
    lengths = [len(row) for row in rows]
    if sizes is None:
        sizes = lengths
    base = model.base_model
    table = getattr(base.embeddings, "word_embeddings", None)
    known = table.weight if type(table) is nn.Embedding else None
    # `model.device` walks through all modules
    device = model.device if known is None else known.device

    def joined(rows: IdRows, indices: list[int]) -> NDArray[np.int64]:
        return np.fromiter(chain.from_iterable(rows[index] for index in indices), np.int64)

    def run(indices: list[int]) -> Tensor:
        layout = PackedLayout([lengths[index] for index in indices])
        ids = joined(rows, indices)  # (tokens,)
        # here, because a GPU could not say which id it is. Only torch's own table is known
        # to have a row for each id
        if known is not None and ids.size and ids.max() >= len(known):
            from minibert.inputs.explain import id_without_row

            name = model.config.name_or_path
            raise id_without_row("input_ids", int(ids.max()), len(known), name)
        row_types = None
        if types is not None:
            row_types = torch.from_numpy(joined(types, indices)).to(device)
        with torch.inference_mode(), without_autocast(device.type), threads(sum(layout.lengths)):
            return forward(torch.from_numpy(ids).to(device), layout, row_types)

    encoder = base.encoder
    threads: Any = free_threads if getattr(encoder, "has_fixed_bits", False) else nullcontext
    run_all: Callable[..., Iterable[Tensor]] = map
    if hasattr(encoder, "plan"):  # an optimized encoder has threads for many batches
        groups, run_all = encoder.plan(lengths, batch_tokens, device)
    else:
        groups = batches(lengths, batch_tokens)
    results: list[Any] = [None] * len(rows)
    with eval_mode(model):
        for indices, outputs in zip(groups, run_all(run, groups), strict=True):
            parts: Sequence[Tensor] = [outputs]
            if len(indices) > 1:
                parts = outputs.split_with_sizes([sizes[index] for index in indices])
            for index, part in zip(indices, parts, strict=True):
                results[index] = part
            if report is not None:
                report(indices)
    return results


def weights_of(module: nn.Module) -> Iterator[Any]:
    """The bytes of all weights of a module by name, in the order of the names.

    The parts of optimized models have another order.
    """
    for name, tensor in sorted(module.state_dict().items()):
        yield name.encode()
        yield tensor.detach().cpu().contiguous().view(torch.uint8).numpy()


def without_autocast(device_type: str) -> AbstractContextManager[Any]:
    """A context without `torch.autocast` on devices of this type.

    That is slow to enter, so it does nothing where autocast is off.
    """
    if torch.is_autocast_enabled(device_type):
        return torch.autocast(device_type, enabled=False)
    return nullcontext()


@contextmanager
def eval_mode(model: PreTrainedModel) -> Iterator[None]:
    """A context in which a model is in eval mode. Afterwards each of its modules is as before."""
    if not model.training:
        yield
        return
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in training:  # frozen ones may have been in eval mode
            module.training = True
