"""How much memory a service may use, and about how much a model needs.

The system kills a process that uses more than its container may have, without a word. So what is
about to happen is said before a model is loaded.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from minibert.checkpoints.configs import USUAL_SIZES, count_parameters
from minibert.util.checks import warn

if TYPE_CHECKING:
    from minibert.config import BertConfig

# Measured at the peak of loading, of the process and of each byte of weights in fp32: 507 MB with
# MiniLM and 1,496 MB with BERT base
BASE_BYTES = 250e6
BYTES_PER_WEIGHT = 2.85

CGROUPS = Path("/proc/self/cgroup")
MOUNT = Path("/sys/fs/cgroup")


def warn_of_memory(name: str, config: BertConfig) -> None:
    """Warn of a model that needs more memory than there may be.

    Args:
        name: Name of the model, for the warning.
        config: Its configuration.
    """
    limit = memory_limit()
    parameters = count_parameters({size: getattr(config, size) for size in USUAL_SIZES})
    needed = BASE_BYTES + BYTES_PER_WEIGHT * 4 * parameters
    if limit is not None and limit < needed:
        warn(
            f"There may be too little memory for {name}: loading it takes about "
            f"{needed / 1e9:.1f} GB, and the limit here is {limit / 1e9:.1f} GB. If the process is "
            "killed, give it more."
        )


def memory_limit() -> int | None:
    """Bytes that this process may use: of its container, or of the machine. None: unknown."""
    if sys.platform == "win32":
        return None
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for path in _limit_files():
        try:
            limits.append(int(path.read_text(encoding="ascii")))
        except (OSError, ValueError):  # it does not exist here, or is "max"
            continue
    return min(limits)


def _limit_files() -> Iterable[Path]:
    """The files with the limits of the control groups of this process, in versions 1 and 2."""
    try:
        lines = CGROUPS.read_text(encoding="utf-8").splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, group = line.split(":", 2)
        if not controllers:
            root, name = MOUNT, "memory.max"
        elif "memory" in controllers.split(","):
            root, name = MOUNT / "memory", "memory.limit_in_bytes"
        else:
            continue
        yield root / group.lstrip("/") / name
        yield root / name  # in a container, whose group may have the name that it has outside
