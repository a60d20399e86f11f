"""Middleware that checks each request (key, size, time), logs it, and counts it in the metrics.

This module and `app` need the extra [serve]. Their importers check for it first.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import quote

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from pydantic_core import to_json
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from minibert.serving.models import Served

logger = logging.getLogger("minibert.serve")

MAX_LOGGED_PATH = 200

_KINDS = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}


@dataclass(frozen=True)
class Limits:
    """Limits of a request."""

    body: int = 4_000_000  # bytes
    texts: int = 2048  # or pairs of a query and a document
    tokens: int = 500_000  # of all texts after truncation
    seconds: float = 60.0  # to receive it, and again to compute the response


class Metrics:
    """The metrics of `GET /metrics`, under the names that Prometheus collects."""

    def __init__(self, models: Mapping[str, Served]) -> None:
        registry = CollectorRegistry()
        self.registry = registry
        ProcessCollector(registry=registry)  # resident memory, open files, processor time
        self.seconds = Histogram(
            "minibert_request_seconds", "Time to the answer", ["path", "status"], registry=registry
        )
        self.texts = Counter(
            "minibert_texts", "Texts that were computed", ["model"], registry=registry
        )
        self.tokens = Counter("minibert_tokens", "Their tokens", ["model"], registry=registry)
        waiting = Gauge("minibert_waiting_texts", "Texts that wait", ["model"], registry=registry)
        sizes = [2**power for power in range(11)]
        batches = Histogram(
            "minibert_batch_texts", "Texts of a batch", ["model"], buckets=sizes, registry=registry
        )
        for name, model in models.items():
            waiting.labels(name).set_function(partial(getattr, model.batched, "pending"))
            model.observe_batch = batches.labels(name).observe


def problem(
    path: str, status: int, message: str, headers: Mapping[str, str] | None = None
) -> Response:
    """Return an error in the format of OpenAI below /v1, else of text-embeddings-inference.

    Args:
        path: Path of the request in the application.
        status: Status code of the response.
        message: Sentence about the error.
        headers: Headers of the response.
    """
    default = "invalid_request_error"
    if status >= 500:
        default = "server_error"
    kind = _KINDS.get(status, default)
    content: dict[str, Any] = {"error": message, "error_type": kind}
    if path.startswith("/v1/"):
        error = {"message": message, "type": kind, "param": None, "code": None}
        content = {"error": error}
    return Response(to_json(content), status, dict(headers or {}), "application/json")


def path_in_app(scope: Scope) -> str:
    """Return the path of a request below the path where this application is mounted."""
    path: str = scope["path"]
    path_below = path.removeprefix(scope.get("root_path", ""))
    if path_below[:1] in ("", "/"):
        return path_below
    return path


class Gate:
    """Middleware around all routes but `/health`.

    Args:
        app: The application.
        limits: As in `minibert.serving.app.create_app`, like the others.
        key: Key that clients send. None: no key is required.
        metrics: The metrics that requests are counted in.
        json_log: Write log lines as JSON.
        without_key: Paths that are open to clients without the key.
    """

    def __init__(
        self,
        app: ASGIApp,
        limits: Limits,
        key: str | None,
        metrics: Metrics,
        json_log: bool,
        without_key: Sequence[str] = (),
    ) -> None:
        self.app = app
        self.limits = limits
        self.metrics = metrics
        self.json_log = json_log
        self._key: bytes | None = None
        if key is not None:
            self._key = key.encode()
        self._without_key = without_key

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        path = path_in_app(scope)
        if path == "/health" or path.startswith("/health/"):
            return await self.app(scope, receive, send)
        start = time.perf_counter()
        status = 0
        log_fields: dict[str, Any] = {}
        scope["minibert"] = log_fields  # routes add the model and the counts of the request

        async def sending(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        try:
            refusal = await self._answer(path, scope, receive, sending)
            if refusal is not None and not status:
                await refusal(scope, receive, sending)
        finally:
            seconds = time.perf_counter() - start
            self._record(scope, path, status or 499, seconds, log_fields)  # 499 as in nginx

    def _record(
        self, scope: Scope, path: str, status: int, seconds: float, fields: dict[str, Any]
    ) -> None:
        """Count a request in the metrics and log it. Status 499 is a client that disconnected."""
        # only paths that exist become labels, because clients may request any number of others
        label = ""
        if any(route.path == path for route in scope["app"].routes):
            label = path
        self.metrics.seconds.labels(label, status).observe(seconds)
        line = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "status": status,
            "method": scope["method"],
            "path": quote(path[:MAX_LOGGED_PATH]),  # quoted, so that it cannot break the line
            "ms": round(1000 * seconds, 1),
            **fields,
        }
        if self.json_log:
            logger.info(json.dumps(line))
        else:
            logger.info(" ".join(f"{name}={value}" for name, value in line.items()))

    async def _answer(
        self, path: str, scope: Scope, receive: Receive, send: Send
    ) -> Response | None:
        """Let the app answer, and return the error if it does not.

        Returns None if the app has answered or the client has disconnected.
        """
        is_allowed = path in self._without_key or self._has_key(scope)
        # all of the body in any case: a client that is still sending does not receive a response
        reading = self._read(receive, is_allowed)
        try:
            size, body = await asyncio.wait_for(reading, self.limits.seconds)
        except TimeoutError:
            return problem(
                path, 408, "the request did not come whole in time.", {"Connection": "close"}
            )
        if not is_allowed:
            return problem(
                path,
                401,
                "send the key as Authorization: Bearer KEY.",
                {"WWW-Authenticate": "Bearer"},
            )
        if size > self.limits.body:
            return problem(path, 413, f"a request has at most {self.limits.body} bytes.")
        disconnected = asyncio.create_task(_disconnect(receive))
        messages: list[Message] = [{"type": "http.request", "body": body}]

        async def replay() -> Message:
            if messages:
                return messages.pop()
            await asyncio.shield(disconnected)
            return {"type": "http.disconnect"}

        answering = asyncio.ensure_future(self.app(scope, replay, send))
        await asyncio.wait(
            {disconnected, answering},
            timeout=self.limits.seconds,
            return_when=asyncio.FIRST_COMPLETED,
        )
        try:
            if answering.done():
                answering.result()
            elif not disconnected.done():
                return problem(
                    path,
                    503,
                    "this took too long: send less at once, or later.",
                    {"Retry-After": "1"},
                )
        except Exception:
            logger.exception("a request failed")
            return problem(
                path, 500, "this could not be computed. The log of the service has the reason."
            )
        finally:
            disconnected.cancel()
            answering.cancel()  # its texts leave the queue
        return None

    def _has_key(self, scope: Scope) -> bool:
        """Whether a request has the key. The case of "Bearer" is ignored (RFC 9110)."""
        if self._key is None:
            return True
        header: bytes = dict(scope["headers"]).get(b"authorization", b"")
        scheme, _, key = header.partition(b" ")
        return scheme.lower() == b"bearer" and hmac.compare_digest(self._key, key.strip())

    async def _read(self, receive: Receive, keep: bool) -> tuple[int, bytes]:
        """Read a body and return its size, and its bytes up to the limit if `keep`."""
        size = 0
        parts: list[bytes] = []
        is_complete = False
        while not is_complete:
            message = await receive()
            if message["type"] != "http.request":
                break
            part = message.get("body", b"")
            size += len(part)
            if keep and size <= self.limits.body:
                parts.append(part)
            is_complete = not message.get("more_body")
        return size, b"".join(parts)


async def _disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
