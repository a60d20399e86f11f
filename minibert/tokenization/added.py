"""Added tokens: special ones such as "[MASK]", and others that a user adds to a vocabulary.

They are not split into pieces. They are looked up in the text before it is split.

Next file: vocabulary.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from minibert.tokenization.unicode import SPACES, is_word_character

_NOWHERE = "(?!)"  # a pattern without a match


@dataclass(frozen=True)
class AddedToken:
    """A token that is looked up in the text instead of being split into pieces.

    Args:
        content: The token itself.
        single_word: Match only where no letter or digit is next to it.
        lstrip: Also take the white space on its left.
        rstrip: Also take the white space on its right.
        normalized: Look for it in the normalized text. None does so unless it is special.
        special: Left out by `decode(..., skip_special_tokens=True)`.
    """

    content: str
    single_word: bool = False
    lstrip: bool = False
    rstrip: bool = False
    normalized: bool | None = None
    special: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "_normalized_argument", self.normalized)
        if self.normalized is None:
            object.__setattr__(self, "normalized", not self.special)

    def as_special(self) -> AddedToken:
        """Return this token as a special token.

        It is looked for in the original text, unless `normalized` was passed when it was made.
        """
        return replace(self, special=True, normalized=vars(self)["_normalized_argument"])

    def __str__(self) -> str:
        return self.content

    @classmethod
    def of(cls, value: Any, *, special: bool = False) -> AddedToken:
        """Make a token of a string, of an object with its flags as in files, or of a token.

        Args:
            value: The string, mapping or `AddedToken`, also that of transformers.
            special: Make it a special token.

        Returns:
            The token.

        Raises:
            ValueError: The value is none of these.
        """
        if isinstance(value, AddedToken):
            if special:
                return value.as_special()
            return value
        flags: Any = value
        if isinstance(value, str):
            flags = {"content": value}
        elif isinstance(getattr(value, "content", None), str):  # an AddedToken of the library
            flags = {f.name: getattr(value, f.name) for f in fields(cls) if hasattr(value, f.name)}
            flags["special"] = special or flags.get("special", False)
        if not isinstance(flags, Mapping) or not isinstance(flags.get("content"), str):
            raise ValueError(
                f"A token is a string or an object with 'content', but got {value!r:.80}."
            )
        arguments = {field.name: flags[field.name] for field in fields(cls) if field.name in flags}
        return cls(**{"special": special, **arguments})


class TokenFinder:
    """Finds added tokens in a text: the leftmost, and of several there the longest.

    Args:
        tokens: Text to look for -> the token that it stands for.
    """

    def __init__(self, tokens: Mapping[str, AddedToken]) -> None:
        self.tokens = {text: token for text, token in tokens.items() if text}
        longest_first = sorted(self.tokens, key=len, reverse=True)
        self.pattern = re.compile("|".join(map(re.escape, longest_first)) or _NOWHERE)

    def split(self, text: str) -> Iterator[tuple[int, int, AddedToken | None]]:
        """Split a text into tokens and what lies between them.

        >>> finder = TokenFinder({"[X]": AddedToken("[X]", lstrip=True)})
        >>> [(start, end, str(token)) for start, end, token in finder.split("a [X]b")]
        [(0, 1, 'None'), (1, 5, '[X]'), (5, 6, 'None')]

        Yields:
            (start, end, token), where token is None between the tokens.
        """
        done = 0
        for match in self.pattern.finditer(text):
            token = self.tokens[match[0]]
            start = max(match.start(), done)
            end = match.end()
            if end <= done:  # white space that the token before has taken
                continue
            if token.single_word and (_in_word(text, start - 1) or _in_word(text, end)):
                continue
            if token.lstrip:
                while start > done and text[start - 1] in SPACES:
                    start -= 1
            if token.rstrip:
                while end < len(text) and text[end] in SPACES:
                    end += 1
            if done < start:
                yield done, start, None
            yield start, end, token
            done = end
        if done < len(text):
            yield done, len(text), None


def _in_word(text: str, position: int) -> bool:
    """Whether the character at a position, which may be outside the text, belongs to a word."""
    return 0 <= position < len(text) and is_word_character(text[position])
