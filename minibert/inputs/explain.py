"""Which id or label has no row, asked after PyTorch has raised an IndexError.

Questions about every value of a tensor take time, and on a GPU they wait for it. So this module is
imported when there is something to explain.
"""

from typing import Any

from torch import Tensor

from minibert.inputs import count_rows

# What to check first if an id has no row in the embedding table of this argument.
_ADVICE = {
    "input_ids": "Are the tokenizer and the model from the same checkpoint?",
    "token_type_ids": "The number of segments is config.type_vocab_size.",
    "position_ids": "Positions count from 0 to config.max_position_embeddings - 1.",
}


def explain_ids(
    error: IndexError,
    embeddings: Any,
    input_ids: Tensor | None,
    token_type_ids: Tensor | None,
    position_ids: Tensor | None,
) -> Exception:
    """Return an error that names the id without a row in its embedding table.

    Args:
        error: What PyTorch has raised. It is returned if every id has a row.
        embeddings: The `BertEmbeddings`.
        input_ids: Ids that were looked up, like the next two.
        token_type_ids: See `input_ids`.
        position_ids: See `input_ids`.
    """
    looked_up = {
        "input_ids": (input_ids, embeddings.word_embeddings),
        "token_type_ids": (token_type_ids, embeddings.token_type_embeddings),
        "position_ids": (position_ids, embeddings.position_embeddings),
    }
    for argument, (tensor, table) in looked_up.items():
        rows = count_rows(table)
        if tensor is None or rows is None:
            continue
        is_invalid = (tensor < 0) | (tensor >= rows)
        if is_invalid.any():
            return id_without_row(argument, int(tensor[is_invalid][0]), rows)
    return error


def id_without_row(argument: str, value: int, rows: int, model: str = "") -> ValueError:
    """Return the error for an id without a row in its embedding table.

    Args:
        argument: The name of the ids.
        value: The id.
        rows: Number of rows of the table.
        model: Folder or name of the model, if it is known.
    """
    beginning = f"{model}: {argument}" if model else argument
    return ValueError(
        f"{beginning} contains {value}, but the embedding table has {rows} rows (valid ids 0 to "
        f"{rows - 1}). {_ADVICE[argument]}"
    )


def explain_classes(labels: Tensor, classes: int, ignored: int) -> Exception:
    """Return an error that names the label out of range, after PyTorch has raised an IndexError."""
    is_invalid = ((labels < 0) | (labels >= classes)) & (labels != ignored)
    return ValueError(
        f"labels contains {labels[is_invalid][0].item()}, but the model has {classes} classes "
        f"(0 to {classes - 1}). Correct the labels, or num_labels if it is too small."
    )
