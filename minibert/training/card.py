"""The model card that a run writes next to its model: data, options, scores and labels."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from minibert.encoders.folders.model_card import (
    CARD,
    EMBEDDER_FRONT,
    with_checksum,
    written_text,
)
from minibert.encoders.folders.reading import KEY
from minibert.util.files import read_json, replacing

_CLASSIFIERS = ("ForSequenceClassification", "ForTokenClassification")
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
    """Write README.md. One that a person has written or changed stays.

    What config.json says of how the model reads, and of its labels, is listed as well. The card
    that an embedder saves with itself keeps its beginning.

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
    path = Path(folder, CARD)
    before = written_text(path)
    if path.exists() and before is None:
        return
    config_file = path.parent / "config.json"
    config: dict[str, Any] = read_json(config_file) if config_file.is_file() else {}
    reading = config.get(KEY) or {}
    options = {**options, **reading.pop("options", {})}
    lines = [_FRONT, f"# {title}", "", "```", usage, "```", ""]
    if before is not None and before.startswith(EMBEDDER_FRONT):
        lines = [before.partition("\n## ")[0].rstrip("\n"), ""]
    sections = {"Scores": scores, "Reading": reading, "Data": data, "Training": options}
    for heading, rows in sections.items():
        entries = {name: value for name, value in rows.items() if value is not None}
        if entries:
            lines += [f"## {heading}", ""]
            lines += [f"* {name}: {_shown(value)}" for name, value in entries.items()]
            lines.append("")
    labels = _labels(config)
    if labels:
        lines += ["## Labels", "", ", ".join(labels), ""]
    # the name of a file need not be UTF-8
    text = "\n".join(lines).encode(errors="backslashreplace").decode()
    with replacing(path) as temporary:
        temporary.write_text(with_checksum(text), encoding="utf-8")


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value)


def _labels(config: Mapping[str, Any]) -> list[str]:
    architectures = config.get("architectures") or []
    if not any(str(name).endswith(_CLASSIFIERS) for name in architectures):
        return []  # every config has names of labels, used or not
    return [str(label) for label in (config.get("id2label") or {}).values()]
