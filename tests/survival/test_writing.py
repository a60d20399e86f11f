"""Files that are written: atomically, with their permissions, and with nothing left over of a killed writer."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from conftest import full_disk, tiny_config
from tiny_folder import tiny_folder

from minibert import BertForSequenceClassification, BertTokenizer, SentenceEmbedder
from minibert.cli import main
from minibert.corpus.shards import encode_to_shards
from minibert.files import lock, only_run_in, read_json, replacing, write_json
from minibert.training.finetuning import SequenceTask
from minibert.training.loop import Trainer
from minibert.training.options import TrainingOptions

WRITER = """
import pathlib, sys, time
from minibert.files import replacing
with replacing(sys.argv[1]) as temporary:
    temporary.write_text("half", encoding="utf-8")
    pathlib.Path(sys.argv[2]).touch()
    time.sleep(float(sys.argv[3]))
"""


def writer(path: Path, seconds: float) -> subprocess.Popen[bytes]:
    """A process that has begun to write `path` when this returns, and ends well after so many seconds."""
    begun = path.with_name(f"begun-{time.monotonic_ns()}")
    process = subprocess.Popen([sys.executable, "-c", WRITER, str(path), str(begun), str(seconds)])
    while not begun.exists():
        assert process.poll() is None
        time.sleep(0.01)
    begun.unlink()
    return process


def kill(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGKILL)
    process.wait()


class TestReplacing:
    @pytest.mark.needs("locks")
    def test_what_a_killed_writer_left_is_removed_by_the_next(self, tmp_path: Path) -> None:
        for _ in range(3):
            kill(writer(tmp_path / "out[1].json", 60))
            assert len(os.listdir(tmp_path)) == 1
        write_json(tmp_path / "out[1].json", {"all": 1})
        assert os.listdir(tmp_path) == ["out[1].json"]

    @pytest.mark.needs("locks")
    def test_what_several_killed_writers_left_is_removed_by_the_next(self, tmp_path: Path) -> None:
        """Each had a temporary file of its own, while the ones before it lived."""
        writers = [writer(tmp_path / "out[1].json", 60) for _ in range(3)]
        assert len(os.listdir(tmp_path)) == 3
        for process in writers:
            kill(process)
        (tmp_path / ".out[1].json.0.tmp").unlink()
        write_json(tmp_path / "out[1].json", {"all": 1})
        assert os.listdir(tmp_path) == ["out[1].json"]

    def test_what_a_living_writer_writes_is_left_alone(self, tmp_path: Path) -> None:
        slow = writer(tmp_path / "out.json", 2)
        write_json(tmp_path / "out.json", {"all": 1})
        assert read_json(tmp_path / "out.json") == {"all": 1}
        assert slow.wait() == 0
        assert (tmp_path / "out.json").read_text(encoding="utf-8") == "half" and os.listdir(
            tmp_path
        ) == ["out.json"]

    def test_the_next_writer_may_take_the_name_as_soon_as_it_is_free(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """As when two processes of a run write the same manifest; once the first removed the file of the second."""
        rename = os.replace

        def rename_and_take(source: Path, target: Path) -> None:
            rename(source, target)
            source.write_text("of the next writer", encoding="utf-8")

        monkeypatch.setattr(os, "replace", rename_and_take)
        with replacing(tmp_path / "out.json") as temporary:
            temporary.write_text("{}", encoding="utf-8")
        assert (
            read_json(tmp_path / "out.json") == {}
            and temporary.read_text(encoding="utf-8") == "of the next writer"
        )

    @pytest.mark.parametrize("mode", [0o600, 0o640, 0o664])
    def test_a_file_keeps_its_permissions(self, tmp_path: Path, mode: int) -> None:
        path = tmp_path / "secret.json"
        path.write_text("{}", encoding="utf-8")
        path.chmod(mode)
        with replacing(path) as temporary:
            assert temporary.stat().st_mode & 0o777 == 0o600  # nobody reads it before
            temporary.write_text("{}", encoding="utf-8")
        assert path.stat().st_mode & 0o777 == mode

    @pytest.mark.parametrize("umask", [0o022, 0o077, 0o002])
    def test_whatever_we_write_has_the_permissions_that_the_umask_says(
        self, tmp_path: Path, umask: int
    ) -> None:
        before = os.umask(umask)
        try:
            folder = tiny_folder(tmp_path / "model")
            BertTokenizer.from_pretrained(folder).save_pretrained(tmp_path / "tokenizer")
            embedder = SentenceEmbedder.from_pretrained(folder, precision=None)
            embedder.save_pretrained(tmp_path / "embedder")
            encode_to_shards(embedder, ["hello", "world"], tmp_path / "corpus")
            rows = [{"input_ids": np.arange(5, 12), "labels": 0}]
            model = BertForSequenceClassification(tiny_config())
            options = TrainingOptions(steps=2, save_every=1)
            Trainer(model, lambda _: rows, SequenceTask().losses, tmp_path / "run", options).run()
            assert (
                main(
                    [
                        "view",
                        "hello",
                        "--model",
                        str(folder),
                        "--output",
                        str(tmp_path / "page.html"),
                    ]
                )
                == 0
            )
        finally:
            os.umask(before)
        written = [path for path in tmp_path.rglob("*") if path.is_file()]
        assert len(written) > 15
        assert {path.name: path.stat().st_mode & 0o777 for path in written} == dict.fromkeys(
            (path.name for path in written), 0o666 & ~umask
        )

    def test_the_umask_is_left_alone(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """It belongs to the whole process: a thread that made a file meanwhile would make it for everybody."""
        monkeypatch.setattr(os, "umask", lambda _: pytest.fail("the umask was touched"))
        write_json(tmp_path / "a.json", {})
        write_json(tmp_path / "a.json", {})

    @pytest.mark.needs("symbolic links")
    def test_a_symbolic_link_stays(self, tmp_path: Path) -> None:
        (tmp_path / "elsewhere").mkdir()
        (tmp_path / "link.json").symlink_to("elsewhere/real.json")
        for content in ({"first": 1}, {"second": 2}):
            write_json(tmp_path / "link.json", content)
            assert (tmp_path / "link.json").is_symlink()
            assert read_json(tmp_path / "elsewhere" / "real.json") == content

    def test_a_full_disk_is_an_error_that_names_the_file(self, tmp_path: Path) -> None:
        (tmp_path / "out.json").write_text("{}", encoding="utf-8")
        message = r"out\.json could not be written \(File too large\)\.$"
        with full_disk(1000), pytest.raises(OSError, match=message):
            write_json(tmp_path / "out.json", list(range(1000)))
        assert read_json(tmp_path / "out.json") == {} and os.listdir(tmp_path) == ["out.json"]

    def test_an_error_of_what_is_read_keeps_its_name(self, tmp_path: Path) -> None:
        with pytest.raises(FileNotFoundError, match="no-such-input"), replacing(tmp_path / "out"):
            (tmp_path / "no-such-input").read_text(encoding="utf-8")


@pytest.mark.needs("locks")
class TestOnlyRun:
    def test_a_second_run_is_told_of_the_first(self, tmp_path: Path) -> None:
        with only_run_in(tmp_path), only_run_in(tmp_path, 1):
            with pytest.raises(
                OSError, match=f"is in use by process {os.getpid()} on .*: wait for it to end, or"
            ):
                with only_run_in(tmp_path):
                    raise AssertionError
        assert os.listdir(tmp_path) == []

    def test_a_run_that_began_at_the_same_moment_is_named(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        file = tmp_path / ".lock-0"
        file.write_text("process 1 on the machine that was killed", encoding="utf-8")
        with file.open("rb+") as first:
            assert lock(first.fileno())  # and has not said yet who it is
            # while the second one waits, the first one does
            monkeypatch.setattr(
                time,
                "sleep",
                lambda seconds: file.write_text(
                    "process 2 on this machine, no other", encoding="utf-8"
                ),
            )
            with pytest.raises(OSError, match="in use by process 2 on"), only_run_in(tmp_path):
                raise AssertionError

    def test_the_lock_dies_with_its_process(self, tmp_path: Path) -> None:
        code = (
            "import sys, time\nfrom pathlib import Path\nfrom minibert.files import only_run_in\n"
        )
        code += "with only_run_in(Path(sys.argv[1])):\n    print('locked', flush=True)\n    time.sleep(60)\n"
        holder = subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE
        )
        assert holder.stdout is not None and holder.stdout.readline() == b"locked\n"
        with (
            pytest.raises(OSError, match=f"in use by process {holder.pid} "),
            only_run_in(tmp_path),
        ):
            raise AssertionError
        kill(holder)
        holder.stdout.close()
        with only_run_in(tmp_path):
            pass
        assert os.listdir(tmp_path) == []
