"""Running a model fast: which texts go together, kernels that suit the processor, threads."""

from collections.abc import Callable, Sequence

# Tokens of one pass through the model: enough for the matrix products to run at full speed in every thread, few enough
# for what lies between two of them to stay in the processor's cache
BATCH_TOKENS = 4096

Report = Callable[[list[int]], object]  # is told the numbers of the rows that are done


def batches(lengths: Sequence[int], batch_tokens: int) -> list[list[int]]:
    """Numbers of rows, longest first, in batches of at most `batch_tokens` tokens (or of a single longer row).

    Sorting makes neighbours equally long, which a `PackedLayout` attends to together; the longest come first, so
    that memory runs out at once if it does at all.
    """
    found: list[list[int]] = []
    tokens = 0
    for index in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        if not found or tokens + lengths[index] > batch_tokens:
            found.append([])
            tokens = 0
        found[-1].append(index)
        tokens += lengths[index]
    return found


def rounded_rows(rows: int) -> int:
    """The rows that so many are filled up to: eight steps an octave.

    oneDNN compiles a product for each number of rows that it meets and keeps it for good, up to a megabyte each.
    """
    step = 1 << max(0, rows.bit_length() - 4)
    return -(-rows // step) * step
