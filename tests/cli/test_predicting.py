"""Commands for fine-tuned models raise an error for a model of another task."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path

import pytest
from conftest import tiny_config
from tiny_folder import VOCABULARY, classifier_folder, tiny_folder

import minibert
from minibert import SentenceEmbedder
from minibert.cli import main
from minibert.text.location import Location

COMMANDS = {
    "BertForSequenceClassification": "classify",
    "BertForTokenClassification": "entities",
    "BertForQuestionAnswering": "answer",
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_model_of_another_task(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The heads of a classifier and of a tagger have the same tensors, so the config decides."""
    tiny_folder(tmp_path)
    model = getattr(minibert, name)(tiny_config(vocab_size=len(VOCABULARY), num_labels=2))
    model.save_pretrained(tmp_path)
    for command in COMMANDS.values():
        question = ["--question", "how"] if command == "answer" else []
        code = main([command, "-m", str(tmp_path), *question, "tall trees grow"])
        captured = capsys.readouterr()
        if command == COMMANDS[name]:
            assert code == 0 and captured.out
        else:
            assert code == 1 and f"use it by minibert {COMMANDS[name]}" in captured.err


def test_a_file_is_not_a_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "dev.csv"
    file.write_text("text\nhello\n", encoding="utf-8")
    for path in (str(file), "data/dev.csv"):
        assert main(["embed", "hello", "-m", path, "--offline"]) == 1
    first, second = capsys.readouterr().err.splitlines()
    assert f"{file}' is a file" in first and "offline mode" in second


@pytest.mark.parametrize("onnx", [False, True])
@pytest.mark.parametrize("command", ["classify", "rerank"])
@pytest.mark.usefixtures("shared_graphs")
def test_truncated_texts_are_counted(
    command: str, onnx: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On stderr for people, and in --json by a field, with texts of several batches."""
    folder = str(classifier_folder(tmp_path / "model", 1 if command == "rerank" else 3))
    backend: list[str] = []
    if onnx:
        pytest.importorskip("onnxscript")
        pytest.importorskip("onnxruntime")
        assert main(["export", "-m", folder, "-o", str(tmp_path / "onnx")]) == 0
        folder, backend = str(tmp_path / "onnx"), ["--backend", "onnx"]
    lines = tmp_path / "lines.txt"
    long = "tall trees grow in korea hello world\n"
    lines.write_text("tall trees\n" * 5 + long * 2, encoding="utf-8")
    query = ["tall"] if command == "rerank" else []
    typed = [command, *query, "-m", folder, "--file", str(lines), "--max-length", "6", *backend]
    capsys.readouterr()
    assert main([*typed, "--json"]) == 0
    captured = capsys.readouterr()
    content = json.loads(captured.out)
    assert content["truncated"] == 2 and len(content["output"]) == 7
    assert captured.err.count("2 of 7 texts have more than 6 tokens") == 1
    if command == "classify":
        assert main([*typed, "-o", str(tmp_path / "out.csv"), "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["truncated"] == 2
    lines.write_text("tall trees\n" * 5, encoding="utf-8")
    assert main([*typed, "--json"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["truncated"] == 0 and "truncated" not in captured.err


def test_a_search_says_once_what_its_reranker_truncates(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ranker = str(classifier_folder(tmp_path / "ranker", 1))
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("tall trees\n" + "hello world " * 200, encoding="utf-8")
    typed = ["search", "tall", "trees", "korea", "-m", "minibert-tiny", "--corpus", str(corpus)]
    assert main([*typed, "--rerank", ranker]) == 0
    said = capsys.readouterr().err
    assert said.count("pairs have more than") == said.count("3 of 6 pairs") == 1


def test_a_search_weighs_a_reranker(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ranker = str(classifier_folder(tmp_path / "ranker", 1))
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("tall trees\ngrow in korea\nhello world\nhello trees\n", encoding="utf-8")
    search = ["search", "tall trees", "-m", "minibert-tiny", "--corpus", str(corpus), "--json"]

    def scores(*options: str) -> dict[int, float]:
        assert main([*search, *options]) == 0
        results = json.loads(capsys.readouterr().out)["output"][0]["results"]
        found = {result["row"]: result["score"] for result in results}
        assert list(found.values()) == sorted(found.values(), reverse=True)
        return found

    searched, reranked = scores(), scores("--rerank", ranker)
    assert scores("--rerank", ranker, "--rerank-weight", "0") == searched
    for row, score in scores("--rerank", ranker, "--rerank-weight", "0.25").items():
        assert score == pytest.approx(0.25 * reranked[row] + 0.75 * searched[row])
    # of the same cross-encoder without an activation, the logits are not added to cosines
    settings = Path(ranker, "config_sentence_transformers.json")
    settings.write_text('{"activation_fn": "torch.nn.modules.linear.Identity"}', encoding="utf-8")
    logits = scores("--rerank", ranker)
    blended = scores("--rerank", ranker, "--rerank-weight", "0.25")
    for row, score in blended.items():
        assert score == pytest.approx(0.25 * reranked[row] + 0.75 * searched[row])
        assert logits[row] == pytest.approx(math.log(reranked[row] / (1 - reranked[row])), abs=1e-4)
    assert main([*search, "--rerank-weight", "0.5"]) == 2
    assert "give --rerank NAME" in capsys.readouterr().err


@pytest.mark.parametrize("threshold", [0.0, 1.0])
@pytest.mark.parametrize(("ending", "labels"), [("jsonl", 1), ("jsonl", 3), ("csv", 3)])
def test_all_labels_of_a_text_are_predicted_where_it_may_have_several(
    threshold: float, ending: str, labels: int, tmp_path: Path
) -> None:
    folder = classifier_folder(tmp_path / "m", labels, problem_type="multi_label_classification")
    output = tmp_path / f"out.{ending}"
    options = ["-m", str(folder), "--threshold", str(threshold), "-o", str(output)]
    assert main(["classify", *options, "tall trees"]) == 0
    with output.open(encoding="utf-8", newline="") as file:
        if ending == "csv":
            (row,) = csv.DictReader(file)
            predicted = json.loads(row["predicted"])
        else:
            predicted = json.load(file)["predicted"]
    expected = [] if threshold else [f"LABEL_{index}" for index in range(labels)]
    assert sorted(predicted) == expected


def test_columns_that_the_output_replaces_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file of reviews may have a column score of its own."""
    folder = classifier_folder(tmp_path / "model", 2)
    (tmp_path / "a.csv").write_text("text,score\nhello,5\nworld,1\n", encoding="utf-8")
    command = ["classify", "-m", str(folder), "--file", str(tmp_path / "a.csv"), "--jsonl"]
    assert main(command) == 0
    assert "replaces columns of the input (score)" in capsys.readouterr().err
    (tmp_path / "a.csv").write_text("text,stars\nhello,5\nworld,1\n", encoding="utf-8")
    assert main(command) == 0
    captured = capsys.readouterr()
    assert "replaces" not in captured.err and '"stars": "5"' in captured.out


@pytest.mark.parametrize("column", ["predicted", "labels"])
def test_a_text_is_shown_whose_column_the_output_replaces(
    column: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = classifier_folder(tmp_path / "model", 2)
    (tmp_path / "a.csv").write_text(f"{column},n\nhello,5\n", encoding="utf-8")
    file = ["--file", str(tmp_path / "a.csv"), "--text-column", column]
    assert main(["classify", "-m", str(folder), *file]) == 0
    assert capsys.readouterr().out.startswith("hello\n")


def test_results_of_before_are_not_read_as_texts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = str(classifier_folder(tmp_path / "model", 2))
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.txt").write_text("hello\n", encoding="utf-8")
    output = ["-o", str(tmp_path / "texts" / "results.csv"), "--force"]
    command = ["classify", "-m", model, "--file", str(tmp_path / "texts"), *output]
    assert main(command) == 0
    assert main(command) == 2
    assert "whose files are read as texts" in capsys.readouterr().err
    assert main([*command[:4], str(tmp_path / "texts" / "a.txt"), *output]) == 0  # not the folder


@pytest.mark.parametrize("scheme", ["", "file://", "memory://"])
def test_vectors_are_not_written_among_the_texts(
    scheme: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("fsspec")
    texts = f"{scheme}{tmp_path}/texts"
    location = Location(f"{texts}/a.jsonl")
    if location.fs is None:
        (tmp_path / "texts").mkdir()
    with location.replacing() as temporary:
        temporary.write_text('{"text": "hello"}\n', encoding="utf-8")
    command = ["embed", "-m", "minibert-tiny", "--file", texts, "--format", "jsonl", "--force"]
    assert main([*command, "-o", f"{texts}/"]) == 2
    assert "whose files are read as texts" in capsys.readouterr().err
    assert main([*command, "-o", f"{texts}/below/"]) == 0
    assert main([*command, "-o", f"{texts}/below/"]) == 2  # its shards would be texts
    assert main([*command, "-o", f"{texts} as vectors/"]) == 0


def test_a_number_has_no_threshold(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = classifier_folder(tmp_path / "model", 1)
    assert main(["classify", "-m", str(folder), "hello", "--threshold", "0.5"]) == 2
    assert "--threshold is for labels" in capsys.readouterr().err


def test_a_search_with_prompts_and_fewer_dimensions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Prompts are words, or the name of one in the model's folder."""
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("tall trees\ngrow in korea\n\ntall trees\nhello world\n", encoding="utf-8")
    model = tiny_folder(tmp_path / "m")
    embedder = SentenceEmbedder.from_pretrained(model, truncate_dim=8)
    expected = embedder.similarity(
        embedder.encode(["trees"], prompt="query: "),
        embedder.encode(["tall trees", "grow in korea", "hello world"], prompt="do "),
    )[0]
    search = ["search", "trees", "-m", str(model), "--corpus", str(corpus), "--json"]
    options = ["--query-prompt", "query: ", "--truncate-dim", "8", "--unique"]

    def results(*more: str) -> dict[int, float]:
        assert main([*search, *options, *more]) == 0
        found = json.loads(capsys.readouterr().out)["output"][0]["results"]
        return {result["row"]: result["score"] for result in found}

    found = results("--document-prompt", "do ")
    assert sorted(found) == [1, 2, 5]  # a text that occurs twice, once
    for row, score in zip((1, 2, 5), expected, strict=True):
        assert found[row] == pytest.approx(float(score), abs=1e-5)
    least = str(sorted(found.values())[1] - 1e-6)
    best = results("--document-prompt", "do ", "--min-score", least)
    assert sorted(best.values()) == sorted(found.values())[1:]
    folder = SentenceEmbedder.from_pretrained(model)
    folder.prompts = {"passage": "do "}
    folder.save_pretrained(model)
    assert results("--document-prompt", "passage") == pytest.approx(found)
    vectors = str(tmp_path / "v")
    embed = ["embed", "-m", str(model), "--file", str(corpus), "-o", vectors + "/"]
    assert main([*embed, "--prompt-name", "passage", "--truncate-dim", "8"]) == 0
    capsys.readouterr()
    named = results("--document-prompt", "passage", "--vectors", vectors)
    assert named == pytest.approx(found, abs=1e-5)
