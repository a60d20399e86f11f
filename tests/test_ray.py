"""scripts/embed_ray.py on a local Ray cluster of two nodes, one of which is killed in the middle."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import CHECKOUT
from tiny_folder import WORDS, tiny_folder

from minibert import SentenceEmbedder

sys.path.append(str(CHECKOUT / "scripts"))
import embed_ray

needs_ray = pytest.mark.skipif(find_spec("ray") is None, reason="needs Ray: pip install 'minibert[ray]'")

FILES, ROWS = 40, 50  # rows in each file
TEXTS = [" ".join(WORDS[(row * k) % len(WORDS)] for k in range(row % 17)) for row in range(FILES * ROWS)]


class Watched(embed_ray.EmbedBatch):
    """Leaves a file for every batch, named by its node, and takes its time."""

    def __init__(self, calls: Path, **options: Any) -> None:
        super().__init__(**options)
        self.calls = calls

    def __call__(self, batch: dict[str, np.ndarray[Any, Any]]) -> dict[str, np.ndarray[Any, Any]]:
        import ray

        node = ray.get_runtime_context().get_node_id()
        (self.calls / f"{node}-{time.time_ns()}").touch()
        time.sleep(0.2)
        return super().__call__(batch)


@pytest.fixture
def cluster() -> Iterator[Any]:
    import ray
    from ray.cluster_utils import Cluster

    # either node alone has room for both actors and for reading and writing
    node = {"num_cpus": 4, "object_store_memory": 100 * 2**20}
    cluster = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
    cluster.second = cluster.add_node(**node)
    paths = ":".join(str(CHECKOUT / folder) for folder in ("", "scripts", "tests"))
    ray.init(address=cluster.address, runtime_env={"env_vars": {"PYTHONPATH": paths}}, log_to_driver=False)
    yield cluster
    ray.shutdown()
    cluster.shutdown()


@pytest.mark.slow
@needs_ray
@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_a_lost_node_loses_and_doubles_nothing(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    import pyarrow
    from pyarrow import parquet

    model, source, calls = tiny_folder(tmp_path / "model"), tmp_path / f"source.{ending}", tmp_path / "calls"
    source.mkdir()
    calls.mkdir()
    for number in range(FILES):
        rows = [{"id": row, "text": TEXTS[row]} for row in range(number * ROWS, (number + 1) * ROWS)]
        if ending == "jsonl":
            (source / f"{number:03d}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        else:
            parquet.write_table(pyarrow.Table.from_pylist(rows), source / f"{number:03d}.parquet")

    done_when_killed = []

    def kill_when_both_work() -> None:
        while len({path.name.split("-")[0] for path in calls.iterdir()}) < 2 or len(list(calls.iterdir())) < 8:
            time.sleep(0.01)
        cluster.remove_node(cluster.second, allow_graceful=False)
        done_when_killed.append(len(list(calls.iterdir())))

    threading.Thread(target=kill_when_both_work, daemon=True).start()
    monkeypatch.setattr(embed_ray, "EmbedBatch", Watched)
    options = {"model": str(model), "precision": None, "calls": calls}
    embed_ray.embed(str(source), str(tmp_path / "out"), actors=2, batch_size=ROWS, **options)

    assert done_when_killed and done_when_killed[0] < FILES
    table = parquet.read_table(tmp_path / "out").sort_by("id")
    assert table["id"].to_pylist() == list(range(len(TEXTS)))
    assert table["text"].to_pylist() == TEXTS
    expected = SentenceEmbedder.from_pretrained(model, precision=None).encode(TEXTS)
    np.testing.assert_allclose(np.array(table["vector"].to_pylist(), np.float32), expected, atol=1e-6)


@pytest.mark.usefixtures("one_thread")
def test_only_texts_are_embedded(tmp_path: Path) -> None:
    actor = embed_ray.EmbedBatch("text", threads=1, encoding={}, model=str(tiny_folder(tmp_path)))
    texts = np.array(["hello", "world"], dtype=object)
    assert actor({"text": texts})["vector"].shape == (2, 32)
    with pytest.raises(ValueError, match="texts should be strings, but number 1 is None"):
        actor({"text": np.array(["hello", None], dtype=object)})


def test_nothing_is_written_beside_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "0.parquet").touch()
    with pytest.raises(ValueError, match="is not empty, and Ray would write beside what is there"):
        embed_ray.embed("texts.jsonl", str(tmp_path), model="minibert-tiny")
