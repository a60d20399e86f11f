"""The model card that a run writes next to its model: data, options, scores and labels."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from minibert.files import read_json, replacing

_FRONT = """---
library_name: minibert
tags:
- minibert
- bert
---
"""


def write_card(
    folder: str | os.PathLike[str],
    title: str,
    data: Mapping[str, Any],
    options: Mapping[str, Any],
    scores: Mapping[str, float],
    usage: str,
) -> None:
    """Writes README.md, unless there is one already.

    Args:
        folder: The model's folder.
        title: What the model does.
        data: The files that it was trained and evaluated on, by their part.
        options: How it was trained. Options that are None are left out.
        scores: How good it is, by the names of the scores.
        usage: A command that uses it.

    Raises:
        OSError: The file cannot be written.
    """
    path = Path(folder, "README.md")
    if path.exists():
        return
    lines = [_FRONT, f"# {title}", "", "```", usage, "```", ""]
    for heading, rows in (("Scores", scores), ("Data", data), ("Training", options)):
        entries = {name: value for name, value in rows.items() if value is not None}
        if entries:
            lines += [f"## {heading}", ""]
            lines += [f"* {name}: {_shown(value)}" for name, value in entries.items()]
            lines.append("")
    labels = _labels(path.parent)
    if labels:
        lines += ["## Labels", "", ", ".join(labels), ""]
    with replacing(path) as temporary:
        temporary.write_text("\n".join(lines), encoding="utf-8")


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value)


def _labels(folder: Path) -> list[str]:
    config = folder / "config.json"
    if not config.is_file():
        return []
    return [str(label) for label in (read_json(config).get("id2label") or {}).values()]
