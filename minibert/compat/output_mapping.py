"""Outputs as tools for transformers use them: dicts, and pytrees of tensors."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from typing import Any, NoReturn

from torch import Tensor
from torch.utils import _pytree as pytree


class ModelOutput(dict[str, Any]):
    """Base of the outputs: a dataclass in which values that are None count as absent.

    It is the dict of its values by name, as the output classes of transformers are, with one
    difference: iterating gives values, so that `last_hidden_state, pooler_output = model(...)`
    unpacks. There it gives names. Tools that treat an output as a mapping use `keys`, `items` and
    `[name]`, which are the same in both. TorchScript's tracer, and what is built on it, reads the
    dict itself.
    """

    def __init_subclass__(cls) -> None:
        """Make every output a pytree of tensors, for `torch.export`, FSDP and `torch.func`."""
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
        """Take the names and values that tools pass as the only argument.

        They are a mapping, pairs, or an iterator of values without names.

        Any other list or tuple is the value of the first field.
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
            setattr(self, name, value)

    @classmethod
    def _from_pairs(cls, pairs: Iterable[tuple[str, Any]]) -> ModelOutput:
        output = cls()
        for name, value in pairs:
            setattr(output, name, value)  # as it is: a pytree may also hold what is not a tensor
        return output

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute, and the entry of the dict, which follows the order of the fields."""
        super().__setattr__(name, value)
        if value is None:
            dict.pop(self, name, None)
        elif name in self or name == next(reversed(vars(self))):
            dict.__setitem__(self, name, value)
        else:
            present = {
                name: x for name, x in vars(self).items() if x is not None and name[0] != "_"
            }
            dict.clear(self)
            dict.update(self, present)

    def __setitem__(self, name: str, value: Any) -> None:
        setattr(self, name, value)

    def items(self) -> list[tuple[str, Any]]:  # type: ignore[override]  # a list, as the next two
        """Return name and value of everything that is not None, in order."""
        return list(super().items())

    def keys(self) -> list[str]:  # type: ignore[override]
        """Return the names of everything that is not None."""
        return list(super().keys())

    def values(self) -> list[Any]:  # type: ignore[override]
        """Return everything that is not None."""
        return list(super().values())

    def to_tuple(self) -> tuple[Any, ...]:
        """Return everything that is not None as a plain tuple."""
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
        """The type, but for `isinstance` in pipelines of transformers: the class of outputs there.

        They copy any other dict to a plain one, of which feature extraction then asks for `[0]`.
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
