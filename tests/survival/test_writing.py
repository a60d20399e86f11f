"""Files are written atomically, keep their permissions, and leave no temporary files."""

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
from minibert.tasks.sequence import SequenceTask
from minibert.training.options import TrainingOptions
from minibert.training.run import Run
from minibert.util.files import lock, only_run_in, read_json, replacing, write_json
from minibert.vectors.shards import encode_to_shards

WRITER = """
import pathlib, sys, time
from minibert.util.files import replacing
with replacing(sys.argv[1]) as temporary:
    temporary.write_text("half", encoding="utf-8")
    pathlib.Path(sys.argv[2]).touch()
    time.sleep(float(sys.argv[3]))
"""


def start_writer(path: Path, seconds: float) -> subprocess.Popen[bytes]:
    """Start a process that takes `seconds` to write `path`, and return when it has begun."""
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
    def test_the_next_writer_removes_the_file_of_a_killed_one(self, tmp_path: Path) -> None:
        for _ in range(3):
            kill(start_writer(tmp_path / "out[1].json", 60))
            assert len(os.listdir(tmp_path)) == 1
        write_json(tmp_path / "out[1].json", {"all": 1})
        assert os.listdir(tmp_path) == ["out[1].json"]

    @pytest.mark.needs("locks")
    def test_the_next_writer_removes_the_files_of_several_killed_ones(self, tmp_path: Path) -> None:
        """Writers that run at the same time have different temporary files."""
        writers = [start_writer(tmp_path / "out[1].json", 60) for _ in range(3)]
        assert len(os.listdir(tmp_path)) == 3
        for process in writers:
            kill(process)
        (tmp_path / ".out[1].json.0.tmp").unlink()
        write_json(tmp_path / "out[1].json", {"all": 1})
        assert os.listdir(tmp_path) == ["out[1].json"]

    def test_the_file_of_a_running_writer_is_not_removed(self, tmp_path: Path) -> None:
        slow = start_writer(tmp_path / "out.json", 2)
        write_json(tmp_path / "out.json", {"all": 1})
        assert read_json(tmp_path / "out.json") == {"all": 1}
        assert slow.wait() == 0
        assert (tmp_path / "out.json").read_text(encoding="utf-8") == "half"
        assert os.listdir(tmp_path) == ["out.json"]

    def test_the_next_writer_can_use_the_temporary_name_after_the_rename(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A writer must not remove the file of a second one that writes the same manifest."""
        rename = os.replace

        def rename_and_reuse(source: Path, target: Path) -> None:
            rename(source, target)
            source.write_text("of the next writer", encoding="utf-8")

        monkeypatch.setattr(os, "replace", rename_and_reuse)
        with replacing(tmp_path / "out.json") as temporary:
            temporary.write_text("{}", encoding="utf-8")
        assert read_json(tmp_path / "out.json") == {}
        assert temporary.read_text(encoding="utf-8") == "of the next writer"

    @pytest.mark.parametrize("mode", [0o600, 0o640, 0o664])
    def test_a_file_keeps_its_permissions(self, tmp_path: Path, mode: int) -> None:
        path = tmp_path / "secret.json"
        path.write_text("{}", encoding="utf-8")
        path.chmod(mode)
        with replacing(path) as temporary:
            assert temporary.stat().st_mode & 0o777 == 0o600  # private until it is complete
            temporary.write_text("{}", encoding="utf-8")
        assert path.stat().st_mode & 0o777 == mode

    @pytest.mark.parametrize("umask", [0o022, 0o077, 0o002])
    def test_all_new_files_have_the_permissions_of_the_umask(
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
            Run(model, lambda _: rows, SequenceTask().loss, tmp_path / "run", options).train()
            output = str(tmp_path / "page.html")
            assert main(["view", "hello", "--model", str(folder), "--output", output]) == 0
        finally:
            os.umask(before)
        written = [path for path in tmp_path.rglob("*") if path.is_file()]
        assert len(written) > 15
        assert {path.name: path.stat().st_mode & 0o777 for path in written} == dict.fromkeys(
            (path.name for path in written), 0o666 & ~umask
        )

    def test_the_umask_is_not_changed(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The umask is global, so a change would affect files of other threads."""
        monkeypatch.setattr(os, "umask", lambda _: pytest.fail("the umask was changed"))
        write_json(tmp_path / "a.json", {})
        write_json(tmp_path / "a.json", {})

    @pytest.mark.needs("symbolic links")
    def test_a_symbolic_link_is_kept(self, tmp_path: Path) -> None:
        (tmp_path / "elsewhere").mkdir()
        (tmp_path / "link.json").symlink_to("elsewhere/real.json")
        for content in ({"first": 1}, {"second": 2}):
            write_json(tmp_path / "link.json", content)
            assert (tmp_path / "link.json").is_symlink()
            assert read_json(tmp_path / "elsewhere" / "real.json") == content

    def test_the_error_of_a_full_disk_names_the_file(self, tmp_path: Path) -> None:
        (tmp_path / "out.json").write_text("{}", encoding="utf-8")
        message = r"out\.json could not be written \(File too large\)\.$"
        with full_disk(1000), pytest.raises(OSError, match=message):
            write_json(tmp_path / "out.json", list(range(1000)))
        assert read_json(tmp_path / "out.json") == {} and os.listdir(tmp_path) == ["out.json"]

    def test_an_error_of_another_file_is_not_changed(self, tmp_path: Path) -> None:
        with pytest.raises(FileNotFoundError, match="no-such-input"), replacing(tmp_path / "out"):
            (tmp_path / "no-such-input").read_text(encoding="utf-8")


@pytest.mark.needs("locks")
class TestOnlyRun:
    def test_the_error_of_a_second_run_names_the_first(self, tmp_path: Path) -> None:
        with only_run_in(tmp_path), only_run_in(tmp_path, 1):
            with pytest.raises(
                OSError, match=f"is in use by process {os.getpid()} on .*: wait for it to end, or"
            ):
                with only_run_in(tmp_path):
                    raise AssertionError
        assert os.listdir(tmp_path) == []

    def test_the_error_names_a_run_that_started_at_the_same_moment(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        file = tmp_path / ".lock-0"
        file.write_text("process 1 on the machine that was killed", encoding="utf-8")
        with file.open("rb+") as first:
            assert lock(first.fileno())  # locked, but without the name of the new process
            # the first process writes its name while the second one waits
            monkeypatch.setattr(
                time,
                "sleep",
                lambda seconds: file.write_text(
                    "process 2 on this machine, no other", encoding="utf-8"
                ),
            )
            with pytest.raises(OSError, match="in use by process 2 on"), only_run_in(tmp_path):
                raise AssertionError

    def test_the_lock_ends_with_its_process(self, tmp_path: Path) -> None:
        code = (
            "import sys, time\n"
            "from pathlib import Path\n"
            "from minibert.util.files import only_run_in\n"
            "with only_run_in(Path(sys.argv[1])):\n"
            "    print('locked', flush=True)\n"
            "    time.sleep(60)\n"
        )
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
