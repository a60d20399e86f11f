"""The tokens of a tokenizer and their ids: the pieces of the vocabulary, and added tokens.

```
vocab.txt   [PAD] [UNK] ... the ##s painting     ids 0 1 ... by line
added       <name>                               the next id; the embeddings of the model must grow
```

Next file: pipeline.py.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from minibert.compat.tokenizer_names import rename_older
from minibert.tokenization.added import AddedToken
from minibert.tokenization.wordpiece import CONTINUED
from minibert.util.checks import check_flag, check_kind, warn
from minibert.util.errors import ArgumentError

NAMED = ("unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
"""The special tokens of BERT, by name."""

ALL_NAMED = ("bos_token", "eos_token", *NAMED)
"""With the two that BERT has no use for, but that can be set."""

MAX_VOCAB_SIZE = 1_000_000  # twice the largest vocabulary that was published for a BERT
MAX_ADDED_TOKENS = 100_000  # each is looked for in every text

# Gaps that splitting leaves in English text; `decode` closes them
_GAPS = (
    " .",
    " ?",
    " !",
    " ,",
    " ' ",
    " n't",
    " 'm",
    " 's",
    " 've",
    " 're",
)

# One thread at a time adds tokens, so that no two get the same id. The lock is not an attribute of
# the tokenizer because locks cannot be pickled.
_ADDING = threading.Lock()


class TokenId:
    """The id of a special token, such as `pad_token_id`, or None without that token.

    Assigning an id chooses the token.
    """

    def __set_name__(self, owner: type, name: str) -> None:
        self.token_name = name.removesuffix("_id")

    def __get__(self, vocabulary: Any, owner: type | None = None) -> Any:
        if vocabulary is None:
            return self
        token = getattr(vocabulary, self.token_name)
        if token is None:
            return None
        return vocabulary.convert_tokens_to_ids(token)

    def __set__(self, vocabulary: Any, token_id: int | None) -> None:
        token = None
        if token_id is not None:
            # an added token by its content, which `convert_ids_to_tokens` may return normalized
            token = vocabulary.added_tokens_decoder.get(token_id)
            token = token or vocabulary.convert_ids_to_tokens(token_id)
        setattr(vocabulary, self.token_name, token)


class Vocabulary:
    """Tokens and their ids, both ways.

    >>> vocabulary = Vocabulary({"[UNK]": 0, "the": 1, "##s": 2}, {"unk_token": "[UNK]"})
    >>> vocabulary.convert_tokens_to_ids(["the", "none", "##s"])
    [1, 0, 2]

    Args:
        vocab: Token -> id.
        special_tokens: The special tokens by name, `{"unk_token": "[UNK]"}`.
        extra_special_tokens: Further special tokens.
        added_tokens_decoder: Id -> added token, as files list them.
        name: Where the vocabulary came from, for messages.

    Raises:
        ValueError: There are too many added tokens.
    """

    unk_token: str
    sep_token: str
    pad_token: str
    cls_token: str
    mask_token: str
    bos_token: str | None = None
    eos_token: str | None = None
    _joins_pieces = True
    _closes_gaps = True

    def __init__(
        self,
        vocab: Mapping[str, int],
        special_tokens: Mapping[str, Any],
        extra_special_tokens: Iterable[Any] = (),
        added_tokens_decoder: Mapping[int, AddedToken] | None = None,
        name: str = "",
    ) -> None:
        self.base_vocab = dict(vocab)
        self._by_id = {token_id: token for token, token_id in self.base_vocab.items()}
        self._next_id = max(self._by_id) + 1
        self._added: dict[str, AddedToken] = {}
        self._added_ids: dict[str, int] = {}
        self.clean_up_tokenization_spaces = False

        extra = token_list("extra_special_tokens", extra_special_tokens)
        self._add_from_files(added_tokens_decoder or {}, len(extra), name)
        self._add_special(special_tokens, extra, name)

    def _add_from_files(
        self, added_tokens: Mapping[int, AddedToken], further: int, name: str
    ) -> None:
        """Add tokens with the ids that files give them, unless those are taken."""
        count = len(added_tokens) + further
        if count > MAX_ADDED_TOKENS:
            raise ValueError(
                f"There are {count:,} added tokens, more than {MAX_ADDED_TOKENS:,}: make them "
                "pieces of the vocabulary."
            )
        for token_id, token in sorted(added_tokens.items()):
            holder = self._by_id.get(token_id)
            if holder in (None, token.content) or token.content in self.base_vocab:
                self._add(token, token_id)
            elif token.content:
                self._add(token)
                warn(
                    f"{token.content!r} should have the id {token_id}, which is that of "
                    f"{holder!r} in the vocabulary {name or 'given'}, but has "
                    f"{self._added_ids[token.content]} instead, for which the model may have no "
                    "embedding."
                )

    def _add_special(self, special_tokens: Mapping[str, Any], extra: list[Any], name: str) -> None:
        """Set the special tokens, and add those that the vocabulary lacks."""
        named: dict[str, AddedToken] = {}
        for key in ALL_NAMED:
            if special_tokens.get(key) is not None:
                named[key] = AddedToken.of(special_tokens[key], special=True)
                if not named[key].content:
                    raise ValueError(f"{key} is empty. It should be a token of the vocabulary.")
        extra_tokens = [AddedToken.of(value, special=True) for value in extra]

        tokens_before = self.get_vocab()
        missing = []
        for key in NAMED:
            if key in named and named[key].content not in tokens_before:
                missing.append(named[key].content)
        for token in (*named.values(), *extra_tokens):
            # flags that files gave the token stay
            self._add(self._added.get(token.content, token).as_special())
        for key in ALL_NAMED:
            setattr(self, key, named.get(key))
        self.extra_special_tokens = [token.content for token in extra_tokens]
        if missing and self.unk_token in self.base_vocab:
            warn(
                f"The vocabulary {name or 'given'} lacks {', '.join(missing):.200}. They are "
                f"appended with ids from {self._added_ids[missing[0]]}, for which the model may "
                f"have no embeddings."
            )

    # ---- tokens and sizes

    @property
    def vocab_size(self) -> int:
        """Number of tokens of the vocabulary, without added tokens."""
        return len(self.base_vocab)

    def __len__(self) -> int:
        return self.embedding_rows

    @property
    def embedding_rows(self) -> int:
        """Rows that an embedding table needs for every token: the highest id + 1.

        `len(tokenizer)` is the same number. In a vocabulary with unused ids (blank or repeated
        lines) transformers counts tokens instead, which is too few rows for the last ones.

        >>> vocabulary = Vocabulary({"[UNK]": 0, "the": 7}, {"unk_token": "[UNK]"})
        >>> len(vocabulary), vocabulary.embedding_rows
        (8, 8)
        """
        return self._next_id

    def get_vocab(self) -> dict[str, int]:
        """Return token -> id, added tokens included."""
        return {**self.base_vocab, **self._added_ids}

    @property
    def added_tokens_decoder(self) -> dict[int, AddedToken]:
        """Id -> added token, special tokens included."""
        by_id = sorted(self._added_ids.items(), key=lambda item: item[1])
        return {token_id: self._added[token] for token, token_id in by_id}

    # ---- special tokens

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

    @property
    def all_special_ids(self) -> list[int]:
        """The ids of the special tokens."""
        ids: list[int] = self.convert_tokens_to_ids(self.all_special_tokens)
        return ids

    unk_token_id = TokenId()
    sep_token_id = TokenId()
    pad_token_id = TokenId()
    cls_token_id = TokenId()
    mask_token_id = TokenId()
    bos_token_id = TokenId()
    eos_token_id = TokenId()

    # ---- adding tokens

    def add_tokens(self, new_tokens: Any, special_tokens: bool = False) -> int:
        """Add tokens, which are found in texts as they are written.

        Tokens that the vocabulary lacks get the next ids. The embeddings of the model must then
        grow: `model.resize_token_embeddings(len(tokenizer))`.

        Args:
            new_tokens: A string or `AddedToken`, or a list of them.
            special_tokens: Make the strings special tokens.

        Returns:
            How many of them were not added tokens before.
        """
        tokens = new_tokens
        if isinstance(new_tokens, str) or hasattr(new_tokens, "content"):  # any AddedToken
            tokens = [new_tokens]
        check_kind("new_tokens", tokens, Iterable, "a token or a list of tokens")
        added = 0
        with self._transaction() as new:
            for token in tokens:
                flagged = AddedToken.of(token, special=special_tokens)
                if flagged.content in self.all_special_tokens:  # it stays one, as in transformers
                    flagged = flagged.as_special()
                added += new._add(flagged)
        return added

    def add_special_tokens(
        self, special_tokens_dict: Mapping[str, Any], replace_extra_special_tokens: bool = True
    ) -> int:
        """Set special tokens by name, and add those that the vocabulary lacks.

        The embeddings of the model must then grow, as for `add_tokens`.

        Args:
            special_tokens_dict: Such as
                `{"mask_token": "<mask>", "extra_special_tokens": ["<name>"]}`.
            replace_extra_special_tokens: False keeps the present extra special tokens.

        Returns:
            How many of them were not added tokens before.

        Raises:
            ValueError: A name is not that of a special token.
        """
        check_kind("special_tokens_dict", special_tokens_dict, Mapping, "a dict of tokens by name")
        added = 0
        with self._transaction() as new:
            for name, value in rename_older(special_tokens_dict).items():
                if name == "extra_special_tokens":
                    tokens = token_list(name, value)
                    before = new.extra_special_tokens
                    if replace_extra_special_tokens and tokens:
                        before = []
                    new.extra_special_tokens = list(dict.fromkeys([*before, *map(str, tokens)]))
                elif name in ALL_NAMED:
                    tokens = [value]
                    setattr(new, name, str(value))
                else:
                    raise ValueError(
                        f"{name!r} is not a special token. Those are {', '.join(ALL_NAMED)} and "
                        "extra_special_tokens."
                    )
                added += sum([new._add(AddedToken.of(token, special=True)) for token in tokens])
        return added

    @contextmanager
    def _transaction(self) -> Iterator[Vocabulary]:
        """Yield a copy whose changes are taken over at once, as other threads may be reading."""
        with _ADDING:
            new = object.__new__(type(self))
            before = dict(vars(self))
            vars(new).update(before)
            vars(new).pop("_pipeline", None)  # `_build` makes it again
            new._added = dict(self._added)
            new._added_ids = dict(self._added_ids)
            new._by_id = dict(self._by_id)
            yield new
            new._build()
            # only what changed: another thread may have set an option meanwhile
            changes = {}
            for name, value in vars(new).items():
                if value is not before.get(name):
                    changes[name] = value
            vars(self).update(changes)

    def _add(self, token: AddedToken, token_id: int | None = None) -> bool:
        """Add one token, with its id in the vocabulary, else `token_id`, else the next id.

        Returns:
            Whether it was not an added token with these flags before.
        """
        content = token.content
        if not content or self._added.get(content) == token:
            return False
        if content in self.base_vocab:
            token_id = self.base_vocab[content]
        elif token_id is None:
            token_id = self._added_ids.get(content, self._next_id)
        self._next_id = max(self._next_id, token_id + 1)
        self._added[content] = token
        self._added_ids[content] = token_id
        self._by_id[token_id] = content
        return True

    def _build(self) -> None:
        """Build everything that depends on the tokens. Subclasses extend it."""

    # ---- tokens to ids and back

    def convert_tokens_to_ids(self, tokens: str | Sequence[str]) -> Any:
        """Return the id of a token, or the ids of a list of them.

        Tokens that are not in the vocabulary have the id of `unk_token`.

        Args:
            tokens: A token, or several.
        """
        if not isinstance(tokens, str):
            check_kind("tokens", tokens, Iterable, "a token or a list of tokens")
            return [self.convert_tokens_to_ids(token) for token in tokens]
        token_id = self._added_ids.get(tokens)
        if token_id is None:
            token_id = self.base_vocab.get(tokens)
        if token_id is None:
            token_id = self.base_vocab[self.unk_token]
        return token_id

    def convert_ids_to_tokens(self, ids: Any, skip_special_tokens: bool = False) -> Any:
        """Return the token of an id, or the tokens of a list, array or tensor of ids.

        Args:
            ids: An id, or several.
            skip_special_tokens: Leave special tokens out.

        Raises:
            ValueError: The vocabulary does not have an id.
        """
        ids = to_list(ids)
        if not isinstance(ids, list):
            return self._tokens_of([ids])[0]
        if skip_special_tokens:
            special_ids = set(self.all_special_ids)
            ids = [token_id for token_id in ids if token_id not in special_ids]
        return self._tokens_of(ids)

    def _tokens_of(self, ids: list[int]) -> list[str]:
        try:
            return [self._by_id[token_id] for token_id in ids]
        except KeyError as error:
            raise ValueError(
                f"{error} is not an id of this vocabulary: its {len(self)} tokens have ids 0 to "
                f"{self._next_id - 1}."
            ) from None

    def convert_tokens_to_string(self, tokens: Sequence[str]) -> str:
        """Join tokens to a text: ["paint", "##ing", "!"] -> "painting!".

        Args:
            tokens: The tokens in their order.
        """
        check_kind("tokens", tokens, Iterable, "a list of tokens")
        if not self._joins_pieces:
            return " ".join(tokens)
        text = ""
        for index, token in enumerate(tokens):
            if index == 0:
                part = token
            elif token.startswith(CONTINUED):
                part = token.removeprefix(CONTINUED)
            else:
                part = f" {token}"
            if self._closes_gaps:
                part = _close_gaps(part)
            text += part
        return text

    def decode(
        self,
        token_ids: Any,
        skip_special_tokens: bool = False,
        clean_up_tokenization_spaces: bool | None = None,
        spaces_between_special_tokens: bool | None = None,
    ) -> Any:
        """Return the text of ids, or the texts of several rows of ids.

        Args:
            token_ids: An id, a row of ids, or rows of ids, as lists, arrays or tensors.
            skip_special_tokens: Leave special tokens out.
            clean_up_tokenization_spaces: Also close the gaps in English "do n't", or None for the
                setting of the tokenizer.
            spaces_between_special_tokens: Without effect, as for the fast tokenizers of
                transformers: there always is a space.

        Raises:
            ValueError: The vocabulary does not have an id.
        """
        check_flag("skip_special_tokens", skip_special_tokens)
        ids = to_list(token_ids)
        if not isinstance(ids, list):
            ids = [ids]
        if ids and isinstance(ids[0], list):
            rows = ids
            return [
                self.decode(row, skip_special_tokens, clean_up_tokenization_spaces) for row in rows
            ]
        if skip_special_tokens:
            special = {
                self._added_ids[text] for text, token in self._added.items() if token.special
            }
            ids = [token_id for token_id in ids if token_id not in special]
        text = self.convert_tokens_to_string(self.convert_ids_to_tokens(ids))
        if clean_up_tokenization_spaces is None:
            clean_up_tokenization_spaces = self.clean_up_tokenization_spaces
        if clean_up_tokenization_spaces:
            text = _close_gaps(text)
        return text

    def batch_decode(
        self,
        sequences: Any,
        skip_special_tokens: bool = False,
        clean_up_tokenization_spaces: bool | None = None,
        spaces_between_special_tokens: bool | None = None,
    ) -> list[str]:
        """Return the texts of several rows of ids.

        Args:
            sequences: Rows of ids, as lists, arrays or tensors (batch, seq).
            skip_special_tokens: As in `decode`.
            clean_up_tokenization_spaces: As in `decode`.
            spaces_between_special_tokens: As in `decode`.

        Returns:
            A text for each row.

        Raises:
            ValueError: The vocabulary does not have an id.
        """
        decoded = self.decode(sequences, skip_special_tokens, clean_up_tokenization_spaces)
        if isinstance(decoded, str):
            return [decoded]
        texts: list[str] = decoded
        return texts


def _close_gaps(text: str) -> str:
    """Close the gaps that splitting leaves in English: "it 's ." -> "it's."."""
    for gap in _GAPS:
        text = text.replace(gap, gap.strip())
    return text


def token_list(name: str, tokens: Any) -> list[Any]:
    """Return tokens as a list, from a sequence or from the values of a mapping.

    Raises:
        ValueError: A single token, whose letters would be taken for tokens.
    """
    if not isinstance(tokens, Iterable) or isinstance(tokens, str | bytes):
        raise ArgumentError(name, f"should be a list, not {tokens!r:.80}.")
    if isinstance(tokens, Mapping):
        return list(tokens.values())
    return list(tokens)


def to_list(values: Any) -> Any:
    """Convert lists, arrays or tensors of numbers to lists."""
    if hasattr(values, "tolist"):
        return values.tolist()
    if isinstance(values, list | tuple):
        return [to_list(value) for value in values]
    return values
