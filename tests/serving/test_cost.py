"""What one request can cost: processor time and memory of the service, whatever the body.

The service runs in a process of its own with the default limits, and tiny models, so that what is
measured is what the service does around the model. Seconds are those of one kind of processor,
whatever the tests run on. `MINIBERT_COSTS=FILE` writes the table.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from bodies import ROUTES, SHAPES, WHOLE
from tiny_folder import classifier_folder, sentence_folder

from minibert import BertForQuestionAnswering, BertForTokenClassification, BertTokenizer

httpx = pytest.importorskip("httpx")
pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

MAX_SECONDS = 2.0  # of a core of AMD Zen 3, in which `work` takes SECONDS_OF_WORK
SECONDS_OF_WORK = 0.066
MAX_BYTES = 300e6
PATIENCE = 900  # seconds of a busy machine, on which the processor waits for others
OF_ONE_ROUTE = [(name, path) for name, (path, _) in WHOLE.items()]
ALL = [(name, path) for name in SHAPES for path in ROUTES] + OF_ONE_ROUTE
# one route for each shape, so that all routes and all shapes are among them
SAMPLE = [(name, list(ROUTES)[place % len(ROUTES)]) for place, name in enumerate(SHAPES)]
SAMPLE = SAMPLE[::3] + OF_ONE_ROUTE[::3]


class Cost(NamedTuple):
    status: int
    seconds: float  # of the processor
    memory: int  # bytes at the peak, above those of the idle service
    health: float  # seconds until /health answered at the latest


class Service:
    """A service in a process of its own."""

    def __init__(self, process: subprocess.Popen[str], url: str) -> None:
        self.url = url
        self.process = process
        self.client = httpx.Client(base_url=url, timeout=PATIENCE)
        self._folder = Path(f"/proc/{process.pid}")
        self.idle = 0  # bytes

    def _seconds(self) -> float:
        fields = (self._folder / "stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self, name: str) -> int:
        lines = (self._folder / "status").read_text(encoding="ascii").splitlines()
        (line,) = [line for line in lines if line.startswith(f"{name}:")]
        return 1024 * int(line.split()[1])

    def cost(self, path: str, body: bytes) -> Cost:
        """Send a body, and ask for /health until it is answered."""
        self.client.get("/health").raise_for_status()
        (self._folder / "clear_refs").write_text("5", encoding="ascii")  # VmHWM begins anew
        seconds = self._seconds()
        answered = threading.Event()
        slowest = 0.0

        def ask() -> None:
            nonlocal slowest
            with httpx.Client(base_url=self.url, timeout=PATIENCE) as other:
                while not answered.wait(0.02):
                    start = time.perf_counter()
                    other.get("/health").raise_for_status()
                    slowest = max(slowest, time.perf_counter() - start)

        asking = threading.Thread(target=ask)
        asking.start()
        try:
            answer = self.client.post(
                path, content=body, headers={"Content-Type": "application/json"}
            )
        finally:
            answered.set()
            asking.join()
        json.loads(answer.content)
        spent = self._seconds() - seconds
        return Cost(answer.status_code, spent, self.memory("VmHWM") - self.idle, slowest)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    root = tmp_path_factory.mktemp("models")
    folders = [
        sentence_folder(root / "embedder", ("Pooling", {"pooling_mode": "mean"})),
        classifier_folder(root / "reranker", 1),
        classifier_folder(root / "classifier", 3),
        root / "tagger",
        root / "answerer",
    ]
    labels = {0: "O", 1: "B-PER", 2: "I-PER"}
    tagger = BertForTokenClassification.from_pretrained(folders[0], id2label=labels)
    answerer = BertForQuestionAnswering.from_pretrained(folders[0])
    for folder, model in zip(folders[-2:], (tagger, answerer), strict=True):
        model.save_pretrained(folder)
        BertTokenizer.from_pretrained(folders[0]).save_pretrained(folder)
    command = [sys.executable, "-m", "minibert", "serve", *map(str, folders), "--port", "0"]
    command += ["--timeout", str(PATIENCE)]  # the end comes by the limits, not by the time
    with subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    ) as process:
        try:
            assert process.stderr is not None
            lines = []
            for line in process.stderr:
                lines.append(line)
                if line.startswith("http://"):
                    break
            assert lines and lines[-1].startswith("http://"), lines
            service = Service(process, lines[-1].strip())
            for path in ROUTES:  # what is compiled and cached once is not a request's
                service.cost(path, ROUTES[path] % b'"a b"')
            service.idle = service.memory("VmRSS")
            yield service
        finally:
            process.kill()


def work() -> float:
    """Seconds of the processor that a fixed amount of Python takes, which tell how fast it is."""
    start = time.process_time()
    counts: dict[str, int] = {}
    for number in range(300_000):
        key = str(number % 5000)
        counts[key] = counts.get(key, 0) + len(key)
    return time.process_time() - start


def body_of(name: str, path: str) -> bytes:
    if name in WHOLE:
        return WHOLE[name][1]()
    return ROUTES[path] % SHAPES[name]()


def check(service: Service, name: str, path: str) -> None:
    body = body_of(name, path)
    before = work()
    cost = service.cost(path, body)
    speed = 2 * SECONDS_OF_WORK / (before + work())  # that of a virtual machine varies by two
    cost = cost._replace(seconds=cost.seconds * speed)
    if table := os.environ.get("MINIBERT_COSTS"):
        with open(table, "a", encoding="utf-8") as file:
            print(name, path, *cost, sep="\t", file=file)
    assert cost.status in (200, 404, 413, 422), cost
    assert cost.seconds < MAX_SECONDS and cost.memory < MAX_BYTES, cost


@pytest.mark.parametrize(("name", "path"), SAMPLE)
def test_a_request_costs_little(name: str, path: str, service: Service) -> None:
    check(service, name, path)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "path"), [case for case in ALL if case not in SAMPLE])
def test_any_request_costs_little(name: str, path: str, service: Service) -> None:
    check(service, name, path)
