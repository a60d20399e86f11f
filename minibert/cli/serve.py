"""`minibert serve`: models behind HTTP."""

from __future__ import annotations

import argparse
import ctypes
import errno
import gc
import json
import logging
import os
import signal
import socket
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from minibert.cli.loading import check_device, source_of
from minibert.cli.options import (
    DEFAULT_MODEL,
    add_device,
    add_fields,
    add_options,
    filled,
    keywords_of,
    refuse_options,
)
from minibert.cli.parser import Parser, command
from minibert.cli.results import UsageError
from minibert.cli.running import logged_by
from minibert.encoders.encoder_options import EmbedderOptions
from minibert.serving.options import Limits, ServeOptions
from minibert.util.errors import Message, message_of
from minibert.util.extras import need

KEY_VARIABLE = "MINIBERT_API_KEY"
M_ARENA_MAX = -8  # malloc.h
# what PyTorch, oneDNN, ONNX Runtime and the system say where memory is short
OUT_OF_MEMORY = (
    "could not create a primitive",
    "can't allocate memory",
    "bad_alloc",
    "Cannot allocate memory",
    "Failed to allocate memory",
    "not enough memory",
    "out of memory",
)


def add(parser: Parser) -> None:
    parser.add_argument(
        "models",
        nargs="*",
        metavar="MODEL",
        help="Models to serve, as for --model. NAME=MODEL serves one under another name. Clients "
        f"need the key in the environment variable {KEY_VARIABLE}, if set.",
    )
    add_options(
        parser,
        "--model",
        action="append",
        default=None,
        help="Model to serve, instead of MODEL. May be repeated. NAME@REVISION names a branch, "
        f"tag or commit of the Hub. Default: {DEFAULT_MODEL}.",
    )
    add_options(parser, "--offline", "--backend")
    add_device(parser, "precision")
    add_fields(parser, EmbedderOptions, "truncate_dim")
    add_options(parser, "--query-prompt", "--document-prompt")
    add_fields(parser, ServeOptions)
    add_fields(parser, Limits)


@command("minibert-en --port 8000", add)
def serve(options: argparse.Namespace) -> None:
    """Serve models to clients of OpenAI's API and text-embeddings-inference."""
    for module in ("fastapi", "uvicorn", "prometheus_client"):
        need(module, "serve", "minibert serve")
    from minibert.serving.app import create_app
    from minibert.serving.connections import Connections, Server, most_connections
    from minibert.serving.limits import LOOPBACK_HOSTS, logger

    settings, limits = filled(ServeOptions, options), filled(Limits, options)
    key = key_of_clients()
    arguments = [*options.models, *(options.model or [])]
    named = name_models(arguments or [DEFAULT_MODEL])
    check_device(options.device, options.backend)
    most = most_connections(settings.max_connections)
    _limit_memory()
    is_loopback = settings.host in ("127.0.0.1", "::1", "localhost")
    if key is None and not is_loopback:
        warnings.warn(
            f"whoever reaches {settings.host} may use this service: {KEY_VARIABLE} sets a key.",
            stacklevel=1,
        )
    if options.allowed_hosts is None and is_loopback:
        # else a page of another site could reach the service, under a name of its own for 127.0.0.1
        options.allowed_hosts = LOOPBACK_HOSTS
    with (
        listening(settings.host, settings.port) as server,
        _request_log(logger, settings.log_format == "json"),
    ):
        models = [_load(options, settings, name, model) for name, model in named]
        if all(model.kind != "embedding" for model in models):
            names = ("truncate_dim", "query_prompt", "document_prompt")
            refuse_options(options, names, "is for embedders, and none is served.")
        # Python's garbage collector would look at all that is loaded so far, again and again, while
        # the many lists of a large request are parsed. That takes ten times as long as the parsing
        gc.freeze()
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        print(f"http://{host}:{server.getsockname()[1]}", file=sys.stderr)
        app = create_app(
            models,
            limits,
            key=key,
            **keywords_of(create_app, options),
        )
        state = app.state.service
        connections = Connections(most, limits.seconds, state.metrics.registry, limits.body)
        service = Server(
            app, state.ending, connections, limits, settings.drain, settings.keep_alive
        )
        # a signal that comes before `run` stops it as well. uvicorn raises it once more when all is
        # answered, which does nothing then
        signal.signal(signal.SIGTERM, service.handle_exit)
        code = 130  # of Ctrl-C, also for what the finally clause does after it
        try:
            service.run(sockets=[server])
            code = 0
        finally:
            # a second signal skips the end of the application, and Python aborts if it ends while
            # a thread computes
            if not all([model.batched.close(service.remaining) for model in models]):
                logging.shutdown()
                sys.stdout.flush()
                os._exit(code)  # its texts are for nobody, and the time is over


def key_of_clients() -> str | None:
    """The key in the environment, without blanks and line breaks, which no header can carry.

    Raises:
        UsageError: There is a key, and nothing of it remains, or several lines.
    """
    key = os.environ.get(KEY_VARIABLE)
    if not key:
        return None
    if not key.strip():
        raise UsageError(f"{KEY_VARIABLE} holds blanks alone: write a key into it, or unset it.")
    if len(key.strip().splitlines()) > 1:
        raise UsageError(f"{KEY_VARIABLE} holds several lines: write the key alone into it.")
    return key.strip()


class _JsonLines(logging.Formatter):
    """One JSON document a line: the fields of a request, or the message of something else."""

    def format(self, record: logging.LogRecord) -> str:
        fields = getattr(record, "fields", None)
        if fields is None:
            fields = {"time": self.formatTime(record), "message": super().format(record)}
        return json.dumps(fields)


@contextmanager
def _request_log(logger: logging.Logger, as_json: bool) -> Iterator[None]:
    """Write what the service and uvicorn log to stdout, a line each, while the server runs.

    Args:
        logger: The logger of the service, which must not reach the command's own on stderr.
        as_json: Write JSON.
    """
    from minibert.serving.connections import Seldom

    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(_JsonLines() if as_json else logging.Formatter("%(message)s"))
    root = logging.getLogger()
    root.addHandler(handler)
    # a client can make uvicorn repeat a warning as often as it likes
    of_uvicorn = logging.getLogger("uvicorn.error")
    seldom = Seldom()
    of_uvicorn.addFilter(seldom)
    try:
        with logged_by(handler, logger, logging.INFO):
            yield
    finally:
        of_uvicorn.removeFilter(seldom)
        root.removeHandler(handler)


def _load(options: argparse.Namespace, settings: ServeOptions, name: str, model: str) -> Any:
    """A model with its queue, warmed up, so that no request pays for its beginning."""
    from minibert.inference.batching import BATCH_TOKENS
    from minibert.serving.models import load_served

    try:
        served = load_served(
            name,
            source_of(options, model),
            max_wait_ms=settings.max_wait_ms,
            max_tokens=BATCH_TOKENS,
            max_pending=settings.max_waiting,
            **keywords_of(load_served, options),
        )
        served.batched.encode("ready?")  # the first text takes longer than others
    except (ImportError, KeyboardInterrupt):
        raise
    except Exception as error:
        what = f"{model} cannot be served: "
        if isinstance(error, MemoryError) or any(sign in str(error) for sign in OUT_OF_MEMORY):
            what = f"{model} cannot be served, because there is too little memory for it: "
        raise ValueError(Message(what, message_of(error))) from error
    print(f"{model} is served as {name} ({served.kind})", file=sys.stderr)
    return served


def _limit_memory() -> None:
    """Settings of oneDNN and glibc that have to be made before the first model is loaded."""
    # oneDNN keeps 1024 entries by default: the warm-up of a second model would drop the first's
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "8192")
    # for glibc, so that memory freed by one thread is new memory for the others
    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).mallopt(M_ARENA_MAX, 1)


def name_models(arguments: Sequence[str]) -> list[tuple[str, str]]:
    """Names and models of the arguments MODEL or NAME=MODEL.

    What exists as a path is a path, whatever characters it has. NAME ends at the first "=". A
    folder without a NAME is called by its own name, with those of its parents where two would be
    equal.

    Args:
        arguments: As the command line has them.

    Returns:
        A name and a model for each.

    Raises:
        UsageError: Two models have the same name, or one has none.
    """
    models: list[tuple[str, str]] = []
    for argument in arguments:
        name, equals, model = argument.partition("=")
        if not equals or os.path.exists(argument):
            models.append(("", argument))
        elif not model:
            raise UsageError(f"{argument} names no model: write NAME=MODEL.")
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
    """A socket for requests. "::" takes those of IPv6 and of IPv4.

    Raises:
        OSError: The port cannot be used, because another process does, for instance.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    takes_both = host == "::" and socket.has_dualstack_ipv6()
    try:
        server = socket.create_server(
            (host, port), family=family, backlog=2048, dualstack_ipv6=takes_both
        )
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            advice = "stop what listens there, or give another --port (0 takes a free one)"
            raise OSError(f"port {port} of {host} is in use: {advice}.") from None
        raise OSError(f"cannot listen at port {port} of {host} ({error.strerror}).") from None
    # asyncio sees to that for sockets of its own alone; without it the body of an answer waits 40
    # ms for the client
    server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return server
