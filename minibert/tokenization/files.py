"""The tokenizer's files, old and new: what a folder or repository says becomes the constructor's arguments.

What is said in several places is taken as `transformers` takes it: the vocabulary from tokenizer.json before
vocab.txt, options from tokenizer_config.json, the tokens' flags from its `added_tokens_decoder`, else from
tokenizer.json, added_tokens.json and special_tokens_map.json. One thing more: a tokenizer.json without
tokenizer_config.json says itself whether to lower-case.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from minibert.checkpoints.source import Source
from minibert.files import prefix_errors, read_json, replacing, write_json
from minibert.tokenization.added import AddedToken
from minibert.tokenization.rows import SIDES, option
from minibert.tokenization.vocabulary import (
    ALL_NAMED,
    MAX_VOCAB_SIZE,
    Vocabulary,
    check_size,
    listed,
)
from minibert.tokenization.wordpiece import CONTINUED, MAX_WORD

# how words are split, and what tokenizer.json's normalizer calls it
SPLITTING = {
    "do_lower_case": "lowercase",
    "strip_accents": "strip_accents",
    "tokenize_chinese_chars": "handle_chinese_chars",
}
_SIDES = ("padding_side", "truncation_side")
OPTIONS = (
    *SPLITTING,
    *_SIDES,
    "model_max_length",
    "clean_up_tokenization_spaces",
    "model_input_names",
)
# tokenizer classes that read their vocabulary exactly as BERT's does
_CLASSES = (
    "BertTokenizer",
    "DistilBertTokenizer",
    "ElectraTokenizer",
    "PreTrainedTokenizer",
    "TokenizersBackend",
)


def read_source(source: Source) -> dict[str, Any]:
    """The constructor's arguments from the files of a folder or repository.

    Raises:
        FileNotFoundError: there is no vocabulary.
        ValueError: a file is broken, too large, or for another kind of tokenizer.
    """
    config = _json(source, "tokenizer_config.json")
    kind = str(config.get("tokenizer_class") or _CLASSES[0])
    if kind.removesuffix("Fast") not in _CLASSES:
        raise ValueError(
            f"{source} is for the tokenizer {kind:.80}; minibert has BERT's WordPiece only."
        )
    settings = read_file(source.require("tokenizer.json", "vocab.txt"))
    with prefix_errors(f"{source}, tokenizer_config.json"):
        settings |= {key: config[key] for key in OPTIONS if config.get(key) is not None}
        check_options(settings)
        settings |= _named(config)
        extra = _extra(config)
        if (decoder := config.get("added_tokens_decoder")) is not None:
            added = _by_number(decoder)
            return {**settings, "added_tokens_decoder": added, "extra_special_tokens": extra}
    # before added_tokens_decoder there were two more files
    with prefix_errors(f"{source}, special_tokens_map.json"):
        legacy = _json(source, "special_tokens_map.json")
        settings |= _named(legacy)
        extra += _extra(legacy)
    with prefix_errors(f"{source}, added_tokens.json"):
        special = {
            token.content
            for token in (*extra, *(settings[key] for key in ALL_NAMED if key in settings))
        }
        older = _json(source, "added_tokens.json")
        _check_ids(older.values())
        added = {
            number: AddedToken(token, special=token in special) for token, number in older.items()
        }
    added |= settings.get("added_tokens_decoder", {})
    return {**settings, "added_tokens_decoder": added, "extra_special_tokens": extra}


def read_file(path: Path) -> dict[str, Any]:
    """The constructor's arguments from a vocab.txt or tokenizer.json file alone.

    The padding and truncation in a tokenizer.json are left to the caller of the tokenizer.

    >>> list(read_file(Path("folder/vocab.txt")))
    ['vocab']
    """
    if path.suffix != ".json":
        return {"vocab": path}
    check_size(path)
    content = read_json(path)
    try:
        return _settings(content)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        reason = error if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
        raise ValueError(f"{path} is not BERT's tokenizer.json: {reason}") from None


def _settings(content: dict[str, Any]) -> dict[str, Any]:
    model, normalizer = content.get("model") or {}, content.get("normalizer") or {}
    found = (
        model.get("type", "WordPiece"),
        model.get("continuing_subword_prefix"),
        normalizer.get("type"),
    )
    if found != (right := ("WordPiece", CONTINUED, "BertNormalizer")) or not isinstance(
        model.get("vocab"), dict
    ):
        raise ValueError(f"it has {found!r:.200} where BERT has {right}.")
    added = content.get("added_tokens") or ()
    _check_ids([*model["vocab"].values(), *(token["id"] for token in added)])
    return {
        "vocab": model["vocab"],
        "unk_token": AddedToken.of(model.get("unk_token", "[UNK]")),
        **{ours: normalizer[theirs] for ours, theirs in SPLITTING.items() if theirs in normalizer},
        "added_tokens_decoder": {token["id"]: AddedToken.of(token) for token in added},
    }


def check_options(options: Mapping[str, Any]) -> None:
    """ValueError naming the first of `OPTIONS` that has an impossible value; those that are not there are none."""
    for flag in SPLITTING:
        if not isinstance(value := options.get(flag), bool | int | None):
            raise ValueError(f"{flag} should be true or false, not {value!r:.80}.")
    length = options.get("model_max_length", 0)
    if not isinstance(length, int | float) or not length >= 0:
        raise ValueError(f"model_max_length should be a number of tokens, not {length!r:.80}.")
    for side in _SIDES:
        option(side, options.get(side, "right"), SIDES)
    listed("model_input_names", options.get("model_input_names", ()))


def _named(content: Mapping[str, Any]) -> dict[str, AddedToken]:
    """The special tokens that have a role, by its name."""
    return {key: AddedToken.of(content[key]) for key in ALL_NAMED if content.get(key)}


def _extra(content: Mapping[str, Any]) -> list[AddedToken]:
    """Special tokens without a role of their own, under the present or the former name; a list or named."""
    tokens = content.get("extra_special_tokens") or content.get("additional_special_tokens") or []
    return [AddedToken.of(token) for token in listed("extra_special_tokens", tokens)]


def _by_number(decoder: Any) -> dict[int, AddedToken]:
    """The tokens of `added_tokens_decoder`, whose ids JSON writes as strings."""
    if not isinstance(decoder, Mapping) or not all(
        re.fullmatch("[0-9]{1,18}", number) for number in decoder
    ):
        raise ValueError(
            f"added_tokens_decoder should give a token for each id, not {decoder!r:.60}."
        )
    added = {int(number): AddedToken.of(token) for number, token in decoder.items()}
    _check_ids(added)
    return added


def _check_ids(ids: Iterable[Any]) -> None:
    """ValueError for ids that no embedding can have."""
    for number in ids:
        if type(number) is not int or not 0 <= number < MAX_VOCAB_SIZE:
            raise ValueError(
                f"Ids should be whole numbers from 0 to {MAX_VOCAB_SIZE - 1}, not {number!r:.60}."
            )


def _json(source: Source, filename: str) -> dict[str, Any]:
    if path := source.file(filename):
        check_size(path)
    return read_json(path) if path else {}


def write(vocabulary: Vocabulary, options: Mapping[str, Any], folder: Path) -> tuple[str, ...]:
    """Writes vocab.txt, tokenizer_config.json, special_tokens_map.json and tokenizer.json; returns their paths.

    `options` has a value for each of `OPTIONS`; the folder is made when it does not exist.
    """
    folder.mkdir(parents=True, exist_ok=True)
    added = vocabulary.added_tokens_decoder
    special: dict[str, Any] = dict(vocabulary.special_tokens_map)
    if vocabulary.extra_special_tokens:
        special["extra_special_tokens"] = vocabulary.extra_special_tokens
    contents = {
        "tokenizer_config.json": {
            **options,
            **special,
            "added_tokens_decoder": {str(number): asdict(token) for number, token in added.items()},
            "tokenizer_class": "BertTokenizer",
        },
        "special_tokens_map.json": special,
        "tokenizer.json": _tokenizer_json(vocabulary, options, added),
    }
    write_vocabulary(vocabulary, folder / "vocab.txt")
    for filename, content in contents.items():
        write_json(folder / filename, content)
    return tuple(str(folder / filename) for filename in ("vocab.txt", *contents))


def write_vocabulary(vocabulary: Vocabulary, path: Path) -> None:
    """Writes a vocab.txt file: a token a line, in the order of their ids."""
    lines = {number: token for token, number in vocabulary.base_vocab.items()}
    with replacing(path) as temporary:
        text = "".join(f"{lines.get(number, '')}\n" for number in range(max(lines) + 1))
        temporary.write_text(text, encoding="utf-8", newline="\n")


def _tokenizer_json(
    vocabulary: Vocabulary, options: Mapping[str, Any], added: Mapping[int, AddedToken]
) -> dict[str, Any]:
    """tokenizer.json, which the `tokenizers` library loads by itself."""
    cls, sep = vocabulary.cls_token, vocabulary.sep_token
    ids = {cls: vocabulary.cls_token_id, sep: vocabulary.sep_token_id}

    def part(what: str, name: str, type_id: int) -> dict[str, Any]:
        return {what: {"id": name, "type_id": type_id}}

    single = [part("SpecialToken", cls, 0), part("Sequence", "A", 0), part("SpecialToken", sep, 0)]
    splitting = {theirs: options[ours] for ours, theirs in SPLITTING.items()}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": number, **asdict(token)} for number, token in added.items()],
        "normalizer": {"type": "BertNormalizer", "clean_text": True, **splitting},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": single,
            "pair": [*single, part("Sequence", "B", 1), part("SpecialToken", sep, 1)],
            "special_tokens": {
                token: {"id": token, "ids": [ids[token]], "tokens": [token]} for token in ids
            },
        },
        "decoder": {"type": "WordPiece", "prefix": CONTINUED, "cleanup": True},
        "model": {
            "type": "WordPiece",
            "unk_token": vocabulary.unk_token,
            "continuing_subword_prefix": CONTINUED,
            "max_input_chars_per_word": MAX_WORD,
            "vocab": vocabulary.base_vocab,
        },
    }


def tokenizer_digest(tokenizer: Any) -> hashlib._Hash:
    """The SHA-256 of everything that decides the ids of a text."""
    switches = (tokenizer.do_lower_case, tokenizer.strip_accents, tokenizer.tokenize_chinese_chars)
    return hashlib.sha256(repr((sorted(tokenizer.get_vocab().items()), switches)).encode())
