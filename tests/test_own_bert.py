"""scripts/own_bert.sh: runs to its end in both languages, and what it makes is what it says."""

from __future__ import annotations

import json
import lzma
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from conftest import CHECKOUT

LESSON = CHECKOUT / "scripts" / "lesson"


def own_bert(out: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return subprocess.run(
        ["bash", str(CHECKOUT / "scripts" / "own_bert.sh"), *arguments],
        env={**os.environ, "PATH": path, "OUT": str(out)},
        capture_output=True,
        encoding="utf-8",
    )


@pytest.mark.slow  # a model learns to read: minutes
@pytest.mark.parametrize("language", ["english", "korean"])
def test_runs_to_its_end_and_its_classifier_beats_the_most_frequent_class(
    tmp_path: Path, language: str
) -> None:
    out = tmp_path / "out"
    done = own_bert(out, *(["--korean"] if language == "korean" else []))
    assert done.returncode == 0, done.stderr
    assert [line for line in "123456" if f"{line}. " in done.stdout] == list("123456")
    assert ("어휘 집합" in done.stdout) == (language == "korean")
    rows = (LESSON / f"{language}-dev.tsv").read_text(encoding="utf-8").splitlines()[1:]
    labels = Counter(row.rsplit("\t", 1)[1] for row in rows)
    log = [
        json.loads(line)
        for line in (out / "classifier" / "log.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    best = max(record["accuracy"] for record in log if "accuracy" in record)
    assert best >= max(labels.values()) / len(rows) + 0.15
    assert np.load(out / "vectors.npy").shape == (len(rows), 128)
    assert len(list((out / "pretrained" / "checkpoints").iterdir())) == 16
    for page in ("page.html", "run.html"):
        assert (out / page).stat().st_size > 100_000


def test_writes_over_nothing(tmp_path: Path) -> None:
    (tmp_path / "kept").touch()
    done = own_bert(tmp_path)
    assert done.returncode == 2 and f"{tmp_path} is there already" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


@pytest.mark.parametrize("language", ["english", "korean"])
def test_the_text_holds_no_sentence_that_the_classifier_is_measured_with(language: str) -> None:
    text = lzma.decompress((LESSON / f"{language}.txt.xz").read_bytes()).decode()
    read = set(text.split("\n"))
    parts = {}
    for part in ("train", "dev"):
        lines = (LESSON / f"{language}-{part}.tsv").read_text(encoding="utf-8").splitlines()[1:]
        parts[part] = {line.rsplit("\t", 1)[0] for line in lines}
    assert not parts["dev"] & (read | parts["train"])
    assert sum(path.stat().st_size for path in LESSON.iterdir()) < 2_000_000
