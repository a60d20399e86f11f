"""Devices by name, checked before anything is moved to them."""

from typing import Any

import torch

from minibert.util.errors import ArgumentError


def available_devices() -> list[str]:
    """Return the names of the devices of this computer, the CPU first."""
    devices = ["cpu"]
    devices += [f"cuda:{number}" for number in range(torch.cuda.device_count())]
    if torch.backends.mps.is_available():
        devices.append("mps")
    return devices


def default_training_device() -> str:
    """Return where training runs unless an option names a device: a GPU where there is one."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def resolve_device(device: Any) -> torch.device:
    """Return a device, after checking its name, and that this computer has it if it is a GPU.

    Args:
        device: A `torch.device`, its name, or the index of a GPU.

    Returns:
        The device.

    Raises:
        ValueError: Several devices, a name that PyTorch does not know, or a GPU that is missing
            here.
    """
    try:
        resolved = torch.device(device)
    except (RuntimeError, TypeError, ValueError) as error:
        raise ArgumentError(
            "device",
            f'should be one device, such as "cpu", "cuda" or "cuda:1", not {device!r:.80}.',
        ) from error
    # PyTorch says in a sentence that devices of other kinds are missing
    if resolved.type == "cuda":
        devices = available_devices()
        if f"cuda:{resolved.index or 0}" not in devices:
            raise ArgumentError(
                "device",
                f"should be one of this computer's ({', '.join(devices)}), not {str(resolved)!r}.",
            )
    return resolved
