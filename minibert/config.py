"""BertConfig: the sizes and switches of a model, under the names of the official config.json."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field, fields
from pathlib import Path
from typing import Any

from minibert.checkpoints.source import Source, preset_file, split_source
from minibert.compat.config import (
    REFUSED,
    ConfigProtocol,
    changed,
    labels_of,
    takes_other_names,
)
from minibert.compat.keywords import drop_ignored_keywords
from minibert.files import prefix_errors, read_json, write_json

_CHOICES = {
    "hidden_act": ("gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "silu", "swish", "tanh"),
    "attn_implementation": ("sdpa", "eager"),
    "dtype": ("float32", "float16", "bfloat16", "float64"),
    "problem_type": ("regression", "single_label_classification", "multi_label_classification"),
}
_SIZES = "vocab_size hidden_size num_attention_heads intermediate_size max_position_embeddings type_vocab_size".split()
_PROBABILITIES = ("hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout")
_SWITCHES = ("tie_word_embeddings", "output_hidden_states", "output_attentions", "return_dict")
# fields, what they should be, and whether a value is that; None will do where it is the default
_RULES: tuple[tuple[Sequence[str], str, Callable[[Any], bool]], ...] = (
    (_SIZES, "a whole number of 1 or more", lambda x: type(x) is int and x >= 1),
    (("num_hidden_layers",), "a whole number of 0 or more", lambda x: type(x) is int and x >= 0),
    (
        _PROBABILITIES,
        "a probability between 0 and 1",
        lambda x: isinstance(x, int | float) and 0 <= x <= 1,
    ),
    (
        ("initializer_range", "layer_norm_eps"),
        "a number of 0 or more",
        lambda x: isinstance(x, int | float) and x >= 0,
    ),
    (_SWITCHES, "true or false", lambda x: isinstance(x, bool)),
    *(
        (
            ((name,), f"one of {', '.join(choices)}", choices.__contains__)
            for name, choices in _CHOICES.items()
        )
    ),
)
# a mistake or an attack, unless the caller says otherwise
_LIMITS = {"num_hidden_layers": 1000, "num_labels": 1_000_000, "parameters": 4_000_000_000}


@takes_other_names
@dataclass(kw_only=True, repr=False)
class BertConfig(ConfigProtocol):
    """Everything that decides a model's shape and behaviour.

    Field names and defaults are those of the official `config.json` (Devlin et al. 2019, google-research/bert
    `BertConfig`). Fields that a file has and this class does not are kept in `extra` and written back. A field can be
    assigned, and is checked then; a size that changes after the model was built changes nothing in the model.

    Args:
        num_labels: makes default names of so many labels, where `id2label` says none.
        label2id: in place of `id2label`.
        limits: what is refused as a mistake unless it is raised here: `num_hidden_layers` (1,000), `num_labels`
            (1,000,000) and the number of `parameters` (4 billion).

    Attributes:
        vocab_size: rows of the word embeddings.
        hidden_size: width H of a hidden state.
        num_hidden_layers: encoder layers L.
        num_attention_heads: attention heads A; divides `hidden_size`.
        intermediate_size: width of the feed-forward layer, 4 H in every official model.
        hidden_act: its activation, one of `minibert.encoder.ACTIVATIONS`.
        hidden_dropout_prob: dropout after the embeddings and after each block.
        attention_probs_dropout_prob: dropout of the attention probabilities.
        max_position_embeddings: the longest sequence, in tokens.
        type_vocab_size: number of segments.
        initializer_range: standard deviation of new weights.
        layer_norm_eps: added to the variance in every LayerNorm.
        pad_token_id: the id whose embedding starts as zero and gets no gradient.
        classifier_dropout: dropout before a classifier; None takes `hidden_dropout_prob`.
        tie_word_embeddings: the MLM decoder shares the word embeddings.
        problem_type: which loss a sequence classifier takes; None chooses by `num_labels` and the labels.
        id2label: names of the labels; its size is `num_labels`.
        output_hidden_states: return the hidden states of every layer unless a call says otherwise.
        output_attentions: return the attention probabilities unless a call says otherwise.
        return_dict: False makes a model return plain tuples.
        dtype: the type of the saved weights, as in `"float32"`.
        attn_implementation: `"sdpa"` or `"eager"`; not written to config.json.
        extra: fields of the file that minibert does not use.

    Raises:
        ValueError: a value that no BERT can have, or that minibert does not cover, named.
        TypeError: a name that no BERT config has; `from_dict` keeps it.
    """

    vocab_size: int = 30522
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: str = "gelu"
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.1
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    initializer_range: float = 0.02
    layer_norm_eps: float = 1e-12
    pad_token_id: int | None = 0
    classifier_dropout: float | None = None
    tie_word_embeddings: bool = True
    problem_type: str | None = None
    id2label: dict[int, str] = field(default_factory=dict)
    output_hidden_states: bool = False
    output_attentions: bool = False
    return_dict: bool = True
    dtype: str | None = None
    attn_implementation: str = "sdpa"
    extra: dict[str, Any] = field(default_factory=dict)
    num_labels: InitVar[int | None] = None
    label2id: InitVar[Mapping[str, int] | None] = None
    limits: InitVar[Mapping[str, int] | None] = None

    def __post_init__(
        self,
        num_labels: int | None,
        label2id: Mapping[str, int] | None,
        limits: Mapping[str, int] | None,
    ) -> None:
        """Checks; null means "not said", except for pad_token_id: there is no padding word."""
        self._limits = {**_LIMITS, **(limits or {})}
        self._limit("num_labels", num_labels)
        drop_ignored_keywords(self.extra, refused=REFUSED)
        self.extra.pop("model_type", None)
        self.id2label = labels_of(num_labels, self.id2label, label2id)
        for f in fields(self):
            if getattr(self, f.name) is None and f.name != "pad_token_id":
                setattr(self, f.name, f.default)
        self.dtype = None if self.dtype is None else str(self.dtype).removeprefix("torch.")
        for names, wanted, fits in _RULES:
            for name in names:
                value = getattr(self, name)
                if not fits(value) and not (value is None and getattr(type(self), name) is None):
                    raise ValueError(f"config field {name} should be {wanted}, not {value!r:.80}.")
        pad = self.pad_token_id
        if pad is not None and not (type(pad) is int and 0 <= pad < self.vocab_size):
            raise ValueError(
                f"config: pad_token_id should be below vocab_size ({self.vocab_size}), not {pad!r:.80}."
            )
        self._limit("num_hidden_layers", self.num_hidden_layers)
        rows = (
            self.vocab_size
            + self.max_position_embeddings
            + self.type_vocab_size
            + len(self.id2label)
        )
        layers = self.num_hidden_layers * (4 * self.hidden_size + 2 * self.intermediate_size)
        usual = {
            "num_labels": 2,
            **{name: getattr(type(self), name) for name in (*_SIZES, "num_hidden_layers")},
        }
        largest = max(usual, key=lambda name: getattr(self, name) / usual[name])
        self._limit(
            "parameters",
            self.hidden_size * (rows + layers),
            f" for {largest} {getattr(self, largest):,}",
        )
        self._is_complete = True

    def _limit(self, name: str, value: Any, why: str = "") -> None:
        if isinstance(value, int) and value > self._limits[name]:
            raise ValueError(
                f"config: {name} would be {value:,}{why}, more than {self._limits[name]:,}; "
                f"pass limits={ {name: value} } if that is meant."
            )

    @classmethod
    def from_dict(
        cls,
        config_dict: Mapping[str, Any],
        *,
        limits: Mapping[str, int] | None = None,
        **changes: Any,
    ) -> BertConfig:
        """The config of a file's content, whatever else the file says; `changes` are fields that replace its own."""
        extra = changes.pop("extra", {})
        cls.check_names(changes)
        return cls(extra={**changed(config_dict, changes), **extra}, limits=limits)

    @classmethod
    def from_preset(cls, name: str, **overrides: Any) -> BertConfig:
        """The config of a published size: tiny, mini, small, medium, base or large (`configs/NAME.json`)."""
        return cls(**{**read_json(preset_file(name)), **overrides})

    @classmethod
    def from_pretrained(
        cls, pretrained_model_name_or_path: str | os.PathLike[str] | Source, **options: Any
    ) -> BertConfig:
        """The config of a checkpoint.

        Args:
            pretrained_model_name_or_path: folder, bundled model, Hub id, or a `Source`.
            options: `revision`, `cache_dir`, `local_files_only`, `token`, `subfolder` as for `Source.of`; anything else
                overrides a field of the file.

        Raises:
            FileNotFoundError: no such checkpoint, or it holds no config.json.
            ValueError: config.json is not that of a BERT minibert covers.
        """
        source, overrides = split_source(
            pretrained_model_name_or_path, drop_ignored_keywords(options)
        )
        content = read_json(path := source.require("config.json"))
        with prefix_errors(str(path)):
            config = cls.from_dict(content, **overrides)
        config._name_or_path = str(source)
        return config

    def replace(self, **changes: Any) -> BertConfig:
        """A copy with some fields changed; `num_labels=3` gives three default label names."""
        own = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "extra"}
        copy = type(self).from_dict({**self.extra, **own}, limits=self._limits, **changes)
        for name, value in self.marks().items():
            setattr(copy, name, value)
        return copy

    def to_dict(self) -> dict[str, Any]:
        """All fields as config.json holds them, `extra` included."""
        own = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "extra"}
        del own["attn_implementation"]  # how to run a model is not part of what it is
        own["id2label"] = {str(index): label for index, label in self.id2label.items()}
        marks = {name: value for name, value in self.marks().items() if not name.startswith("_")}
        return {
            **self.extra,
            **marks,
            "model_type": self.model_type,
            **own,
            "label2id": self.label2id,
        }

    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        """Writes config.json into `folder`, which is made when it does not exist."""
        Path(folder).mkdir(parents=True, exist_ok=True)
        write_json(Path(folder) / "config.json", self.to_dict())
