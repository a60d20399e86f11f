"""A copy of a model for inference: the same layers, run by kernels that suit the processor.

    fast = optimize(model)                       # float32
    fast = optimize(model, precision="int8")     # 8-bit weights and activations
    plain = unoptimize(fast)                     # an ordinary model again

It is the same stack of the same layers, each in four products: query, key and value become one, weights are laid out in
advance, GELU and residuals need no memory of their own. Embeddings, pooler and heads stay. The sequences of a large
batch are shared out among threads, each of which takes its own through all layers; many batches are shared out whole.
"""

import copy
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

import torch
from torch import Tensor, nn

from minibert.base import Model, PreTrainedModel
from minibert.inference.fused import FusedEncoder
from minibert.inference.kernels import PRECISIONS

Precision = Literal["exact", "fp32", "bf16", "int8"]


def resolve_precision(precision: str | None) -> str | None:
    """The precision for `optimize`; None where a model runs unchanged ("exact" or None).

    Raises:
        ValueError: an unknown precision.
    """
    if precision is None or precision == "exact":
        return None
    if precision not in PRECISIONS:
        choices = ", ".join(("exact", *PRECISIONS))
        raise ValueError(f"precision should be one of {choices}, not {precision!r}.")
    return precision


def optimize(model: Model, precision: str = "fp32") -> Model:
    """A copy of `model` that computes the same faster, for inference only; `model` itself is not touched.

    The copy works wherever the model did (padded or packed, hidden states, attentions, saving); it cannot be trained,
    moved or cast. Its results differ in the last bits for "fp32", because sums are taken in another order. On the CPU
    "bf16" and "int8" need instructions for it; a processor without them runs float32 instead, and a warning says so.

    Its `state_dict` has the official names and plain float32 tensors. For "bf16" and "int8" these are the rounded
    weights that it computes with: keep the original if you want to train on.

    On the CPU a batch of several sequences and at least 256 tokens is shared out among `torch.get_num_threads()`
    threads, if they get even shares: each runs all layers on its own, so that none waits for the others after every
    operator. Forward hooks on layers then run in these threads, once for each share. `SentenceEmbedder` gives each
    thread whole batches when there are many. Set the number of threads first: on Intel, weights are packed
    for that many.

    The copy holds every weight once, none of them memory-mapped; so `model = optimize(model)` lets go of the mapped
    file.

    Args:
        model: any model of this package, on any device.
        precision: "fp32"; "bf16": the encoder in bfloat16; "int8": its products in 8-bit integers (weights with a
            scale for each output, activations with a scale for each token), those that would lose too much in float32.

    Raises:
        ValueError: an unknown precision, or not a model of this package.
    """
    if precision not in PRECISIONS:
        raise ValueError(f"precision should be one of {', '.join(PRECISIONS)}, not {precision!r}.")
    if not isinstance(model, PreTrainedModel):
        raise ValueError(
            f"optimize takes a model of minibert, such as BertModel, not {type(model).__name__}."
        )
    # torch starts threads for each thread that computes, and they end with it: so processes can be forked afterwards;
    # this one asks for its number of them first, as `workers` explains
    with ThreadPoolExecutor(1, initializer=torch.get_num_threads) as worker:
        return worker.submit(_optimized, model, precision).result()


def _optimized(model: Model, precision: str) -> Model:
    if isinstance(model.base_model.encoder, FusedEncoder):
        model = unoptimize(model)
    # kernels copy what they read; all else is copied here: one memory-mapped tensor would keep the whole file mapped
    read_once = {id(w) for w in model.base_model.encoder.parameters()}
    with torch.no_grad():
        own = {
            id(w): nn.Parameter(
                w.to(torch.float32, copy=id(w) not in read_once), requires_grad=False
            )
            for w in model.parameters()
        }
        fast = copy.deepcopy(model, own).eval()
        base = fast.base_model
        sample = _sample(base) if precision == "int8" else None
        base.encoder = FusedEncoder(base.encoder, base.config, precision, sample)
    # the first of its siblings: what it refuses, such as `train` and `to`, is refused before anything has changed
    base._modules = {"encoder": base.encoder, **base._modules}
    return fast


def unoptimize(model: Model) -> Model:
    """An ordinary copy of an optimised model, in float32, that can be trained; the optimised one is not touched.

    Raises:
        ValueError: the model is not optimised.
    """
    encoder = model.base_model.encoder if isinstance(model, PreTrainedModel) else None
    if not isinstance(encoder, FusedEncoder):
        raise ValueError(f"This {type(model).__name__} is not optimised: there is nothing to undo.")
    return copy.deepcopy(model, {id(encoder): encoder.unfused()}).requires_grad_(True)


def _sample(base: Any) -> Tensor:
    """Embeddings of random words, (tokens, hidden): always the same ones, so that the same model is always built."""
    seq = min(32, base.config.max_position_embeddings)
    ids = torch.randint(
        base.config.vocab_size, (8, seq), generator=torch.Generator().manual_seed(0)
    )
    states: Tensor = base.embeddings(ids.to(base.device))
    return states.flatten(0, 1)
