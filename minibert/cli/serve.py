"""`minibert serve`: models behind HTTP."""

from __future__ import annotations

import argparse
import ctypes
import logging
import os
import signal
import socket
import sys
import warnings
from contextlib import suppress
from pathlib import Path

from minibert.checkpoints.source import Source
from minibert.cli.common import UsageError
from minibert.extras import need

KEY = "MINIBERT_API_KEY"
M_ARENA_MAX = -8  # malloc.h


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "models", nargs="*", metavar="MODEL", help="or NAME=MODEL; several, to be asked for by name"
    )
    parser.add_argument("--backend", default="torch", choices=["torch", "onnx"])
    parser.add_argument("--precision", default="fp32", choices=["fp32", "bf16", "int8", "exact"])
    parser.add_argument("--host", default="127.0.0.1", help=f"a key is taken from {KEY}")
    parser.add_argument("--port", type=int, default=8000, help="0 takes a free one")
    parser.add_argument(
        "--max-wait-ms", type=float, default=2.0, help="of a text for others; not after one alone"
    )
    parser.add_argument("--max-waiting", type=int, default=4096, help="texts in the queue")
    parser.add_argument("--max-body", type=int, default=4_000_000, help="bytes of a request")
    parser.add_argument("--max-texts", type=int, default=2048, help="of a request")
    parser.add_argument("--max-tokens", type=int, default=500_000, help="of a request")
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds of a request")


def run(options: argparse.Namespace) -> None:
    for module in ("fastapi", "uvicorn", "prometheus_client"):
        need(module, "serve", "minibert serve")
    import uvicorn

    from minibert.inference.batching import BATCH_TOKENS
    from minibert.serving.app import create_app
    from minibert.serving.gate import Limits, logger
    from minibert.serving.models import load

    named = [_named(model) for model in options.models or [options.model]]
    if len(dict(named)) < len(named):
        raise UsageError("two models have the same name: give one another, as NAME=MODEL.")
    limits = Limits(options.max_body, options.max_texts, options.max_tokens, options.timeout)
    queue = {
        "max_wait_ms": options.max_wait_ms,
        "max_tokens": BATCH_TOKENS,
        "max_pending": options.max_waiting,
    }
    # oneDNN, which reads it when it begins, keeps 1024 entries: `warm_up` of a second model would drop the first's
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "8192")
    # for glibc: what one thread frees is new memory for the others, not a heap of its own for each
    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).mallopt(M_ARENA_MAX, 1)
    key = os.environ.get(KEY) or None
    if key is None and options.host not in ("127.0.0.1", "::1", "localhost"):
        warnings.warn(
            f"whoever reaches {options.host} may use this service: {KEY} sets a key.", stacklevel=1
        )
    logging.basicConfig(format="%(message)s", stream=sys.stdout)
    logger.setLevel(logging.INFO)
    with _listening(options.host, options.port) as server:
        models = []
        for name, model in named:
            source = Source(model, revision=options.revision, local_files_only=options.offline)
            precision = None if options.precision == "exact" else options.precision
            models.append(
                served := load(name, source, backend=options.backend, precision=precision, **queue)
            )
            served.batched.encode(
                "ready?"
            )  # what the first text takes longer is over before anybody asks
            logger.info("%s is served as %s (%s)", model, name, served.kind)
        logger.info("http://%s:%d", options.host, server.getsockname()[1])
        app = create_app(models, limits, key=key, json_log=options.json)
        # uvicorn raises the signal once more when all is answered; it has done its work then
        signal.signal(signal.SIGTERM, lambda *_: None)
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=int(options.timeout),
        )
        uvicorn.Server(config).run(sockets=[server])


def _named(model: str) -> tuple[str, str]:
    """Name and model of "name=model"; a model alone is named by its folder, or by itself."""
    name, _, model = model.rpartition("=")
    return name or (Path(model).resolve().name if os.path.isdir(model) else model), model


def _listening(host: str, port: int) -> socket.socket:
    """A socket for requests."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    server = socket.create_server((host, port), family=family, backlog=2048)
    # asyncio sees to that for sockets of its own alone; without it the body of an answer waits 40 ms for the client
    server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return server
