"""JSON objects, one a line: rows, or texts with their vectors."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from minibert.text.formats.format import (
    Bounds,
    Chunks,
    Entry,
    RowFormat,
    RowWriter,
    VectorFormat,
    text_writer,
)
from minibert.text.formats.json_array import has_surrogate
from minibert.text.formats.plain_lines import bounds_of_lines
from minibert.text.lines import text_lines
from minibert.text.location import Location
from minibert.text.request import RawRow, RowRequest
from minibert.util.files import json_fault, json_text

if TYPE_CHECKING:
    from minibert.text.formats.format import Vectors


class JsonLines(RowFormat, RowWriter, VectorFormat):
    """An object a line. Vectors have all digits that float32 needs."""

    name = "jsonl"
    endings = (".jsonl", ".ndjson")
    meaning = "a JSON object a line"
    is_typed = True
    without_effect = ("columns", "delimiter", "quoting")
    has_texts = True

    def records(self, request: RowRequest) -> Iterator[RawRow]:
        """A record for each line that is not blank."""
        unit = request.unit
        for number, line in request.lines():
            if line.isspace():
                continue
            values: Any = None
            fault = ""
            try:
                values = json.loads(line)
            except (ValueError, RecursionError) as error:
                fault = f"the line is not JSON ({json_fault(error)})"
            if "\\u" in line and has_surrogate(values):
                fault = "the line has half a character, a surrogate"
            if line.startswith("["):
                fault = fault or request.fault(values)
                fault += ". Rename the file to end in .json if it is an array as a whole"
            yield unit, number, values, line, fault

    def bounds(self, request: RowRequest, size: int, part_bytes: int) -> list[Bounds]:
        """Ranges of bytes."""
        return bounds_of_lines(request, size, part_bytes)

    def write_rows(
        self,
        path: Path,
        rows: Iterator[Mapping[str, Any]],
        encoding: str,
        columns: Sequence[str] = (),
    ) -> None:
        """Write a line for each row."""
        with text_writer(path, encoding) as file:
            for row in rows:
                file.write(json_text(row) + "\n")

    def write_vectors(self, path: Path, chunks: Chunks, dimension: int) -> None:
        """Write a line for each vector: {"id": ..., "text": ..., "vector": [...]}."""
        with path.open("w", encoding="utf-8") as file:
            for entries, vectors in chunks:
                for entry, vector in zip(entries, vectors, strict=True):
                    file.write(f"{vector_line(entry, vector)}\n")

    def read_vectors(self, path: Path) -> Any:
        """Return the vectors in memory."""
        import numpy as np

        vectors = []
        for number, line in text_lines(Location(path), None):
            if line.isspace():
                continue
            vector = np.array(json.loads(line)["vector"])
            if vector.ndim != 1 or vector.dtype.kind not in "fiu":
                raise ValueError(f"line {number} has no vector of numbers")
            vectors.append(vector.astype(np.float32))
        return np.array(vectors, dtype=np.float32)


def vector_line(entry: Entry, vector: Vectors) -> str:
    """Return a text, its id if it has one, and its vector as one line of JSON."""
    fields = []
    if entry.id is not None:
        fields.append(f'"id": {json.dumps(entry.id, ensure_ascii=False)}')
    fields.append(f'"text": {json.dumps(entry.text, ensure_ascii=False)}')
    fields.append(f'"vector": [{", ".join(digits_of(vector))}]')
    return f"{{{', '.join(fields)}}}"


def digits_of(vector: Vectors) -> list[str]:
    """Return the values of a vector, each with all digits that float32 needs."""
    return [f"{number:.9g}" for number in vector.tolist()]
