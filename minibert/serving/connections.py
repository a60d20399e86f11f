"""Limits of connections: how long they may be silent, how many are open, and the shutdown.

Uvicorn closes connections that are idle after a response. It limits neither the time until the
headers of a request are complete, nor the number of open connections. This module limits both, for
both HTTP parsers of uvicorn.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import signal
import socket
import sys
import time
from collections.abc import Awaitable, Callable
from types import FrameType
from typing import Any

import uvicorn
from prometheus_client import CollectorRegistry, Counter, Gauge
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from minibert.serving.limits import Ending, logger
from minibert.serving.options import Limits

ACCEPTED_AT_ONCE = 64  # connections beyond the limit, before any of them can be closed
OTHER_FILES = 64  # open files of the process: libraries, the log, the models while they are loaded
MAX_CONNECTIONS = 4096  # the default, even if the system has room for more
BACKLOG = 2048  # connections that the system keeps until they are accepted
OUT_OF_FILES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


def most_connections(requested: int | None) -> int:
    """Return the maximum number of open connections.

    Args:
        requested: The number that the user requested. None: as many as `ulimit -n` has room for,
            but 4096 at most. Windows has no such limit.

    Raises:
        ValueError: More are requested than there is room for.
    """
    if sys.platform == "win32":
        return requested or MAX_CONNECTIONS
    import resource

    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    room = files - OTHER_FILES - ACCEPTED_AT_ONCE
    if files == resource.RLIM_INFINITY:
        room = requested or MAX_CONNECTIONS
    if (requested or 1) > room:
        needed = (requested or 1) + OTHER_FILES + ACCEPTED_AT_ONCE
        raise ValueError(
            f"{requested or 1} connections need {needed} open files, but `ulimit -n` is {files}: "
            f"set it to {needed}, or --max-connections to a smaller number."
        )
    return requested or min(room, MAX_CONNECTIONS)


class Seldom(logging.Filter):
    """Pass each message at most once a minute, regardless of its arguments."""

    SECONDS = 60.0

    def __init__(self) -> None:
        super().__init__()
        self._last: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the message has not been logged in the last minute."""
        now = time.monotonic()
        key = str(record.msg)
        if now - self._last.get(key, -self.SECONDS) < self.SECONDS:
            return False
        self._last[key] = now
        return True


class Connections:
    """The open connections of a server.

    Args:
        most: Maximum number of open connections.
        seconds: Maximum time in seconds until the headers of a request are complete.
        registry: Where their metrics are registered.
        max_body: Maximum bytes of the body of a request. The bytes that a connection receives for
            it are limited, too, because a body in chunks of one byte is sent as six times as many.

    Attributes:
        open: All open connections.
        waiting: Those without a request in progress, the longest-waiting first.
    """

    def __init__(
        self, most: int, seconds: float, registry: CollectorRegistry, max_body: int = 2_000_000
    ) -> None:
        self.most = most
        self.seconds = seconds
        self.most_bytes = 5 * max_body // 4 + 65_536  # with headers, and the sizes of chunks
        self.open: set[Any] = set()
        self.waiting: dict[Any, None] = {}
        gauge = Gauge("minibert_connections", "Open connections", registry=registry)
        gauge.set_function(lambda: len(self.open))
        self._closed = Counter(
            "minibert_closed_connections",
            "Connections that were closed: silent, full (too many are open) or long (a body far "
            "longer in its chunks than --max-body)",
            ["reason"],
            registry=registry,
        )
        self._log = Seldom()

    def close(self, connection: Any, reason: str) -> None:
        """Close a connection, and count it under the reason."""
        self._closed.labels(reason).inc()
        self.waiting.pop(connection, None)
        self.open.discard(connection)  # no longer counted: it closes before the next is accepted
        connection.transport.close()

    def make_room(self, newest: Any) -> None:
        """Close a connection if there are too many.

        Connections that never sent a request are closed first, then those that are idle between two
        requests, the longest-waiting first. The newest connection is closed only if all others have
        a request in progress.
        """
        if len(self.open) <= self.most:
            return
        silent = (one for one in self.waiting if one.cycle is None and one is not newest)
        idle = (one for one in self.waiting if one is not newest)
        self.close(next(silent, None) or next(idle, newest), "full")
        self.warn(
            "%d connections are open, which is the limit: those that wait longest are closed "
            "(--max-connections)",
            self.most,
        )

    def count(self, connection: Any, size: int) -> None:
        """Count bytes of the request in progress, and close the connection at too many."""
        request, total = connection.counted
        total = size if request is not connection.cycle else total + size
        connection.counted = connection.cycle, total
        is_busy = connection.cycle is not None and not connection.cycle.response_complete
        if is_busy and total > self.most_bytes:
            self.close(connection, "long")

    def warn(self, message: str, *arguments: object) -> None:
        """Log a warning, each at most once a minute."""
        record = logger.makeRecord(
            logger.name, logging.WARNING, __file__, 0, message, arguments, None
        )
        if self._log.filter(record):
            logger.handle(record)


def protocol_of(
    connections: Connections, base: type[asyncio.Protocol] = AutoHTTPProtocol
) -> type[asyncio.Protocol]:
    """Return a protocol class of uvicorn that applies the limits of connections.

    Args:
        connections: The open connections, and their limits.
        base: The protocol of uvicorn to extend. The default uses httptools if it is installed, else
            h11.
    """

    class Protocol(base):  # type: ignore[misc, valid-type]
        _timer: asyncio.TimerHandle | None = None
        counted: tuple[object, int] = (None, 0)  # a request, and its bytes

        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            connections.open.add(self)
            connections.waiting[self] = None
            self._await_headers()
            connections.make_room(self)

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            self._stop_timer()
            connections.open.discard(self)
            connections.waiting.pop(self, None)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            connections.count(self, len(data))
            if self._is_busy():
                self._stop_timer()
                connections.waiting.pop(self, None)
            elif self._timer is None:  # headers have begun, or a body that no request reads
                self._await_headers()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            if not self._is_busy() and self in connections.open:
                connections.waiting[self] = None

        def _is_busy(self) -> bool:
            return self.cycle is not None and not self.cycle.response_complete

        def _await_headers(self) -> None:
            self._timer = self.loop.call_later(connections.seconds, self._close_silent)

        def _stop_timer(self) -> None:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

        def _close_silent(self) -> None:
            if not self._is_busy():
                connections.close(self, "silent")

    return Protocol


class Server(uvicorn.Server):
    """A server that announces its shutdown before it begins, and limits how long it takes.

    Args:
        app: The application of `create_app`.
        ending: The state of the shutdown, shared with the application.
        connections: Its connections.
        limits: Limits of each request.
        drain: Seconds for which the server still accepts connections after SIGTERM. Meanwhile
            `GET /health/ready` responds with 503, and responses close their connections.
        keep_alive: Seconds after which an idle connection is closed.
    """

    def __init__(
        self,
        app: Callable[..., Awaitable[None]],
        ending: Ending,
        connections: Connections,
        limits: Limits,
        drain: float,
        keep_alive: int,
    ) -> None:
        config = uvicorn.Config(
            app,
            http=protocol_of(connections),
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            backlog=ACCEPTED_AT_ONCE,
            timeout_keep_alive=keep_alive,
            timeout_graceful_shutdown=limits.seconds,  # type: ignore[arg-type]
        )
        super().__init__(config)
        self._ending = ending
        self._connections = connections
        self._seconds = limits.seconds
        self._drain = drain
        self._drains = False
        self._last_moment: float | None = None

    @property
    def remaining(self) -> float:
        """Seconds left for the shutdown, or all of them if it has not begun."""
        if self._last_moment is None:  # after an error, or a signal before the server ran
            return self._seconds
        return max(0.0, self._last_moment - time.monotonic())

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin the shutdown. Only a first SIGTERM is followed by the `drain` seconds."""
        self._drains = sig == signal.SIGTERM and not self.should_exit
        super().handle_exit(sig, frame)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen. Without open files left for connections, warn at most once a minute."""
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._on_exception)
        await super().startup(sockets)
        for listening in sockets or []:
            listening.listen(BACKLOG)

    def _on_exception(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if not isinstance(error, OSError) or error.errno not in OUT_OF_FILES:
            return loop.default_exception_handler(context)
        self._connections.warn("a connection could not be accepted (%s)", error.strerror)

    async def main_loop(self) -> None:
        """Serve until a signal, and after SIGTERM for `drain` more seconds."""
        await super().main_loop()
        self._ending.has_begun = True
        end = time.monotonic() + self._drain
        ticks = 0
        while self._drains and not self.force_exit and time.monotonic() < end:
            await asyncio.sleep(0.1)
            ticks += 1
            await self.on_tick(ticks)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop listening, and complete the requests in progress within the timeout."""
        self._last_moment = time.monotonic() + self._seconds
        # requests get most of the time, and a batch that is being computed then gets the rest
        self._ending.expire(0.8 * self._seconds)
        await super().shutdown(sockets)
