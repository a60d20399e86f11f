"""A text becomes tokens: added tokens are found in it, and the rest is split into pieces.

Neither basic splitting nor WordPiece looks across white space, so a text may be split into *chunks*
there, and the tokens of each chunk be remembered. That is what makes pure Python fast: most chunks
of most texts were seen before.

Next file: batch_rows.py.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple, TypeVar

from minibert.tokenization.added import AddedToken, TokenFinder
from minibert.tokenization.basic import BasicTokenizer
from minibert.tokenization.unicode import WHITE_SPACE
from minibert.tokenization.wordpiece import WordPiece

T = TypeVar("T")

# str.split() would also split at \x0b \x0c \x1c-\x1f \x85, which basic splitting drops
CHUNK = re.compile(f"[^{WHITE_SPACE}]+")


class Token(NamedTuple):
    """A token of a text.

    Args:
        id: Its id.
        start: First character in the text.
        end: The character after its last one.
        word: Index of its word in the text. -1 for tokens that are not of the text.
    """

    id: int
    start: int = 0
    end: int = 0
    word: int = -1


class ChunkCache(dict[str, T]):
    """Remembers the results of a function of a chunk of text. Cleared when it is full.

    A `dict` that calls the function for a missing key, so that a hit runs no Python code at all.
    Thread-safe: every step is one atomic operation of `dict`, and two threads that miss the same
    chunk store the same value.

    >>> lengths = ChunkCache(len)
    >>> lengths["abc"], dict(lengths)
    (3, {'abc': 3})
    """

    MAX_ENTRIES = 1 << 17  # about 30 MB
    MAX_CHUNK = 100  # characters; longer chunks are seldom seen twice

    def __init__(self, compute: Callable[[str], T]) -> None:
        super().__init__()
        self._compute = compute

    def __missing__(self, chunk: str) -> T:
        value = self._compute(chunk)
        if len(chunk) <= self.MAX_CHUNK:
            if len(self) >= self.MAX_ENTRIES:
                self.clear()
            self[chunk] = value
        return value


class Pipeline:
    """Turns texts into tokens.

    >>> wordpiece = WordPiece({"[UNK]": 0, "paint": 1, "##ing": 2})
    >>> added = {"[X]": AddedToken("[X]", special=True)}
    >>> pipeline = Pipeline(BasicTokenizer(), wordpiece, added, {"[X]": 3})
    >>> pipeline.ids(["Painting [X]", "?"])
    [[1, 2, 3], [0]]
    >>> [(token.start, token.end, token.word) for token in pipeline.tokens("Painting [X]")]
    [(0, 5, 0), (5, 8, 0), (9, 12, 1)]

    Args:
        basic: Splits a text into words.
        wordpiece: Splits a word into pieces.
        added: The added tokens by their content.
        added_ids: Their ids by their content.
    """

    LONG = 10_000
    """Characters of a long text, of which only the beginning is tokenized if that is enough."""

    def __init__(
        self,
        basic: BasicTokenizer,
        wordpiece: WordPiece,
        added: Mapping[str, AddedToken],
        added_ids: Mapping[str, int],
    ) -> None:
        self.basic = basic
        self.wordpiece = wordpiece
        self._added_ids = added_ids
        self.ids_of_chunk: ChunkCache[tuple[int, ...]] = ChunkCache(self._chunk_ids)
        self._tokens_of_chunk: ChunkCache[list[Token]] = ChunkCache(
            lambda chunk: self._split(*self.basic.normalize(chunk))
        )
        self._in_text = TokenFinder(
            {content: token for content, token in added.items() if not token.normalized}
        )
        self.normalized_contents = {
            content: basic.normalize(content)[0]
            for content, token in added.items()
            if token.normalized
        }
        # If two tokens are normalized alike, the first is found: it is written over the last.
        self._in_normalized = TokenFinder(
            {text: added[content] for content, text in reversed(self.normalized_contents.items())}
        )
        self._longest_added = max(map(len, added), default=0)

    # ---- ids alone, the fast way

    def ids(self, texts: Iterable[str]) -> list[list[int]]:
        """Return the ids of each text, without special tokens around them.

        All texts pass through this loop. In printable text the only white space is " ", so
        `str.split` finds the chunks, and a chunk that was seen before takes one look-up.
        """
        chunk_ids = self.ids_of_chunk.__getitem__
        find_added = self._in_text.pattern.search
        # with tokens to find in the normalized text, chunks cannot be looked at alone
        is_plain = not self._in_normalized.tokens
        rows = []
        for text in texts:
            row: list[int] = []
            if is_plain and not find_added(text):
                if text.isprintable():
                    chunks = text.split()
                else:
                    chunks = CHUNK.findall(text)
                for ids in map(chunk_ids, chunks):
                    row += ids
            else:
                row += [token.id for token in self.tokens(text)]
            rows.append(row)
        return rows

    def ids_of_words(self, texts: Iterable[Sequence[str]]) -> list[list[int]]:
        """Return the ids of each text that is a list of words."""
        return [list(chain.from_iterable(self.ids(words))) for words in texts]

    def _chunk_ids(self, chunk: str) -> tuple[int, ...]:
        vocabulary = self.wordpiece.vocabulary
        pieces = self.wordpiece.pieces
        ids = [vocabulary[piece] for word in self.basic.words(chunk) for piece in pieces(word)]
        return tuple(ids)

    # ---- tokens with their places

    def tokens(self, text: str | Sequence[str]) -> list[Token]:
        """Return the tokens of a text.

        Args:
            text: A text, or a list of words. For words, `start` and `end` count within the word.
        """
        tokens: list[Token] = []
        if not isinstance(text, str):
            for index, word in enumerate(text):
                tokens += [token._replace(word=index) for token in self.tokens(word)]
            return tokens
        words = 0
        for offset, part in self._parts(text):
            if offset or words:
                part = [
                    Token(number, start + offset, end + offset, words + word)
                    for number, start, end, word in part
                ]
            tokens += part
            if part:
                words = part[-1].word + 1
        return tokens

    def _parts(self, text: str) -> Iterator[tuple[int, Sequence[Token]]]:
        """Split a text at added tokens and white space.

        Yields:
            (offset, tokens): where the part begins, and its tokens with their words counted from 0
            and their places from the offset.
        """
        for start, end, added in self._in_text.split(text):
            if added:
                yield start, [Token(self._added_ids[added.content], 0, end - start, 0)]
            elif self._in_normalized.tokens:
                for tokens in self._normalized_parts(text[start:end]):
                    yield start, tokens
            else:
                for chunk in CHUNK.finditer(text, start, end):
                    yield chunk.start(), self._tokens_of_chunk[chunk[0]]

    def _normalized_parts(self, text: str) -> Iterator[list[Token]]:
        """Yield the tokens of each part of a text, split at added tokens in its normalized form."""
        normalized, positions = self.basic.normalize(text)
        for start, end, added in self._in_normalized.split(normalized):
            if added:
                token_id = self._added_ids[added.content]
                yield [Token(token_id, positions[start], positions[end - 1] + 1, 0)]
            else:
                yield self._split(normalized[start:end], positions[start:end])

    def _split(self, normalized: str, positions: Sequence[int]) -> list[Token]:
        """Split a normalized text, or a part of it, into tokens. `positions` as of `normalize`."""
        vocabulary = self.wordpiece.vocabulary
        tokens = []
        for index, (start, end) in enumerate(self.basic.split(normalized)):
            for piece, first, last in self.wordpiece.spans(normalized[start:end]):
                begin = positions[start + first]
                after = positions[start + last - 1] + 1
                tokens.append(Token(vocabulary[piece], begin, after, index))
        return tokens

    # ---- long texts that are truncated

    def beginnings(self, columns: list[list[str]], room: int, strategy: str) -> list[list[str]]:
        """Cut very long texts to a beginning that fills a row, so that the rest is not tokenized.

        Args:
            columns: The first texts, and the second ones if there are any.
            room: Tokens of a row besides its special tokens.
            strategy: How rows are truncated.
        """
        if len(columns) > 1 and (strategy != "longest_first" or room % 2):
            return columns  # which text is the longer one matters then
        return [[self._beginning(text, room) for text in texts] for texts in columns]

    def _beginning(self, text: str, count: int) -> str:
        """Return a beginning of a long text whose first `count` tokens are those of the text.

        Wherever a beginning ends, it has the tokens of the whole text except for its last word and
        for parts of an added token. If tokens are looked for in normalized text, which may be of
        any length, the whole text is returned.
        """
        size = self.LONG
        while size < len(text) and not self._in_normalized.tokens:
            tokens = self.tokens(text[:size])
            safe_end = size - self._longest_added
            safe = [token.word < tokens[-1].word and token.end <= safe_end for token in tokens]
            if sum(safe) >= count:
                return text[:size]
            size *= 8
        return text
