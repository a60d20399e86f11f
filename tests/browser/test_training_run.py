"""`minibert view --run`: the page computes with every snapshot of a training run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import tiny_config
from opened import Opened, browser as browser, once as once, opened as opened, shown

import minibert
from minibert.cli import main
from minibert.study import run

pytestmark = pytest.mark.browser

WORDS = (
    "i have a she opened the he is good we went to by train am not dog door man school tired . "
    "two three red blue"
)
STEPS = (0, 10, 200)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training run in which every snapshot has other random weights and other predictions."""
    folder = tmp_path_factory.mktemp("run")
    tokenizer = minibert.BertTokenizer(
        ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS.split()]
    )
    for step in STEPS:
        torch.manual_seed(step)
        config = tiny_config(
            vocab_size=len(tokenizer), max_position_embeddings=32, initializer_range=0.5
        )
        snapshot = folder / "checkpoints" / f"step-{step:06}"
        minibert.BertForMaskedLM(config).save_pretrained(snapshot)
        tokenizer.save_pretrained(snapshot)
    records = []
    for step in range(1, 201):
        mlm_loss = 4 - step / 100
        records.append({"step": step, "loss": mlm_loss + 0.7, "mlm_loss": mlm_loss})
    (folder / "log.jsonl").write_text(
        "".join(json.dumps(record) + "\n" for record in records), encoding="utf-8"
    )
    return folder


@pytest.fixture(scope="module")
def file(folder: Path) -> Path:
    path = folder / "page.html"
    assert main(["view", "--run", str(folder), "--output", str(path)]) == 0
    return path


def answers(opened: Opened) -> list[list[str]]:
    """Wait for the chosen snapshot and return words and probabilities of the five prompts."""
    opened.page.wait_for_function("() => answers.of === state.snapshot && formingMap.now")
    rows = opened.page.locator("#prompts tr td:last-child").all_inner_texts()
    return [row.split() for row in rows]


def test_the_slider_goes_through_the_snapshots(opened: Opened, folder: Path) -> None:
    opened.open("training")
    rows = []
    for i, step in enumerate(STEPS):
        opened.page.fill("#snapshot", str(i))
        rows.append(answers(opened))
        snapshot = folder / "checkpoints" / f"step-{step:06}"
        t = run(snapshot, "I have a [MASK].", rounded=True)
        assert rows[-1][0][1] == shown(t["mlm.logits"][0, 4].softmax(-1).max(), 2)
        values = opened.page.evaluate(
            "forming.found.steps.get('layer.0.attention.probabilities').row(0, 1)"
        )
        expected = t["layer.0.attention.probabilities"][0, 0, 1].tolist()
        assert values == pytest.approx(expected, abs=1e-4)
        assert f"step {step}" in opened.page.inner_text("#snapshot-number")
    assert rows[0] != rows[1] != rows[2]
    # The MLM loss falls by 0.01 per step. The page shows the mean around a snapshot's step.
    assert opened.page.evaluate("[lossAt(0), lossAt(2)].map(Number)") == pytest.approx(
        [3.99, 2.1], abs=0.1
    )
    assert "2 layers" in opened.page.inner_text("#model")  # the model of the run
    assert not opened.page.is_visible("#tokens")
    opened.page.click("#play")  # starts again at the first snapshot after the last one
    assert opened.page.evaluate("state.snapshot") == 0
    opened.page.wait_for_function("() => state.snapshot === 1")
    opened.page.click("#play")
    assert "Play" in opened.page.inner_text("#play")
    assert opened.asked_nothing


def test_prompts_can_be_edited_and_a_value_has_its_line_of_python(
    opened: Opened, folder: Path
) -> None:
    opened.again("#language=ko")
    opened.page.set_viewport_size({"width": 390, "height": 800})
    opened.open("training")
    before = answers(opened)
    opened.page.fill("#prompts tr:nth-child(2) input", "The dog is [MASK].")
    opened.page.wait_for_function("() => answers.prompts[1].request?.text === 'The dog is [MASK].'")
    assert answers(opened)[0] == before[0] and answers(opened)[1] != before[1]
    opened.page.focus("#forming-map")
    opened.press("ArrowRight")
    assert "스텝" in opened.readout and repr(str(folder))[1:-1] in opened.copied
    namespace: dict[str, Any] = {}
    exec(opened.copied.split(" print(")[0], namespace)
    assert f"{namespace['t']['layer.0.attention.probabilities'][0, 0, 0, 1]:.4f}" in opened.readout
    opened.page.fill("#prompts tr:nth-child(2) input", "there is nothing to guess")
    opened.page.wait_for_function(
        "() => document.getElementById('prompts').rows[1].cells[1].textContent === ''"
    )
    assert opened.page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    opened.page.wait_for_timeout(300)
    opened.page.fill("#snapshot", "0")
    opened.reload()
    assert opened.page.evaluate("[state.section, state.snapshot]") == ["training", 0]


def test_a_folder_without_snapshots_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["view", "--run", str(tmp_path)]) == 1
    assert (
        f"{tmp_path} holds no snapshots: minibert pretrain --checkpoints N keeps them."
        in capsys.readouterr().err
    )
    assert main(["view"]) == 2 and "or --run FOLDER" in capsys.readouterr().err
