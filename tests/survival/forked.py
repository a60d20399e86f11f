"""Processes forked from the tests, which have imported everything: quick enough to be killed by the hundred."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from minibert.cli import main


def _run(arguments: list[str], log: Path) -> None:
    with log.open("w", encoding="utf-8") as sys.stdout:
        sys.stderr = sys.stdout
        code = main(arguments)
    os._exit(code)


def start(arguments: list[str], log: Path) -> BaseProcess:
    """The minibert command in a process of its own; what it prints goes to `log`."""
    process = multiprocessing.get_context("fork").Process(target=_run, args=(arguments, log))
    process.start()
    return process


def kill_when(process: BaseProcess, reached: Callable[[], Any], more: float) -> None:
    """Kills a process when it has come so far, and then up to `more` seconds; or lets it end."""
    while process.is_alive() and not reached():
        time.sleep(0.001)
    time.sleep(random.uniform(0, more))
    assert process.pid is not None
    if process.is_alive():
        os.kill(process.pid, signal.SIGKILL)
    process.join()
