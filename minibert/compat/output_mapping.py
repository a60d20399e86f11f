"""Outputs as tools for transformers use them: mappings, and pytrees of tensors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from typing import Any

from torch import Tensor
from torch.utils import _pytree as pytree


class ModelOutput:
    """Base of the outputs: a dataclass in which values that are None count as absent.

    It has the API of the output classes of transformers, with one difference: iterating gives
    values, so that `last_hidden_state, pooler_output = model(...)` unpacks. There it gives names.
    Tools that treat an output as a mapping use `keys`, `items` and `[name]`, which are the same in
    both.
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
        vars(output).update(pairs)  # as they are: a pytree may also hold what is not a tensor
        return output

    def items(self) -> list[tuple[str, Any]]:
        """Return name and value of everything that is not None, in order."""
        return [(name, value) for name, value in vars(self).items() if value is not None]

    def keys(self) -> list[str]:
        """Return the names of everything that is not None."""
        return [name for name, _ in self.items()]

    def values(self) -> list[Any]:
        """Return everything that is not None."""
        return [value for _, value in self.items()]

    def to_tuple(self) -> tuple[Any, ...]:
        """Return everything that is not None as a plain tuple."""
        return tuple(self.values())

    def get(self, name: str, default: Any = None) -> Any:
        """Return the value called `name`, or `default` if it is None or missing."""
        return dict(self.items()).get(name, default)

    def __getitem__(self, key: str | int | slice) -> Any:
        if not isinstance(key, str):
            return self.to_tuple()[key]
        present = dict(self.items())
        if key not in present:
            raise KeyError(f"{key!r} is not in this output, which has {', '.join(present)}")
        return present[key]

    def __setitem__(self, name: str, value: Any) -> None:
        setattr(self, name, value)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.values())

    def __len__(self) -> int:
        return len(self.items())

    def __contains__(self, name: object) -> bool:
        return name in self.keys()


Mapping.register(ModelOutput)  # for tools that ask isinstance(output, Mapping)
