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

from minibert.files import Source, split_source
from minibert.tokenization import files
from minibert.tokenization.added import AddedToken
from minibert.tokenization.basic import BasicTokenizer
from minibert.tokenization.encoding import BatchEncoding, Encoding
from minibert.tokenization.pipeline import Pipeline, Token
from minibert.tokenization.rows import (
    RowContent,
    assemble,
    collector_paused,
    columns_of,
    pad_rows,
    plan_rows,
    type_ids,
)
from minibert.tokenization.vocabulary import NAMED, Vocabulary, to_list
from minibert.tokenization.wordpiece import WordPiece

_NO_LIMIT = int(1e30)  # model_max_length where nobody gave one, as the official files write it
_PADDING: dict[Any, Any] = {False: None, "do_not_pad": None, True: "longest", "longest": "longest"}
_PADDING["max_length"] = "max_length"
_TRUNCATION: dict[Any, Any] = {None: None, False: None, "do_not_truncate": None, True: "longest_first"}
_TRUNCATION |= {name: name for name in ("longest_first", "only_first", "only_second")}
_SIDES = {"right": "right", "left": "left"}


class BertTokenizer(Vocabulary):
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
        added_tokens: id -> token for added tokens that are known from files.
        model_max_length: tokens that the model takes.
        padding_side: "right" or "left".
        truncation_side: "right" or "left", the side that is cut off.
        clean_up_tokenization_spaces: let `decode` close the gaps in English "do n't".
        name_or_path: where it came from, for messages.
        special_tokens: `unk_token`, `sep_token`, `pad_token`, `cls_token`, `mask_token` where they are not [UNK]...

    Raises:
        FileNotFoundError: no such vocabulary file.
        ValueError: an empty vocabulary, one without `unk_token`, a file that is not UTF-8, or an unknown argument.
    """

    model_input_names = ("input_ids", "token_type_ids", "attention_mask")
    is_fast = True  # as transformers says that offsets and word numbers are to be had

    def __init__(
        self,
        vocab: str | os.PathLike[str] | Mapping[str, int] | Iterable[str] | None = None,
        do_lower_case: bool = True,
        *,
        vocab_file: str | os.PathLike[str] | None = None,
        strip_accents: bool | None = None,
        tokenize_chinese_chars: bool = True,
        extra_special_tokens: Iterable[Any] = (),
        added_tokens: Mapping[int, AddedToken] | None = None,
        model_max_length: int | None = None,
        padding_side: str = "right",
        truncation_side: str = "right",
        clean_up_tokenization_spaces: bool = False,
        name_or_path: str = "",
        **special_tokens: Any,
    ) -> None:
        if unknown := special_tokens.keys() - set(NAMED):
            raise ValueError(f"BertTokenizer has no argument {', '.join(sorted(unknown))}.")
        named = {name: f"[{name.removesuffix('_token').upper()}]" for name in NAMED} | special_tokens
        vocab = vocab_file if vocab is None else vocab
        super().__init__(vocab, named, extra_special_tokens, added_tokens, name_or_path)
        self.do_lower_case = do_lower_case
        self.strip_accents = strip_accents
        self.tokenize_chinese_chars = tokenize_chinese_chars
        for flag in ("do_lower_case", "strip_accents", "tokenize_chinese_chars"):
            if not isinstance(value := getattr(self, flag), bool | int | None):
                raise ValueError(f"{flag} should be true or false, not {value!r}.")
        length = _NO_LIMIT if model_max_length is None else model_max_length
        if not isinstance(length, int | float) or not length >= 0:
            raise ValueError(f"model_max_length should be a number of tokens, not {length!r}.")
        self.model_max_length = int(min(length, _NO_LIMIT))
        self.padding_side = _option("padding_side", padding_side, _SIDES)
        self.truncation_side = _option("truncation_side", truncation_side, _SIDES)
        self.clean_up_tokenization_spaces = clean_up_tokenization_spaces
        self.name_or_path = name_or_path
        self._warned_of_length = False
        self._prepare()
        self._warn_of_case()

    @classmethod
    def from_pretrained(
        cls,
        name: str | os.PathLike[str] | Source,
        *,
        use_fast: bool = True,
        **options: Any,
    ) -> BertTokenizer:
        """Loads a tokenizer.

        Args:
            name: a folder, a bundled model, a Hub id, a `Source`, or one vocab.txt or tokenizer.json file.
            use_fast: without effect; there is one implementation.
            options: `revision`, `cache_dir`, `local_files_only` and `token` as in `Source`; anything else is an
                argument of the constructor that goes before what the files say (`do_lower_case=False`).

        Raises:
            FileNotFoundError: nothing of that name, or no vocabulary in it.
            ValueError: files that are broken or for another kind of tokenizer.
        """
        if not isinstance(name, Source) and Path(name).is_file():
            settings, overrides = files.read_file(Path(name)), options
        else:
            source, overrides = split_source(name, options)
            settings = files.read_source(source)
        if "additional_special_tokens" in overrides:  # what extra_special_tokens were called before
            overrides["extra_special_tokens"] = overrides.pop("additional_special_tokens")
        return cls(**{**settings, "name_or_path": str(name), **overrides})

    def save_pretrained(self, folder: str | os.PathLike[str]) -> tuple[str, ...]:
        """Writes vocab.txt, tokenizer_config.json, special_tokens_map.json and tokenizer.json.

        Returns:
            Their paths. This class, `transformers` and `tokenizers` load them.
        """
        return files.write(self, {name: getattr(self, name) for name in files.OPTIONS}, Path(folder))

    def _prepare(self) -> None:
        """Puts together what follows from the rest and is not pickled."""
        basic = BasicTokenizer(self.do_lower_case, self.strip_accents, self.tokenize_chinese_chars)
        wordpiece = WordPiece(self.base_vocab, self.unk_token)
        self._pipeline = Pipeline(basic, wordpiece, self._added, self._added_ids)

    def add_tokens(self, new_tokens: Any, special_tokens: bool = False) -> int:  # noqa: D102 (inherited)
        added = super().add_tokens(new_tokens, special_tokens)
        self._prepare()
        return added

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_pipeline"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._prepare()

    def _warn_of_case(self) -> None:
        """Warns when normalising puts much of the vocabulary out of reach, as lower-casing does to kcbert's."""
        words = [token for token in self.base_vocab if token.isalpha()]
        words = words[:: len(words) // 1000 + 1]  # a sample is enough
        lost = [word for word in words if self._pipeline.basic.normalise(word)[0].strip() != word]
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
        text: Any,
        text_pair: Any = None,
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
    ) -> BatchEncoding:
        """Encodes a text, a pair of texts, or a batch of either.

        Args:
            text: a text, a list of texts, or a list of pairs of texts.
            text_pair: the second text or texts; an empty one has its `[SEP]` all the same.
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

        Returns:
            `input_ids`, `token_type_ids`, `attention_mask` and what was asked for, (batch, seq); lists for a single
            text are (seq).

        Raises:
            ValueError: what is no text, an impossible option, or a limit that cannot be kept.
        """
        columns, batched = columns_of(text, text_pair, is_split_into_words)
        pad, strategy, max_length = self._limits(padding, truncation, max_length)
        side = _option("padding_side", padding_side or self.padding_side, _SIDES)
        begin, end = ([self.cls_token_id], [self.sep_token_id]) if add_special_tokens else ([], [])
        layout: list[RowContent] | None = None
        with collector_paused():
            encode = self._pipeline.ids_of_words if is_split_into_words else self._pipeline.ids
            ids = [encode(texts) for texts in columns]
            if strategy and max_length is not None:
                room = max_length - len(begin) - len(end) * len(ids)
                if room < 0:
                    raise ValueError(f"max_length is {max_length}, but the special tokens take {max_length - room}.")
                if pad and max_length % (pad_to_multiple_of or 1):
                    raise ValueError(f"max_length={max_length} is no multiple of {pad_to_multiple_of=}.")
                lengths = [list(map(len, rows)) for rows in ids]
                layout = plan_rows(lengths, room, strategy, stride, self.truncation_side, return_overflowing_tokens)
                ids = [[rows[sample][held[n]] for sample, held in layout] for n, rows in enumerate(ids)]
            rows = [assemble(parts, begin, end) for parts in zip(*ids, strict=True)]
            width = self._width(rows, pad, max_length, pad_to_multiple_of, verbose)
            data: dict[str, Any] = {"input_ids": pad_rows(rows, self.pad_token_id, width, side)}
            if return_token_type_ids is not False:
                types = [type_ids(parts, len(begin)) for parts in zip(*ids, strict=True)]
                data["token_type_ids"] = pad_rows(types, 0, width, side)
            if return_attention_mask is not False:
                data["attention_mask"] = pad_rows([[1] * len(row) for row in rows], 0, width, side)

        def encodings() -> list[Encoding]:
            whole = (slice(None),) * len(columns)
            contents = layout or [(sample, whole) for sample in range(len(columns[0]))]
            texts = (
                [self._pipeline.tokens(column[sample])[span] for column, span in zip(columns, held, strict=True)]
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
            batch["overflow_to_sample_mapping"] = [sample for sample, _ in layout] if layout else [*range(len(rows))]
        elif not batched and return_tensors is None:
            batch.update({name: value[0] for name, value in batch.items() if name != "length"})
        return batch.convert_to_tensors(return_tensors)

    encode_plus = batch_encode_plus = __call__  # what it was called before transformers 5

    def encode(self, text: Any, text_pair: Any = None, **options: Any) -> Any:
        """The ids of a text or a pair of texts; options as for calling the tokenizer."""
        return self(text, text_pair, **options)["input_ids"]

    def tokenize(self, text: str, pair: str | None = None, add_special_tokens: bool = False) -> list[str]:
        """The tokens of a text as strings: "I love Korea" -> ["i", "love", "korea"]."""
        tokens: list[str] = self.convert_ids_to_tokens(self.encode(text, pair, add_special_tokens=add_special_tokens))
        return tokens

    def _limits(
        self, padding: Any, truncation: Any, max_length: int | None
    ) -> tuple[str | None, str | None, int | None]:
        """How to pad, how to truncate, and the length that either needs."""
        pad = _option("padding", padding, _PADDING)
        strategy = _option("truncation", truncation, _TRUNCATION)
        if max_length is None:
            if (strategy or pad == "max_length") and self.model_max_length < _NO_LIMIT:
                return pad, strategy, self.model_max_length
            return (None if pad == "max_length" else pad), None, None
        if max_length < 0:
            raise ValueError(f"max_length is {max_length}; it is a number of tokens.")
        if truncation is None and padding is False:
            return pad, "longest_first", max_length
        if strategy is None and pad == "longest":
            warnings.warn(
                "max_length has no effect with padding=True and no truncation; pass truncation=True to cut texts, "
                "or padding='max_length' to fill them up.",
                stacklevel=3,
            )
        return pad, strategy, max_length

    def _width(
        self, rows: list[list[int]], pad: str | None, max_length: int | None, multiple: int | None, verbose: bool
    ) -> int:
        """The length to fill rows up to; 0 for none."""
        longest = max(map(len, rows), default=0)
        if verbose and max_length is None and longest > self.model_max_length and not self._warned_of_length:
            self._warned_of_length = True
            warnings.warn(
                f"A text has {longest} tokens, but the model takes {self.model_max_length}: pass truncation=True.",
                stacklevel=3,
            )
        width = 0 if pad is None else longest if pad == "longest" else max_length or 0
        return width + -width % (multiple or 1)

    def _encoding(self, parts: list[list[Token]], special: bool, width: int, side: str) -> Encoding:
        """One row, token by token."""
        begin, end = ([Token(self.cls_token_id)], [Token(self.sep_token_id)]) if special else ([], [])
        (row,) = pad_rows([assemble(parts, begin, end)], Token(self.pad_token_id), width, side)
        texts = [[number] * len(part) for number, part in enumerate(parts)]
        sequences: list[int | None] = assemble(texts, [None] * len(begin), [None] * len(end))
        ids = [token.id for token in row]
        return Encoding(
            ids=ids,
            type_ids=pad_rows([type_ids(parts, len(begin))], 0, width, side)[0],
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
            raise ValueError(f"pad() needs input_ids, but was given {', '.join(batch) or 'nothing'}.")
        single = bool(batch["input_ids"]) and not isinstance(batch["input_ids"][0], list)
        if single:
            batch = {name: [values] for name, values in batch.items()}
        if return_attention_mask is not False:
            batch.setdefault("attention_mask", [[1] * len(row) for row in batch["input_ids"]])
        side = _option("padding_side", padding_side or self.padding_side, _SIDES)
        pad, _, max_length = self._limits(padding, False, max_length)
        width = self._width(batch["input_ids"], pad, max_length, pad_to_multiple_of, verbose=False)
        fills = {"input_ids": self.pad_token_id, "token_type_ids": 0, "attention_mask": 0, "special_tokens_mask": 1}
        batch |= {name: pad_rows(batch[name], fill, width, side) for name, fill in fills.items() if name in batch}
        if single:
            batch = {name: values[0] for name, values in batch.items()}
        return BatchEncoding(batch).convert_to_tensors(return_tensors)

    def num_special_tokens_to_add(self, pair: bool = False) -> int:
        """How many special tokens a row holds: [CLS], and a [SEP] for each text."""
        return 3 if pair else 2

    def build_inputs_with_special_tokens(
        self, token_ids_0: Sequence[int], token_ids_1: Sequence[int] | None = None
    ) -> list[int]:
        """`[CLS] first [SEP]`, or `[CLS] first [SEP] second [SEP]`."""
        parts = [token_ids_0] if token_ids_1 is None else [token_ids_0, token_ids_1]
        return assemble(parts, [self.cls_token_id], [self.sep_token_id])


def _option(argument: str, value: Any, meanings: Mapping[Any, Any]) -> Any:
    """What an option means, or a ValueError that lists what it can be."""
    try:
        return meanings[value]
    except (KeyError, TypeError):
        raise ValueError(f"{argument} is {value!r}; it can be {', '.join(map(repr, meanings))}.") from None
