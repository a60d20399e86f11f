"""Damaged or made-up files of vectors and manifests are a ValueError that names the file."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny_folder import LINES

from minibert import SentenceEmbedder, encode_to_shards, open_vectors
from minibert.text.formats import SHARD_FORMATS, Entry

HUGE = (2**31, 2**63, 2**64, 10**30, -1, -(2**63), 0, 1, True, None, 1.5, "1", [], {})


def header_of(tensor: dict[str, Any], data: bytes = bytes(64)) -> bytes:
    header = json.dumps({"vectors": tensor}).encode()
    return len(header).to_bytes(8, "little") + header + data


def npy_of(shape: str, kind: str = "<f4") -> bytes:
    text = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode() + bytes(64)


def made_up() -> Iterator[tuple[str, bytes]]:
    whole = {"dtype": "F32", "shape": [4, 4], "data_offsets": [0, 64]}
    for value in HUGE:
        yield "v.safetensors", header_of({**whole, "shape": [4, value]})
        yield "v.safetensors", header_of({**whole, "shape": [value, 4]})
        yield "v.safetensors", header_of({**whole, "data_offsets": [value, 64]})
        yield "v.safetensors", header_of({**whole, "data_offsets": [0, value]})
        for name in whole:
            yield "v.safetensors", header_of({**whole, name: value})
        yield "v.npy", npy_of(f"({value!r}, 4)")
        yield "v.npy", npy_of(f"(4, {value!r})")
        yield "v.jsonl", json.dumps({"text": "a", "vector": [value, 1.5]}).encode()
        yield "v.jsonl", json.dumps({"text": "a", "vector": value}).encode()
    yield "v.safetensors", header_of({**whole, "data_offsets": [-60, 4]})
    yield "v.safetensors", header_of({**whole, "data_offsets": [8, 72]})
    yield "v.safetensors", (2**63).to_bytes(8, "little") + b"{}"
    deep = b"[" * 100_000
    yield "v.safetensors", len(deep).to_bytes(8, "little") + deep
    yield "v.jsonl", b'{"vector": ' + deep
    yield "v.jsonl", b'{"vector": [1.5, 1' + b"0" * 400 + b"]}"
    yield "v.jsonl", b'{"vector": [1.5]}\n{"vector": [1.5, 2.5]}'
    yield "v.jsonl", b'{"vector": ["1.5", "2"]}'
    yield "v.npy", npy_of("(4, 4)", "|O")
    yield "v.npy", npy_of("(" * 5000)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("number", range(len(list(made_up()))))
def test_files_that_are_made_up(number: int, tmp_path: Path) -> None:
    name, data = list(made_up())[number]
    check_that_it_is_vectors_or_named(tmp_path / name, data)


def check_that_it_is_vectors_or_named(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    try:
        vectors = open_vectors(path)
    except ValueError as error:
        assert str(path) in str(error)
        return
    # what is opened lies in the file
    assert vectors.ndim == 2 and vectors.nbytes <= 8 * len(data)
    np.asarray(vectors).sum()


@pytest.mark.parametrize("name", ["v.npy.gz", "v.csv", "v"])
def test_endings_that_hold_no_vectors(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(npy_of("(4, 4)"))
    with pytest.raises(ValueError, match=rf"{name} should be a folder of shards, or end in \.npy"):
        open_vectors(tmp_path / name)


DAMAGE: tuple[Callable[[bytearray, random.Random], bytes | bytearray], ...] = (
    lambda data, draw: data[: draw.randrange(len(data))],
    lambda data, draw: data[draw.randrange(len(data)) :],
    lambda data, draw: data + data[: draw.randrange(len(data))],
)


def damaged(data: bytes, draw: random.Random) -> bytes:
    """The bytes with some changed, or a piece missing or twice."""
    changed = bytearray(data)
    if draw.random() < 0.3:
        return bytes(draw.choice(DAMAGE)(changed, draw))
    for _ in range(draw.randrange(1, 6)):
        changed[draw.randrange(len(data))] = draw.choice((0, 1, 255, draw.randrange(256)))
    return bytes(changed)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", SHARD_FORMATS)
def test_files_that_are_damaged(name: str, tmp_path: Path) -> None:
    if name in ("parquet", "arrow"):
        pytest.importorskip("pyarrow")
    path = tmp_path / f"v.{name}"
    vectors = np.arange(24, dtype=np.float32).reshape(6, 4)
    entries = [Entry(f"text {number}", number) for number in range(6)]
    SHARD_FORMATS[name].write_vectors(path, [(entries, vectors)], 4)
    data = path.read_bytes()
    draw = random.Random(0)
    for _ in range(120):
        check_that_it_is_vectors_or_named(path, damaged(data, draw))


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("vectors")
    embedder = SentenceEmbedder.from_pretrained("minibert-tiny")
    encode_to_shards(embedder, LINES[:20], folder, shard_size=8)
    return folder


@pytest.mark.parametrize("name", ["lines", "tokens", "overlong", "bytes", "sha256", "texts"])
def test_a_manifest_whose_shards_cannot_be(name: str, shards: Path) -> None:
    path = shards / ".manifest"
    whole = path.read_text(encoding="utf-8")
    try:
        for value in HUGE:
            manifest = json.loads(whole)
            manifest["shards"][1][name] = value
            path.write_text(json.dumps(manifest), encoding="utf-8")
            is_count = type(value) is int and 0 <= value < 2**63
            if (is_count and name in ("tokens", "overlong")) or (name, value) == ("sha256", "1"):
                continue  # opening does not depend on them
            with pytest.raises(ValueError, match=r"manifest has|bytes, not|damaged"):
                open_vectors(shards)
    finally:
        path.write_text(whole, encoding="utf-8")


@pytest.mark.parametrize("name", ["dimension", "unit", "shards", "file_format", "model"])
def test_a_manifest_that_cannot_be(name: str, shards: Path) -> None:
    path = shards / ".manifest"
    whole = path.read_text(encoding="utf-8")
    try:
        for value in HUGE:
            manifest = json.loads(whole)
            manifest[name] = value
            path.write_text(json.dumps(manifest), encoding="utf-8")
            if (name, value) in (("unit", True), ("model", "1")):
                continue
            with pytest.raises(ValueError, match=r"\.manifest|should hold"):
                np.asarray(open_vectors(shards))
    finally:
        path.write_text(whole, encoding="utf-8")


def test_a_damaged_record_is_written_again(shards: Path, tmp_path: Path) -> None:
    embedder = SentenceEmbedder.from_pretrained("minibert-tiny")
    encode_to_shards(embedder, LINES[:20], tmp_path, shard_size=8)
    manifest = json.loads((tmp_path / ".manifest").read_text(encoding="utf-8"))
    records = manifest.pop("shards")
    (tmp_path / ".manifest").write_text(json.dumps(manifest), encoding="utf-8")
    records[0]["lines"] = -1
    for number, record in enumerate(records):
        (tmp_path / f".shard-00000{number}").write_text(json.dumps(record), encoding="utf-8")
    report = encode_to_shards(embedder, LINES[:20], tmp_path, shard_size=8)
    assert (report.shards, report.skipped) == (1, 2)
