"""Whether a vocabulary knows the script of a text: a text in single letters tells a model next to nothing."""

import unicodedata
import warnings
from collections import Counter
from collections.abc import Iterable

from minibert.checkpoints.source import BUNDLED_MODELS
from minibert.tokenization.tokenizer import BertTokenizer

MIN_PIECES = 4  # a text of one or two letters is no sign of anything
_NAMES = {"CJK": "Chinese", "HIRAGANA": "Japanese", "KATAKANA": "Japanese"}


def coverage_warning(tokenizer: BertTokenizer, text: str) -> str:
    """A sentence where a text falls into single letters (three in four) or unknown tokens (one in two); else nothing.

    Only words with letters beyond ASCII count: numbers and codes fall apart in every vocabulary. And half of the pieces
    of ordinary Korean are single syllables.

    >>> words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "hello", "ㅎ", "##ㅏ", "##ㄴ"]
    >>> tokenizer = BertTokenizer(words, do_lower_case=False)
    >>> coverage_warning(tokenizer, "hello")
    ''
    >>> coverage_warning(tokenizer, "ㅎㅏㄴ ㅎㅏㄴ")
    "6 of 6 pieces are single letters: this model's vocabulary knows no Hangul words."
    """
    special = set(tokenizer.all_special_tokens) - {tokenizer.unk_token}
    words = " ".join(word for word in text.split() if not word.isascii())
    tokens = tokenizer(
        words, add_special_tokens=False, verbose=False
    ).tokens()  # many words are not one text
    pieces = [piece for piece in tokens if piece not in special]
    unknown = pieces.count(tokenizer.unk_token)
    letters = sum(
        len(piece.removeprefix("##")) == 1 and piece.removeprefix("##").isalpha()
        for piece in pieces
    )
    if 2 * unknown > len(pieces):
        return (
            f"{unknown} of {len(pieces)} pieces are {tokenizer.unk_token}: this model's vocabulary does not know "
            "these characters."
        )
    if len(pieces) < MIN_PIECES or 4 * letters <= 3 * len(pieces):
        return ""
    scripts = Counter(unicodedata.name(char, "?").split()[0] for char in text if not char.isascii())
    script = scripts.most_common(1)[0][0]
    return (
        f"{letters} of {len(pieces)} pieces are single letters: this model's vocabulary knows no "
        f"{_NAMES.get(script, script.capitalize())} words."
    )


def warn_of_coverage(tokenizer: BertTokenizer, texts: Iterable[str]) -> None:
    """Warns of the first text whose script the vocabulary does not know."""
    for text in texts:
        if sentence := coverage_warning(tokenizer, text):
            korean = "Hangul" in sentence and (BUNDLED_MODELS / "minibert-ko").is_dir()
            return warnings.warn(
                f"{text!r:.40}: {sentence}{' Try minibert-ko.' if korean else ''}", stacklevel=3
            )
