"""Small files that claim huge sizes.

Each raises an error that names the field or the file, without using much memory.
"""

from __future__ import annotations

import json
import multiprocessing
import re
import resource
import shutil
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from forked import forked
from safetensors.torch import load_file, save_file
from tiny_folder import sentence_folder, tiny_folder

from minibert import BertForSequenceClassification, BertModel, BertTokenizer, SentenceEmbedder
from minibert.tasks.readers import read_squad
from minibert.text import read
from minibert.training.state import read_state

GIANT = 10**10


def load_model(folder: Path) -> None:
    BertModel.from_pretrained(folder)


def load_classifier(folder: Path) -> None:
    BertForSequenceClassification.from_pretrained(folder)


def load_tokenizer(folder: Path) -> None:
    BertTokenizer.from_pretrained(folder)(["hello world"])


def set_fields(filename: str, **values: Any) -> Callable[[Path], None]:
    """Return a function that sets fields of a JSON file."""

    def change(folder: Path) -> None:
        path = folder / filename
        content = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        path.write_text(json.dumps({**content, **values}), encoding="utf-8")

    return change


def write_sparse_file(filename: str) -> Callable[[Path], None]:
    """Return a function that writes a sparse file of 100 GB, which takes no disk space."""

    def change(folder: Path) -> None:
        with (folder / filename).open("wb") as file:
            file.truncate(10**11)

    return change


def write_text(filename: str, content: str) -> Callable[[Path], Any]:
    return lambda folder: (folder / filename).write_text(content, encoding="utf-8")


def set_huge_token_id(folder: Path) -> None:
    BertTokenizer.from_pretrained(folder).save_pretrained(folder)
    content = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    content["model"]["vocab"]["hello"] = 10**15
    (folder / "tokenizer.json").write_text(json.dumps(content), encoding="utf-8")


def write_tensor_beyond_the_file(folder: Path) -> None:
    header = json.dumps(
        {"a": {"dtype": "F32", "shape": [GIANT], "data_offsets": [0, 4 * GIANT]}}
    ).encode()
    (folder / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)


def write_header_beyond_the_file(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes((GIANT).to_bytes(8, "little") + b"{}")


def write_wide_dense(folder: Path) -> None:
    sentence_folder(folder, ("Pooling", {}), ("Dense", {"in_features": 32, "out_features": GIANT}))
    save_file(
        {"linear.weight": torch.zeros(2, 32), "linear.bias": torch.zeros(2)},
        folder / "2_Dense/model.safetensors",
    )


def save_compressed(path: Path, tensors: Any) -> None:
    """Write a file like torch.save, but with 400 MB of compressed zeros in place of a tensor."""
    torch.save(tensors, whole := path.with_name("whole"))
    with (
        zipfile.ZipFile(whole) as old,
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as new,
    ):
        for name in old.namelist():
            if name.endswith("data/0"):
                with new.open(name, "w", force_zip64=True) as file:
                    for _ in range(400):
                        file.write(bytes(10**6))
            else:
                new.writestr(name, old.read(name))
    whole.unlink()


def write_compressed_bin(folder: Path) -> None:
    save_compressed(folder / "pytorch_model.bin", load_file(folder / "model.safetensors"))
    (folder / "model.safetensors").unlink()


Bomb = tuple[Callable[[Path], Any], Callable[[Path], Any], str]
BOMBS: dict[str, Bomb] = {
    **{
        name: (set_fields("config.json", **{name: GIANT}), load_model, rf"config\.json.*{name}")
        for name in (
            *(
                "vocab_size",
                "hidden_size",
                "num_hidden_layers",
                "intermediate_size",
                "max_position_embeddings",
            ),
            "type_vocab_size",
        )
    },
    "num_attention_heads": (
        set_fields("config.json", num_attention_heads=GIANT),
        load_model,
        "model.*num_attention_heads",
    ),
    "num_labels": (
        set_fields("config.json", num_labels=GIANT),
        load_classifier,
        r"config\.json.*num_labels",
    ),
    "id2label": (
        set_fields("config.json", id2label={str(GIANT): "x"}),
        load_classifier,
        r"config\.json.*id2label",
    ),
    "vocabulary with holes": (
        write_sparse_file("vocab.txt"),
        load_tokenizer,
        r"vocab\.txt has 100,000,000,000 bytes",
    ),
    "vocabulary of empty lines": (
        write_text("vocab.txt", "[UNK]" + "\n" * 5_000_000),
        load_tokenizer,
        r"vocab\.txt has 5,000,000 lines",
    ),
    "deep tokenizer": (
        write_text("tokenizer.json", "[" * 10**6),
        load_tokenizer,
        r"tokenizer\.json is not JSON",
    ),
    "id of a piece": (set_huge_token_id, load_tokenizer, r"tokenizer\.json.*not 1000000000000000"),
    "id of an added token": (
        set_fields("tokenizer_config.json", added_tokens_decoder={"9" * 17: {"content": "x"}}),
        load_tokenizer,
        r"tokenizer_config\.json: Ids should be",
    ),
    "many added tokens": (
        set_fields(
            "tokenizer_config.json",
            extra_special_tokens=[f"<{number}>" for number in range(100_001)],
        ),
        load_tokenizer,
        "100,001 added tokens, more than 100,000",
    ),
    "tensor beyond the file": (write_tensor_beyond_the_file, load_model, r"model\.safetensors"),
    "header beyond the file": (write_header_beyond_the_file, load_model, r"model\.safetensors"),
    "compressed .bin": (write_compressed_bin, load_model, r"pytorch_model\.bin is refused"),
    "compressed state": (
        lambda folder: save_compressed(folder / "state.pt", {"model": {"a": torch.zeros(3)}}),
        lambda folder: read_state(folder / "state.pt"),
        r"state\.pt is damaged \(it is compressed",
    ),
    "state with holes": (
        write_sparse_file("state.pt"),
        lambda folder: read_state(folder / "state.pt"),
        r"state\.pt is damaged",
    ),
    "deep row": (
        write_text("rows.jsonl", "[" * 10**6),
        lambda folder: list(read(folder / "rows.jsonl")),
        r"rows\.jsonl, line 1",
    ),
    "deep questions": (
        write_text("squad.json", "[" * 10**6),
        lambda folder: read_squad(folder / "squad.json"),
        r"squad\.json is not JSON",
    ),
    "dense layer": (
        write_wide_dense,
        lambda folder: SentenceEmbedder.from_pretrained(folder),
        r"2_Dense should hold the tensors .*10000000000",
    ),
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tiny_folder(tmp_path_factory.mktemp("bombs") / "model", num_hidden_layers=1)
    load_tokenizer(folder)
    load_model(folder)
    return folder


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10  # MB


def load_bomb(bomb: str, folder: Path, answer: Any) -> None:
    """Load a bomb, and send the error and the MB of memory that it took."""
    before = peak()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            BOMBS[bomb][1](folder)
        answer.send(("no error", "", peak() - before))
    except Exception as error:
        answer.send((type(error).__name__, str(error), peak() - before))


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("bomb", BOMBS)
@pytest.mark.needs("fork")
def test_bombs(bomb: str, whole: Path, tmp_path: Path) -> None:
    """Each bomb is loaded in its own process, so that its peak memory can be measured."""
    make, _, message = BOMBS[bomb]
    folder = tmp_path / "model"
    shutil.copytree(whole, folder)
    make(folder)
    received, answer = multiprocessing.Pipe(duplex=False)
    process = forked(load_bomb, bomb, folder, answer)
    answer.close()  # or recv would wait forever for a process that was killed
    assert received.poll(300), "the process does not end"
    kind, text, megabytes = received.recv()
    process.join()
    assert kind in ("ValueError", "BadRowError", "FileNotFoundError"), (kind, text[:400])
    assert re.search(message, text, re.DOTALL), text[:400]
    assert megabytes < 300
