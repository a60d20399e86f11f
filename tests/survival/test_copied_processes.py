"""Embedders in forked and spawned processes, after pickling, and while Python exits."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from minibert import BertModel, SentenceEmbedder, optimize

TEXTS = ["how tall do trees grow in Korea " * repeats for repeats in range(1, 31)]
# differences due to another number of threads or another batch
TOLERANCE = {None: 1e-5, "fp32": 1e-5, "bf16": 0.02, "int8": 0.02}

FORK = """
import os, sys, time
import numpy as np, torch
from minibert import SentenceEmbedder
name, precision, threads, when = sys.argv[1:]
texts = ["how tall do trees grow in Korea " * repeats for repeats in range(1, 31)] * 20
torch.set_num_threads(int(threads))
precision = None if precision == "None" else precision
embedder = SentenceEmbedder.from_pretrained(name, precision=precision)
expected = embedder.encode(texts) if when == "after" else None
reader, writer = os.pipe()
child = os.fork()
if child == 0:
    if when == "before, with threads":
        torch.set_num_threads(int(threads))
    os.write(writer, embedder.encode(texts)[:8].tobytes())
    os._exit(0)
for _ in range(2000):
    ended, status = os.waitpid(child, os.WNOHANG)
    if ended:
        break
    time.sleep(0.01)
else:
    os.kill(child, 9)
    sys.exit("the child hangs")
vectors = np.frombuffer(os.read(reader, 1 << 20), dtype=np.float32).reshape(8, -1)
expected = embedder.encode(texts) if expected is None else expected
difference = abs(vectors - expected[:8]).max()
tolerance = 0.02 if precision in ("bf16", "int8") else 1e-5
assert status == 0 and difference < tolerance, (status, difference)
"""


@pytest.mark.parametrize(
    "when",
    [
        pytest.param("before", marks=pytest.mark.slow),
        pytest.param("before, with threads", marks=pytest.mark.slow),
        "after",
    ],
)
@pytest.mark.parametrize(
    ("threads", "precision", "model"),
    [
        (2, "fp32", "minibert-tiny"),
        *(
            pytest.param(threads, precision, model, marks=pytest.mark.slow)
            for threads in (1, 2)
            for precision in ("None", "fp32", "bf16", "int8")
            for model in ("minibert-tiny", "minilm")
        ),
    ],
)
@pytest.mark.needs("fork")
def test_a_forked_process_encodes(
    minilm: str, model: str, precision: str, threads: int, when: str
) -> None:
    """A server can load an embedder and fork workers before or after its first vectors.

    If torch's threads run in the parent, an operator that waits for them hangs in the child.
    Therefore loading starts no threads, and a child has one thread unless it sets more.
    """
    name = minilm if model == "minilm" else model
    arguments = [sys.executable, "-W", "ignore", "-c", FORK, name, precision, str(threads), when]
    done = subprocess.run(arguments, capture_output=True, encoding="utf-8", timeout=120)
    assert done.returncode == 0, done.stderr


AT_EXIT = """
import atexit, sys, torch
from minibert import SentenceEmbedder
torch.set_num_threads(2)
embedder = SentenceEmbedder.from_pretrained("minibert-tiny", precision="fp32")
texts = ["how tall do trees grow in Korea " * 20] * 200
if sys.argv[1] == "after":
    embedder.encode(texts)
atexit.register(lambda: print(embedder.encode(texts).shape))
"""


@pytest.mark.parametrize("when", [pytest.param("before", marks=pytest.mark.slow), "after"])
def test_encoding_while_python_exits(when: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", AT_EXIT, when], capture_output=True, encoding="utf-8"
    )
    assert (done.stdout, done.stderr) == ("(200, 128)\n", "")


class Vectors(Dataset[torch.Tensor]):
    """A dataset that encodes in the workers of a DataLoader."""

    def __init__(self, embedder: SentenceEmbedder) -> None:
        self.embedder = embedder

    def __len__(self) -> int:
        return len(TEXTS)

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.from_numpy(self.embedder.encode(TEXTS[index]))


def encode(embedder: SentenceEmbedder) -> Any:
    return embedder.encode(TEXTS)


def states(model: Any) -> Any:
    with torch.no_grad():
        return model(torch.arange(5, 12)[None]).last_hidden_state.numpy()


PRECISIONS = [
    "fp32",
    *(pytest.param(name, marks=pytest.mark.slow) for name in (None, "bf16", "int8")),
]


@pytest.mark.filterwarnings("ignore:This processor has no:UserWarning")
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize(
    "duplicate", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))], ids=["copied", "pickled"]
)
def test_copied_and_pickled(duplicate: Any, precision: str | None) -> None:
    model = BertModel.from_pretrained("minibert-tiny")
    model = optimize(model, precision=precision) if precision else model
    assert np.array_equal(states(duplicate(model)), states(model))
    embedder = SentenceEmbedder.from_pretrained("minibert-tiny", precision=precision)
    assert np.array_equal(encode(duplicate(embedder)), encode(embedder))


@pytest.mark.filterwarnings("ignore:This processor has no:UserWarning")
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize(
    "method",
    [
        "spawn",
        pytest.param("fork", marks=pytest.mark.slow),
        pytest.param("forkserver", marks=pytest.mark.slow),
    ],
)
@pytest.mark.slow
def test_workers_of_a_data_loader(method: str, precision: str | None) -> None:
    embedder = SentenceEmbedder.from_pretrained("minibert-tiny", precision=precision)
    expected = encode(embedder)
    loader = DataLoader(
        Vectors(embedder), batch_size=4, num_workers=2, multiprocessing_context=method, timeout=100
    )
    vectors = torch.cat(list(loader)).numpy()
    np.testing.assert_allclose(vectors, expected, rtol=0, atol=TOLERANCE[precision])


@pytest.mark.filterwarnings("ignore:This processor has no:UserWarning")
@pytest.mark.parametrize("precision", [None, "fp32", "bf16", "int8"])
@pytest.mark.parametrize(
    "method",
    ["fork", *(pytest.param(each, marks=pytest.mark.slow) for each in ("spawn", "forkserver"))],
)
@pytest.mark.parametrize("of_torch", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_pools(method: str, precision: str | None, of_torch: bool) -> None:
    embedder = SentenceEmbedder.from_pretrained("minibert-tiny", precision=precision)
    expected = encode(embedder)
    package: Any = torch.multiprocessing if of_torch else __import__("multiprocessing")
    with package.get_context(method).Pool(2) as pool:
        for vectors in pool.map_async(encode, [embedder] * 3).get(timeout=200):
            np.testing.assert_allclose(vectors, expected, rtol=0, atol=TOLERANCE[precision])
