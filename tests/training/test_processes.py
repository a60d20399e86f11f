"""`minibert pretrain` in processes: killed and resumed, and distributed over several."""

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
from minibert.checkpoints.ties import shared_names
from minibert.training.state import saved_states, training_state

ENVIRONMENT = {**python_path(CHECKOUT), "OMP_NUM_THREADS": "1"}


@pytest.fixture(autouse=True)
def single_thread() -> Iterator[None]:
    """Use one thread in each forked process, also in slow tests."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Folder of a small config, corpus and vocabulary."""
    rng = np.random.default_rng(0)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{i}" for i in range(94))]
    documents = []
    for _ in range(30):
        sentences = [rng.integers(0, 94, rng.integers(3, 12)) for _ in range(8)]
        documents.append("\n".join(" ".join(f"w{i}" for i in numbers) for numbers in sentences))
    (tmp_path / "corpus.txt").write_text("\n\n".join(documents), encoding="utf-8")
    (tmp_path / "vocab.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
    write_config(tmp_path, dropout=0.1)
    return tmp_path


def write_config(project: Path, dropout: float) -> None:
    probabilities = {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout}
    config = tiny_config(num_hidden_layers=1, **probabilities)
    (project / "config.json").write_text(config.to_json_string(), encoding="utf-8")


def arguments(project: Path, output: str, *options: str) -> list[str]:
    """Return the arguments of the `minibert` command."""
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
    """Return the command that runs in a fresh interpreter, or in several started by torchrun."""
    python = [sys.executable]
    if processes > 1:
        python += ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    return [*python, "-m", "minibert", *arguments(project, output, *options)]


def train(project: Path, output: str, *options: str, processes: int = 1) -> dict[str, torch.Tensor]:
    """Run the command in fresh interpreters."""
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
    """Run the command in forked processes, which start faster."""
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
    """Return the ids of the processes that torchrun started."""
    command = ["pgrep", "-P", str(run.pid)]
    output = subprocess.run(command, capture_output=True, encoding="utf-8").stdout
    return list(map(int, output.split()))


def kill_and_resume(project: Path, kills: int, steps: int, processes: int = 1) -> None:
    """Kill a run at random moments, resume it each time, and compare it with an uninterrupted run.

    Every other time, only one process of the group is killed, and the others end by themselves.
    """
    options = ("--steps", str(steps), "--save-every", "7")
    whole = train_forked(project, "whole", *options, processes=processes)
    rng = random.Random(0)
    log = project / "killed" / "log.jsonl"
    resume: tuple[str, ...] = ()
    for kill in range(kills):
        # The random delay of kill_when can fall within a step, or while a state is saved.
        goal = (kill + rng.random()) * steps / (kills + 1)

        def is_reached(goal: float = goal) -> bool:
            return log.exists() and log.read_bytes().count(b"\n") >= goal

        logs = project / f"logs of start {kill}"
        group = start_group(arguments(project, "killed", *options, *resume), logs, processes)
        victims = [rng.choice(group)] if kill % 2 else group
        kill_when(victims[0], is_reached, 0.05)
        for victim in victims[1:]:
            victim.kill()
        for process in group:
            process.join(60)
            process.kill()  # torchrun, too, kills processes that still wait for the others
            process.join()
        assert {process.exitcode for process in group} <= {-signal.SIGKILL, 1}
        resume = ("--resume",)
    resumed = train_forked(project, "killed", *options, "--resume", processes=processes)

    assert losses(project, "killed") == losses(project, "whole")
    assert whole.keys() == resumed.keys()
    assert all(torch.equal(resumed[name], weight) for name, weight in whole.items())


# In the default run, test_kills of tests/survival kills a single run.
@pytest.mark.slow
@pytest.mark.parametrize(("kills", "processes"), [(20, 1), (4, 2), (20, 4)])
def test_killed_many_times_and_resumed_to_the_same_weights(
    project: Path, kills: int, processes: int
) -> None:
    kill_and_resume(project, kills, 20 * kills, processes)


# With a batch size of 1, the second process never has an example.
@pytest.mark.parametrize("batch_size", [8, 1])
@pytest.mark.needs("fork")
def test_two_processes_equal_one(batch_size: int, project: Path) -> None:
    write_config(project, dropout=0.0)
    options = ("--steps", "10", "--batch-size", str(batch_size))
    options += ("--tokens-per-forward", "100")  # several forward passes a step
    one = train_forked(project, "one", *options)
    two = train_forked(project, "two", *options, processes=2)
    np.testing.assert_allclose(losses(project, "two"), losses(project, "one"), rtol=0, atol=1e-6)
    assert_close_weights(two, one)


def assert_close_weights(
    received: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]
) -> None:
    for name, weight in expected.items():
        torch.testing.assert_close(
            received[name],
            weight,
            rtol=0,
            atol=1e-6,
            msg=lambda message, name=name: f"{name}: {message}",
        )


@pytest.mark.needs("fork")
def test_two_processes_can_resume_a_run_of_one(project: Path) -> None:
    """A state is complete, so any number of processes can resume from it."""
    write_config(project, dropout=0.0)
    options = ("--steps", "12", "--save-every", "6", "--keep-states", "1")
    whole = train_forked(project, "whole", *options)
    run = start(arguments(project, "killed", *options), project / "killed.txt")
    state = project / "killed" / "states" / "state-000000006.pt"
    kill_when(run, state.exists, 0)
    assert saved_states(project / "killed")[-1] == state
    resumed = train_forked(project, "killed", *options, "--resume", processes=2)
    assert_close_weights(resumed, whole)


def test_a_saved_state_contains_tied_weights_once() -> None:
    model = BertForMaskedLM(tiny_config())
    weights = training_state(model, torch.optim.SGD(model.parameters()))["model"]
    assert weights.keys() == model.state_dict().keys()
    assert all(weights[alias] is weights[name] for alias, name in shared_names(model).items())


ENDING = """
import sys
import time

import torch
import torch.distributed as dist

from minibert.training.processes import Processes

Processes.join().gather(None)  # wait for the other process
sys.setswitchinterval(100)  # no other thread gets the GIL from here on, unless this one waits
for _ in range(4):
    dist.all_reduce(torch.zeros(1), async_op=True)
end = time.monotonic() + 1
while time.monotonic() < end:
    pass
"""


@pytest.mark.slow
def test_the_exit_waits_for_pending_communication(tmp_path: Path) -> None:
    """Otherwise, gloo's threads that still hold a tensor at exit abort the process."""
    script = tmp_path / "ending.py"
    script.write_text(ENDING, encoding="utf-8")
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    torchrun += ["--nproc-per-node=2", str(script)]
    environment = {**ENVIRONMENT, **python_path(CHECKOUT, CHECKOUT / "tests")}
    result = subprocess.run(
        torchrun, env=environment, capture_output=True, encoding="utf-8", timeout=120
    )
    assert result.returncode == 0, result.stderr[-3000:]


@pytest.mark.needs("fork")
def test_a_killed_process_ends_the_run_which_can_be_resumed(project: Path) -> None:
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
    state = torch.load(saved_states(project / "out")[-1], weights_only=True)
    steps: int = state["position"]["step"]
    assert steps >= 10 and steps % 5 == 0
    train_forked(project, "out", "--steps", str(steps + 3), "--resume")
    assert len(losses(project, "out")) == steps + 3


@pytest.mark.slow
@pytest.mark.parametrize("processes", [2, 4])
def test_a_restart_by_torchrun_ends_with_identical_weights(processes: int, project: Path) -> None:
    """After one process is killed, torchrun runs the same command again, which resumes the run."""
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
