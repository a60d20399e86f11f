"""Bodies of every shape that are as large as the service accepts them.

A shape is the JSON of what a route takes for its texts. It is not what the route expects, or it is
as costly as it can be within the limits.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable

SIZE = 1_990_000  # bytes: the default of --max-body is 2,000,000
ASCII = 640_000  # characters: the default of --max-characters is 650,000
OTHERS = 106_500  # characters outside ASCII, each of which counts as six
TAGGED = 43_000  # tokens: a third of the default of --max-tokens is 43,690
ANSWERED = 29_000  # of a context, whose windows then have a third as well
TEXTS = 2048  # the default of --max-texts


def text(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


def repeated(item: bytes, around: bytes = b"[]") -> bytes:
    """As many copies of an item as a body holds."""
    count = SIZE // (len(item) + 1)
    return around[:1] + b",".join([item] * count) + around[1:]


def drawn(first: int, last: int, count: int, spaces: float = 0.0) -> str:
    """Random characters of a range, with a share of spaces."""
    draw = random.Random(0)
    chars = (
        " " if draw.random() < spaces else chr(draw.randint(first, last)) for _ in range(count)
    )
    return "".join(chars)


def split(whole: str, parts: int = TEXTS) -> list[str]:
    size = len(whole) // parts
    return [whole[size * part : size * (part + 1)] for part in range(parts)]


SHAPES: dict[str, Callable[[], bytes]] = {
    # values of a wrong type
    "floats": lambda: repeated(b"1.5"),
    "empty lists": lambda: repeated(b"[]"),
    "empty objects": lambda: repeated(b"{}"),
    "nulls": lambda: repeated(b"null"),
    "booleans": lambda: repeated(b"true"),
    "negative numbers": lambda: repeated(b"-1"),
    "not numbers": lambda: repeated(b"NaN"),
    "infinite numbers": lambda: repeated(b"1e999"),
    "large numbers": lambda: repeated(b"9" * 4000),
    "a number of many digits": lambda: b"9" * SIZE,
    "a fraction of many digits": lambda: b"0." + b"9" * SIZE,
    "lists of an empty list": lambda: repeated(b"[[]]"),
    "lists of null": lambda: repeated(b"[null]"),
    "objects of one key": lambda: repeated(b'{"a":0}'),
    "objects without a text": lambda: repeated(b'{"text":1}'),
    "texts that end with a number": lambda: repeated(b'"ab"')[:-1] + b",1]",
    "ids that end with a text": lambda: repeated(b"7")[:-1] + b',"ab"]',
    "ids that end with a fraction": lambda: repeated(b"7")[:-1] + b",1.5]",
    "lists of ids that end with a text": lambda: repeated(b"[7,8]")[:-1] + b',"ab"]',
    "deep lists": lambda: b"[" * 900 + b"]" * 900,
    "deeper lists": lambda: b"[" * (SIZE // 2) + b"]" * (SIZE // 2),
    "deep objects": lambda: b'{"a":' * (SIZE // 6) + b"0" + b"}" * (SIZE // 6),
    "an object of many keys": lambda: (
        b"{" + b",".join(b'"%x":0' % key for key in range(SIZE // 10)) + b"}"
    ),
    "an object of one key many times": lambda: repeated(b'"text":0', b"{}"),
    "half a list": lambda: repeated(b'"ab"')[:-1],
    "unpaired surrogates": lambda: repeated(b'"\\ud800"'),
    # texts of an expected type, too many
    "empty texts": lambda: repeated(b'""'),
    "short texts": lambda: repeated(b'"ab"'),
    "short texts outside ASCII": lambda: repeated('"한"'.encode()),
    "short ids": lambda: repeated(b"[7]"),
    "pairs": lambda: repeated(b'["a","b"]'),
    "threes": lambda: repeated(b'["a","b","c"]'),
    "objects": lambda: repeated(b'{"text":""}'),
    "one list of ids": lambda: repeated(b"7"),
    "one list of many ids": lambda: repeated(b"70"),
    # as many texts as may be sent
    "2048 empty texts": lambda: text([""] * TEXTS),
    "2048 objects": lambda: text([{"text": "a b"}] * TEXTS),
    "2048 pairs": lambda: text([["a b", "c d"]] * TEXTS),
    "2048 lists of ids": lambda: text([[7] * 60] * TEXTS),
    "2048 texts of letters": lambda: text(split(drawn(97, 122, ASCII, 0.15))),
    "2048 texts of ideographs": lambda: text(split(drawn(0x4E00, 0x9FFF, OTHERS))),
    "2048 texts of any script": lambda: text(split(drawn(0x100, 0xD7FF, OTHERS))),
    # one text as long as it may be
    "one word": lambda: text("a" * ASCII),
    "words": lambda: text("ab " * (ASCII // 3)),
    "random words": lambda: text(drawn(97, 122, ASCII, 0.15)),
    "words of 95 letters": lambda: text(drawn(97, 122, ASCII, 1 / 95)),
    "punctuation": lambda: text("!" * ASCII),
    "printable characters": lambda: text(drawn(33, 126, ASCII)[: ASCII - 1]),
    "spaces": lambda: text(" " * ASCII),
    "line breaks": lambda: text("\n" * (ASCII // 2)),
    "control characters": lambda: text("\x01" * 300_000),
    "special tokens": lambda: text("[SEP]" * (ASCII // 5)),
    "masks": lambda: text("[MASK] " * (ASCII // 7)),
    "escapes": lambda: b'"' + b"\\u0061" * (SIZE // 6) + b'"',
    "marks": lambda: text("\u0301" * OTHERS),
    "marks of several classes": lambda: text("\u0301\u0327\u0323\u0345" * (OTHERS // 4)),
    "letters with marks": lambda: text("a\u0301" * (OTHERS - 25_000)),
    "joiners": lambda: text("\u200d" * OTHERS),
    "ligatures": lambda: text("\ufdfa" * OTHERS),
    "dotted capitals": lambda: text("\u0130" * OTHERS),
    "ideographs": lambda: text(drawn(0x4E00, 0x9FFF, OTHERS)),
    "ideographs beyond 16 bits": lambda: text(drawn(0x20000, 0x2A6DF, OTHERS)),
    "syllables": lambda: text(drawn(0xAC00, 0xD7A3, OTHERS)),
    "syllables and spaces": lambda: text(drawn(0xAC00, 0xD7A3, OTHERS, 0.2)),
    "emoji": lambda: text(drawn(0x1F300, 0x1F5FF, OTHERS)),
    "accents": lambda: text(drawn(0xC0, 0xFF, OTHERS, 0.1)),
    "any script": lambda: text(drawn(0x100, 0xD7FF, OTHERS)),
    # a text above --max-characters
    "too many letters": lambda: text("ab " * (SIZE // 3)),
    "too many ideographs": lambda: text("漢" * (SIZE // 3)),
}

# Where the texts stand in the body of each route
ROUTES: dict[str, bytes] = {
    "/v1/embeddings": b'{"input":%s}',
    "/v2/embed": b'{"texts":%s}',
    "/embed": b'{"inputs":%s}',
    "/v1/rerank": b'{"query":"a b","documents":%s}',
    "/rerank": b'{"query":"a b","texts":%s}',
    "/v1/classify": b'{"input":%s}',
    "/predict": b'{"inputs":%s}',
    "/predict?tagger": b'{"model":"tagger","inputs":%s}',
    "/question-answering": b'{"inputs":{"question":"a b","context":%s}}',
    "/score": b'{"text_1":"a b","text_2":%s}',
    "/similarity": b'{"inputs":{"source_sentence":"a b","sentences":%s}}',
    "/tokenize": b'{"inputs":%s}',
    "/": b'{"inputs":%s}',
}

LONG = "ab " * 325_000
WIDE = drawn(0x100, 0xD7FF, OTHERS - 2048)
TEXTS_OF_A_QUERY = ["b"] * TEXTS

# Bodies of particular routes: path, and the whole body
WHOLE: dict[str, tuple[str, Callable[[], bytes]]] = {
    "a long query": (
        "/rerank",
        lambda: text({"query": LONG, "texts": TEXTS_OF_A_QUERY[:2000]}),
    ),
    "a long query of any script": (
        "/v1/rerank",
        lambda: text({"query": WIDE, "documents": TEXTS_OF_A_QUERY[:2000]}),
    ),
    "a long query of few texts": ("/rerank", lambda: text({"query": LONG, "texts": ["b"] * 200})),
    "a long first text of pairs": (
        "/predict",
        lambda: text({"inputs": [[LONG[:1000], "b"]] * 1000}),
    ),
    "a long source sentence": (
        "/similarity",
        lambda: text({"inputs": {"source_sentence": LONG, "sentences": TEXTS_OF_A_QUERY[:1000]}}),
    ),
    "many types of vectors": (
        "/v2/embed",
        lambda: b'{"texts":["a"],"embedding_types":%s}' % repeated(b'"float"'),
    ),
    "a long name of a model": ("/embed", lambda: text({"inputs": "a", "model": "m" * SIZE})),
    "a long name of a prompt": ("/embed", lambda: text({"inputs": "a", "prompt_name": "m" * SIZE})),
    "a long type of input": ("/embeddings", lambda: text({"input": "a", "input_type": "m" * SIZE})),
    "a long number of dimensions": (
        "/embed",
        lambda: b'{"inputs":"a","dimensions":' + b"1" * SIZE + b"}",
    ),
    "many unknown fields": (
        "/embed",
        lambda: b'{"inputs":"a",' + b",".join(b'"%x":0' % key for key in range(SIZE // 10)) + b"}",
    ),
    "an unknown field that is large": (
        "/predict",
        lambda: b'{"inputs":"a","parameters":%s}' % repeated(b"[]"),
    ),
    "one field many times": ("/embed", lambda: repeated(b'"inputs":"a"', b"{}")),
    "a body in UTF-16": ("/embed", lambda: json.dumps({"inputs": "a" * 900_000}).encode("utf-16")),
    "a list for a body": ("/embed", lambda: repeated(b"[]")),
    "a string for a body": ("/rerank", lambda: b'"' + b"a" * SIZE + b'"'),
    "no JSON": ("/rerank", lambda: b"\x00" * SIZE),
    "white space": ("/embed", lambda: b" " * SIZE),
    # each of which becomes a span
    "as many tokens as a tagger takes": (
        "/predict",
        lambda: text({"model": "tagger", "inputs": drawn(0x4E00, 0x9FFF, TAGGED)}),
    ),
    # windows of 64 tokens, each with its question, share 16 of the context
    "as many tokens as an answerer takes": (
        "/question-answering",
        lambda: text({"inputs": {"question": "a b", "context": drawn(0x4E00, 0x9FFF, ANSWERED)}}),
    ),
    "as many questions as an answerer takes": (
        "/question-answering",
        lambda: text({"inputs": [{"question": "a b", "context": "漢" * 15}] * TEXTS}),
    ),
    # the windows of a long question show a token each, and are not made
    "a long question": (
        "/question-answering",
        lambda: text({"inputs": {"question": "b " * 60, "context": "a " * 300_000}}),
    ),
    "one word as the context of many questions": (
        "/question-answering",
        lambda: text({"inputs": [{"question": "b", "context": "a" * 900}] * 700}),
    ),
}
