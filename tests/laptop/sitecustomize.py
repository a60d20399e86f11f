"""Simulates a student's laptop on Linux: Windows, with a file system that has no links.

On Windows, an open or mapped file can be neither renamed nor removed. There is no fcntl, no fork
and no named pipe. Python imports a module of this name at startup, so every process of the tests
is simulated when this folder is in PYTHONPATH. Tests that need one of the missing features are
marked, such as `@pytest.mark.needs("fork")`, and skipped.
"""

from __future__ import annotations

import builtins
import multiprocessing
import os
import shutil
from collections.abc import Callable, Iterator
from typing import Any


def _open_files() -> Iterator[str]:
    for handle in os.listdir("/proc/self/fd"):
        try:
            yield os.readlink(f"/proc/self/fd/{handle}")
        except FileNotFoundError:  # the handle of the listing itself
            continue
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
        yield from (line.rstrip("\n").split(maxsplit=5)[5] for line in maps if "/" in line)


def is_open(path: Any) -> bool:
    """Whether this process has opened or mapped the file, or a file in the folder."""
    real = os.path.realpath(os.fsdecode(path))
    return any(file == real or file.startswith(real + os.sep) for file in _open_files())


def become_a_laptop(
    change: Callable[..., None] = setattr, remove: Callable[..., None] = delattr
) -> None:
    """Remove the features that Windows lacks.

    Args:
        change: Sets an attribute. A MonkeyPatch's method makes the change temporary.
        remove: Deletes an attribute. A MonkeyPatch's method makes the deletion temporary.
    """
    plain_import = builtins.__import__

    def refuse_if_open(name: str) -> Any:
        real = getattr(os, name)

        def checked(*paths: Any, **options: Any) -> Any:
            if any(map(is_open, paths)):
                raise PermissionError(
                    13, "The process cannot access the file", os.fsdecode(paths[0])
                )
            return real(*paths, **options)

        return checked

    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(1314, "A required privilege is not held by the client")

    def import_available(name: str, namespace: Any = None, *more: Any, **options: Any) -> Any:
        # other libraries check the name of the system, so they still need these modules
        importer = str((namespace or {}).get("__name__"))
        if name in ("fcntl", "resource") and importer.startswith("minibert"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return plain_import(name, namespace, *more, **options)

    change(builtins, "__import__", import_available)
    for name in ("replace", "rename", "unlink", "remove"):
        change(os, name, refuse_if_open(name))
    for name in ("link", "symlink"):
        change(os, name, refuse)
    for name in ("fork", "pread", "mkfifo", "sched_getaffinity"):
        if hasattr(os, name):
            remove(os, name)
    change(shutil, "_use_fd_functions", False)


if __name__ == "sitecustomize":
    become_a_laptop()
    multiprocessing.set_start_method("spawn")
