"""All of Unicode in blocks, for tests of every code point."""

from __future__ import annotations

import sys
from collections.abc import Iterator

BLOCK = 512
# Planes 4 to 13, to which Unicode assigns no characters.
UNASSIGNED = range(0x40000, 0xE0000)


def blocks(step: int = 1) -> Iterator[int]:
    """Yield the first code point of each block, but only every `step`-th unassigned block."""
    for number, first in enumerate(range(0, sys.maxunicode + 1, BLOCK)):
        if first not in UNASSIGNED or number % step == 0:
            yield first


def characters(first: int) -> list[str]:
    """Return the characters of a block, without surrogates."""
    return [chr(code) for code in range(first, first + BLOCK) if not 0xD800 <= code <= 0xDFFF]
