"""The model inside the page: its weights in 8 bits, and its tokenizer.

A matrix is stored as integers from -127 to 127 and one scale for each row, other parameters in
float32. `rounded` returns the model with exactly these weights, and `minibert.learn.build.run`
computes in Python what the page's `window.minibert.run` computes.
"""

import copy
import hashlib
import zlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from minibert.inference.kernels import in_8_bits
from minibert.study.trace import Trace, trace
from minibert.tokenization.tokenizer_json import SPLITTING
from minibert.util.errors import ArgumentError

MAX_PARAMETERS = 16_500_000  # larger models are shown as a snapshot
# Functions that mask a (query, key) matrix, by the side of itself that a query may attend to.
VISIBLE_SIDES: dict[str, Callable[[Tensor], Tensor]] = {
    "both": lambda keys: keys,  # an encoder, as BERT was trained
    "left": torch.tril,  # a decoder, such as GPT
    "right": torch.triu,
    "none": lambda keys: keys * torch.eye(len(keys), dtype=keys.dtype),  # each token itself
}
_UNESCAPED = bytes.maketrans(b"<\\", b"xy")  # what stands for the digits of these two
_SETTINGS = ("num_hidden_layers", "num_attention_heads", "hidden_act", "layer_norm_eps")


def embed_model(model: Any, tokenizer: Any, largest: int = 127) -> dict[str, Any]:
    """Return the model and its tokenizer, ready for JSON, with integers up to `largest`.

    Returns:
        `config`, `parameters` (name and shape, in order), their values in `floats` and `whole`
        (integers), and `tokenizer`.
    """
    floats = []
    whole = []
    table = []
    for name, parameter in _parameters(model):
        values = parameter.detach().float().cpu()
        table.append([name, list(values.shape)])
        if values.dim() == 2:
            values, numbers = in_8_bits(values, largest)
            whole.append(numbers.numpy().tobytes())
        floats.append(values.numpy().tobytes())
    tokens = {number: token for token, number in tokenizer.get_vocab().items()}
    vocabulary = [tokens.get(number, "") for number in range(max(tokens) + 1)]
    if tokenizer.components:
        raise ValueError(
            "The page splits texts as BERT does, but the tokenizer has another "
            f"{', '.join(tokenizer.components)} in its tokenizer.json."
        )
    flags = {name: getattr(tokenizer, name) for name in SPLITTING}
    if flags["strip_accents"] is None:
        flags["strip_accents"] = flags["do_lower_case"]
    special = {
        name: getattr(tokenizer, f"{name}_token") for name in ("cls", "sep", "pad", "unk", "mask")
    }
    return {
        "config": {name: getattr(model.config, name) for name in _SETTINGS},
        "parameters": table,
        "digest": hashlib.sha256(b"".join(whole)).hexdigest()[:16],
        "floats": deflated(b"".join(floats)),
        "whole": deflated(b"".join(whole)),
        "max_tokens": model.config.max_position_embeddings,
        "tokenizer": {
            **flags,
            "special": special,
            "added": [str(token) for token in tokenizer.added_tokens_decoder.values()],
            "vocabulary": deflated("\n".join(vocabulary).encode()),
        },
    }


def rounded(model: Any) -> Any:
    """Return a copy of a model with the weights of its page: 8 bits, and a scale for each row."""
    model = copy.deepcopy(model).float()
    with torch.no_grad():
        for _, parameter in _parameters(model):
            if parameter.dim() == 2:
                scales, numbers = in_8_bits(parameter)
                parameter.copy_(numbers.float() * scales[:, None])
    return model


def deflated(data: bytes) -> str:
    """Compress bytes to text that the page can read, with zlib and base 85.

    Five characters hold four bytes, so the text is 6% shorter than in base64. A digit is a
    character from "#" on, without those that JSON and HTML escape. The last bytes are padded with
    zeros, and as many characters are left out.
    """
    packed = zlib.compress(data, 9)
    padding = -len(packed) % 4
    words = np.frombuffer(packed + bytes(padding), dtype=">u4").astype(np.uint32)
    digits = np.empty((len(words), 5), np.uint8)
    for place in reversed(range(5)):
        words, digits[:, place] = np.divmod(words, 85)
    letters = (digits + ord("#")).tobytes()[: digits.size - padding]
    return letters.translate(_UNESCAPED).decode()


def compute(
    model: Any,
    tokenizer: Any,
    text: str,
    pair: str | None = None,
    masked: Iterable[int] = (),
    off: Iterable[Sequence[int]] = (),
    pad_to: int | None = None,
    sides: str = "both",
    token_type: int | None = None,
) -> tuple[Trace, Any]:
    """Return the trace of one text and its encoding. Arguments as in `minibert.learn.build.run`.

    Raises:
        ValueError: The text has more than `pad_to` tokens, a place to mask does not exist, or
            `sides` is not a name in `VISIBLE_SIDES`.
    """
    if sides not in VISIBLE_SIDES:
        raise ArgumentError(
            "sides", f"is {sides!r}, but it should be one of {', '.join(VISIBLE_SIDES)}."
        )
    padding = False if pad_to is None else "max_length"
    encoding = tokenizer(
        text,
        pair,
        return_token_type_ids=True,
        return_attention_mask=True,
        return_offsets_mapping=True,
        padding=padding,
        max_length=pad_to,
    )
    ids = encoding["input_ids"]
    if pad_to is not None and len(ids) > pad_to:
        raise ValueError(
            f"the text has {len(ids)} tokens, which is more than the {pad_to} to pad to."
        )
    for place in masked:
        if not 0 <= place < len(ids):
            raise ValueError(
                f"there is no token {place} to mask: the text has {len(ids)}, counted from 0."
            )
        ids[place] = tokenizer.mask_token_id
    t = trace(model)
    for layer, *head in off:
        if head:
            t.switch_off_head(layer, head[0])
        else:
            t.skip_layer(layer)
    batch = {
        name: torch.tensor([encoding[name]])
        for name in ("input_ids", "attention_mask", "token_type_ids")
    }
    if token_type is not None:
        batch["token_type_ids"] = torch.full_like(batch["token_type_ids"], token_type)
    if sides != "both":  # a mask for each query instead of one for the keys alone
        everywhere = torch.ones(len(ids), len(ids), dtype=torch.long)  # (query, key)
        visible = batch["attention_mask"][:, None, :] * VISIBLE_SIDES[sides](everywhere)
        batch["attention_mask"] = visible  # (1, query, key)
    with torch.no_grad(), t:
        model(**batch)
    return t, encoding


def _parameters(model: Any) -> list[tuple[str, Tensor]]:
    """Return each parameter once, with its official name without "bert."."""
    return [(name.removeprefix("bert."), parameter) for name, parameter in model.named_parameters()]
