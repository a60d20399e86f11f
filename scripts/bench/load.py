"""Measures a service under a mix of requests, with and without a slow client, beside its peer.

    python scripts/bench/load.py MODEL 600      seconds of load in all

The seconds are divided among eight turns: both services, with and without the slow client, twice.
Each turn has a new process, so that no work left over from a turn takes time from the next.

64 clients send requests of 1, 4, 16 and 64 texts of 5 to 200 words, mostly short ones, and wait at
most 60 seconds for an answer. The slow client sends a byte of its body each second, and opens
silent connections. The peer is sentence-transformers behind FastAPI, as is common: one request per
call, in its threads.
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

ROUNDS = 2
CLIENTS = 64
SIZES = (1, 1, 1, 1, 4, 4, 16, 64)  # texts of a request: most are small
MEAN_WORDS = 30
PATIENCE = 60.0  # seconds that a client waits for its answer, then it disconnects
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
        lengths = [min(200, 5 + int(draw.expovariate(1 / MEAN_WORDS))) for _ in range(count)]
        texts = [" ".join(draw.choices(WORDS, k=length)) for length in lengths]
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
            async with asyncio.timeout(PATIENCE):
                if writer is None:
                    reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(f"{HEAD}Content-Length: {len(body)}\r\n\r\n".encode() + body)
                lines = (await reader.readuntil(b"\r\n\r\n")).lower().split(b"\r\n")
                lengths = [line for line in lines if line.startswith(b"content-length")]
                await reader.readexactly(int(lengths[0].split(b":")[1]))
                status = int(lines[0].split()[1])
        except (OSError, asyncio.IncompleteReadError):  # a timeout is an OSError
            lines = [b"connection: close"]
        answers.append((count, time.perf_counter() - start, status))
        if writer is not None and b"connection: close" in lines:
            writer.close()
            writer = None
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
            while time.perf_counter() < until:
                writer.write(b" ")
                await writer.drain()
                await asyncio.sleep(1)
            writer.close()
    for _, writer in silent:
        writer.close()


async def load(port: int, seconds: float, with_slow: bool) -> list[Answer]:
    """The answers that 64 clients get to what they send in so many seconds."""
    answers: list[Answer] = []
    until = time.perf_counter() + seconds
    clients = [ask(port, until, seed, answers) for seed in range(CLIENTS)]
    await asyncio.gather(*clients, *([be_slow(port, until)] if with_slow else []))
    return answers


def one_turn(command: list[str], seconds: float, with_slow: bool) -> tuple[list[Answer], float]:
    """Start a service, load it, and end it.

    Returns:
        The answers, and the seconds until the last of them.
    """
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8"
    ) as run:
        assert run.stdout is not None
        addresses = (line for line in run.stdout if line.startswith("http://"))
        port = int(next(addresses).rpartition(":")[2])
        with subprocess.Popen(["cat"], stdin=run.stdout, stdout=subprocess.DEVNULL):
            asyncio.run(ask(port, time.perf_counter() + 1.0, 0, []))  # warm-up
            start = time.perf_counter()
            answers = asyncio.run(load(port, seconds, with_slow))
            elapsed = time.perf_counter() - start
            run.kill()  # a service that ends by itself computes what nobody waits for
            run.wait()
    return answers, elapsed


def report(name: str, answers: list[Answer], seconds: float) -> None:
    """Print the latency by percentile, of all requests and of those of one text."""
    statuses = dict(Counter(status for _, _, status in answers))
    errors = len(answers) - statuses.get(200, 0)
    texts = sum(count for count, _, status in answers if status == 200)
    print(
        f"{name}: {len(answers)} requests in {seconds:.0f} s, {texts / seconds:.0f} texts a second,"
        f" {errors} errors (statuses {statuses})"
    )
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
        server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # as `uvicorn.run` does
        print(f"http://127.0.0.1:{server.getsockname()[1]}", flush=True)
        uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False)).run(sockets=[server])


def main() -> None:
    """Measure both services by turns, each with and without a slow client."""
    model, duration = sys.argv[1:3]
    if duration == "peer":
        return serve_peer(model)
    commands: dict[str, list[Any]] = {
        "minibert serve": [sys.executable, "-m", "minibert", "serve", model, "--port", "0"],
        "sentence-transformers behind FastAPI": [sys.executable, __file__, model, "peer"],
    }
    turns = [(name, with_slow) for with_slow in (False, True) for name in commands]
    seconds = float(duration) / ROUNDS / len(turns)
    answers: dict[tuple[str, bool], list[Answer]] = {turn: [] for turn in turns}
    elapsed = dict.fromkeys(turns, 0.0)
    for number in range(ROUNDS):
        # neither service always comes first
        for turn in turns if number % 2 == 0 else reversed(turns):
            name, with_slow = turn
            more, until_last = one_turn(commands[name], seconds, with_slow)
            answers[turn] += more
            elapsed[turn] += until_last
    for name, with_slow in turns:
        title = f"{name}, {'a' if with_slow else 'no'} slow client"
        report(title, answers[name, with_slow], elapsed[name, with_slow])


if __name__ == "__main__":
    main()
