"""What users do, compared with the record of what it gave before the rebuild of version 0.2."""

from __future__ import annotations

import bz2
import contextlib
import csv
import difflib
import gzip
import io
import json
import lzma
import math
import os
import re
import shlex
import shutil
import sys
import tempfile
import traceback
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import minibert
from minibert.cli import main

HERE = Path(__file__).parent
Result = dict[str, Any]


def commands() -> dict[str, str]:
    lines = (HERE / "commands.txt").read_text(encoding="utf-8").splitlines()
    pairs = [line.split(":", 1) for line in lines if not line.startswith("#")]
    return {name: command.strip() for name, command in pairs}


def snippets() -> dict[str, str]:
    parts = (HERE / "snippets.txt").read_text(encoding="utf-8").split("# --- ")[1:]
    return {f"python-{name}": code for name, code in (part.split("\n", 1) for part in parts)}


JOURNEYS = {**commands(), **snippets()}
# Those of exported models, which take half a minute to export. tests/serving/test_onnx.py and
# tests/encoders/test_exported_settings.py export and run smaller ones.
OF_EXPORTS = {"embed-onnx", "classify-onnx", "python-onnx-embedder"}


# --- the files and models that journeys start from


def weights(shape: torch.Size) -> torch.Tensor:
    """Return numbers that depend on no generator of random numbers."""
    return torch.arange(math.prod(shape)).mul(0.7).sin().reshape(shape)


def write_models(folder: Path) -> None:
    tokenizer = minibert.BertTokenizer.from_pretrained("minibert-tiny")

    def head(name: str, model_class: Any, layer: str, **fields: Any) -> None:
        model = model_class.from_pretrained("minibert-tiny", **fields)
        with torch.no_grad():
            for parameter in getattr(model, layer).parameters():
                parameter.copy_(weights(parameter.shape))
        model.save_pretrained(folder / name)
        tokenizer.save_pretrained(folder / name)

    def names(*labels: str) -> dict[int, str]:
        return dict(enumerate(labels))

    sequence = minibert.BertForSequenceClassification
    head("labels", sequence, "classifier", id2label=names("bad", "fair", "good"))
    head("stars", sequence, "classifier", num_labels=1)
    several = {"id2label": names("a", "b", "c"), "problem_type": "multi_label_classification"}
    head("several", sequence, "classifier", **several)
    tags = names("O", "B-PER", "I-PER", "B-LOC")
    head("names", minibert.BertForTokenClassification, "classifier", id2label=tags)
    head("answers", minibert.BertForQuestionAnswering, "qa_outputs")


def write_texts(folder: Path) -> None:
    lines = [
        "what a wonderful film",
        "cats sleep all day",
        "it rains in Seoul",
        "what a bore",
        "the man plays the guitar",
        "a film about a cat",
    ]
    text = "\n".join(lines) + "\n"
    (folder / "lines.txt").write_text(text, encoding="utf-8")
    (folder / "lines.txt.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
    (folder / "lines.txt.xz").write_bytes(lzma.compress(text.encode()))
    (folder / "lines.txt.bz2").write_bytes(bz2.compress(text.encode()))
    (folder / "utf16.txt").write_text(text, encoding="utf-16")
    (folder / "cp949.txt").write_text("오늘은 서울에 비가 온다\n내일은 맑다\n", encoding="cp949")
    (folder / "empty.txt").write_text("", encoding="utf-8")
    (folder / "masked.txt").write_text("The [MASK] sleeps.\nIt [MASK] today.\n", encoding="utf-8")
    (folder / "wrong.txt").write_text('{"text": "a cat"}\n{"text": "a dog"}\n', encoding="utf-8")
    (folder / "bad.csv").write_text("text,label\na cat,1\na dog,0,7\n", encoding="utf-8")
    (folder / "one.csv").write_text("text,label\n" + "a cat,x\n" * 8, encoding="utf-8")
    (folder / "sheet.xlsx").write_bytes(b"PK\x03\x04" + bytes(40))
    (folder / "paper.pdf").write_bytes(b"%PDF-1.7\n" + bytes(40))
    np.save(folder / "there.npy", np.zeros((1, 2), dtype=np.float32))
    for name, notes in {"cats.md": "cats sleep\ncats purr\n", "sub/rain.md": "it rains\n"}.items():
        path = folder / "notes" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(notes, encoding="utf-8")
    document = "the cat sleeps .\nit dreams of fish .\nthen it wakes .\n\n"
    (folder / "corpus.txt").write_text(document * 60, encoding="utf-8")
    config = {
        "hidden_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 32,
        "max_position_embeddings": 32,
        "vocab_size": 200,
    }
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")


def write_tables(folder: Path) -> None:
    rows = []
    for number in range(8):
        good = {"text": f"what a wonderful film {number}", "label": "good", "stars": 5}
        bad = {"text": f"what a bore, {number} times", "label": "bad", "stars": 1}
        rows += [{"id": f"a{number}", **good}, {"id": f"b{number}", **bad}]
    for name, delimiter in (("films.csv", ","), ("films.tsv", "\t")):
        with (folder / name).open("w", encoding="utf-8", newline="") as file:
            table = csv.DictWriter(file, list(rows[0]), delimiter=delimiter)
            table.writeheader()
            table.writerows(rows)
    documents = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "films.jsonl").write_text(documents, encoding="utf-8")
    (folder / "films.json").write_text(json.dumps(rows), encoding="utf-8")
    import pyarrow
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), folder / "films.parquet")
    several = [{"text": f"text {n}", "label": ["abc"[n % 3], "b"]} for n in range(12)]
    documents = "".join(json.dumps(row) + "\n" for row in several)
    (folder / "several.jsonl").write_text(documents, encoding="utf-8")
    tagged = "Ada B-PER\nLovelace I-PER\nlived O\nin O\nLondon B-LOC\n\n"
    (folder / "names.conll").write_text(tagged * 8, encoding="utf-8")
    context = "Ada Lovelace lived in London"
    answer = {"text": "London", "answer_start": context.index("London")}
    questions = [
        {"id": str(n), "question": f"Where did Ada live {n}", "answers": [answer]} for n in range(4)
    ]
    squad = {"data": [{"paragraphs": [{"context": context, "qas": questions}]}]}
    (folder / "questions.json").write_text(json.dumps(squad), encoding="utf-8")
    texts = [("a man eats", "lunch is eaten", "it rains"), ("a cat sleeps", "a pet naps", "snow")]
    pairs = [(f"{a} {n}", f"{b} {n}", f"{c} {n}", n) for n in range(6) for a, b, c in texts]
    for name, columns in {
        "pairs.tsv": {"text": 0, "pair": 1},
        "triplets.tsv": {"text": 0, "pair": 1, "negative": 2},
        "scored.tsv": {"text": 0, "pair": 2, "score": 3},
    }.items():
        table_rows = ["\t".join(columns)]
        table_rows += ["\t".join(str(pair[n]) for n in columns.values()) for pair in pairs]
        (folder / name).write_text("\n".join(table_rows) + "\n", encoding="utf-8")


def write_start(folder: Path) -> None:
    write_texts(folder)
    write_tables(folder)
    write_models(folder)


def write_exports(folder: Path) -> None:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        assert main(["export", "-m", "minibert-tiny", "-o", str(folder / "onnx"), "-q"]) == 0
        exported = str(folder / "labels-onnx")
        assert main(["export", "-m", str(folder / "labels"), "-o", exported, "-q"]) == 0


# --- running one


def run_command(command: str) -> int:
    try:
        return main(shlex.split(command))
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 1


def run_snippet(code: str) -> int:
    try:
        exec(compile(code, "snippet", "exec"), {"__name__": "snippet"})
    except Exception as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        if os.environ.get("DEBUG_JOURNEYS"):
            traceback.print_exc()
        return 1
    return 0


def describe(path: Path) -> str:
    """Return what is compared of a file: the text of a short one, else its name alone."""
    if path.suffix in (".jsonl", ".csv", ".tsv") and path.stat().st_size < 100_000:
        return path.read_text(encoding="utf-8")
    return "written"


def link(source: str, target: str) -> None:
    """Link a file, or copy it where the file system has no links."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy(source, target)


def perform(name: str, start: Path, folder: Path) -> Result:
    """Run a journey in a folder that holds the files it starts from.

    The files of models are links: there are 130 MB of them, and minibert writes none in place.
    """
    for path in start.iterdir():
        target = folder / path.name
        if path.is_dir():
            shutil.copytree(path, target, copy_function=link)
        else:
            shutil.copy(path, target)
    before = {path for path in folder.rglob("*")}
    stdout = io.StringIO()
    stderr = io.StringIO()
    journey = JOURNEYS[name]
    with (
        contextlib.chdir(folder),
        contextlib.redirect_stdout(stdout),
        contextlib.redirect_stderr(stderr),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        code = run_snippet(journey) if name.startswith("python-") else run_command(journey)
    written = sorted(path for path in folder.rglob("*") if path not in before and path.is_file())
    files = {path.relative_to(folder).as_posix(): describe(path) for path in written}
    result = {"code": code, "stdout": stdout.getvalue(), "stderr": stderr.getvalue()}
    text = json.dumps({**result, "files": files}).replace(str(folder), "HERE")
    text = text.replace(str(HERE.parent.parent), "CHECKOUT")
    return dict(json.loads(VECTOR.sub(r"\1, ...", text)))


# the first four of ten numbers or more
VECTOR = re.compile(r"(-?\d[\d.e-]*(?:,? -?\d[\d.e-]*){3})(?:,? -?\d[\d.e-]*){6,}")
# with the spaces by which NumPy aligns a number whose last digit is a 0
NUMBER = re.compile(r" *(-?\d+\.\d+(?:e-?\d+)?|-?\d+e-?\d+) *")


def equal(left: str, right: str, with_numbers: bool) -> bool:
    """Compare texts. Numbers with a decimal point may differ by two percent or 0.005."""
    if NUMBER.sub("#", left) != NUMBER.sub("#", right):
        return False
    pairs = zip(NUMBER.findall(left), NUMBER.findall(right), strict=True)
    return not with_numbers or all(
        math.isclose(float(a), float(b), rel_tol=0.02, abs_tol=0.005) for a, b in pairs
    )


def changed_lines(name: str, expected: str, actual: str) -> str:
    """Return the lines that differ, those of the record after "-" and the others after "+"."""
    lines = difflib.unified_diff(
        expected.splitlines(), actual.splitlines(), f"{name} recorded", f"{name} now", "", "", 0, ""
    )
    return "\n".join(lines) or f"{name}: other line ends"


def differences(name: str, expected: Result, actual: Result) -> list[str]:
    with_numbers = not name.startswith("~")
    if not with_numbers:  # the files of a run are named, and what was printed may count otherwise
        parts = ["code"]
    else:
        parts = ["code", "stdout"]
    found = [
        changed_lines(part, str(expected[part]), str(actual[part]))
        for part in parts
        if not equal(str(expected[part]), str(actual[part]), with_numbers)
    ]
    if expected["files"].keys() != actual["files"].keys():
        found.append(f"files: {sorted(actual['files'])}, not {sorted(expected['files'])}")
    elif with_numbers:
        found += [
            changed_lines(path, content, actual["files"][path])
            for path, content in expected["files"].items()
            if not equal(content, actual["files"][path], with_numbers)
        ]
    return found


# --- the tests


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    for module in ("pyarrow", "transformers", "tokenizers"):
        pytest.importorskip(module)
    folder = tmp_path_factory.mktemp("start")
    write_start(folder)
    return folder


@pytest.fixture(scope="module")
def start_with_exports(start: Path, shared_graphs: None) -> Path:
    for module in ("onnxruntime", "onnxscript"):
        pytest.importorskip(module)
    write_exports(start)
    return start


@pytest.fixture(scope="module")
def expected() -> dict[str, Result]:
    recorded = json.loads((HERE / "recorded.json").read_text(encoding="utf-8"))
    intended = json.loads((HERE / "intended.json").read_text(encoding="utf-8"))
    return {**recorded, **{name: entry["now"] for name, entry in intended.items()}}


def check(name: str, expected: Result, actual: Result) -> None:
    found = differences(name, expected, actual)
    if found:
        pytest.fail("\n".join(found), pytrace=False)


@pytest.mark.parametrize("name", [name for name in JOURNEYS if name not in OF_EXPORTS])
def test_a_journey_ends_as_before(
    name: str, start: Path, expected: dict[str, Result], tmp_path: Path
) -> None:
    check(name, expected[name], perform(name, start, tmp_path))


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(OF_EXPORTS))
def test_a_journey_of_an_exported_model_ends_as_before(
    name: str, start_with_exports: Path, expected: dict[str, Result], tmp_path: Path
) -> None:
    check(name, expected[name], perform(name, start_with_exports, tmp_path))


def test_each_intended_difference_has_a_reason() -> None:
    intended = json.loads((HERE / "intended.json").read_text(encoding="utf-8"))
    assert intended.keys() <= JOURNEYS.keys()
    assert all(entry["reason"] for entry in intended.values())


def record(names: list[str]) -> dict[str, Result]:
    results = {}
    with tempfile.TemporaryDirectory() as directory:
        start = Path(directory, "start")
        start.mkdir()
        write_start(start)
        if OF_EXPORTS & set(names):
            write_exports(start)
        for number, name in enumerate(names):
            folder = Path(directory, str(number))
            folder.mkdir()
            results[name] = perform(name, start, folder)
            shutil.rmtree(folder)
    return results


def save(path: Path, content: object) -> None:
    text = json.dumps(content, indent=1, ensure_ascii=False, sort_keys=True)
    path.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    os.environ["HF_HUB_OFFLINE"] = "1"
    if sys.argv[1:] == ["--all"]:
        save(HERE / "recorded.json", record(list(JOURNEYS)))
    else:
        *chosen, reason = sys.argv[1:]
        path = HERE / "intended.json"
        entries = json.loads(path.read_text(encoding="utf-8"))
        for name, now in record(chosen).items():
            reasons = [entries[name]["reason"]] if name in entries else []
            entries[name] = {"reason": "; ".join([*reasons, reason]), "now": now}
        save(path, entries)
