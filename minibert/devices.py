"""Devices by name, checked before anything is moved to them."""

from typing import Any

import torch


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
        raise ValueError(
            f'device should be one device, such as "cpu", "cuda" or "cuda:1", not {device!r:.80}.'
        ) from error
    # PyTorch says in a sentence that other devices are missing
    if resolved.type == "cuda":
        count = torch.cuda.device_count()
        if (resolved.index or 0) >= count:
            raise ValueError(
                f"device {str(resolved)!r} is not available: PyTorch finds {count} devices of "
                'type cuda here. Pass device="cpu".'
            )
    return resolved
