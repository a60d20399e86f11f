"""`minibert embed --output`, and `minibert search --vectors` of its files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from minibert.cli import main
from minibert.text.write import write_rows

pytest.importorskip("pyarrow")


def embed(*arguments: object) -> int:
    return main(["embed", "-m", "minibert-tiny", *map(str, arguments)])


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    path = tmp_path / "docs.csv"
    rows = [f"d{number},text {word}" for number, word in enumerate(["one", "two", "three"])]
    path.write_text("\n".join(["id,text", *rows]) + "\n", encoding="utf-8")
    return path


def test_ids_in_a_folder_need_no_format(
    docs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--id-column` selects parquet, and later runs keep the format of the folder."""
    folder = tmp_path / "vectors"
    command = ("--file", docs, "--id-column", "id", "-o", f"{folder}/")
    assert embed(*command, "--update") == 0
    assert (folder / "shard-000000.parquet").is_file()
    with docs.open("a", encoding="utf-8") as file:
        file.write("d3,text four\n")
    assert embed("--file", docs, "-o", folder, "--update", "--json") == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["kept"] == 3
    assert not list(folder.glob("*.npy"))


def test_without_ids_a_folder_is_npy(docs: Path, tmp_path: Path) -> None:
    assert embed("--file", docs, "-o", tmp_path / "vectors") == 0
    assert (tmp_path / "vectors" / "shard-000000.npy").is_file()


def test_the_error_for_a_format_without_ids_names_the_option(
    docs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ("--file", docs, "--id-column", "id", "-o", tmp_path / "vectors")
    assert embed(*command, "--format", "npy") == 2
    assert "--format" in capsys.readouterr().err


@pytest.mark.parametrize("output", [(), ("-o", "vectors.npy")])
def test_a_format_without_shards_is_refused(
    output: tuple[str, ...], docs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert embed("--file", docs, "--format", "parquet", *output) == 2
    assert "--output DIR/" in capsys.readouterr().err


def test_stdin_is_no_output(
    docs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert embed("--file", docs, "-o", "-") == 2
    assert "stands for stdin" in capsys.readouterr().err
    assert not Path("-").exists()


@pytest.mark.parametrize("ids", [(), ("--id-column", "id")])
def test_vectors_with_ids_are_searched(
    ids: tuple[str, ...], docs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "vectors"
    assert embed("--file", docs, "--id-column", "id", "-o", folder) == 0
    capsys.readouterr()
    query = ["search", "-m", "minibert-tiny", "text two", "--corpus", str(docs), "--json", *ids]
    assert main([*query, "--vectors", str(folder)]) == 0
    output = json.loads(capsys.readouterr().out)["output"]
    assert output[0]["results"][0]["text"] == "text two"
    docs.write_text(docs.read_text(encoding="utf-8").replace("three", "four"), encoding="utf-8")
    assert main([*query, "--vectors", str(folder)]) == 1
    assert "text 3 has been changed since" in capsys.readouterr().err


def test_the_error_for_another_model_names_both_models(
    docs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(tmp_path / "vectors")
    assert embed("--file", docs, "-o", folder) == 0
    command = ["embed", "--file", str(docs), "-o", folder, "--update", "-m", "minibert-en"]
    assert main(command) == 1
    assert "was begun with minibert-tiny, not minibert-en" in capsys.readouterr().err


def test_a_folder_without_vectors_is_an_error(
    docs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    query = ["search", "-m", "minibert-tiny", "text two", "--corpus", str(docs)]
    assert main([*query, "--vectors", str(tmp_path)]) == 1
    assert "is not a folder of vectors" in capsys.readouterr().err


@pytest.mark.parametrize("failing", [(), ("--text-column", "id,text"), ("--encoding", "utf-16")])
def test_a_run_that_wrote_no_vector_decides_nothing(
    failing: tuple[str, ...], docs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The corrected command has its own default format, and an untouched folder."""
    docs.write_text(docs.read_text(encoding="utf-8").replace("text", "body", 1), encoding="utf-8")
    folder = tmp_path / "vectors"
    command = ("--file", docs, "-o", f"{folder}/")
    assert embed(*command, *failing) == 1
    assert not list(folder.rglob("*"))
    assert embed(*command, "--text-column", "body", "--id-column", "id") == 0
    assert (folder / "shard-000000.parquet").is_file()


def test_a_corpus_and_its_vectors_in_arrow(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pyarrow")
    corpus = str(tmp_path / "corpus.arrow")
    texts = ["I love Korea", "the cat sleeps", "a fox"]
    write_rows(corpus, ({"id": f"k{number}", "text": text} for number, text in enumerate(texts)))
    for output, options in (("v.feather", []), ("shards/", ["--format", "arrow"])):
        vectors = f"{tmp_path}/{output}"
        typed = ["embed", "--file", corpus, "--id-column", "id", "-o", vectors, *options]
        assert main([*typed, "-m", "minibert-tiny"]) == 0
        searched = ["--corpus", corpus, "--vectors", vectors, "--id-column", "id", "--top-k", "1"]
        assert main(["search", "a fox", *searched, "-m", "minibert-tiny", "--jsonl"]) == 0
        [hit] = json.loads(capsys.readouterr().out.splitlines()[-1])["results"]
        assert (hit["id"], hit["text"]) == ("k2", "a fox")


def test_a_search_can_do_what_its_warning_of_long_texts_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("a fox\n" + "the cat sleeps " * 300 + "\n", encoding="utf-8")
    typed = ["search", "cat", "--corpus", str(corpus), "-m", "minibert-tiny", "--jsonl"]
    assert main(typed) == 0
    truncated = capsys.readouterr()
    assert "--overflow mean" in truncated.err
    assert main([*typed, "--overflow", "mean"]) == 0
    averaged = capsys.readouterr()
    assert "truncated" not in averaged.err
    scores = [
        {hit["line"]: hit["score"] for hit in json.loads(shown.out)["results"]}
        for shown in (truncated, averaged)
    ]
    assert scores[0][1] == pytest.approx(scores[1][1]) and scores[0][2] != scores[1][2]
