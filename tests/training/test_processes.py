"""`minibert pretrain` as it is really run: killed and resumed, and shared out to two processes."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import CHECKOUT, python_path, tiny_config
from forked import kill_when, start, start_group
from safetensors.torch import load_file

from minibert import BertForMaskedLM
from minibert.training.state import saved_states, training_state

ENVIRONMENT = {**python_path(CHECKOUT), "OMP_NUM_THREADS": "1"}


@pytest.fixture(autouse=True)
def single_thread() -> Iterator[None]:
    """One thread for each forked process, in slow tests, too."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with a small config, corpus and vocabulary."""
    rng = np.random.default_rng(0)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{i}" for i in range(94))]
    documents = [
        "\n".join(
            " ".join(f"w{i}" for i in rng.integers(0, 94, rng.integers(3, 12))) for _ in range(8)
        )
        for _ in range(30)
    ]
    (tmp_path / "corpus.txt").write_text("\n\n".join(documents), encoding="utf-8")
    (tmp_path / "vocab.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
    write_config(tmp_path, dropout=0.1)
    return tmp_path


def write_config(project: Path, dropout: float) -> None:
    config = tiny_config(hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout)
    (project / "config.json").write_text(config.to_json_string(), encoding="utf-8")


def arguments(project: Path, output: str, *options: str) -> list[str]:
    """The arguments of `minibert`."""
    return [
        "pretrain",
        *("--config", f"{project}/config.json"),
        *("--corpus", f"{project}/corpus.txt"),
        *("--vocab", str(project)),
        *("--output", f"{project}/{output}"),
        *("--max-length", "32"),
        *("--batch-size", "8"),
        *("--learning-rate", "1e-3"),
        *options,
    ]


def command(project: Path, output: str, *options: str, processes: int = 1) -> list[str]:
    """The command in a fresh Python, or in several that torchrun starts."""
    python = [sys.executable]
    if processes > 1:
        python += ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    return [*python, "-m", "minibert", *arguments(project, output, *options)]


def train(project: Path, output: str, *options: str, processes: int = 1) -> dict[str, torch.Tensor]:
    """Run a command in fresh Pythons, several by torchrun."""
    result = subprocess.run(
        command(project, output, *options, processes=processes),
        env=ENVIRONMENT,
        capture_output=True,
        encoding="utf-8",
        timeout=600,
    )
    assert result.returncode == 0, result.stderr[-3000:]
    return load_file(project / output / "model.safetensors")


def train_forked(
    project: Path, output: str, *options: str, processes: int = 1
) -> dict[str, torch.Tensor]:
    """Run a command in forked processes, which start sooner."""
    logs = project / f"logs of {output}"
    group = start_group(arguments(project, output, *options), logs, processes)
    for process in group:
        process.join()
    printed = "\n".join(path.read_text(encoding="utf-8") for path in sorted(logs.iterdir()))
    assert [process.exitcode for process in group] == [0] * processes, printed
    return load_file(project / output / "model.safetensors")


def losses(project: Path, output: str) -> list[float]:
    return [
        json.loads(line)["loss"]
        for line in (project / output / "log.jsonl").read_text(encoding="utf-8").splitlines()
    ]


def workers_of(run: subprocess.Popen[Any]) -> list[int]:
    """The processes that torchrun has started."""
    found = subprocess.run(
        ["pgrep", "-P", str(run.pid)], capture_output=True, encoding="utf-8"
    ).stdout
    return list(map(int, found.split()))


def kill_and_resume(project: Path, kills: int, steps: int, processes: int = 1) -> None:
    """Kill a run at random moments, resume it after each, and compare it with one that was not killed.

    Of several processes one is killed every other time, whichever it is, and the rest end; otherwise all are killed.
    """
    options = ("--steps", str(steps), "--save-every", "7")
    whole = train_forked(project, "whole", *options, processes=processes)
    chance = random.Random(0)
    log = project / "cut" / "log.jsonl"
    resume: tuple[str, ...] = ()
    for kill in range(kills):
        # somewhere in this part of the run, and a moment later: within a step, or while it is saved
        goal = (kill + chance.random()) * steps / (kills + 1)

        def is_there(goal: float = goal) -> bool:
            return log.exists() and log.read_bytes().count(b"\n") >= goal

        logs = project / f"logs of start {kill}"
        group = start_group(arguments(project, "cut", *options, *resume), logs, processes)
        victims = [chance.choice(group)] if kill % 2 else group
        kill_when(victims[0], is_there, 0.05)
        for victim in victims[1:]:
            victim.kill()
        for process in group:
            process.join(60)
            process.kill()  # one that still waits for the others to start, as torchrun does
            process.join()
        assert {process.exitcode for process in group} <= {-signal.SIGKILL, 1}
        resume = ("--resume",)
    resumed = train_forked(project, "cut", *options, "--resume", processes=processes)

    assert losses(project, "cut") == losses(project, "whole")
    assert whole.keys() == resumed.keys()
    assert all(torch.equal(resumed[name], weight) for name, weight in whole.items())


# test_kills of tests/survival is the one of the default run
@pytest.mark.slow
@pytest.mark.parametrize(("kills", "processes"), [(20, 1), (4, 2), (20, 4)])
def test_killed_many_times_and_resumed_to_the_same_weights(
    project: Path, kills: int, processes: int
) -> None:
    kill_and_resume(project, kills, 20 * kills, processes)


@pytest.mark.parametrize(
    "batch_size", [8, 1]
)  # with 1 the second process never has an example of its own
@pytest.mark.needs("fork")
def test_two_processes_equal_one(batch_size: int, project: Path) -> None:
    write_config(project, dropout=0.0)
    options = ("--steps", "20", "--batch-size", str(batch_size))
    options += ("--tokens-per-forward", "100")  # each process makes several forwards a step
    one = train_forked(project, "one", *options)
    two = train_forked(project, "two", *options, processes=2)
    assert (
        max(abs(a - b) for a, b in zip(losses(project, "one"), losses(project, "two"), strict=True))
        < 1e-6
    )
    for name, weight in one.items():
        torch.testing.assert_close(
            two[name], weight, rtol=0, atol=1e-6, msg=lambda m, n=name: f"{n}: {m}"
        )


@pytest.mark.needs("fork")
def test_two_processes_continue_what_one_began(project: Path) -> None:
    """A state is complete: any number of processes can resume from it."""
    write_config(project, dropout=0.0)
    options = ("--steps", "20", "--save-every", "10", "--keep-states", "1")
    whole = train_forked(project, "whole", *options)
    run = start(arguments(project, "cut", *options), project / "cut.txt")
    state = project / "cut" / "state-000000010.pt"
    kill_when(run, state.exists, 0)
    assert saved_states(project / "cut")[-1] == state
    resumed = train_forked(project, "cut", *options, "--resume", processes=2)
    for name, weight in whole.items():
        torch.testing.assert_close(
            resumed[name], weight, rtol=0, atol=1e-6, msg=lambda m, n=name: f"{n}: {m}"
        )


def test_a_saved_state_holds_tied_weights_once() -> None:
    model = BertForMaskedLM(tiny_config())
    weights = training_state(model, torch.optim.SGD(model.parameters()))["model"]
    assert weights.keys() == model.state_dict().keys()
    assert all(weights[alias] is weights[name] for alias, name in model.tied_weights().items())


ENDING = """
import sys
import time

import torch
import torch.distributed as dist

from minibert.training.processes import Processes

Processes.join().gather(None)  # both are here
sys.setswitchinterval(100)  # from here on no other thread gets Python's lock unless this one waits for something
for _ in range(4):
    dist.all_reduce(torch.zeros(1), async_op=True)
end = time.monotonic() + 1
while time.monotonic() < end:
    pass
"""


@pytest.mark.slow
def test_the_end_waits_for_the_last_exchange(tmp_path: Path) -> None:
    """Threads of gloo that still hold a tensor when Python ends abort the process: "terminate called"."""
    script = tmp_path / "ending.py"
    script.write_text(ENDING, encoding="utf-8")
    torchrun = (
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node=2",
        str(script),
    )
    environment = {**ENVIRONMENT, **python_path(CHECKOUT, CHECKOUT / "tests")}
    result = subprocess.run(
        torchrun, env=environment, capture_output=True, encoding="utf-8", timeout=120
    )
    assert result.returncode == 0, result.stderr[-3000:]


@pytest.mark.needs("fork")
def test_a_killed_process_ends_the_run_with_a_way_to_go_on(project: Path) -> None:
    options = ("--steps", "100000", "--save-every", "5")
    first, second = start_group(arguments(project, "out", *options), project / "logs", 2)
    log = project / "out" / "log.jsonl"

    def has_twelve_lines() -> bool:
        return log.exists() and log.read_bytes().count(b"\n") >= 12

    kill_when(second, has_twelve_lines, 0)
    first.join(120)

    assert first.exitcode == 1
    messages = (project / "logs" / "0.txt").read_text(encoding="utf-8")
    assert "another process of this run has ended" in messages
    assert "Start again with --resume to continue from step" in messages
    steps: int = torch.load(saved_states(project / "out")[-1], weights_only=True)["position"][
        "step"
    ]
    assert steps >= 10 and steps % 5 == 0
    train_forked(project, "out", "--steps", str(steps + 3), "--resume")
    assert len(losses(project, "out")) == steps + 3


@pytest.mark.slow
@pytest.mark.parametrize("processes", [2, 4])
def test_what_torchrun_starts_again_ends_with_the_same_bits(processes: int, project: Path) -> None:
    """One process is killed; torchrun starts all of them once more by the same command, and they go on."""
    options = ("--steps", "30", "--save-every", "5")
    whole = train(project, "whole", *options, processes=processes)
    restarting = command(project, "out", *options, processes=processes)
    restarting.insert(restarting.index("--standalone"), "--max-restarts=1")
    run = subprocess.Popen(restarting, env=ENVIRONMENT, stderr=subprocess.PIPE, encoding="utf-8")
    log = project / "out" / "log.jsonl"
    while run.poll() is None and (not log.exists() or log.read_bytes().count(b"\n") < 7):
        time.sleep(0.01)
    os.kill(workers_of(run)[-1], signal.SIGKILL)
    _, messages = run.communicate(timeout=300)

    assert run.returncode == 0, messages[-3000:]
    again = load_file(project / "out" / "model.safetensors")
    assert all(torch.equal(again[name], weight) for name, weight in whole.items())
    assert losses(project, "out") == losses(project, "whole")
