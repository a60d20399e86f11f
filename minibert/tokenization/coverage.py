"""Warn if a vocabulary does not cover the script of a text.

A model learns next to nothing from a text whose tokens are single characters.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING

from minibert.checkpoints.source import BUNDLED_MODELS
from minibert.tokenization.unicode import CJK
from minibert.util.checks import warn

if TYPE_CHECKING:
    from minibert.tokenization.tokenizer import BertTokenizer

MIN_PIECES = 4  # one or two characters prove nothing
# Words of several letters, from which on a vocabulary has a script. That of KcBERT has 81 Latin
# ones, abbreviations most of them: of the letters of 393 English sentences of STS-B, 77 to 100% are
# in its fragments. BERT's English vocabulary has 21,722 and reads 0 to 57% in fragments.
MIN_WORDS = 100
SAMPLE_TEXTS = 5000
CHECKED_TEXTS = 20  # of those that cannot be read, for what helps
_HANGUL = re.compile("[\u1100-\u11ff\u3130-\u318f\uac00-\ud7af]")


def _script_of(token: str) -> str:
    """The script of a token of letters by the first word of their names, "" of all others.

    Ideographs are words whatever their number is, so they have none.
    """
    piece = token.removeprefix("##")
    if piece.isascii():
        return "LATIN" if piece.isalpha() else ""
    if CJK.search(piece) or not any(map(str.isalpha, piece)):
        return ""
    return unicodedata.name(piece[0], "?").split()[0]


def _is_word(token: str) -> bool:
    """Whether a token has several letters and begins a word."""
    return len(token) > 1 and not token.startswith("##")


class Coverage:
    """Which texts a vocabulary cannot read, as their token ids show it.

    Most tokens of such a text are unknown, or fragments of a script of which the vocabulary has no
    words: single letters, and pieces that continue a word. The vectors and labels of such texts
    mean nothing. Ideographs are words. Digits and punctuation do not count.

    Args:
        tokenizer: The tokenizer with the vocabulary.
    """

    def __init__(self, tokenizer: BertTokenizer) -> None:
        self.tokenizer = tokenizer
        self._unknown = tokenizer.unk_token_id
        latin = (token for token in tokenizer.get_vocab() if _script_of(token) == "LATIN")
        words = list(islice(filter(_is_word, latin), MIN_WORDS))
        # most texts are ASCII, and most vocabularies have so many words: the rest is not looked at
        self._knows_latin = len(words) == MIN_WORDS or "LATIN" in self._known_scripts

    @cached_property
    def _scripts(self) -> dict[int, str]:
        """The script of each token of letters, by its id."""
        vocabulary = self.tokenizer.get_vocab().items()
        scripts = {token_id: _script_of(token) for token, token_id in vocabulary}
        return {token_id: script for token_id, script in scripts.items() if script}

    @cached_property
    def _known_scripts(self) -> set[str]:
        """The scripts of which the vocabulary has words: many, or more than of any other."""
        vocabulary = self.tokenizer.get_vocab()
        words = [token_id for token, token_id in vocabulary.items() if _is_word(token)]
        counts = Counter(self._scripts[word] for word in words if word in self._scripts)
        known = {script for script, count in counts.items() if count >= MIN_WORDS}
        return known.union(script for script, _ in counts.most_common(1))

    @cached_property
    def _fragments(self) -> set[int]:
        """The single letters and the continuing pieces of all other scripts."""
        vocabulary = self.tokenizer.get_vocab()
        others = {
            token_id
            for token_id, script in self._scripts.items()
            if script not in self._known_scripts
        }
        return others.difference(vocabulary[token] for token in filter(_is_word, vocabulary))

    @cached_property
    def _ignored(self) -> set[int]:
        """The special tokens, and the pieces without a letter, but not the unknown token."""
        vocabulary = self.tokenizer.get_vocab().items()
        ignored = {token_id for token, token_id in vocabulary if not any(map(str.isalpha, token))}
        return ignored.union(self.tokenizer.all_special_ids) - {self._unknown}

    def surely_reads(self, text: str) -> bool:
        """Whether a text can be read, as far as it shows without its tokens.

        Args:
            text: The text.
        """
        return self._knows_latin and text.isascii()

    def can_read(self, ids: Sequence[int]) -> bool:
        """Whether most tokens of a text are words or parts of words.

        Args:
            ids: Its token ids. Special tokens do not count.
        """
        pieces = [token_id for token_id in ids if token_id not in self._ignored]
        unknown = pieces.count(self._unknown)
        if 2 * unknown > len(pieces):
            return False
        # three quarters, because half of the pieces of ordinary Korean are single syllables
        fragments = sum(token_id in self._fragments for token_id in pieces)
        return len(pieces) < MIN_PIECES or 4 * (unknown + fragments) <= 3 * len(pieces)

    def warning(
        self, unread: Sequence[str], count: int, total: int, is_beginning: bool = False
    ) -> str:
        """A sentence on texts that cannot be read, and on what helps.

        Args:
            unread: Such texts, all of them or some.
            count: How many there are.
            total: The number of all texts.
            is_beginning: Whether other texts follow.
        """
        first = "the first " if is_beginning else ""
        texts = f"{count:,} of {first}{total:,} texts"
        sentence = f"this model's vocabulary cannot read {texts}: most of their tokens are "
        sentence += f"{self.tokenizer.unk_token}, single letters or fragments."
        if total == 1:
            sentence = sentence.replace("1 of 1 texts", "the text").replace("their", "its")
        sample = unread[:CHECKED_TEXTS]
        composed = [unicodedata.normalize("NFC", text) for text in sample]
        rows = self.tokenizer(composed, add_special_tokens=False, verbose=False)["input_ids"]
        if composed != list(sample) and any(map(self.can_read, rows)):
            return f'{sentence} It can in the form NFC: unicodedata.normalize("NFC", text).'
        if any(map(_HANGUL.search, sample)) and "HANGUL" not in self._known_scripts:
            bundled = "minibert-ko"
        elif all(map(str.isascii, sample)) and not self._knows_latin:
            bundled = "minibert-en"
        else:
            bundled = ""
        if bundled and (BUNDLED_MODELS / bundled).is_dir():
            return f"{sentence} Try {bundled}."
        return f"{sentence} Another model may know their characters."


def unread_warning(tokenizer: BertTokenizer, texts: Sequence[str]) -> str:
    """Return a warning of texts that a vocabulary cannot read, or "" if it can read all.

    Args:
        tokenizer: The tokenizer with the vocabulary.
        texts: All texts. Of many, `SAMPLE_TEXTS` are looked at, evenly from first to last.

    >>> from minibert import BertTokenizer
    >>> words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "hello", "##n"]
    >>> unread_warning(BertTokenizer(words), ["hello", "안녕", "hello hello 안녕"])[:60]
    "this model's vocabulary cannot read 1 of 3 texts: most of th"
    """
    step = max(1, -(-len(texts) // SAMPLE_TEXTS))
    coverage = Coverage(tokenizer)
    sample = [text for text in texts[::step] if not coverage.surely_reads(text)]
    if not sample:
        return ""
    rows = tokenizer(sample, add_special_tokens=False, verbose=False)["input_ids"]
    unread = [text for text, ids in zip(sample, rows, strict=True) if not coverage.can_read(ids)]
    if not unread:
        return ""
    return coverage.warning(unread, len(unread), len(texts[::step]))


def warn_of_coverage(tokenizer: BertTokenizer, texts: Sequence[str]) -> bool:
    """Warn if a vocabulary cannot read some of the texts, and return whether it is so.

    Args:
        tokenizer: As in `unread_warning`.
        texts: As in `unread_warning`.
    """
    message = unread_warning(tokenizer, texts)
    if message:
        warn(message)
    return bool(message)
