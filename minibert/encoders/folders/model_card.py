"""Model cards that this program has written, which it may replace: a person's card stays."""

from __future__ import annotations

import hashlib
from pathlib import Path

CARD = "README.md"
EMBEDDER_FRONT = """---
library_name: sentence-transformers
"""
_MARK = "<!-- written by minibert, checksum "


def with_checksum(text: str) -> str:
    """A card with a last line that shows later whether someone has changed it."""
    return f"{text}\n{_MARK}{_digest(text)} -->\n"


def written_text(path: Path) -> str | None:
    """The text of a card that is as `with_checksum` has made it. None: it is not, or not there."""
    if not path.is_file():
        return None
    text, mark, digest = path.read_text(encoding="utf-8", errors="replace").rpartition(f"\n{_MARK}")
    return text if mark and digest == f"{_digest(text)} -->\n" else None


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
