"""For the tools around a tokenizer, and for notebooks written for `transformers`: more than texts and ids.

All of it in one place, so that the lesson is not about it: further names of what a tokenizer knows, keywords that BERT
has no use for, and calls with target texts.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from minibert.compat import keywords
from minibert.extras import need
from minibert.tokenization.added import AddedToken
from minibert.tokenization.basic import BasicTokenizer
from minibert.tokenization.encoding import BatchEncoding
from minibert.tokenization.files import write_vocabulary
from minibert.tokenization.learning import count_words, learn_vocabulary
from minibert.tokenization.rows import assemble, type_ids
from minibert.tokenization.vocabulary import Vocabulary

T = TypeVar("T", bound="TokenizerProtocol")

WITHOUT_EFFECT = {
    **keywords.WITHOUT_EFFECT,
    "use_fast": "there is one implementation",
    "add_prefix_space": "words are split at white space, wherever it is",
    "tokenizer_class": "files.py has read it",
    "processor_class": "it names a class of transformers",
    "auto_map": "it names code of a checkpoint",
    "special_tokens_map_file": "special tokens are read from every file",
    "verbose": "warnings are Python's",
    "add_bos_token": "BERT's rows begin with [CLS]",
    "add_eos_token": "they end with [SEP]",
    "src_lang": "a BERT translates nothing",
    "tgt_lang": "the same",
}
"""Keywords that change nothing here whatever their value, and why."""

REFUSED: keywords.Refused = {
    **keywords.REFUSED,
    "do_basic_tokenize": (True, "texts are always split into words before WordPiece."),
    "never_split": (None, "tokens that stay whole are added: tokenizer.add_tokens(tokens)."),
    "split_special_tokens": (False, "special tokens in a text stand for themselves."),
}
"""Keywords of which only one value asks for what there is, and what to do instead of another."""


def encode_with_targets(
    self: Callable[..., BatchEncoding],
    text: Any,
    text_pair: Any,
    text_target: Any,
    text_pair_target: Any,
    max_target_length: int | None,
    **options: Any,
) -> BatchEncoding:
    """Encodes texts and target texts, whose ids become the batch's `labels`; target texts alone are the batch."""
    length = options["max_length"] if max_target_length is None else max_target_length
    targets = self(text_target, text_pair_target, **{**options, "max_length": length})
    if text is None:
        return targets
    batch = self(text, text_pair, **options)
    batch["labels"] = targets["input_ids"]
    return batch


def _present(*texts: Sequence[int] | None) -> list[Sequence[int]]:
    """The first text, and the second if there is one."""
    return [ids for ids in texts if ids is not None]


class TokenizerProtocol(Vocabulary):
    """The reference's names for what a tokenizer knows and does.

    >>> from minibert import BertTokenizer
    >>> BertTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]).build_inputs_with_special_tokens([7, 8], [9])
    [2, 7, 8, 3, 9, 3]
    """

    # what the tokenizer has
    do_lower_case: bool
    strip_accents: bool | None
    tokenize_chinese_chars: bool
    model_max_length: int
    name_or_path: str
    save_pretrained: Any
    _options: Callable[[], dict[str, Any]]

    vocab_files_names = {"vocab_file": "vocab.txt", "tokenizer_file": "tokenizer.json"}
    pad_token_type_id = 0
    is_fast, backend = (
        True,
        "tokenizers",
    )  # as transformers says that offsets and word numbers are to be had
    init_inputs = ()

    vocab = property(Vocabulary.get_vocab)
    additional_special_tokens = property(
        lambda self: self.extra_special_tokens
    )  # until transformers 5
    extra_special_tokens_ids = property(
        lambda self: self.convert_tokens_to_ids(self.extra_special_tokens),
        lambda self, ids: setattr(self, "extra_special_tokens", self.convert_ids_to_tokens(ids)),
    )
    max_len_single_sentence = property(
        lambda self: self.model_max_length - self.num_special_tokens_to_add()
    )
    max_len_sentences_pair = property(
        lambda self: self.model_max_length - self.num_special_tokens_to_add(pair=True)
    )

    def __bool__(self) -> bool:
        return True  # whatever the length

    @property
    def init_kwargs(self) -> dict[str, Any]:
        """The arguments that make this tokenizer again from its vocabulary."""
        own = {
            name: getattr(self, name)
            for name in ("extra_special_tokens", "name_or_path", "added_tokens_decoder")
        }
        return {**self._options(), **self.special_tokens_map, **own}

    def get_added_vocab(self) -> dict[str, int]:
        """Added token -> id, special tokens included."""
        return {token.content: number for number, token in self.added_tokens_decoder.items()}

    added_tokens_encoder = property(get_added_vocab)

    def num_special_tokens_to_add(self, pair: bool = False) -> int:
        """How many special tokens a row holds: [CLS], and a [SEP] for each text."""
        return 3 if pair else 2

    def build_inputs_with_special_tokens(
        self, token_ids_0: Sequence[int], token_ids_1: Sequence[int] | None = None
    ) -> list[int]:
        """`[CLS] first [SEP]`, or `[CLS] first [SEP] second [SEP]`."""
        return assemble(
            _present(token_ids_0, token_ids_1), [self.cls_token_id], [self.sep_token_id]
        )

    def get_special_tokens_mask(
        self,
        token_ids_0: Sequence[int],
        token_ids_1: Sequence[int] | None = None,
        already_has_special_tokens: bool = False,
    ) -> list[int]:
        """1 for special tokens and 0 for others, of a row or of what will be one.

        Args:
            token_ids_0: ids of a text, or of a row.
            token_ids_1: ids of a second text.
            already_has_special_tokens: `token_ids_0` is a row; its special tokens are known by their ids.

        Raises:
            ValueError: a second text beside a row.
        """
        if not already_has_special_tokens:
            return assemble(
                [[0] * len(ids) for ids in _present(token_ids_0, token_ids_1)], [1], [1]
            )
        if token_ids_1 is not None:
            raise ValueError(
                "token_ids_1 has to be None where token_ids_0 is a whole row with its special tokens."
            )
        special = set(self.all_special_ids)
        return [int(int(number) in special) for number in token_ids_0]

    def create_token_type_ids_from_sequences(
        self, token_ids_0: Sequence[int], token_ids_1: Sequence[int] | None = None
    ) -> list[int]:
        """0 for the first text's part of a row, 1 for the second's."""
        return type_ids(_present(token_ids_0, token_ids_1), special=1)

    def save_vocabulary(
        self, save_directory: str, filename_prefix: str | None = None
    ) -> tuple[str, ...]:
        """Writes vocab.txt, without added tokens, into a folder that is there; returns its path.

        Raises:
            FileNotFoundError: there is no such folder.
        """
        prefix = f"{filename_prefix}-" if filename_prefix else ""
        path = Path(save_directory, f"{prefix}vocab.txt")
        write_vocabulary(self, path)
        return (str(path),)

    def to_transformers(self) -> Any:
        """The same tokenizer as a `transformers.BertTokenizerFast`, for tools that ask for that type.

        Raises:
            ImportError: transformers is not installed.
        """
        library = need("transformers", "parity", "to_transformers()")
        with TemporaryDirectory() as folder:
            self.save_pretrained(folder)
            made = library.BertTokenizerFast.from_pretrained(folder)
        made.name_or_path = made.init_kwargs["name_or_path"] = self.name_or_path
        return made

    def train_new_from_iterator(
        self: T,
        text_iterator: Iterable[Any],
        vocab_size: int,
        length: int | None = None,
        new_special_tokens: Sequence[Any] | None = None,
        special_tokens_map: Mapping[str, str] | None = None,
        **options: Any,
    ) -> T:
        """A tokenizer that treats text as this one does, with a vocabulary learned from other texts.

        Args:
            text_iterator: texts, or batches of texts.
            vocab_size: upper limit of the vocabulary's size, special tokens counted.
            length: without effect; it is for a progress bar.
            new_special_tokens: special tokens beside those of this tokenizer.
            special_tokens_map: new names of special tokens, `{"[MASK]": "<mask>"}`.
            options: `min_frequency` and further arguments of the library's `WordPieceTrainer`.

        Raises:
            ImportError: `tokenizers` is not installed (extra `[train]`).
        """
        renamed = dict(special_tokens_map or {})
        named = {name: renamed.get(token, token) for name, token in self.special_tokens_map.items()}
        new = [AddedToken.of(token) for token in new_special_tokens or ()]
        old = [token.content for token in self.added_tokens_decoder.values() if token.special]
        special = dict.fromkeys(
            [*(renamed.get(token, token) for token in old), *map(str, new), *named.values()]
        )
        texts = chain.from_iterable(
            [item] if isinstance(item, str) else item for item in text_iterator
        )
        words = count_words(
            texts,
            BasicTokenizer(self.do_lower_case, self.strip_accents, self.tokenize_chinese_chars),
        )
        tokens = learn_vocabulary(
            words, vocab_size, list(special), **{"min_frequency": 0, **options}
        )
        extra = [*(renamed.get(token, token) for token in self.extra_special_tokens), *new]
        return type(self)(tokens, **{**self._options(), **named, "extra_special_tokens": extra})
