"""Rows that are written are read back the same."""

import json
import struct
import tempfile

import numpy as np
import pytest

from minibert.text import Table, read
from minibert.text.formats import ROW_WRITERS, VECTOR_FORMATS, Entry, arrow_tables
from minibert.text.formats.arrow_tables import ROWS_PER_GROUP
from minibert.text.formats.format import with_columns
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


@pytest.mark.parametrize("ending", ROW_WRITERS)
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


@pytest.mark.parametrize(
    ("first", "last", "read_first"),
    [
        (1, 1.5, 1),
        (None, "late", None),
        ([], [{"word": "Ada"}], []),
        ({"a": 1}, {"a": 1, "b": 2}, {"a": 1, "b": None}),
    ],
    ids=["numbers", "null", "lists", "objects"],
)
@pytest.mark.parametrize("ending", ["parquet", "arrow", "feather"])
def test_the_types_of_a_table_are_those_of_all_rows(tmp_path, ending, first, last, read_first):
    """A type of the first rows would lose the fraction or the field of a later one."""
    pytest.importorskip("pyarrow")
    path = tmp_path / f"rows.{ending}"
    rows = [{"text": "a", "more": first}] * (ROWS_PER_GROUP + 1) + [{"text": "b", "more": last}]
    assert write_rows(str(path), rows) == len(rows)
    values = [row.values["more"] for row in read(path)]
    assert (values[0], values[-1]) == (read_first, last)
    assert [path.name for path in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("values", [(1, "a"), (1.5, 2**60 + 1), ({}, {})])
def test_values_without_a_common_type_are_refused(tmp_path, values):
    pytest.importorskip("pyarrow")
    rows = [{"text": "a", "more": value} for value in values for _ in range(ROWS_PER_GROUP)]
    with pytest.raises(ValueError, match=r"write \.jsonl or \.csv"):
        write_rows(str(tmp_path / "rows.parquet"), rows)


def test_a_tsv_of_one_column_refuses_an_empty_cell(tmp_path):
    """An empty line is no row of a table."""
    rows = [{"text": "a"}, {"text": ""}, {"text": "b"}]
    with pytest.raises(ValueError, match=r"empty line.*write \.csv or \.jsonl"):
        write_rows(str(tmp_path / "rows.tsv"), rows)
    write_rows(str(tmp_path / "rows.csv"), rows)
    assert [row.values for row in read(tmp_path / "rows.csv")] == rows


@pytest.mark.parametrize("ending", ["arrow", "feather"])
def test_other_libraries_read_arrow(tmp_path, ending):
    pandas = pytest.importorskip("pandas")
    path = tmp_path / f"rows.{ending}"
    write_rows(str(path), ROWS)
    assert pandas.read_feather(path).to_dict("records") == ROWS
    pandas.DataFrame(ROWS).to_feather(path)
    assert [row.values for row in read(path, Table(label="label"))] == ROWS


def test_arrow_files_of_datasets(tmp_path):
    datasets = pytest.importorskip("datasets")
    write_rows(str(tmp_path / "rows.arrow"), ROWS)
    loaded = datasets.load_dataset(
        "arrow", data_files=str(tmp_path / "rows.arrow"), cache_dir=str(tmp_path / "cache")
    )
    assert loaded["train"].to_list() == ROWS
    datasets.Dataset.from_list(ROWS).save_to_disk(tmp_path / "set")
    assert [row.values for row in read(tmp_path / "set", Table(label="label"))] == ROWS


@pytest.mark.parametrize("ending", ["csv", "tsv"])
def test_a_column_cannot_begin_with_a_byte_order_mark(tmp_path, ending):
    with pytest.raises(ValueError, match="byte order mark"):
        write_rows(str(tmp_path / f"rows.{ending}"), [{"\ufefftext": "a"}])


@pytest.mark.parametrize("name", ["a.csv.gz", "a.txt", "a.json", "a"])
def test_endings_that_are_not_written(tmp_path, name):
    with pytest.raises(ValueError, match=rf"'{name}' should end in \.csv, .*\.arrow"):
        write_rows(str(tmp_path / name), ROWS)


@pytest.mark.parametrize("ending", [".csv", ".parquet", ".arrow"])
def test_a_first_row_without_columns_counts(tmp_path, ending):
    """The second row has a column that the first lacks, as in any other order."""
    with pytest.raises(ValueError, match="row 2 has the column 'text', which the first row lacks"):
        write_rows(str(tmp_path / f"rows{ending}"), [{}, {"text": "a"}])


@pytest.mark.parametrize("ending", ["csv", "tsv", "parquet", "arrow", "jsonl"])
def test_a_table_without_rows_has_its_columns(tmp_path, ending):
    path = tmp_path / f"rows.{ending}"
    if ending in ("parquet", "arrow"):
        pytest.importorskip("pyarrow")
    assert write_rows(str(path), [], columns=["text", "id"]) == 0
    with pytest.raises(ValueError, match="there is no text"):
        list(read(path, Table(id="id")))
    if ending in ("csv", "tsv"):
        delimiter = {"csv": ",", "tsv": "\t"}[ending]
        assert path.read_text(encoding="utf-8") == f"text{delimiter}id\n"


@pytest.mark.parametrize("encoding", ["cp949", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("ending", [".csv", ".tsv", ".jsonl"])
def test_rows_are_written_in_an_encoding(tmp_path, ending, encoding):
    path = tmp_path / f"rows{ending}"
    rows = [{"text": "좋아요, 정말", "label": "긍정"}, {"text": "글쎄", "label": ""}]
    assert write_rows(str(path), rows, encoding) == 2
    assert path.read_bytes().decode(encoding).count("긍정") == 1
    assert [row.values for row in read(path, Table(encoding=encoding))] == rows


@pytest.mark.parametrize("ending", [".csv", ".jsonl"])
def test_a_character_that_the_encoding_lacks(tmp_path, ending):
    path = tmp_path / f"rows{ending}"
    with pytest.raises(ValueError, match=r"U\+1F600.*does not exist in cp949.*나쁘다"):
        write_rows(str(path), [{"text": "좋다"}, {"text": "나쁘다😀"}], "cp949")
    assert not path.exists()


@pytest.mark.parametrize("ending", [".parquet", ".arrow"])
def test_a_format_without_text_has_no_encoding(tmp_path, ending):
    with pytest.raises(ValueError, match=rf"^output_encoding has no effect on 'rows\{ending}'"):
        write_rows(str(tmp_path / f"rows{ending}"), [{"text": "a"}], "cp949")


@pytest.mark.parametrize("ending", [".parquet", ".arrow"])
def test_rows_wait_in_the_folder_of_their_file(tmp_path, monkeypatch, ending):
    """The folder of temporary files may be small."""
    pytest.importorskip("pyarrow")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    assert write_rows(str(tmp_path / f"rows{ending}"), ROWS) == len(ROWS)


def test_the_columns_are_known_after_the_first_row():
    rows = iter(ROWS)
    assert with_columns(rows, ["other"])[0] == ["text", "label"]
    assert list(rows) == ROWS[1:]


def vectors_read_back(path, chunks):
    """The vectors as they are read, and the other columns."""
    form = VECTOR_FORMATS[path.suffix]
    form.write_vectors(path, iter(chunks), 2)
    vectors = form.read_vectors(path)
    assert vectors.dtype == np.float32
    if not form.has_texts:
        assert isinstance(vectors, np.memmap)
        return vectors, None
    table = Table(id="id") if chunks and chunks[0][0][0].id is not None else None
    rows = list(read(path, table)) if len(vectors) else []
    return vectors, [(row.text, row.id) for row in rows]


@pytest.mark.parametrize("kind", [np.float32, np.float64, ">f4"])
@pytest.mark.parametrize("ids", [(None, None, None), ("a", "나", ""), (1, -(2**63), 2**63 - 1)])
@pytest.mark.parametrize("ending", VECTOR_FORMATS)
def test_vectors_are_read_back_with_texts_and_ids(tmp_path, ending, ids, kind):
    if VECTOR_FORMATS[ending].has_typed_ids:
        pytest.importorskip("pyarrow")
    texts = ["a", "안녕", ""]
    entries = list(map(Entry, texts, ids))
    values = np.asfortranarray(np.arange(6, dtype=kind).reshape(3, 2))
    chunks = [(entries[:2], values[:2]), (entries[2:], values[2:])]
    vectors, rows = vectors_read_back(tmp_path / f"v{ending}", chunks)
    np.testing.assert_array_equal(vectors, [[0, 1], [2, 3], [4, 5]])
    if rows is not None:
        assert rows == list(zip(texts, ids, strict=True))


@pytest.mark.parametrize("ending", [".parquet", ".arrow"])
@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ((1, "a"), "whole numbers or strings, not some of each"),
        ((1, 2**63), r"from -2\*\*63 to 2\*\*63 - 1"),
    ],
)
def test_ids_of_a_table_have_one_type(tmp_path, ending, ids, message):
    pytest.importorskip("pyarrow")
    entries = [Entry("a", name) for name in ids]
    with pytest.raises(ValueError, match=message):
        vectors_read_back(tmp_path / f"v{ending}", [(entries, np.zeros((2, 2), np.float32))])


@pytest.mark.parametrize("ending", [".parquet", ".arrow"])
def test_some_vectors_of_a_table_have_an_id(tmp_path, ending):
    parquet = pytest.importorskip("pyarrow.parquet")
    feather = pytest.importorskip("pyarrow.feather")
    path = tmp_path / f"v{ending}"
    entries = [Entry("a", 1), Entry("b"), Entry("c", 3)]
    VECTOR_FORMATS[ending].write_vectors(path, [(entries, np.zeros((3, 2), np.float32))], 2)
    table = {".parquet": parquet, ".arrow": feather}[ending].read_table(path)
    assert table.column_names == ["id", "text", "vector"]
    assert table["id"].to_pylist() == [1, None, 3]
    assert str(table["vector"].type).startswith("fixed_size_list<")


def test_an_encoding_that_does_not_exist(tmp_path):
    with pytest.raises(ValueError, match="^output_encoding 'korean9' does not exist"):
        write_rows(str(tmp_path / "rows.csv"), ROWS, "korean9")


@pytest.mark.parametrize(
    ("shape", "offsets", "message"),
    [
        ([True, 4], [0, 16], "the header has True for a size"),
        ([1.0, 4], [0, 16], r"the header has 1\.0 for a size"),
        ([-1, -4], [0, 16], "the header has -1 for a size"),
        ([1, 4], [-16, 0], "the header has -16 for a size"),
        ([1, 4], [1, 16], "do not agree"),
        ([2, 4], [0, 16], "do not agree"),
        ([1, 4], [1, 17], "do not agree"),
    ],
)
def test_a_header_of_safetensors_that_is_not_of_its_file(tmp_path, shape, offsets, message):
    tensor = {"dtype": "F32", "shape": shape, "data_offsets": offsets}
    header = json.dumps({"vectors": tensor}).encode()
    path = tmp_path / "v.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(16))
    with pytest.raises(ValueError, match=message):
        VECTOR_FORMATS[".safetensors"].read_vectors(path)


def test_vectors_of_a_table_with_other_batches(tmp_path):
    """Other programs write empty batches, and lists whose places a damaged file has wrong."""
    arrow = pytest.importorskip("pyarrow")
    path = tmp_path / "v.arrow"
    batch = arrow.record_batch({"vector": [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]})
    with arrow.ipc.new_file(str(path), batch.schema) as writer:
        writer.write_batch(batch[:0])
        writer.write_batch(batch)
    form = VECTOR_FORMATS[".arrow"]
    np.testing.assert_array_equal(form.read_vectors(path), [[1, 2], [3, 4], [5, 6]])
    places = struct.pack("<4i", 0, 2, 4, 6)
    assert places in path.read_bytes()
    path.write_bytes(path.read_bytes().replace(places, struct.pack("<4i", 2, 4, 6, 8)))
    with pytest.raises(ValueError, match="offset"):
        form.read_vectors(path)


@pytest.mark.parametrize("ending", [end for end in VECTOR_FORMATS if "json" not in end])
def test_files_without_vectors_have_a_dimension(tmp_path, ending):
    if VECTOR_FORMATS[ending].has_typed_ids:
        pytest.importorskip("pyarrow")
    vectors, _ = vectors_read_back(tmp_path / f"v{ending}", [])
    assert vectors.shape == (0, 2)


def test_lists_of_any_size_without_vectors(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "v.parquet"
    parquet.write_table(
        arrow.table({"vector": arrow.array([], arrow.list_(arrow.float32()))}), path
    )
    vectors = VECTOR_FORMATS[".parquet"].read_vectors(path)
    assert (vectors.shape, vectors.dtype) == ((0, 0), np.float32)


def test_texts_that_are_too_long_for_one_array(tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    monkeypatch.setattr(arrow_tables, "MAX_STRING_BYTES", 3)
    chunks = [([Entry("안녕", "a")], np.zeros((1, 2), np.float32))]
    assert vectors_read_back(tmp_path / "v.arrow", chunks)[1] == [("안녕", "a")]
