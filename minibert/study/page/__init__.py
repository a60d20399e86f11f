"""One self-contained HTML page to walk through a model on one text: `minibert view "I love Korea"`.

The page is put together from page.html, page.css, page_tools.js, page.js and page_words.json beside this file. It
asks the network for nothing, and its content security policy lets no other script run than its own.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from minibert.auto import load_whole
from minibert.files import Source, check_target, replacing
from minibert.heads import BertForMaskedLM, BertForPreTraining
from minibert.study.trace import Trace, trace

MAX_TOKENS = 128
TOP_WORDS = 5
_PARTS = Path(__file__).parent


def write_page(
    path: str | os.PathLike[str],
    name: str | os.PathLike[str] | Source,
    text: str,
    pair: str | None = None,
    pad_to: int | None = None,
    **source_options: Any,
) -> int:
    """Runs a model on a text and writes the page.

    Args:
        path: the HTML file to write, whole or not at all.
        name: folder, bundled model or Hub id.
        text: the text, or the first of a pair.
        pair: the second text.
        pad_to: fill up with [PAD] to this many tokens, to see the attention mask at work.
        source_options: `revision`, `cache_dir`, `local_files_only`, `token` as in `Source`.

    Returns:
        The number of tokens.

    Raises:
        FileNotFoundError: no such checkpoint, or the folder of `path` does not exist.
        ValueError: more than 128 tokens, or a checkpoint whose numbers are not finite.
    """
    check_target(path)
    source = Source.of(name, **source_options)
    model, tokenizer = load_whole(source, attn_implementation="eager")
    if not isinstance(model, BertForPreTraining | BertForMaskedLM):
        model = model.base_model  # the page shows no other head
    data = page_data(model, tokenizer, text, pair, pad_to)
    with replacing(path) as temporary:
        shown = source.folder.absolute().name if source.folder else str(source)
        temporary.write_text(render({"name": shown, **data}), encoding="utf-8")
    return len(data["tokens"])


def page_data(
    model: Any, tokenizer: Any, text: str, pair: str | None = None, pad_to: int | None = None
) -> dict[str, Any]:
    """Everything the page shows, ready for JSON; arrays as `pack` packs them.

    Args:
        model: any minibert model, in eval mode; its MLM and NSP heads are shown where it has them.
        tokenizer: the tokenizer that belongs to it.
        text: as in `write_page`.
        pair: as in `write_page`.
        pad_to: as in `write_page`.
    """
    padding = {} if pad_to is None else {"padding": "max_length", "max_length": pad_to}
    encoding = tokenizer(text, pair, return_offsets_mapping=True, **padding)
    ids = encoding["input_ids"]
    if len(ids) > MAX_TOKENS:
        raise ValueError(f"the text has {len(ids)} tokens, and the page shows up to {MAX_TOKENS}: pass a shorter one.")
    batch = {name: torch.tensor([encoding[name]]) for name in ("input_ids", "attention_mask", "token_type_ids")}
    with torch.no_grad(), trace(model) as t:
        model(**batch)

    layers, config = range(model.config.num_hidden_layers), model.config
    hidden = torch.cat([t["embeddings.output"], *(t[f"layer.{i}.output"] for i in layers)])  # (layers + 1, seq, hidden)
    pieces = tokenizer.convert_ids_to_tokens(ids)
    columns = zip(
        pieces, ids, encoding["token_type_ids"], encoding["attention_mask"], encoding["offset_mapping"], strict=True
    )
    arrays = {
        "word": t["embeddings.word"][0],
        "segment": t["embeddings.token_type"][0],
        "position": t["embeddings.position"].expand_as(t["embeddings.word"])[0],
        "sum": t["embeddings.sum"][0],
        "hidden": hidden,
        "moved": torch.cosine_similarity(hidden[1:], hidden[:-1], dim=-1),  # (layers, seq)
        "kept": torch.cosine_similarity(hidden[1:], hidden[:1], dim=-1),
        "scores": torch.cat([t[f"layer.{i}.attention.scores"] for i in layers]),  # (layers, heads, seq, seq)
        "probabilities": torch.cat([t[f"layer.{i}.attention.probabilities"] for i in layers]),
    }
    if "pooler.output" in t:
        arrays["pooler"] = torch.cat([t["pooler.cls"], t["pooler.dense"], t["pooler.output"]])  # (3, hidden)
    return {
        "sizes": {
            "layers": config.num_hidden_layers,
            "heads": config.num_attention_heads,
            "hidden": config.hidden_size,
            "intermediate": config.intermediate_size,
            "vocabulary": config.vocab_size,
            "parameters": model.num_parameters(),
        },
        "texts": [text] if pair is None else [text, pair],
        "tokens": [
            {"piece": p, "id": i, "type": s, "mask": m, "start": o[0], "end": o[1]} for p, i, s, m, o in columns
        ],
        "arrays": {name: pack(name, values) for name, values in arrays.items()},
        "lens": _logit_lens(model, tokenizer, hidden),
        "next": _next_sentence(t),
    }


def render(data: dict[str, Any]) -> str:
    """The page with its style, script, words and data inside."""
    style, tools, behaviour, words, template = (
        (_PARTS / name).read_text(encoding="utf-8")
        for name in ("page.css", "page_tools.js", "page.js", "page_words.json", "page.html")
    )
    script = tools + behaviour
    content = {
        "style": style,
        "script": script,
        "style_hash": _hash(style),
        "script_hash": _hash(script),
        # ASCII only, and no "<" that could end the script element or open a comment: the text cannot leave its string
        "data": json.dumps({**data, "words": json.loads(words)}).replace("<", "\\u003c"),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda match: content[match[1]], template)


def pack(name: str, values: Tensor) -> dict[str, Any]:
    """Numbers as whole multiples of 10^-decimals, compressed: what the page shows is the value, correctly rounded.

    Args:
        name: for the error.
        values: any shape.

    Returns:
        `shape`, `decimals` (up to 4, as many as fit), `bits` of a number, and `data` in base64.

    Raises:
        ValueError: values that are not finite.
    """
    numbers = values.double().numpy()
    largest = np.abs(numbers).max(initial=0.0)
    if not np.isfinite(largest):
        raise ValueError(f"the model's {name} are not finite numbers: the checkpoint is damaged.")
    decimals = next((d for d in (4, 3) if largest * 10**d < 2**15 - 1), 2)
    bits = 16 if largest * 10**decimals < 2**15 - 1 else 32
    whole = np.rint(numbers * 10**decimals).astype(f"<i{bits // 8}")
    data = base64.b64encode(zlib.compress(whole.tobytes(), 6)).decode()
    return {"shape": list(values.shape), "decimals": decimals, "bits": bits, "data": data}


def _logit_lens(model: Any, tokenizer: Any, hidden: Tensor) -> list[list[list[tuple[str, float]]]] | None:
    """What the MLM head would say after each layer: the best words and their probabilities, by layer and token."""
    head = getattr(getattr(model, "cls", None), "predictions", None)
    if head is None:
        return None
    lens = []
    with torch.no_grad():
        for states in hidden:  # (seq, hidden), one layer at a time: the logits are (seq, vocab)
            best = head(states).softmax(-1)[:, : len(tokenizer)].topk(min(TOP_WORDS, len(tokenizer)))
            rows = zip(best.indices.tolist(), best.values.tolist(), strict=True)
            lens.append(
                [
                    list(zip(tokenizer.convert_ids_to_tokens(i), [round(p, 4) for p in ps], strict=True))
                    for i, ps in rows
                ]
            )
    return lens


def _next_sentence(t: Trace) -> list[float] | None:
    """Probabilities that the second text follows the first, and that it does not."""
    return [round(p, 4) for p in t["nsp.logits"][0].softmax(-1).tolist()] if "nsp.logits" in t else None


def _hash(content: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
