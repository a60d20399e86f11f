"""A copy of a model for inference: the same layers, run by kernels that suit the processor.

    fast = optimize(model)                       # float32
    fast = optimize(model, precision="int8")     # 8-bit weights and activations
    plain = unoptimize(fast)                     # an ordinary model again

It is the same stack of layers, each in four products. Query, key and value become one product,
weights are laid out in advance, GELU and residuals need no memory of their own. Embeddings, pooler
and heads stay. The sequences of a large batch are shared out among threads, each of which takes its
share through all layers. Of many batches each thread takes whole ones.
"""

import copy
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch import nn

from minibert.base import Model, PreTrainedModel
from minibert.inference.batching import BATCH_TOKENS
from minibert.inference.fused import FusedEncoder, check_parts
from minibert.inference.precisions import FAST_PRECISIONS, FastPrecision, check_precision
from minibert.inference.threads import (
    MAX_IMBALANCE,
    share_counts,
    usable_threads,
    workers,
)


def optimize(model: Model, precision: FastPrecision = "fp32") -> Model:
    """A copy of `model` that computes the same faster, for inference only. `model` is not changed.

    The copy works wherever the model did (padded or packed, hidden states, attentions, saving), but
    it cannot be trained, moved or cast. With "fp32" its results differ in the last bits, because
    sums are computed in another order. On the CPU "bf16" and "int8" need instructions for it. A
    processor without them runs float32 instead, with a warning.

    Its `state_dict` has the official names and plain float32 tensors. With "bf16" and "int8" these
    are the rounded weights that it computes with: keep the original to train it further.

    On the CPU a batch of several sequences and at least 256 tokens is shared out among
    `torch.get_num_threads()` threads, if they get even shares. Each runs all layers on its share,
    so that none waits for the others after every operator. Forward hooks on layers then run in
    these threads, once for each share. `SentenceEmbedder` gives each thread whole batches where
    there are many. Set the number of threads first: on Intel, weights are packed for that many.

    The copy holds every weight once, and none of them is memory-mapped. So
    `model = optimize(model)` releases the mapped file.

    Args:
        model: Any model of this package, on any device.
        precision: "fp32" keeps float32. "bf16" computes the encoder in bfloat16. "int8" computes
            its products in 8-bit integers (weights with a scale for each output, activations with a
            scale for each token), except for products that would lose too much.

    Raises:
        ValueError: An unknown precision, not a model of this package, or one with a part that the
            kernels would not compute: a module or a `forward` of your own, or a forward hook.
    """
    check_precision(precision, FAST_PRECISIONS)
    if not isinstance(model, PreTrainedModel):
        raise ValueError(
            f"optimize takes a model of minibert, such as BertModel, not {type(model).__name__}."
        )
    if not hasattr(model.base_model, "encoder"):
        raise ValueError(
            f"{type(model).__name__} has no attribute {model.base_model_prefix!r} with an encoder: "
            "name that of its BertModel in base_model_prefix of the class."
        )
    # torch starts threads for each thread that computes, and they end with it. So it computes in a
    # thread of its own, and processes can be forked afterwards
    with ThreadPoolExecutor(1, initializer=torch.get_num_threads) as worker:
        return worker.submit(_optimized, model, precision).result()


def _optimized(model: Model, precision: str) -> Model:
    if isinstance(model.base_model.encoder, FusedEncoder):
        model = unoptimize(model)
    check_parts(model.base_model.encoder)
    # Kernels copy the encoder's weights. All others are copied here: one memory-mapped tensor would
    # keep the whole file mapped
    read_by_kernels = {id(weight) for weight in model.base_model.encoder.parameters()}
    copies: dict[int, Any] = {}  # as deepcopy keeps them, by the original's id
    with torch.no_grad():
        for weight in model.parameters():
            is_copied_later = id(weight) in read_by_kernels
            float_weight = weight.to(torch.float32, copy=not is_copied_later)
            copies[id(weight)] = nn.Parameter(float_weight, requires_grad=False)
        fast = copy.deepcopy(model, copies).eval()
        base = fast.base_model
        sample = None
        if precision == "int8":
            # embeddings of random words, always the same, so that the same model is built each time
            seq = min(32, base.config.max_position_embeddings)
            generator = torch.Generator().manual_seed(0)
            ids = torch.randint(base.config.vocab_size, (8, seq), generator=generator)
            sample = base.embeddings(ids.to(base.device)).flatten(0, 1)  # (tokens, hidden)
        base.encoder = FusedEncoder(base.encoder, base.config, precision, sample)
    # The encoder is the first of its siblings: `train` and `to`, which it refuses, are refused
    # before anything has changed
    base._modules = {"encoder": base.encoder, **base._modules}
    return fast


def unoptimize(model: Model) -> Model:
    """An ordinary float32 copy of an optimized model, which can be trained.

    The optimized model is not changed.

    Args:
        model: The result of `optimize`.

    Returns:
        A copy with trainable parameters.

    Raises:
        ValueError: The model is not optimized.
    """
    encoder = model.base_model.encoder if isinstance(model, PreTrainedModel) else None
    if not isinstance(encoder, FusedEncoder):
        raise ValueError(f"This {type(model).__name__} is not optimized: there is nothing to undo.")
    return copy.deepcopy(model, {id(encoder): encoder.unfused()}).requires_grad_(True)


def warm_up(model: PreTrainedModel, batch_tokens: int = BATCH_TOKENS) -> None:
    """Does now what the first batch of each size would do, so that the memory of a service is flat.

    oneDNN keeps what it compiles: with two threads a third of a gigabyte, most of which would
    otherwise come within an hour. It takes a second or two, up to seven for a BERT of base size. A
    model whose products are not compiled needs nothing.

    Args:
        model: An optimized model, or any other.
        batch_tokens: Tokens of the largest batch.
    """
    encoder = model.base_model.encoder
    threads = usable_threads()
    if not isinstance(encoder, FusedEncoder) or not encoder.is_compiled:
        return
    for count in share_counts(batch_tokens):
        share = int(MAX_IMBALANCE * batch_tokens / count)
        workers(count, threads, os.getpid()).submit(encoder.compile_products, share).result()
    # Batches that are not shared out; with several threads such batches are seldom larger. In a
    # thread that ends: OpenMP threads kept for the caller would outnumber the cores, and then those
    # of all callers sleep whenever they wait
    with ThreadPoolExecutor(1, initializer=torch.get_num_threads) as worker:
        worker.submit(encoder.compile_products, batch_tokens // min(threads, 2)).result()
