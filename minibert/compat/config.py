"""The interface that the tools around a model expect of its config beyond the fields that BERT computes with.

A config is assignable (`config.num_labels = 3`), a mapping of names to values, and knows the reference's other fields:
those can be read and are written back, but a value that asks for what minibert cannot do is refused.
"""

from __future__ import annotations

import difflib
import functools
import inspect
import json
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from minibert.checks import refuse_unknown
from minibert.compat.keywords import Refused
from minibert.files import read_json, write_json

if TYPE_CHECKING:
    import torch

Config = TypeVar("Config", bound="ConfigProtocol")

RENAMED = {
    "torch_dtype": "dtype",
    "_attn_implementation": "attn_implementation",
    "name_or_path": "_name_or_path",
}
"""Other names of a field, as older files and tools have them."""

REFUSED: Refused = {
    "model_type": ("bert", "minibert loads BERT checkpoints only."),
    "position_embedding_type": ("absolute", "only absolute positions are."),
    "is_decoder": (False, "minibert is an encoder."),
    "add_cross_attention": (False, "minibert is an encoder."),
    "is_encoder_decoder": (False, "minibert is an encoder."),
    "use_bfloat16": (False, "pass dtype='bfloat16' to from_pretrained."),
    "pruned_heads": ({}, "nor is it by the reference since version 5; see Trace.switch_off_head."),
    "per_layer_config": (None, "all layers are of one size."),
}
"""The reference's fields of which only one value asks for what there is, and what to say of others."""

UNUSED: dict[str, Any] = {
    **{name: usual for name, (usual, _) in REFUSED.items()},
    # of encoders with a decoder beside them
    "cross_attention_hidden_size": None,
    "tie_encoder_decoder": False,
    "use_cache": True,  # keys and values of earlier words, which only a decoder has
    "decoder_start_token_id": None,
    # of other ways to compute the same numbers
    "chunk_size_feed_forward": 0,  # memory only
    "torchscript": False,  # plain tuples, see `use_return_dict`
    "gradient_checkpointing": False,  # as model.gradient_checkpointing_enable()
    "tie_last_hidden_states": None,
    # of the tokenizer, the task and the file
    "bos_token_id": None,
    "eos_token_id": None,
    "sep_token_id": None,
    "tokenizer_class": None,
    "prefix": None,
    "finetuning_task": None,
    "task_specific_params": None,
    "architectures": None,
    "transformers_version": None,
    "tf_legacy_loss": False,
}
"""The reference's fields that change nothing here, with their defaults."""

# switches of text generation, which every config held until transformers 5
GENERATION = frozenset(
    "max_length min_length do_sample early_stopping num_beams num_beam_groups diversity_penalty temperature top_k "
    "top_p typical_p repetition_penalty length_penalty no_repeat_ngram_size encoder_no_repeat_ngram_size bad_words_ids "
    "num_return_sequences output_scores return_dict_in_generate forced_bos_token_id forced_eos_token_id "
    "remove_invalid_values exponential_decay_length_penalty suppress_tokens begin_suppress_tokens".split()
)


def labels_of(count: Any, id2label: Any, label2id: Any) -> dict[int, str]:
    """Label names by number, from whichever of the three official fields is given."""
    try:
        if id2label:
            labels = {int(index): str(label) for index, label in id2label.items()}
        elif label2id:
            labels = {int(index): str(label) for label, index in label2id.items()}
        else:
            labels = {index: f"LABEL_{index}" for index in range(2 if count is None else count)}
    except (AttributeError, TypeError, ValueError):
        raise ValueError(
            "config fields id2label, label2id, num_labels should name and number labels."
        ) from None
    if not labels or sorted(labels) != list(range(len(labels))):
        raise ValueError(
            f"config field id2label should number one or more labels from 0, not {sorted(labels)!s:.80}."
        )
    if count is not None and count != len(labels):
        raise ValueError(f"num_labels is {count!r:.80}, but id2label names {len(labels)} labels.")
    return dict(sorted(labels.items()))


def changed(values: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Fields with some of them changed; other labels, or another number of them, replace all that names labels."""
    labels = {"num_labels", "id2label", "label2id"}
    named = values.get("id2label") or values.get("label2id")
    count = len(named) if isinstance(named, Mapping) else values.get("num_labels", 2)
    if changes.keys() & {"id2label", "label2id"} or changes.get("num_labels") not in (None, count):
        values = {name: value for name, value in values.items() if name not in labels}
    return {**values, **changes}


def takes_other_names(cls: type[Config]) -> type[Config]:
    """Lets a config's constructor take the reference's other fields and older names, too; they are kept in `extra`.

    Type checkers and `inspect.signature` see the fields alone.
    """
    make: Callable[..., None] = cls.__init__
    names = inspect.signature(make).parameters.keys() - {"self", "extra", "limits"}
    cls.known = frozenset({*names, *RENAMED, *UNUSED})
    for name in ("num_labels", "label2id", "limits"):
        delattr(cls, name)  # the constructor's defaults, which would hide the properties

    @functools.wraps(make)
    def init(
        self: Config, *, extra: Mapping[str, Any] | None = None, limits: Any = None, **values: Any
    ) -> None:
        cls.check_names(values)
        values = {**(extra or {}), **values}
        for old, new in RENAMED.items():  # where both are there, the new name counts
            if old in values and values.get(new) is None:
                values[new] = values[old]
        own = {name: values[name] for name in names & values.keys()}
        other = {
            name: value for name, value in values.items() if name not in own and name not in RENAMED
        }
        make(self, **own, extra=other, limits=limits)

    cls.__init__ = init  # type: ignore[method-assign, assignment]
    return cls


class ConfigProtocol:
    """The reference's `PreTrainedConfig` in all that is not a field of BERT."""

    id2label: dict[int, str]
    extra: dict[str, Any]
    dtype: str | None
    return_dict: bool
    attn_implementation: str
    replace: Callable[..., Any]
    to_dict: Callable[[], dict[str, Any]]
    from_dict: Callable[..., Any]

    known: ClassVar[frozenset[str]]
    """The names of all fields, ours and the reference's, but for switches of text generation."""
    _is_complete = False  # the constructor has yet to check what it sets

    model_type: ClassVar[str] = "bert"
    sub_configs: ClassVar[dict[str, type]] = {}
    keys_to_ignore_at_inference: ClassVar[list[str]] = []

    @property
    def num_labels(self) -> int:
        """Number of labels of a classifier, the size of `id2label`."""
        return len(self.id2label)

    @property
    def label2id(self) -> dict[str, int]:
        """Label names to numbers, the inverse of `id2label`."""
        return {label: index for index, label in self.id2label.items()}

    @classmethod
    def check_names(cls, names: Iterable[str]) -> None:
        """TypeError for a name that no BERT config has, with the nearest one that it has."""
        own = [name for name in names if name not in GENERATION and not name.startswith("_")]
        refuse_unknown(cls.__name__, own, cls.known, "keep what is yours in extra={...}.", "field")

    def marks(self) -> dict[str, Any]:
        """Attributes that are no fields: what tools have set, and names that begin with an underscore."""
        return {
            name: value
            for name, value in vars(self).items()
            if name != "extra" and name not in self.known
        }

    def __setattr__(self, name: str, value: Any) -> None:
        """Assigns a field, checked as in the constructor; any other name is kept and written to config.json."""
        name = RENAMED.get(name, name)
        if name.startswith("_") or name == "extra" or not self._is_complete:
            object.__setattr__(self, name, value)
        elif name in self.known:
            vars(self).update(vars(self.replace(**{name: value})))
        else:
            if nearest := difflib.get_close_matches(
                name, self.known, n=1, cutoff=0.8
            ):  # a mistake, or another model's
                what = f"{type(self).__name__} has no field {name!r}, which is kept without effect"
                warnings.warn(f"{what}; did you mean {nearest[0]!r}?", stacklevel=2)
            object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        """Fields that minibert does not use: as the file has them, or the reference's defaults."""
        for values in (
            self.__dict__.get("extra", {}),
            UNUSED,
        ):  # not vars(self): older torch.compile cannot trace it
            if name in values:
                return values[name]
        raise AttributeError(f"{type(self).__name__} has no field {name!r}")

    @property
    def torch_dtype(self) -> torch.dtype | None:
        """`dtype` as torch has it."""
        import torch

        return None if self.dtype is None else getattr(torch, self.dtype)

    @property
    def _attn_implementation(self) -> str:
        return self.attn_implementation

    @property
    def use_return_dict(self) -> bool:
        """Whether models return their output class and not a plain tuple."""
        return self.return_dict and not self.torchscript

    @property
    def name_or_path(self) -> str:
        """The name that was passed to `from_pretrained`, or nothing."""
        return str(vars(self).get("_name_or_path") or self.extra.get("_name_or_path") or "")

    def get_text_config(self: Config, **_: Any) -> Config:
        """Itself: there is no other kind of input."""
        return self

    def to_diff_dict(self) -> dict[str, Any]:
        """`to_dict` without what every new config has."""
        default = type(self)().to_dict()
        return {
            n: x
            for n, x in self.to_dict().items()
            if n == "model_type" or n not in default or x != default[n]
        }

    def update(self, values: Mapping[str, Any]) -> None:
        """Assigns many fields."""
        for name, value in values.items():
            setattr(self, name, value)

    def __iter__(self) -> Iterator[str]:
        return iter(self.to_dict())

    def keys(self) -> list[str]:
        """Names of all fields."""
        return list(self)

    def __getitem__(self, name: str) -> Any:
        return self.to_dict()[name]

    def get(self, name: str, default: Any = None) -> Any:
        """The field called `name`, or `default` where there is none."""
        return getattr(self, name, default)

    def to_json_string(self, use_diff: bool = False) -> str:
        """`to_dict`, or `to_diff_dict`, as JSON text."""
        return json.dumps(
            self.to_diff_dict() if use_diff else self.to_dict(), indent=2, ensure_ascii=False
        )

    def to_json_file(self, json_file_path: str | os.PathLike[str], use_diff: bool = False) -> None:
        """Writes `to_json_string` to a file."""
        write_json(Path(json_file_path), self.to_diff_dict() if use_diff else self.to_dict())

    @classmethod
    def from_json_file(cls: type[Config], json_file: str | os.PathLike[str]) -> Config:
        """The config in a file."""
        config: Config = cls.from_dict(read_json(json_file))
        return config

    def __repr__(self) -> str:
        return f"{type(self).__name__} {self.to_json_string()}"
