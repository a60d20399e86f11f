"""All of Unicode in blocks, for tests of every code point."""

from __future__ import annotations

import sys
from collections.abc import Iterator

BLOCK = 512
# Thousands of neighbors of one kind, without accents, marks, spaces or punctuation.
UNIFORM = (
    range(0x3400, 0xA000),  # ideographs
    range(0xAC00, 0xD600),  # Hangul syllables
    range(0xE000, 0xF800),  # for private use
    range(0x17000, 0x1AE00),  # Tangut
    range(0x20000, 0x2F800),  # ideographs
    range(0x30000, 0xE0000),  # ideographs, then planes without characters
    range(0xE0200, 0x110000),  # for private use
)


def blocks(step: int = 1) -> Iterator[int]:
    """Yield the first code point of each block, but only every `step`-th of uniform ones."""
    for number, first in enumerate(range(0, sys.maxunicode + 1, BLOCK)):
        if number % step == 0 or not any(first in characters for characters in UNIFORM):
            yield first


def characters(first: int) -> list[str]:
    """Return the characters of a block, without surrogates."""
    return [chr(code) for code in range(first, first + BLOCK) if not 0xD800 <= code <= 0xDFFF]
