"""Checks of what a model is called with. Each raises a ValueError that names the argument.

The model, its parts and the layouts call them in one line each. A first reader can skip this file.
Nothing here changes what is computed. Labels are checked in labels.py.

Questions about every value of a tensor take time, and on a GPU they wait for it. So explain.py asks
which id is out of range only after PyTorch has raised an IndexError.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from minibert.config import BertConfig
from minibert.util.errors import ArgumentError


def is_traced(tensor: Tensor) -> bool:
    """Whether a call only records a graph, so that no branch may depend on the values of `tensor`.

    This is the case under `torch.compile`, `torch.export`, `torch.jit.trace` and both exporters to
    ONNX, on the meta device, for fake tensors, and while a CUDA graph is captured.
    """
    return (
        torch.compiler.is_compiling()
        or torch.jit.is_tracing()  # type: ignore[attr-defined, no-untyped-call]
        or tensor.is_meta
        or type(tensor) is not Tensor
        or (tensor.is_cuda and torch.cuda.is_current_stream_capturing())
    )


# --- masks and layouts


def check_tensor(argument: str, value: Any) -> None:
    """Check that the value of an argument is a tensor."""
    if not isinstance(value, Tensor):
        raise ArgumentError(
            argument,
            f"should be a tensor, not {type(value).__name__}: pass torch.tensor({argument}).",
        )


def check_mask(attention_mask: Any) -> None:
    """Check that an attention mask is a tensor of two to four dimensions."""
    check_tensor("attention_mask", attention_mask)
    if attention_mask.dim() not in (2, 3, 4):
        raise ArgumentError(
            "attention_mask",
            f"has shape {tuple(attention_mask.shape)}, but it should be "
            "(batch, seq), (batch, seq, seq) or (batch, heads, seq, seq).",
        )


def hides_tokens(attention_mask: Tensor, is_additive: bool) -> bool:
    """Whether a mask hides any token, after checking its values. On a GPU, this waits for it."""
    if is_additive:
        is_valid = (attention_mask == 0) | (attention_mask <= -1000)
        if not is_valid.all():
            raise ArgumentError(
                "attention_mask",
                f"with four dimensions and {attention_mask.dtype} is added to the "
                "scores, so its values should be 0 (visible) or -1000 and less (hidden). Or pass "
                "torch.bool, True for visible.",
            )
        return bool(attention_mask.any())
    if attention_mask.numel() == 0:
        return False
    lowest = attention_mask.min()
    if not lowest >= 0:  # also refuses NaN, which compares as False
        raise ArgumentError(
            "attention_mask",
            f"contains {lowest:g}, but it should be 1 for tokens and 0 for padding.",
        )
    return bool(lowest == 0)


def check_padded(tokens: torch.Size, mask_shape: tuple[int, ...], argument: str) -> None:
    """Check that tokens are (batch, seq), and that a mask broadcasts to that shape.

    Args:
        tokens: The shape of the tokens.
        mask_shape: The shape of the mask, () without a mask.
        argument: The argument that has the tokens, as the error should call it.
    """
    if len(tokens) != 2:
        raise ArgumentError(
            argument,
            f"should have tokens of shape (batch, seq), not {tuple(tokens)}. A "
            "single sequence is a batch of one: input_ids[None].",
        )
    batch, seq = tokens
    if seq == 0:
        raise ArgumentError(
            argument,
            f"has tokens of shape {tuple(tokens)}, but every sequence needs at least one token.",
        )
    if not mask_shape:
        return
    fits = mask_shape[0] in (1, batch) and mask_shape[-1] == seq
    if len(mask_shape) > 2:  # (..., queries, keys)
        fits = fits and mask_shape[-2] in (1, seq)
    if not fits:
        raise ArgumentError(
            "attention_mask",
            f"has shape {mask_shape}, but {argument} has tokens of shape "
            f"{tuple(tokens)}. The mask should be (batch, seq), (batch, seq, seq) or "
            "(batch, heads, seq, seq).",
        )


def check_packed(tokens: torch.Size, expected: int, argument: str) -> None:
    """Check that tokens are (tokens,), as many as the lengths of a packed layout add up to."""
    if tuple(tokens) != (expected,):
        raise ArgumentError(
            argument,
            f"should have tokens of shape ({expected},), as the lengths of the "
            f"PackedLayout add up to {expected}, not {tuple(tokens)}.",
        )


def is_autocast(x: Tensor) -> bool:
    """Whether operations on the device of `x` run under `torch.autocast`."""
    device_type = x.device.type
    available = torch.amp.is_autocast_available(device_type)
    return available and torch.is_autocast_enabled(device_type)


def check_lengths(lengths: list[int]) -> None:
    """Check that packed sequences have at least one token each."""
    if min(lengths, default=1) < 1:
        raise ValueError(
            f"PackedLayout lengths contains {min(lengths)}, but every sequence needs at "
            "least one token. Leave empty sequences out."
        )


# --- the model


def check_batch(
    config: BertConfig,
    layout: Any,
    input_ids: Any,
    inputs_embeds: Any,
    unused: Mapping[str, Any],
) -> None:
    """Check the arguments of `BertModel.forward`, but for the ids, which the embeddings check.

    Raises:
        ValueError: Arguments that exclude each other, or one that asks for what minibert lacks.
        TypeError: An unknown argument.
    """
    if unused:
        from minibert.compat.keywords import MODEL, check_unused

        check_unused("BertModel.forward", unused, MODEL)
    heads = config.num_attention_heads  # fewer where a user has cut some off
    if layout.mask is not None and layout.mask.shape[1] > heads:
        raise ArgumentError(
            "attention_mask", f"is for {layout.mask.shape[1]} heads, but the model has {heads}."
        )
    if (input_ids is None) == (inputs_embeds is None):
        raise ValueError("BertModel takes exactly one of input_ids and inputs_embeds.")


def check_outputs(layout: Any, output_hidden_states: Any, output_attentions: Any) -> None:
    """Check what `BertModel.forward` is asked to return.

    Raises:
        ValueError: Some hidden states, or the attention probabilities of a packed batch.
    """
    if not isinstance(output_hidden_states, bool):
        raise ArgumentError(
            "output_hidden_states",
            f"should be True, False or None, not {output_hidden_states!r:.80}. With True, "
            "hidden_states of the output has all of them, to select from by index.",
        )
    if layout.is_packed and output_attentions:
        raise ArgumentError(
            "output_attentions",
            "needs a padded batch, because the attention probabilities of "
            "packed sequences have different shapes. Pass input_ids (batch, seq) and "
            "attention_mask.",
        )


def check_heads(config: BertConfig) -> None:
    """Check that the attention heads divide the hidden dimensions evenly."""
    if config.hidden_size % config.num_attention_heads:
        raise ValueError(
            f"config field hidden_size ({config.hidden_size}) should be a multiple of "
            f"num_attention_heads ({config.num_attention_heads})."
        )


def check_attentions(attentions: list[Tensor], layers: int) -> None:
    """Check that each layer has returned its attention probabilities."""
    if len(attentions) != layers:
        raise ArgumentError(
            "output_attentions",
            f"needs the attention probabilities of {layers} layers, but "
            f"{len(attentions)} returned some. Use an attention function that returns its "
            "probabilities, such as eager_attention, and layers that return "
            "(hidden_states, attentions).",
        )


# --- the embeddings


def check_ids(
    embeddings: Any,
    layout: Any,
    input_ids: Any,
    token_type_ids: Any,
    position_ids: Any,
    inputs_embeds: Any,
    unused: Mapping[str, Any],
) -> None:
    """Check the arguments of `BertEmbeddings.forward`, but for the values of the ids.

    Args:
        embeddings: The `BertEmbeddings`.
        layout: The layout of the batch. None: they are called alone, with tokens of any shape.
        input_ids: As in `BertEmbeddings.forward`, like the next four.
        token_type_ids: See `input_ids`.
        position_ids: See `input_ids`.
        inputs_embeds: See `input_ids`.
        unused: See `input_ids`.

    Raises:
        ValueError: A tensor has the wrong dtype or shape, or the sequence is too long.
        TypeError: An unknown argument.
    """
    if unused:
        from minibert.compat.keywords import EMBEDDINGS, check_unused

        check_unused("BertEmbeddings.forward", unused, EMBEDDINGS)
    if inputs_embeds is None:
        if layout is not None and isinstance(input_ids, Tensor):
            layout.check(input_ids.shape, "input_ids")
        _check_integers("input_ids", input_ids)
        tokens = input_ids.shape
    else:
        if layout is not None:
            _check_embeds(embeddings, layout, inputs_embeds)
        tokens = inputs_embeds.shape[:-1]
    if token_type_ids is not None:
        _check_integers("token_type_ids", token_type_ids)
        _check_shape("token_type_ids", token_type_ids, tokens)
    if position_ids is not None:
        _check_integers("position_ids", position_ids)
        _check_shape("position_ids", position_ids, tokens)
    else:
        words = input_ids if inputs_embeds is None else inputs_embeds
        _check_length(embeddings, layout, tokens, words)


def _check_integers(argument: str, ids: Any) -> None:
    if not isinstance(ids, Tensor):
        raise ArgumentError(
            argument,
            f"should be a tensor of integers (torch.long), not {type(ids).__name__}. "
            'Pass what the tokenizer returns with return_tensors="pt" as model(**batch).',
        )
    if ids.dtype not in (torch.long, torch.int):
        raise ArgumentError(
            argument, f"should be a tensor of integers (torch.long), not {ids.dtype}."
        )


def _check_shape(argument: str, ids: Tensor, tokens: torch.Size) -> None:
    """Check that ids have the shape of the tokens. A padded batch may share one row of ids."""
    is_shared_row = len(tokens) == 2 and ids.shape in (tokens[1:], (1, *tokens[1:]))
    if ids.shape != tokens and not is_shared_row:
        raise ArgumentError(
            argument,
            f"should have the shape of the tokens, {tuple(tokens)}, not {tuple(ids.shape)}.",
        )


def _check_length(embeddings: Any, layout: Any, tokens: torch.Size, words: Tensor) -> None:
    longest = count_rows(embeddings.position_embeddings)
    if longest is None or is_traced(words):
        return
    seq = tokens[-1]
    if layout is not None and layout.is_packed:
        seq = max(layout.lengths, default=0)
    if seq > longest:
        raise ValueError(
            f"The sequence has {seq} tokens, but max_position_embeddings is {longest}. Pass "
            "truncation=True to the tokenizer."
        )


def _check_embeds(embeddings: Any, layout: Any, inputs_embeds: Any) -> None:
    """Check that `inputs_embeds` can take the place of word embeddings."""
    if isinstance(inputs_embeds, Tensor):
        layout.check(inputs_embeds.shape[:-1], "inputs_embeds")
    weight = embeddings.token_type_embeddings.weight  # it is added to them
    expected = f"{weight.dtype} of shape (batch, seq, {weight.shape[-1]})"
    if not isinstance(inputs_embeds, Tensor):
        raise ArgumentError(
            "inputs_embeds", f"should be a tensor, {expected}, not {type(inputs_embeds).__name__}."
        )
    dtype = inputs_embeds.dtype
    keeps_dtype = torch.promote_types(dtype, weight.dtype) == weight.dtype
    has_dtype = keeps_dtype or is_autocast(weight)
    has_size = inputs_embeds.shape[-1:] == weight.shape[-1:]
    if not has_size or not dtype.is_floating_point or not has_dtype:
        raise ArgumentError(
            "inputs_embeds",
            f"should be {expected}, not {dtype} of shape {tuple(inputs_embeds.shape)}.",
        )


def count_rows(table: nn.Module) -> int | None:
    """Return the number of rows of an embedding table, or None for a module of another kind.

    Its weight decides, because `num_embeddings` stays as it was when a user replaces the weight.
    """
    weight = getattr(table, "weight", None)
    return weight.shape[0] if isinstance(weight, Tensor) else None
