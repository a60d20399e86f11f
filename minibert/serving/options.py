"""The options of the service, each declared once. Nothing heavy is imported."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from minibert.util.checks import check_fields, option
from minibert.util.errors import ArgumentError


@dataclass(frozen=True)
class Limits:
    """Limits of a request."""

    body: int = option(2_000_000, "Maximum bytes per request.", flag="--max-body", minimum=1)
    texts: int = option(
        2048, "Maximum texts per request, or pairs of texts.", flag="--max-texts", minimum=1
    )
    characters: int = option(
        650_000,
        "Maximum characters per request, with prompts. A character outside ASCII counts as six, "
        "because it takes as long to tokenize.",
        flag="--max-characters",
        minimum=1,
    )
    tokens: int = option(
        131_072,
        "Maximum tokens per request, after truncation.",
        flag="--max-tokens",
        minimum=1,
    )
    seconds: float = option(
        60.0,
        "Maximum time to receive a request, and again to compute the response.",
        flag="--timeout",
        metavar="SECONDS",
        minimum=0.001,  # with 0 every request would fail
    )

    def __post_init__(self) -> None:
        """ValueError for numbers out of range."""
        check_fields(self)


@dataclass(frozen=True)
class ServeOptions:
    """How the service listens, batches and logs."""

    host: str = option("127.0.0.1", "Address to bind. :: takes IPv6 and IPv4.", metavar="ADDRESS")
    port: int = option(8000, "Port to bind (0: a free one).", minimum=0)
    max_wait_ms: float = option(
        2.0,
        "Maximum time a request waits to be batched with others. A single request does not wait.",
        metavar="MS",
        minimum=0.0,
    )
    max_waiting: int = option(4096, "Maximum texts in the queue.", minimum=1)
    keep_alive: int = option(
        75,
        "Time after which an idle connection is closed. Choose more than the proxy in front.",
        metavar="SECONDS",
        minimum=0,
    )
    max_connections: int | None = option(
        None,
        "Maximum open connections. Default: as many as `ulimit -n` has room for, up to 4096.",
        metavar="N",
        minimum=1,
    )
    drain: float = option(
        0.0,
        "Time between SIGTERM and the end of listening. /health/ready is 503 meanwhile.",
        metavar="SECONDS",
        minimum=0.0,
    )
    allowed_hosts: tuple[str, ...] | None = option(
        None,
        "Hosts that requests may name (*.example.org, * for all, addresses for IP addresses). "
        "Default: localhost,addresses on a loopback address, else all.",
        metavar="HOST,...",
    )
    cors: tuple[str, ...] = option(
        (),
        "Origins of web pages that may call the service (* for all).",
        metavar="ORIGIN,...",
    )
    log_format: Literal["text", "json"] = option(
        "text", "Format of the access log.", choices=("text", "json")
    )
    normalize: bool = option(
        True, "Return vectors as the model makes them, not L2-normalized.", flag="--no-normalize"
    )
    metrics_open: bool = option(False, "Serve /metrics without a key.")

    def __post_init__(self) -> None:
        """ValueError for numbers out of range."""
        check_fields(self)
        if self.port >= 1 << 16:
            raise ArgumentError("port", f"should be a number from 0 to 65535, not {self.port}.")
