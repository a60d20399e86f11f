"""Checks of every request before FastAPI sees it (key, size, time); afterwards a log line and the metrics.

The extra [serve] brings what is imported here and in `app`; whoever imports them asks for it first.
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
    tokens: int = 500_000  # of all texts, when each has been cut to what the model takes
    seconds: float = 60.0  # until it has come whole, and from then until it is answered


class Metrics:
    """The metrics of `GET /metrics`, under the names that Prometheus collects."""

    def __init__(self, models: Mapping[str, Served]) -> None:
        self.registry = own = CollectorRegistry()
        ProcessCollector(registry=own)  # resident memory, open files, processor time
        self.seconds = Histogram(
            "minibert_request_seconds", "Time to the answer", ["path", "status"], registry=own
        )
        self.texts = Counter("minibert_texts", "Texts that were computed", ["model"], registry=own)
        self.tokens = Counter("minibert_tokens", "Their tokens", ["model"], registry=own)
        waiting = Gauge("minibert_waiting_texts", "Texts that wait", ["model"], registry=own)
        sizes = [2**power for power in range(11)]
        batches = Histogram(
            "minibert_batch_texts", "Texts of a batch", ["model"], buckets=sizes, registry=own
        )
        for name, model in models.items():
            waiting.labels(name).set_function(partial(getattr, model.batched, "pending"))
            model.observe_batch = batches.labels(name).observe


def problem(
    path: str, status: int, message: str, headers: Mapping[str, str] | None = None
) -> Response:
    """An error as the clients of a path expect it: OpenAI's below /v1, else those of text-embeddings-inference."""
    kind = _KINDS.get(status, "invalid_request_error" if status < 500 else "server_error")
    error = {"message": message, "type": kind, "param": None, "code": None}
    content = (
        {"error": error} if path.startswith("/v1/") else {"error": message, "error_type": kind}
    )
    return Response(to_json(content), status, dict(headers or {}), "application/json")


def path_in_app(scope: Scope) -> str:
    """The path of a request without that of the app around this one, where it is mounted below another."""
    path: str = scope["path"]
    rest = path.removeprefix(scope.get("root_path", ""))
    return rest if rest[:1] in ("", "/") else path


class Gate:
    """Middleware around all but `/health`; its options are those of `minibert.serving.app.create_app`."""

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
        self._key = None if key is None else key.encode()
        self._without_key = without_key

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        path = path_in_app(scope) if scope["type"] == "http" else "/health"
        if path == "/health" or path.startswith("/health/"):
            return await self.app(scope, receive, send)
        start, status = time.perf_counter(), 0
        told: dict[str, Any] = {}
        scope["minibert"] = told  # where routes put what the log should say

        async def sending(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        try:
            refusal = await self._answer(path, scope, receive, sending)
            if refusal is not None and not status:
                await refusal(scope, receive, sending)
        finally:
            status, seconds = (
                status or 499,
                time.perf_counter() - start,
            )  # 499: the client has gone (nginx has it so)
            # metrics have the paths that exist, because clients may request any number of others
            exists = any(route.path == path for route in scope["app"].routes)
            self.metrics.seconds.labels(path if exists else "", status).observe(seconds)
            now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            logged = quote(path[:MAX_LOGGED_PATH])  # a line of the log stays one line
            line = {"time": now, "status": status, "method": scope["method"], "path": logged}
            line |= {"ms": round(1000 * seconds, 1), **told}
            text = (
                json.dumps(line)
                if self.json_log
                else " ".join(f"{name}={value}" for name, value in line.items())
            )
            logger.info(text)

    async def _answer(
        self, path: str, scope: Scope, receive: Receive, send: Send
    ) -> Response | None:
        """Lets the app answer, or returns why not; None also when the client has gone."""
        known = path in self._without_key or self._has_key(scope)
        try:  # all of the body in any case, for a client that is still sending hears no answer
            size, body = await asyncio.wait_for(self._read(receive, known), self.limits.seconds)
        except TimeoutError:
            return problem(
                path, 408, "the request did not come whole in time.", {"Connection": "close"}
            )
        if not known:
            return problem(
                path,
                401,
                "send the key as Authorization: Bearer KEY.",
                {"WWW-Authenticate": "Bearer"},
            )
        if size > self.limits.body:
            return problem(path, 413, f"a request has at most {self.limits.body} bytes.")
        gone, read = (
            asyncio.create_task(_disconnect(receive)),
            [{"type": "http.request", "body": body}],
        )

        async def replay() -> Message:
            if read:
                return read.pop()
            await asyncio.shield(gone)
            return {"type": "http.disconnect"}

        answering = asyncio.ensure_future(self.app(scope, replay, send))
        await asyncio.wait(
            {gone, answering}, timeout=self.limits.seconds, return_when=asyncio.FIRST_COMPLETED
        )
        try:
            if answering.done():
                answering.result()
            elif not gone.done():
                return problem(
                    path,
                    503,
                    "this took too long: send less at once, or later.",
                    {"Retry-After": "1"},
                )
        except Exception:
            logger.exception("a request failed")
            return problem(path, 500, "this could not be computed; the service's log says why.")
        finally:
            gone.cancel()
            answering.cancel()  # which takes its texts out of the queue
        return None

    def _has_key(self, scope: Scope) -> bool:
        """Whether a request has the key; the scheme "Bearer" is written in any case (RFC 9110)."""
        if self._key is None:
            return True
        header: bytes = dict(scope["headers"]).get(b"authorization", b"")
        scheme, _, key = header.partition(b" ")
        return scheme.lower() == b"bearer" and hmac.compare_digest(self._key, key.strip())

    async def _read(self, receive: Receive, keep: bool) -> tuple[int, bytes]:
        """How many bytes came, and the body as far as it is not too large."""
        size, parts = 0, []
        while (message := await receive())["type"] == "http.request":
            size += len(message.get("body", b""))
            if keep and size <= self.limits.body:
                parts.append(message.get("body", b""))
            if not message.get("more_body"):
                break
        return size, b"".join(parts)


async def _disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
