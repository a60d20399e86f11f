"""Text to token ids and back.

The whole: `pipeline.py` turns a text into tokens, `vocabulary.py` has their ids, `batch_rows.py`
lays them out:

```
tokenizer("Hello [MASK]!")        [CLS] hello [MASK] ! [SEP]
tokenizer("How?", "Like this.")   [CLS] how ? [SEP] like this . [SEP]      type ids 0 0 0 0 1 1 1 1
```

Next file: basic.py.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, repeat
from pathlib import Path
from typing import Any, TypeVar

from minibert.checkpoints.source import SOURCE_OPTIONS, Source, split_source
from minibert.compat.keywords import check_unused, drop_unused
from minibert.compat.tokenizer_names import (
    KEYWORDS,
    LONG_ROW,
    SAVING_KEYWORDS,
    TokenizerCompatibility,
    rename_older,
)
from minibert.tokenization.added import AddedToken
from minibert.tokenization.basic import BasicTokenizer
from minibert.tokenization.batch_rows import (
    SIDES,
    RowContent,
    RowForm,
    check_rows,
    pad_rows,
    padded_length,
    parse_choice,
    plan_rows,
    resolve_limits,
    split_columns,
)
from minibert.tokenization.encoding import BatchEncoding, Encoding, tensor_type_of
from minibert.tokenization.learning import count_words, learn_vocabulary
from minibert.tokenization.pipeline import Pipeline, Token
from minibert.tokenization.spec import NO_LIMIT, OPTIONS, TokenizerSpec
from minibert.tokenization.tokenizer_json import SPLITTING, Components
from minibert.tokenization.unicode import CJK
from minibert.tokenization.vocabulary import ALL_NAMED, NAMED, Vocabulary, to_list
from minibert.tokenization.wordpiece import WordPiece
from minibert.util.checks import check_count, check_flag, check_kind, type_of, warn
from minibert.util.errors import ArgumentError
from minibert.util.files import prefix_errors
from minibert.util.progress import collector_paused

T = TypeVar("T", bound="BertTokenizer")


class BertTokenizer(TokenizerCompatibility, Vocabulary):
    """Text to token ids and back, as `transformers.BertTokenizer` does it.

    Thread-safe, and can be pickled (for the workers of a data loader).

    >>> tokenizer = BertTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "hello", "!"])
    >>> batch = tokenizer("Hello [MASK]!")
    >>> batch["input_ids"], batch["token_type_ids"], batch["attention_mask"]
    ([2, 5, 4, 6, 3], [0, 0, 0, 0, 0], [1, 1, 1, 1, 1])

    Args:
        vocab: A vocab.txt or tokenizer.json file, a list of tokens, a dict from token to id, or a
            `TokenizerSpec`, which says everything. Other arguments override it.
        do_lower_case: Lower-case the text, as is the default. False for cased vocabularies.
        vocab_file: Another name for `vocab`.
        tokenizer_file: Another name for `vocab`.
        strip_accents: Drop accents, which decomposes Hangul. None does so when lower-casing.
        tokenize_chinese_chars: Make every ideograph a word.
        extra_special_tokens: Further special tokens. Those that the vocabulary lacks get the next
            ids.
        added_tokens_decoder: Id -> added token, as files list them.
        model_max_length: Tokens of the longest row that the model takes.
        padding_side: "right" (the default) or "left".
        truncation_side: "right" (the default) or "left", the side that is truncated.
        clean_up_tokenization_spaces: Let `decode` close the gaps in English "do n't".
        name_or_path: Where the tokenizer came from, for messages.
        model_input_names: The keys of a batch, unless a call requests others.
        components: Parts of a tokenizer.json that differ from BERT's, parsed or as that file has
            them. `tokenizer_json.py` lists them.
        chat_template: A template of Jinja for conversations, or several by name.
        options: `unk_token`, `sep_token`, `pad_token`, `cls_token` and `mask_token` if they are not
            [UNK], [SEP], [PAD], [CLS] and [MASK], also `bos_token`, `eos_token`, and keywords of
            transformers that `compat/tokenizer_names.py` lists.

    Raises:
        FileNotFoundError: The vocabulary file does not exist.
        ValueError: The vocabulary is empty or without `unk_token`, a file is not UTF-8, or an
            argument is unknown.
    """

    model_input_names = ["input_ids", "token_type_ids", "attention_mask"]
    model_max_length: int
    do_lower_case: bool
    strip_accents: bool | None
    tokenize_chinese_chars: bool
    padding_side: str
    truncation_side: str

    def __init__(
        self,
        vocab: str
        | os.PathLike[str]
        | Mapping[str, int]
        | Iterable[str]
        | TokenizerSpec
        | None = None,
        do_lower_case: bool | None = None,
        *,
        vocab_file: str | os.PathLike[str] | None = None,
        tokenizer_file: str | os.PathLike[str] | None = None,
        strip_accents: bool | None = None,
        tokenize_chinese_chars: bool | None = None,
        extra_special_tokens: Iterable[Any] = (),
        added_tokens_decoder: Mapping[int, AddedToken] | None = None,
        model_max_length: int | None = None,
        padding_side: str | None = None,
        truncation_side: str | None = None,
        clean_up_tokenization_spaces: bool | None = None,
        name_or_path: str = "",
        model_input_names: Sequence[str] | None = None,
        components: Components | Mapping[str, Any] | None = None,
        chat_template: str | Mapping[str, str] | None = None,
        **options: Any,
    ) -> None:
        arguments: dict[str, Any] = {
            "do_lower_case": do_lower_case,
            "strip_accents": strip_accents,
            "tokenize_chinese_chars": tokenize_chinese_chars,
            "extra_special_tokens": extra_special_tokens,
            "added_tokens_decoder": added_tokens_decoder,
            "model_max_length": model_max_length,
            "padding_side": padding_side,
            "truncation_side": truncation_side,
            "clean_up_tokenization_spaces": clean_up_tokenization_spaces,
            "model_input_names": model_input_names,
            "chat_template": chat_template,
        }
        known = {*arguments, *ALL_NAMED}
        arguments = rename_older({**arguments, **drop_unused(options, KEYWORDS)})
        for name in sorted(arguments.keys() - known):
            if callable(getattr(self, name, None)):
                raise AttributeError(f"{name} is a method of BertTokenizer, not an argument.")
            raise ValueError(f"BertTokenizer has no argument {name}.")
        special = {name: arguments.pop(name) for name in ALL_NAMED if name in arguments}
        if vocab is None:
            vocab = vocab_file
        if tokenizer_file is not None:
            if vocab is not None:
                raise ValueError("Pass either vocab or tokenizer_file, not both.")
            vocab = TokenizerSpec.from_file(Path(tokenizer_file))
        spec = TokenizerSpec.of(vocab)
        special = {**spec.special_tokens, **special}
        if isinstance(components, Mapping):
            components = Components.parse(components, special)
        arguments["components"] = components
        if spec.model_input_names is None:
            spec = replace(spec, model_input_names=self.model_input_names)
        given = {name: value for name, value in arguments.items() if value not in (None, ())}
        spec = replace(spec, special_tokens=special, **given)

        super().__init__(
            spec.vocab,
            special,
            spec.extra_special_tokens,
            spec.added_tokens_decoder,
            name_or_path,
        )
        for name in OPTIONS:
            setattr(self, name, getattr(spec, name))
        self._components = spec.components
        self.name_or_path = name_or_path
        self._warned_of_length = False
        self._build()
        self._warn_of_case()

    @classmethod
    def from_pretrained(
        cls, pretrained_model_name_or_path: str | os.PathLike[str] | Source, **options: Any
    ) -> BertTokenizer:
        """Load a tokenizer.

        Args:
            pretrained_model_name_or_path: A folder, a bundled model, a Hub id, a `Source`, or one
                vocab.txt or tokenizer.json file.
            options: `revision`, `cache_dir`, `local_files_only`, `token`, `subfolder` as for
                `Source.of`. Everything else is an argument of the constructor, which takes
                precedence over the files (`do_lower_case=False`).

        Returns:
            The tokenizer.

        Raises:
            FileNotFoundError: Nothing has that name, or it has no vocabulary.
            ValueError: Files are broken or for another kind of tokenizer.
        """
        name = pretrained_model_name_or_path
        overrides = drop_unused(options, KEYWORDS)
        file = overrides.pop("tokenizer_file", None)
        if isinstance(name, str | os.PathLike) and os.path.isfile(name):
            overrides = {name: x for name, x in overrides.items() if name not in SOURCE_OPTIONS}
            spec = TokenizerSpec.from_file(Path(file or name))
        else:
            source, overrides = split_source(name, overrides)
            spec = TokenizerSpec.from_folder(source, file)
        with prefix_errors(f"{name}"):
            return cls(**{"vocab": spec, "name_or_path": str(name), **overrides})

    def save_pretrained(
        self, save_directory: str | os.PathLike[str], **options: Any
    ) -> tuple[str, ...]:
        """Write vocab.txt, tokenizer_config.json, special_tokens_map.json and tokenizer.json.

        Args:
            save_directory: Where to write. It is created if it does not exist.
            options: `save_jinja_files=False` writes chat templates into tokenizer_config.json, not
                into files of their own. Keywords of transformers that ask for nothing else, such as
                `push_to_hub=False`.

        Returns:
            Their paths. This class, `transformers` and `tokenizers` load them.

        Raises:
            OSError: A file cannot be written.
            ValueError: An option is not supported, such as `filename_prefix`.
        """
        template_files_too = options.pop("save_jinja_files", True)
        check_unused("save_pretrained", options, SAVING_KEYWORDS)
        return self.spec.to_folder(save_directory, template_files_too)

    def save_vocabulary(
        self, save_directory: str, filename_prefix: str | None = None
    ) -> tuple[str, ...]:
        """Write vocab.txt, without added tokens, into an existing folder.

        Args:
            save_directory: The folder.
            filename_prefix: Begins the name of the file, followed by "-".

        Returns:
            The path of the file.

        Raises:
            FileNotFoundError: The folder does not exist.
        """
        prefix = f"{filename_prefix}-" if filename_prefix else ""
        path = Path(save_directory, f"{prefix}vocab.txt")
        self.spec.write_vocabulary(path)
        return (str(path),)

    @property
    def vocab_file(self) -> str:
        """Not available: a tokenizer keeps tokens, not files.

        Raises:
            AttributeError: Always.
        """
        raise AttributeError(
            "BertTokenizer has no vocab_file, because the vocabulary may come from other files. "
            "Call save_vocabulary(folder), which writes vocab.txt."
        )

    @property
    def spec(self) -> TokenizerSpec:
        """Everything that the files of this tokenizer say, as `save_pretrained` writes it."""
        return TokenizerSpec(
            self.base_vocab,
            {name: getattr(self, name) for name in ALL_NAMED},
            self.extra_special_tokens,
            self.added_tokens_decoder,
            components=self._components,
            **self._options(),
        )

    def _options(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in OPTIONS}

    def __setattr__(self, name: str, value: Any) -> None:
        if name in (*SPLITTING, *NAMED) and "_pipeline" in vars(self):
            # at once, because the copies and files of the tokenizer have it, too
            with self._transaction() as new:
                setattr(new, name, value)
            return
        if name in OPTIONS and "_pipeline" in vars(self):
            value = getattr(replace(self.spec, **{name: value}), name)  # checked
        super().__setattr__(name, value)

    def _build(self) -> None:
        """Build what follows from the other attributes and is not pickled.

        Raises:
            ValueError: The vocabulary is without `unk_token`, or an option is impossible.
        """
        if self.unk_token not in self.base_vocab:
            raise ValueError(
                f"The vocabulary {self.name_or_path or 'given'} has no {self.unk_token!r:.80} for "
                "unknown words. Pass unk_token= with the token that it has for them."
            )
        parts = self._components
        basic = BasicTokenizer(
            self.do_lower_case,
            self.strip_accents,
            self.tokenize_chinese_chars,
            parts.clean_text,
            parts.splitters,
        )
        wordpiece = WordPiece(self.base_vocab, self.unk_token, parts.max_word)
        self._joins_pieces = parts.joins_pieces
        self._closes_gaps = parts.closes_gaps
        self._pipeline = Pipeline(basic, wordpiece, self._added, self._added_ids)
        # ids are decoded as normalized text, as those of pieces are
        normalized = {
            self._added_ids[content]: text
            for content, text in self._pipeline.normalized_contents.items()
        }
        self._by_id = {**self._by_id, **normalized}
        templates = []
        for template in self.spec.templates:
            for token in chain.from_iterable(template.ids):
                if token not in self.base_vocab and token not in self._added_ids:
                    raise ValueError(
                        f"Rows of the tokenizer {self.name_or_path or 'given'} would have "
                        f"{token!r:.80}, which is not in its vocabulary. Add it and enlarge the "
                        'model: tokenizer.add_special_tokens({"sep_token": "..."}), then '
                        "model.resize_token_embeddings(len(tokenizer))."
                    )
            ids = tuple(tuple(self.convert_tokens_to_ids(group)) for group in template.ids)
            templates.append(template._replace(ids=ids))
        self._templates = templates

    @property
    def components(self) -> dict[str, Any]:
        """The parts of tokenizer.json that differ from BERT's, as that file has them."""
        return dict(self._components.source)

    def __getstate__(self) -> dict[str, Any]:
        state = {name: value for name, value in vars(self).items() if name != "_pipeline"}
        # a tokenizer has the same pickle, and so the same fingerprint, before and after a warning
        state["_warned_of_length"] = False
        if not state.get("_deprecation_warnings"):
            state.pop("_deprecation_warnings", None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._build()

    def _warn_of_case(self) -> None:
        """Warn if normalization puts much of the vocabulary out of reach.

        The words of kcbert are cased Hangul, which lower-casing decomposes. Those of a Japanese
        vocabulary have several ideographs.
        """
        words = [token for token in self.base_vocab if token.isalpha()]
        words = words[:: len(words) // 1000 + 1]  # a sample is enough
        normalize = self._pipeline.basic.normalize
        lost = [word for word in words if normalize(word)[0].strip() != word]
        if len(lost) <= len(words) / 20:
            return
        cause = "lower-casing (which also strips accents and decomposes Hangul) changes them"
        advice = "do_lower_case=False for a cased vocabulary"
        if sum(CJK.search(word) is not None for word in lost) > len(lost) / 2:
            cause = "every ideograph becomes a word of its own"
            advice = "tokenize_chinese_chars=False for a vocabulary with longer words"
        warn(
            f"{len(lost) / len(words):.0%} of the words in the vocabulary "
            f"{self.name_or_path or 'given'}, such as {lost[len(lost) // 2]!r}, can never be "
            f"found, because {cause}: pass {advice}."
        )

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(vocab_size={self.vocab_size}, "
            f"model_max_length={self.model_max_length}, do_lower_case={self.do_lower_case})"
        )

    # ---- texts to a batch

    def __call__(
        self,
        text: Any = None,
        text_pair: Any = None,
        *,
        add_special_tokens: bool = True,
        padding: bool | str = False,
        truncation: bool | str | None = None,
        max_length: int | None = None,
        stride: int = 0,
        is_split_into_words: bool = False,
        pad_to_multiple_of: int | None = None,
        padding_side: str | None = None,
        return_tensors: str | None = None,
        return_token_type_ids: bool | None = None,
        return_attention_mask: bool | None = None,
        return_overflowing_tokens: bool = False,
        return_special_tokens_mask: bool = False,
        return_offsets_mapping: bool = False,
        return_length: bool = False,
        verbose: bool = True,
        **ignored: Any,
    ) -> BatchEncoding:
        """Encode a text, a pair of texts, or a batch of either.

        Args:
            text: A text, a list of texts, or a list of pairs of texts.
            text_pair: The second text or texts. An empty one also gets its `[SEP]`.
            add_special_tokens: Put `[CLS]` before and `[SEP]` after texts.
            padding: True or "longest" pads to the longest row of the batch, "max_length" to that
                length, False does not pad.
            truncation: True or "longest_first" truncates the longer text, "only_first" or
                "only_second" that text, False none. None truncates if there is a `max_length` and
                no padding.
            max_length: Tokens of a row with its special tokens, or None for `model_max_length`.
            stride: Tokens that an overflowing row repeats from the row before.
            is_split_into_words: A text is a list of words, and offsets count within each word.
            pad_to_multiple_of: Round up the length of padded rows to a multiple of this.
            padding_side: "right" or "left", or None for that of the tokenizer.
            return_tensors: "pt", "np", or None for lists.
            return_token_type_ids: False leaves them out. None as `model_input_names` has it.
            return_attention_mask: False leaves it out. None as `model_input_names` has it.
            return_overflowing_tokens: Put what is truncated into further rows.
                `overflow_to_sample_mapping` is the index of the text of each row.
            return_special_tokens_mask: Also return 1 for special tokens and padding, 0 for others.
            return_offsets_mapping: Also return the span of each token in its text, `[start, end)`.
            return_length: Also return the length of each row.
            verbose: Warn once about a row that is longer than `model_max_length`.
            ignored: Keywords of transformers that `compat/tokenizer_names.py` lists.

        Returns:
            `input_ids`, `token_type_ids`, `attention_mask` and what was requested, (batch, seq).
            Lists for a single text are (seq).

        Raises:
            TypeError: An unknown keyword.
            ValueError: A value is not a text, or an option is impossible.
        """
        check_unused("BertTokenizer.__call__", ignored, KEYWORDS)
        check_flag("add_special_tokens", add_special_tokens)
        # another thread may add tokens: ids and their origins must come from the same pipeline
        pipeline = self._pipeline

        # 1. Prepare: the texts as columns, and the form of their rows
        columns, is_batch = split_columns(text, text_pair, is_split_into_words)
        template = self._templates[len(columns) - 1]
        if not add_special_tokens:
            template = template.without_special_tokens()
        pad, strategy, limit = resolve_limits(padding, truncation, max_length, self._model_limit())
        form = RowForm(
            template,
            pad,
            strategy,
            limit,
            pad_to_multiple_of,
            self._padding_side(pad, padding_side),
            stride,
            return_overflowing_tokens,
            is_split_into_words,
        )
        # the tokens of each text by column, if their origins are needed: they have the ids, too
        tokens: list[list[list[Token]]] = []

        def encode(texts: list[Any]) -> list[list[int]]:
            if not (return_offsets_mapping or return_special_tokens_mask):
                return pipeline.ids_of_words(texts) if form.are_words else pipeline.ids(texts)
            tokens.append([pipeline.tokens(text) for text in texts])
            return [[token.id for token in row] for row in tokens[-1]]

        with collector_paused():
            # 2. Truncate: ids of the part of each text that a row holds
            ids, contents = self._truncated_ids(pipeline, encode, columns, form)
            # 3. Assemble: rows with special tokens and padding
            rows = template.rows(ids)
            width = self._width(rows, form, verbose)
            side = form.padding_side
            data: dict[str, Any] = {"input_ids": pad_rows(rows, self.pad_token_id, width, side)}
            if self._returns("token_type_ids", return_token_type_ids):
                types = template.rows_of_types(ids)
                data["token_type_ids"] = pad_rows(types, self.pad_token_type_id, width, side)
            if self._returns("attention_mask", return_attention_mask):
                ones = [[1] * len(row) for row in rows]
                data["attention_mask"] = pad_rows(ones, 0, width, side)

        # 4. Build: the batch, which computes the origins of its tokens on first use
        batch = BatchEncoding(
            data, partial(self._encodings, pipeline, columns, contents, form, width, tokens)
        )
        if return_special_tokens_mask:
            batch["special_tokens_mask"] = [row.special_tokens_mask for row in batch.encodings]
        if return_offsets_mapping:
            batch["offset_mapping"] = [row.offsets for row in batch.encodings]
        if return_length:
            batch["length"] = list(map(len, batch["input_ids"]))
        if return_overflowing_tokens:
            batch["overflow_to_sample_mapping"] = [sample for sample, _ in contents]
        elif not is_batch and return_tensors is None:
            for name in batch.keys() - {"length"}:
                batch[name] = batch[name][0]
        return batch.convert_to_tensors(return_tensors)

    encode_plus = batch_encode_plus = __call__  # the names before transformers 5

    def _padding_side(self, padding: str | None, side: str | None) -> str:
        """Return the side of the padding, and check that there is a token for it."""
        if padding and self.pad_token is None:
            raise ValueError("The tokenizer has no token to pad with. Set tokenizer.pad_token.")
        chosen: str = parse_choice("padding_side", side or self.padding_side, SIDES)
        return chosen

    def _truncated_ids(
        self,
        pipeline: Pipeline,
        encode: Callable[[list[Any]], list[list[int]]],
        columns: list[list[Any]],
        form: RowForm,
    ) -> tuple[list[list[list[int]]], list[RowContent]]:
        """Return the ids of each row by column, and which part of its texts each row holds."""
        if form.room is None or form.truncation is None:
            whole = (slice(None),) * len(columns)
            contents = list(zip(range(len(columns[0])), repeat(whole), strict=False))
            return [encode(texts) for texts in columns], contents
        is_cut_at_end = self.truncation_side == "right" and not form.overflow
        if is_cut_at_end and not form.are_words:
            # in place, so that the origins of tokens are computed of the beginnings alone, too
            columns[:] = pipeline.beginnings(columns, form.room, form.truncation)
        ids = [encode(texts) for texts in columns]
        contents = plan_rows(
            [list(map(len, column)) for column in ids],
            form.room,
            form.truncation,
            form.stride,
            self.truncation_side,
            form.overflow,
        )
        cut = []
        for number, column in enumerate(ids):
            cut.append([column[sample][spans[number]] for sample, spans in contents])
        return cut, contents

    def _encodings(
        self,
        pipeline: Pipeline,
        columns: list[list[Any]],
        contents: list[RowContent],
        form: RowForm,
        width: int,
        tokens_of_columns: list[list[list[Token]]],
    ) -> list[Encoding]:
        """Return the rows of a batch token by token, which takes longer than their ids."""
        encodings = []
        tokens: list[list[Token]] = []
        tokenized_sample = None
        with collector_paused():
            for sample, spans in contents:
                if sample != tokenized_sample:  # the windows of a long text come one after another
                    tokens = [column[sample] for column in tokens_of_columns]
                    tokens = tokens or [pipeline.tokens(column[sample]) for column in columns]
                    tokenized_sample = sample
                texts = [row[span] for row, span in zip(tokens, spans, strict=True)]
                encodings.append(self._encoding(texts, form, width))
        return encodings

    def _encoding(self, texts: list[list[Token]], form: RowForm, width: int) -> Encoding:
        """Return one row token by token. `texts` are the tokens of its texts."""
        template = form.template

        def pad(row: list[Any], value: Any) -> list[Any]:
            return pad_rows([row], value, width, form.padding_side)[0]

        special = [[Token(token_id) for token_id in group] for group in template.ids]
        row = pad(template.assemble(texts, special), Token(self.pad_token_id))
        numbers = [[number] * len(tokens) for number, tokens in enumerate(texts)]
        sequences = template.assemble(numbers, template.fill_special(None))
        type_ids = template.type_ids([len(tokens) for tokens in texts])
        ids = [token.id for token in row]
        return Encoding(
            ids=ids,
            type_ids=pad(type_ids, self.pad_token_type_id),
            tokens=self._tokens_of(ids),
            offsets=[(token.start, token.end) for token in row],
            word_ids=[None if token.word < 0 else token.word for token in row],
            sequence_ids=pad(sequences, None),
            special_tokens_mask=[int(token.word < 0) for token in row],
            attention_mask=pad([1] * len(sequences), 0),
        )

    def _returns(self, name: str, is_requested: bool | None) -> bool:
        if is_requested is None:
            return name in self.model_input_names
        return is_requested

    def _model_limit(self) -> int | None:
        limit: int = self.model_max_length
        if limit < NO_LIMIT:
            return limit
        return None

    def _width(self, rows: list[list[int]], form: RowForm, verbose: bool) -> int:
        """Return the length that rows are padded to, or 0 for no padding. Warn about long rows."""
        longest = max(map(len, rows), default=0)
        is_too_long = form.max_length is None and longest > self.model_max_length
        is_silenced = vars(self).get("_deprecation_warnings", {}).get(LONG_ROW, False)
        if verbose and is_too_long and not self._warned_of_length and not is_silenced:
            self._warned_of_length = True
            warn(
                f"A text has {longest} tokens, but the model takes {self.model_max_length}: pass "
                "truncation=True."
            )
        return padded_length(longest, form.padding, form.max_length, form.multiple)

    # ---- shorter ways

    def rows(self, texts: Iterable[str]) -> list[list[int]]:
        """Return the ids of each text with [CLS] and [SEP], of any length.

        This is the fast path, without the options of a call.

        Args:
            texts: Single texts.

        Returns:
            A list of ids for each text.

        Raises:
            ValueError: Rows do not have one special token before and one after their text.
        """
        template = self._templates[0]
        if tuple(map(len, template.ids)) != (1, 1):
            raise ValueError(
                "Rows should have one special token before and one after their text, but the "
                f"post_processor of {self.name_or_path or 'the tokenizer'} adds "
                f"{template.special_count} in all."
            )
        ((begin,), (end,)) = template.ids
        with collector_paused():
            return [[begin, *ids, end] for ids in self._pipeline.ids(texts)]

    def pair_row(
        self, first: list[int], second: list[int], max_length: int
    ) -> tuple[list[int], list[int]]:
        """Return the row of two texts that have been tokenized, truncated as a call truncates it.

        Args:
            first: Ids of the first text, without special tokens.
            second: Ids of the second text.
            max_length: Tokens of the row, special tokens included. The longer text is truncated.

        Returns:
            (ids, token types) of the row. The types are all 0 where `model_input_names` lacks them.

        Raises:
            ValueError: The special tokens alone are more than `max_length`.
        """
        template = self._templates[1]
        room = max_length - template.special_count
        if room < 0:
            raise ArgumentError(
                "max_length",
                f"is {max_length}, but the special tokens take {template.special_count}.",
            )
        lengths = [[len(first)], [len(second)]]
        ((_, spans),) = plan_rows(
            lengths, room, "longest_first", 0, self.truncation_side, overflow=False
        )
        texts = [first[spans[0]], second[spans[1]]]
        ids = template.assemble(texts, template.ids)
        if not self._returns("token_type_ids", None):
            return ids, [0] * len(ids)
        return ids, template.type_ids([*map(len, texts)])

    def encode(self, text: Any, text_pair: Any = None, **options: Any) -> Any:
        """Return the ids of a text or a pair of texts.

        Args:
            text: A text.
            text_pair: A second text.
            options: As for calling the tokenizer.

        Returns:
            The ids, as a list or as `return_tensors` asks.
        """
        return self(text, text_pair, **options)["input_ids"]

    def tokenize(
        self,
        text: str | Sequence[str],
        pair: str | Sequence[str] | None = None,
        add_special_tokens: bool = False,
        **options: Any,
    ) -> list[str]:
        """Return the tokens of a text as strings: "I love Korea" -> ["i", "love", "korea"].

        Args:
            text: A text, or a list of words with `is_split_into_words=True`.
            pair: A second text.
            add_special_tokens: Put `[CLS]` before and `[SEP]` after texts.
            options: As for calling the tokenizer, such as `truncation` and `max_length`.

        Raises:
            ValueError: `text` is a list of texts.
        """
        if not isinstance(text, str) and not options.get("is_split_into_words"):
            raise ValueError(
                f"tokenize() takes a single text, but got {type_of(text)}. For several "
                "texts use [tokenizer.tokenize(text) for text in texts]. For the words of a text "
                "pass is_split_into_words=True."
            )
        ids = self.encode(text, pair, add_special_tokens=add_special_tokens, **options)
        tokens: list[str] = self.convert_ids_to_tokens(ids)
        return tokens

    def pad(
        self,
        encoded_inputs: Any,
        padding: bool | str = True,
        max_length: int | None = None,
        pad_to_multiple_of: int | None = None,
        padding_side: str | None = None,
        return_attention_mask: bool | None = None,
        return_tensors: str | None = None,
        verbose: bool = True,
    ) -> BatchEncoding:
        """Pad rows that were encoded one by one, as the `collate_fn` of a data loader does.

        Args:
            encoded_inputs: A batch, or a list of results of the tokenizer for single texts. Labels
                and other values that are not the tokenizer's are collected as they are.
            padding: As for calling the tokenizer.
            max_length: The length for `padding="max_length"`.
            pad_to_multiple_of: Round up the length to a multiple of this.
            padding_side: "right" or "left", or None for that of the tokenizer.
            return_attention_mask: False adds no attention mask if there is none.
            return_tensors: "pt", "np", or None for what the rows are: tensors, arrays or lists.
            verbose: Without effect: padding warns of nothing.

        Returns:
            The padded batch, with values (batch, seq).

        Raises:
            ValueError: `input_ids` are missing, or an option is impossible.
        """
        if isinstance(encoded_inputs, Mapping):
            batch = {name: to_list(values) for name, values in encoded_inputs.items()}
        else:
            check_rows(encoded_inputs)
            names = encoded_inputs[0] if encoded_inputs else ["input_ids"]
            batch = {name: [to_list(row[name]) for row in encoded_inputs] for name in names}
        if return_tensors is None and encoded_inputs:
            first = encoded_inputs if isinstance(encoded_inputs, Mapping) else encoded_inputs[0]
            return_tensors = tensor_type_of(first.get("input_ids"))
        if "input_ids" not in batch:
            raise ValueError(f"pad() needs input_ids, but got {', '.join(batch) or 'nothing'}.")
        check_kind("input_ids", batch["input_ids"], list, "ids, or a list of ids for each row")
        is_single = bool(batch["input_ids"]) and not isinstance(batch["input_ids"][0], list)
        if is_single:
            batch = {name: [values] for name, values in batch.items()}
        rows = batch["input_ids"]
        if self._returns("attention_mask", return_attention_mask):
            batch.setdefault("attention_mask", [[1] * len(row) for row in rows])
        pad, _, limit = resolve_limits(padding, False, max_length, self._model_limit())
        side = self._padding_side(pad, padding_side)
        width = padded_length(max(map(len, rows), default=0), pad, limit, pad_to_multiple_of)
        fill_values: dict[str, Any] = {
            "input_ids": self.pad_token_id,
            "token_type_ids": self.pad_token_type_id,
            "attention_mask": 0,
            "special_tokens_mask": 1,
            "offset_mapping": (0, 0),
        }
        for name, value in fill_values.items():
            if name in batch:
                batch[name] = pad_rows(batch[name], value, width, side)
        if is_single:
            batch = {name: values[0] for name, values in batch.items()}
        return BatchEncoding(batch).convert_to_tensors(return_tensors)

    def train_new_from_iterator(
        self: T,
        text_iterator: Iterable[Any],
        vocab_size: int,
        length: int | None = None,
        new_special_tokens: Sequence[Any] | None = None,
        special_tokens_map: Mapping[str, str] | None = None,
        **options: Any,
    ) -> T:
        """Return a tokenizer that splits text as this one does, with a vocabulary of other texts.

        Args:
            text_iterator: Texts, or batches of texts.
            vocab_size: Upper limit of the size of the vocabulary, with special tokens.
            length: Without effect. It exists in transformers for a progress bar.
            new_special_tokens: Special tokens besides those of this tokenizer.
            special_tokens_map: New names of special tokens, `{"[MASK]": "<mask>"}`.
            options: `min_frequency` and further arguments of the library's `WordPieceTrainer`.

        Raises:
            ImportError: `tokenizers` is not installed (extra `[train]`).
            ValueError: `vocab_size` has no room for letters beside the special tokens.
        """
        renamed = dict(special_tokens_map or {})
        named: dict[str, Any] = {
            name: renamed.get(token, token) for name, token in self.special_tokens_map.items()
        }
        new = [AddedToken.of(token) for token in new_special_tokens or ()]
        special = []
        for token in self.added_tokens_decoder.values():
            if token.special:
                special.append(renamed.get(token.content, token.content))
        special = list(dict.fromkeys([*special, *map(str, new), *named.values()]))
        check_count("vocab_size", vocab_size, minimum=len(special) + 2)  # and some letters

        batches = ([item] if isinstance(item, str) else item for item in text_iterator)
        words = count_words(chain.from_iterable(batches), self._pipeline.basic)
        options = {"min_frequency": 0, **options}
        tokens = learn_vocabulary(words, vocab_size, special, **options)
        extra = [*(renamed.get(token, token) for token in self.extra_special_tokens), *new]
        spec = TokenizerSpec.of(tokens)
        spec = replace(spec, components=self._components, **self._options())
        return type(self)(vocab=spec, extra_special_tokens=extra, **named)
