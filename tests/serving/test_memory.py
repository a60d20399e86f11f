"""What is said before a model is loaded that needs more memory than there is."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tiny_folder import sentence_folder

from minibert.checkpoints.source import Source

pytest.importorskip("fastapi")

from minibert.serving import memory
from minibert.serving.models import load_served

GROUPS = {
    "version 1": ("7:cpu:/x\n6:memory,hugetlb:/box\n", "memory/box/memory.limit_in_bytes"),
    "version 2": ("0::/box\n", "box/memory.max"),
    "the name outside of a container": ("0::/docker/0123\n", "memory.max"),
}


@pytest.mark.skipif(sys.platform == "win32", reason="no control groups")
@pytest.mark.parametrize("case", GROUPS)
def test_the_limit_is_that_of_the_container(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups, name = GROUPS[case]
    (tmp_path / "cgroup").write_text(groups, encoding="utf-8")
    monkeypatch.setattr(memory, "CGROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(memory, "MOUNT", tmp_path / "mount")
    of_machine = memory.memory_limit()
    assert of_machine is not None and of_machine > 1 << 20
    limit = tmp_path / "mount" / name
    limit.parent.mkdir(parents=True)
    for content, expected in (("1048576\n", 1 << 20), ("max\n", of_machine)):
        limit.write_text(content, encoding="utf-8")
        assert memory.memory_limit() == expected


def test_too_little_memory_is_named_before_it_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    folder = sentence_folder(tmp_path, ("Pooling", {"pooling_mode": "mean"}))
    queue = {"max_wait_ms": 1.0, "max_tokens": 100, "max_pending": 10}
    for limit, count in ((1 << 40, 0), (1 << 27, 1)):
        monkeypatch.setattr(memory, "memory_limit", lambda limit=limit: limit)
        load_served("tiny", Source(folder), **queue).batched.close()
        said = [str(one.message) for one in recwarn if "too little memory" in str(one.message)]
        assert len(said) == count
    assert str(folder) in said[0]
