"""Folders of vectors at URIs, and what other libraries see in a folder."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny_folder import LINES, as_if_stopped, contents, sentence_folder

from minibert import SentenceEmbedder, encode_to_file, encode_to_shards, open_vectors
from minibert.cli import main
from minibert.text.formats import SHARD_FORMATS
from minibert.text.location import Location, claim
from minibert.text.write import write_rows


@pytest.mark.parametrize("file_format", SHARD_FORMATS)
def test_vectors_are_read_from_where_they_were_written(
    file_format: str, embedder: SentenceEmbedder, tmp_path: Path
) -> None:
    pytest.importorskip("fsspec")
    folder = f"memory://{tmp_path.name}/{file_format}"
    options: Any = {"file_format": file_format, "shard_size": 10}
    encode_to_shards(embedder, LINES[:20], folder, **options)
    with pytest.raises(ValueError, match="was made from other texts"):
        encode_to_shards(embedder, LINES[1:21], folder, **options)
    report = encode_to_shards(embedder, LINES, folder, **options)
    assert (report.skipped, report.shards) == (2, 3)
    np.testing.assert_allclose(open_vectors(folder)[:], embedder.encode(LINES), atol=1e-6)
    encode_to_file(embedder, LINES, f"{folder}.{file_format}")
    vectors = open_vectors(f"{folder}.{file_format}")
    np.testing.assert_allclose(np.asarray(vectors), embedder.encode(LINES), atol=1e-6)


def test_a_bucket_holds_the_same_files(
    bucket: str, embedder: SentenceEmbedder, tmp_path: Path
) -> None:
    encode_to_shards(embedder, LINES, tmp_path, shard_size=10)
    encode_to_shards(embedder, LINES[:20], f"{bucket}/vectors", shard_size=10)
    encode_to_shards(embedder, LINES, f"{bucket}/vectors", shard_size=10)
    remote = Location(f"{bucket}/vectors")
    for name, content in contents(tmp_path).items():
        with (remote / name).open() as file:
            assert file.read() == content
    with (remote / "shard-000001.npy").replacing() as temporary:
        temporary.write_bytes(b"another size")
    with pytest.warns(UserWarning, match=r"shard-000001\..* has been damaged"):
        report = encode_to_shards(embedder, LINES, f"{bucket}/vectors", shard_size=10)
    assert report.shards == 1


@pytest.mark.parametrize("scheme", ["file", "memory"])
def test_nothing_is_overwritten_at_a_uri(
    scheme: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("fsspec")
    top = f"{scheme}://{tmp_path}/{scheme}"
    if scheme == "file":
        (tmp_path / scheme).mkdir()
    for name in ("keep.npy", "folder/keep.txt"):
        location = Location(f"{top}/{name}")
        if scheme == "file":
            Path(location.path).parent.mkdir(exist_ok=True)
        with location.replacing() as temporary:
            temporary.write_bytes(b"precious")
    command = ["embed", "hello", "-m", "minibert-tiny", "-o"]
    assert main([*command, f"{top}/keep.npy"]) == 2
    assert "exists already" in capsys.readouterr().err
    assert main([*command, f"{top}/folder/"]) == 2
    assert "already holds keep.txt" in capsys.readouterr().err
    for force in (False, True):
        with pytest.raises(NotADirectoryError, match="keep.npy is a file"):
            claim(f"{top}/keep.npy", force, folder=True)
    assert main([*command, f"{top}/keep.npy", "--force"]) == 0
    assert open_vectors(f"{top}/keep.npy").shape[0] == 1


def test_a_second_run_keeps_the_format_of_the_first(tmp_path: Path) -> None:
    pytest.importorskip("fsspec")
    folder = f"memory://{tmp_path.name}/kept"
    command = ["embed", "hello", "-m", "minibert-tiny", "-o", f"{folder}/"]
    assert main([*command, "--format", "jsonl"]) == 0
    assert main(command) == 0
    assert list(Location(folder).files()) == ["shard-000000.jsonl"]


def test_search_reads_vectors_at_a_uri(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("fsspec")
    corpus = tmp_path / "lines.txt"
    corpus.write_text("\n".join(LINES), encoding="utf-8")
    model = ["-m", "minibert-tiny"]
    expected = None
    for output in (f"memory://{tmp_path.name}/v/", f"file://{tmp_path}/v", f"{tmp_path}/v.npy"):
        assert main(["embed", "--file", str(corpus), "-o", output, *model]) == 0
        capsys.readouterr()
        assert main(["search", "tree", "--corpus", str(corpus), "--vectors", output, *model]) == 0
        found = capsys.readouterr().out
        assert expected is None or found == expected
        expected = found


PROMPTS = (
    {"query": "query: ", "document": "passage: "},
    {"query": "query: ", "passage": "passage: "},
    {"corpus": "passage: "},
    {"query": "query: "},
)


@pytest.mark.parametrize("prompts", PROMPTS)
@pytest.mark.parametrize("output", ["v.npy", "v.jsonl", "v/"])
def test_embed_and_search_fit_without_options(
    prompts: dict[str, str], output: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both take the prompt of documents from the model (B4)."""
    folder = sentence_folder(
        tmp_path / "m", ("Pooling", {}), config_sentence_transformers={"prompts": prompts}
    )
    corpus = tmp_path / "l.txt"
    corpus.write_text("\n".join(LINES), encoding="utf-8")
    model = ["-m", str(folder), "--precision", "exact"]
    vectors = f"{tmp_path}/{output}"
    assert main(["embed", "--file", str(corpus), "-o", vectors, *model]) == 0
    search = ["search", "seoul", "--corpus", str(corpus), *model]
    capsys.readouterr()
    assert main([*search, "--vectors", vectors]) == 0
    with_vectors = capsys.readouterr().out
    assert main(search) == 0
    assert capsys.readouterr().out == with_vectors
    embedder = SentenceEmbedder.from_pretrained(folder, precision=None)
    encode_to_shards(embedder, LINES, tmp_path / "python")
    expected = embedder.encode_document(LINES)
    for path in (vectors, tmp_path / "python"):
        np.testing.assert_allclose(np.asarray(open_vectors(path)), expected, atol=1e-5)


@pytest.mark.parametrize("command", ["search", "rerank"])
def test_results_name_the_file_and_line_of_a_folder(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A line alone is not enough where a folder was read (B8)."""
    from tiny_folder import classifier_folder

    notes = tmp_path / "notes"
    (notes / "sub").mkdir(parents=True)
    (notes / "seoul.md").write_text("seoul is large\n\nit is in korea\n", encoding="utf-8")
    (notes / "sub" / "cats.csv").write_text('text\n"a cat\non a mat"\na dog\n', encoding="utf-8")
    write_rows(str(notes / "sub" / "foxes.parquet"), [{"text": ""}, {"text": "a fox"}])
    typed = ["search", "cat", "-m", "minibert-tiny", "--corpus", str(notes)]
    if command == "rerank":
        classifier_folder(tmp_path / "ranker", 1)
        typed = ["rerank", "cat", "-m", str(tmp_path / "ranker"), "--file", str(notes)]
    assert main([*typed, "--json", "-k", "9"]) == 0
    output = json.loads(capsys.readouterr().out)["output"]
    results = output[0]["results"] if command == "search" else output
    names = ("seoul.md", "sub/cats.csv", "sub/foxes.parquet")
    seoul, cats, foxes = (str(notes / name) for name in names)
    places = {(row["text"], row["file"], row["line"], row["row"]) for row in results}
    assert {place for place in places if place[0]} == {
        ("seoul is large", seoul, 1, 1),
        ("it is in korea", seoul, 3, 3),
        ("a cat\non a mat", cats, 2, 4),
        ("a dog", cats, 4, 5),
        ("a fox", foxes, 2, 7),
    }


def test_other_libraries_read_a_folder_of_parquet(
    embedder: SentenceEmbedder, tmp_path: Path
) -> None:
    """Nothing in the folder disturbs those who read it as a table (B12)."""
    pandas = pytest.importorskip("pandas")
    datasets = pytest.importorskip("datasets")
    from pyarrow import dataset

    folder = tmp_path / "v"
    encode_to_shards(embedder, LINES, folder, file_format="parquet", shard_size=10)
    assert sorted(path.name for path in folder.iterdir() if path.suffix != ".parquet") == [
        ".manifest"
    ]
    assert pandas.read_parquet(folder)["text"].tolist() == LINES
    assert dataset.dataset(folder).count_rows() == len(LINES)
    cache = str(tmp_path / "cache")
    for arguments in ((str(folder),), ("parquet",)):
        options = {} if arguments[0] != "parquet" else {"data_dir": str(folder)}
        rows = datasets.load_dataset(*arguments, **options, split="train", cache_dir=cache)
        assert rows["text"][:] == LINES


def test_ids_that_differ_make_another_shard(embedder: SentenceEmbedder, tmp_path: Path) -> None:
    from minibert.text import Row, Table

    rows = [[Row("a.csv", 1, {"text": "a", "key": key}, Table(id="key"))] for key in (1, 2)]
    encode_to_shards(embedder, rows[0], tmp_path, file_format="parquet")
    assert encode_to_shards(embedder, rows[0], tmp_path, file_format="parquet").skipped == 1
    with pytest.raises(ValueError, match="was made from other texts"):
        encode_to_shards(embedder, rows[1], tmp_path, file_format="parquet")


def test_opening_vectors_imports_no_torch(embedder: SentenceEmbedder, tmp_path: Path) -> None:
    encode_to_shards(embedder, LINES, tmp_path, shard_size=10)
    code = (
        "import sys; from minibert import open_vectors; print(len(open_vectors(sys.argv[1])));"
        "assert 'torch' not in sys.modules"
    )
    run = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True)
    assert run.stdout.split() == [b"47"], run.stderr
    as_if_stopped(tmp_path)
    with pytest.raises(ValueError, match="is not complete"):
        open_vectors(tmp_path)
