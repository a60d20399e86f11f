"""The model and the tokenizer of the page in Node.js, for tests that need no browser."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parent / "page" / "lines.js"


class NodePage:
    """A process that answers questions, which tests/page/lines.js describes."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def ask(self, **question: Any) -> dict[str, Any]:
        """Return the answer to a question."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer


@pytest.fixture(scope="module")
def node_page() -> Iterator[NodePage]:
    """The model of the page in Node.js."""
    node = shutil.which("node")
    if node is None:
        pytest.fail("needs Node.js 20 or newer: https://nodejs.org, or apt-get install nodejs")
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([node, str(SCRIPT)], encoding="utf-8", **pipes) as process:
        yield NodePage(process)
        assert process.stdin is not None
        process.stdin.close()
