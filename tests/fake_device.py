"""A simulated accelerator, whose values are computed on the CPU.

    with fake_device():
        model = BertModel(config).to(NAME)
        model(ids.to(NAME))      # raises an error where a GPU would, for ids on the CPU

Each tensor on the device wraps a CPU tensor. As on CUDA, every operation checks that all of its
tensors are on the device, except for zero-dimensional ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

NAME = "mps:0"  # a device type that needs no initialization
DEVICE = torch.device(NAME)
AUTOGRAD_DEVICE = torch.device("meta")  # autograd needs a driver for any other device
_COPIES = ("_to_copy", "copy_")
_MATH = 0  # the backend of scaled_dot_product_attention that is composed of single operations


class OnDevice(torch.Tensor):
    """A tensor on the device. Its values are in `content`, a CPU tensor."""

    content: torch.Tensor

    @staticmethod
    def __new__(cls, content: torch.Tensor) -> OnDevice:
        """Wrap a CPU tensor."""
        tensor: OnDevice = torch.Tensor._make_wrapper_subclass(
            cls,
            content.shape,
            strides=content.stride(),
            storage_offset=content.storage_offset(),
            dtype=content.dtype,
            device=AUTOGRAD_DEVICE,
            requires_grad=False,
        )
        tensor.content = content
        return tensor

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return dispatch(func, args, kwargs or {})

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        """The simulated device."""
        return DEVICE

    @property
    def is_meta(self) -> bool:  # type: ignore[override]
        """Return False, as the tensor has values."""
        return False

    def tolist(self) -> Any:
        """Return the values as Python numbers."""
        return self.content.tolist()


def dispatch(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Run an operation on the device, or a copy between the device and the CPU."""
    name = func.overloadpacket.__name__
    tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
    on_device = [tensor for tensor in tensors if isinstance(tensor, OnDevice)]
    target = kwargs.get("device")
    if target is None:
        is_here = bool(on_device)
    else:
        is_here = torch.device(target) in (DEVICE, AUTOGRAD_DEVICE)
        kwargs = {**kwargs, "device": "cpu"}
    if name == "_fused_sdp_choice":
        return _MATH
    if on_device and name not in _COPIES:
        on_cpu = [tensor for tensor in tensors if not isinstance(tensor, OnDevice) and tensor.ndim]
        shapes = [tuple(tensor.shape) for tensor in on_cpu]
        assert not on_cpu, f"{func} has tensors {shapes} on the CPU and others on the device"
    if name == "copy_":
        is_here = isinstance(args[0], OnDevice)

    def content(value: Any) -> Any:
        return value.content if isinstance(value, OnDevice) else value

    results = func(*tree_map(content, args), **tree_map(content, kwargs))
    by_content = {id(tensor.content): tensor for tensor in on_device}

    def wrap(value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or not is_here:
            return value
        if id(value) in by_content:  # an in-place operation returns the tensor it was called on
            return by_content[id(value)]
        return OnDevice(value)

    return tree_map(wrap, results)


class _Operations(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return dispatch(func, args, kwargs or {})


class _Constants(TorchFunctionMode):
    """Create constants on the CPU and copy them: `torch.tensor` dispatches no operation."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        options = dict(kwargs or {})
        if func in (torch.tensor, torch.as_tensor) and options.get("device") == DEVICE:
            del options["device"]
            return func(*args, **options).to(DEVICE)
        if func is torch.Tensor.new_tensor and isinstance(args[0], OnDevice):
            options.setdefault("dtype", args[0].dtype)
            return torch.tensor(*args[1:], **options).to(DEVICE)
        return func(*args, **options)


@contextmanager
def fake_device() -> Iterator[None]:
    """Simulate the device for new tensors and for copies to it."""
    with _Operations(), _Constants():  # type: ignore[no-untyped-call]
        yield
