"""BertConfig: the sizes and switches of a model, under the names of the official config.json.

Sizes are those of Devlin et al. 2019, section 3: L = num_hidden_layers, H = hidden_size, A =
num_attention_heads. The reading path begins with tokenization/wordpiece.py.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import InitVar, dataclass, field, fields
from typing import TYPE_CHECKING, Any

from minibert.compat.config_methods import (
    BERTS_ATTENTION,
    ConfigCompatibility,
    current_names,
    keeps_own_fields,
)
from minibert.util.errors import ArgumentError

if TYPE_CHECKING:
    from minibert.checkpoints.source import Source

SIZES = (
    "vocab_size",
    "hidden_size",
    "num_attention_heads",
    "intermediate_size",
    "max_position_embeddings",
    "type_vocab_size",
)
PROBABILITIES = (
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
    "classifier_dropout",
)
SWITCHES = (
    "tie_word_embeddings",
    "gradient_checkpointing",
    "output_hidden_states",
    "output_attentions",
    "return_dict",
)
ACTIVATIONS: dict[str, Any] = dict.fromkeys(
    ("gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "silu", "swish", "tanh")
)
"""The values of `hidden_act`, each with its function, which encoder.py adds. Your own can be added:
`ACTIVATIONS["mine"] = f`, then `BertConfig(hidden_act="mine")`."""
ATTENTION_FUNCTIONS: dict[str, Any] = dict.fromkeys(BERTS_ATTENTION)
"""The values of `attn_implementation`, each with its function, which attention.py adds. As with
activations, your own can be added. It makes another model, which is saved with its name."""
CHOICES: dict[str, Iterable[str]] = {
    "hidden_act": ACTIVATIONS,
    "attn_implementation": ATTENTION_FUNCTIONS,
    "dtype": ("float32", "float16", "bfloat16", "float64"),
    "problem_type": (
        "regression",
        "single_label_classification",
        "multi_label_classification",
    ),
}
FUNCTIONS = {
    "hidden_act": "minibert.encoder.ACTIVATIONS",
    "attn_implementation": "minibert.attention.ATTENTION_FUNCTIONS",
}
"""Fields that name a function, and where it is registered."""
OPTIONAL = ("classifier_dropout", "problem_type", "dtype")
"""Checked fields that may be None."""
SUPPORTED = {
    "is_decoder": False,
    "add_cross_attention": False,
    "position_embedding_type": "absolute",
}
"""Fields that would change what a model computes, and the only value that minibert supports."""


@keeps_own_fields
@dataclass(kw_only=True, repr=False)
class BertConfig(ConfigCompatibility):
    """Everything that decides the shape and the behavior of a model.

    Names and defaults are those of the official config.json (`BertConfig` in google-research/bert).
    Fields can be assigned. They are checked by `validate`, which runs when a config is made and
    when a model is built from it. Changing a size afterwards has no effect on that model.

    Args:
        num_labels: Number of labels with default names, `LABEL_0` and so on. Ignored if `id2label`
            or `label2id` names them.
        label2id: Names of the labels, as an alternative to `id2label`.

    Attributes:
        vocab_size: Rows of the word embeddings.
        hidden_size: Width H of a hidden state.
        num_hidden_layers: Number L of encoder layers.
        num_attention_heads: Number A of attention heads. It divides `hidden_size`.
        intermediate_size: Width of the feed-forward network, 4 H in every official model.
        hidden_act: Activation of the feed-forward network, a key of `minibert.encoder.ACTIVATIONS`.
        attn_implementation: `"eager"` (attention step by step), `"sdpa"` (PyTorch's function for
            scaled dot-product attention), or a function of your own, another key of
            `minibert.attention.ATTENTION_FUNCTIONS`. Only the last is written to config.json.
        hidden_dropout_prob: Dropout probability after the embeddings and in both halves of each
            layer, before the residual is added.
        attention_probs_dropout_prob: Dropout probability of the attention weights.
        max_position_embeddings: Length of the longest sequence, in tokens.
        type_vocab_size: Number of segments.
        initializer_range: Standard deviation of new weights.
        layer_norm_eps: Added to the variance in every LayerNorm.
        pad_token_id: Id whose embedding starts as zero and gets no gradient. None: there is no
            padding token.
        classifier_dropout: Dropout probability before a classifier. None: `hidden_dropout_prob`.
        tie_word_embeddings: Whether the decoder of masked-language modeling shares the word
            embeddings.
        gradient_checkpointing: Whether training recomputes each layer for its gradient, to save
            memory.
        problem_type: Loss of a sequence classifier, as `BertForSequenceClassification` lists them.
            None: chosen from `num_labels` and the labels.
        id2label: Name of each label, by index. Its size is `num_labels`. Most are strings.
        output_hidden_states: Whether models return all hidden states, unless a call says otherwise.
        output_attentions: Whether models return the attention weights, unless a call says
            otherwise.
        return_dict: Whether models return an output object. False: plain tuples.
        dtype: Type of the saved weights, such as `"float32"`. None: unknown. A `torch.dtype` can be
            assigned, and `torch_dtype` returns it.
        is_decoder: False, because minibert is an encoder.
        add_cross_attention: False, because minibert is an encoder.
        position_embedding_type: `"absolute"`, as in every official BERT.
        use_cache: Without effect, as are the next four. Official files have them.
        chunk_size_feed_forward: Without effect, because it only divides one product of all tokens.
        bos_token_id: Without effect.
        eos_token_id: Without effect.
        architectures: Names of the model classes that the checkpoint was saved from.
        extra: Fields of the file that minibert does not have. They are written back.

    Raises:
        ValueError: A value that no BERT can have, or that minibert does not support.
    """

    # BERT computes with these.
    vocab_size: int = 30522
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: str = "gelu"
    attn_implementation: str = "sdpa"
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.1
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    initializer_range: float = 0.02
    layer_norm_eps: float = 1e-12
    pad_token_id: int | None = 0
    classifier_dropout: float | None = None
    tie_word_embeddings: bool = True
    gradient_checkpointing: bool = False
    problem_type: str | None = None
    id2label: dict[int, Any] = field(default_factory=dict)
    # Tools expect these.
    output_hidden_states: bool = False
    output_attentions: bool = False
    return_dict: bool = True
    dtype: str | None = None
    is_decoder: bool = False
    add_cross_attention: bool = False
    position_embedding_type: str = "absolute"
    use_cache: bool = True
    chunk_size_feed_forward: int = 0
    bos_token_id: int | None = None
    eos_token_id: int | None = None
    architectures: list[str] | None = None
    extra: dict[str, Any] = field(default_factory=dict)
    num_labels: InitVar[int | None] = None
    label2id: InitVar[Mapping[str, int] | None] = None

    def __post_init__(self, num_labels: int | None, label2id: Mapping[str, int] | None) -> None:
        """Name the labels, and check all fields."""
        self.id2label = name_labels(num_labels, self.id2label, label2id)
        self.validate()
        if self.problem_type == "single_label_classification" and len(self.id2label) == 1:
            raise ValueError(
                "config: problem_type='single_label_classification' needs two labels or more, not "
                "one, whose loss would always be 0. Pass num_labels=2 for a yes or no, or "
                "problem_type='regression' for a number."
            )

    @property
    def own_attention(self) -> str | None:
        """Name of a registered attention function, which is part of the model. None: BERT's."""
        return None if self.attn_implementation in BERTS_ATTENTION else self.attn_implementation

    def validate(self) -> None:
        """Check every field.

        Raises:
            ValueError: As when a config is made.
        """
        for name in SIZES:
            _check(self, name, _is_count(getattr(self, name), 1), "a whole number of 1 or more")
        layers = self.num_hidden_layers
        _check(self, "num_hidden_layers", _is_count(layers, 0), "a whole number of 0 or more")
        for name in PROBABILITIES:
            probability = getattr(self, name)
            is_probability = isinstance(probability, int | float) and 0 <= probability <= 1
            _check(self, name, is_probability, "a probability between 0 and 1")
        for name in ("initializer_range", "layer_norm_eps"):
            value = getattr(self, name)
            is_nonnegative = isinstance(value, int | float) and value >= 0
            _check(self, name, is_nonnegative, "a number of 0 or more")
        for name in SWITCHES:
            _check(self, name, isinstance(getattr(self, name), bool), "true or false")
        for name, choices in CHOICES.items():
            value = getattr(self, name)
            is_choice = isinstance(value, str) and value in choices
            expected = f"one of {', '.join(choices)}"
            if name in FUNCTIONS:
                expected += f" or a function of yours, registered by {FUNCTIONS[name]}[name] = f"
            _check(self, name, is_choice, expected)
        indices = sorted(self.id2label)
        if not indices or indices != list(range(len(indices))):
            raise ValueError(
                "config field id2label should number one or more labels from 0, "
                f"not {indices!s:.80}. Pass id2label={{0: ..., 1: ...}} with the name of "
                "each output of the classifier."
            )
        pad = self.pad_token_id
        if pad is not None and not (_is_count(pad, 0) and pad < self.vocab_size):
            raise ValueError(
                f"config: pad_token_id should be below vocab_size ({self.vocab_size}), "
                f"not {pad!r:.80}."
            )
        for name, supported in SUPPORTED.items():
            value = getattr(self, name)
            if value != supported:
                raise ValueError(
                    f"{name}={value!r:.80} is not supported: minibert is an encoder with absolute "
                    f"positions, whose config has {name}={supported!r}."
                )

    @classmethod
    def from_dict(
        cls, config_dict: Mapping[str, Any], *, return_unused_kwargs: bool = False, **changes: Any
    ) -> BertConfig:
        """Return a config from the content of a config.json.

        Fields that minibert does not have are kept in `extra`, or passed to the `__init__` of a
        subclass that takes them.

        Args:
            config_dict: Fields by name. Older names of a field are accepted.
            return_unused_kwargs: Return the config and a dict of the changes that are no fields.
            changes: Fields that replace those of `config_dict`.

        Raises:
            ValueError: A field that minibert does not support.
            TypeError: A change of a field that no BERT config has.
        """
        from minibert.compat.config_fields import check_changes, translate, unused_changes

        unused = unused_changes(cls, config_dict, changes) if return_unused_kwargs else {}
        changes = {name: value for name, value in changes.items() if name not in unused}
        config = cls(**translate(config_dict, changes, cls))
        check_changes(config, config_dict, changes)
        if return_unused_kwargs:
            return config, unused  # type: ignore[return-value]
        return config

    @classmethod
    def from_preset(cls, name: str, **changes: Any) -> BertConfig:
        """Return the config of a published size: tiny, mini, small, medium, base or large.

        Args:
            name: One of these names. Any other is a ValueError.
            changes: Fields that replace those of the file.
        """
        from minibert.checkpoints.source import preset_file
        from minibert.util.files import read_json

        return cls.from_dict(read_json(preset_file(name)), **changes)

    @classmethod
    def from_pretrained(
        cls,
        pretrained_model_name_or_path: str | os.PathLike[str] | Source,
        *,
        limits: Mapping[str, int] | None = None,
        return_unused_kwargs: bool = False,
        **options: Any,
    ) -> BertConfig:
        """Return the config of a checkpoint.

        Args:
            pretrained_model_name_or_path: Folder, bundled model, Hub id, or a `Source`.
            limits: Larger limits for a checkpoint whose size is an error, see
                `minibert.checkpoints.configs.LIMITS`.
            return_unused_kwargs: Return the config and a dict of the options that are no fields.
            options: `revision`, `cache_dir`, `local_files_only`, `token` and `subfolder` as for
                `Source.of`. Everything else replaces a field of the file.

        Raises:
            FileNotFoundError: There is no such checkpoint, or it has no config.json.
            ValueError: config.json is damaged, or not that of a BERT that minibert supports.
        """
        from minibert.checkpoints.configs import load_config

        config, unused = load_config(
            cls, pretrained_model_name_or_path, options, limits, return_unused_kwargs
        )
        if return_unused_kwargs:
            return config, unused  # type: ignore[return-value]
        return config

    @classmethod
    def get_config_dict(
        cls, pretrained_model_name_or_path: str | os.PathLike[str] | Source, **options: Any
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the content of config.json, and the options that do not say where it is.

        Args:
            pretrained_model_name_or_path: Folder, bundled model, Hub id, or a `Source`.
            options: `revision`, `cache_dir`, `local_files_only`, `token` and `subfolder` as for
                `Source.of`.
        """
        from minibert.checkpoints.configs import read_config

        content, rest, _, _ = read_config(pretrained_model_name_or_path, options)
        return content, rest

    def replace(self, **changes: Any) -> BertConfig:
        """Return a copy with the fields of `changes`. `num_labels=3` gives three default names.

        Raises:
            ValueError: A value that no BERT can have.
            TypeError: A field that no BERT config has.
        """
        from minibert.compat.config_fields import field_names, takes_any_field

        changes = current_names(changes, type(self))
        notes = _notes(self)
        own = notes  # what the `__init__` of a subclass takes
        if not takes_any_field(type(self)):
            own = {name: notes[name] for name in notes.keys() & field_names(type(self))}
        copy = type(self).from_dict({**self.extra, **own, **_field_values(self)}, **changes)
        for name, value in notes.items():
            if name not in changes:
                setattr(copy, name, value)
        return copy

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as config.json holds them, with those of `extra`."""
        values = _field_values(self)
        if self.own_attention is None:
            del values["attn_implementation"]  # how to run a model is not part of the model
        notes = {name: x for name, x in _notes(self).items() if not name.startswith("_")}
        for name, value in notes.items():
            if isinstance(value, ConfigCompatibility):  # a config inside a user's config
                notes[name] = value.to_dict()
        return {
            **self.extra,
            **notes,
            "model_type": self.model_type,
            **values,
            "label2id": self.label2id,
        }

    def save_pretrained(self, save_directory: str | os.PathLike[str], **options: Any) -> None:
        """Write config.json into a folder.

        Args:
            save_directory: The folder. It is created if it does not exist.
            options: Keywords of transformers that ask for nothing, such as `push_to_hub=False`.

        Raises:
            ValueError: A keyword asks for something that minibert does not have.
            TypeError: A keyword is unknown.
        """
        from minibert.compat.keywords import SAVING, check_unused
        from minibert.util.files import make_folder, write_json

        check_unused("BertConfig.save_pretrained", options, SAVING)
        write_json(make_folder(save_directory) / "config.json", self.to_dict())


def _check(config: BertConfig, name: str, is_valid: bool, expected: str) -> None:
    value = getattr(config, name)
    may_be_none = name in OPTIONAL and value is None
    if not is_valid and not may_be_none:
        # `:.80` shows at most 80 characters of the value, here and above.
        raise ValueError(f"config field {name} should be {expected}, not {value!r:.80}.")


def _field_values(config: BertConfig) -> dict[str, Any]:
    return {f.name: getattr(config, f.name) for f in fields(config) if f.name != "extra"}


def _notes(config: BertConfig) -> dict[str, Any]:
    """Return attributes that are not fields: the name of the checkpoint, and what tools set."""
    names = {f.name for f in fields(config)}
    return {name: value for name, value in vars(config).items() if name not in names}


def _is_count(value: Any, minimum: int) -> bool:
    """Whether a value is a whole number of at least `minimum`. Booleans are not."""
    return type(value) is int and value >= minimum


def name_labels(num_labels: int | None, id2label: Any, label2id: Any) -> dict[int, Any]:
    """Return the name of each label, from whichever of the three official fields is set.

    A name need not be a string. It is kept as it is, such as 3 for three stars.

    Args:
        num_labels: Number of labels. None: 2, or as many as are named.
        id2label: Names by index. JSON makes the indices strings.
        label2id: Indices by name.

    Raises:
        ValueError: The fields are not of these kinds, or contradict each other.
    """
    try:
        if id2label:
            labels = {int(index): label for index, label in id2label.items()}
        elif label2id:
            labels = {int(index): label for label, index in label2id.items()}
        else:
            count = 2 if num_labels is None else num_labels
            labels = {index: f"LABEL_{index}" for index in range(count)}
    except (AttributeError, TypeError, ValueError):
        raise ValueError(
            "config fields id2label, label2id, num_labels should name and number labels."
        ) from None
    if num_labels is not None and num_labels != len(labels):
        raise ArgumentError(
            "num_labels", f"is {num_labels!r:.80}, but id2label names {len(labels)} labels."
        )
    return dict(sorted(labels.items()))
