"""What surrounds each request: its key, its size, its time, its log line and its metrics.

A request without the key, or one that announces a body that is too large, is refused before its
body is read. This module and `app` need the extra [serve]. Their importers check for it first.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import logging
import math
import os
import re
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any
from urllib.parse import quote

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, ProcessCollector
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
MAX_LOGGED_METHOD = 20
REQUEST_ID = re.compile(r"[\w.:/+=-]{1,100}", re.ASCII)  # others are replaced by an id of our own
PROBES = ("/", "/ping", "/health", "/health/live", "/health/ready")  # of load balancers

LOOPBACK_HOSTS = ("localhost", "addresses")  # what a page of another site cannot be called

_KINDS = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}


class Metrics:
    """The metrics of `GET /metrics`, under the names that Prometheus collects."""

    def __init__(self, models: Mapping[str, Served]) -> None:
        registry = CollectorRegistry()
        self.registry = registry
        ProcessCollector(registry=registry)  # resident memory, open files, processor time
        self.seconds = Histogram(
            "minibert_request_seconds",
            "Time to the answer. Refusals are those with status 429 and 503",
            ["path", "status"],
            registry=registry,
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
        waits = Histogram(
            "minibert_wait_seconds",
            "Time that a text waits until the model takes it",
            ["model"],
            registry=registry,
        )
        about = Info("minibert_model", "A model", ["model"], registry=registry)

        def observe(name: str, seconds: list[float]) -> None:
            batches.labels(name).observe(len(seconds))
            for one in seconds:
                waits.labels(name).observe(one)

        for name, model in models.items():
            waiting.labels(name).set_function(partial(getattr, model.batched, "pending"))
            model.batched.observe = partial(observe, name)
            fingerprint = model.about.get("fingerprint") or ""
            about.labels(name).info({"kind": model.kind, "fingerprint": fingerprint})


def problem(
    path: str, status: int, message: str, headers: Mapping[str, str] | None = None
) -> Response:
    """Return an error in the format of OpenAI below /v1, else of text-embeddings-inference.

    The clients of Voyage, whose routes are below /v1, too, read `detail`.

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
        content = {"error": error, "detail": message}
    return Response(to_json(content), status, dict(headers or {}), "application/json")


def path_in_app(scope: Scope) -> str:
    """Return the path of a request below the path where this application is mounted."""
    path: str = scope["path"]
    path_below = path.removeprefix(scope.get("root_path", ""))
    if path_below[:1] in ("", "/"):
        return path_below
    return path


class Ending:
    """The end of a service, as its server begins it and its application sees it.

    Attributes:
        has_begun: Whether the service is about to end. Probes say so, and answers close their
            connections, so that clients open the next one to another instance.
        deadlines: Those of the requests in progress.
    """

    def __init__(self) -> None:
        self.has_begun = False
        self.deadlines: set[asyncio.Timeout] = set()
        self._latest = math.inf

    def deadline(self, seconds: float) -> float:
        """The time of the loop when a request ends that may take so many seconds."""
        return min(asyncio.get_running_loop().time() + seconds, self._latest)

    def expire(self, seconds: float) -> None:
        """Let no request take longer than these seconds from now on."""
        self._latest = self.deadline(seconds)
        for deadline in self.deadlines:
            when = deadline.when()
            if when is not None and when > self._latest:
                deadline.reschedule(self._latest)


class Gate:
    """Middleware around all routes but the probes of load balancers.

    Args:
        app: The application.
        limits: As in `minibert.serving.app.create_app`, like the others.
        key: Key that clients send. None: no key is required.
        metrics: The metrics that requests are counted in.
        ending: The end of the service.
        without_key: Paths that are open to clients without the key.
        allowed_hosts: As in `create_app`.
    """

    def __init__(
        self,
        app: ASGIApp,
        limits: Limits,
        key: str | None,
        metrics: Metrics,
        ending: Ending,
        without_key: Sequence[str] = (),
        allowed_hosts: Sequence[str] | None = None,
    ) -> None:
        self.app = app
        self.limits = limits
        self.metrics = metrics
        self._key = None if key is None else os.fsencode(key.strip())
        self._ending = ending
        self._without_key = without_key
        self._allowed_hosts = ["*"]
        if allowed_hosts is not None:
            self._allowed_hosts = [host.lower() for host in allowed_hosts]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        path = path_in_app(scope)
        if len(path) > 1 and path.endswith("/"):  # a redirect would name the wrong host to clients
            path = path.rstrip("/")
            scope = {**scope, "path": scope["path"].rstrip("/")}
        headers = Headers(scope=scope)
        misdirected = self._misdirection(path, headers)
        if misdirected is None and path in PROBES and scope["method"] in ("GET", "HEAD"):
            return await self.app(scope, receive, send)
        start = time.perf_counter()
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
                sent = MutableHeaders(scope=message)
                sent["X-Request-ID"] = request_id
                if self._ending.has_begun:
                    sent["Connection"] = "close"
            await send(message)

        try:
            refusal = misdirected or self._refusal(path, headers)
            if refusal is None:
                refusal = await self._answer(path, scope, receive, sending)
            if refusal is not None and not status:
                await refusal(scope, receive, sending)
        finally:
            seconds = time.perf_counter() - start
            self._record(scope, path, status or 499, seconds, log_fields)  # 499 as in nginx

    def _misdirection(self, path: str, headers: Headers) -> Response | None:
        """The error for a request to another host, or whose end is ambiguous."""
        if "transfer-encoding" in headers and "content-length" in headers:
            # a proxy could take what follows the one for a request, and this service the other
            message = "send Content-Length or Transfer-Encoding, not both."
            return problem(path, 400, message, {"Connection": "close"})
        host = headers.get("host")
        if host is None or is_allowed_host(host, self._allowed_hosts):
            return None
        message = "this service is not that host: --allowed-hosts names those that it serves."
        return problem(path, 421, message)

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

        async def limited() -> Message:
            """Receive a part of the body, which may not announce its size."""
            nonlocal size, is_complete
            message = await receive()
            size += len(message.get("body", b""))
            if size > self.limits.body:
                raise HTTPException(413, f"a request has at most {self.limits.body} bytes.")
            if message["type"] == "http.request" and not message.get("more_body"):
                is_complete = True
                deadline.reschedule(self._ending.deadline(self.limits.seconds))
            return message

        deadline = asyncio.timeout_at(self._ending.deadline(self.limits.seconds))
        self._ending.deadlines.add(deadline)
        try:
            async with deadline:
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
        finally:
            self._ending.deadlines.discard(deadline)
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
            "method": scope["method"][:MAX_LOGGED_METHOD],
            "path": quote(path[:MAX_LOGGED_PATH]),  # quoted, so that it cannot break the line
            "ms": round(1000 * seconds, 1),
            **fields,
        }
        text = " ".join(f"{name}={value}" for name, value in line.items())
        logger.info("%s", text, extra={"fields": line})


def is_allowed_host(host: str, allowed: Sequence[str]) -> bool:
    """Whether a service answers requests for a host.

    Args:
        host: The header `Host`.
        allowed: Names in lower case. `*.example.org` stands for all names below, "addresses" for
            all IP addresses, and "*" for all hosts.
    """
    if "*" in allowed:
        return True
    name = host.lower()
    if name.startswith("["):
        name = name[1:].partition("]")[0]
    else:
        name = name.partition(":")[0].removesuffix(".")
    if "addresses" in allowed:
        with suppress(ValueError):
            ipaddress.ip_address(name)
            return True
    return any(name == one or (one[:2] == "*." and name.endswith(one[1:])) for one in allowed)


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
