"""Rows that are written are read back the same."""

import pytest

from minibert.text import Table, read
from minibert.text.write import write_rows

ROWS = [
    {"text": 'She said "no", twice', "label": "a, b"},
    {"text": '"quoted', "label": ""},
    {"text": '"as a whole"', "label": "그래 "},
    {"text": " #blank", "label": "'"},
]
LINES = [
    {"text": "one\ntwo", "label": "x"},
    {"text": "one\rtwo", "label": "x"},
    {"text": "one\ttwo\r\n", "label": "x"},
    {"text": '"doubled ""marks"" inside"', "label": "x"},
]


@pytest.mark.parametrize("ending", [".tsv", ".csv", ".jsonl"])
def test_written_rows_are_read_back(tmp_path, ending):
    rows = ROWS if ending == ".tsv" else ROWS + LINES
    path = tmp_path / f"rows{ending}"
    assert write_rows(str(path), rows) == len(rows)
    assert [row.values for row in read(path, Table(label="label"))] == rows


@pytest.mark.parametrize("row", LINES, ids=["lf", "cr", "tab", "doubled"])
def test_a_tsv_refuses_what_it_could_not_give_back(tmp_path, row):
    path = tmp_path / "rows.tsv"
    with pytest.raises(ValueError, match=r"write \.csv or \.jsonl"):
        write_rows(str(path), [*ROWS, row])
    assert not list(tmp_path.iterdir())


def test_cells_of_other_types(tmp_path):
    row = {"text": "a", "score": 0.25, "labels": ["x", "y"], "none": None, "is": True}
    for ending in (".tsv", ".csv"):
        path = tmp_path / f"rows{ending}"
        write_rows(str(path), [row])
        values = next(iter(read(path))).values
        assert values["score"] == "0.25" and values["labels"] == '["x", "y"]'
        assert values["none"] == "" and values["is"] == "True"
