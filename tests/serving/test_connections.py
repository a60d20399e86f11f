"""Connections of the service: silent ones, too many, other hosts, and the end of the service."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import shutil
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from forked import forked
from tiny_folder import sentence_folder

from minibert import BertTokenizer, SentenceEmbedder
from minibert.checkpoints.source import Source
from minibert.cli import main
from minibert.cli.serve import listening
from minibert.encoders.rows.batched import Batched
from minibert.encoders.rows.token_rows import Rows, Settings, Vectors

pytest.importorskip("fastapi")
pytest.importorskip("prometheus_client")
pytest.importorskip("uvicorn")
httpx = pytest.importorskip("httpx")

from starlette.testclient import TestClient  # noqa: E402

from minibert.serving import connections as module  # noqa: E402
from minibert.serving.app import create_app  # noqa: E402
from minibert.serving.connections import (  # noqa: E402
    Connections,
    Seldom,
    Server,
    most_connections,
)
from minibert.serving.limits import LOOPBACK_HOSTS, is_allowed_host  # noqa: E402
from minibert.serving.models import Served, load_served  # noqa: E402
from minibert.serving.options import Limits  # noqa: E402

QUEUE = {"max_wait_ms": 1.0, "max_tokens": 512, "max_pending": 300}
HEAD = b"GET /health HTTP/1.1\r\nHost: x"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    return sentence_folder(folder, ("Pooling", {"pooling_mode": "mean"}))


class Slow:
    """A model whose batches wait until `go` is set."""

    def __init__(self, folder: Path) -> None:
        self.go, self.has_begun = threading.Event(), threading.Event()
        self.go.set()
        self.tokenizer, self.max_length = BertTokenizer.from_pretrained(folder), 64
        about = {"dimension": 1, "pooling": "", "precision": None, "fingerprint": "0123"}
        encoder: Any = self
        self.served = Served("slow", "embedding", encoder, about, **QUEUE)

    def settings(self, prompt_name: str | None) -> Settings:
        return Settings("", "truncate", 512)

    def warn_of_unread(self, rows: Rows, settings: Settings) -> None:
        pass

    def encode_rows(self, rows: Rows, settings: Settings) -> Vectors:
        self.has_begun.set()
        assert self.go.wait(60)
        return np.ones((len(rows.ids), 1), dtype=np.float32)


@pytest.fixture
def slow(folder: Path) -> Iterator[Slow]:
    slow = Slow(folder)
    yield slow
    slow.go.set()


@pytest.fixture(params=["h11", "httptools"])
def parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both parsers that uvicorn has."""
    pytest.importorskip(request.param)
    if request.param == "h11":
        from uvicorn.protocols.http.h11_impl import H11Protocol as Protocol
    else:
        from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol as Protocol
    original = module.protocol_of
    monkeypatch.setattr(module, "protocol_of", lambda open: original(open, Protocol))


class Running:
    def __init__(self, server: Server, connections: Connections, address: tuple[str, int]) -> None:
        self.server, self.connections, self.address = server, connections, address
        self.url = "http://{}:{}".format(*address)

    def connect(self, data: bytes = b"") -> socket.socket:
        connection = socket.create_connection(self.address, timeout=60)
        connection.sendall(data)
        return connection


@contextmanager
def running(
    slow: Slow, seconds: float = 60.0, most: int = 100, drain: float = 0.0
) -> Iterator[Running]:
    limits = Limits(seconds=seconds)
    app = create_app([slow.served], limits)
    state = app.state.service
    connections = Connections(most, seconds, state.metrics.registry)
    server = Server(app, state.ending, connections, limits, drain, keep_alive=75)
    with listening("127.0.0.1", 0) as listener:
        address = listener.getsockname()
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        while not server.started:
            time.sleep(0.01)
        try:
            yield Running(server, connections, address)
        finally:
            slow.go.set()
            server.should_exit = True
            thread.join()


def is_closed(connection: socket.socket) -> bool:
    """Whether the service closes a connection, for which this waits."""
    try:
        return connection.recv(1) == b""
    except ConnectionError:
        return True


@pytest.mark.usefixtures("parser")
class TestSilence:
    def test_silent_connections_are_closed(self, slow: Slow) -> None:
        with running(slow, seconds=0.3) as service:
            silent = service.connect()
            unfinished = service.connect(HEAD)
            assert is_closed(silent) and is_closed(unfinished)
            metrics = httpx.get(f"{service.url}/metrics").text
            assert 'minibert_closed_connections_total{reason="silent"} 2.0' in metrics

    def test_unfinished_headers_of_a_second_request(self, slow: Slow) -> None:
        """More of them do not begin the time anew."""
        with running(slow, seconds=0.3) as service, service.connect(HEAD + b"\r\n\r\n") as client:
            assert client.recv(9999).startswith(b"HTTP/1.1 200")
            deadline = time.monotonic() + 60
            with pytest.raises((ConnectionError, EOFError)):
                client.settimeout(0.05)
                client.sendall(HEAD)
                while time.monotonic() < deadline:
                    client.sendall(b"y")
                    try:
                        if not client.recv(1):
                            raise EOFError
                    except TimeoutError:
                        continue

    def test_a_slow_answer_is_not_silence(self, slow: Slow) -> None:
        slow.go.clear()
        body = b'{"inputs": "hello"}'
        head = b"POST /embed HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        with running(slow, seconds=60) as service:
            service.connections.seconds = 0.2
            with service.connect(head + b"Content-Length: %d\r\n\r\n" % len(body)) as client:
                time.sleep(0.5)  # the body has the time of its own
                client.sendall(body)
                assert slow.has_begun.wait(60)
                time.sleep(0.5)
                slow.go.set()
                assert client.recv(9999).startswith(b"HTTP/1.1 200")

    def test_too_many_connections(self, slow: Slow, caplog: pytest.LogCaptureFixture) -> None:
        """Those that wait longest make room, so that others are answered."""
        slow.go.clear()
        with running(slow, most=5) as service, caplog.at_level("WARNING", "minibert.serve"):
            asked: dict[str, Any] = {}
            busy = threading.Thread(
                target=lambda: asked.update(
                    answer=httpx.post(f"{service.url}/embed", json={"inputs": "a"}, timeout=60)
                )
            )
            busy.start()
            assert slow.has_begun.wait(60)
            silent = [service.connect() for _ in range(50)]
            for _ in range(3):
                assert httpx.get(f"{service.url}/health", timeout=60).status_code == 200
            assert len(service.connections.open) <= 5
            assert all(is_closed(connection) for connection in silent[:40])
            slow.go.set()
            busy.join()
            assert asked["answer"].status_code == 200
        assert caplog.text.count("connections are open") == 1

    def test_a_body_in_chunks_of_a_byte(self, slow: Slow) -> None:
        """It takes six times as many bytes, and the parser far longer than all else."""
        head = b"POST /embed HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        head += b"Transfer-Encoding: chunked\r\n\r\n"
        with running(slow) as service:
            service.connections.most_bytes = 100_000
            short = head + b"".join(b"1\r\n%c\r\n" % byte for byte in b'{"inputs": "a"}')
            with service.connect(short + b"0\r\n\r\n") as client:
                assert client.recv(9999).startswith(b"HTTP/1.1 200")
            with service.connect(head) as client, suppress(ConnectionError):
                for _ in range(40):
                    client.sendall(b"1\r\n \r\n" * 1000)
            deadline = time.monotonic() + 60
            closed = 'minibert_closed_connections_total{reason="long"} 1.0'
            while closed not in httpx.get(f"{service.url}/metrics").text:
                assert time.monotonic() < deadline
                time.sleep(0.05)

    def test_two_lengths_of_a_body(self, slow: Slow) -> None:
        """A second request behind them is not answered (RFC 9112, 6.1)."""
        request = (
            b"POST /embed HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + HEAD + b"\r\n\r\n"
        )
        with running(slow) as service, service.connect(request) as client:
            answer = b""
            while part := client.recv(9999):
                answer += part
        assert answer.startswith(b"HTTP/1.1 400") and answer.count(b"HTTP/1.1") == 1


def test_a_full_table_of_files_is_logged_once(slow: Slow, caplog: pytest.LogCaptureFixture) -> None:
    with running(slow) as service, caplog.at_level("WARNING"):
        loop = asyncio.new_event_loop()
        for _ in range(2048):
            error = OSError(24, "Too many open files")
            service.server._on_exception(loop, {"exception": error, "message": "socket.accept()"})
        loop.close()
    assert len(caplog.records) == 1 and "Too many open files" in caplog.text


def test_a_repeated_warning_is_logged_once_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 1.0, 59.0, 61.0, 62.0])
    monkeypatch.setattr(module.time, "monotonic", lambda: next(clock))
    seldom = Seldom()
    record = logging.LogRecord("uvicorn.error", 30, "", 0, "Invalid %s", ("x",), None)
    assert [seldom.filter(record) for _ in range(5)] == [True, False, False, True, False]


def test_the_limit_of_connections_is_that_of_files(monkeypatch: pytest.MonkeyPatch) -> None:
    resource = pytest.importorskip("resource")
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (1024, 4096))
    assert most_connections(None) == 896
    assert most_connections(100) == 100
    with pytest.raises(ValueError, match="`ulimit -n` is 1024: set it to 2128"):
        most_connections(2000)
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (resource.RLIM_INFINITY, 0))
    assert most_connections(None) == 4096 and most_connections(9000) == 9000


@pytest.mark.parametrize(
    ("host", "allowed", "is_allowed"),
    [
        ("localhost", LOOPBACK_HOSTS, True),
        ("LOCALHOST:8000", LOOPBACK_HOSTS, True),
        ("localhost.:8000", LOOPBACK_HOSTS, True),
        ("127.0.0.1:8000", LOOPBACK_HOSTS, True),
        ("[::1]:8000", LOOPBACK_HOSTS, True),
        ("10.0.0.7", LOOPBACK_HOSTS, True),
        ("evil.example", LOOPBACK_HOSTS, False),
        ("localhost.evil.example", LOOPBACK_HOSTS, False),
        ("127.0.0.1.evil.example:80", LOOPBACK_HOSTS, False),
        ("evil.example:localhost", LOOPBACK_HOSTS, False),
        ("", LOOPBACK_HOSTS, False),
        ("evil.example", ["*"], True),
        ("a.example.org", ["*.example.org"], True),
        ("example.org", ["*.example.org"], False),
        ("evilexample.org", ["*.example.org"], False),
        ("127.0.0.1", ["example.org"], False),
    ],
)
def test_hosts(host: str, allowed: list[str], is_allowed: bool) -> None:
    assert is_allowed_host(host, allowed) == is_allowed


def test_requests_for_other_hosts(slow: Slow) -> None:
    """A page of another site cannot reach the service under a name for this machine."""
    with TestClient(create_app([slow.served], allowed_hosts=["API.example.org"])) as client:
        for path in ("/health", "/info", "/nothing"):
            refused = client.get(path, headers={"Host": "evil.example"})
            assert refused.status_code == 421 and "--allowed-hosts" in refused.json()["error"]
            assert client.get(path, headers={"Host": "api.example.org:80"}).status_code != 421


def test_long_methods_are_cut_in_the_log(slow: Slow, caplog: pytest.LogCaptureFixture) -> None:
    with (
        TestClient(create_app([slow.served])) as client,
        caplog.at_level("INFO", "minibert.serve"),
    ):
        client.request("M" * 60_000, f"/{'p' * 60_000}")
    (line,) = [record.getMessage() for record in caplog.records]
    assert len(line) < 500 and f"method={'M' * 20} " in line


class TestEnd:
    def test_probes_say_that_the_service_ends(self, slow: Slow) -> None:
        """Answers close their connections, and what is in progress is answered."""
        with running(slow, drain=60) as service, httpx.Client(base_url=service.url) as client:
            assert client.get("/health/ready").json()["status"] == "ready"
            service.server.handle_exit(signal.SIGTERM, None)
            while client.get("/health/ready").status_code == 200:
                time.sleep(0.01)
            assert client.get("/health/ready").json()["status"] == "ending"
            assert client.get("/health/live").status_code == 200
            answer = client.post("/embed", json={"inputs": "hello"})  # a new connection, too
            assert answer.status_code == 200 and answer.headers["connection"] == "close"
            service.server.force_exit = True

    def test_ctrl_c_does_not_wait(self, slow: Slow) -> None:
        with running(slow, drain=600) as service:
            service.server.handle_exit(signal.SIGINT, None)

    def test_the_end_comes_within_the_timeout(self, slow: Slow) -> None:
        slow.go.clear()
        with running(slow, seconds=2) as service:
            status: list[int] = []
            body = {"inputs": "hello"}
            asking = threading.Thread(
                target=lambda: status.append(
                    httpx.post(f"{service.url}/embed", json=body, timeout=60).status_code
                )
            )
            asking.start()
            assert slow.has_begun.wait(60)
            service.connections.seconds = 60
            service.server.should_exit = True
            asking.join(60)
            assert status == [503]
            assert 0 < service.server.remaining < 2

    def test_a_batch_that_is_too_long_does_not_delay_the_process(
        self, folder: Path, tmp_path: Path
    ) -> None:
        """The process ends while its model still computes."""
        log = tmp_path / "log"
        service = forked(_serve_forever, folder, log)
        try:
            while not (found := re.search(r"http://\S+", read(log))):
                assert service.is_alive()
                time.sleep(0.05)
            with pytest.raises(httpx.TimeoutException):
                httpx.post(f"{found[0]}/embed", json={"inputs": "hello"}, timeout=0.5)
            while "computing" not in read(log):
                time.sleep(0.05)
            os.kill(service.pid or 0, signal.SIGTERM)
            service.join(100)
            assert service.exitcode == 0
        finally:
            service.kill()


def read(log: Path) -> str:
    return log.read_text(encoding="utf-8") if log.exists() else ""


def _serve_forever(folder: Path, log: Path) -> None:
    """Serve a model whose batches take longer than the test, but the first one."""
    answer = Batched._answer

    def slowly(self: Batched, requests: Any) -> None:
        if log.exists() and "http://" in read(log):
            print("computing", flush=True)
            time.sleep(600)
        answer(self, requests)

    with log.open("w", encoding="utf-8") as file:
        sys.stdout = sys.stderr = file
        file.reconfigure(line_buffering=True)
        Batched._answer = slowly  # type: ignore[method-assign]
        os._exit(main(["serve", str(folder), "--port", "0", "--timeout", "2"]))


def test_too_little_memory_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def load(*arguments: object, **options: object) -> None:
        raise RuntimeError("could not create a primitive")

    monkeypatch.setattr("minibert.serving.models.load_served", load)
    assert main(["serve", str(folder), "--port", "0"]) == 1
    assert "too little memory" in capsys.readouterr().err


def test_fingerprints_are_of_the_weights(folder: Path, tmp_path: Path) -> None:
    """Services with other weights can be told apart in a rolling restart."""
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    embedder = SentenceEmbedder.from_pretrained(copy)
    embedder.model.embeddings.word_embeddings.weight.data[5] += 1
    embedder.save_pretrained(tmp_path / "other")
    found = []
    for path in (folder, copy, tmp_path / "other"):
        model = load_served("m", Source(path), precision=None, **QUEUE)
        with TestClient(create_app([model])) as client:
            found.append(client.get("/info").json()["model_sha"])
            assert client.get("/v1/models").json()["data"][0]["fingerprint"] == found[-1]
            assert f'fingerprint="{found[-1]}"' in client.get("/metrics").text
            client.post("/embed", json={"inputs": "hello"})
            assert 'minibert_wait_seconds_count{model="m"} 1.0' in client.get("/metrics").text
    assert found[0] == found[1] != found[2]
