"""Aliases and ignored arguments of the tokenizer, for code written against transformers.

`BertTokenizer` inherits from `TokenizerCompatibility`. Nothing here is needed to understand it.
"""

from collections.abc import Mapping, Sequence
from tempfile import TemporaryDirectory
from typing import Any

from minibert.compat import register
from minibert.compat.chat_templates import choose_template, render_chat, token_mask
from minibert.compat.keywords import ANYTHING, LOADING, SAVING, Keywords
from minibert.util.checks import check_kind
from minibert.util.errors import ArgumentError
from minibert.util.extras import need

_NO_DECODER = (
    "BERT has no decoder. Encode target texts by a call of their own, "
    "tokenizer(targets)['input_ids']."
)

LONG_ROW = "sequence-length-is-longer-than-the-specified-maximum"
"""The key of `deprecation_warnings` that silences the warning of a long row."""

OLDER_NAMES = {
    "max_len": "model_max_length",
    "additional_special_tokens": "extra_special_tokens",
}
"""Arguments and keys of tokenizer_config.json in older repositories, and their names today."""


def rename_older(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options under their names of today. An older name counts where that is not set."""
    renamed = {name: value for name, value in options.items() if name not in OLDER_NAMES}
    for older, name in OLDER_NAMES.items():
        if options.get(older) is not None and not renamed.get(name):
            renamed[name] = options[older]
    return renamed


KEYWORDS: Keywords = {
    **LOADING,
    "use_fast": (ANYTHING, "there is one implementation"),
    "add_prefix_space": (ANYTHING, "words are split at white space, wherever it is"),
    "tokenizer_class": (ANYTHING, "spec.py has read it"),
    "config": (ANYTHING, "it says which class to load, and there is one"),
    "processor_class": (ANYTHING, "it names a class of transformers"),
    "auto_map": (ANYTHING, "it names code of a checkpoint"),
    "special_tokens_map_file": (ANYTHING, "special tokens are read from every file"),
    "verbose": (ANYTHING, "warnings are Python's"),
    "add_bos_token": (ANYTHING, "BERT's rows begin with [CLS]"),
    "add_eos_token": (ANYTHING, "they end with [SEP]"),
    "src_lang": (ANYTHING, "BERT does not translate"),
    "tgt_lang": (ANYTHING, "BERT does not translate"),
    "tokenizer_object": (None, "save it, tokenizer.save(path), and pass tokenizer_file=path."),
    "do_basic_tokenize": (True, "texts are always split into words before WordPiece."),
    "never_split": (None, "add tokens that should stay whole: tokenizer.add_tokens(tokens)."),
    "split_special_tokens": (False, "special tokens in a text stand for themselves."),
    "merges": (None, "BERT's WordPiece has no merges."),
    "text_target": (None, _NO_DECODER),
    "text_pair_target": (None, _NO_DECODER),
    "max_target_length": (None, _NO_DECODER),
}
"""Of making, loading and calling a tokenizer."""

SAVING_KEYWORDS: Keywords = {
    **SAVING,
    "legacy_format": (ANYTHING, "every format is written"),
    "save_format": (None, "every format is written."),
    "filename_prefix": (None, "rename the files, or write into a folder of their own."),
}


def _texts(*texts: Sequence[int] | None) -> list[Sequence[int]]:
    return [ids for ids in texts if ids is not None]


class TokenizerCompatibility:
    """Names of transformers' tokenizers for attributes and methods of `BertTokenizer`.

    `self` is a `BertTokenizer`, which this module does not import: it is a porch of that class.
    """

    vocab_files_names = {
        "vocab_file": "vocab.txt",
        "tokenizer_file": "tokenizer.json",
    }
    pad_token_type_id = 0
    is_fast = True  # for transformers: the origins of tokens are available
    backend = "tokenizers"
    slow_tokenizer_class = None
    init_inputs = ()
    register = staticmethod(register)
    register_for_auto_class = staticmethod(register)

    def __bool__(self) -> bool:
        return True  # whatever the length

    @property
    def vocab(self: Any) -> dict[str, int]:
        """The same as `get_vocab()`."""
        return self.get_vocab()

    @property
    def backend_tokenizer(self) -> Any:
        """Not available: minibert's tokenizer is written in Python.

        Raises:
            AttributeError: Always.
        """
        raise AttributeError(
            "BertTokenizer has no backend_tokenizer, because it is written in Python. "
            "to_transformers().backend_tokenizer is that of the tokenizers library."
        )

    _tokenizer = backend_tokenizer

    @property
    def deprecation_warnings(self) -> dict[str, bool]:
        """Which warnings of transformers have been given. Code sets entries to silence them."""
        return vars(self).setdefault("_deprecation_warnings", {})

    @deprecation_warnings.setter
    def deprecation_warnings(self, given: dict[str, bool]) -> None:
        vars(self)["_deprecation_warnings"] = given

    @property
    def additional_special_tokens(self: Any) -> list[str]:
        """The name of `extra_special_tokens` before transformers 5."""
        return self.extra_special_tokens

    @additional_special_tokens.setter
    def additional_special_tokens(self: Any, tokens: Any) -> None:
        self.extra_special_tokens = tokens

    @property
    def extra_special_tokens_ids(self: Any) -> list[int]:
        """The ids of `extra_special_tokens`. Assigning ids chooses the tokens."""
        return self.convert_tokens_to_ids(self.extra_special_tokens)

    @extra_special_tokens_ids.setter
    def extra_special_tokens_ids(self: Any, ids: Sequence[int]) -> None:
        self.extra_special_tokens = self.convert_ids_to_tokens(list(ids))

    @property
    def max_len_single_sentence(self: Any) -> int:
        """Tokens of a text in a row of `model_max_length`."""
        return int(self.model_max_length - self.num_special_tokens_to_add())

    @property
    def max_len_sentences_pair(self: Any) -> int:
        """Tokens of two texts in a row of `model_max_length`."""
        return int(self.model_max_length - self.num_special_tokens_to_add(pair=True))

    @property
    def init_kwargs(self: Any) -> dict[str, Any]:
        """The arguments that make this tokenizer again from its vocabulary."""
        arguments = {**self._options(), **self.special_tokens_map}
        for name in ("extra_special_tokens", "name_or_path", "added_tokens_decoder", "components"):
            arguments[name] = getattr(self, name)
        return arguments

    def get_chat_template(
        self: Any, chat_template: str | None = None, tools: Sequence[Any] | None = None
    ) -> str:
        """Return the template that `apply_chat_template` renders.

        Args:
            chat_template: The name of one of the tokenizer's templates, or a template.
            tools: With tools, the template called "tool_use" is the default where there is one.

        Raises:
            ValueError: There is no template, or several and no default.
        """
        return choose_template(self.chat_template, chat_template, tools is not None)

    def apply_chat_template(
        self: Any,
        conversation: Any,
        tools: Sequence[Mapping[str, Any]] | None = None,
        documents: Sequence[Mapping[str, Any]] | None = None,
        chat_template: str | None = None,
        add_generation_prompt: bool = False,
        continue_final_message: bool | str = False,
        tokenize: bool = True,
        padding: bool | str = False,
        truncation: bool | str | None = None,
        max_length: int | None = None,
        return_tensors: str | None = None,
        return_dict: bool = True,
        return_assistant_tokens_mask: bool = False,
        tokenizer_kwargs: Mapping[str, Any] | None = None,
        sanitize_control_tokens: bool = False,
        **variables: Any,
    ) -> Any:
        """Render a conversation by the tokenizer's chat template, and encode the text.

        The template writes special tokens where it wants them: encoding adds none.

        Args:
            conversation: Messages, `[{"role": "user", "content": "Hi"}]`, or a list of such lists.
            tools: JSON schemas of tools, for the template.
            documents: Documents, for the template.
            chat_template: The name of one of the tokenizer's templates, or a template.
            add_generation_prompt: For the template: end with the beginning of an answer.
            continue_final_message: End the text with the last message. A string names its field, if
                it is not "content".
            tokenize: False returns the text.
            padding: As for calling the tokenizer, like the next three.
            truncation: As for calling the tokenizer.
            max_length: As for calling the tokenizer.
            return_tensors: As for calling the tokenizer.
            return_dict: False returns `input_ids` alone.
            return_assistant_tokens_mask: Also return `assistant_masks`: 1 for the tokens of what
                the template has between `{% generation %}` and `{% endgeneration %}`, else 0.
            tokenizer_kwargs: Further options of calling the tokenizer.
            sanitize_control_tokens: Not supported: special tokens in a message stand for
                themselves, as in any text.
            variables: Further variables of the template. It also sees the special tokens by name.

        Returns:
            A batch as from calling the tokenizer, ids, or a text. A list of those for a list of
            conversations.

        Raises:
            TypeError: A message, tool or variable is not a plain value.
            ValueError: There is no template, it cannot be rendered, or options exclude each other.
        """
        if sanitize_control_tokens:
            raise ArgumentError(
                "sanitize_control_tokens", "is not supported. Remove special tokens from messages."
            )
        if return_assistant_tokens_mask and not (tokenize and return_dict):
            raise ArgumentError(
                "return_assistant_tokens_mask", "needs tokenize=True and return_dict=True."
            )
        if continue_final_message and (add_generation_prompt or return_assistant_tokens_mask):
            raise ArgumentError(
                "continue_final_message",
                "excludes add_generation_prompt and return_assistant_tokens_mask.",
            )
        continued = None
        if continue_final_message:
            continued = "content" if continue_final_message is True else continue_final_message
        template = self.get_chat_template(chat_template, tools)
        check_kind("conversation", conversation, list | tuple, "a list of messages")
        is_batch = bool(conversation) and isinstance(conversation[0], list | tuple)
        values = {
            **self.special_tokens_map,
            "tools": tools,
            "documents": documents,
            "add_generation_prompt": add_generation_prompt,
            **variables,
        }
        chats = []
        for messages in conversation if is_batch else [conversation]:
            marks = return_assistant_tokens_mask
            chats.append(render_chat(template, messages, values, marks, continued))
        texts = [chat.text for chat in chats]
        if not tokenize:
            return texts if is_batch else texts[0]
        batch = self(
            texts if is_batch else texts[0],
            padding=padding,
            truncation=truncation,
            max_length=max_length,
            add_special_tokens=False,
            return_tensors=return_tensors,
            **(tokenizer_kwargs or {}),
        )
        if return_assistant_tokens_mask:
            samples = batch.get("overflow_to_sample_mapping", range(len(chats)))
            masks = [
                token_mask(row.offsets, chats[int(sample)].generated)
                for row, sample in zip(batch.encodings, samples, strict=True)
            ]
            is_row = not is_batch and return_tensors is None and len(masks) == 1
            batch["assistant_masks"] = masks[0] if is_row else masks
            batch.convert_to_tensors(return_tensors)
        return batch if return_dict else batch["input_ids"]

    def get_added_vocab(self: Any) -> dict[str, int]:
        """Return added token -> id, special tokens included."""
        return {token.content: token_id for token_id, token in self.added_tokens_decoder.items()}

    @property
    def added_tokens_encoder(self) -> dict[str, int]:
        """The same as `get_added_vocab()`."""
        return self.get_added_vocab()

    def num_special_tokens_to_add(self: Any, pair: bool = False) -> int:
        """Return how many special tokens a row has: [CLS], and a [SEP] for each text.

        Args:
            pair: Whether the row has two texts.
        """
        return int(self._templates[1 if pair else 0].special_count)

    def build_inputs_with_special_tokens(
        self: Any, token_ids_0: Sequence[int], token_ids_1: Sequence[int] | None = None
    ) -> list[int]:
        """Return `[CLS] first [SEP]`, or `[CLS] first [SEP] second [SEP]`.

        Args:
            token_ids_0: Ids of the first text.
            token_ids_1: Ids of the second text, if there is one.
        """
        texts = _texts(token_ids_0, token_ids_1)
        template = self._templates[len(texts) - 1]
        return template.assemble(texts, template.ids)

    def get_special_tokens_mask(
        self: Any,
        token_ids_0: Sequence[int],
        token_ids_1: Sequence[int] | None = None,
        already_has_special_tokens: bool = False,
    ) -> list[int]:
        """Return 1 for special tokens and 0 for others.

        Args:
            token_ids_0: Ids of a text, or of a row.
            token_ids_1: Ids of a second text.
            already_has_special_tokens: `token_ids_0` is a row. Its special tokens are found by
                their ids.

        Raises:
            ValueError: A second text is passed with a row.
        """
        if already_has_special_tokens:
            if token_ids_1 is not None:
                raise ArgumentError(
                    "token_ids_1",
                    "has to be None if token_ids_0 is a whole row with its special tokens.",
                )
            special_ids = set(self.all_special_ids)
            return [int(int(token_id) in special_ids) for token_id in token_ids_0]
        texts = [[0] * len(ids) for ids in _texts(token_ids_0, token_ids_1)]
        template = self._templates[len(texts) - 1]
        return template.assemble(texts, template.fill_special(1))

    def create_token_type_ids_from_sequences(
        self: Any, token_ids_0: Sequence[int], token_ids_1: Sequence[int] | None = None
    ) -> list[int]:
        """Return 0 for the part of the first text in a row, 1 for that of the second.

        Args:
            token_ids_0: Ids of the first text.
            token_ids_1: Ids of the second text, if there is one.
        """
        lengths = [len(ids) for ids in _texts(token_ids_0, token_ids_1)]
        return self._templates[len(lengths) - 1].type_ids(lengths)

    def to_transformers(self: Any) -> Any:
        """Return this tokenizer as a `transformers.BertTokenizerFast`, for tools that require it.

        A tokenizer whose tokenizer.json differs from BERT's becomes a `PreTrainedTokenizerFast`.

        Raises:
            ImportError: transformers is not installed.
        """
        library = need("transformers", "parity", "to_transformers()")
        their_class = library.BertTokenizerFast
        if self.components:
            their_class = library.PreTrainedTokenizerFast
        with TemporaryDirectory() as folder:
            self.save_pretrained(folder)
            tokenizer = their_class.from_pretrained(folder)
        tokenizer.name_or_path = self.name_or_path
        tokenizer.init_kwargs["name_or_path"] = self.name_or_path
        return tokenizer
