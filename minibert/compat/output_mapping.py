"""The base of the outputs of models: dicts and pytrees, as tools for transformers expect them."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from typing import Any, NoReturn

from torch import Tensor
from torch.utils import _pytree as pytree


class ModelOutput(dict[str, Any]):
    """Base class of the outputs: a dataclass in which values that are None count as absent.

    It is also a dict of its values by name, as the outputs of transformers are. One thing differs.
    Iterating gives values, so that `last_hidden_state, pooler_output = model(...)` unpacks, while
    in transformers it gives names. Tools that treat an output as a mapping use `keys`, `items` and
    `[name]`, which are the same in both. The tracer of TorchScript reads the dict itself.
    """

    def __init_subclass__(cls) -> None:
        """Register each output class as a pytree, for `torch.export`, FSDP and `torch.func`."""
        super().__init_subclass__()
        pytree.register_pytree_node(
            cls,
            lambda output: (output.values(), output.keys()),
            lambda values, names: cls._from_pairs(zip(names, values, strict=True)),
            serialized_type_name=f"{cls.__module__}.{cls.__name__}",
            flatten_with_keys_fn=lambda output: (
                [(pytree.MappingKey(name), value) for name, value in output.items()],
                output.keys(),
            ),
        )

    def __post_init__(self) -> None:
        """Unpack fields that a tool passes as the only argument.

        They may be a mapping, name-value pairs, or an iterator of values in the order of the
        fields. Any other iterable is the value of the first field.
        """
        first_field, *others = [field.name for field in fields(self)]  # type: ignore[arg-type]
        argument = getattr(self, first_field)
        if isinstance(argument, Tensor) or not isinstance(argument, Iterable):
            return
        if any(getattr(self, name) is not None for name in others):
            return
        pairs = list(argument.items()) if isinstance(argument, Mapping) else list(argument)
        if not all(isinstance(x, tuple) and len(x) == 2 and isinstance(x[0], str) for x in pairs):
            if not isinstance(argument, Iterator):
                return
            from minibert.compat.gathered import named_values

            pairs = named_values(type(self), pairs)
        setattr(self, first_field, None)
        for name, value in pairs:
            self[name] = value

    @classmethod
    def _from_pairs(cls, pairs: Iterable[tuple[str, Any]]) -> ModelOutput:
        output = cls()
        for name, value in pairs:
            output[name] = value  # unchecked: a pytree may hold other things than tensors
        return output

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute, and its entry in the dict if it is a field or has one."""
        if name in type(self).__dataclass_fields__ or name in self:  # type: ignore[attr-defined]
            self[name] = value
        else:
            super().__setattr__(name, value)

    def __setitem__(self, name: str, value: Any) -> None:
        """Set an entry and its attribute. The order is that of the fields, then of assignment."""
        super().__setattr__(name, value)
        if value is None:
            dict.pop(self, name, None)
        elif name in self or name == next(reversed(vars(self))):
            dict.__setitem__(self, name, value)
        else:
            names = [field.name for field in fields(self)]  # type: ignore[arg-type]
            values = {x: getattr(self, x, None) for x in [*names, *self.keys(), name]}
            dict.clear(self)
            dict.update(self, {x: value for x, value in values.items() if value is not None})

    def items(self) -> list[tuple[str, Any]]:  # type: ignore[override]  # a list, as the next two
        """Return the names and values that are not None, in the order of the fields."""
        return list(super().items())

    def keys(self) -> list[str]:  # type: ignore[override]
        """Return the names of the values that are not None."""
        return list(super().keys())

    def values(self) -> list[Any]:  # type: ignore[override]
        """Return the values that are not None."""
        return list(super().values())

    def to_tuple(self) -> tuple[Any, ...]:
        """Return the values that are not None as a plain tuple."""
        return tuple(super().values())

    def __iter__(self) -> Iterator[Any]:
        return iter(self.values())

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, int | slice):
            return self.to_tuple()[key]
        if not isinstance(key, str):
            from minibert.compat.gathered import value_for

            return value_for(self, key)
        if key not in self:
            raise KeyError(f"{key!r} is not in this output, which has {', '.join(self.keys())}")
        return super().__getitem__(key)

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """The type, or in a pipeline of transformers the `ModelOutput` of transformers.

        There `isinstance` decides. A pipeline copies any other dict into a plain one, which fails
        when feature extraction reads `[0]` from it.
        """
        if sys._getframe(1).f_code.co_name == "_ensure_tensor_on_device":
            return getattr(sys.modules.get("transformers.utils.generic"), "ModelOutput", type(self))
        return type(self)

    def _change(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError(
            f"The names of {type(self).__name__} are its fields. Assign a value, or None to remove "
            "it: output.attentions = None. dict(output) can be changed."
        )

    __delitem__ = pop = popitem = clear = setdefault = update = _change
