"""WordPiece: a word becomes the longest pieces in the vocabulary, from left to right.

```
words       "i" "love" "embeddings"               the text, split at spaces and punctuation
pieces      "i" "love" "em" "##bed" "##ding" "##s"
ids         1045 2293 7861 8270 4667 2015         vocabulary[piece], the row of its embedding
```

`##` marks a piece that continues a word. The model expects [CLS] before the pieces of a text and
[SEP] after them. Classifiers read the vector of [CLS]. In a batch, [PAD] fills shorter texts up.

The algorithm is that of google-research/bert (tokenization.py, WordpieceTokenizer), after
Wu et al. 2016, section 4.1. learning.py makes a vocabulary from text.

Next file: minibert/layouts.py. The rest of the tokenizer can be skipped; it begins with added.py.
"""

from collections.abc import Mapping

CONTINUED = "##"
"""The prefix of pieces inside a word."""

MAX_WORD = 100
"""Characters of the longest word that is split. A longer one is unknown."""


class WordPiece:
    """Splits words into pieces of a vocabulary.

    Args:
        vocabulary: Piece -> id. Pieces inside a word begin with `##`.
        unk_token: The token of a word that cannot be split into pieces.
        max_word: Characters of the longest word that is split.
    """

    def __init__(
        self,
        vocabulary: Mapping[str, int],
        unk_token: str = "[UNK]",
        max_word: int = MAX_WORD,
    ) -> None:
        self.vocabulary = vocabulary
        self.unk_token = unk_token
        self.max_word = max_word
        # No piece is longer. It is at least "##" and a character, so that a piece takes one off.
        self._longest = max(len(CONTINUED) + 1, *map(len, vocabulary))

    def pieces(self, word: str) -> list[str]:
        """Split a word into pieces.

        >>> model = WordPiece({"[UNK]": 0, "em": 1, "##bed": 2, "##ding": 3})
        >>> model.pieces("embedding"), model.pieces("embeds")
        (['em', '##bed', '##ding'], ['[UNK]'])

        Returns:
            The pieces, or `unk_token` alone if the pieces of the vocabulary do not spell the word.
        """
        if len(word) > self.max_word:
            return [self.unk_token]
        vocabulary = self.vocabulary
        longest = self._longest
        pieces = []
        rest = word
        prefix_length = 0  # characters of "##" before the rest of the word
        while rest not in vocabulary:
            piece = rest[:longest]
            while piece not in vocabulary:
                piece = piece[:-1]
                if len(piece) <= prefix_length:  # no character of the word is left
                    return [self.unk_token]
            pieces.append(piece)
            rest = CONTINUED + rest[len(piece) :]
            prefix_length = len(CONTINUED)
        pieces.append(rest)
        return pieces

    def spans(self, word: str) -> list[tuple[str, int, int]]:
        """Split a word into pieces with their spans in the word, `[start, end)`.

        >>> WordPiece({"[UNK]": 0, "em": 1, "##bed": 2, "##ding": 3}).spans("embedding")
        [('em', 0, 2), ('##bed', 2, 5), ('##ding', 5, 9)]
        """
        pieces = self.pieces(word)
        if len(pieces) == 1:  # the word, or the token of an unknown word
            return [(pieces[0], 0, len(word))]
        spans = []
        end = 0
        for piece in pieces:
            start = end
            end += len(piece)
            if start:
                end -= len(CONTINUED)  # "##" is not in the word
            spans.append((piece, start, end))
        return spans
