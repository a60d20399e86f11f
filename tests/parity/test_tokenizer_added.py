"""Added tokens are matched and decoded as in the tokenizers library, whatever their flags.

The random cases leave out the library's own faults, which `test_faults_of_the_library` shows.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings, strategies as st
from tokenizers import (
    AddedToken as TheirToken,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
)

from minibert.tokenization.added import AddedToken, TokenFinder
from minibert.tokenization.basic import BasicTokenizer
from minibert.tokenization.tokenizer import BertTokenizer
from minibert.tokenization.unicode import SPACES

pytestmark = pytest.mark.filterwarnings("ignore:.*can never be found")

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
VOCABULARY = [
    *SPECIAL,
    *"a b ##b ##a hello Hello é e x <x> 漢 안 녕 ##녕 ᄋ ##ᅡ ##ᆫ ! < foo bar ##bar one i ##o".split(),
]
PARTS = [
    *"a b ab A É e\u0301 é 漢 ! < > x <x> foo bar".split(),
    *"one One _ Σ ς İ 안 녕 안녕 Ⓐ 🄰 ß ##b ǆ 1 ﬁ [mask]".split(),
    *(
        "Foo Bar",
        "foo  !",
        " ",
        "  ",
        "\t",
        "\u3000",
        "\x0b",
        "\x00",
        "\x85",
        "\u200d",
        "\ufeff",
        "\u0301",
        "\u0345",
    ),
]
FLAGS = ("single_word", "lstrip", "rstrip", "normalized", "special")
OFFSETS = {"add_special_tokens": False, "return_offsets_mapping": True}

contents = st.lists(st.sampled_from(PARTS), min_size=1, max_size=3).map("".join)
tokens = st.builds(dict, content=contents, **dict.fromkeys(FLAGS, st.booleans()))
options = st.fixed_dictionaries(
    {
        "do_lower_case": st.booleans(),
        "strip_accents": st.sampled_from([None, True, False]),
        "tokenize_chinese_chars": st.booleans(),
    }
)


def both(added: Sequence[Mapping[str, Any]], **how: Any) -> tuple[BertTokenizer, Tokenizer]:
    """Both tokenizers with the same added tokens: minibert's and the library's."""
    theirs = Tokenizer(
        models.WordPiece(
            {word: number for number, word in enumerate(VOCABULARY)}, unk_token="[UNK]"
        )
    )
    lower, strip, ideographs = (
        how["do_lower_case"],
        how["strip_accents"],
        how["tokenize_chinese_chars"],
    )
    theirs.normalizer = normalizers.BertNormalizer(True, ideographs, strip, lower)
    theirs.pre_tokenizer, theirs.decoder = pre_tokenizers.BertPreTokenizer(), decoders.WordPiece()
    theirs.add_special_tokens(
        [TheirToken(token, special=True, normalized=False) for token in SPECIAL]
    )
    ours = BertTokenizer(VOCABULARY, **how)
    for flags in added:
        ours.add_tokens(AddedToken(**flags))
        (theirs.add_special_tokens if flags["special"] else theirs.add_tokens)(
            [TheirToken(**flags)]
        )
    return ours, theirs


@pytest.mark.parametrize("cases", [100, pytest.param(20_000, marks=pytest.mark.slow)])
def test_any_added_tokens(cases: int) -> None:
    @settings(
        max_examples=cases, deadline=None, suppress_health_check=[HealthCheck.filter_too_much]
    )
    @given(st.lists(tokens, min_size=1, max_size=3), options, st.data())
    def check(added: list[dict[str, Any]], how: dict[str, Any], data: st.DataObject) -> None:
        names, basic = [flags["content"] for flags in added], BasicTokenizer(**how)
        normalized = [basic.normalize(name)[0] for name in names]
        # faults that test_faults_of_the_library shows
        assume(all(normalized) and len(set(normalized)) == len(names))
        assume(not any(name[0] in SPACES for name in (*names, *normalized)))
        parts = st.sampled_from([*PARTS, *SPECIAL, *names * 9])
        text = "".join(data.draw(st.lists(parts, max_size=8)))
        ours, theirs = both(added, **how)
        reference, encoding = theirs.encode(text, add_special_tokens=False), ours(text, **OFFSETS)
        ids = reference.ids
        assert encoding["input_ids"] == ids == ours(text, add_special_tokens=False)["input_ids"]
        assert encoding["offset_mapping"] == reference.offsets
        assert encoding.word_ids() == reference.word_ids
        assert [token.strip(SPACES) for token in encoding.tokens()] == [
            token.strip(SPACES) for token in reference.tokens
        ]
        assert ours.decode(ids) == theirs.decode(ids, skip_special_tokens=False)
        if not any(flags["special"] and flags["normalized"] for flags in added):
            assert ours.decode(ids, skip_special_tokens=True) == theirs.decode(ids)
        assert ours.get_vocab() == theirs.get_vocab()

    check()


@pytest.mark.slow
def test_every_character_next_to_a_single_word_token() -> None:
    """Letters and digits of any version of Unicode make it part of a longer word."""
    theirs = Tokenizer(models.WordPiece({"[UNK]": 0}, unk_token="[UNK]"))
    theirs.add_tokens([TheirToken("<x>", single_word=True, normalized=False)])
    finder = TokenFinder({"<x>": AddedToken("<x>", single_word=True)})
    for first in range(0, sys.maxunicode + 1, 4096):
        chars = [chr(code) for code in range(first, first + 4096) if not 0xD800 <= code <= 0xDFFF]
        texts = [text for char in chars for text in (f"{char}<x>", f"<x>{char}")]
        expected = [1 in row.ids for row in theirs.encode_batch(texts)]
        assert [any(token for *_, token in finder.split(text)) for text in texts] == expected, hex(
            first
        )


def test_faults_of_the_library() -> None:
    """The random cases leave these out, because minibert does what a user would expect."""
    how = {"do_lower_case": True, "strip_accents": None, "tokenize_chinese_chars": True}

    def flagged(content: str, *names: str) -> dict[str, Any]:
        return {"content": content, **{name: name in names for name in FLAGS}}

    # white space that one token strips and the next token starts with is counted twice
    ours, theirs = both([flagged("\t", "rstrip")], **how)
    new = ours.convert_tokens_to_ids("\t")
    assert theirs.encode("a\t\tb", add_special_tokens=False).ids == [5, new, new, 6]
    assert ours("a\t\tb", **OFFSETS) == {
        **ours("a\tb", **OFFSETS),
        "offset_mapping": [(0, 1), (1, 3), (3, 4)],
    }
    # of two tokens with the same normalized form, the library matches an arbitrary one
    # and minibert the first
    ours, theirs = both([flagged("AA", "normalized"), flagged("aA", "normalized")], **how)
    assert theirs.encode("aa", add_special_tokens=False).ids[0] in ours.convert_tokens_to_ids(
        ["AA", "aA"]
    )
    assert ours.encode("aa", add_special_tokens=False) == ours.convert_tokens_to_ids(["AA"])
    # a special token is decoded to its normalized text, which the library does not skip
    ours, theirs = both([flagged("<NAME>", "normalized", "special")], **how)
    ids = theirs.encode("a <name>", add_special_tokens=False).ids
    assert (theirs.decode(ids), ours.decode(ids, skip_special_tokens=True)) == ("a <name>", "a")
    # a special token that became an ordinary one is still skipped
    ours, theirs = both([flagged("<name>", "special"), flagged("<name>")], **how)
    assert not theirs.get_added_tokens_decoder()[ids[1]].special
    assert (theirs.decode(ids), ours.decode(ids, skip_special_tokens=True)) == ("a", "a <name>")
    # a token whose normalized form is empty matches everywhere in the library, forever,
    # and nowhere in minibert
    ours, _ = both([flagged("\u0301", "normalized", "rstrip")], **how)
    assert ours.encode("a \u0301 b", add_special_tokens=False) == [5, 6]
