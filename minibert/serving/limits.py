"""What surrounds each request: its key, its size, its time, its log line and its metrics.

A request without the key, or one that announces a body that is too large, is refused before its
body is read. This module and `app` need the extra [serve]. Their importers check for it first.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import os
import re
import time
import uuid
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any
from urllib.parse import quote

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from pydantic_core import to_json
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from minibert.serving.models import Served
from minibert.serving.options import Limits

logger = logging.getLogger("minibert.serve")

MAX_LOGGED_PATH = 200
REQUEST_ID = re.compile(r"[\w.:/+=-]{1,100}", re.ASCII)  # others are replaced by an id of our own
PROBES = ("/", "/ping", "/health", "/health/live", "/health/ready")  # of load balancers

_KINDS = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}


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
    """Middleware around all routes but the probes of load balancers.

    Args:
        app: The application.
        limits: As in `minibert.serving.app.create_app`, like the others.
        key: Key that clients send. None: no key is required.
        metrics: The metrics that requests are counted in.
        without_key: Paths that are open to clients without the key.
    """

    def __init__(
        self,
        app: ASGIApp,
        limits: Limits,
        key: str | None,
        metrics: Metrics,
        without_key: Sequence[str] = (),
    ) -> None:
        self.app = app
        self.limits = limits
        self.metrics = metrics
        self._key = None if key is None else os.fsencode(key.strip())
        self._without_key = without_key

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        path = path_in_app(scope)
        if len(path) > 1 and path.endswith("/"):  # a redirect would name the wrong host to clients
            path = path.rstrip("/")
            scope = {**scope, "path": scope["path"].rstrip("/")}
        if path in PROBES and scope["method"] in ("GET", "HEAD"):
            return await self.app(scope, receive, send)
        start = time.perf_counter()
        headers = Headers(scope=scope)
        request_id = headers.get("x-request-id", "")
        if REQUEST_ID.fullmatch(request_id) is None:
            request_id = uuid.uuid4().hex
        status = 0
        log_fields: dict[str, Any] = {"id": request_id}
        scope["minibert"] = log_fields  # routes add the model and the counts of the request

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)["X-Request-ID"] = request_id
            await send(message)

        try:
            refusal = self._refusal(path, headers)
            if refusal is None:
                refusal = await self._answer(path, scope, receive, sending)
            if refusal is not None and not status:
                await refusal(scope, receive, sending)
        finally:
            seconds = time.perf_counter() - start
            self._record(scope, path, status or 499, seconds, log_fields)  # 499 as in nginx

    def _refusal(self, path: str, headers: Headers) -> Response | None:
        """The error for a request without the key, or whose body is refused before it is read."""
        if self._key is not None and path not in self._without_key:
            scheme, _, key = headers.get("authorization", "").partition(" ")
            # the case of "Bearer" is ignored (RFC 9110), and Latin-1 stands for the bytes as sent
            is_right = hmac.compare_digest(self._key, key.strip().encode("latin-1"))
            if scheme.lower() != "bearer" or not is_right:
                message = "send the key as Authorization: Bearer KEY."
                return problem(path, 401, message, {"WWW-Authenticate": "Bearer"})
        if headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
            return problem(path, 415, "send the body without compression (Content-Encoding).")
        length = headers.get("content-length", "")
        if length.isdecimal() and int(length) > self.limits.body:
            return problem(path, 413, f"a request has at most {self.limits.body} bytes.")
        return None

    async def _answer(
        self, path: str, scope: Scope, receive: Receive, send: Send
    ) -> Response | None:
        """Let the app answer, and return the error if it does not.

        Returns None if the app has answered or the client has disconnected.
        """
        size = 0
        is_complete = False
        loop = asyncio.get_running_loop()

        async def limited() -> Message:
            """Receive a part of the body, which may not announce its size."""
            nonlocal size, is_complete
            message = await receive()
            size += len(message.get("body", b""))
            if size > self.limits.body:
                raise HTTPException(413, f"a request has at most {self.limits.body} bytes.")
            if message["type"] == "http.request" and not message.get("more_body"):
                is_complete = True
                deadline.reschedule(loop.time() + self.limits.seconds)
            return message

        try:
            async with asyncio.timeout(self.limits.seconds) as deadline:
                await self.app(scope, limited, send)
        except TimeoutError:
            if is_complete:
                message = "this took too long: send less at once, or later."
                return problem(path, 503, message, {"Retry-After": "1"})
            message = "the request did not come whole in time."
            return problem(path, 408, message, {"Connection": "close"})
        except ClientDisconnect:
            return None
        except Exception:
            logger.exception("a request failed")
            message = "this could not be computed. The log of the service has the reason."
            return problem(path, 500, message)
        return None

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
        text = " ".join(f"{name}={value}" for name, value in line.items())
        logger.info("%s", text, extra={"fields": line})


async def unless_disconnected(receive: Receive, work: Any) -> Any:
    """Await work, which is cancelled when the client disconnects: its texts leave the queue.

    Raises:
        ClientDisconnect: The client has disconnected.
    """
    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(receive())
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientDisconnect
        return working.result()
    finally:
        working.cancel()
        leaving.cancel()
