"""One self-contained HTML page to walk through a model on one text: `minibert view "I love Korea"`.

The page is assembled from the files in this folder. It makes no network requests, and its
content security policy allows only its own scripts. A model of up to 16.5 million parameters is
live in the page: readers can edit its text, mask tokens and switch off heads. For a larger model,
the page shows a snapshot, the values of one text.
"""

import base64
import hashlib
import html
import inspect
import json
import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from minibert.attention import BertSelfOutput, eager_attention
from minibert.checkpoints.source import Source, packaged
from minibert.embeddings import BertEmbeddings
from minibert.encoder import BertIntermediate, BertOutput
from minibert.encoders.auto import load_with_heads
from minibert.heads import BertForMaskedLM, BertForPreTraining, BertLMPredictionHead
from minibert.learn import live
from minibert.learn.live import compute, deflated, embed_model
from minibert.learn.modules import join
from minibert.model import BertPooler
from minibert.study.analyses import logit_lens
from minibert.study.trace import Trace
from minibert.tokenization.wordpiece import WordPiece
from minibert.util.errors import ArgumentError
from minibert.util.files import check_target, replacing
from minibert.util.progress import SILENT, Progress

MAX_TOKENS = 128
ARTICLE_TOKENS = 64  # more than any text of the article has
# Steps of the progress: load the model, run it, pack its values, predict words, write the page.
PAGE_STEPS = 5
TOP_WORDS = 5
# Limits for the values that only "one head" shows, such as queries. Above its limit, a photograph
# leaves them out. A live page, which is mostly weights, then holds no values at all and computes
# them when it is opened.
MAX_DETAILS, MAX_LIVE_DETAILS = 3_000_000, 750_000
# The modules that run in the page, and in its worker, with all that they import.
PAGE = packaged("learn") / "page"
MAIN, WORKER = "main.js", "model/worker.js"
STYLES = ("page", "strip", "ask", "part")
# The code of each part of the model in the strip above the page.
_CODE: dict[str, Any] = {
    "pieces": WordPiece,
    "embeddings": BertEmbeddings,
    "attention": eager_attention,
    "add": BertSelfOutput,
    "ff": BertIntermediate,
    "add2": BertOutput,
    "pooler": BertPooler,
    "predictions": BertLMPredictionHead,
}
_DETAILS = re.compile(
    r"layer\.\d+\.(attention\.(query|key|value|context|projected|sum|output)"
    r"|widened|intermediate|narrowed|sum)"
)
_FACTORS = re.compile(
    r"layer\.\d+\.(attention\.(query|key|value|scores|probabilities)|output)|embeddings\.output"
)
# Logits of the whole vocabulary, and scores that the page masks itself.
_LEFT_OUT = re.compile(r"mlm\..*|.*\.masked_scores")


def load_page_model(
    name: str | os.PathLike[str] | Source, **source_options: Any
) -> tuple[Any, Any]:
    """Load a model with its pre-training heads, if it has them, and its tokenizer."""
    model, tokenizer = load_with_heads(
        Source.of(name, **source_options), attn_implementation="eager"
    )
    if not isinstance(model, BertForPreTraining | BertForMaskedLM):
        model = model.base_model
    return model, tokenizer


def run(
    name: str | os.PathLike[str] | Source,
    text: str,
    pair: str | None = None,
    masked: Iterable[int] = (),
    off: Iterable[Sequence[int]] = (),
    pad_to: int | None = None,
    rounded: bool = False,
    sides: str = "both",
    token_type: int | None = None,
    **source_options: Any,
) -> Trace:
    """Return the trace that the page shows. The Python lines on the page call this.

    Args:
        name: Folder, bundled model or Hub id.
        text: The text, or the first of a pair.
        pair: The second text.
        masked: Indices of tokens to replace with [MASK]. [CLS] has index 0.
        off: Heads to switch off as (layer, head), and layers to skip as (layer,).
        pad_to: Number of tokens to pad to with [PAD].
        rounded: Use the weights in 8 bits, as the page does after a change.
        sides: Which sides of itself a token may attend to: both, left, right, or none.
        token_type: The token type id of every token. None: 0 for the first text, 1 for the second.
        source_options: `revision`, `cache_dir`, `local_files_only`, `token` and `subfolder` as for
            `Source.of`.

    Raises:
        FileNotFoundError: The checkpoint does not exist.
        ValueError: As in `write_page`, or a token, layer or head does not exist.
    """
    model, tokenizer = load_page_model(name, **source_options)
    if rounded:
        model = live.rounded(model)
    return compute(model, tokenizer, text, pair, masked, off, pad_to, sides, token_type)[0]


def write_page(
    path: str | os.PathLike[str],
    name: str | os.PathLike[str] | Source,
    text: str,
    pair: str | None = None,
    pad_to: int | None = None,
    progress: Progress = SILENT,
    more: Mapping[str, Any] | None = None,
    **source_options: Any,
) -> int:
    """Run a model on a text and write the page.

    Args:
        path: The HTML file to write, atomically.
        name: Folder, bundled model or Hub id.
        text: The text, or the first of a pair.
        pair: The second text.
        pad_to: Number of tokens to pad to with [PAD], to show the attention mask.
        progress: Advanced after each of `PAGE_STEPS` steps.
        more: Further content of the page: the `run` of a pre-training, the `lesson` of the
            article, and the `language` of the page instead of the browser's.
        source_options: `revision`, `cache_dir`, `local_files_only`, `token` and `subfolder` as for
            `Source.of`.

    Returns:
        The number of tokens.

    Raises:
        FileNotFoundError: The checkpoint or the folder of `path` does not exist.
        ValueError: The text is empty, has more than 128 tokens or more than `pad_to`, or the
            model is too large for the article or has values that are not finite.
    """
    check_target(path)
    source = Source.of(name, **source_options)
    model, tokenizer = load_page_model(source)
    progress.add()
    rounded = "lesson" in (more or {})  # a number stays if a reader takes an edit back
    data = page_data(model, tokenizer, text, pair, pad_to, progress, rounded)
    data = {"name": _title(source.name), "source": source.name, **data, **(more or {})}
    if "lesson" in data:
        _check_article(source.name, model, data)
        data["lesson"] = _packed_lesson(data["lesson"], data["live"]["digest"])
    with replacing(path) as temporary:
        temporary.write_text(render(data), encoding="utf-8")
    progress.add()
    return len(data["tokens"])


def _packed_lesson(lesson: Mapping[str, Any], weights: str) -> dict[str, Any]:
    """Return the article with all in `packed` but what decides which scenes there are.

    What was measured is left out if other weights were measured than those of the page.
    """
    lesson = dict(lesson)
    if lesson["measured"].get("weights") != weights:
        lesson["measured"] = lesson["studied"] = None
    kept = {name: lesson.pop(name) for name in ("language", "studied")}
    return {**kept, "packed": deflated(json.dumps(lesson, ensure_ascii=False).encode())}


class Page:
    """A page in a notebook, displayed as the value of a cell."""

    def __init__(self, content: str, tokens: int, height: int) -> None:
        self.content = content
        self.tokens = tokens
        self.height = height

    def _repr_html_(self) -> str:
        return (
            '<iframe sandbox="allow-scripts allow-downloads" allow="clipboard-write" '
            f'style="width: 100%; height: {self.height}px; border: 0" '
            f'srcdoc="{html.escape(self.content)}"></iframe>'
        )

    def __repr__(self) -> str:
        size = len(self.content) / 1e6
        return f"A page of {self.tokens} tokens, {size:.1f} MB: run this cell to walk through it."


def show(model: Any, tokenizer: Any, text: str, pair: str | None = None, height: int = 800) -> Page:
    """Show the page of one text inline in a notebook, `height` pixels high.

    The model is in eval mode. The other arguments are those of `write_page`.
    """
    data = page_data(model, tokenizer, text, pair)
    source = str(tokenizer.name_or_path or "model")
    return Page(
        render({"name": _title(source), "source": source, **data}), len(data["tokens"]), height
    )


def page_data(
    model: Any,
    tokenizer: Any,
    text: str,
    pair: str | None = None,
    pad_to: int | None = None,
    progress: Progress = SILENT,
    rounded: bool = False,
) -> dict[str, Any]:
    """Return everything that the page shows, ready for JSON.

    Arrays are packed by `compress`. The MLM and NSP heads are shown if the model has them.

    Args:
        model: A model in eval mode.
        tokenizer: Its tokenizer.
        text: The text to show.
        pair: A second text.
        pad_to: Number of tokens to pad to.
        progress: Advanced after each of three steps.
        rounded: Whether to show what the weights in 8 bits compute, as the page does after an edit.

    Raises:
        ValueError: The text is empty or too long, or the model has values that are not finite.
    """
    check_text(tokenizer, text, pair, pad_to)
    network = live.rounded(model) if rounded else model
    trace, encoding = compute(network, tokenizer, text, pair, pad_to=pad_to)
    progress.add()
    tensors = _shown_tensors(trace)
    is_live = model.num_parameters() <= live.MAX_PARAMETERS
    details = sum(x.numel() for name, x in tensors.items() if _DETAILS.fullmatch(name))
    max_details = MAX_LIVE_DETAILS if is_live else MAX_DETAILS
    complete = details <= max_details
    factors = [name for name in tensors if _FACTORS.fullmatch(name)]
    if not complete:
        factors = []
        if is_live:
            tensors = {}  # the model computes all of them itself
        tensors = {name: x for name, x in tensors.items() if not _DETAILS.fullmatch(name)}
    arrays = compress(tensors, factors)
    progress.add()
    lens = _lens(trace, tokenizer) if arrays["table"] else None
    progress.add()
    config = model.config
    return {
        "sizes": {
            "layers": config.num_hidden_layers,
            "heads": config.num_attention_heads,
            "hidden": config.hidden_size,
            "intermediate": config.intermediate_size,
            "vocabulary": config.vocab_size,
            "parameters": model.base_model.num_parameters(),  # as `minibert info` counts them
        },
        "texts": [text] if pair is None else [text, pair],
        "pad_to": pad_to,
        "rounded": rounded,
        "max_tokens": MAX_TOKENS,
        "activation": config.hidden_act,
        "top": min(TOP_WORDS, len(tokenizer)),
        "tokens": _token_data(tokenizer, encoding),
        "arrays": arrays,
        "complete": complete,
        "lens": lens,
        "live": embed_model(model, tokenizer) if is_live else None,
    }


def check_text(tokenizer: Any, text: str, pair: str | None, pad_to: int | None) -> None:
    """Check that a text can be shown.

    Raises:
        ValueError: The text is empty or too long, or it cannot be padded to `pad_to` tokens.
    """
    if pad_to is not None and not 0 < pad_to <= MAX_TOKENS:
        raise ValueError(
            f"the page shows up to {MAX_TOKENS} tokens, so it cannot be padded to {pad_to}."
        )
    if not isinstance(text, str):
        raise ArgumentError("text", f"should be a single string, not {type(text).__name__}.")
    if not text.strip():
        raise ValueError(
            "there is no text to show: pass one with at least one character that is not white "
            "space."
        )
    count = len(tokenizer(text, pair)["input_ids"])
    if count > MAX_TOKENS:
        raise ValueError(
            f"the text has {count} tokens, and the page shows up to {MAX_TOKENS}: pass a shorter "
            "one."
        )


def _shown_tensors(trace: Any) -> dict[str, Any]:
    """Return the tensors of a trace that the page shows, without their batch axis."""
    tensors = {}
    for name, value in trace.items():
        if _LEFT_OUT.fullmatch(name):
            continue
        tensors[name] = value[0]
        if not tensors[name].isfinite().all():
            raise ValueError(
                f"the model's {name} are not finite numbers: the checkpoint is damaged."
            )
    return tensors


def _token_data(tokenizer: Any, encoding: Any) -> list[dict[str, Any]]:
    """Return piece, id, segment, mask and offsets of each token."""
    ids = encoding["input_ids"]
    pieces = tokenizer.convert_ids_to_tokens(ids)
    tokens = []
    for index, piece in enumerate(pieces):
        start, end = encoding["offset_mapping"][index]
        tokens.append(
            {
                "piece": piece,
                "id": ids[index],
                "type": encoding["token_type_ids"][index],
                "mask": encoding["attention_mask"][index],
                "start": start,
                "end": end,
            }
        )
    return tokens


def render(data: dict[str, Any]) -> str:
    """Return the page with its styles, scripts, words and data."""
    script = join(PAGE, MAIN)
    style = "".join(part(f"styles/{name}.css") for name in STYLES)
    whole = {**data, **_texts(data), "code": code_places()}
    values = json.dumps(whole, ensure_ascii=False, separators=(",", ":"))
    content = {
        "style": style,
        "script": script,
        "worker": join(PAGE, WORKER),
        "style_hash": _hash(style),
        "script_hash": _hash(script),
        # "<" could end the script element or open a comment, and UTF-8 has no lone surrogates
        "data": re.sub("[<\ud800-\udfff]", lambda match: f"\\u{ord(match[0]):04x}", values),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda match: content[match[1]], part("page.html"))


def code_places() -> dict[str, tuple[str, int, int]]:
    """Return the file of each part of the model, and the first and last line of its code."""
    places = {}
    for name, code in _CODE.items():
        try:
            lines, first = inspect.getsourcelines(code)
        except OSError:  # the package is installed without its source
            continue
        file = code.__module__.replace(".", "/") + ".py"
        places[name] = (file, first, first + len(lines) - 1)
    return places


def _texts(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the words of the page, and what "Ask" searches if a live model can show it."""
    texts = {"words": json.loads(part("state/words.json"))}
    if data.get("live"):
        entries = {
            name: json.loads(part(f"ask/{name}.json"))
            for name in ("questions", "terms", "spellings")
        }
        texts["entries"] = deflated(json.dumps(entries, ensure_ascii=False).encode())
        texts["asked"] = None  # or the sentence vectors of the phrasings, if the model made them
        for language, vectors in json.loads(part("ask/vectors.json")).items():
            source = data["live"]["digest"], phrasings_digest(language)
            if source == (vectors["weights"], vectors["texts"]):
                texts["asked"] = vectors
    return texts


def phrasings_digest(language: str) -> str:
    """Return a digest of everything that the vectors of the phrasings in Ask depend on."""
    questions = [own[language] for own in json.loads(part("ask/questions.json"))]
    terms = json.loads(part("ask/terms.json")).values()
    phrasings = [[own["question"], own["also"]] for own in questions]
    phrasings += [
        [own[language].get("ask"), own["en"]["forms"], own["ko"]["forms"]] for own in terms
    ]
    phrasings.append(json.loads(part("ask/spellings.json")))
    return hashlib.sha256(json.dumps(phrasings).encode()).hexdigest()[:16]


def compress(arrays: Mapping[str, Tensor], whole: Collection[str] = ()) -> dict[str, Any]:
    """Compress values as multiples of 10^-decimals. The page shows them correctly rounded.

    Args:
        arrays: Any shapes, by name.
        whole: Names of arrays that the page computes with. They stay in float32.

    Returns:
        `table`, a row for each array, and `data`, the concatenated values. A row has the name, the
        shape, the decimals (4, or 2 for huge values, or None for float32) and the bits of a value.
    """
    table: list[list[Any]] = []
    parts = []
    for name, values in arrays.items():
        numbers = values.double().numpy()
        largest = np.abs(numbers).max(initial=0.0)
        if name in whole:
            parts.append(values.float().contiguous().numpy().tobytes())
            table.append([name, list(values.shape), None, 32])
            continue
        decimals = 4 if largest * 10**4 < 2**31 - 1 else 2
        bits = 16 if largest * 10**decimals < 2**15 - 1 else 32
        parts.append(np.rint(numbers * 10**decimals).astype(f"<i{bits // 8}").tobytes())
        table.append([name, list(values.shape), decimals, bits])
    return {"table": table, "data": deflated(b"".join(parts))}


def _check_article(name: str, model: Any, data: Mapping[str, Any]) -> None:
    """Raise ValueError if a model cannot compute what the scenes of the article ask for."""
    positions = model.config.max_position_embeddings
    if data["live"] is None:
        reason = f"{name} is too large for the article, whose model has to compute"
    elif "cls.predictions.bias" not in dict(data["live"]["parameters"]):
        reason = f"the article predicts words, and {name} has no MLM head"
    elif positions < ARTICLE_TOKENS:
        reason = (
            f"the article has texts of up to {ARTICLE_TOKENS} tokens, and {name} only {positions} "
            "positions"
        )
    else:
        return
    raise ValueError(
        f"{reason}: take minibert-en or minibert-ko, or look at this model with minibert view."
    )


def _title(name: str) -> str:
    """Return the display name of a model. A generic folder name is preceded by its parent's."""
    path = Path(name).expanduser()
    if not path.is_dir():
        return name
    says_nothing = re.fullmatch(r"model|out|output|best|last|checkpoint(-\d+)?", path.name)
    return "/".join(path.absolute().parts[-2:]) if says_nothing else path.absolute().name


def _lens(t: Trace, tokenizer: Any) -> list[list[list[tuple[str, float]]]] | None:
    """Return the MLM head's best words and probabilities after each layer, for each token."""
    if "mlm.logits" not in t:
        return None
    with torch.no_grad():
        shares, ids = (
            best[:, 0] for best in logit_lens(t, min(TOP_WORDS, len(tokenizer)), len(tokenizer))
        )
    layers = zip(
        ids.tolist(), shares.double().round(decimals=4).tolist(), strict=True
    )  # (layers + 1, seq, k)
    words = tokenizer.convert_ids_to_tokens
    return [
        [list(zip(words(i), s, strict=True)) for i, s in zip(*layer, strict=True)]
        for layer in layers
    ]


def part(name: str) -> str:
    """Return a file of the page as text."""
    return (PAGE / name).read_text(encoding="utf-8")


def _hash(content: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
