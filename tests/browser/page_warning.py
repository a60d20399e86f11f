"""What the page warns of, computed in Python: a text whose tokens are single characters.

A page without a live model has no vocabulary, so it looks at the pieces of the text alone.
`minibert.tokenization.coverage` decides for commands, and knows the vocabulary.
"""

from __future__ import annotations

import unicodedata
from collections import Counter

from minibert import BertTokenizer
from minibert.tokenization.coverage import MIN_PIECES

_SCRIPT_NAMES = {
    "CJK": "Chinese",
    "HIRAGANA": "Japanese",
    "KATAKANA": "Japanese",
}


def page_warning(tokenizer: BertTokenizer, text: str) -> str:
    """Return a warning if most of a text becomes single characters or unknown tokens, else "".

    The thresholds are three quarters for single characters, because half of the pieces of ordinary
    Korean are single syllables, and one half for unknown tokens. Only words with characters beyond
    ASCII count: every vocabulary splits numbers and codes into small pieces.
    """
    special_tokens = set(tokenizer.all_special_tokens) - {tokenizer.unk_token}
    words = " ".join(word for word in text.split() if not word.isascii())
    # the words stand for many texts, so their length alone is no reason to warn
    tokens = tokenizer(words, add_special_tokens=False, verbose=False).tokens()
    pieces = [token for token in tokens if token not in special_tokens]
    unknown = pieces.count(tokenizer.unk_token)
    if 2 * unknown > len(pieces):
        return (
            f"{unknown} of {len(pieces)} pieces are {tokenizer.unk_token}: this model's vocabulary "
            "does not know these characters."
        )
    bare = [piece.removeprefix("##") for piece in pieces]
    letters = sum(len(piece) == 1 and piece.isalpha() for piece in bare)
    if len(pieces) < MIN_PIECES or 4 * letters <= 3 * len(pieces):
        return ""
    return (
        f"{letters} of {len(pieces)} pieces are single letters: this model's vocabulary knows no "
        f"{_most_common_script(text)} words."
    )


def _most_common_script(text: str) -> str:
    """Return the script of most characters beyond ASCII, by the first word of their names."""
    names = [unicodedata.name(char, "?") for char in text if not char.isascii()]
    script, _ = Counter(name.split()[0] for name in names).most_common(1)[0]
    return _SCRIPT_NAMES.get(script, script.capitalize())
