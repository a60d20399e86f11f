"""`minibert info` of training runs and models."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from minibert.cli import main


def write_log(folder: Path) -> None:
    records = [{"step": step, "loss": 10.0 / step, "tokens": 5} for step in range(1, 41)]
    records.append({"step": 40, "accuracy": 0.5})
    lines = [json.dumps(record) + "\n" for record in records]
    (folder / "log.jsonl").write_text("".join(lines), encoding="utf-8")


def test_the_curves_of_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_log(tmp_path)
    assert main(["info", "-m", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert "loss             10 at step 1, 0.25 at 40" in shown
    assert "accuracy" in shown and "tokens" not in shown
    assert main(["info", "-m", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["output"]["curves"]["accuracy"] == [[40], [0.5]]


def test_a_line_that_is_being_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_log(tmp_path)
    with (tmp_path / "log.jsonl").open("a", encoding="utf-8") as log:
        log.write('{"step": 41, "lo')
    assert main(["info", "-m", str(tmp_path)]) == 0
    assert "loss             10 at step 1, 0.25 at 40" in capsys.readouterr().out


def test_a_plot_of_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    write_log(tmp_path)
    assert main(["info", "-m", str(tmp_path), "--plot", str(tmp_path / "run.svg")]) == 0
    picture = (tmp_path / "run.svg").read_text(encoding="utf-8")
    assert picture.startswith("<?xml") and picture.count('id="axes_') == 2
    assert main(["info", "-m", "minibert-tiny", "--plot", str(tmp_path / "no.svg")]) == 2
    assert (
        "--plot draws the curves of a training run, but minibert-tiny has no log"
        in capsys.readouterr().err
    )


def test_parameters_with_and_without_heads(capsys: pytest.CaptureFixture[str]) -> None:
    """The counts are those of the model card, and each says what it includes."""
    assert main(["info", "-m", "minibert-en"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("minibert-en: BertForPreTraining, torch.float32\n")
    assert "  12,750,080 parameters in the encoder and pooler (BertModel)" in shown
    assert "  12,847,420 parameters with the heads" in shown
