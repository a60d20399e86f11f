"""Added tokens: special ones such as "[MASK]", and others that a user adds to a vocabulary.

They are not spelled by pieces: they are looked up in the text before anything else is done to it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from minibert.tokenization.unicode import LETTERLIKE, WHITE_SPACE

SPACES = (
    WHITE_SPACE + "\x0b\x0c\x85"
)  # beside added tokens and at a vocabulary line's end; str.strip() takes more
_SPACES = re.compile(f"[{SPACES}]*")


@dataclass(frozen=True)
class AddedToken:
    """A token that is looked up in the text as it stands instead of being spelled by pieces.

    Args:
        content: the token itself.
        single_word: only where no letter or digit touches it.
        lstrip: take white space on its left with it.
        rstrip: take white space on its right with it.
        normalized: look for it in the normalised text; None does so unless it is special.
        special: left out by `decode(..., skip_special_tokens=True)`.
    """

    content: str
    single_word: bool = False
    lstrip: bool = False
    rstrip: bool = False
    normalized: bool | None = None
    special: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "_given", self.normalized)
        if self.normalized is None:
            object.__setattr__(self, "normalized", not self.special)

    def as_special(self) -> AddedToken:
        """The same as a special token, looked for in the text as it stands unless somebody said otherwise."""
        return replace(self, special=True, normalized=vars(self)["_given"])

    def __str__(self) -> str:
        return self.content

    @classmethod
    def of(cls, value: Any, *, special: bool = False) -> AddedToken:
        """A token as people and files write it: a string, an object with its flags, or an `AddedToken`."""
        if isinstance(value, AddedToken):
            return value.as_special() if special else value
        flags: Any = {"content": value} if isinstance(value, str) else value
        if not isinstance(flags, Mapping) or not isinstance(flags.get("content"), str):
            raise ValueError(
                f"A token is a string or an object with 'content', but got {value!r:.80}."
            )
        known = {field.name: flags[field.name] for field in fields(cls) if field.name in flags}
        return cls(**{"special": special, **known})


class TokenFinder:
    """Finds the texts that stand for tokens, `tokens`: the leftmost, and of those that begin there the longest."""

    def __init__(self, tokens: Mapping[str, AddedToken]) -> None:
        self.tokens = {text: token for text, token in tokens.items() if text}
        longest_first = sorted(self.tokens, key=len, reverse=True)
        self.pattern = re.compile(
            "|".join(map(re.escape, longest_first)) or "(?!)"
        )  # (?!) matches nowhere

    def split(self, text: str) -> Iterator[tuple[int, int, AddedToken | None]]:
        """The parts of a text as (start, end, token), token None for what lies between the tokens.

        >>> finder = TokenFinder({"[X]": AddedToken("[X]", lstrip=True)})
        >>> [(start, end, str(token)) for start, end, token in finder.split("a [X]b")]
        [(0, 1, 'None'), (1, 5, '[X]'), (5, 6, 'None')]
        """
        done = 0
        for match in self.pattern.finditer(text):
            token = self.tokens[match[0]]
            start, end = max(match.start(), done), match.end()
            if end <= done:  # white space that the token before has taken with it
                continue
            if token.single_word and (_in_word(text, start - 1) or _in_word(text, end)):
                continue
            if token.lstrip:
                while start > done and text[start - 1] in SPACES:
                    start -= 1
            if token.rstrip:
                end = _SPACES.match(text, end).end()  # type: ignore[union-attr]  # it matches nothing at all, too
            if done < start:
                yield done, start, None
            yield start, end, token
            done = end
        if done < len(text):
            yield done, len(text), None


def _in_word(text: str, position: int) -> bool:
    """Whether the character at a position (which may be outside) makes a longer word of the token beside it."""
    if not 0 <= position < len(text):
        return False
    category = unicodedata.category(text[position])
    return (
        category[0] in "LM"
        or category in ("Nd", "Nl", "Pc")
        or LETTERLIKE.match(text[position]) is not None
    )
