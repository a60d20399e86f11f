"""Encoding a corpus to files and shards. A shard is complete or absent, however a run ends."""

from __future__ import annotations

import argparse
import io
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pytest
import torch
from conftest import full_disk
from forked import start
from hypothesis import given, strategies as st
from safetensors.numpy import load_file, save_file
from tiny_folder import LINES, WORDS, as_if_stopped, contents

from minibert import SentenceEmbedder
from minibert.cli import embed, main
from minibert.text.formats import SHARD_FORMATS, Entry
from minibert.text.location import Location
from minibert.vectors.folder import ShardedVectors, open_vectors
from minibert.vectors.shards import encode_to_file, encode_to_shards


def read_vectors(path: Path) -> np.ndarray[Any, Any]:
    if path.suffix == ".npy":
        return np.load(path)  # type: ignore[no-any-return]
    if path.suffix == ".safetensors":
        return load_file(path)["vectors"]
    if path.suffix == ".jsonl":
        rows = [
            json.loads(line)["vector"] for line in path.read_text(encoding="utf-8").splitlines()
        ]
    elif path.suffix == ".arrow":
        rows = pytest.importorskip("pyarrow.feather").read_table(path)["vector"].to_pylist()
    else:
        rows = pytest.importorskip("pyarrow.parquet").read_table(path)["vector"].to_pylist()
    return np.array(rows, dtype=np.float32)


class TestFiles:
    @pytest.mark.parametrize("ending", ["npy", "safetensors", "jsonl", "parquet", "arrow"])
    def test_every_format_holds_the_same_vectors(
        self, embedder: SentenceEmbedder, tmp_path: Path, ending: str
    ) -> None:
        report = encode_to_file(embedder, iter(LINES), tmp_path / f"out.{ending}")
        with pytest.raises(FileExistsError, match="force=True"):
            encode_to_file(embedder, LINES, tmp_path / f"out.{ending}")
        assert (report.lines, report.overlong) == (47, 0)
        assert np.array_equal(read_vectors(tmp_path / f"out.{ending}"), embedder.encode(LINES))

    @pytest.mark.parametrize("ending", ["npy", "safetensors", "jsonl", "parquet", "arrow"])
    def test_no_texts(self, embedder: SentenceEmbedder, tmp_path: Path, ending: str) -> None:
        (tmp_path / f"out.{ending}").touch()
        encode_to_file(embedder, [], tmp_path / f"out.{ending}", force=True)
        assert len(read_vectors(tmp_path / f"out.{ending}")) == 0
        if ending != "jsonl":  # whose lines alone have a size
            assert open_vectors(tmp_path / f"out.{ending}").shape == (0, 32)

    @pytest.mark.parametrize("kind", [np.float16, np.float64])
    def test_safetensors_of_other_types_are_read(self, kind: Any, tmp_path: Path) -> None:
        vectors = np.arange(6, dtype=kind).reshape(2, 3)
        save_file({"ids": np.arange(2), "vectors": vectors}, tmp_path / "v.safetensors")
        opened = open_vectors(tmp_path / "v.safetensors")
        assert opened.dtype == kind
        np.testing.assert_array_equal(opened, vectors)

    @pytest.mark.parametrize(
        ("name", "content"),
        [
            ("v.safetensors", b"\xff" * 100),
            ("v.safetensors", b"\xff\xff\xff\xff\xff\0\0\0{}"),
            ("v.jsonl", b"[1, 2]\n"),
            ("v.jsonl", b"5\n"),
            ("v.npy", b"\x93NUMPY\x01\0\x47\x1f{'shape': " + 3998 * b"[" + 3998 * b"]" + b"}"),
        ],
    )
    def test_an_error_names_what_holds_no_vectors(
        self, name: str, content: bytes, tmp_path: Path
    ) -> None:
        (tmp_path / name).write_bytes(content)
        with pytest.raises(
            ValueError, match=rf"{name} (is not a complete|has no vectors where)"
        ) as info:
            open_vectors(tmp_path / name)
        assert len(str(info.value)) < len(str(tmp_path)) + 600

    def test_lists_of_other_programs_are_read_if_they_have_one_size(self, tmp_path: Path) -> None:
        arrow = pytest.importorskip("pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")
        feather = pytest.importorskip("pyarrow.feather")
        for name, write in (("v.parquet", parquet.write_table), ("v.arrow", feather.write_feather)):
            path = tmp_path / name
            for rows in ([[1.0, 2.0], [3.0, 4.0]], [[1.0], [2.0, 3.0, 4.0]]):
                write(arrow.table({"vector": arrow.array(rows)}), path)
                if len(rows[0]) == 2:
                    np.testing.assert_array_equal(open_vectors(path), rows)
                else:
                    with pytest.raises(ValueError, match=rf"{name} is not a complete"):
                        open_vectors(path)

    def test_texts_are_stored_with_their_vectors(
        self, embedder: SentenceEmbedder, tmp_path: Path
    ) -> None:
        texts = ["hello", 'quoted " \\ \u2028', "안녕", ""]
        for ending in ("jsonl", "parquet"):
            encode_to_file(embedder, texts, tmp_path / f"out.{ending}")
        lines = (tmp_path / "out.jsonl").read_bytes().decode().rstrip("\n").split("\n")
        assert [json.loads(line)["text"] for line in lines] == texts
        table = pytest.importorskip("pyarrow.parquet").read_table(tmp_path / "out.parquet")
        assert table["text"].to_pylist() == texts

    @given(
        st.lists(st.integers(0, 5), max_size=4),
        st.integers(1, 300),
        st.sampled_from(["npy", "safetensors", "jsonl"]),
    )
    def test_any_shape(
        self,
        tmp_path_factory: pytest.TempPathFactory,
        sizes: list[int],
        dimension: int,
        ending: str,
    ) -> None:
        path = tmp_path_factory.mktemp("any") / f"out.{ending}"
        generator = np.random.default_rng(0)
        parts = [
            generator.normal(size=(size, dimension)).astype(np.float32) * 1e-5 for size in sizes
        ]
        SHARD_FORMATS[ending].write_vectors(
            path, [([Entry("")] * len(part), part) for part in parts], dimension
        )
        expected = np.concatenate([np.empty((0, dimension), np.float32), *parts])
        assert np.array_equal(read_vectors(path).reshape(-1, dimension), expected)

    def test_nothing_is_left_of_a_file_that_failed(
        self, embedder: SentenceEmbedder, tmp_path: Path
    ) -> None:
        def texts() -> Iterator[str]:
            yield "hello"
            raise ValueError("line 2 is bad")

        with pytest.raises(ValueError, match="line 2 is bad"):
            encode_to_file(embedder, texts(), tmp_path / "out.npy")
        assert contents(tmp_path) == {}

    def test_no_folder(self, embedder: SentenceEmbedder, tmp_path: Path) -> None:
        with pytest.raises(
            FileNotFoundError,
            match="no folder .*out.npy.* Make it first",
        ):
            encode_to_file(embedder, LINES, tmp_path / "nowhere" / "out.npy")

    def test_unknown_ending(self, embedder: SentenceEmbedder, tmp_path: Path) -> None:
        with pytest.raises(
            ValueError,
            match=r"'out.csv' should end in .npy, .safetensors, .jsonl, .ndjson, .parquet",
        ):
            encode_to_file(embedder, LINES, tmp_path / "out.csv")


class TestShards:
    def test_shards_and_totals(self, embedder: SentenceEmbedder, tmp_path: Path) -> None:
        report = encode_to_shards(embedder, iter(LINES), tmp_path, shard_size=10)
        names = [path.name for path in sorted(tmp_path.glob("*.npy"))]
        assert names == [f"shard-00000{number}.npy" for number in range(5)]
        vectors = np.concatenate([np.load(tmp_path / name) for name in names])
        np.testing.assert_allclose(vectors, embedder.encode(LINES), atol=1e-6)
        tokens = sum(len(embedder.tokenizer(line)["input_ids"]) for line in LINES)
        assert vars(report) == {
            "lines": 47,
            "tokens": tokens,
            "overlong": 0,
            "shards": 5,
            "skipped": 0,
            "kept": 0,
        }
        totals = {
            "dimension": 32,
            "file_format": "npy",
            "unit": False,
            "lines": 47,
            "tokens": tokens,
            "overlong": 0,
        }
        manifest = json.loads((tmp_path / ".manifest").read_text(encoding="utf-8"))
        assert {name: manifest[name] for name in totals} == totals
        assert [record["lines"] for record in manifest["shards"]] == [10, 10, 10, 10, 7]
        assert sorted(path.name for path in tmp_path.iterdir()) == [".manifest", *names]

    def test_the_manifest_is_there_before_the_first_shard(
        self, embedder: SentenceEmbedder, tmp_path: Path
    ) -> None:
        """A run without a vector leaves none, and two runs that begin together agree on one."""

        def texts() -> Iterator[str]:
            yield "hello"
            assert not (tmp_path / ".manifest").exists()
            # another run begins and ends in the meantime
            encode_to_shards(embedder, LINES, tmp_path, rank=1, world_size=2, shard_size=10)
            yield "world"

        with pytest.raises(ValueError, match="begun with shard_size 10, not 20"):
            encode_to_shards(embedder, texts(), tmp_path, rank=0, world_size=2, shard_size=20)
        assert json.loads((tmp_path / ".manifest").read_text(encoding="utf-8"))["shard_size"] == 10

    @pytest.mark.needs("locks")
    def test_finished_shards_are_skipped(self, embedder: SentenceEmbedder, tmp_path: Path) -> None:
        encode_to_shards(embedder, LINES, tmp_path, shard_size=10)
        before = contents(tmp_path)
        times = {path.name: path.stat().st_mtime_ns for path in tmp_path.glob("shard*")}
        # as if the run had been killed after the vectors, before their record
        as_if_stopped(tmp_path, missing=[3])
        (tmp_path / ".shard-000003.npy.0.tmp").write_bytes(b"half")
        report = encode_to_shards(embedder, LINES, tmp_path, shard_size=10)
        assert (report.shards, report.skipped, report.lines) == (1, 4, 10)
        assert contents(tmp_path) == before
        changed = {
            path.name
            for path in tmp_path.glob("shard*")
            if path.stat().st_mtime_ns != times[path.name]
        }
        assert changed == {"shard-000003.npy"}

    def test_several_processes_write_the_same_files(
        self, embedder: SentenceEmbedder, tmp_path: Path
    ) -> None:
        encode_to_shards(embedder, LINES, tmp_path / "one", shard_size=10)
        folder = tmp_path / "three"
        folder.mkdir()
        for rank in (2, 0, 1):
            with pytest.raises(ValueError, match="is not complete|is not a folder of vectors"):
                open_vectors(folder)
            encode_to_shards(embedder, LINES, folder, shard_size=10, rank=rank, world_size=3)
        assert contents(folder) == contents(tmp_path / "one")

    def test_no_texts(self, embedder: SentenceEmbedder, tmp_path: Path) -> None:
        assert encode_to_shards(embedder, [], tmp_path).shards == 0
        assert len(open_vectors(tmp_path)) == 0

    def test_another_input_model_or_setting_raises_an_error(
        self, embedder: SentenceEmbedder, tiny_model: Path, tmp_path: Path
    ) -> None:
        encode_to_shards(embedder, LINES, tmp_path, shard_size=10)
        before = contents(tmp_path)
        changed = [*LINES[:25], "another line", *LINES[26:]]
        with pytest.raises(
            ValueError, match=r"shard-000002.npy was made from other texts: pass update=True"
        ):
            encode_to_shards(embedder, changed, tmp_path, shard_size=10)
        with pytest.raises(ValueError, match="holds more than the 3 shards of this input"):
            encode_to_shards(embedder, LINES[:30], tmp_path, shard_size=10)
        with pytest.raises(
            ValueError,
            match="prompt '', not 'query: '.* same settings",
        ):
            encode_to_shards(embedder, LINES, tmp_path, shard_size=10, prompt="query: ")
        other = SentenceEmbedder.from_pretrained(tiny_model, precision=None, pooling="max")
        with pytest.raises(ValueError, match=r"was begun with pooling \['mean'\], not \['max'\]"):
            encode_to_shards(other, LINES, tmp_path, shard_size=10)
        retrained = SentenceEmbedder.from_pretrained(tiny_model, precision=None)
        retrained.model.encoder.layer[1].output.dense.bias.data[3] += 1e-3
        with pytest.raises(ValueError, match="was begun with other weights or another tokenizer"):
            encode_to_shards(retrained, LINES, tmp_path, shard_size=10)
        assert contents(tmp_path) == before

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (
                {"file_format": "csv"},
                "file_format should be one of npy, safetensors, jsonl, parquet, arrow, not 'csv'",
            ),
            ({"shard_size": 0}, "shard_size should be a whole number from 1 to [0-9]+, not 0"),
            ({"processes": 0}, "processes should be a whole number of 1 or more, not 0"),
            (
                {"rank": 2, "world_size": 2},
                r"rank should lie between 0 and world_size - 1 \(1\), not 2",
            ),
            ({"overflow": "drop"}, "overflow should be"),
        ],
    )
    def test_invalid_options_raise_an_error(
        self, embedder: SentenceEmbedder, tmp_path: Path, options: dict[str, Any], message: str
    ) -> None:
        with pytest.raises(ValueError, match=message):
            encode_to_shards(embedder, LINES, tmp_path / "new", **options)
        assert not (tmp_path / "new").exists()

    def test_at_most_two_shards_of_texts_are_in_memory(
        self, embedder: SentenceEmbedder, tmp_path: Path
    ) -> None:
        live = 0
        peak = 0

        class Line(str):
            def __del__(self) -> None:
                nonlocal live
                live -= 1

        def lines() -> Iterator[str]:
            nonlocal live, peak
            for _ in range(1000):
                live += 1
                peak = max(peak, live)
                yield Line("hello world")

        encode_to_shards(embedder, lines(), tmp_path, shard_size=50)
        # one shard, the next one while it is read, and the line that the generator holds
        assert peak <= 101


SHARDS = 12  # each has 200 lines


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("corpus") / "lines.txt"
    generator = random.Random(0)
    lines = [
        " ".join(generator.choices(WORDS, k=generator.randrange(1, 40)))
        for _ in range(SHARDS * 200)
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


class TestStoppedRuns:
    """Runs in processes of their own, which are killed or interrupted."""

    def command(self, tiny_model: Path, corpus: Path, out: Path) -> list[str]:
        paths = ["--model", str(tiny_model), "--file", str(corpus), "--output", str(out)]
        options = ["--shard-size", "200", "--precision", "exact"]
        return [sys.executable, "-m", "minibert", "embed", *paths, *options]

    @pytest.mark.needs("locks")
    @pytest.mark.parametrize("kills", [2, pytest.param(10, marks=pytest.mark.slow)])
    @pytest.mark.slow
    def test_kill_9_at_random_moments(
        self, tiny_model: Path, corpus: Path, tmp_path: Path, kills: int
    ) -> None:
        command = self.command(tiny_model, corpus, tmp_path / "whole")
        assert subprocess.run(command, capture_output=True).returncode == 0
        out = tmp_path / "killed"
        generator = random.Random(kills)
        for kill in range(kills):
            done = {path: path.stat().st_mtime_ns for path in out.glob(".shard-??????")}
            process = subprocess.Popen(
                self.command(tiny_model, corpus, out), stdout=subprocess.DEVNULL
            )
            # wait for the next shard and a short time, because a kill at startup tests nothing
            while process.poll() is None and len(list(out.glob(".shard-??????"))) == len(done):
                time.sleep(0.002)
            time.sleep(generator.uniform(0, 0.05))
            process.send_signal(signal.SIGKILL)
            process.wait()
            assert all(path.stat().st_mtime_ns == written for path, written in done.items())
            if len(done) >= SHARDS - 2:  # almost finished, so the next run starts from scratch
                out = tmp_path / f"killed-{kill}"
        finished = subprocess.run(
            self.command(tiny_model, corpus, out), capture_output=True, encoding="utf-8"
        )
        assert finished.returncode == 0, finished.stderr
        assert contents(out) == contents(tmp_path / "whole")

    @pytest.mark.parametrize(
        ("signal_number", "processes"),
        [(signal.SIGINT, 1), pytest.param(signal.SIGTERM, 2, marks=pytest.mark.slow)],
    )
    @pytest.mark.needs("fork")
    @pytest.mark.usefixtures("one_thread")
    def test_an_interrupted_run_can_be_resumed(
        self,
        tiny_model: Path,
        corpus: Path,
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
        signal_number: signal.Signals,
        processes: int,
    ) -> None:
        """An interrupted run finishes its current shards, and the same command resumes it."""
        out, log = tmp_path / "out", tmp_path / "log.txt"
        command = [*self.command(tiny_model, corpus, out)[3:], "--processes"]
        process = start([*command, str(processes)], log)
        while process.is_alive() and not list(out.glob(".shard-??????")):
            time.sleep(0.002)
        assert process.pid is not None
        os.kill(process.pid, signal_number)
        process.join()
        message = log.read_text(encoding="utf-8")
        done = len(list(out.glob(".shard-??????")))
        # a fast computer may finish the run before the signal arrives
        if process.exitcode:
            assert process.exitcode == 128 + signal_number and 0 < done < SHARDS, message
            assert message.endswith(
                f"stopped. Complete shards in {out}: {done}. Run the same command to resume.\n"
            )
            assert {path.suffix for path in out.iterdir()} == {"", ".npy"}
        assert main([*command, "1"]) == 0
        assert " skipped" in capsys.readouterr().out
        embedder = SentenceEmbedder.from_pretrained(tiny_model, precision=None)
        expected = embedder.encode(corpus.read_text(encoding="utf-8").splitlines())
        np.testing.assert_allclose(open_vectors(out)[:], expected, atol=1e-5)

    @pytest.mark.needs("named pipes")
    @pytest.mark.usefixtures("one_thread")
    def test_an_interrupted_run_writes_no_partial_file(
        self, tiny_model: Path, tmp_path: Path
    ) -> None:
        pipe = tmp_path / "pipe"
        out = tmp_path / "out.npy"
        os.mkfifo(pipe)
        command = ["embed", "--model", str(tiny_model), "--file", str(pipe), "--output", str(out)]
        process = start(command, tmp_path / "log.txt")
        with pipe.open("w", encoding="utf-8") as file:  # waits until the command reads
            file.write("hello")
            file.flush()
            time.sleep(0.2)
            assert process.pid is not None
            os.kill(process.pid, signal.SIGINT)
            process.join()
        assert process.exitcode == 130 and not out.exists()
        message = (tmp_path / "log.txt").read_text(encoding="utf-8")
        assert f"stopped: nothing was written to {out}" in message

    def test_disk_full(
        self,
        tiny_model: Path,
        corpus: Path,
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        out = tmp_path / "out"
        lines = corpus.read_text(encoding="utf-8").splitlines()
        embedder = SentenceEmbedder.from_pretrained(tiny_model, precision=None)
        encode_to_shards(embedder, lines[:400], out, shard_size=200)
        as_if_stopped(out)
        before = contents(out)
        with full_disk(20_000):  # a shard has 25,728 bytes
            assert main(self.command(tiny_model, corpus, out)[3:]) == 1
        assert (
            "shard-000002.npy could not be written (File too large). "
            "The shards before it are complete"
        ) in capsys.readouterr().err
        assert contents(out) == before
        report = encode_to_shards(embedder, lines, out, shard_size=200)  # without the limit
        assert (report.skipped, report.shards) == (2, SHARDS - 2)

    @pytest.mark.slow
    def test_torchrun(self, tiny_model: Path, corpus: Path, tmp_path: Path) -> None:
        embedder = SentenceEmbedder.from_pretrained(tiny_model, precision=None)
        encode_to_shards(
            embedder,
            corpus.read_text(encoding="utf-8").splitlines(),
            tmp_path / "one",
            shard_size=200,
        )
        launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
        both = subprocess.run(
            [*launcher, *self.command(tiny_model, corpus, tmp_path / "two")[1:]],
            capture_output=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        assert both.returncode == 0, both.stderr
        assert contents(tmp_path / "two").keys() == contents(tmp_path / "one").keys()
        for path in (tmp_path / "one").glob("*.npy"):
            np.testing.assert_allclose(
                np.load(tmp_path / "two" / path.name), np.load(path), atol=1e-5
            )


class TestCommand:
    def run(self, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
        code = main(list(arguments))
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    def test_vectors_are_printed_as_numbers_or_json(
        self, capsys: pytest.CaptureFixture[str], tiny_model: Path, embedder: SentenceEmbedder
    ) -> None:
        expected = embedder.encode(["hello", "trees grow"])
        options = ("--model", str(tiny_model), "--precision", "exact")
        code, out, _ = self.run(capsys, "embed", "hello", "trees grow", *options)
        assert code == 0
        assert np.array_equal(
            np.array([line.split() for line in out.splitlines()], dtype=np.float32), expected
        )
        _, out, _ = self.run(capsys, "embed", "hello", "trees grow", "--jsonl", *options)
        rows = [json.loads(line) for line in out.splitlines()]
        assert [row["text"] for row in rows] == ["hello", "trees grow"]
        assert np.array_equal(np.array([row["vector"] for row in rows], dtype=np.float32), expected)

    def test_options_reach_the_embedder(
        self, capsys: pytest.CaptureFixture[str], tiny_model: Path, tmp_path: Path
    ) -> None:
        options = ["--pooling", "cls,max", "--layers", "1,-1", "--layer-weights", "0.5,2"]
        options += ["--normalize", "--max-length", "7", "--prompt", "query: "]
        options += ["--batch-tokens", "9", "--overflow", "mean"]
        options += ["--model", str(tiny_model), "--precision", "exact"]
        options += ["--output", str(tmp_path / "out.npy")]
        text = "how tall do trees grow in korea"
        code, out, _ = self.run(capsys, "embed", text, *options)
        assert code == 0 and "1 text, 19 tokens written to" in out
        assert "1 text has more than 7 tokens and was averaged" in out
        settings: dict[str, Any] = {
            "pooling": ["cls", "max"],
            "layers": [1, -1],
            "layer_weights": [0.5, 2.0],
        }
        embedder = SentenceEmbedder.from_pretrained(
            tiny_model, precision=None, normalize=True, max_length=7, **settings
        )
        expected = embedder.encode([text], prompt="query: ", overflow="mean")
        np.testing.assert_allclose(np.load(tmp_path / "out.npy"), expected, atol=1e-6)

    @pytest.mark.parametrize(
        ("data", "arguments", "message"),
        [
            (b"hello\nw\xffrld\n", ["--file", "-"], "stdin, line 2: the line is not UTF-8"),
            (b"", ["--file", "no-such-file.txt"], "there is no file no-such-file.txt"),
            (b"", ["hello", "--file", "-"], "give texts or --file, not both"),
            (b"", ["hello", "--output", "a.txt"], "'a.txt' should end in .npy"),
            (b"", ["hello", "--layers", "first"], "layers should be one of embeddings"),
        ],
    )
    def test_errors_are_one_line(
        self,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
        tiny_model: Path,
        data: bytes,
        arguments: list[str],
        message: str,
    ) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data), encoding="utf-8"))
        options = ("--model", str(tiny_model), "--precision", "exact")
        code, _, err = self.run(capsys, "embed", *arguments, *options)
        assert code == (2 if "not both" in message or "should" in message else 1)
        assert err.startswith("minibert embed: ") and message in err and err.count("\n") == 1

    def test_the_shards_before_a_bad_line_are_complete(
        self, capsys: pytest.CaptureFixture[str], tiny_model: Path, tmp_path: Path
    ) -> None:
        path = tmp_path / "lines.txt"
        out = tmp_path / "out"
        path.write_bytes(b"hello\n" * 25 + b"\xe9t\xe9\n" + b"world\n" * 5)
        paths = ["--model", str(tiny_model), "--file", str(path), "--output", str(out)]
        code, _, err = self.run(
            capsys, "embed", *paths, "--shard-size", "10", "--precision", "exact"
        )
        assert code == 1 and "lines.txt, line 26: the line is not UTF-8" in err
        names = {
            ".manifest",
            *(f"shard-00000{number}.npy" for number in (0, 1)),
            *(f".shard-00000{number}" for number in (0, 1)),
        }
        assert contents(out).keys() == names

    def test_processes_share_the_shards(
        self, capsys: pytest.CaptureFixture[str], tiny_model: Path, tmp_path: Path
    ) -> None:
        (tmp_path / "lines.txt").write_text("\n".join(LINES), encoding="utf-8")
        command = ["embed", "--model", str(tiny_model), "--precision", "exact"]
        command += ["--file", str(tmp_path / "lines.txt"), "--shard-size", "8", "--output"]
        one = str(tmp_path / "one")
        two = str(tmp_path / "two")
        code, expected, _ = self.run(capsys, *command, one, "--json")
        assert code == 0
        code, out, err = self.run(capsys, *command, two, "--json", "--processes=2")
        assert (code, err) == (0, "")
        assert json.loads(out) == json.loads(expected) | {"output": two}
        assert contents(tmp_path / "two").keys() == contents(tmp_path / "one").keys()
        for path in (tmp_path / "one").glob("*.npy"):
            np.testing.assert_allclose(
                np.load(tmp_path / "two" / path.name), np.load(path), atol=1e-5
            )
        # an error in one process reads like an error without processes
        code, _, err = self.run(capsys, *command, two, "--pooling=cls", "--processes=2")
        assert code == 1
        assert err.startswith("minibert embed: ") and "begun with" in err
        assert err.count("\n") == 1

    def test_a_process_that_ends_is_reported(
        self,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
        tiny_model: Path,
        corpus: Path,
        tmp_path: Path,
    ) -> None:
        class Mortal(str):
            """A string that ends the process in which it is unpickled."""

            def __reduce__(self) -> tuple[Any, ...]:
                return os._exit, (7,)

        add = argparse.ArgumentParser.parse_known_args

        def parse(*arguments: Any) -> tuple[argparse.Namespace, list[str]]:
            options, unknown = add(*arguments)
            if hasattr(options, "processes"):
                options.format = Mortal(options.format)
            return options, unknown

        monkeypatch.setattr(argparse.ArgumentParser, "parse_known_args", parse)
        paths = ["--model", str(tiny_model), "--file", str(corpus), "--output", str(tmp_path)]
        code, _, err = self.run(capsys, "embed", *paths, "--processes=2", "--format=npy")
        assert code == 1 and "One of the 2 processes has ended" in err
        assert err.endswith("Run the same command to resume.\n") and err.count("\n") == 1

    @pytest.mark.parametrize(
        ("threads", "name", "shard_size", "processes"),
        [
            (15, "lines.txt", 200, 1),
            (32, "lines.txt", 200, 4),
            (256, "lines.txt", 200, 12),
            (32, "rows.parquet", 1, 4),
        ],
    )
    def test_default_number_of_processes(
        self,
        monkeypatch: pytest.MonkeyPatch,
        corpus: Path,
        threads: int,
        name: str,
        shard_size: int,
        processes: int,
    ) -> None:
        """There is one process per eight threads, but no more than shards of a text file."""
        read: list[bytes] = []

        def lines(file: BinaryIO) -> Iterator[bytes]:
            for line in file:
                read.append(line)
                yield line

        @contextmanager
        def opened(path: Path, mode: str) -> Iterator[Iterator[bytes]]:
            with open(path, mode) as file:
                yield lines(file)

        monkeypatch.setattr(Path, "open", opened)
        monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
        options = argparse.Namespace(
            backend="torch", texts=[], file=[str(corpus.with_name(name))], shard_size=shard_size
        )
        assert embed.useful_processes(options) == processes
        assert len(read) <= threads // 8 * shard_size  # the corpus is not read to its end

    def test_processes_need_a_positive_number_and_a_folder(
        self, capsys: pytest.CaptureFixture[str], corpus: Path
    ) -> None:
        command = ["embed", "--file", str(corpus), "--processes"]
        code, _, err = self.run(capsys, *command, "2", "--output", "a.npy")
        assert code == 2 and "--processes is for a folder" in err
        with pytest.raises(SystemExit) as stop:
            main([*command, "0", "--output", "never"])
        assert stop.value.code == 2

    def test_torchrun_needs_a_file_and_a_folder(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tiny_model: Path
    ) -> None:
        monkeypatch.setenv("WORLD_SIZE", "2")
        code, _, err = self.run(capsys, "embed", "hello", "--model", str(tiny_model))
        assert code == 2 and "under torchrun give --file and --output DIR/" in err

    def test_search(
        self, capsys: pytest.CaptureFixture[str], tiny_model: Path, tmp_path: Path
    ) -> None:
        path = tmp_path / "lines.txt"
        path.write_text("\n".join(LINES), encoding="utf-8")
        model = ["--model", str(tiny_model), "--precision", "exact"]
        vectors = str(tmp_path / "v.npy")
        arguments = ["search", LINES[40], "--corpus", str(path), "--top-k", "3", *model]
        code, out, _ = self.run(capsys, *arguments)
        assert code == 0
        assert out.splitlines()[0].split(maxsplit=2) == ["1.0000", "41", LINES[40]]
        self.run(capsys, "embed", "--file", str(path), "--output", vectors, *model)
        _, again, _ = self.run(capsys, *arguments, "--vectors", vectors, "--jsonl")
        assert [result["line"] for result in json.loads(again)["results"]] == [
            int(line.split()[1]) for line in out.splitlines()
        ]
        path.write_text("one line", encoding="utf-8")
        code, _, err = self.run(capsys, *arguments, "--vectors", vectors)
        assert code == 1 and "has 47 vectors, but" in err


@pytest.mark.parametrize(
    "rows",
    [
        3,
        -1,
        np.int64(4),
        [1, 6, -2],
        np.array([5, 0]),
        np.array([5, 0], np.uint64),
        slice(2, 5),
        slice(-2, None),
    ],
)
def test_rows_of_a_folder_are_chosen_as_in_an_array(rows: Any, tmp_path: Path) -> None:
    vectors = np.arange(21, dtype=np.float32).reshape(7, 3)
    for number, part in enumerate((vectors[:4], vectors[4:])):
        np.save(tmp_path / f"{number}.npy", part)
    sharded = ShardedVectors(
        [Location(tmp_path / "0.npy"), Location(tmp_path / "1.npy")], [4, 3], 3
    )
    np.testing.assert_array_equal(sharded[rows], vectors[rows])
    assert sharded[[]].shape == (0, 3)
    with pytest.raises(IndexError, match="there is no row 7: the folder has 7 vectors"):
        sharded[7]
    for other in ("a", (0, 1), (0, slice(None)), [[0]]):
        with pytest.raises(IndexError, match="chosen by"):
            sharded[other]  # type: ignore[index]


@pytest.mark.parametrize("cause", [PermissionError(13, "denied"), OSError(28, "no space")])
def test_the_advice_of_a_shard_that_cannot_be_written_fits_any_cause(
    cause: OSError, embedder: SentenceEmbedder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise cause

    monkeypatch.setattr(SHARD_FORMATS["npy"], "write_vectors", fail)
    with pytest.raises(OSError, match=r"(denied|no space).* are complete") as raised:
        encode_to_shards(embedder, LINES, tmp_path)
    assert "room" not in str(raised.value)


@pytest.mark.parametrize("update", [False, True])
@pytest.mark.parametrize("shape", [{"normalize_embeddings": True}, {"truncate_dim": 8}])
def test_a_folder_has_vectors_of_one_shape(
    shape: dict[str, Any], update: bool, tmp_path: Path
) -> None:
    """Vectors that were kept would else have another length or dimension than was asked for."""
    embedder = SentenceEmbedder.from_pretrained("minibert-tiny")
    texts = ["trees grow", "the sea"]
    encode_to_shards(embedder, texts, tmp_path / "whole")
    encode_to_shards(embedder, texts, tmp_path / "shaped", **shape)
    vectors = open_vectors(tmp_path / "shaped")
    np.testing.assert_allclose(vectors[:], embedder.encode(texts, **shape), atol=1e-6)
    for ending in SHARD_FORMATS:
        encode_to_file(embedder, texts, tmp_path / f"file.{ending}", **shape)
        np.testing.assert_allclose(open_vectors(tmp_path / f"file.{ending}"), vectors[:], atol=1e-6)
    with pytest.raises(ValueError, match=f"begun with {min(shape)} (None|False), not"):
        encode_to_shards(embedder, texts, tmp_path / "whole", update=update, **shape)
    with pytest.raises(ValueError, match=f"begun with {min(shape)} .*, not (None|False)"):
        encode_to_shards(embedder, texts, tmp_path / "shaped", update=update)
