"""Searching vectors of another model, setting or corpus raises an error with the reason."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_folder import LINES, sentence_folder, tiny_folder

from minibert import SentenceEmbedder, encode_to_file, encode_to_shards
from minibert.cli import main
from minibert.text import Row, Table
from minibert.vectors.folder import open_checked_vectors, open_vectors


def load(folder: Path, **options: Any) -> SentenceEmbedder:
    return SentenceEmbedder.from_pretrained(folder, **{"precision": None, **options})


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_folder(tmp_path_factory.mktemp("bert"))


def retrained(bert: Path) -> SentenceEmbedder:
    other = load(bert)
    with torch.no_grad():
        for layer in other.model.encoder.layer:
            layer.output.dense.weight.normal_(generator=torch.Generator().manual_seed(1))
    return other


EDITED = [*LINES[:25], "another line", *LINES[26:]]
MISMATCHES: list[tuple[Callable[[Path], SentenceEmbedder], list[str], str, str]] = [
    (
        retrained,
        LINES,
        "",
        "made by another model or tokenizer: search it with the one that made it",
    ),
    (
        lambda bert: load(bert, pooling="cls"),
        LINES,
        "",
        r"made with pooling \['mean'\], not \['cls'\]: search it with",
    ),
    (
        lambda bert: load(bert, layers=[1]),
        LINES,
        "",
        r"made by another model or tokenizer, or with layers \[\d\], not \[1",
    ),
    (
        lambda bert: load(bert, precision="int8"),
        LINES,
        "",
        "made with precision 'fp32', not 'int8'",
    ),
    (load, LINES, "how tall? ", "made with prompt '', not 'how tall"),
    (
        load,
        EDITED,
        "",
        "made from other texts: text 26 has been changed since",
    ),
]


@pytest.mark.parametrize(("load", "texts", "prompt", "message"), MISMATCHES)
def test_shards_of_another_model_text_or_setting_raise_an_error(
    load: Callable[[Path], SentenceEmbedder],
    texts: list[str],
    prompt: str,
    message: str,
    bert: Path,
    tmp_path: Path,
) -> None:
    embedder = SentenceEmbedder.from_pretrained(bert, precision=None)
    encode_to_shards(embedder, LINES, tmp_path, shard_size=10)
    open_checked_vectors(tmp_path, embedder, LINES)
    with pytest.raises(ValueError, match=message):
        open_checked_vectors(tmp_path, load(bert), texts, prompt)


def test_settings_that_keep_cosines_are_accepted(bert: Path, tmp_path: Path) -> None:
    """Precision fp32, normalization and batch size do not matter, because they keep cosines."""
    encode_to_shards(
        load(bert, precision="fp32", normalize=True),
        LINES,
        tmp_path,
        shard_size=10,
        batch_tokens=99,
    )
    open_checked_vectors(tmp_path, load(bert), LINES)
    by_dot_products = load(bert)
    by_dot_products.similarity_fn_name = "dot"
    with pytest.raises(ValueError, match="was made with steps"):
        open_checked_vectors(tmp_path, by_dot_products, LINES)


@pytest.mark.parametrize("place", ["v/", "v.npy"])
def test_a_search_names_the_option_that_its_corpus_had(
    place: str, bert: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus = tmp_path / "lines.txt"
    corpus.write_text("\n".join(LINES[:20]), encoding="utf-8")
    of_all = ["--model", str(bert)]
    search = ["search", "trees", *of_all, "--corpus", str(corpus), "--vectors"]
    for option, wanted in (
        (["--prompt", "how tall are the old oak trees in the garden? "], "--document-prompt"),
        (["--truncate-dim", "8"], "--truncate-dim 8"),
    ):
        vectors = str(tmp_path / option[0] / place)
        Path(vectors).parent.mkdir()
        embed = ["embed", *of_all, "--file", str(corpus), *option, "--output", vectors]
        assert main(embed) == 0
        capsys.readouterr()
        assert main([*search, vectors]) == 1
        assert wanted in capsys.readouterr().err
        same = ["--document-prompt", *option[1:]] if option[0] == "--prompt" else option
        assert main([*search, vectors, *same]) == 0
    if place == "v/":
        assert main([*search, vectors, "--truncate-dim", "4"]) == 1
        assert "8 dimensions, not 4: pass --truncate-dim 8" in capsys.readouterr().err


def test_vectors_that_a_call_truncated_are_those_of_a_truncated_embedder(
    bert: Path, tmp_path: Path
) -> None:
    encode_to_shards(load(bert), LINES, tmp_path, truncate_dim=8)
    open_checked_vectors(tmp_path, load(bert, truncate_dim=8), LINES)
    with pytest.raises(ValueError, match="8 dimensions, not 32: pass truncate_dim=8"):
        open_checked_vectors(tmp_path, load(bert), LINES)


@pytest.mark.parametrize("ending", ["npy", "jsonl"])
def test_a_sample_of_the_vectors_in_a_file_is_compared(
    ending: str, bert: Path, tmp_path: Path
) -> None:
    path = tmp_path / f"v.{ending}"
    embedder = load(bert)
    encode_to_file(load(bert, precision="int8"), LINES, path)
    open_checked_vectors(path, embedder, LINES)
    for other, texts in ((retrained(bert), LINES), (embedder, LINES[1:] + LINES[:1])):
        with pytest.raises(
            ValueError,
            match=r"another model, .*pooling or prompt .*, or from other texts",
        ):
            open_checked_vectors(path, other, texts)
    message = (
        "made by another model or with another pooling: its vectors have 32 dimensions, not 64"
    )
    with pytest.raises(ValueError, match=message):
        open_checked_vectors(path, load(bert, pooling=["cls", "max"]), LINES)


def test_long_texts_of_a_file_are_compared_only_where_all_are_long(
    bert: Path, tmp_path: Path
) -> None:
    embedder = load(bert)
    path = tmp_path / "v.npy"
    texts = [f"{line} {' '.join(LINES[number:])}" for number, line in enumerate(LINES)]
    encode_to_file(embedder, texts, path, overflow="mean")
    short = load(bert, max_length=6)
    with pytest.raises(ValueError, match=r"prompt, max_length or overflow"):
        open_checked_vectors(path, short, texts)
    texts[5] = texts[20] = "tall"
    encode_to_file(embedder, texts, path, overflow="mean", force=True)
    assert len(open_checked_vectors(path, short, texts)) == len(texts)


def test_normalization_of_a_file_matters_to_dot_products(bert: Path, tmp_path: Path) -> None:
    embedder = load(bert)
    path = tmp_path / "v.npy"
    encode_to_file(embedder, LINES, path, normalize_embeddings=True)
    np.testing.assert_array_equal(open_checked_vectors(path, embedder, LINES), open_vectors(path))
    embedder.similarity_fn_name = "dot"
    with pytest.raises(ValueError, match="another L2 normalization: .* has a length of 1.00, not"):
        open_checked_vectors(path, embedder, LINES)


@pytest.mark.parametrize("name", ["folder", "v.npy"])
@pytest.mark.parametrize("texts", [[], LINES[:3], [*LINES, "another"], LINES * 30])
def test_there_are_as_many_texts_as_vectors(
    name: str, texts: list[str], bert: Path, tmp_path: Path
) -> None:
    embedder = load(bert)
    if name == "folder":
        encode_to_shards(embedder, LINES, tmp_path / name, shard_size=10)
    else:
        encode_to_file(embedder, LINES, tmp_path / name)
    open_checked_vectors(tmp_path / name, embedder, LINES)
    with pytest.raises(ValueError, match=f"has 47 vectors, but .* {len(texts):,} texts"):
        open_checked_vectors(tmp_path / name, embedder, texts)


def test_shards_are_there_when_a_folder_is_opened(bert: Path, tmp_path: Path) -> None:
    """A missing or truncated shard is noticed at once, and embedding again restores it."""
    embedder = load(bert)
    encode_to_shards(embedder, LINES, tmp_path, shard_size=10)
    vectors = np.asarray(open_vectors(tmp_path))
    shard = tmp_path / "shard-000002.npy"
    content = shard.read_bytes()
    shard.unlink()
    with pytest.raises(FileNotFoundError, match="shard-000002.npy is missing"):
        open_vectors(tmp_path)
    shard.write_bytes(content[:-4])
    for check in (open_vectors, lambda path: open_checked_vectors(path, embedder, LINES)):
        with pytest.raises(ValueError, match="shard-000002.npy has .* bytes, not"):
            check(tmp_path)
    with pytest.warns(UserWarning, match="damaged or deleted"):
        encode_to_shards(embedder, LINES, tmp_path, shard_size=10)
    np.testing.assert_array_equal(open_vectors(tmp_path)[:], vectors)


@pytest.mark.parametrize("name", ["model", "file_format"])
def test_a_manifest_without_an_entry_is_damaged(name: str, bert: Path, tmp_path: Path) -> None:
    encode_to_shards(load(bert), LINES, tmp_path, shard_size=10)
    manifest = tmp_path / ".manifest"
    content = json.loads(manifest.read_text(encoding="utf-8"))
    del content[name]
    manifest.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(ValueError, match=f"does not have {name}"):
        open_vectors(tmp_path)


def test_vectors_that_are_not_numbers_are_refused(bert: Path, tmp_path: Path) -> None:
    embedder = load(bert)
    vectors = embedder.encode(LINES)
    vectors[:, 3] = np.nan
    np.save(tmp_path / "v.npy", vectors)
    with pytest.raises(ValueError, match="has a cosine of nan"):
        open_checked_vectors(tmp_path / "v.npy", embedder, LINES)


def test_files_of_vectors_of_other_programs_are_read_or_explained(tmp_path: Path) -> None:
    line = '{"text": "a", "vector": [1.0, 2.0]}\n'
    (tmp_path / "blank.jsonl").write_text(f"{line}\n{line}\n", encoding="utf-8")
    assert open_vectors(tmp_path / "blank.jsonl").shape == (2, 2)
    np.save(tmp_path / "v.npy", np.ones((2, 3), np.float32))
    (tmp_path / "v.npy").rename(tmp_path / "V.NPY")
    assert open_vectors(tmp_path / "V.NPY").shape == (2, 3)
    (tmp_path / "other.jsonl").write_text(line.replace("vector", "embedding"), encoding="utf-8")
    with pytest.raises(ValueError, match="no vectors where minibert embed writes them"):
        open_vectors(tmp_path / "other.jsonl")
    np.save(tmp_path / "quantized.npy", np.ones((2, 3), np.int8))
    with pytest.raises(ValueError, match="int8 numbers"):
        open_vectors(tmp_path / "quantized.npy")


def test_the_search_command_checks_vectors_and_skips_blank_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prompts = {"prompts": {"query": "query: ", "passage": "how? "}}
    model = str(
        sentence_folder(tmp_path / "model", ("Pooling", {}), config_sentence_transformers=prompts)
    )
    corpus = tmp_path / "lines.txt"
    corpus.write_text("\n".join([*LINES[:20], "", " ", *LINES[20:]]) + "\n", encoding="utf-8")
    options = ["--model", model, "--precision", "exact"]
    embed = ["embed", *options, "--file", str(corpus)]
    for name, prompt in (("bare", ["--prompt", ""]), ("passages", [])):
        assert main([*embed, "--output", str(tmp_path / name), *prompt]) == 0
    search = ["search", *options, "--corpus", str(corpus), "--vectors"]
    capsys.readouterr()
    assert main([*search, str(tmp_path / "bare"), "trees"]) == 1
    assert "bare was made with prompt '', not 'how? '" in capsys.readouterr().err
    queries = ["trees", "hello world"]
    passages = str(tmp_path / "passages")
    assert main([*search, passages, *queries, "--jsonl", "--top-k", "50"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["query"] for row in rows] == queries
    for row in rows:  # 49 lines, of which six are blank
        assert len(row["results"]) == 43
        assert all(result["text"].strip() for result in row["results"])
    assert main([*search[:-1], *queries, "--top-k", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [len(line.split(maxsplit=2)) for line in lines] == [1, 3, 3, 2, 3, 3]
    assert main([*search[:-1], "trees", " "]) == 2
    assert "the query is empty" in capsys.readouterr().err


def test_ids_do_not_matter(bert: Path, tmp_path: Path) -> None:
    """Vectors of texts with ids match the same texts without ids, and vice versa."""
    embedder = load(bert)
    table = Table(id="id")
    rows = [
        Row("a.csv", number, {"text": line, "id": str(number)}, table)
        for number, line in enumerate(LINES)
    ]
    encode_to_shards(embedder, rows, tmp_path / "ids", shard_size=10, file_format="parquet")
    encode_to_shards(embedder, LINES, tmp_path / "plain", shard_size=10)
    for folder in ("ids", "plain"):
        open_checked_vectors(tmp_path / folder, embedder, LINES)
        with pytest.raises(ValueError, match="text 26 has been changed since"):
            open_checked_vectors(tmp_path / folder, embedder, EDITED)
