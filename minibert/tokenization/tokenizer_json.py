"""tokenizer.json, the file of the `tokenizers` library: read, checked and written.

The file describes a whole pipeline, of which BERT's is one case. Parts that differ from BERT's
change the tokens of a text. minibert follows those that it has, and refuses the others by name:

```
normalizer       BertNormalizer, Lowercase, none, or a Sequence of them; or NFD, Lowercase and
                 StripAccents
pre_tokenizer    BertPreTokenizer, WhitespaceSplit or Whitespace; in a Sequence with them
                 Punctuation and Digits
post_processor   BertProcessing, TemplateProcessing, or none
decoder          WordPiece, or none
model            WordPiece with the prefix ##, whatever its max_input_chars_per_word
```

Next file: spec.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from minibert.tokenization import basic
from minibert.tokenization.added import AddedToken
from minibert.tokenization.batch_rows import RowTemplate, Templates, bert_templates
from minibert.tokenization.vocabulary import MAX_VOCAB_SIZE
from minibert.tokenization.wordpiece import CONTINUED, MAX_WORD

SPLITTING = {
    "do_lower_case": "lowercase",
    "strip_accents": "strip_accents",
    "tokenize_chinese_chars": "handle_chinese_chars",
}
"""Options of basic splitting, and their names in a BertNormalizer."""

BERT_PARTS: dict[str, Any] = {
    "clean_text": True,
    "pre_tokenizer": {"type": "BertPreTokenizer"},
    "decoder": {"type": "WordPiece", "prefix": CONTINUED, "cleanup": True},
    "max_input_chars_per_word": MAX_WORD,
}
"""The parts of BERT's tokenizer.json that other files may have otherwise."""

_STRIPPING = [
    ["NFD", "Lowercase", "StripAccents"],
    ["NFD", "StripAccents", "Lowercase"],
    ["Lowercase", "NFD", "StripAccents"],
]
"""The normalizers of a Sequence that lower-cases and strips accents as a BertNormalizer does."""

Splitter = Callable[[str], basic.Spans]


@dataclass(frozen=True)
class Components:
    """The parts of a tokenizer.json that may differ from BERT's, parsed once.

    >>> components = Components.parse({"pre_tokenizer": {"type": "WhitespaceSplit"}})
    >>> [splitter.__name__ for splitter in components.splitters]
    ['split_white_space']
    >>> Components.parse({"pre_tokenizer": {"type": "BertPreTokenizer"}}) == Components()
    True

    Args:
        source: Those that differ, as the file has them.
        clean_text: Whether control characters are dropped and white space becomes spaces.
        splitters: The functions that split a text, in their order.
        max_word: Longer words, in characters, become `unk_token`.
        joins_pieces: Whether `decode` joins pieces to words.
        closes_gaps: Whether `decode` closes the gaps that splitting leaves.
        templates: The rows with one and with two texts, with tokens as ids. None for BERT's, which
            follow the present `cls_token` and `sep_token`.
    """

    source: Mapping[str, Any] = field(default_factory=dict)
    clean_text: bool = True
    splitters: tuple[Splitter, ...] = (basic.split_words,)
    max_word: int = MAX_WORD
    joins_pieces: bool = True
    closes_gaps: bool = True
    templates: Templates | None = None

    @classmethod
    def parse(
        cls,
        source: Mapping[str, Any],
        special_tokens: Mapping[str, Any] | None = None,
        vocabulary: Mapping[str, int] | None = None,
    ) -> Components:
        """Return the components that these parts of a tokenizer.json stand for.

        Args:
            source: The parts.
            special_tokens: Special tokens by name. [CLS] and [SEP] unless given.
            vocabulary: Token -> id, to check the ids in a post_processor.

        Raises:
            ValueError: minibert does not have one of them, or a value is impossible.
        """
        known = {*BERT_PARTS, "post_processor"}
        for name in source:
            if name not in known:
                raise ValueError(
                    f"components has {name!r:.80}, but it can have {', '.join(sorted(known))}."
                )
        parts = {**BERT_PARTS, **source}
        clean_text = parts["clean_text"]
        if not isinstance(clean_text, bool):
            raise ValueError(f"clean_text should be true or false, not {clean_text!r:.80}.")
        longest = parts["max_input_chars_per_word"]
        if not isinstance(longest, int) or isinstance(longest, bool) or longest < 0:
            raise ValueError(f"max_input_chars_per_word should be a number, not {longest!r:.80}.")
        joins_pieces, closes_gaps = parse_decoder(parts["decoder"])
        berts = {name for name, value in BERT_PARTS.items() if parts[name] == value}
        if joins_pieces and closes_gaps:
            berts.add("decoder")
        templates = None
        if "post_processor" in source:
            templates = parse_post_processor(source["post_processor"], vocabulary)
            special = {"cls_token": "[CLS]", "sep_token": "[SEP]", **(special_tokens or {})}
            if templates == bert_templates(str(special["cls_token"]), str(special["sep_token"])):
                berts.add("post_processor")
                templates = None
        return cls(
            {name: value for name, value in source.items() if name not in berts},
            clean_text,
            parse_pre_tokenizer(parts["pre_tokenizer"], clean_text),
            longest,
            joins_pieces,
            closes_gaps,
            templates,
        )


def parse_tokenizer(
    content: Mapping[str, Any], special_tokens: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the fields of a `TokenizerSpec` that a tokenizer.json stands for.

    >>> model = {"type": "WordPiece", "continuing_subword_prefix": "##", "vocab": {"[UNK]": 0}}
    >>> splitting = {"type": "WhitespaceSplit"}
    >>> content = {"model": model, "pre_tokenizer": splitting, "post_processor": None}
    >>> fields = parse_tokenizer(content, {})
    >>> fields["do_lower_case"], fields["components"].source["pre_tokenizer"]
    (False, {'type': 'WhitespaceSplit'})

    Args:
        content: The content of the file.
        special_tokens: Special tokens by name that other files give.

    Raises:
        ValueError: A part that minibert does not have.
    """
    model = content.get("model") or {}
    kind = model.get("type", "WordPiece")
    prefix = model.get("continuing_subword_prefix")
    if (kind, prefix) != ("WordPiece", CONTINUED) or not isinstance(model.get("vocab"), dict):
        raise ValueError(
            f"its model is {kind!r:.80} with the prefix {prefix!r:.80}, but BERT's is 'WordPiece' "
            f"with {CONTINUED!r} and a vocabulary."
        )
    added = content.get("added_tokens") or ()
    check_token_ids([*model["vocab"].values(), *(token["id"] for token in added)])
    splitting, clean_text = parse_normalizer(content.get("normalizer"))
    components = Components.parse(
        {
            "clean_text": clean_text,
            "pre_tokenizer": content.get("pre_tokenizer"),
            "decoder": content.get("decoder", BERT_PARTS["decoder"]),
            "max_input_chars_per_word": model.get("max_input_chars_per_word", MAX_WORD),
            "post_processor": content.get("post_processor"),
        },
        special_tokens,
        {**{token["content"]: token["id"] for token in added}, **model["vocab"]},
    )
    return {
        "vocab": model["vocab"],
        "special_tokens": {
            "unk_token": AddedToken.of(model.get("unk_token", "[UNK]")),
            **special_tokens,
        },
        **splitting,
        "added_tokens_decoder": {token["id"]: AddedToken.of(token) for token in added},
        "components": components,
    }


# ---- the parts


def _refuse(part: str, value: Any, alternatives: str) -> ValueError:
    kind = value
    if isinstance(value, Mapping):
        kind = value.get("type")
    return ValueError(f"its {part} is {kind!r:.80}, but minibert has {alternatives}.")


def parse_normalizer(normalizer: Mapping[str, Any] | None) -> tuple[dict[str, Any], bool]:
    """Return the options of basic splitting, and whether control characters are dropped.

    >>> steps = [{"type": "Lowercase"}, {"type": "BertNormalizer", "lowercase": False}]
    >>> parse_normalizer({"type": "Sequence", "normalizers": steps})[0]["do_lower_case"]
    True
    """
    steps: Sequence[Any] = [normalizer] if normalizer else []
    found = ""
    if normalizer and normalizer.get("type") == "Sequence":
        steps = normalizer["normalizers"]
        found = "a Sequence of "
    kinds = [step.get("type") for step in steps]
    if kinds in _STRIPPING:
        return {
            "do_lower_case": True,
            "strip_accents": True,
            "tokenize_chinese_chars": False,
        }, False
    if kinds.count("BertNormalizer") > 1 or not set(kinds) <= {"BertNormalizer", "Lowercase"}:
        raise ValueError(
            f"its normalizer is {found}{kinds if found else kinds[0]!r:.200}, but minibert has a "
            "BertNormalizer, Lowercase, a Sequence of both, or one of NFD, Lowercase, StripAccents."
        )
    options: dict[str, Any] = dict.fromkeys(SPLITTING, False)
    clean_text = False
    if "BertNormalizer" in kinds:
        bert = steps[kinds.index("BertNormalizer")]
        options = {ours: bert[theirs] for ours, theirs in SPLITTING.items() if theirs in bert}
        options = {name: value for name, value in options.items() if value is not None}
        clean_text = bert.get("clean_text", True)
    if "Lowercase" in kinds:
        # before or after a BertNormalizer it does what lower-casing inside it does, but for
        # accents, which the BertNormalizer decides alone
        options.setdefault("strip_accents", options.get("do_lower_case", True))
        options["do_lower_case"] = True
    return options, clean_text


def parse_pre_tokenizer(
    pre_tokenizer: Mapping[str, Any] | None, clean_text: bool = True
) -> tuple[Splitter, ...]:
    """Return the functions that split a text, in their order.

    Args:
        pre_tokenizer: The part of tokenizer.json.
        clean_text: White space is replaced by spaces before.

    Raises:
        ValueError: One that minibert does not have, or none that splits at white space.
    """
    steps: Sequence[Any] = [pre_tokenizer]
    if pre_tokenizer is not None and pre_tokenizer.get("type") == "Sequence":
        steps = pre_tokenizer["pretokenizers"]
    splitters: list[Splitter] = []
    splits_at_white_space = False
    for step in steps:
        kind = None if step is None else step.get("type")
        if kind == "BertPreTokenizer" and clean_text:
            splitters.append(basic.split_words)
        elif kind == "BertPreTokenizer":
            splitters += [basic.split_white_space, basic.split_punctuation]
        elif kind == "WhitespaceSplit":
            splitters.append(basic.split_white_space)
        elif kind == "Whitespace":
            splitters.append(basic.split_word_characters)
        else:
            splitters.append(_parse_splitter(step))
            continue
        splits_at_white_space = True
    if not splits_at_white_space:
        raise _refuse(
            "pre_tokenizer",
            pre_tokenizer,
            "only those that split at white space: BertPreTokenizer, WhitespaceSplit or "
            "Whitespace, with Punctuation and Digits in a Sequence",
        )
    return tuple(splitters)


def _parse_splitter(step: Any) -> Splitter:
    """Return the function of a pre-tokenizer that does not look at white space."""
    kind = None if step is None else step.get("type")
    if kind == "Digits":
        if step.get("individual_digits"):
            return basic.split_digits
        return basic.split_digit_runs
    if kind == "Punctuation" and step.get("behavior", "Isolated") == "Isolated":
        return basic.split_punctuation
    raise _refuse(
        "pre_tokenizer",
        step,
        "BertPreTokenizer, WhitespaceSplit, Whitespace, Punctuation (isolated), Digits, or a "
        "Sequence of them",
    )


def parse_decoder(decoder: Mapping[str, Any] | None) -> tuple[bool, bool]:
    """Return whether `decode` joins pieces to words, and whether it closes gaps.

    Raises:
        ValueError: A decoder that minibert does not have.
    """
    if decoder is None:
        return False, False
    if decoder.get("type") != "WordPiece" or decoder.get("prefix", CONTINUED) != CONTINUED:
        raise _refuse("decoder", decoder, f"WordPiece with the prefix {CONTINUED!r}, or none")
    return True, bool(decoder.get("cleanup", True))


def parse_post_processor(
    processor: Mapping[str, Any] | None, vocabulary: Mapping[str, int] | None = None
) -> Templates:
    """Return the templates of a row with one and with two texts, with tokens as ids.

    Args:
        processor: The part of tokenizer.json.
        vocabulary: Token -> id, to check the ids of the special tokens.

    Raises:
        ValueError: A post_processor that minibert does not have, or other ids than the vocabulary.
    """
    if processor is None:
        single, pair = bert_templates("", "")
        # the library leaves the type ids of the texts as they are
        return single.without_special_tokens(), pair.without_special_tokens()
    kind = processor.get("type")
    if kind == "Sequence" and len(processor["processors"]) == 1:
        return parse_post_processor(processor["processors"][0], vocabulary)
    if kind == "BertProcessing":
        ids = dict([processor["cls"], processor["sep"]])
        templates = bert_templates(str(processor["cls"][0]), str(processor["sep"][0]))
    elif kind == "TemplateProcessing":
        special = processor["special_tokens"]
        ids = {}
        for token in special.values():
            ids.update(zip(token["tokens"], token["ids"], strict=True))
        templates = (
            _parse_template(processor["single"], special, ["A"]),
            _parse_template(processor["pair"], special, ["A", "B"]),
        )
    else:
        raise _refuse("post_processor", processor, "BertProcessing, TemplateProcessing, or none")
    for content, token_id in ids.items():
        if vocabulary is not None and vocabulary.get(content) != token_id:
            raise ValueError(
                f"its post_processor gives {content!r:.80} the id {token_id!r:.80}, but its "
                f"vocabulary gives it {vocabulary.get(content)}."
            )
    return templates


def _parse_template(
    pieces: Sequence[Mapping[str, Any]], special: Mapping[str, Any], texts: list[str]
) -> RowTemplate:
    """Return the template that a list of special tokens and texts stands for."""
    tokens: list[list[str]] = [[]]
    types: list[list[int]] = [[]]
    text_types = []
    sequences = []
    for piece in pieces:
        if "Sequence" in piece:
            sequences.append(piece["Sequence"]["id"])
            text_types.append(piece["Sequence"]["type_id"])
            tokens.append([])
            types.append([])
        else:
            token = piece["SpecialToken"]
            names = special[token["id"]]["tokens"]
            tokens[-1] += names
            types[-1] += [token["type_id"]] * len(names)
    if sequences != texts:
        raise ValueError(
            f"its post_processor has the texts {sequences!r:.80} in a row, but minibert has rows "
            f"of {texts}."
        )
    for type_id in (*text_types, *(number for group in types for number in group)):
        if type(type_id) is not int or type_id < 0:
            raise ValueError(f"its post_processor has the type id {type_id!r:.80}.")
    return RowTemplate(tuple(map(tuple, tokens)), tuple(map(tuple, types)), tuple(text_types))


def check_token_ids(ids: Iterable[Any]) -> None:
    """Check that an embedding can have the ids.

    Raises:
        ValueError: An id is not an integer, or out of range.
    """
    for token_id in ids:
        if type(token_id) is not int or not 0 <= token_id < MAX_VOCAB_SIZE:
            raise ValueError(
                f"Ids should be whole numbers from 0 to {MAX_VOCAB_SIZE - 1}, not {token_id!r:.60}."
            )


# ---- writing


def to_content(spec: Any) -> dict[str, Any]:
    """Return the content of the tokenizer.json of a `TokenizerSpec`."""
    parts = {**BERT_PARTS, **spec.components.source}
    splitting = {theirs: getattr(spec, ours) for ours, theirs in SPLITTING.items()}
    added = spec.added_tokens_decoder
    ids = {**spec.vocab, **{token.content: token_id for token_id, token in added.items()}}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": token_id, **asdict(token)} for token_id, token in added.items()],
        "normalizer": {"type": "BertNormalizer", "clean_text": parts["clean_text"], **splitting},
        "pre_tokenizer": parts["pre_tokenizer"],
        "post_processor": _post_processor(spec.templates, ids),
        "decoder": parts["decoder"],
        "model": {
            "type": "WordPiece",
            "unk_token": str(spec.special_tokens["unk_token"]),
            "continuing_subword_prefix": CONTINUED,
            "max_input_chars_per_word": parts["max_input_chars_per_word"],
            "vocab": dict(spec.vocab),
        },
    }


def _post_processor(templates: Templates, ids: Mapping[str, int]) -> dict[str, Any]:
    used = {token for template in templates for group in template.ids for token in group}

    def pieces(template: RowTemplate) -> list[dict[str, Any]]:
        result = []
        for index, (tokens, types) in enumerate(zip(template.ids, template.types, strict=True)):
            if index:
                text = {"id": "AB"[index - 1], "type_id": template.text_types[index - 1]}
                result.append({"Sequence": text})
            for token, type_id in zip(tokens, types, strict=True):
                result.append({"SpecialToken": {"id": token, "type_id": type_id}})
        return result

    single, pair = templates
    return {
        "type": "TemplateProcessing",
        "single": pieces(single),
        "pair": pieces(pair),
        "special_tokens": {
            token: {"id": token, "ids": [ids[token]], "tokens": [token]}
            for token in sorted(used, key=ids.__getitem__)
        },
    }
