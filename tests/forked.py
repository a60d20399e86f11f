"""Commands in processes forked from the tests, which have already imported everything.

They start in milliseconds, so a test can start and kill hundreds. A test that needs a fresh
interpreter starts one with `subprocess` and says why.
"""

from __future__ import annotations

import gc
import importlib
import multiprocessing
import os
import random
import signal
import socket
import sys
import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from minibert.cli import main


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
