"""Text to token ids and back.

The whole: `pipeline` turns a text into tokens, `vocabulary` knows their ids, `rows` lays them out:

```
tokenizer("Hello [MASK]!")        [CLS] hello [MASK] ! [SEP]
tokenizer("How?", "Like this.")   [CLS] how ? [SEP] like this . [SEP]      type ids 0 0 0 0 1 1 1 1
```
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from minibert.checkpoints.source import Source, split_source
from minibert.checks import check_count
from minibert.compat.keywords import drop_ignored_keywords
from minibert.files import prefix_errors
from minibert.progress import collector_paused
from minibert.tokenization import files
from minibert.tokenization.added import AddedToken
from minibert.tokenization.basic import BasicTokenizer
from minibert.tokenization.compatibility import (
    REFUSED,
    WITHOUT_EFFECT,
    TokenizerProtocol,
    encode_with_targets,
)
from minibert.tokenization.encoding import BatchEncoding, Encoding
from minibert.tokenization.pipeline import Pipeline, Token
from minibert.tokenization.rows import (
    SIDES,
    assemble,
    columns_of,
    limits,
    option,
    pad_rows,
    plan_rows,
    type_ids,
)
from minibert.tokenization.vocabulary import ALL_NAMED, NAMED, listed, to_list
from minibert.tokenization.wordpiece import WordPiece

_NO_LIMIT = int(1e30)  # model_max_length where nobody gave one, as the official files write it


class BertTokenizer(TokenizerProtocol):
    """Text to token ids and back, as `transformers.BertTokenizer` does it.

    Safe to share between threads and to pickle (data loader workers).

    >>> tokenizer = BertTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "hello", "!"])
    >>> tokenizer("Hello [MASK]!")
    {'input_ids': [2, 5, 4, 6, 3], 'token_type_ids': [0, 0, 0, 0, 0], 'attention_mask': [1, 1, 1, 1, 1]}

    Args:
        vocab: a vocab.txt file, a list of tokens, or a dict from token to id.
        do_lower_case: lower-case the text; False for cased vocabularies.
        vocab_file: another name for `vocab`.
        strip_accents: drop accents, which takes Hangul apart; None does so when lower-casing.
        tokenize_chinese_chars: make every ideograph a word.
        extra_special_tokens: further special tokens; those that the vocabulary lacks get the next ids.
        added_tokens_decoder: id -> token for added tokens that are known from files.
        model_max_length: tokens that the model takes.
        padding_side: "right" or "left".
        truncation_side: "right" or "left", the side that is cut off.
        clean_up_tokenization_spaces: let `decode` close the gaps in English "do n't".
        name_or_path: where it came from, for messages.
        model_input_names: what a batch holds if nothing else is asked for.
        options: `unk_token`, `sep_token`, `pad_token`, `cls_token`, `mask_token` where they are not [UNK]...;
            `bos_token` and `eos_token`; and keywords of the reference as `compatibility.py` lists them.

    Raises:
        FileNotFoundError: no such vocabulary file.
        ValueError: an empty vocabulary, one without `unk_token`, a file that is not UTF-8, or an unknown argument.
    """

    model_input_names = ["input_ids", "token_type_ids", "attention_mask"]

    def __init__(
        self,
        vocab: str | os.PathLike[str] | Mapping[str, int] | Iterable[str] | None = None,
        do_lower_case: bool = True,
        *,
        vocab_file: str | os.PathLike[str] | None = None,
        strip_accents: bool | None = None,
        tokenize_chinese_chars: bool = True,
        extra_special_tokens: Iterable[Any] = (),
        added_tokens_decoder: Mapping[int, AddedToken] | None = None,
        model_max_length: int | None = None,
        padding_side: str = "right",
        truncation_side: str = "right",
        clean_up_tokenization_spaces: bool = False,
        name_or_path: str = "",
        model_input_names: Sequence[str] | None = None,
        **options: Any,
    ) -> None:
        options = drop_ignored_keywords(options, WITHOUT_EFFECT, REFUSED)
        for name in sorted(options.keys() - set(ALL_NAMED)):
            if callable(getattr(self, name, None)):
                raise AttributeError(f"{name} is a method of BertTokenizer, not an argument.")
            raise ValueError(f"BertTokenizer has no argument {name}.")
        named = {name: f"[{name.removesuffix('_token').upper()}]" for name in NAMED} | options
        vocab = vocab_file if vocab is None else vocab
        super().__init__(vocab, named, extra_special_tokens, added_tokens_decoder, name_or_path)
        self.do_lower_case = do_lower_case
        self.strip_accents = strip_accents
        self.tokenize_chinese_chars = tokenize_chinese_chars
        self.model_max_length = _NO_LIMIT if model_max_length is None else model_max_length
        self.padding_side, self.truncation_side = padding_side, truncation_side
        self.clean_up_tokenization_spaces = clean_up_tokenization_spaces
        self.name_or_path = name_or_path
        if model_input_names is not None:
            self.model_input_names = listed("model_input_names", model_input_names)
        files.check_options(self._options())
        self.model_max_length = int(min(self.model_max_length, _NO_LIMIT))
        self._warned_of_length = False
        self._prepare()
        self._warn_of_case()

    @classmethod
    def from_pretrained(
        cls, pretrained_model_name_or_path: str | os.PathLike[str] | Source, **options: Any
    ) -> BertTokenizer:
        """Loads a tokenizer.

        Args:
            pretrained_model_name_or_path: a folder, a bundled model, a Hub id, a `Source`, or one vocab.txt or
                tokenizer.json file.
            options: `revision`, `cache_dir`, `local_files_only`, `token`, `subfolder` as for `Source.of`; anything else
                is an argument of the constructor that goes before what the files say (`do_lower_case=False`).

        Raises:
            FileNotFoundError: nothing of that name, or no vocabulary in it.
            ValueError: files that are broken or for another kind of tokenizer.
        """
        name = pretrained_model_name_or_path
        overrides = drop_ignored_keywords(options, WITHOUT_EFFECT, REFUSED)
        if not isinstance(name, Source) and Path(name).is_file():
            overrides.pop("subfolder", None)
            settings = files.read_file(Path(name))
        else:
            source, overrides = split_source(name, overrides)
            settings = files.read_source(source)
        if tokenizer_file := overrides.pop("tokenizer_file", None):
            settings |= files.read_file(Path(tokenizer_file))
        if "additional_special_tokens" in overrides:  # what extra_special_tokens were called before
            overrides["extra_special_tokens"] = overrides.pop("additional_special_tokens")
        with prefix_errors(f"{name}"):
            return cls(**{**settings, "name_or_path": str(name), **overrides})

    def save_pretrained(self, folder: str | os.PathLike[str]) -> tuple[str, ...]:
        """Writes vocab.txt, tokenizer_config.json, special_tokens_map.json and tokenizer.json.

        Returns:
            Their paths. This class, `transformers` and `tokenizers` load them.
        """
        return files.write(self, self._options(), Path(folder))

    def _options(self) -> dict[str, Any]:
        """The choices beside the vocabulary."""
        return {name: getattr(self, name) for name in files.OPTIONS}

    def _prepare(self) -> None:
        """Puts together what follows from the rest and is not pickled."""
        basic = BasicTokenizer(self.do_lower_case, self.strip_accents, self.tokenize_chinese_chars)
        wordpiece = WordPiece(self.base_vocab, self.unk_token)
        self._pipeline = Pipeline(basic, wordpiece, self._added, self._added_ids)
        normalized = {
            self._added_ids[token]: text
            for token, text in self._pipeline.normalized_contents.items()
        }
        self._by_id = {
            **self._by_id,
            **normalized,
        }  # ids are decoded as normalized text, as those of pieces are

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_pipeline"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._prepare()

    def _warn_of_case(self) -> None:
        """Warns when normalising puts much of the vocabulary out of reach, as lower-casing does to kcbert's."""
        words = [token for token in self.base_vocab if token.isalpha()]
        words = words[:: len(words) // 1000 + 1]  # a sample is enough
        lost = [word for word in words if self._pipeline.basic.normalize(word)[0].strip() != word]
        if len(lost) > len(words) / 20:
            warnings.warn(
                f"{len(lost) / len(words):.0%} of the words in the vocabulary {self.name_or_path or 'given'}, such as "
                f"{lost[len(lost) // 2]!r}, can never be found, because lower-casing (which also strips accents and "
                "takes Hangul apart) changes them: pass do_lower_case=False for a cased vocabulary.",
                stacklevel=3,
            )

    # texts to a batch

    def __call__(
        self,
        text: Any = None,
        text_pair: Any = None,
        text_target: Any = None,
        text_pair_target: Any = None,
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
        max_target_length: int | None = None,
        **unused: Any,
    ) -> BatchEncoding:
        """Encodes a text, a pair of texts, or a batch of either.

        Args:
            text: a text, a list of texts, or a list of pairs of texts.
            text_pair: the second text or texts; an empty one has its `[SEP]` all the same.
            text_target: a text or texts whose ids become `labels`.
            text_pair_target: the second of these.
            add_special_tokens: put `[CLS]` before and `[SEP]` after texts.
            padding: True or "longest" fills up to the longest row of the batch, "max_length" to that, False nothing.
            truncation: True or "longest_first" truncates the longer text, "only_first" or "only_second" that one, False
                none; None truncates when there is a `max_length` and no padding.
            max_length: tokens of a row with its special tokens; None for `model_max_length`.
            stride: tokens that an overflowing row repeats from the row before.
            is_split_into_words: a text is a list of words, and offsets count within each word.
            pad_to_multiple_of: rounds up the length that is padded to.
            padding_side: "right" or "left"; None for the tokenizer's own.
            return_tensors: "pt", "np", or None for lists.
            return_token_type_ids: False leaves them out.
            return_attention_mask: False leaves it out.
            return_overflowing_tokens: what is cut off follows in further rows; `overflow_to_sample_mapping` tells
                which text each row is of.
            return_special_tokens_mask: also 1 for what was added to the text.
            return_offsets_mapping: also where each token lies in its text, `[start, end)`.
            return_length: also the length of each row.
            verbose: warn of a row longer than `model_max_length`, once.
            max_target_length: `max_length` of target texts where it is another.
            unused: keywords of the reference as `compatibility.py` lists them.

        Returns:
            `input_ids`, `token_type_ids`, `attention_mask` and what was asked for, (batch, seq); lists for a single
            text are (seq).

        Raises:
            ValueError: something that is not a text, an impossible option, or a limit that cannot be kept.
        """
        if unused and (unused := drop_ignored_keywords(unused, WITHOUT_EFFECT, REFUSED)):
            raise TypeError(
                f"BertTokenizer.__call__() got an unexpected keyword argument {min(unused)!r}"
            )
        if text_target is not None:
            return encode_with_targets(
                **{name: value for name, value in locals().items() if name != "unused"}
            )
        pipeline = (
            self._pipeline
        )  # another thread may add tokens: ids and their origins have to belong together
        columns, batched = columns_of(text, text_pair, is_split_into_words)
        pad, strategy, max_length = limits(padding, truncation, max_length, self._model_limit())
        side = option("padding_side", padding_side or self.padding_side, SIDES)
        begin, end = ([self.cls_token_id], [self.sep_token_id]) if add_special_tokens else ([], [])
        layout = None  # what each row holds of which texts, where they are truncated
        if strategy and max_length is not None:
            check_count("stride", stride, minimum=0)
            room = max_length - len(begin) - len(end) * len(columns)
            if room < 0:
                raise ValueError(
                    f"max_length is {max_length}, but the special tokens take {max_length - room}."
                )
            if pad and max_length % (pad_to_multiple_of or 1):
                raise ValueError(
                    f"max_length={max_length} is not a multiple of {pad_to_multiple_of=}."
                )
            if (
                not is_split_into_words
                and not return_overflowing_tokens
                and self.truncation_side == "right"
            ):
                columns = pipeline.beginnings(columns, room, strategy)
        with collector_paused():
            encode = pipeline.ids_of_words if is_split_into_words else pipeline.ids
            ids = [encode(texts) for texts in columns]
            if strategy and max_length is not None:
                lengths = [list(map(len, rows)) for rows in ids]
                layout = plan_rows(
                    lengths, room, strategy, stride, self.truncation_side, return_overflowing_tokens
                )
                ids = [
                    [rows[sample][held[n]] for sample, held in layout] for n, rows in enumerate(ids)
                ]
            rows = [assemble(parts, begin, end) for parts in zip(*ids, strict=True)]
            width = self._width(rows, pad, max_length, pad_to_multiple_of, verbose)
            data: dict[str, Any] = {"input_ids": pad_rows(rows, self.pad_token_id, width, side)}
            if self._returns("token_type_ids", return_token_type_ids):
                types = [type_ids(parts, len(begin)) for parts in zip(*ids, strict=True)]
                data["token_type_ids"] = pad_rows(types, self.pad_token_type_id, width, side)
            if self._returns("attention_mask", return_attention_mask):
                data["attention_mask"] = pad_rows([[1] * len(row) for row in rows], 0, width, side)

        def encodings() -> list[Encoding]:
            whole = (slice(None),) * len(columns)
            contents = layout or [(sample, whole) for sample in range(len(columns[0]))]
            texts = (
                [
                    pipeline.tokens(column[sample])[span]
                    for column, span in zip(columns, held, strict=True)
                ]
                for sample, held in contents
            )
            return [self._encoding(parts, add_special_tokens, width, side) for parts in texts]

        batch = BatchEncoding(data, encodings)
        if return_special_tokens_mask:
            batch["special_tokens_mask"] = [row.special_tokens_mask for row in batch.encodings]
        if return_offsets_mapping:
            batch["offset_mapping"] = [row.offsets for row in batch.encodings]
        if return_length:
            batch["length"] = [len(row) for row in batch["input_ids"]]
        if return_overflowing_tokens:
            batch["overflow_to_sample_mapping"] = (
                [sample for sample, _ in layout] if layout else [*range(len(rows))]
            )
        elif not batched and return_tensors is None:
            batch.update({name: value[0] for name, value in batch.items() if name != "length"})
        return batch.convert_to_tensors(return_tensors)

    encode_plus = batch_encode_plus = __call__  # what it was called before transformers 5

    def rows(self, texts: Iterable[str]) -> list[list[int]]:
        """The ids of each text between [CLS] and [SEP], however long it is: the short way to what most calls want."""
        begin, end = self.cls_token_id, self.sep_token_id
        with collector_paused():
            return [[begin, *ids, end] for ids in self._pipeline.ids(texts)]

    def encode(self, text: Any, text_pair: Any = None, **options: Any) -> Any:
        """The ids of a text or a pair of texts; options as for calling the tokenizer."""
        return self(text, text_pair, **options)["input_ids"]

    def tokenize(
        self, text: str, pair: str | None = None, add_special_tokens: bool = False
    ) -> list[str]:
        """The tokens of a text as strings: "I love Korea" -> ["i", "love", "korea"]."""
        tokens: list[str] = self.convert_ids_to_tokens(
            self.encode(text, pair, add_special_tokens=add_special_tokens)
        )
        return tokens

    def _returns(self, name: str, asked: bool | None) -> bool:
        return name in self.model_input_names if asked is None else asked

    def _model_limit(self) -> int | None:
        return self.model_max_length if self.model_max_length < _NO_LIMIT else None

    def _width(
        self,
        rows: list[list[int]],
        pad: str | None,
        max_length: int | None,
        multiple: int | None,
        verbose: bool,
    ) -> int:
        """The length to fill rows up to; 0 for none."""
        if pad and self.pad_token is None:
            raise ValueError("There is no token to pad with; set tokenizer.pad_token.")
        if multiple is not None:
            check_count("pad_to_multiple_of", multiple)
        longest = max(map(len, rows), default=0)
        if (
            verbose
            and max_length is None
            and longest > self.model_max_length
            and not self._warned_of_length
        ):
            self._warned_of_length = True
            warnings.warn(
                f"A text has {longest} tokens, but the model takes {self.model_max_length}: pass truncation=True.",
                stacklevel=3,
            )
        width = 0 if pad is None else longest if pad == "longest" else max_length or 0
        return width + -width % (multiple or 1)

    def _encoding(self, parts: list[list[Token]], special: bool, width: int, side: str) -> Encoding:
        """One row, token by token."""
        begin, end = (
            ([Token(self.cls_token_id)], [Token(self.sep_token_id)]) if special else ([], [])
        )
        (row,) = pad_rows([assemble(parts, begin, end)], Token(self.pad_token_id), width, side)
        texts = [[number] * len(part) for number, part in enumerate(parts)]
        sequences: list[int | None] = assemble(texts, [None] * len(begin), [None] * len(end))
        ids = [token.id for token in row]
        return Encoding(
            ids=ids,
            type_ids=pad_rows([type_ids(parts, len(begin))], self.pad_token_type_id, width, side)[
                0
            ],
            tokens=self.convert_ids_to_tokens(ids),
            offsets=[(token.start, token.end) for token in row],
            word_ids=[None if token.word < 0 else token.word for token in row],
            sequence_ids=pad_rows([sequences], None, width, side)[0],
            special_tokens_mask=[int(token.word < 0) for token in row],
            attention_mask=pad_rows([[1] * len(sequences)], 0, width, side)[0],
        )

    def pad(
        self,
        encoded_inputs: Any,
        padding: bool | str = True,
        max_length: int | None = None,
        pad_to_multiple_of: int | None = None,
        padding_side: str | None = None,
        return_attention_mask: bool | None = None,
        return_tensors: str | None = None,
    ) -> BatchEncoding:
        """Fills up rows that were encoded one by one, as a data loader's `collate_fn` does.

        Args:
            encoded_inputs: a batch, or a list of what the tokenizer gave for single texts. Labels and other things
                that are not the tokenizer's are put together as they are.
            padding: as for calling the tokenizer.
            max_length: the length for `padding="max_length"`.
            pad_to_multiple_of: rounds the length up.
            padding_side: "right" or "left"; None for the tokenizer's own.
            return_attention_mask: False adds no attention mask where there is none.
            return_tensors: "pt", "np", or None for lists.

        Raises:
            ValueError: no `input_ids`, or an impossible option.
        """
        if isinstance(encoded_inputs, Mapping):
            batch = {name: to_list(values) for name, values in encoded_inputs.items()}
        else:
            names = encoded_inputs[0] if encoded_inputs else ["input_ids"]
            batch = {name: [to_list(row[name]) for row in encoded_inputs] for name in names}
        if "input_ids" not in batch:
            raise ValueError(
                f"pad() needs input_ids, but was given {', '.join(batch) or 'nothing'}."
            )
        single = bool(batch["input_ids"]) and not isinstance(batch["input_ids"][0], list)
        if single:
            batch = {name: [values] for name, values in batch.items()}
        if self._returns("attention_mask", return_attention_mask):
            batch.setdefault("attention_mask", [[1] * len(row) for row in batch["input_ids"]])
        side = option("padding_side", padding_side or self.padding_side, SIDES)
        pad, _, max_length = limits(padding, False, max_length, self._model_limit())
        width = self._width(batch["input_ids"], pad, max_length, pad_to_multiple_of, verbose=False)
        fills: dict[str, Any] = {
            "input_ids": self.pad_token_id,
            "token_type_ids": self.pad_token_type_id,
        }
        fills |= {"attention_mask": 0, "special_tokens_mask": 1, "offset_mapping": (0, 0)}
        batch |= {
            name: pad_rows(batch[name], fill, width, side)
            for name, fill in fills.items()
            if name in batch
        }
        if single:
            batch = {name: values[0] for name, values in batch.items()}
        return BatchEncoding(batch).convert_to_tensors(return_tensors)
