"""The tokens that a tokenizer knows and their ids: the vocabulary's pieces, and added tokens.

```
vocab.txt   [PAD] [UNK] ... the ##s painting     ids 0 1 ... by line
added       <name>                               the next id, for which the model's embeddings have to grow
```
"""

from __future__ import annotations

import os
import threading
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from minibert.files import read_text
from minibert.tokenization.added import AddedToken
from minibert.tokenization.unicode import SPACES
from minibert.tokenization.wordpiece import CONTINUED

NAMED = ("unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
MAX_VOCAB_SIZE = 1_000_000  # twice as many as the largest vocabulary that was published for a BERT
MAX_ADDED_TOKENS = 100_000  # each is looked for in every text
MAX_TOKEN_BYTES = 32  # of a file, for each token: a third more than tokenizer.json takes
ALL_NAMED = (
    "bos_token",
    "eos_token",
    *NAMED,
)  # BERT has no use for the first two, but they can be set
_GAPS = (" .", " ?", " !", " ,", " ' ", " n't", " 'm", " 's", " 've", " 're")


# one thread at a time adds tokens, so that no two get the same id; not the tokenizer's own, for locks cannot be pickled
_ADDING = threading.Lock()


def _id_of(name: str) -> property:
    """The id of the special token of that name, None where there is none; assigning an id chooses its token."""

    def get(vocabulary: Vocabulary) -> int | None:
        token = getattr(vocabulary, name)
        return None if token is None else vocabulary.convert_tokens_to_ids(token)

    def choose(vocabulary: Vocabulary, number: int | None) -> None:
        token = None
        if number is not None:  # an added token by its own name, not by its normalized one
            token = vocabulary.added_tokens_decoder.get(number) or vocabulary.convert_ids_to_tokens(
                number
            )
        setattr(vocabulary, name, token)

    return property(get, choose)


class Vocabulary:
    """Tokens and their ids, both ways.

    >>> Vocabulary(["[UNK]", "the", "##s"], {"unk_token": "[UNK]"}).convert_tokens_to_ids(["the", "none", "##s"])
    [1, 0, 2]

    The arguments and errors are those of `BertTokenizer`, with the special tokens by their names; `name` says where the
    vocabulary came from, for messages.
    """

    unk_token: str
    sep_token: str
    pad_token: str
    cls_token: str
    mask_token: str
    bos_token: str | None = None
    eos_token: str | None = None

    def __init__(
        self,
        vocab: str | os.PathLike[str] | Mapping[str, int] | Iterable[str] | None,
        special_tokens: Mapping[str, Any],
        extra_special_tokens: Iterable[Any] = (),
        added_tokens_decoder: Mapping[int, AddedToken] | None = None,
        name: str = "",
    ) -> None:
        self.base_vocab = _read(vocab)
        self._by_id = {number: token for token, number in self.base_vocab.items()}
        self._next_id = max(self._by_id) + 1
        self._added: dict[str, AddedToken] = {}
        self._added_ids: dict[str, int] = {}
        self.clean_up_tokenization_spaces = False

        further = listed("extra_special_tokens", extra_special_tokens)
        known = added_tokens_decoder or {}
        if (count := len(known) + len(further)) > MAX_ADDED_TOKENS:
            raise ValueError(
                f"There are {count:,} added tokens, more than {MAX_ADDED_TOKENS:,}: make them pieces."
            )
        for number, token in sorted(known.items()):
            holder = self._by_id.get(number)
            if holder in (None, token.content) or token.content in self.base_vocab:
                self._add(token, number)
            elif token.content:
                self._add(token)
                warnings.warn(
                    f"{token.content!r} should have the id {number}, which is that of {holder!r} in the vocabulary "
                    f"{name or 'given'}; it has {self._added_ids[token.content]} instead, for which the model may "
                    "have no embedding.",
                    stacklevel=3,
                )
        given = {key: special_tokens.get(key) for key in ALL_NAMED}
        named = {
            key: AddedToken.of(value, special=True)
            for key, value in given.items()
            if value is not None
        }
        if empty := [key for key, token in named.items() if not token.content]:
            raise ValueError(f"{empty[0]} is empty; it should be a token of the vocabulary.")
        extra = [AddedToken.of(value, special=True) for value in further]
        vocabulary = self.get_vocab()
        missing = [
            named[key].content
            for key in NAMED
            if key in named and named[key].content not in vocabulary
        ]
        for token in (*named.values(), *extra):  # the flags that files gave a token stay
            self._add(self._added.get(token.content, token).as_special())
        vars(self).update({key: token.content for key, token in named.items()})
        self.extra_special_tokens = [token.content for token in extra]
        if self.unk_token not in self.base_vocab:
            raise ValueError(
                f"The vocabulary {name or 'given'} has no {self.unk_token!r:.80} for unknown words; "
                "pass unk_token= with the token that it has for them."
            )
        if missing:
            warnings.warn(
                f"The vocabulary {name or 'given'} lacks {', '.join(missing):.200}; appended with ids from "
                f"{self._added_ids[missing[0]]}, for which the model may have no embeddings.",
                stacklevel=3,
            )

    @property
    def vocab_size(self) -> int:
        """Size of the vocabulary without added tokens."""
        return len(self.base_vocab)

    def __len__(self) -> int:
        return len(self.base_vocab.keys() | self._added_ids.keys())

    def get_vocab(self) -> dict[str, int]:
        """Token -> id, added tokens included."""
        return {**self.base_vocab, **self._added_ids}

    @property
    def added_tokens_decoder(self) -> dict[int, AddedToken]:
        """Id -> added token, special tokens included."""
        return {
            number: self._added[token]
            for token, number in sorted(self._added_ids.items(), key=lambda item: item[1])
        }

    @property
    def special_tokens_map(self) -> dict[str, str]:
        """The special tokens by name."""
        named = {name: getattr(self, name) for name in ALL_NAMED}
        return {name: token for name, token in named.items() if token is not None}

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ALL_NAMED and value is not None:
            value = AddedToken.of(value).content
        super().__setattr__(name, value)

    @property
    def all_special_tokens(self) -> list[str]:
        """The special tokens, each once."""
        return list(dict.fromkeys([*self.special_tokens_map.values(), *self.extra_special_tokens]))

    # their ids
    all_special_ids = property(lambda self: self.convert_tokens_to_ids(self.all_special_tokens))
    unk_token_id = _id_of("unk_token")
    sep_token_id = _id_of("sep_token")
    pad_token_id = _id_of("pad_token")
    cls_token_id = _id_of("cls_token")
    mask_token_id = _id_of("mask_token")
    bos_token_id = _id_of("bos_token")
    eos_token_id = _id_of("eos_token")

    def add_tokens(self, new_tokens: Any, special_tokens: bool = False) -> int:
        """Makes tokens be found in texts as they stand; those the vocabulary lacks get the next ids.

        The model's embeddings must then be as large as `len(tokenizer)`.

        Args:
            new_tokens: a string or `AddedToken`, or a list of them.
            special_tokens: make the strings special tokens.

        Returns:
            How many of them were not added tokens before.
        """
        tokens = [new_tokens] if isinstance(new_tokens, str | AddedToken) else new_tokens
        with self._changing() as new:
            return sum([new._add(AddedToken.of(token, special=special_tokens)) for token in tokens])

    def add_special_tokens(
        self, special_tokens_dict: Mapping[str, Any], replace_extra_special_tokens: bool = True
    ) -> int:
        """Sets special tokens by name, adding those the vocabulary lacks.

        Args:
            special_tokens_dict: such as `{"mask_token": "<mask>", "extra_special_tokens": ["<name>"]}`.
            replace_extra_special_tokens: False keeps the extra ones that there are.

        Returns:
            How many of them were not added tokens before.
        """
        added = 0
        with self._changing() as new:
            for name, value in special_tokens_dict.items():
                if name in ("extra_special_tokens", "additional_special_tokens"):
                    tokens = listed(name, value)
                    before = (
                        [] if replace_extra_special_tokens and tokens else new.extra_special_tokens
                    )
                    new.extra_special_tokens = list(dict.fromkeys([*before, *map(str, tokens)]))
                elif name in ALL_NAMED:
                    tokens = [value]
                    setattr(new, name, str(value))
                else:
                    raise ValueError(
                        f"{name!r} is not a special token; they are {', '.join(ALL_NAMED)} and extra_special_tokens."
                    )
                added += sum([new._add(AddedToken.of(token, special=True)) for token in tokens])
        return added

    @contextmanager
    def _changing(self) -> Iterator[Vocabulary]:
        """A copy to change, whose tables are put in place at once at the end: other threads may be reading."""
        with _ADDING:
            new = object.__new__(type(self))
            tables = {
                name: dict(getattr(self, name)) for name in ("_added", "_added_ids", "_by_id")
            }
            vars(new).update(before := dict(vars(self)), **tables)
            yield new
            new._prepare()
            vars(self).update(
                {name: value for name, value in vars(new).items() if value is not before.get(name)}
            )

    def _add(self, token: AddedToken, number: int | None = None) -> bool:
        """Makes one token an added token: with its id in the vocabulary, else `number`, else the next id."""
        content = token.content
        if not content or self._added.get(content) == token:
            return False
        if content in self.base_vocab:
            number = self.base_vocab[content]
        elif number is None:
            number = self._added_ids.get(content, self._next_id)
        self._next_id = max(self._next_id, number + 1)
        self._added[content], self._added_ids[content], self._by_id[number] = token, number, content
        return True

    def _prepare(self) -> None:
        """Makes what follows from the tables."""

    def convert_tokens_to_ids(self, tokens: str | Sequence[str]) -> Any:
        """The id of a token, or the ids of a list of them; what is not in the vocabulary gets `unk_token_id`."""
        if not isinstance(tokens, str):
            return [self.convert_tokens_to_ids(token) for token in tokens]
        number = self._added_ids.get(tokens)
        return (
            self.base_vocab.get(tokens, self.base_vocab[self.unk_token])
            if number is None
            else number
        )

    def convert_ids_to_tokens(self, ids: Any, skip_special_tokens: bool = False) -> Any:
        """The token of an id, or the tokens of a list, array or tensor of ids.

        Raises:
            ValueError: an id that the vocabulary does not have.
        """
        ids = to_list(ids)
        skipped = set(self.all_special_ids) if skip_special_tokens else set()
        wanted = (
            [number for number in ids if number not in skipped] if isinstance(ids, list) else [ids]
        )
        try:
            tokens = [self._by_id[number] for number in wanted]
        except KeyError as error:
            raise ValueError(
                f"{error} is not an id of this vocabulary: its {len(self)} tokens have ids 0 to {max(self._by_id)}."
            ) from None
        return tokens if isinstance(ids, list) else tokens[0]

    def convert_tokens_to_string(self, tokens: Sequence[str]) -> str:
        """Puts tokens together: ["paint", "##ing", "!"] -> "painting!"."""
        text = ""
        for number, token in enumerate(tokens):
            part = token.removeprefix(CONTINUED) if token.startswith(CONTINUED) else f" {token}"
            text += _close_gaps(part if number else token)
        return text

    def decode(
        self,
        token_ids: Any,
        skip_special_tokens: bool = False,
        clean_up_tokenization_spaces: bool | None = None,
    ) -> Any:
        """The text that ids stand for, or the texts of several rows of ids.

        Args:
            token_ids: an id, a row of ids, or rows of ids; lists, arrays or tensors.
            skip_special_tokens: leave special tokens out.
            clean_up_tokenization_spaces: also close the gaps in English "do n't"; the tokenizer's own setting
                when not given.

        Raises:
            ValueError: an id that the vocabulary does not have.
        """
        ids = to_list(token_ids)
        ids = ids if isinstance(ids, list) else [ids]
        if ids and isinstance(ids[0], list):
            return [
                self.decode(row, skip_special_tokens, clean_up_tokenization_spaces) for row in ids
            ]
        special = {self._added_ids[text] for text, token in self._added.items() if token.special}
        kept = [number for number in ids if not (skip_special_tokens and number in special)]
        text = self.convert_tokens_to_string(self.convert_ids_to_tokens(kept))
        if clean_up_tokenization_spaces is None:
            clean_up_tokenization_spaces = self.clean_up_tokenization_spaces
        return _close_gaps(text) if clean_up_tokenization_spaces else text

    def batch_decode(
        self,
        sequences: Any,
        skip_special_tokens: bool = False,
        clean_up_tokenization_spaces: bool | None = None,
    ) -> list[str]:
        """The texts of several rows of ids, as `decode` makes them."""
        decoded = self.decode(sequences, skip_special_tokens, clean_up_tokenization_spaces)
        return [decoded] if isinstance(decoded, str) else decoded


def _close_gaps(text: str) -> str:
    """English without the gaps that splitting left in it: "it 's ." -> "it's."."""
    for gap in _GAPS:
        text = text.replace(gap, gap.strip())
    return text


def listed(what: str, tokens: Any) -> list[Any]:
    """Several tokens or names, of a list or by name.

    Raises:
        ValueError: a single one, whose letters would be taken for tokens.
    """
    if not isinstance(tokens, Iterable) or isinstance(tokens, str | bytes):
        raise ValueError(f"{what} should be a list, not {tokens!r:.80}.")
    return list(tokens.values() if isinstance(tokens, Mapping) else tokens)


def to_list(values: Any) -> Any:
    """Numbers in lists, whether they came in lists, arrays or tensors."""
    if hasattr(values, "tolist"):
        return values.tolist()
    return [to_list(value) for value in values] if isinstance(values, list | tuple) else values


def check_size(path: str | os.PathLike[str]) -> None:
    """ValueError for a file that is too large to hold a vocabulary, before it is read."""
    size = os.stat(path).st_size
    if size > MAX_TOKEN_BYTES * MAX_VOCAB_SIZE:
        raise ValueError(
            f"{path} has {size:,} bytes, too many for a vocabulary of at most {MAX_VOCAB_SIZE:,} tokens."
        )


def _read(
    vocab: str | os.PathLike[str] | Mapping[str, int] | Iterable[str] | None,
) -> dict[str, int]:
    if isinstance(vocab, Mapping):
        tokens = dict(vocab)
    elif isinstance(vocab, str | os.PathLike):
        try:
            check_size(vocab)
            text = read_text(vocab).removesuffix("\n")
        except OSError as error:
            raise FileNotFoundError(
                f"Cannot read the vocabulary {vocab}: {error.strerror}."
            ) from None
        if (count := text.count("\n") + 1) > MAX_VOCAB_SIZE:
            raise ValueError(
                f"{vocab} has {count:,} lines, but a vocabulary has at most {MAX_VOCAB_SIZE:,} tokens."
            )
        tokens = _numbered([line.rstrip(SPACES) for line in text.split("\n")], f"{vocab}")
    else:
        tokens = _numbered(list(vocab or ()), "given")
    if not any(tokens):
        raise ValueError(
            "The vocabulary is empty; pass a vocab.txt file, a list of tokens or a dict from token to id."
        )
    return tokens


def _numbered(tokens: list[str], name: str) -> dict[str, int]:
    twice = [token for token, count in Counter(tokens).items() if count > 1 and token]
    if twice:
        warnings.warn(
            f"The vocabulary {name} holds {len(twice)} tokens more than once, such as {twice[0]!r} as number "
            f"{tokens.index(twice[0])}; the last of each counts.",
            stacklevel=5,
        )
    return {token: number for number, token in enumerate(tokens)}
