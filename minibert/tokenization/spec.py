"""The files of a tokenizer, old and new: their content becomes the arguments of the constructor.

If several files disagree, this follows `transformers`: the vocabulary from tokenizer.json before
vocab.txt, options from tokenizer_config.json, and the flags of tokens from its
`added_tokens_decoder`, else from tokenizer.json, added_tokens.json and special_tokens_map.json.
Unlike transformers, a tokenizer.json without tokenizer_config.json decides whether to lower-case.

Next file: tokenizer.py.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from minibert.checkpoints.source import WEIGHTS, Source
from minibert.compat.tokenizer_names import OLDER_NAMES
from minibert.files import prefix_errors, read_json, replacing, write_json
from minibert.tokenization import tokenizer_json
from minibert.tokenization.added import AddedToken
from minibert.tokenization.batch_rows import SIDES, parse_choice
from minibert.tokenization.tokenizer_json import SPLITTING, Components, Templates, check_ids
from minibert.tokenization.vocabulary import ALL_NAMED, Vocabulary, as_list, check_size

_SIDE_OPTIONS = ("padding_side", "truncation_side")
OPTIONS = (
    *SPLITTING,
    *_SIDE_OPTIONS,
    "model_max_length",
    "clean_up_tokenization_spaces",
    "model_input_names",
)
"""Options of a tokenizer that its files store."""

# tokenizer classes that read a vocabulary exactly as BERT's does
_BERT_CLASSES = ("BertTokenizer", "DistilBertTokenizer", "ElectraTokenizer")
# classes of any tokenizer, which follow tokenizer.json alone
_GENERIC_CLASSES = ("PreTrainedTokenizer", "TokenizersBackend")


def read_source(source: Source) -> dict[str, Any]:
    """Return the arguments of the constructor from the files of a folder or repository.

    Raises:
        FileNotFoundError: There is no vocabulary.
        ValueError: A file is broken, too large, or for another kind of tokenizer.
    """
    config = _read_json(source, "tokenizer_config.json")
    class_name = config.get("tokenizer_class")
    if class_name is None:  # older repositories name it beside the model's options
        class_name = _read_json(source, "config.json").get("tokenizer_class")
    class_name = str(class_name or _BERT_CLASSES[0])
    base_name = class_name.removesuffix("Fast")
    if base_name not in (*_BERT_CLASSES, *_GENERIC_CLASSES):
        raise ValueError(
            f"{source} is for the tokenizer {class_name:.80}, but minibert has BERT's WordPiece "
            "only."
        )
    settings = read_file(source.require("tokenizer.json", "vocab.txt"))
    with prefix_errors(f"{source}, tokenizer_config.json"):
        for older, name in OLDER_NAMES.items():
            config.setdefault(name, config.get(older))
        options = {name: config[name] for name in OPTIONS if config.get(name) is not None}
        check_options(options)
        if base_name in _GENERIC_CLASSES and "components" in settings:
            options = {name: value for name, value in options.items() if name not in SPLITTING}
        settings |= options
        settings |= _named_tokens(config)
        extra = _extra_tokens(config)
        decoder = config.get("added_tokens_decoder")
        if decoder is not None:
            settings["added_tokens_decoder"] = _parse_added_tokens(decoder)
    if decoder is None:
        extra += _read_older_files(source, settings, extra)
    settings["extra_special_tokens"] = extra
    return _without_berts_components(settings)


def _read_older_files(
    source: Source, settings: dict[str, Any], extra: list[AddedToken]
) -> list[AddedToken]:
    """Read the two files from before `added_tokens_decoder` into the settings.

    Returns:
        The extra special tokens of special_tokens_map.json.
    """
    with prefix_errors(f"{source}, special_tokens_map.json"):
        content = _read_json(source, "special_tokens_map.json")
        settings |= _named_tokens(content)
        further = _extra_tokens(content)
    with prefix_errors(f"{source}, added_tokens.json"):
        named = [settings[name] for name in ALL_NAMED if name in settings]
        special = {token.content for token in (*extra, *further, *named)}
        ids = _read_json(source, "added_tokens.json")
        check_ids(ids.values())
        added = {
            token_id: AddedToken(token, special=token in special) for token, token_id in ids.items()
        }
    settings["added_tokens_decoder"] = {**added, **settings.get("added_tokens_decoder", {})}
    return further


def read_file(path: Path) -> dict[str, Any]:
    """Return the arguments of the constructor from a vocab.txt or tokenizer.json file.

    The padding and truncation in a tokenizer.json are left to the caller of the tokenizer.

    >>> list(read_file(Path("folder/vocab.txt")))
    ['vocab']

    Raises:
        ValueError: The file is broken, too large, or has parts that minibert does not have.
    """
    if path.suffix in WEIGHTS:
        raise ValueError(f"{path} holds weights. Pass its folder, vocab.txt or tokenizer.json.")
    if path.suffix != ".json":
        return {"vocab": path}
    check_size(path)
    content = read_json(path)
    try:
        return tokenizer_json.parse(content)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        reason = f"{type(error).__name__}: {error}"
        if isinstance(error, ValueError):
            reason = str(error)
        raise ValueError(f"{path} is not BERT's tokenizer.json: {reason}") from None


def read_single_file(path: Path) -> dict[str, Any]:
    """Return the arguments of the constructor from a single file."""
    return _without_berts_components(read_file(path))


def _without_berts_components(settings: dict[str, Any]) -> dict[str, Any]:
    if "components" not in settings:  # of a vocab.txt
        return settings
    cls_token = str(settings.get("cls_token", "[CLS]"))
    sep_token = str(settings.get("sep_token", "[SEP]"))
    components = settings["components"].without_berts(cls_token, sep_token)
    return {**settings, "components": components}


def check_options(options: Mapping[str, Any]) -> None:
    """Check the values of `OPTIONS`. Those that are missing are valid.

    Raises:
        ValueError: A value is impossible. The error names the option.
    """
    for name in SPLITTING:
        value = options.get(name)
        if not isinstance(value, bool | int | None):
            raise ValueError(f"{name} should be true or false, not {value!r:.80}.")
    length = options.get("model_max_length", 0)
    if not isinstance(length, int | float) or not length >= 0:
        raise ValueError(f"model_max_length should be a number of tokens, not {length!r:.80}.")
    for side in _SIDE_OPTIONS:
        parse_choice(side, options.get(side, "right"), SIDES)
    as_list("model_input_names", options.get("model_input_names", ()))


def _named_tokens(content: Mapping[str, Any]) -> dict[str, AddedToken]:
    """Return the special tokens that have a role, by its name."""
    return {name: AddedToken.of(content[name]) for name in ALL_NAMED if content.get(name)}


def _extra_tokens(content: Mapping[str, Any]) -> list[AddedToken]:
    """Return the special tokens without a role."""
    tokens = content.get("extra_special_tokens") or content.get("additional_special_tokens") or []
    return [AddedToken.of(token) for token in as_list("extra_special_tokens", tokens)]


def _parse_added_tokens(decoder: Any) -> dict[int, AddedToken]:
    """Return the tokens of `added_tokens_decoder`, whose ids are strings in JSON."""
    is_mapping = isinstance(decoder, Mapping)
    if not is_mapping or not all(re.fullmatch("[0-9]{1,18}", token_id) for token_id in decoder):
        raise ValueError(
            f"added_tokens_decoder should give a token for each id, not {decoder!r:.60}."
        )
    added = {int(token_id): AddedToken.of(token) for token_id, token in decoder.items()}
    check_ids(added)
    return added


def _read_json(source: Source, filename: str) -> dict[str, Any]:
    """Return the content of a file, {} if there is none."""
    path = source.file(filename)
    if path is None:
        return {}
    check_size(path)
    return read_json(path)


def write(
    vocabulary: Vocabulary,
    options: Mapping[str, Any],
    components: Components,
    templates: Templates,
    folder: Path,
) -> tuple[str, ...]:
    """Write vocab.txt, tokenizer_config.json, special_tokens_map.json and tokenizer.json.

    Args:
        vocabulary: The tokens.
        options: A value for each of `OPTIONS`.
        components: The parts of tokenizer.json that may differ from BERT's.
        templates: The rows with one and with two texts.
        folder: Where to write. Created if it does not exist.

    Returns:
        The paths of the files.
    """
    folder.mkdir(parents=True, exist_ok=True)
    added = vocabulary.added_tokens_decoder
    special: dict[str, Any] = dict(vocabulary.special_tokens_map)
    if vocabulary.extra_special_tokens:
        special["extra_special_tokens"] = vocabulary.extra_special_tokens
    class_name = "BertTokenizer"
    if components.source:  # a class of transformers that follows tokenizer.json
        class_name = "PreTrainedTokenizerFast"
    contents = {
        "tokenizer_config.json": {
            **options,
            **special,
            "added_tokens_decoder": {str(number): asdict(token) for number, token in added.items()},
            "tokenizer_class": class_name,
        },
        "special_tokens_map.json": special,
        "tokenizer.json": tokenizer_json.to_content(vocabulary, options, components, templates),
    }
    write_vocabulary(vocabulary, folder / "vocab.txt")
    for filename, content in contents.items():
        write_json(folder / filename, content)
    return tuple(str(folder / filename) for filename in ("vocab.txt", *contents))


def write_vocabulary(vocabulary: Vocabulary, path: Path) -> None:
    """Write a vocab.txt file: one token a line, in the order of the ids."""
    tokens = {token_id: token for token, token_id in vocabulary.base_vocab.items()}
    lines = [tokens.get(token_id, "") for token_id in range(max(tokens) + 1)]
    with replacing(path) as temporary:
        text = "".join(f"{line}\n" for line in lines)
        temporary.write_text(text, encoding="utf-8", newline="\n")


def tokenizer_digest(tokenizer: Any) -> hashlib._Hash:
    """Return the SHA-256 of everything that decides the ids of a text."""
    options = (tokenizer.do_lower_case, tokenizer.strip_accents, tokenizer.tokenize_chinese_chars)
    parts: tuple[Any, ...] = (sorted(tokenizer.get_vocab().items()), options)
    components = getattr(tokenizer, "components", None)
    if components:
        parts = (*parts, sorted(components.items()))
    return hashlib.sha256(repr(parts).encode())
