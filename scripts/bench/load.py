"""Measures a service under a mix of requests, with and without a slow client, beside its peer.

    python scripts/bench/load.py MODEL 600      ten minutes for each of the four runs

64 clients send requests of 1, 4, 16 and 64 texts of 5 to 200 words. The slow client sends a byte of
its body each second, and opens silent connections. The peer is sentence-transformers behind
FastAPI, as is common: one request per call, in its threads.
"""

from __future__ import annotations

import asyncio
import json
import random
import socket
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from typing import Any

CLIENTS = 64
SIZES = (1, 1, 1, 1, 4, 4, 16, 64)  # texts of a request: most are small
WORDS = "the a cat dog sleeps runs over under mat tree river city quickly never old small".split()
HEAD = "POST /embed HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
SHARES = (0.5, 0.9, 0.95, 0.99, 0.999)
Answer = tuple[int, float, int]  # texts, seconds, status. Status 0: no answer


def bodies(seed: int) -> list[tuple[int, bytes]]:
    """A hundred requests: the number of texts, and the body."""
    draw = random.Random(seed)
    requests = []
    for _ in range(100):
        count = draw.choice(SIZES)
        texts = [" ".join(draw.choices(WORDS, k=draw.randint(5, 200))) for _ in range(count)]
        requests.append((count, json.dumps({"inputs": texts}).encode()))
    return requests


async def ask(port: int, until: float, seed: int, answers: list[Answer]) -> None:
    """Send requests one after another, on one connection while it lives."""
    requests = bodies(seed)
    number = 0
    writer = None
    while time.perf_counter() < until:
        count, body = requests[number % len(requests)]
        number += 1
        start = time.perf_counter()
        status = 0
        try:
            if writer is None:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(f"{HEAD}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            lines = (await reader.readuntil(b"\r\n\r\n")).lower().split(b"\r\n")
            status = int(lines[0].split()[1])
            lengths = [line for line in lines if line.startswith(b"content-length")]
            await reader.readexactly(int(lengths[0].split(b":")[1]))
        except (OSError, asyncio.IncompleteReadError):
            writer = None
        answers.append((count, time.perf_counter() - start, status))
    if writer is not None:
        writer.close()


async def be_slow(port: int, until: float) -> None:
    """Send a byte of a body each second, and open silent connections."""
    silent = []
    while time.perf_counter() < until:
        with suppress(OSError):
            silent += [await asyncio.open_connection("127.0.0.1", port) for _ in range(5)]
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(f"{HEAD}Content-Length: 99999\r\n\r\n".encode())
            for _ in range(10):
                writer.write(b" ")
                await writer.drain()
                await asyncio.sleep(1)
            writer.close()
    for _, writer in silent:
        writer.close()


async def load(port: int, seconds: float, with_slow: bool) -> list[Answer]:
    """The answers that 64 clients get in so many seconds."""
    answers: list[Answer] = []
    until = time.perf_counter() + seconds
    clients = [ask(port, until, seed, answers) for seed in range(CLIENTS)]
    await asyncio.gather(*clients, *([be_slow(port, until)] if with_slow else []))
    return answers


def report(name: str, answers: list[Answer], seconds: float) -> None:
    """Print the latency by percentile, of all requests and of those of one text."""
    statuses = dict(Counter(status for _, _, status in answers))
    texts = sum(count for count, _, status in answers if status == 200)
    print(f"{name}: {texts / seconds:.0f} texts a second, answers by status {statuses}")
    for kind, limit in (("all requests", max(SIZES)), ("of one text", 1)):
        waits = sorted(wait for count, wait, _ in answers if count <= limit)
        shown = [f"p{100 * share:g} {waits[int(share * len(waits))]:.3f} s" for share in SHARES]
        print(f"  {kind}: {', '.join(shown)}", flush=True)


def serve_peer(model: str) -> None:
    """Serve sentence-transformers with FastAPI."""
    import uvicorn
    from fastapi import FastAPI
    from sentence_transformers import SentenceTransformer

    encoder, app = SentenceTransformer(model, device="cpu"), FastAPI()

    @app.post("/embed")
    def embed(body: dict[str, list[str]]) -> list[list[float]]:
        return encoder.encode(body["inputs"], normalize_embeddings=True).tolist()

    with socket.create_server(("127.0.0.1", 0)) as server:
        print(f"http://127.0.0.1:{server.getsockname()[1]}", flush=True)
        uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False)).run(sockets=[server])


def main() -> None:
    """Measure both services, each with and without a slow client."""
    model, duration = sys.argv[1:3]
    if duration == "peer":
        return serve_peer(model)
    commands: dict[str, list[Any]] = {
        "minibert serve": [sys.executable, "-m", "minibert", "serve", model, "--port", "0"],
        "sentence-transformers behind FastAPI": [sys.executable, __file__, model, "peer"],
    }
    seconds = float(duration)
    for name, command in commands.items():
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8"
        ) as run:
            assert run.stdout is not None
            addresses = (line for line in run.stdout if line.startswith("http://"))
            port = int(next(addresses).rpartition(":")[2])
            with subprocess.Popen(["cat"], stdin=run.stdout, stdout=subprocess.DEVNULL):
                asyncio.run(load(port, 2.0, with_slow=False))  # warm-up
                for with_slow in (False, True):
                    start = time.perf_counter()
                    answers = asyncio.run(load(port, seconds, with_slow))
                    elapsed = time.perf_counter() - start  # until the last answer
                    report(f"{name}, {'a' if with_slow else 'no'} slow client", answers, elapsed)
                run.terminate()
                run.wait()


if __name__ == "__main__":
    main()
