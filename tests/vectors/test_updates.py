"""Updating a folder of vectors computes only new texts, and never loses a complete state."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from forked import KILLED, in_a_fork
from tiny_folder import WORDS, tiny_folder

from minibert import SentenceEmbedder, encode_to_file, encode_to_shards, open_vectors
from minibert.cli import main
from minibert.text import Row, Table
from minibert.tokenization.spec import tokenizer_digest
from minibert.vectors import shards
from minibert.vectors.folder import open_checked_vectors

TEXTS = [f"{first} {second} {third}" for first in WORDS for second in WORDS for third in WORDS[:2]]
CHANGED = [*TEXTS[5:50], "quite new", *TEXTS[60:], TEXTS[3], "new, too"]
SIZE = {"shard_size": 32}
IDS = Table(id="id")


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.mark.parametrize("file_format", ["npy", "safetensors", "jsonl", "parquet", "arrow"])
def test_only_new_texts_are_computed(
    file_format: str, embedder: SentenceEmbedder, tmp_path: Path
) -> None:
    options: Any = {"file_format": file_format, **SIZE}
    folder = tmp_path / "vectors"
    first = encode_to_shards(embedder, TEXTS, folder, update=True, **options)
    assert (first.lines, first.kept) == (len(TEXTS), 0)
    second = encode_to_shards(embedder, CHANGED, folder, update=True, **options)
    assert (second.lines, second.kept) == (len(CHANGED), len(CHANGED) - 2)
    np.testing.assert_allclose(
        np.asarray(open_vectors(folder)), embedder.encode(CHANGED), atol=1e-6
    )
    encode_to_shards(embedder, CHANGED, tmp_path / "anew", **options)
    assert names(folder) == names(tmp_path / "anew")
    assert names(tmp_path) == {"vectors", "anew"}  # no temporary folder is left


@pytest.mark.parametrize("file_format", ["npy", "jsonl"])
def test_a_reader_is_given_no_shards_of_a_later_update(
    file_format: str, embedder: SentenceEmbedder, tmp_path: Path
) -> None:
    options: Any = {"file_format": file_format, **SIZE}
    encode_to_shards(embedder, TEXTS, tmp_path / "vectors", **options)
    vectors = open_vectors(tmp_path / "vectors")
    first = vectors[:2].copy()
    encode_to_shards(embedder, TEXTS[::-1], tmp_path / "vectors", update=True, **options)
    np.testing.assert_array_equal(vectors[:2], first)
    with pytest.raises(ValueError, match="open the folder again"):
        vectors[32:34]
    again = open_vectors(tmp_path / "vectors")
    np.testing.assert_allclose(again[-2:], first[::-1], atol=1e-6)


@pytest.mark.needs("links")
def test_a_link_to_the_folder_stays(embedder: SentenceEmbedder, tmp_path: Path) -> None:
    folder, link = tmp_path / "large disk" / "vectors", tmp_path / "vectors"
    encode_to_shards(embedder, TEXTS, folder, **SIZE)
    link.symlink_to(folder)
    for texts in (CHANGED, TEXTS):
        encode_to_shards(embedder, texts, link, update=True, **SIZE)
        assert link.is_symlink() and len(open_vectors(folder)) == len(texts)
        assert names(tmp_path) == {"large disk", "vectors"}
        assert names(folder.parent) == {"vectors"}


@pytest.mark.needs("fork")
@pytest.mark.usefixtures("one_thread")
def test_processes_share_an_update(
    embedder: SentenceEmbedder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Forked ones, which start at once. Those of `test_processes_share_the_shards` are spawned."""
    started: list[int] = []

    class Pool(ProcessPoolExecutor):
        def __init__(self, processes: int, _: Any, *arguments: Any) -> None:
            started.append(processes)
            super().__init__(processes, get_context("fork"), *arguments)

    monkeypatch.setattr(shards, "ProcessPoolExecutor", Pool)
    reports = []
    for processes in (1, 2):
        folder = tmp_path / str(processes)
        encode_to_shards(embedder, TEXTS, folder, **SIZE)
        options: Any = {"update": True, "processes": processes, **SIZE}
        reports.append(encode_to_shards(embedder, CHANGED, folder, **options))
    assert reports[0] == reports[1] and started == [2]
    one, two = (np.asarray(open_vectors(tmp_path / name)) for name in ("1", "2"))
    np.testing.assert_allclose(one, two, atol=1e-6)


def test_parquet_works_without_pandas_and_limits_ids_to_64_bits(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    code = (
        "import sys, numpy as np\n"
        "from pathlib import Path\n"
        "from minibert.text.formats import SHARD_FORMATS, Entry\n"
        "chunks = [([Entry('a', int(sys.argv[2])), Entry('b', -1)], np.ones((2, 4), np.float32))]\n"
        "SHARD_FORMATS['parquet'].write_vectors(Path(sys.argv[1]), iter(chunks), 4)\n"
        "assert SHARD_FORMATS['parquet'].read_vectors(Path(sys.argv[1])).shape == (2, 4)\n"
        "assert 'pandas' not in sys.modules\n"
    )
    for row_id, error in ((2**63 - 1, ""), (2**63, "to 2**63 - 1. Write longer")):
        arguments = [sys.executable, "-c", code, str(tmp_path / "a.parquet"), str(row_id)]
        run = subprocess.run(arguments, capture_output=True, encoding="utf-8", check=False)
        assert error in run.stderr, run.stderr
        assert bool(error) == bool(run.returncode), run.stderr


def test_pandas_reads_a_folder_of_parquet(embedder: SentenceEmbedder, tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    encode_to_shards(embedder, TEXTS, tmp_path / "v", file_format="parquet", **SIZE)
    frame = pandas.read_parquet(tmp_path / "v")
    assert frame["text"].tolist() == TEXTS
    assert np.array_equal(np.stack(frame["vector"]), np.asarray(open_vectors(tmp_path / "v")))


def test_ids_come_from_the_new_file(embedder: SentenceEmbedder, tmp_path: Path) -> None:
    options: Any = {"file_format": "jsonl", **SIZE}
    for first in (0, 100):
        rows = [
            Row("a.jsonl", number, {"text": text, "id": first + number}, Table(id="id"))
            for number, text in enumerate(TEXTS[:9])
        ]
        report = encode_to_shards(embedder, rows, tmp_path / "v", update=True, **options)
    assert report.kept == 9
    lines = (tmp_path / "v" / "shard-000000.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["id"] for line in lines] == list(range(100, 109))


@pytest.mark.parametrize("damage", ["cut off", "deleted"])
def test_the_vectors_of_a_damaged_shard_are_computed_again(
    damage: str, embedder: SentenceEmbedder, tmp_path: Path
) -> None:
    folder = tmp_path / "v"
    encode_to_shards(embedder, TEXTS, folder, **SIZE)
    shard = folder / "shard-000001.npy"
    if damage == "deleted":
        shard.unlink()
    else:
        shard.write_bytes(shard.read_bytes()[:200])
    with pytest.warns(UserWarning, match="shard-000001.npy has been damaged or deleted"):
        report = encode_to_shards(embedder, CHANGED, folder, update=True, **SIZE)
    lost = set(TEXTS[32:64]) | {"quite new", "new, too"}
    assert report.kept == sum(text not in lost for text in CHANGED)
    np.testing.assert_allclose(
        np.asarray(open_vectors(folder)), embedder.encode(CHANGED), atol=1e-6
    )


def test_a_run_that_fails_at_once_leaves_no_folder(
    embedder: SentenceEmbedder, tmp_path: Path
) -> None:
    broken: list[Any] = [None]
    with pytest.raises(ValueError, match="texts should be strings"):
        encode_to_shards(embedder, broken, tmp_path / "new", **SIZE)
    assert names(tmp_path) == set()
    encode_to_shards(embedder, TEXTS, tmp_path / "v", **SIZE)
    with pytest.raises(ValueError, match="texts should be strings"):
        encode_to_shards(embedder, broken, tmp_path / "v", update=True, **SIZE)
    assert names(tmp_path) == {"v"}


def test_ids_of_a_table_have_one_type_in_all_its_files(
    embedder: SentenceEmbedder, tmp_path: Path
) -> None:
    pytest.importorskip("pyarrow")
    rows = [
        Row("a.jsonl", number, {"text": text, "id": number if number < 32 else str(number)}, IDS)
        for number, text in enumerate(TEXTS[:64])
    ]
    for file_format in ("parquet", "jsonl"):
        options: Any = {"file_format": file_format, **SIZE}
        if file_format == "jsonl":
            assert encode_to_shards(embedder, rows, tmp_path / "lines", **options).shards == 2
        else:
            with pytest.raises(ValueError, match="not some of each"):
                encode_to_shards(embedder, rows, tmp_path / "table", **options)


def test_another_model_or_setting_raises_an_error(
    embedder: SentenceEmbedder, tmp_path: Path
) -> None:
    encode_to_shards(embedder, TEXTS, tmp_path / "v", **SIZE)
    before = np.asarray(open_vectors(tmp_path / "v"))
    with pytest.raises(ValueError, match="was begun with prompt"):
        encode_to_shards(embedder, TEXTS, tmp_path / "v", update=True, prompt="x ", **SIZE)
    other = SentenceEmbedder(embedder.model, embedder.tokenizer, pooling="max")
    with pytest.raises(ValueError, match="was begun with pooling"):
        encode_to_shards(other, TEXTS, tmp_path / "v", update=True, **SIZE)
    assert np.array_equal(np.asarray(open_vectors(tmp_path / "v")), before)
    with pytest.raises(ValueError, match="for a single run"):
        encode_to_shards(embedder, TEXTS, tmp_path / "v", update=True, world_size=2)


def test_a_failed_update_leaves_the_old_state(embedder: SentenceEmbedder, tmp_path: Path) -> None:
    encode_to_shards(embedder, TEXTS, tmp_path / "v", **SIZE)
    before = np.asarray(open_vectors(tmp_path / "v"))
    broken: list[Any] = [*CHANGED, None]
    with pytest.raises(ValueError, match="texts should be strings"):
        encode_to_shards(embedder, broken, tmp_path / "v", update=True, **SIZE)
    assert np.array_equal(np.asarray(open_vectors(tmp_path / "v")), before)
    # the shards that the failed update wrote are complete
    report = encode_to_shards(embedder, CHANGED, tmp_path / "v", update=True, **SIZE)
    assert report.skipped == len(CHANGED) // SIZE["shard_size"] and report.kept + 1 == report.lines
    assert names(tmp_path) == {"v"}


def test_files_of_others_stay_in_the_folder(embedder: SentenceEmbedder, tmp_path: Path) -> None:
    folder = tmp_path / "v"
    encode_to_shards(embedder, TEXTS, folder, **SIZE)
    for name in ("texts.index", ".notes"):
        (folder / name).write_text("precious", encoding="utf-8")
    (folder / "more").mkdir()
    encode_to_shards(embedder, CHANGED, folder, update=True, **SIZE)
    assert names(folder) >= {"texts.index", ".notes", "more"}
    encode_to_shards(embedder, TEXTS[:40], folder, update=True, **SIZE)
    shards_and_manifest = {".manifest", "shard-000000.npy", "shard-000001.npy"}
    assert names(folder) == {*shards_and_manifest, "texts.index", ".notes", "more"}
    assert names(tmp_path) == {"v"}


@pytest.mark.needs("fork")
@pytest.mark.parametrize("is_killed", [True, False], ids=["killed", "failed"])
@pytest.mark.parametrize("every", [7, pytest.param(1, marks=pytest.mark.slow)])
def test_an_update_that_ends_at_any_step(
    every: int,
    is_killed: bool,
    embedder: SentenceEmbedder,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever comes next finds the old vectors or the new ones, and the files of others."""
    monkeypatch.setattr(os, "fsync", lambda handle: None)
    texts = TEXTS[:10]
    changed = ["a new text", *texts[2:]]
    options: Any = {"shard_size": 4}
    encode_to_shards(embedder, texts, tmp_path / "old" / "v", **options)
    (tmp_path / "old" / "v" / "texts.index").write_text("precious", encoding="utf-8")
    lengths = {len(texts): False, len(changed): True}
    seen = []
    shutil.copytree(tmp_path / "old", tmp_path / "counted")
    _, steps = in_a_fork(
        lambda: encode_to_shards(embedder, changed, tmp_path / "counted/v", update=True, **options)
    )
    for step in range(1, steps + 1, every):
        folder = tmp_path / "copy" / "v"
        shutil.copytree(tmp_path / "old", tmp_path / "copy")
        end, _ = in_a_fork(
            lambda folder=folder: encode_to_shards(
                embedder, changed, folder, update=True, **options
            ),
            killed_at=step if is_killed else 0,
            failing_at=0 if is_killed else step,
        )
        assert end in ((KILLED,) if is_killed else (0, 1))
        seen.append(lengths[len(open_vectors(folder))])
        np.testing.assert_allclose(
            open_vectors(folder)[:],
            embedder.encode(changed if seen[-1] else texts),
            atol=1e-6,
        )
        if not seen[-1]:  # not an update: it only completes what is there
            assert encode_to_shards(embedder, texts, folder, **options).skipped == 3
            assert names(tmp_path / "copy") == {"v"}
        encode_to_shards(embedder, changed, folder, update=True, **options)
        shards = {f"shard-{number:06d}.npy" for number in range(3)}
        assert names(folder) == {".manifest", "texts.index", *shards}
        assert names(tmp_path / "copy") == {"v"}
        shutil.rmtree(tmp_path / "copy")
    assert steps > 20 and (seen == sorted(seen) or not is_killed)


@pytest.mark.parametrize("texts", [CHANGED, TEXTS[1:40]], ids=["changed", "fewer"])
def test_an_unfinished_folder_is_updated(
    texts: list[str], embedder: SentenceEmbedder, tmp_path: Path
) -> None:
    broken: list[Any] = [*TEXTS, None]
    with pytest.raises(ValueError, match="texts should be strings"):
        encode_to_shards(embedder, broken, tmp_path / "v", **SIZE)
    with pytest.raises(ValueError, match="pass update=True"):
        encode_to_shards(embedder, texts, tmp_path / "v", **SIZE)
    encode_to_shards(embedder, texts, tmp_path / "v", update=True, **SIZE)
    np.testing.assert_allclose(
        np.asarray(open_vectors(tmp_path / "v")), embedder.encode(texts), atol=1e-6
    )


@pytest.mark.slow
def test_an_update_that_is_killed_loses_no_state(
    embedder: SentenceEmbedder, tmp_path: Path
) -> None:
    model = str(tiny_folder(tmp_path / "model"))
    file = tmp_path / "texts.txt"
    arguments = ["embed", "-m", model, "--file", str(file), "-o", f"{tmp_path / 'v'}/"]
    arguments += ["--shard-size", "8", "--update"]
    file.write_text("\n".join(TEXTS), encoding="utf-8")
    assert main(arguments) == 0
    states = [open_vectors(tmp_path / "v")[:]]
    file.write_text("\n".join(CHANGED), encoding="utf-8")
    command = [sys.executable, "-m", "minibert", *arguments]
    for attempt in range(10):
        with subprocess.Popen(command, env={**os.environ}) as run:
            time.sleep(0.5 + 0.35 * attempt)
            run.kill()
        assert len(open_vectors(tmp_path / "v")) in (len(TEXTS), len(CHANGED))
    assert main(arguments) == 0
    loaded = SentenceEmbedder.from_pretrained(model)
    np.testing.assert_allclose(
        np.asarray(open_vectors(tmp_path / "v")), loaded.encode(CHANGED), atol=1e-5
    )
    assert len(states[0]) == len(TEXTS)


def test_the_manifest_names_the_model(tmp_path: Path) -> None:
    for name, layers in (("one", 1), ("two", 2)):
        tiny_folder(tmp_path / name, num_hidden_layers=layers)
    first, second = (SentenceEmbedder.from_pretrained(tmp_path / name) for name in ("one", "two"))
    encode_to_shards(first, TEXTS[:4], tmp_path / "v")
    with pytest.raises(ValueError, match=r"was begun with "):
        encode_to_shards(second, TEXTS[:4], tmp_path / "v", update=True)
    manifest = json.loads((tmp_path / "v" / ".manifest").read_text(encoding="utf-8"))
    assert manifest["model_name"] == str(tmp_path / "one")


def test_a_folder_keeps_its_format_and_the_size_of_its_shards(
    embedder: SentenceEmbedder, tmp_path: Path
) -> None:
    encode_to_shards(embedder, TEXTS, tmp_path / "v", file_format="safetensors", shard_size=3)
    names = sorted(path.name for path in (tmp_path / "v").iterdir())
    assert encode_to_shards(embedder, TEXTS, tmp_path / "v").skipped == len(names) - 1
    report = encode_to_shards(embedder, [*TEXTS[1:], "a new one"], tmp_path / "v", update=True)
    assert report.kept == len(TEXTS) - 1
    assert sorted(path.name for path in (tmp_path / "v").iterdir()) == names


@pytest.mark.parametrize("path", ["v", "v.jsonl"])
def test_ids_that_are_empty_or_repeat_are_said(
    path: str, embedder: SentenceEmbedder, tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    ids = ["a", "b", "", "a", "", "b", "a"]
    rows = [Row("f", 1, {"text": "x", "id": text_id}, IDS) for text_id in ids]
    write = encode_to_file if "." in path else encode_to_shards
    write(embedder, rows, tmp_path / path)
    assert [str(warning.message) for warning in recwarn] == [
        "2 ids are empty, the first in row 3.",
        "2 ids occur more than once, the first again in row 4.",
    ]
    recwarn.clear()
    write(embedder, [rows[0], rows[1], "text"], tmp_path / f"other {path}")
    assert not list(recwarn)


BOOKKEEPING = {
    "transformers_version": "9",
    "_name_or_path": "another/name",
    "architectures": ["BertModel", "BertForMaskedLM"],
    "id2label": {"0": "A", "1": "B"},
    "torch_dtype": "float16",
    "hidden_dropout_prob": 0.3,
    "use_cache": False,
    "a_new_field": [1],
}


def test_an_index_outlives_the_bookkeeping_of_config_json(tmp_path: Path) -> None:
    model = tmp_path / "model"
    SentenceEmbedder.from_pretrained("minibert-tiny").save_pretrained(model)
    config = json.loads((model / "config.json").read_text(encoding="utf-8"))
    folder = tmp_path / "v"
    embedder = SentenceEmbedder.from_pretrained(model)
    encode_to_shards(embedder, TEXTS, folder, **SIZE)
    (model / "config.json").write_text(json.dumps({**config, **BOOKKEEPING}), encoding="utf-8")
    later = SentenceEmbedder.from_pretrained(model)
    assert len(open_checked_vectors(folder, later, TEXTS)) == len(TEXTS)
    report = encode_to_shards(later, [*TEXTS, "a new one"], folder, update=True, **SIZE)
    assert report.kept == len(TEXTS)
    for field, value in (("layer_norm_eps", 1e-3), ("hidden_act", "relu")):
        (model / "config.json").write_text(json.dumps({**config, field: value}), encoding="utf-8")
        with pytest.raises(ValueError, match="other weights|another model"):
            encode_to_shards(SentenceEmbedder.from_pretrained(model), TEXTS, folder, **SIZE)


def test_a_folder_of_an_earlier_version_is_valid(
    embedder: SentenceEmbedder, tmp_path: Path
) -> None:
    """Its digest of the model was of the whole config."""
    folder = tmp_path / "v"
    encode_to_shards(embedder, TEXTS, folder, **SIZE)
    manifest = json.loads((folder / ".manifest").read_text(encoding="utf-8"))
    digest = tokenizer_digest(embedder.tokenizer)
    digest.update(embedder.model.config.to_json_string().encode())
    for part in embedder.weights():
        digest.update(part)
    manifest["model"] = digest.hexdigest()
    (folder / ".manifest").write_text(json.dumps(manifest), encoding="utf-8")
    assert len(open_checked_vectors(folder, embedder, TEXTS)) == len(TEXTS)
    assert encode_to_shards(embedder, TEXTS, folder, **SIZE).lines == 0
    report = encode_to_shards(embedder, TEXTS[1:], folder, update=True, **SIZE)
    assert report.kept == len(TEXTS) - 1
