"""Processes are spawned, so they run the script of the first one again."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
from minibert import SentenceEmbedder, encode_to_shards
embedder = SentenceEmbedder.from_pretrained("minibert-tiny")
encode_to_shards(embedder, ["a", "b"], "out", processes=2, shard_size=1)
"""
GUARD = 'if __name__ == "__main__":'


def run(folder: Path, script: str | None) -> subprocess.CompletedProcess[str]:
    arguments = [sys.executable, "-"]
    if script is not None:
        (folder / "script.py").write_text(script, encoding="utf-8")
        arguments = [sys.executable, "script.py"]
    return subprocess.run(
        arguments,
        cwd=folder,
        input=SCRIPT,
        capture_output=True,
        encoding="utf-8",
        timeout=300,
        check=False,
    )


@pytest.mark.parametrize("script", [SCRIPT, None], ids=["file", "stdin"])
def test_an_error_names_the_guard_that_a_script_lacks(script: str | None, tmp_path: Path) -> None:
    ended = run(tmp_path, script)
    assert ended.returncode == 1
    assert GUARD in ended.stderr.splitlines()[-1]
    assert not list(tmp_path.rglob("shard-*"))
    first = ended.stderr.partition("Error: ")[2].partition("\n")[0]
    assert GUARD in first  # and not what fails later because of it


def test_a_script_with_the_guard_runs(tmp_path: Path) -> None:
    guarded = f"if __name__ == '__main__':{SCRIPT}".replace("\n", "\n    ")
    ended = run(tmp_path, guarded)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert len(list(tmp_path.rglob("shard-*.npy"))) == 2
