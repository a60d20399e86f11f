"""Which rows go through a model together. Without torch, so that ONNX Runtime can use it alone."""

from collections.abc import Callable, Sequence

# Tokens of one pass through the model: enough for matrix products to run at full speed in every
# thread, few enough for the values between two products to stay in the processor's cache
BATCH_TOKENS = 4096

Report = Callable[[list[int]], object]  # progress callback; receives the indices of finished rows


def batches(lengths: Sequence[int], batch_tokens: int) -> list[list[int]]:
    """Groups row indices into batches, longest rows first.

    Sorting makes neighbors equally long, which a `PackedLayout` attends to together. The longest
    come first, so that memory runs out at once if it does at all.

    Args:
        lengths: Tokens of each row.
        batch_tokens: Tokens of a batch. A longer row is a batch of its own.
    """
    groups: list[list[int]] = []
    tokens = 0
    for index in sorted(range(len(lengths)), key=lambda index: -lengths[index]):
        if not groups or tokens + lengths[index] > batch_tokens:
            groups.append([])
            tokens = 0
        groups[-1].append(index)
        tokens += lengths[index]
    return groups


def rounded_rows(rows: int, smallest_step: int = 1) -> int:
    """Rounds a row count up to one of eight sizes per power of two.

    oneDNN compiles a product for each number of rows it is called with and keeps it for good, up
    to a megabyte each.

    Args:
        rows: Of a product.
        smallest_step: Least distance of two sizes.
    """
    step = max(smallest_step, 1 << max(0, rows.bit_length() - 4))
    return -(-rows // step) * step


def rounded_tokens(tokens: int) -> int:
    """Rounds the tokens of a batch up by `rounded_rows`, to at least four.

    Sizes that lie closer together would take memory, and save hardly any time: the products of few
    rows spend it on reading the weights.
    """
    return rounded_rows(tokens, smallest_step=4)
