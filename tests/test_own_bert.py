"""scripts/own_bert.sh runs to its end in both languages and writes what it announces."""

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


@pytest.mark.slow  # training takes minutes
@pytest.mark.parametrize("language", ["english", "korean"])
def test_runs_to_its_end_and_its_classifier_beats_the_most_frequent_class(
    tmp_path: Path, language: str
) -> None:
    out = tmp_path / "out"
    done = own_bert(out, *(["--korean"] if language == "korean" else []))
    assert done.returncode == 0, done.stderr
    assert [step for step in "123456" if f"{step}. " in done.stdout] == list("123456")
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


def test_an_existing_folder_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "kept").touch()
    done = own_bert(tmp_path)
    assert done.returncode == 2 and f"{tmp_path} already exists" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


@pytest.mark.parametrize("language", ["english", "korean"])
def test_no_dev_sentence_is_in_the_training_texts(language: str) -> None:
    text = lzma.decompress((LESSON / f"{language}.txt.xz").read_bytes()).decode()
    pretraining_lines = set(text.split("\n"))
    parts = {}
    for part in ("train", "dev"):
        lines = (LESSON / f"{language}-{part}.tsv").read_text(encoding="utf-8").splitlines()[1:]
        parts[part] = {line.rsplit("\t", 1)[0] for line in lines}
    assert not parts["dev"] & (pretraining_lines | parts["train"])
    assert sum(path.stat().st_size for path in LESSON.iterdir()) < 2_000_000
