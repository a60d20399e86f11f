"""Commands in processes forked from the tests, which have already imported everything.

They start in milliseconds, so a test can start and kill hundreds. A test that needs a fresh
interpreter starts one with `subprocess` and says why.
"""

from __future__ import annotations

import errno
import gc
import importlib
import multiprocessing
import os
import random
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from minibert.cli import main

# where a process is ended, or finds a full disk: before it opens a file to write, renames, ...
STEPS = {
    *("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod", "os.truncate"),
    "shutil.rmtree",
}
KILLED = 9


def _run(arguments: list[str], log: Path, environment: dict[str, str]) -> None:
    os.environ.update(environment)
    with log.open("w", encoding="utf-8") as sys.stdout:
        sys.stderr = sys.stdout
        code = main(arguments)
    os._exit(code)


def start(arguments: list[str], log: Path, **environment: str) -> BaseProcess:
    """Start the minibert command in its own process, with its output in the file `log`."""
    importlib.import_module("torch._dynamo")  # by optimizers, in two seconds of each process
    return forked(_run, arguments, log, environment)


def forked(target: Callable[..., None], *arguments: Any) -> BaseProcess:
    """Start a function in a forked process.

    Garbage is collected first: a process group of torch that a test has left would wait in the
    copy for threads that it does not have. What is not garbage is left out of later collections,
    which would copy each page that they visit, in the copy.
    """
    gc.collect()
    gc.freeze()
    process = multiprocessing.get_context("fork").Process(target=target, args=arguments)
    process.start()
    return process


def start_group(arguments: list[str], logs: Path, size: int) -> list[BaseProcess]:
    """Start the minibert command in `size` processes of one group, as torchrun does.

    The output of each process goes to the file `RANK.txt` in the folder `logs`.
    """
    logs.mkdir(exist_ok=True)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    group = {"WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    return [
        start(arguments, logs / f"{rank}.txt", RANK=str(rank), LOCAL_RANK=str(rank), **group)
        for rank in range(size)
    ]


def kill_when(process: BaseProcess, reached: Callable[[], Any], max_delay: float) -> None:
    """Kill a process at most `max_delay` seconds after `reached` is true, unless it ends first."""
    while process.is_alive() and not reached():
        time.sleep(0.001)
    time.sleep(random.uniform(0, max_delay))
    assert process.pid is not None
    if process.is_alive():
        os.kill(process.pid, signal.SIGKILL)
    process.join()


def in_a_fork(
    work: Callable[[], object], killed_at: int = 0, full_from: int = 0, failing_at: int = 0
) -> tuple[int, int]:
    """Run `work` in a forked process, and count what it does to files, from 1.

    Args:
        work: What to do.
        killed_at: The step at which the process is killed. 0: none.
        full_from: The step from which on nothing can be written.
        failing_at: The step at which the disk fails once.

    Returns:
        0, KILLED, or 1 after an OSError, and the number of steps unless it was killed.
    """
    reader, writer = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writer)
        with open(reader, "rb") as pipe:
            steps = int(pipe.read() or b"0")
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), steps
    count = 0

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal count
        if event not in STEPS or "site-packages" in str(arguments[0]):
            return
        if event == "open" and isinstance(arguments[2], int) and not arguments[2] & os.O_ACCMODE:
            return  # for reading
        count += 1
        if count == killed_at:
            os._exit(KILLED)
        if count == failing_at:
            raise OSError(errno.EIO, "Input/output error")
        if 0 < full_from <= count and event in ("open", "os.mkdir"):
            raise OSError(errno.ENOSPC, "No space left on device")

    code = 1
    try:
        sys.addaudithook(watch)
        work()
        code = 0
    except OSError:
        pass
    except BaseException:
        traceback.print_exc()
        code = 2
    os.write(writer, str(count).encode())
    os._exit(code)
