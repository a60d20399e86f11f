"""Structure-aware fuzzing of files.

Each damaged file loads or raises a clear error that names it, without much time or memory.
"""

from __future__ import annotations

import io
import json
import random
import resource
import shutil
import tarfile
import time
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import tiny_config
from safetensors.torch import load_file
from tiny_folder import tiny_folder

from minibert import BertForSequenceClassification, BertModel, BertTokenizer, SentenceEmbedder
from minibert.tasks.sequence import SequenceTask
from minibert.training.options import TrainingOptions
from minibert.training.run import Run
from minibert.training.state import cut_log, read_state

# errors with a message for users
CLEAR = (ValueError, TypeError, FileNotFoundError)
ODD: list[Any] = [
    None,
    True,
    -1,
    0,
    1.5,
    10**6,
    10**9,
    10**18,
    1e308,
    "",
    1,
    2,
    "x" * 5000,
    ["x" * 5000],
    {"x" * 5000: 1},
    "\ud800",
    [],
    [[]],
    {},
    {"a": 1},
    [1, "a"],
]


def change_bytes(data: bytes, draw: random.Random) -> bytes:
    """Truncate data, change a few bits or bytes, or repeat, drop or zero a part."""
    if not data:
        return b"\0"
    changed, at = bytearray(data), draw.randrange(len(data))
    size = draw.choice([1, 4, 100, 10_000])
    kind = draw.randrange(6)
    if kind == 0:
        del changed[at:]
    elif kind == 1:
        changed[at] ^= 1 << draw.randrange(8)
    elif kind == 2:
        changed[at : at + size] = draw.randbytes(size)
    elif kind == 3:
        changed[at:at] = changed[at : at + size]
    elif kind == 4:
        del changed[at : at + size]
    else:
        changed[at : at + size] = bytes(size)
    return bytes(changed)


def change_json(text: bytes, draw: random.Random) -> bytes:
    """Replace or delete one value anywhere in a JSON document."""
    try:
        content = json.loads(text)
    except ValueError:
        return change_bytes(text, draw)
    values: list[tuple[Any, Any]] = []

    def walk(node: Any) -> None:
        for key in list(node) if isinstance(node, dict) else range(len(node)):
            values.append((node, key))
            if isinstance(node[key], (dict, list)):
                walk(node[key])

    if isinstance(content, (dict, list)):
        walk(content)
    if not values or draw.random() < 0.05:
        return json.dumps(draw.choice(ODD)).encode()
    node, key = draw.choice(values)
    if draw.random() < 0.2:
        del node[key]
    else:
        node[key] = draw.choice(ODD)
    return json.dumps(content).encode()


def change_safetensors(data: bytes, draw: random.Random) -> bytes:
    """Change the JSON header of a safetensors file and keep its length field valid."""
    if draw.random() < 0.4:
        return change_bytes(data, draw)
    size = int.from_bytes(data[:8], "little")
    header = change_json(data[8 : 8 + size], draw)
    header += b" " * (-len(header) % 8)
    return len(header).to_bytes(8, "little") + header + data[8 + size :]


def change_zip(data: bytes, draw: random.Random) -> bytes:
    """Change one member of a zip file and keep checksums valid, sometimes with compression."""
    if draw.random() < 0.3:
        return change_bytes(data, draw)
    output = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old:
        victim = draw.choice(
            [name for name in old.namelist() if draw.random() < 0.2 or "data.pkl" in name]
        )
        with zipfile.ZipFile(
            output, "w", draw.choice([zipfile.ZIP_STORED] * 4 + [zipfile.ZIP_DEFLATED])
        ) as new:
            for name in old.namelist():
                part = old.read(name)
                if name == victim:
                    if draw.random() < 0.1:
                        continue
                    part = change_bytes(part, draw)
                new.writestr(name, part)
    return output.getvalue()


def change_lines(data: bytes, draw: random.Random) -> bytes:
    lines = data.split(b"\n")
    if draw.random() < 0.4:
        return change_bytes(data, draw)
    line = draw.randrange(len(lines))
    lines[line] = (
        change_json(lines[line], draw)
        if lines[line].startswith(b"{")
        else change_bytes(lines[line], draw)
    )
    return b"\n".join(lines)


@pytest.fixture(scope="module")
def seeds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint in every format, its tokenizer files, and a training run."""
    folder = tmp_path_factory.mktemp("seeds")
    tiny_folder(folder / "model", num_hidden_layers=1)
    tensors = load_file(folder / "model" / "model.safetensors")
    torch.save(tensors, folder / "zip.bin")
    torch.save(tensors, folder / "legacy.bin", _use_new_zipfile_serialization=False)
    with tarfile.open(folder / "tar.bin", "w") as tar:
        tar.add(folder / "legacy.bin", "pickle")
    BertTokenizer.from_pretrained(folder / "model").save_pretrained(folder / "tokenizer")
    SentenceEmbedder.from_pretrained(folder / "model", precision=None).save_pretrained(
        folder / "sentences"
    )
    trainer(folder / "run", steps=3).train()
    return folder


def trainer(folder: Path, steps: int) -> Run:
    examples = [{"input_ids": torch.arange(5, 12).numpy(), "labels": n % 2} for n in range(8)]
    model = BertForSequenceClassification(tiny_config(num_hidden_layers=1))
    options = TrainingOptions(steps=steps, batch_size=4)
    return Run(model, lambda _: examples, SequenceTask().loss, folder, options)


def load_model(folder: Path) -> None:
    BertModel.from_pretrained(folder)


def load_tokenizer(folder: Path) -> None:
    BertTokenizer.from_pretrained(folder)(["hello world", "x"], padding=True)


def load_sentences(folder: Path) -> None:
    SentenceEmbedder.from_pretrained(folder, precision=None).encode(["hello world"])


def load_state(folder: Path) -> None:
    read_state(folder / "state.pt")


def load_run(folder: Path) -> None:
    cut_log(folder / "log.jsonl", 3)


Change = Callable[[bytes, random.Random], bytes]
CASES: dict[str, tuple[str, str, Change, Callable[[Path], None], int]] = {
    "config": ("model/config.json", "config.json", change_json, load_model, 3000),
    "safetensors": (
        "model/model.safetensors",
        "model.safetensors",
        change_safetensors,
        load_model,
        4000,
    ),
    "bin, zip": ("zip.bin", "pytorch_model.bin", change_zip, load_model, 3000),
    "bin, legacy": ("legacy.bin", "pytorch_model.bin", change_bytes, load_model, 2000),
    "bin, tar": ("tar.bin", "pytorch_model.bin", change_bytes, load_model, 1000),
    **{
        f"sentences, {name}": (f"sentences/{name}", name, change_json, load_sentences, 1000)
        for name in (
            "modules.json",
            "config_sentence_transformers.json",
            "sentence_bert_config.json",
        )
    },
    "pooling": (
        "sentences/1_Pooling/config.json",
        "1_Pooling/config.json",
        change_json,
        load_sentences,
        1000,
    ),
    "vocab": ("model/vocab.txt", "vocab.txt", change_lines, load_tokenizer, 1000),
    "tokenizer_config": (
        "model/tokenizer_config.json",
        "tokenizer_config.json",
        change_json,
        load_tokenizer,
        2000,
    ),
    "tokenizer": ("tokenizer/tokenizer.json", "tokenizer.json", change_json, load_tokenizer, 1000),
    "state": ("run/states/state-000000003.pt", "state.pt", change_zip, load_state, 2000),
    "log": ("run/log.jsonl", "log.jsonl", change_lines, load_run, 1000),
}


@pytest.mark.parametrize("share", [100, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.usefixtures("one_thread")
def test_damaged_files(seeds: Path, tmp_path: Path, case: str, share: int) -> None:
    """The slow run has 24,000 loads in total."""
    seed, name, change, load, count = CASES[case]
    folder = tmp_path / "folder"
    shutil.copytree(
        seeds / {"run": "run", "sentences": "sentences"}.get(seed.split("/")[0], "model"), folder
    )
    if name.endswith(".bin"):
        (folder / "model.safetensors").unlink()
    data, unclear, slow = (seeds / seed).read_bytes(), [], []
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # includes all earlier tests
    for number in range(count // share):
        draw = random.Random(f"{case} {number}")
        (folder / name).write_bytes(change(data, draw))
        began = time.process_time()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                load(folder)
        except CLEAR as error:
            named = name in str(error) or str(folder) in str(error)
            if not named or len(str(error)) > 1000:
                unclear.append((number, repr(error)[:300]))
        except Exception as error:
            unclear.append((number, repr(error)[:300]))
        if (seconds := time.process_time() - began) > 2:
            slow.append((number, seconds))
    assert not unclear, (len(unclear), unclear[:10])
    assert not slow or share > 1, slow
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak < 1 << 20  # KB, so 1 GB
