"""All commands follow the same conventions, and none overwrites a user's files."""

from __future__ import annotations

import argparse
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from minibert.cli import GROUPS, build_parser, main
from minibert.cli.finetune import TASKS
from minibert.cli.parser import Parser

COMMANDS = [command.name for commands in GROUPS.values() for command in commands]
WITH_A_MODEL = [
    "embed",
    "search",
    "rerank",
    "classify",
    "entities",
    "answer",
    "fill-mask",
    "serve",
    "learn",
    "view",
    "tokenize",
    "pretrain",
    "evaluate",
    "verify",
    "info",
    "convert",
    "export",
]
COMPUTES_ON_A_DEVICE = [
    "embed",
    "search",
    "rerank",
    "classify",
    "entities",
    "answer",
    "fill-mask",
    "evaluate",
    "serve",
    "verify",
]
READS_TEXTS = [
    "embed",
    "search",
    "rerank",
    "classify",
    "entities",
    "answer",
    "fill-mask",
    "evaluate",
    "tokenize",
    "vocab",
    "pretrain",
]
# a help text that begins with one of these words is a fragment
FRAGMENTS = ("Of", "As", "In", "For", "To", "With", "By", "From", "Than", "Which", "That", "And")
WRITES = [
    "embed",
    "classify",
    "entities",
    "answer",
    "view",
    "learn",
    "vocab",
    "pretrain",
    "convert",
    "export",
]


def parsers() -> Iterator[tuple[str, Parser]]:
    """Yield the parser of every command, with one per task instead of that of finetune."""
    for name, command in build_parser().commands.items():
        if name == "finetune":
            yield from ((f"finetune {task}", parser) for task, parser in command.commands.items())
        else:
            yield name, command


def options_of(parser: Parser) -> dict[str, argparse.Action]:
    return dict(parser.options_by_name())


def test_commands_are_listed_in_groups(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["--help"])
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line in GROUPS] == list(GROUPS)
    assert list(build_parser().commands) == COMMANDS


def test_the_model_is_named_in_one_way() -> None:
    for name, parser in parsers():
        options = options_of(parser)
        if name in WITH_A_MODEL or name.startswith("finetune"):
            assert "-m" in options and "--model" in options, name
        else:
            assert "--model" not in options, name
        assert ("--offline" in options) == ("--model" in options)
        assert "--revision" not in options


def test_output_is_named_in_one_way_and_guarded() -> None:
    for name, parser in parsers():
        options = options_of(parser)
        assert not {"--out", "--out-dir"} & options.keys(), name
        if name in WRITES or name.startswith("finetune"):
            assert {"-o", "--output", "--force"} <= options.keys(), name


def test_devices_and_precisions() -> None:
    for name, parser in parsers():
        options = options_of(parser)
        if name in COMPUTES_ON_A_DEVICE:
            assert options["--device"].default == "cpu", name
        elif name.startswith(("finetune", "pretrain")):
            assert "if there is a GPU" in str(options["--device"].help), name
        else:  # commands for a single text, and commands that only read or write files
            assert "--device" not in options, name
        if "--precision" in options and name != "export":
            precision = options["--precision"]
            assert list(precision.choices or []) == ["exact", "fp32", "bf16", "int8"], name
            assert "bit-identical" in str(precision.help)


def test_help_shows_no_empty_default() -> None:
    for name, parser in parsers():
        assert not re.search(r"default: (\(\)|\[\]|None|False)", parser.format_help()), name


def test_columns_are_named_in_one_way() -> None:
    for name, parser in parsers():
        options = options_of(parser)
        if name in READS_TEXTS:
            assert "--text-column" in options, name
        assert not {"--column", "--label", "--dev-label"} & options.keys(), name
        for option, action in options.items():
            if option.endswith("-column"):
                assert action.metavar == "NAME", (name, option)


def test_results_are_printed_in_one_way() -> None:
    for name, parser in parsers():
        options = options_of(parser)
        if name not in ("serve", "completion"):
            assert "--json" in options, name
        assert "--top" not in options
        assert ("-k" in options) == ("--top-k" in options)
        assert {"--quiet", "--debug"} <= options.keys(), name


def test_a_task_has_its_own_options() -> None:
    tasks = dict(parsers())
    assert set(TASKS) == {name.split()[1] for name in tasks if name.startswith("finetune")}
    assert "--class-weights" in options_of(tasks["finetune classification"])
    for option in ("--class-weights", "--matryoshka", "--max-score", "--text-column"):
        assert option not in options_of(tasks["finetune tokens"])


def test_every_option_has_a_help_text_that_stands_alone() -> None:
    for name, parser in parsers():
        for action in parser.arguments():
            if action.help == argparse.SUPPRESS or action.dest == "help":
                continue
            text = str(action.help or "")
            where = f"{name} {action.option_strings or action.metavar}: {text}"
            assert text[:1].isupper() and text.endswith("."), where
            assert 2 <= len(text.split()) < 60, where
            assert text.split()[0].rstrip(",") not in FRAGMENTS, where
            if action.nargs != 0 and action.choices is None:
                metavars = action.metavar
                assert metavars is not None and str(metavars).isupper() or "[" in str(metavars), (
                    where
                )


@pytest.fixture
def classifier(tmp_path: Path) -> Path:
    """A folder that represents a trained classifier of a user."""
    folder = tmp_path / "classifier"
    folder.mkdir()
    (folder / "config.json").write_text(
        '{"architectures": ["BertForSequenceClassification"]}', encoding="utf-8"
    )
    (folder / "model.safetensors").write_bytes(b"months of work")
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


OVERWRITING_COMMANDS = (
    "convert --model minibert-tiny --output {classifier}",
    "export --model minibert-tiny --output {classifier}",
    "vocab --corpus {text} --output {classifier}",
    "pretrain --config tiny --corpus {text} --output {classifier}",
    "pretrain --config {text} --corpus {classifier} --output {classifier}",
    "finetune classification --train {text} --dev {text} --output {classifier}",
    "embed hello --model minibert-tiny --output {classifier}",
    "embed hello --model minibert-tiny --output {classifier}/model.safetensors",
    "embed hello --model minibert-tiny --output {text}",
    "view hello --model minibert-tiny --output {text}",
    "view hello --model minibert-tiny --output {classifier}",
    "learn --model minibert-tiny --output {text}",
    "classify --model minibert-tiny hello --output {text}",
    "entities --model minibert-tiny hello --output {classifier}",
    "answer --model minibert-tiny --question who hello --output {text}",
    "evaluate {text} {classifier} --errors {text}",
)


@pytest.mark.parametrize("typed", OVERWRITING_COMMANDS)
def test_files_of_a_user_are_not_overwritten(
    typed: str, classifier: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = tmp_path / "text.csv"
    text.write_text("text,label\nmonths of collecting,1\n", encoding="utf-8")
    before = contents(tmp_path)
    assert main(typed.format(classifier=classifier, text=text).split()) in (1, 2)
    assert contents(tmp_path) == before
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    "typed",
    [
        "convert -m minibert-tiny -o",
        "export -m minibert-tiny -o",
        "vocab --corpus {text} -o",
        "view hello -m minibert-tiny -o",
        "finetune classification --train {text} -o",
        "finetune --resume -o",
        "evaluate minibert-tiny {text} --plot",
    ],
)
def test_what_is_written_on_this_machine_has_a_path(
    typed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A URI was taken for a folder with the name s3: in this one."""
    monkeypatch.chdir(tmp_path)
    text = tmp_path / "text.txt"
    text.write_text("some words\n", encoding="utf-8")
    try:
        code = main([*typed.format(text=text).split(), "s3://bucket/out"])
    except SystemExit as stop:
        code = int(stop.code or 0)
    assert code == 2 and "s3://bucket/out is not on this machine" in capsys.readouterr().err
    assert names_in(tmp_path) == ["text.txt"]


def test_a_uri_of_a_path_is_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("fsspec")
    monkeypatch.chdir(tmp_path)
    command = ["convert", "--model", "minibert-tiny", "--output", f"file://{tmp_path}/copy"]
    assert main(command) == 0
    assert names_in(tmp_path) == ["copy"]


def test_convert_in_place(tmp_path: Path) -> None:
    from minibert.checkpoints.source import BUNDLED_MODELS

    shutil.copytree(BUNDLED_MODELS / "minibert-tiny", tmp_path / "model")
    assert main(["convert", "-m", str(tmp_path / "model"), "-o", str(tmp_path / "model")]) == 0


def test_a_converted_embedder_gives_the_same_vectors(tmp_path: Path) -> None:
    from minibert import SentenceEmbedder

    assert main(["convert", "-m", "minibert-en", "-o", str(tmp_path / "new")]) == 0
    before = SentenceEmbedder.from_pretrained("minibert-en", precision="exact").encode("a cat")
    after = SentenceEmbedder.from_pretrained(tmp_path / "new", precision="exact").encode("a cat")
    assert (before == after).all()


def test_force_overwrites_a_file(tmp_path: Path) -> None:
    path = tmp_path / "v.jsonl"
    path.write_text("old", encoding="utf-8")
    command = ["embed", "hello", "--model", "minibert-tiny", "--output", str(path)]
    assert main(command) == 2 and path.read_text(encoding="utf-8") == "old"
    assert main([*command, "--force"]) == 0 and "vector" in path.read_text(encoding="utf-8")


def test_quiet_prints_only_results(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fill-mask", "나는 [MASK]", "--model", "minibert-en", "--quiet"]) == 0
    captured = capsys.readouterr()
    assert captured.out and not captured.err


def test_quiet_training_prints_only_its_result(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = "".join(f"{word} film\t{label}\n" for word, label in [("good", 1), ("bad", 0)] * 9)
    train = tmp_path / "train.tsv"
    train.write_text("text\tlabel\n" + rows, encoding="utf-8")
    command = ["finetune", "classification", "-m", "minibert-tiny", "--train", str(train)]
    assert main([*command, "--epochs", "1", "-o", str(tmp_path / "out"), "--quiet"]) == 0
    captured = capsys.readouterr()
    assert "The best model is in" in captured.out and not captured.err


def test_a_missing_device_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["embed", "hello", "--device", "cuda:99"]) == 2
    assert "should be one of this computer's (cpu" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("typed", "sentence"),
    [
        ("embed hello -m minibert-tiny@v9", "drop @v9"),
        ("tokenize hello -m minibert-tiny@v9", "drop @v9"),
        ("export -m minibert-tiny@v9 -o {folder}/out", "drop @v9"),
        ("classify hello -m minibert-tiny --threshold 2", "'2' is not a probability from 0 to 1"),
        ("classify hello -m minibert-tiny --threshold x", "'x' is not a probability from 0 to 1"),
        ("evaluate {text} -m minibert-tiny --threshold -1", "'-1' is not a probability"),
        ("serve minibert-tiny --port 99999", "from 0 to 65535, not 99999"),
        ("serve minibert-tiny --timeout 0", "--timeout should be 0.001 or more"),
        ("vocab --corpus {text} --vocab-size 0 -o {folder}/out", "7 or more, not 0"),
        ("vocab --corpus {text} --vocab-size 6 -o {folder}/out", "7 or more, not 6"),
        ("vocab --corpus {text} --min-frequency 0 -o {folder}/out", "--min-frequency should be"),
        ("fill-mask [MASK] -m minibert-tiny -k 0", "'0' is not a whole number of 1 or more"),
        # found by the model
        ("embed hello -m minibert-tiny --max-length 100000", "--max-length"),
    ],
)
def test_invalid_values_of_options_are_errors(
    typed: str, sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = tmp_path / "text.txt"
    text.write_text("some words and some other words\n", encoding="utf-8")
    try:
        code = main(typed.format(text=text, folder=tmp_path).split())
    except SystemExit as stop:
        code = int(stop.code or 0)
    assert code == 2 and sentence in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_the_help_of_embed_fits_a_screen() -> None:
    text = build_parser().commands["embed"].format_help()
    assert len(text.splitlines()) <= 60


@pytest.mark.parametrize("topic", ["files", "environment", "exit-codes"])
def test_help_explains_topics(topic: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["help", topic])
    assert end.value.code == 0 and len(capsys.readouterr().out.splitlines()) >= 5
    with pytest.raises(SystemExit):
        main(["--help"])
    assert topic in capsys.readouterr().out


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        # a type is named in words
        ("embed x --max-length ten", "'ten' is not a whole number"),
        ("verify --tolerance small", "'small' is not a number"),
        ("embed x --layer-weights a,b", "'a,b' is not numbers with commas"),
        ("embed x --layers 1,,2", "'1,,2' is not a name or indices"),
        # an option without an effect
        ("embed x --shard-size 3", "--shard-size is for a folder of shards"),
        ("embed x --format npy -o a.npy", "--format is for a folder of shards"),
        ("embed x --jsonl -o a.npy", "--jsonl prints vectors"),
        ("embed x --delimiter ;", "--delimiter says how --file is read"),
        ("tokenize x --encoding cp949", "--encoding says how --file is read"),
        ("classify x --model y --pair-column z", "--pair-column says how --file is read"),
        ("classify x --model y --jsonl -o a.csv", "--jsonl prints results"),
        # the name of stdin in place of a text
        ("embed -", "- is not a text"),
        ("search - --corpus /dev/null", "- is not a query"),
        # what is no file of vectors, and no folder
        ("embed x -o /dev/null", "should end in .npy"),
        ("serve a=", "a= names no model"),
        # a second file would take the place of the first
        ("finetune answers --train a.json --train b.json -o c", "--train: is given twice"),
        ("search x --corpus a.txt --corpus b.txt", "--corpus: is given twice"),
        ("classify a b -m x --pair c --pair d", "--pair: is given twice"),
        ("answer a -m x --question b --question c", "--question: is given twice"),
        ("rerank x --model y --file a.txt --file b.txt", "--file: is given twice"),
        ("evaluate x y --label-columns a --label-columns b", "--label-columns: is given twice"),
        # a file of a format that does not exist
        ("classify x --model y -o a.xlsx", "should end in .csv"),
    ],
)
def test_bad_usage_is_refused_before_a_model_is_loaded(
    command: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code = main(command.split())
    except SystemExit as end:
        code = int(end.code or 0)
    assert code == 2 and sentence in capsys.readouterr().err


def test_a_misspelled_model_names_the_bundled_ones(capsys: pytest.CaptureFixture[str]) -> None:
    for name, sentence in {
        "minbert-en": "Did you mean minibert-en?",
        "bertlike": "The bundled models are minibert-en, minibert-ko, minibert-tiny.",
    }.items():
        assert main(["tokenize", "x", "-m", name, "--offline"]) == 1
        assert sentence in capsys.readouterr().err
