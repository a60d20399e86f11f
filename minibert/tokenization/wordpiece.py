"""WordPiece: a word becomes the longest pieces that the vocabulary knows, from left to right.

```
words       "hello" "," "paintings" "!"
pieces      "hello" "," "painting" "##s" "!"      pieces inside a word begin with ##
```

The algorithm is google-research/bert's (tokenization.py, WordpieceTokenizer), after Wu et al. 2016, section 4.1.
"""

from collections.abc import Mapping

CONTINUED = "##"  # what pieces inside a word begin with
MAX_WORD = 100  # characters; a longer word is unknown


class WordPiece:
    """Splits words into pieces of a vocabulary.

    Args:
        vocabulary: piece -> id; pieces inside a word begin with `##`.
        unk_token: the piece that stands for a word which the others cannot spell.
    """

    def __init__(self, vocabulary: Mapping[str, int], unk_token: str = "[UNK]") -> None:
        self.vocabulary = vocabulary
        self.unk_token = unk_token
        self._longest = max(len(CONTINUED) + 1, *map(len, vocabulary))

    def pieces(self, word: str) -> list[str]:
        """The pieces of a word; `unk_token` alone when no pieces spell it.

        >>> model = WordPiece({"[UNK]": 0, "em": 1, "##bed": 2, "##ding": 3})
        >>> model.pieces("embedding"), model.pieces("embeds")
        (['em', '##bed', '##ding'], ['[UNK]'])
        """
        if len(word) > MAX_WORD:
            return [self.unk_token]
        vocabulary, longest = self.vocabulary, self._longest
        found = []
        rest, prefix = (
            word,
            0,
        )  # what is left of the word, and how many characters "##" puts before it
        while rest not in vocabulary:
            piece = rest[:longest]
            while piece not in vocabulary:
                piece = piece[:-1]
                if len(piece) <= prefix:
                    return [self.unk_token]
            found.append(piece)
            rest, prefix = CONTINUED + rest[len(piece) :], len(CONTINUED)
        return [*found, rest]

    def places(self, word: str) -> list[tuple[str, int, int]]:
        """The same pieces, and where in the word they lie, `[start, end)`.

        >>> WordPiece({"[UNK]": 0, "em": 1, "##bed": 2, "##ding": 3}).places("embedding")
        [('em', 0, 2), ('##bed', 2, 5), ('##ding', 5, 9)]
        """
        pieces = self.pieces(word)
        if pieces == [self.unk_token]:
            return [(self.unk_token, 0, len(word))]
        places = []
        end = 0
        for piece in pieces:
            start, end = end, end + len(piece) - (len(CONTINUED) if end else 0)
            places.append((piece, start, end))
        return places
