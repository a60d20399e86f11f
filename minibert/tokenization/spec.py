"""What the files of a tokenizer say, old and new: parsed once, and written.

If several files disagree, this follows `transformers`: the vocabulary from tokenizer.json before
vocab.txt, options from tokenizer_config.json, and the flags of tokens from its
`added_tokens_decoder`, else from tokenizer.json, added_tokens.json and special_tokens_map.json.
Unlike transformers, a tokenizer.json without tokenizer_config.json decides whether to lower-case.

Next file: tokenizer.py.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from minibert.checkpoints.model_files import replacing_model
from minibert.checkpoints.source import WEIGHTS, Source
from minibert.compat.chat_templates import (
    TEMPLATE_FILE,
    TEMPLATE_FOLDER,
    ChatTemplates,
    parse_templates,
    template_field,
    template_files,
)
from minibert.compat.keywords import drop_unused, warn_of_code
from minibert.compat.tokenizer_names import KEYWORDS, rename_older
from minibert.tokenization import tokenizer_json
from minibert.tokenization.added import AddedToken
from minibert.tokenization.batch_rows import SIDES, Templates, bert_templates, parse_choice
from minibert.tokenization.tokenizer_json import SPLITTING, Components, check_token_ids
from minibert.tokenization.unicode import SPACES
from minibert.tokenization.vocabulary import ALL_NAMED, MAX_VOCAB_SIZE, NAMED, token_list
from minibert.util.checks import check_kind, warn
from minibert.util.errors import ArgumentError
from minibert.util.files import (
    prefix_errors,
    read_json,
    read_text,
    replacing,
    write_json,
)

MAX_TOKEN_BYTES = 32  # in a file, for each token; tokenizer.json takes three quarters of this


OPTIONS = (
    *SPLITTING,
    "padding_side",
    "truncation_side",
    "model_max_length",
    "clean_up_tokenization_spaces",
    "model_input_names",
    "chat_template",
)
"""Options of a tokenizer that its files store."""

NO_LIMIT = int(1e30)
"""model_max_length if nobody set it, as the official files have it."""

# tokenizer classes that read a vocabulary exactly as BERT's does
_BERT_CLASSES = ("BertTokenizer", "DistilBertTokenizer", "ElectraTokenizer")
# classes of any tokenizer, which follow tokenizer.json alone
_GENERIC_CLASSES = ("PreTrainedTokenizer", "TokenizersBackend")


@dataclass(frozen=True)
class TokenizerSpec:
    """Everything that the files of a tokenizer say. The defaults are BERT's.

    >>> TokenizerSpec.of(["[PAD]", "[UNK]", "hello"]).vocab
    {'[PAD]': 0, '[UNK]': 1, 'hello': 2}

    Args:
        vocab: Token -> id, without added tokens.
        special_tokens: Special tokens by name (`ALL_NAMED`), a string or an `AddedToken` each. Of
            `NAMED`, those that are missing are [UNK], [SEP], [PAD], [CLS] and [MASK].
        extra_special_tokens: Further special tokens.
        added_tokens_decoder: Id -> added token.
        do_lower_case: Lower-case the text.
        strip_accents: Drop accents. None does so when lower-casing.
        tokenize_chinese_chars: Make every ideograph a word.
        padding_side: "right" or "left".
        truncation_side: "right" or "left".
        model_max_length: Tokens of the longest row that the model takes.
        clean_up_tokenization_spaces: Let `decode` close the gaps in English "do n't".
        model_input_names: The keys of a batch, or None for those of the tokenizer's class.
        components: The parts of a tokenizer.json that differ from BERT's.
        chat_template: What `apply_chat_template` renders: a template, or several by name.

    Raises:
        ValueError: A value is impossible. The error names the option.
    """

    vocab: Mapping[str, int]
    special_tokens: Mapping[str, Any] = field(default_factory=dict)
    extra_special_tokens: Sequence[Any] = ()
    added_tokens_decoder: Mapping[int, AddedToken] = field(default_factory=dict)
    do_lower_case: bool = True
    strip_accents: bool | None = None
    tokenize_chinese_chars: bool = True
    padding_side: str = "right"
    truncation_side: str = "right"
    model_max_length: int = NO_LIMIT
    clean_up_tokenization_spaces: bool = False
    model_input_names: Sequence[str] | None = None
    components: Components = Components()
    chat_template: ChatTemplates = None

    def __post_init__(self) -> None:
        if not any(self.vocab):
            raise ValueError(
                "The vocabulary is empty. Pass a vocab.txt file, a list of tokens or a dict from "
                "token to id."
            )
        for name in (*SPLITTING, "clean_up_tokenization_spaces"):
            value = getattr(self, name)
            if not isinstance(value, bool | int | None):
                raise ArgumentError(name, f"should be true or false, not {value!r:.80}.")
        length = self.model_max_length
        if not isinstance(length, int | float) or not length >= 0:
            raise ArgumentError(
                "model_max_length", f"should be a number of tokens, not {length!r:.80}."
            )
        object.__setattr__(self, "model_max_length", int(min(length, NO_LIMIT)))
        for side in ("padding_side", "truncation_side"):
            parse_choice(side, getattr(self, side), SIDES)
        if self.model_input_names is not None:
            names = token_list("model_input_names", self.model_input_names)
            object.__setattr__(self, "model_input_names", names)
        added = {number: AddedToken.of(t) for number, t in self.added_tokens_decoder.items()}
        object.__setattr__(self, "added_tokens_decoder", added)
        object.__setattr__(self, "chat_template", parse_templates(self.chat_template))
        berts = {name: f"[{name.removesuffix('_token').upper()}]" for name in NAMED}
        object.__setattr__(self, "special_tokens", {**berts, **self.special_tokens})

    @property
    def templates(self) -> Templates:
        """The rows with one and with two texts, with tokens as ids.

        Raises:
            ValueError: BERT's rows without `cls_token` or `sep_token`.
        """
        if self.components.templates is not None:
            return self.components.templates
        for name in ("cls_token", "sep_token"):
            if self.special_tokens[name] is None:
                raise ArgumentError(
                    name,
                    "is None, but BERT's rows have one. Pass "
                    'components={"post_processor": None} for rows without special tokens.',
                )
        special = self.special_tokens
        return bert_templates(str(special["cls_token"]), str(special["sep_token"]))

    @classmethod
    def of(cls, vocab: Any) -> TokenizerSpec:
        """Return the spec of a vocabulary: a file, token -> id, tokens in the order of their ids.

        Raises:
            FileNotFoundError: The file does not exist.
            ValueError: The vocabulary is empty, an id is not a whole number, or the file is broken.
        """
        if isinstance(vocab, TokenizerSpec):
            return vocab
        if isinstance(vocab, str | os.PathLike):
            return cls.from_file(Path(vocab))
        if isinstance(vocab, Mapping):
            check_token_ids(vocab.values())
            return cls(dict(vocab))
        tokens = () if vocab is None else vocab
        check_kind("vocab", tokens, Iterable, "a vocab.txt file, a list of tokens or a dict of ids")
        return cls(_enumerate_tokens(list(tokens), "given"))

    @classmethod
    def from_file(
        cls,
        path: Path,
        special_tokens: Mapping[str, Any] | None = None,
        class_name: str | None = None,
    ) -> TokenizerSpec:
        """Read a vocab.txt or tokenizer.json file.

        The padding and truncation in a tokenizer.json are left to the caller of the tokenizer.

        Args:
            path: The file.
            special_tokens: Special tokens by name that other files give.
            class_name: Class of transformers that the tokenizer was made for. BERT's classes have
                BERT's components, whatever a tokenizer.json says, and any other follows the file.
                None: unknown, so the file is followed. Where it differs from BERT, a warning says
                so in both cases.

        Raises:
            FileNotFoundError: The file does not exist.
            ValueError: The file is broken, too large, or has parts that minibert does not have.
        """
        special = dict(special_tokens or {})
        if path.suffix in WEIGHTS:
            raise ValueError(f"{path} holds weights. Pass its folder, vocab.txt or tokenizer.json.")
        if path.suffix != ".json":
            return cls(_enumerate_tokens(_read_lines(path), f"{path}"), special)
        check_size(path)
        content = read_json(path)
        try:
            arguments = tokenizer_json.parse_tokenizer(content, special)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            reason = f"{type(error).__name__}: {error}"
            if isinstance(error, ValueError):
                reason = str(error)
            raise ValueError(f"{path} is not BERT's tokenizer.json: {reason}") from None
        # A decoder is left out: texts have the same rows.
        different = ", ".join(arguments["components"].source.keys() - {"decoder"})
        if class_name in _BERT_CLASSES:
            arguments["components"] = Components()
        if different and class_name in _BERT_CLASSES:
            warn(
                f"{path} has another {different} than BERT's, which {class_name} does not follow, "
                "as in transformers 5. If the model was trained with these rows, write "
                '"tokenizer_class": "PreTrainedTokenizerFast" into tokenizer_config.json.'
            )
        elif different and class_name is None:
            warn(
                f"{path} has another {different} than BERT's, which the tokenizer follows. "
                "BertTokenizer of transformers 5 does not."
            )
        with prefix_errors(f"{path}"):
            return cls(**arguments)

    @classmethod
    def from_folder(
        cls, source: Source, vocab_file: str | os.PathLike[str] | None = None
    ) -> TokenizerSpec:
        """Read the files of a folder or repository.

        Args:
            source: The folder or repository.
            vocab_file: A tokenizer.json or vocab.txt instead of the one there.

        Raises:
            FileNotFoundError: There is no vocabulary.
            ValueError: A file is broken, too large, or for another kind of tokenizer.
        """
        config = rename_older(_read_json(source, "tokenizer_config.json"))
        class_name = config.get("tokenizer_class")
        if class_name is None:  # older repositories name it beside the model's options
            of_model = _read_json(source, "config.json")
            class_name = of_model.get("tokenizer_class") or (_BERT_CLASSES[0] if of_model else None)
        base_name = str(class_name).removesuffix("Fast") if class_name else None
        if base_name not in (*_BERT_CLASSES, *_GENERIC_CLASSES, None):
            raise ValueError(
                f"{source} is for the tokenizer {class_name!s:.80}, but minibert has BERT's "
                "WordPiece only."
            )
        warn_of_code(str(source), config.get("auto_map"), "AutoTokenizer", "BERT's tokenizer")
        path = Path(vocab_file or source.require("tokenizer.json", "vocab.txt"))
        with prefix_errors(f"{source}, tokenizer_config.json"):
            drop_unused({"split_special_tokens": config.get("split_special_tokens")}, KEYWORDS)
            config["chat_template"] = _chat_templates(source, config)
            options = {name: config[name] for name in OPTIONS if config.get(name) is not None}
            special = _named_tokens(config)
            extra = _extra_tokens(config)
            added = _parse_added_tokens(config.get("added_tokens_decoder"))
        if added is None:  # then an older file may say more
            content = rename_older(_read_json(source, "special_tokens_map.json"))
            with prefix_errors(f"{source}, special_tokens_map.json"):
                special |= _named_tokens(content)
                extra += _extra_tokens(content)
        spec = cls.from_file(path, special, base_name)
        if added is None:
            added = {**_older_added_tokens(source, spec, extra), **spec.added_tokens_decoder}
        if base_name in _GENERIC_CLASSES and path.suffix == ".json":
            options = {name: value for name, value in options.items() if name not in SPLITTING}
        with prefix_errors(f"{source}, tokenizer_config.json"):
            return replace(spec, extra_special_tokens=extra, added_tokens_decoder=added, **options)

    def to_folder(
        self, folder: str | os.PathLike[str], template_files_too: bool = True
    ) -> tuple[str, ...]:
        """Write vocab.txt, tokenizer_config.json, special_tokens_map.json and tokenizer.json.

        Args:
            folder: Where to write. Created if it does not exist.
            template_files_too: Chat templates become files of their own, not a field of
                tokenizer_config.json.

        Returns:
            The paths of the files.

        Raises:
            ValueError: The name of a chat template cannot be the name of a file.
        """
        special: dict[str, Any] = {}
        for name, token in self.special_tokens.items():
            if token is not None:
                special[name] = str(token)
        if self.extra_special_tokens:
            special["extra_special_tokens"] = list(map(str, self.extra_special_tokens))
        added = {str(number): asdict(t) for number, t in self.added_tokens_decoder.items()}
        class_name = "BertTokenizer"
        if self.components.source:  # a class of transformers that follows tokenizer.json
            class_name = "PreTrainedTokenizerFast"
        templates = template_files(self.chat_template)
        options = {name: getattr(self, name) for name in OPTIONS if name != "chat_template"}
        if not template_files_too:
            templates = {}
            options |= template_field(self.chat_template)
        contents = {
            "tokenizer_config.json": {
                **options,
                **special,
                "added_tokens_decoder": added,
                "tokenizer_class": class_name,
            },
            "special_tokens_map.json": special,
            "tokenizer.json": tokenizer_json.to_content(self),
        }
        with replacing_model(folder) as written:
            self.write_vocabulary(written / "vocab.txt")
            for filename, content in contents.items():
                write_json(written / filename, content)
            for filename, text in templates.items():
                (written / filename).parent.mkdir(exist_ok=True)
                (written / filename).write_text(text, encoding="utf-8", newline="")
        filenames = ("vocab.txt", *contents, *templates)
        return tuple(str(Path(folder, filename)) for filename in filenames)

    def write_vocabulary(self, path: Path) -> None:
        """Write a vocab.txt file: one token a line, in the order of the ids."""
        tokens = {token_id: token for token, token_id in self.vocab.items()}
        lines = [tokens.get(token_id, "") for token_id in range(max(tokens) + 1)]
        with replacing(path) as temporary:
            text = "".join(f"{line}\n" for line in lines)
            temporary.write_text(text, encoding="utf-8", newline="\n")


# ---- the parts of the files


def _older_added_tokens(
    source: Source, spec: TokenizerSpec, extra: Sequence[AddedToken]
) -> dict[int, AddedToken]:
    """Read added_tokens.json, from before `added_tokens_decoder`, which does not tell the flags."""
    special = {str(token) for token in (*extra, *spec.special_tokens.values())}
    ids = _read_json(source, "added_tokens.json")
    with prefix_errors(f"{source}, added_tokens.json"):
        check_token_ids(ids.values())
        return {
            token_id: AddedToken(token, special=token in special) for token, token_id in ids.items()
        }


def _named_tokens(content: Mapping[str, Any]) -> dict[str, AddedToken]:
    """Return the special tokens that have a role, by its name."""
    return {name: AddedToken.of(content[name]) for name in ALL_NAMED if content.get(name)}


def _extra_tokens(content: Mapping[str, Any]) -> list[AddedToken]:
    """Return the special tokens without a role."""
    tokens = token_list("extra_special_tokens", content.get("extra_special_tokens") or [])
    return [AddedToken.of(token) for token in tokens]


def _parse_added_tokens(decoder: Any) -> dict[int, AddedToken] | None:
    """Return the tokens of `added_tokens_decoder`, whose ids are strings in JSON."""
    if decoder is None:
        return None
    is_mapping = isinstance(decoder, Mapping)
    if not is_mapping or not all(re.fullmatch("[0-9]{1,18}", token_id) for token_id in decoder):
        raise ArgumentError(
            "added_tokens_decoder", f"should give a token for each id, not {decoder!r:.60}."
        )
    added = {int(token_id): AddedToken.of(token) for token_id, token in decoder.items()}
    check_token_ids(added)
    return added


def _chat_templates(source: Source, config: Mapping[str, Any]) -> ChatTemplates:
    """Read the chat templates. Files count before tokenizer_config.json."""
    templates = {}
    default = source.file(TEMPLATE_FILE)
    if default is not None:
        templates["default"] = read_text(default)
    for filename in source.filenames(TEMPLATE_FOLDER):
        path = source.file(f"{TEMPLATE_FOLDER}/{filename}")
        if path is not None and path.suffix == ".jinja":
            templates[path.stem] = read_text(path)
    if not templates:
        return parse_templates(config.get("chat_template"))
    if templates.keys() == {"default"}:
        return templates["default"]
    return templates


def _read_json(source: Source, filename: str) -> dict[str, Any]:
    """Return the content of a file, {} if there is none."""
    path = source.file(filename)
    if path is None:
        return {}
    check_size(path)
    return read_json(path)


def check_size(path: str | os.PathLike[str]) -> None:
    """Check the size of a file before it is read.

    Raises:
        ValueError: It is too large for a vocabulary.
    """
    size = os.stat(path).st_size
    if size > MAX_TOKEN_BYTES * MAX_VOCAB_SIZE:
        raise ValueError(
            f"{path} has {size:,} bytes, too many for a vocabulary of at most {MAX_VOCAB_SIZE:,} "
            "tokens."
        )


def _read_lines(path: str | os.PathLike[str]) -> list[str]:
    try:
        check_size(path)
        text = read_text(path).removesuffix("\n")
    except OSError as error:
        raise FileNotFoundError(f"Cannot read the vocabulary {path}: {error.strerror}.") from None
    if text.startswith("{") and text.rstrip().endswith("}") and '"model"' in text:
        raise ValueError(
            f"{path} is a file of the tokenizers library, and not a list of tokens: call it "
            "tokenizer.json."
        )
    count = text.count("\n") + 1
    if count > MAX_VOCAB_SIZE:
        raise ValueError(
            f"{path} has {count:,} lines, but a vocabulary has at most {MAX_VOCAB_SIZE:,} tokens."
        )
    return [line.rstrip(SPACES) for line in text.split("\n")]


def _enumerate_tokens(tokens: list[str], name: str) -> dict[str, int]:
    ids = {token: token_id for token_id, token in enumerate(tokens)}
    repeated: list[str] = []
    if len(ids) < len(tokens):
        repeated = [token for token, count in Counter(tokens).items() if count > 1 and token]
    if repeated:
        warn(
            f"The vocabulary {name} contains {len(repeated)} tokens more than once, such as "
            f"{repeated[0]!r} as number {tokens.index(repeated[0])}. The last of each counts."
        )
    return ids


def tokenizer_digest(tokenizer: Any) -> hashlib._Hash:
    """Return the SHA-256 of everything that decides the ids of a text."""
    content = tokenizer_json.to_content(tokenizer.spec)
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode())
