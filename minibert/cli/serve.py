"""`minibert serve`: models behind HTTP."""

from __future__ import annotations

import argparse
import ctypes
import errno
import logging
import os
import signal
import socket
import sys
import warnings
from collections.abc import Sequence
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
    parser.add_argument(
        "--no-normalize",
        action="store_true",
        help="return vectors as the model makes them, not L2-normalized",
    )
    parser.add_argument("--metrics-open", action="store_true", help="serve /metrics without a key")


def run(options: argparse.Namespace) -> None:
    for module in ("fastapi", "uvicorn", "prometheus_client"):
        need(module, "serve", "minibert serve")
    import uvicorn

    from minibert.inference.batching import BATCH_TOKENS
    from minibert.serving.app import create_app
    from minibert.serving.gate import Limits, logger
    from minibert.serving.models import load

    named = name_models(options.models or [options.model])
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
    with listening(options.host, options.port) as server:
        models = []
        for name, model in named:
            source = Source(model, revision=options.revision, local_files_only=options.offline)
            precision = None if options.precision == "exact" else options.precision
            try:
                served = load(name, source, backend=options.backend, precision=precision, **queue)
                served.batched.encode("ready?")  # the first text takes longer than others
            except (ImportError, KeyboardInterrupt, MemoryError):
                raise
            except Exception as error:
                raise ValueError(f"{model} cannot be served: {error}") from error
            models.append(served)
            logger.info("%s is served as %s (%s)", model, name, served.kind)
        logger.info("http://%s:%d", options.host, server.getsockname()[1])
        app = create_app(
            models,
            limits,
            key=key,
            json_log=options.json,
            normalize=not options.no_normalize,
            metrics_open=options.metrics_open,
        )
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


def name_models(arguments: Sequence[str]) -> list[tuple[str, str]]:
    """Names and models of the arguments MODEL or NAME=MODEL.

    What exists as a path is a path, whatever characters it has. NAME ends at the first "=". A folder
    without a NAME is called by its own name, with those of its parents where two would be equal.

    Args:
        arguments: As the command line has them.

    Returns:
        A name and a model for each.

    Raises:
        UsageError: Two models have the same name.
    """
    models: list[tuple[str, str]] = []
    for argument in arguments:
        name, equals, model = argument.partition("=")
        if not equals or os.path.exists(argument):
            models.append(("", argument))
        else:
            models.append((name, model))
    folders = [Path(model).resolve() for name, model in models if not name and os.path.isdir(model)]
    named: list[tuple[str, str]] = []
    for name, model in models:
        if not name:
            name = _short_name(Path(model).resolve(), folders) if os.path.isdir(model) else model
        named.append((name, model))
    if len(dict(named)) < len(named):
        raise UsageError("two models have the same name: give one another, as NAME=MODEL.")
    return named


def _short_name(folder: Path, folders: Sequence[Path]) -> str:
    """The last parts of a path, as many as tell it from the other folders."""
    for length in range(1, len(folder.parts)):
        parts = folder.parts[-length:]
        if sum(other.parts[-length:] == parts for other in folders) == 1:
            return "/".join(parts)
    return str(folder)


def listening(host: str, port: int) -> socket.socket:
    """A socket for requests."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        server = socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            advice = "stop what listens there, or give another --port (0 takes a free one)"
            raise OSError(f"port {port} of {host} is in use: {advice}.") from None
        raise OSError(f"cannot listen at port {port} of {host} ({error.strerror}).") from None
    # asyncio sees to that for sockets of its own alone; without it the body of an answer waits 40 ms for the client
    server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return server
