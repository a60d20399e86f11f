"""What tools around a model expect of its config, beyond the fields that BERT computes with."""

from __future__ import annotations

import functools
import inspect
import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from minibert.compat import register

if TYPE_CHECKING:
    import torch

Config = TypeVar("Config", bound="ConfigCompatibility")

UNUSED: dict[str, Any] = {
    "model_type": "bert",
    "is_encoder_decoder": False,
    "use_bfloat16": False,
    "pruned_heads": {},
    "per_layer_config": None,
    "cross_attention_hidden_size": None,
    "tie_encoder_decoder": False,
    "decoder_start_token_id": None,
    "torchscript": False,
    "tie_last_hidden_states": None,
    "sep_token_id": None,
    "tokenizer_class": None,
    "prefix": None,
    "finetuning_task": None,
    "task_specific_params": None,
    "transformers_version": None,
    "tf_legacy_loss": False,
}
"""Fields of transformers' config that change nothing here, with their defaults."""


BERTS_ATTENTION = ("sdpa", "eager")
"""Two ways to run the attention of BERT, the first values of `attn_implementation`."""

RENAMED = {
    "torch_dtype": "dtype",
    "_attn_implementation": "attn_implementation",
    "name_or_path": "_name_or_path",
}
"""Other names of a field, in older files and in tools."""


class ConfigCompatibility:
    """The API of transformers' config: a mapping of its fields, with their other names."""

    id2label: dict[int, Any]
    extra: dict[str, Any]
    dtype: str | None
    return_dict: bool
    attn_implementation: str

    model_type: ClassVar[str] = "bert"
    sub_configs: ClassVar[dict[str, type]] = {}
    keys_to_ignore_at_inference: ClassVar[list[str]] = []
    base_model_tp_plan: ClassVar[None] = None  # a BERT lies on one device
    base_model_pp_plan: ClassVar[None] = None
    attribute_map: ClassVar[dict[str, str]] = {}  # other names of fields in a user's class

    def to_dict(self) -> dict[str, Any]:
        """Return all fields."""
        raise NotImplementedError

    @classmethod
    def from_dict(cls: type[Config], config_dict: Mapping[str, Any], **changes: Any) -> Config:
        """Make a config from its fields."""
        raise NotImplementedError

    @property
    def num_labels(self) -> int:
        """Number of labels, the size of `id2label`. Another number gives default names."""
        return len(self.id2label)

    @num_labels.setter
    def num_labels(self, count: int) -> None:
        if count != len(self.id2label):
            self.id2label = {index: f"LABEL_{index}" for index in range(count)}

    @property
    def label2id(self) -> dict[Any, int]:
        """Index of each label, the inverse of `id2label`."""
        return {label: index for index, label in self.id2label.items()}

    @label2id.setter
    def label2id(self, indices: Mapping[Any, int]) -> None:
        self.id2label = {index: label for label, index in indices.items()}

    @property
    def torch_dtype(self) -> torch.dtype | None:
        """`dtype` as a dtype of torch."""
        import torch

        if self.dtype is None:
            return None
        return getattr(torch, self.dtype)

    @torch_dtype.setter
    def torch_dtype(self, dtype: Any) -> None:
        self.dtype = dtype

    @property
    def _attn_implementation(self) -> str:
        return self.attn_implementation

    @_attn_implementation.setter
    def _attn_implementation(self, name: str) -> None:
        self.attn_implementation = name

    @property
    def use_return_dict(self) -> bool:
        """Whether models return an output object instead of a plain tuple."""
        return self.return_dict and not self.torchscript

    @property
    def name_or_path(self) -> str:
        """The name that was passed to `from_pretrained`, or an empty string."""
        name = vars(self).get("_name_or_path") or self.extra.get("_name_or_path") or ""
        return str(name)

    @name_or_path.setter
    def name_or_path(self, name: str) -> None:
        vars(self)["_name_or_path"] = name

    def __getattr__(self, name: str) -> Any:
        """Return a field of `extra`, or the default that transformers has for it."""
        if name in type(self).attribute_map:
            return getattr(self, type(self).attribute_map[name])
        # torch.compile of older versions cannot trace vars(self).
        for values in (self.__dict__.get("extra", {}), UNUSED):
            if name in values:
                return values[name]
        raise AttributeError(f"{type(self).__name__} has no field {name!r}")

    def __setattr__(self, name: str, value: Any) -> None:
        name = type(self).attribute_map.get(name, name)
        if name == "dtype" and value is not None:
            # A dtype becomes its name, as in config.json: a config can be read without torch.
            value = str(value).removeprefix("torch.")
        super().__setattr__(name, value)

    register = staticmethod(register)
    register_for_auto_class = staticmethod(register)

    @classmethod
    def for_model(cls: type[Config], model_type: str, **values: Any) -> Config:
        """Make a config of a model type, "bert", as `AutoConfig` of transformers does."""
        return cls.from_dict({"model_type": model_type}, **values)

    def get_text_config(self: Config, **_: Any) -> Config:
        """Return the config itself, because text is the only kind of input."""
        return self

    def to_diff_dict(self) -> dict[str, Any]:
        """Return the fields that differ from the defaults, and `model_type`."""
        defaults = type(self)().to_dict()
        changed = {}
        for name, value in self.to_dict().items():
            if name == "model_type" or name not in defaults or value != defaults[name]:
                changed[name] = value
        return changed

    def update(self, config_dict: Mapping[str, Any]) -> None:
        """Assign many fields."""
        for name, value in config_dict.items():
            setattr(self, name, value)

    def __iter__(self) -> Iterator[str]:
        return iter(self.to_dict())

    def keys(self) -> list[str]:
        """Return the names of all fields."""
        return list(self)

    def __getitem__(self, name: str) -> Any:
        return self.to_dict()[name]

    def get(self, name: str, default: Any = None) -> Any:
        """Return the field called `name`, or `default` if there is none."""
        return getattr(self, name, default)

    def to_json_string(self, use_diff: bool = False) -> str:
        """Return `to_dict`, or `to_diff_dict`, as JSON text."""
        values = self.to_diff_dict() if use_diff else self.to_dict()
        return json.dumps(values, indent=2, ensure_ascii=False)

    def to_json_file(self, json_file_path: str | os.PathLike[str], use_diff: bool = False) -> None:
        """Write `to_json_string` to a file."""
        from minibert.util.files import write_json

        values = self.to_diff_dict() if use_diff else self.to_dict()
        write_json(Path(json_file_path), values)

    @classmethod
    def from_json_file(cls: type[Config], json_file: str | os.PathLike[str]) -> Config:
        """Read a config from a file."""
        from minibert.util.files import read_json

        return cls.from_dict(read_json(json_file))

    def __repr__(self) -> str:
        return f"{type(self).__name__} {self.to_json_string()}"


def current_names(values: Mapping[str, Any], config_class: Any) -> dict[str, Any]:
    """Return fields under their names of today. Where there are both names, the new one counts.

    Args:
        values: Fields by name, older names and those of `attribute_map` among them.
        config_class: `BertConfig` or a subclass.
    """
    renamed = config_class.attribute_map
    current = {renamed.get(name, name): value for name, value in values.items()}
    for old, new in RENAMED.items():
        old_value = current.pop(old, None)
        if old_value is not None and current.get(new) is None:
            current[new] = old_value
    return current


def keeps_own_fields(config_class: type[Config]) -> type[Config]:
    """Let subclasses of a config have fields of their own, as in transformers.

    What their `__init__` passes on is kept in `extra`. What is an attribute of the class is
    assigned, as the attribute would hide the value in `extra`.

    Args:
        config_class: The config, a dataclass that takes `num_labels` and `label2id`.
    """
    # `@dataclass` keeps the default of an InitVar as an attribute of the class. It would hide the
    # inherited property of the same name.
    for name in ("num_labels", "label2id"):
        delattr(config_class, name)
    config_class.__init__ = _keeping_unknown(config_class.__init__)  # type: ignore[method-assign]
    return config_class


def _keeping_unknown(init: Callable[..., None]) -> Callable[..., None]:
    """Return an `__init__` that keeps the fields that `init` does not have."""
    names = inspect.signature(init).parameters

    @functools.wraps(init)
    def checked_init(self: Any, *arguments: Any, **values: Any) -> None:
        if values.get("model_type") == type(self).model_type:
            del values["model_type"]  # of `type(config)(**config.to_dict())`
        values = current_names(values, type(self))
        unknown = {name: value for name, value in values.items() if name not in names}
        if unknown:
            if type(self).__init__ is checked_init and unknown.keys() - own_attributes(type(self)):
                from minibert.compat.keywords import refuse_fields

                refuse_fields(type(self).__name__, unknown, names)
            values = {name: value for name, value in values.items() if name in names}
            values["extra"] = {**unknown, **values.get("extra", {})}
        init(self, *arguments, **values)
        for name in self.extra.keys() & own_attributes(type(self)):
            setattr(self, name, self.extra.pop(name))

    return checked_init


def own_attributes(config_class: type) -> set[str]:
    """Return the names of values that a user's config class has as attributes of the class."""
    bases = config_class.__mro__[: config_class.__mro__.index(ConfigCompatibility) - 1]
    names = set()
    for base in bases:
        for name, value in vars(base).items():
            is_code = callable(value) or hasattr(value, "__get__")
            if not is_code and not name.startswith("_"):
                names.add(name)
    return names - vars(ConfigCompatibility).keys()
