"""Random requests: GET /openapi.json says what the service accepts and sends."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import settings, strategies as st
from programs import drawn
from tiny_folder import classifier_folder, head_folder, sentence_folder

pytest.importorskip("fastapi")
pytest.importorskip("prometheus_client")
schemathesis = pytest.importorskip("schemathesis")

from schemathesis.engine import events, from_schema  # noqa: E402

from minibert import BertForQuestionAnswering  # noqa: E402
from minibert.checkpoints.source import Source  # noqa: E402
from minibert.serving.app import create_app  # noqa: E402
from minibert.serving.models import load_served  # noqa: E402

# of the vocabulary of these models, or unknown to it
schemathesis.openapi.format("text with a word", st.text("ab!漢 ", min_size=1).filter(str.strip))

KEY = "a key of this test"
QUEUE = {"max_wait_ms": 0.0, "max_tokens": 512, "max_pending": 300}


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Any:
    root = tmp_path_factory.mktemp("models")
    prompts = {"prompts": {"query": "query: "}}
    pooling = ("Pooling", {"pooling_mode": "mean"})
    folders = [
        sentence_folder(root / "embedder", pooling, config_sentence_transformers=prompts),
        classifier_folder(root / "reranker", 1),
        classifier_folder(root / "classifier", 3),
        head_folder(root / "answerer", BertForQuestionAnswering),
    ]
    models = [
        load_served(folder.name, Source(folder), precision=None, **QUEUE) for folder in folders
    ]
    return create_app(models, key=KEY)


def failures(app: Any, max_examples: int, phases: list[str]) -> list[str]:
    """What schemathesis finds with all its checks.

    Args:
        app: The service.
        max_examples: Requests to each operation.
        phases: Those of schemathesis.
    """
    headers = {"Authorization": f"Bearer {KEY}"}
    config = schemathesis.Config.from_dict(
        {
            "headers": headers,
            "seed": 1,
            "phases": {
                name: {"enabled": name in phases}
                for name in ("examples", "coverage", "fuzzing", "stateful")
            },
            "generation": {"max-examples": max_examples, "database": "none"},
        }
    )
    schema = schemathesis.openapi.from_asgi("/openapi.json", app, config=config, headers=headers)
    found = []
    for event in from_schema(schema).execute():
        if isinstance(event, events.NonFatalError | events.FatalError):
            found.append(str(event.value if hasattr(event, "value") else event.exception))
        if isinstance(event, events.ScenarioFinished):
            drawn["requests"] += len(event.recorder.cases)
            for checks in event.recorder.checks.values():
                for check in checks:
                    if check.failure_info is not None:
                        found.append(f"{event.recorder.label}: {check.failure_info.failure}")
    return found


def test_requests_and_responses_are_as_described(app: Any) -> None:
    """Two requests to each operation by default, and thousands where those are asked for."""
    profile = settings.default
    assert profile is not None
    operations = sum(len(methods) for methods in app.openapi()["paths"].values())
    each, phases = 2, ["fuzzing"]
    if profile.max_examples > 25:
        each = math.ceil(profile.max_examples / operations)
        phases = ["examples", "coverage", "fuzzing", "stateful"]
    before = drawn["requests"]
    assert not failures(app, each, phases)
    assert drawn["requests"] > before


@pytest.mark.slow
def test_all_that_schemathesis_tries_is_as_described(app: Any) -> None:
    assert not failures(app, 30, ["examples", "coverage", "fuzzing", "stateful"])
