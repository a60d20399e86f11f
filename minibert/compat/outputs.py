"""The interface that tools expect of an output: a mapping, and a pytree that can be taken apart and put together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from typing import Any

from torch import Tensor
from torch.utils import _pytree as pytree


class ModelOutput:
    """Named results, a dataclass; those that were not asked for are None and absent everywhere but by attribute.

    It is the reference's protocol with one difference: iterating gives values, so that `last_hidden_state,
    pooler_output = model(...)` unpacks, while the reference's gives names. Tools that treat an output as a mapping go
    through `keys`, `items` and `[name]`, which are the same in both.
    """

    def __init_subclass__(cls) -> None:
        """Makes every output a pytree, whose leaves are tensors: for `torch.export`, FSDP and `torch.func`."""
        super().__init_subclass__()
        pytree.register_pytree_node(
            cls,
            lambda output: (output.values(), output.keys()),
            lambda values, names: cls._of(zip(names, values, strict=True)),
            serialized_type_name=f"{cls.__module__}.{cls.__name__}",
            flatten_with_keys_fn=lambda output: (
                [(pytree.MappingKey(name), value) for name, value in output.items()],
                output.keys(),
            ),
        )

    def __post_init__(self) -> None:
        """Takes all values as a mapping, as name-value pairs or in order, in place of the first field."""
        first = fields(self)[0].name  # type: ignore[arg-type]
        given = getattr(self, first)
        if isinstance(given, Tensor) or not isinstance(given, Iterable):
            return
        setattr(self, first, None)
        values = list(given.items() if isinstance(given, Mapping) else given)
        if not all(
            isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str)
            for value in values
        ):
            values = list(self._names_for(values))
        for name, value in values:
            setattr(self, name, value)

    @classmethod
    def _of(cls, pairs: Iterable[tuple[str, Any]]) -> ModelOutput:
        output = cls()
        vars(output).update(pairs)
        return output

    @classmethod
    def _names_for(cls, values: list[Any]) -> Iterator[tuple[str, Any]]:
        """Each value with its field's name: `torch.nn.DataParallel` gathers what iterating gives, without names."""
        names = iter([field.name for field in fields(cls)])  # type: ignore[arg-type]
        for value in values:
            name = next((name for name in names if _fits(name, value)), None)
            if name is None:
                raise ValueError(
                    f"{cls.__name__} takes values by name, or a mapping of them, not {values!r:.80}."
                )
            yield name, value

    def items(self) -> list[tuple[str, Any]]:
        """Name and value of everything that is there, in order."""
        return [(name, value) for name, value in vars(self).items() if value is not None]

    def keys(self) -> list[str]:
        """The names of everything that is there."""
        return [name for name, _ in self.items()]

    def values(self) -> list[Any]:
        """Everything that is there."""
        return [value for _, value in self.items()]

    def to_tuple(self) -> tuple[Any, ...]:
        """Everything that is there, as a plain tuple."""
        return tuple(self.values())

    def get(self, name: str, default: Any = None) -> Any:
        """The value called `name`, or `default` when it is not there."""
        return dict(self.items()).get(name, default)

    def __getitem__(self, key: str | int | slice) -> Any:
        if isinstance(key, str):
            present = dict(self.items())
            if key not in present:
                raise KeyError(f"{key!r} is not in this output, which has {', '.join(present)}")
            return present[key]
        return self.to_tuple()[key]

    def __setitem__(self, name: str, value: Any) -> None:
        setattr(self, name, value)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.values())

    def __len__(self) -> int:
        return len(self.items())

    def __contains__(self, name: object) -> bool:
        return name in self.keys()


Mapping.register(ModelOutput)


def _fits(name: str, value: Any) -> bool:
    """Whether a value can be that of a field, by its rank: a loss, states or maps of every layer, or else rows."""
    if name in ("hidden_states", "attentions"):
        return isinstance(value, tuple) and all(
            (x.dim() == 4) == (name == "attentions") for x in value
        )
    return isinstance(value, Tensor) and (value.dim() < 2) == (name == "loss")
