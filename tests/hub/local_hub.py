"""A local server that speaks the protocol of the Hugging Face Hub."""

from __future__ import annotations

import hashlib
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class LocalHub(ThreadingHTTPServer):
    """Serves folders as repositories, and records the requests.

    Every repository has the revision `main` and one commit.

    Attributes:
        repositories: Folders by the id of their repository.
        requests: Method and path of every request.
        page: The answer to every request, as of a network that asks for a login first.
    """

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.repositories: dict[str, Path] = {}
        self.requests: list[str] = []
        self.page: bytes | None = None

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: LocalHub
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:  # noqa: N802
        self._answer(with_body=False)

    def do_GET(self) -> None:  # noqa: N802
        self._answer(with_body=True)

    def _answer(self, with_body: bool) -> None:
        self.server.requests.append(f"{self.command} {self.path}")
        if self.server.page is not None:
            return self._send("text/html", self.server.page)
        if self.path.startswith("/api/models/"):
            return self._describe(self.path.removeprefix("/api/models/").partition("?")[0])
        # /owner/name/resolve/revision/file. The id of an official model has no owner.
        repository, _, rest = self.path.lstrip("/").partition("/resolve/")
        revision, _, filename = rest.partition("/")
        folder = self.server.repositories.get(repository)
        if folder is None:
            return self._error("RepoNotFound", "Repository not found")
        if revision not in ("main", COMMIT):
            return self._error("RevisionNotFound", "Invalid rev id")
        path = folder / filename
        if not path.is_file():
            return self._error("EntryNotFound", "Entry not found")
        self.send_response(200)
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header(
            "ETag", f'"{hashlib.sha256(f"{path}{path.stat().st_size}".encode()).hexdigest()}"'
        )
        self.send_header("Content-Length", str(path.stat().st_size))
        self.end_headers()
        if with_body:
            with path.open("rb") as file:
                while chunk := file.read(1 << 20):
                    self.wfile.write(chunk)

    def _describe(self, path: str) -> None:
        """Answer NAME/revision/REVISION with the commit, and NAME/tree/COMMIT with the files."""
        kind = "/tree/" if "/tree/" in path else "/revision/"
        repository, _, revision = path.partition(kind)
        folder = self.server.repositories.get(repository)
        if folder is None:
            return self._error("RepoNotFound", "Repository not found")
        if revision not in ("", "main", COMMIT):
            return self._error("RevisionNotFound", "Invalid rev id")
        files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
        content: Any = {"id": repository, "sha": COMMIT, "siblings": []}
        if kind == "/tree/":
            content = []
            for file in files:
                name = file.relative_to(folder).as_posix()
                oid = hashlib.sha1(f"{file}{file.stat().st_size}".encode()).hexdigest()
                content.append(
                    {"type": "file", "path": name, "size": file.stat().st_size, "oid": oid}
                )
        self._send("application/json", json.dumps(content).encode())

    def _send(self, kind: str, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _error(self, code: str, message: str) -> None:
        self.send_response(404)
        self.send_header("X-Error-Code", code)
        self.send_header("X-Error-Message", message)
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *arguments: object) -> None:
        pass
