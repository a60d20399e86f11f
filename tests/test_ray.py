"""scripts/embed_ray.py: parts without a cluster, and clusters that lose nodes and processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import embed_ray
import numpy as np
import pyarrow
import pytest
from conftest import CHECKOUT
from pyarrow import parquet
from tiny_folder import WORDS, tiny_folder

from minibert import SentenceEmbedder
from minibert.text.location import Location

needs_ray = pytest.mark.skipif(find_spec("ray") is None, reason="needs the extra [ray]")

FILES, ROWS = 40, 50  # rows in each file
TEXTS = [
    " ".join(WORDS[(row * k) % len(WORDS)] for k in range(row % 17)) for row in range(FILES * ROWS)
]
WORK = {"column": "text", "id_column": "id", "threads": 1, "encoding": {}}
PATH = {
    "PYTHONPATH": ":".join(str(CHECKOUT / folder) for folder in ("", "scripts", "tests")),
    "OMP_NUM_THREADS": "1",
}


def write_texts(folder: Path, ending: str = "jsonl", files: int = FILES) -> Path:
    folder.mkdir()
    for number in range(files):
        rows = [
            {"id": row, "text": TEXTS[row]} for row in range(number * ROWS, (number + 1) * ROWS)
        ]
        if ending == "jsonl":
            (folder / f"{number:03d}.jsonl").write_text(
                "".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8"
            )
        else:
            parquet.write_table(pyarrow.Table.from_pylist(rows), folder / f"{number:03d}.parquet")
    return folder


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny_folder(tmp_path_factory.mktemp("model")))


def check(target: str, model: str, ids: list[int] | None = None) -> None:
    """Check that the target has every id once, with its text and its vector."""
    ids = list(range(len(TEXTS))) if ids is None else ids
    place = Location(target)
    files = [place / name for name in place.files()]
    table = pyarrow.concat_tables(
        [parquet.read_table(file.path, filesystem=file.fs) for file in files]
    ).sort_by("id")
    assert table["id"].to_pylist() == ids
    assert table["text"].to_pylist() == [TEXTS[number] for number in ids]
    expected = SentenceEmbedder.from_pretrained(model, precision=None).encode(
        [TEXTS[number] for number in ids]
    )
    np.testing.assert_allclose(
        np.array(table["vector"].to_pylist(), np.float32), expected, atol=1e-6
    )
    assert table.schema.field("vector").type == pyarrow.list_(pyarrow.float32(), 32)


def in_process(source: Path, target: Path, model: str, **settings: Any) -> list[dict[str, Any]]:
    """Embed the parts one by one in this process, as the workers of a cluster do."""
    todo, _ = embed_ray.plan(
        str(source),
        str(target),
        {"column": "text", "id_column": "id", "part_bytes": 500, **settings},
    )
    loading = {"name": model, "precision": None}
    return [
        embed_ray.embed_part(name, part, str(target), loading=loading, **WORK)  # type: ignore[arg-type]
        for name, part in todo.items()
    ]


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_parts_are_embedded_once(ending: str, model: str, tmp_path: Path) -> None:
    source, target = write_texts(tmp_path / "texts", ending, files=3), tmp_path / "vectors"
    done = in_process(source, target, model)
    assert len(done) > 3 and sum(part["texts"] for part in done) == 150
    check(str(target), model, list(range(150)))
    assert in_process(source, target, model) == []
    missing = sorted(target.glob("*.parquet"))[1]
    missing.unlink()
    assert len(in_process(source, target, model)) == 1  # only the missing part
    check(str(target), model, list(range(150)))


@pytest.mark.usefixtures("one_thread")
def test_a_changed_source_is_embedded_again(model: str, tmp_path: Path) -> None:
    source, target = write_texts(tmp_path / "texts", files=2), tmp_path / "vectors"
    in_process(source, target, model)
    os.utime(source / "001.jsonl", (time.time() + 5,) * 2)
    again = in_process(source, target, model)
    assert 0 < len(again) == len(list(target.glob("001*")))
    (source / "001.jsonl").write_text('{"id": 1, "text": "hello"}\n', encoding="utf-8")
    with pytest.raises(
        ValueError,
        match=r"contains 001\.jsonl-.*\.parquet, but .* has no such part: the source has changed",
    ):
        in_process(source, target, model)


@pytest.mark.usefixtures("one_thread")
def test_rows_without_text_and_damaged_files_do_not_stop_the_others(
    model: str, tmp_path: Path
) -> None:
    source, target = write_texts(tmp_path / "texts", files=1), tmp_path / "vectors"
    with (source / "000.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"id": 998, "text": null}\n{"id": 999\n')
    (source / "half.jsonl.gz").write_bytes(b"\x1f\x8b\x08 and no more")
    done = in_process(source, target, model)
    assert [sum(part[name] for part in done) for name in ("texts", "bad")] == [50, 2]
    (error,) = [part["error"] for part in done if part["error"]]
    assert "half.jsonl.gz is damaged" in error
    check(str(target), model, list(range(50)))
    (bad,) = (target / "_bad").iterdir()
    rows = [json.loads(line) for line in bad.read_text(encoding="utf-8").splitlines()]
    assert [row["reason"].split(" (")[0] for row in rows] == [
        "text is null",
        "the line is not JSON",
    ]
    assert len(in_process(source, target, model)) == 1  # the damaged one is tried again


def test_a_folder_with_other_files_raises_an_error(tmp_path: Path) -> None:
    source, target = write_texts(tmp_path / "texts", files=1), tmp_path / "vectors"
    target.mkdir()
    (target / "other.txt").touch()
    with pytest.raises(ValueError, match="vectors is not empty, and its files are not from this"):
        embed_ray.embed(str(source), str(target), model="minibert-tiny")


def test_resuming_with_another_setting_raises_an_error(tmp_path: Path) -> None:
    source = write_texts(tmp_path / "texts", files=1)
    settings = {"column": "text", "id_column": None, "part_bytes": 500, "model": "a"}
    embed_ray.plan(str(source), str(tmp_path / "out"), settings)
    with pytest.raises(ValueError, match="out was started with model 'a', not 'b'"):
        embed_ray.plan(str(source), str(tmp_path / "out"), {**settings, "model": "b"})


def test_a_wrong_column_is_named_before_anything_starts(tmp_path: Path) -> None:
    source = write_texts(tmp_path / "texts", files=1)
    with pytest.raises(ValueError, match="line 1: there is no column 'body'"):
        embed_ray.embed(str(source), str(tmp_path / "out"), model="minibert-tiny", column="body")
    assert not (tmp_path / "out").exists()


def command(source: str, target: str, model: str, *options: str) -> list[str]:
    script = str(CHECKOUT / "scripts" / "embed_ray.py")
    fixed = ["--model", model, "--precision", "exact", "--id-column", "id", "--part-bytes", "500"]
    return [sys.executable, script, source, target, *fixed, *options]


def cluster_of(*cpus: int) -> Any:
    from ray.cluster_utils import Cluster

    node = {"object_store_memory": 100 * 2**20}
    cluster = Cluster(
        initialize_head=True,
        head_node_args={**node, "num_cpus": cpus[0], "include_dashboard": False},
    )
    cluster.others = [cluster.add_node(**node, num_cpus=count) for count in cpus[1:]]
    return cluster


@pytest.fixture
def two_cpus(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """Environment of processes that use a cluster of one machine with two CPUs."""
    for name, value in PATH.items():
        monkeypatch.setenv(name, value)
    cluster = cluster_of(2)
    yield {**os.environ, "RAY_ADDRESS": cluster.address}
    cluster.shutdown()


@pytest.mark.slow
@needs_ray
def test_a_run_with_as_many_workers_as_cpus_ends(
    two_cpus: dict[str, str], model: str, tmp_path: Path
) -> None:
    source = write_texts(tmp_path / "texts", files=8)
    run = command(str(source), str(tmp_path / "out"), model, "--workers", "2")
    done = subprocess.run(run, env=two_cpus, capture_output=True, encoding="utf-8", timeout=1800)
    assert done.returncode == 0 and done.stdout.startswith("400 texts, "), done.stderr[-3000:]
    check(str(tmp_path / "out"), model, list(range(400)))


@pytest.mark.slow
@needs_ray
def test_killed_midway_and_run_again(two_cpus: dict[str, str], model: str, tmp_path: Path) -> None:
    source, target = write_texts(tmp_path / "texts"), tmp_path / "out"
    run = command(str(source), str(target), model)
    first = subprocess.Popen(
        run, env=two_cpus, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    while first.poll() is None and len(list(target.glob("*.parquet"))) < 20:
        time.sleep(0.01)
    first.send_signal(signal.SIGKILL)
    assert first.wait() == -signal.SIGKILL
    time.sleep(5)  # let the workers finish writing
    times = {path.name: path.stat().st_mtime_ns for path in target.glob("*.parquet")}
    second = subprocess.run(run, env=two_cpus, capture_output=True, encoding="utf-8", timeout=1800)
    assert second.returncode == 0, second.stderr[-3000:]
    assert times == {name: (target / name).stat().st_mtime_ns for name in times}
    check(str(target), model)


@pytest.mark.slow
@needs_ray
def test_a_bucket_in_and_out(
    two_cpus: dict[str, str], bucket: str, model: str, tmp_path: Path
) -> None:
    source = Location(f"{bucket}/ray/texts")
    for path in write_texts(tmp_path / "texts", "parquet", files=4).iterdir():
        with (source / path.name).replacing() as temporary:
            temporary.write_bytes(path.read_bytes())
    # The cluster's workers started without the bucket's address, so the URIs contain it.
    uri = bucket.replace("s3://", "s3://test:test@")
    query = "scheme=http&endpoint_override=" + os.environ["AWS_ENDPOINT_URL"].split("://")[1]
    uris = [f"{uri}/ray/{name}?{query}" for name in ("texts", "out")]
    done = subprocess.run(
        command(*uris, model), env=two_cpus, capture_output=True, encoding="utf-8", timeout=1800
    )
    assert done.returncode == 0, done.stderr[-3000:]
    check(f"{bucket}/ray/out", model, list(range(200)))
    again = subprocess.run(
        command(*uris, model), env=two_cpus, capture_output=True, encoding="utf-8", timeout=1800
    )
    assert again.stdout.startswith("0 texts, ")


@pytest.mark.slow
@needs_ray
@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_a_lost_node_loses_and_duplicates_nothing(
    ending: str, model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of two fully loaded machines is lost, and the other does the remaining work."""
    import ray

    for name, value in PATH.items():
        monkeypatch.setenv(name, value)
    cluster = cluster_of(2, 2)
    source, target = write_texts(tmp_path / "texts", ending), tmp_path / "out"
    when_lost = []
    finished = threading.Event()

    def lose() -> None:
        while len(list(target.glob("*.parquet"))) < 12:
            if finished.wait(0.01):
                return
        cluster.remove_node(cluster.others[0], allow_graceful=False)
        when_lost.append(len(list(target.glob("*.parquet"))))

    try:
        ray.init(address=cluster.address, log_to_driver=False)
        threading.Thread(target=lose, daemon=True).start()
        settings = {"model": model, "precision": None, "id_column": "id", "part_bytes": 500}
        done = embed_ray.embed(str(source), str(target), **settings)
    finally:
        finished.set()
        ray.shutdown()
        cluster.shutdown()
    assert when_lost and when_lost[0] < done["texts"] / 5 and not done["errors"]
    check(str(target), model)


@needs_ray
def test_workers_that_fit_no_machine_raise_an_error(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ray

    monkeypatch.setattr(ray, "init", lambda **options: None)
    monkeypatch.setattr(ray, "nodes", lambda: [{"Alive": True, "Resources": {"CPU": 2.0}}])
    source = str(write_texts(tmp_path / "texts", files=1))
    with pytest.raises(ValueError, match="a worker needs 3 CPU, but no machine has more than 2"):
        embed_ray.embed(source, str(tmp_path / "out"), threads=3, model=model)
    with pytest.raises(ValueError, match="a worker needs 0.5 GPU, but no machine has more than 0"):
        embed_ray.embed(source, str(tmp_path / "out"), gpus=0.5, model=model)
