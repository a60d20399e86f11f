"""Repeated ids are counted, and every command that reads ids reports them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tiny_folder import classifier_folder

from minibert.cli import main
from minibert.corpus import ids as ids_module
from minibert.corpus.ids import RepeatedIds, with_checked_ids

READERS = {
    "embed": "embed -m minibert-tiny --file FILE -o OUT.jsonl",
    "embed to shards": "embed -m minibert-tiny --file FILE -o OUT/ --format jsonl",
    "update": "embed -m minibert-tiny --file FILE -o OUT/ --format jsonl --update",
    "search": "search cat -m minibert-tiny --corpus FILE",
    "rerank": "rerank cat -m MODEL --file FILE",
    "classify": "classify -m MODEL --file FILE -o OUT.jsonl",
}


def test_ids_are_compared_across_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    ids = RepeatedIds()
    ids.add([1, "1", 2, "a"])
    assert not ids.repeated  # a number and a string are different ids
    ids.add(["b", "a", "b", 3])
    ids.add([])
    ids.add([2, 4])
    assert (ids.rows, ids.repeated, ids.example) == (10, 3, "a")
    monkeypatch.setattr(ids_module, "CHECKED_ROWS", 3)
    numbers = list(range(10)) + [4]
    assert list(with_checked_ids(numbers, int)) == numbers


def run(name: str, folder: Path, rows: list[dict[str, str]]) -> None:
    file = folder / "docs.jsonl"
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    typed = READERS[name].replace("OUT", str(folder / "out")).replace("FILE", str(file))
    typed = typed.replace("MODEL", str(folder / "classifier"))
    assert main([*typed.split(), "--id-column", "key"]) == 0


@pytest.mark.parametrize("name", READERS)
def test_every_command_reports_repeated_ids(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    classifier_folder(tmp_path / "classifier", 1 if name == "rerank" else 2)
    rows = [{"key": key, "text": f"a {word}"} for key, word in zip("abac", "wxyz", strict=True)]
    run(name, tmp_path, rows)
    assert "1 of 4 rows has the id of an earlier row, such as 'a'" in capsys.readouterr().err


def test_an_update_reports_repeated_ids_and_keeps_every_row(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"key": key, "text": f"a {word}"} for key, word in zip("abc", "wxy", strict=True)]
    run("embed to shards", tmp_path, rows)
    assert "earlier row" not in capsys.readouterr().err
    run("update", tmp_path, [*rows, {"key": "b", "text": "another"}])
    assert "such as 'b'" in capsys.readouterr().err
    shard = (tmp_path / "out" / "shard-000000.jsonl").read_text(encoding="utf-8")
    assert [json.loads(line)["id"] for line in shard.splitlines()] == ["a", "b", "c", "b"]
