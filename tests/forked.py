"""Commands in processes forked from the tests, which have imported everything already.

They start in milliseconds, so they can be killed by the hundred. A test that needs a fresh Python starts one with
`subprocess` and says why.
"""

from __future__ import annotations

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
    """The minibert command in a process of its own; what it prints goes to `log`."""
    fork = multiprocessing.get_context("fork")
    process = fork.Process(target=_run, args=(arguments, log, environment))
    process.start()
    return process


def start_group(arguments: list[str], logs: Path, size: int) -> list[BaseProcess]:
    """The minibert command in several processes that work together, as torchrun starts them.

    What each prints goes to a file of its rank in the folder `logs`.
    """
    logs.mkdir(exist_ok=True)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    group = {"WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    return [
        start(arguments, logs / f"{rank}.txt", RANK=str(rank), LOCAL_RANK=str(rank), **group)
        for rank in range(size)
    ]


def kill_when(process: BaseProcess, reached: Callable[[], Any], more: float) -> None:
    """Kills a process when it has come so far, and then up to `more` seconds; or lets it end."""
    while process.is_alive() and not reached():
        time.sleep(0.001)
    time.sleep(random.uniform(0, more))
    assert process.pid is not None
    if process.is_alive():
        os.kill(process.pid, signal.SIGKILL)
    process.join()
