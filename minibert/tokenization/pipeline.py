"""A text to tokens: added tokens are found in it, and what lies between them is split into words and pieces.

Nothing in basic splitting or WordPiece looks across white space, so a text may be split into *chunks* there and each
chunk remembered. That is what makes pure Python fast: most chunks of most texts were seen before.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple, TypeVar

from minibert.tokenization.added import AddedToken, TokenFinder
from minibert.tokenization.basic import BasicTokenizer, split_words
from minibert.tokenization.unicode import WHITE_SPACE
from minibert.tokenization.wordpiece import WordPiece

T = TypeVar("T")
CHUNK = re.compile(
    f"[^{WHITE_SPACE}]+"
)  # str.split() would also split where BERT drops: \x0b \x0c \x1c-\x1f \x85


class Token(NamedTuple):
    """A token: its id, where it lies in the text `[start, end)`, and the number of its word."""

    id: int
    start: int = 0
    end: int = 0
    word: int = -1  # for what was added to the text


class ChunkCache(dict[str, T]):
    """Remembers what a function gave for a chunk of text; emptied when it is full.

    A `dict` whose misses call the function, so that a hit costs no Python code at all. Safe across threads: every
    step is one atomic operation of `dict`, and two threads that miss the same chunk store the same value.

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
    """Puts the steps together.

    >>> wordpiece = WordPiece({"[UNK]": 0, "paint": 1, "##ing": 2})
    >>> pipeline = Pipeline(BasicTokenizer(), wordpiece, {"[X]": AddedToken("[X]", special=True)}, {"[X]": 3})
    >>> pipeline.ids(["Painting [X]", "?"])
    [[1, 2, 3], [0]]
    >>> [(token.start, token.end, token.word) for token in pipeline.tokens("Painting [X]")]
    [(0, 5, 0), (5, 8, 0), (9, 12, 1)]
    """

    LONG = 10_000  # characters

    def __init__(
        self,
        basic: BasicTokenizer,
        wordpiece: WordPiece,
        added: Mapping[str, AddedToken],
        added_ids: Mapping[str, int],
    ) -> None:
        self.basic, self.wordpiece, self._added_ids = basic, wordpiece, added_ids
        self.ids_of_chunk = ChunkCache(self._ids)
        self._tokens_of_chunk = ChunkCache(lambda chunk: self._tokens(*basic.normalise(chunk)))
        self._in_text = TokenFinder(
            {text: token for text, token in added.items() if not token.normalized}
        )
        self.normalised = {
            text: basic.normalise(text)[0] for text, token in added.items() if token.normalized
        }
        # of two tokens that are normalised alike the first counts, hence the last one first
        self._in_normalised = TokenFinder(
            {text: added[name] for name, text in reversed(self.normalised.items())}
        )
        self._longest_added = max(map(len, added), default=0)

    def ids(self, texts: Iterable[str]) -> list[list[int]]:
        """The ids of each text, without special tokens around it. All texts go through here, hence the care.

        In printable text the only white space is " ", so `str.split` finds the chunks; a chunk that was seen before
        costs one look-up.
        """
        ids_of_chunk, added_token_in = self.ids_of_chunk.__getitem__, self._in_text.pattern.search
        all_at_once = bool(self._in_normalised.tokens)
        rows = []
        for text in texts:
            row: list[int] = []
            if all_at_once or added_token_in(text):
                row += [token.id for token in self.tokens(text)]
            else:
                for ids in map(
                    ids_of_chunk, text.split() if text.isprintable() else CHUNK.findall(text)
                ):
                    row += ids
            rows.append(row)
        return rows

    def ids_of_words(self, texts: Iterable[Sequence[str]]) -> list[list[int]]:
        """The ids of each text that is a list of words."""
        return [list(chain.from_iterable(self.ids(words))) for words in texts]

    def tokens(self, text: str | Sequence[str]) -> list[Token]:
        """The tokens of a text; of one that is a list of words each with its number and its place in its word."""
        if not isinstance(text, str):
            return [
                token._replace(word=number)
                for number, word in enumerate(text)
                for token in self.tokens(word)
            ]
        tokens: list[Token] = []
        words = 0
        for at, group in self._groups(text):
            tokens += [
                Token(number, start + at, end + at, words + word)
                for number, start, end, word in group
            ]
            words += group[-1].word + 1 if group else 0
        return tokens

    def beginnings(self, columns: list[list[str]], room: int, strategy: str) -> list[list[str]]:
        """The part of very long texts that a row can hold, so that 100 MB need not be tokenized for 16 tokens."""
        if len(columns) > 1 and (strategy != "longest_first" or room % 2):
            return columns  # it matters then which text is the longer one
        return [[self._beginning(text, room) for text in texts] for texts in columns]

    def _beginning(self, text: str, count: int) -> str:
        """The beginning of a long text that holds its first `count` tokens, as far as can be told without the rest.

        A beginning that ends anywhere has the tokens of the whole text but for its last word, and for what could be
        part of an added token. (Where those are looked for in normalised text, whatever its length, nothing is saved.)
        """
        size = self.LONG
        while size < len(text) and not self._in_normalised.tokens:
            tokens = self.tokens(text[:size])
            safe = size - self._longest_added
            if sum(token.word < tokens[-1].word and token.end <= safe for token in tokens) >= count:
                return text[:size]
            size *= 8
        return text

    def _groups(self, text: str) -> Iterator[tuple[int, Sequence[Token]]]:
        """The parts of a text that stand for themselves, and where: added tokens, and the chunks between them."""
        for start, end, added in self._in_text.split(text):
            if added:
                yield start, [Token(self._added_ids[added.content], 0, end - start, 0)]
            elif not self._in_normalised.tokens:
                for chunk in CHUNK.finditer(text, start, end):
                    yield chunk.start(), self._tokens_of_chunk[chunk[0]]
            else:
                normalised, positions = self.basic.normalise(text[start:end])
                for first, last, token in self._in_normalised.split(normalised):
                    if token:
                        number = self._added_ids[token.content]
                        yield start, [Token(number, positions[first], positions[last - 1] + 1, 0)]
                    else:
                        yield start, self._tokens(normalised[first:last], positions[first:last])

    def _ids(self, chunk: str) -> tuple[int, ...]:
        vocabulary = self.wordpiece.vocabulary
        return tuple(
            [
                vocabulary[piece]
                for word in self.basic.words(chunk)
                for piece in self.wordpiece.pieces(word)
            ]
        )

    def _tokens(self, normalised: str, positions: Sequence[int]) -> list[Token]:
        """The tokens of what `normalise` gave, or of a part of it, its words counted from 0."""
        vocabulary = self.wordpiece.vocabulary
        return [
            Token(
                vocabulary[piece], positions[start + first], positions[start + last - 1] + 1, number
            )
            for number, (start, end) in enumerate(split_words(normalised))
            for piece, first, last in self.wordpiece.places(normalised[start:end])
        ]
