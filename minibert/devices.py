"""Devices by name, checked before anything is moved to them."""

from typing import Any

import torch


def resolve_device(device: Any) -> torch.device:
    """Return a device, after checking that this computer has it.

    Args:
        device: A `torch.device`, its name, or the index of a GPU.

    Returns:
        The device.

    Raises:
        ValueError: Several devices, a name that PyTorch does not know, or a device that is missing
            here.
    """
    try:
        resolved = torch.device(device)
    except (RuntimeError, TypeError, ValueError) as error:
        raise ValueError(
            f'device should be one device, such as "cpu", "cuda" or "cuda:1", not {device!r:.80}.'
        ) from error
    counts = {
        "cuda": torch.cuda.device_count(),
        "mps": int(torch.backends.mps.is_available()),
    }
    count = counts.get(resolved.type)
    if count is not None and (resolved.index or 0) >= count:
        raise ValueError(
            f"device {str(resolved)!r} is not available: PyTorch finds {count} devices of type "
            f'{resolved.type} here. Pass device="cpu".'
        )
    return resolved
