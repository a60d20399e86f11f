"""Fine-tuning end to end on tasks that a tiny model learns in seconds.

The slow tests use real data.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import shared_data, tiny_config

from minibert import (
    BertForQuestionAnswering,
    BertForSequenceClassification,
    BertForTokenClassification,
    BertModel,
    BertTokenizer,
    answer_question,
    classify,
    evaluate,
)
from minibert.cli import main
from minibert.losses import IGNORED
from minibert.tasks.answers import AnswerTask
from minibert.tasks.sequence import SequenceTask
from minibert.tasks.task import Task
from minibert.tasks.tokens import TokenTask
from minibert.text import Table
from minibert.training.data import length, pack, pad
from minibert.training.finetuning import finetune, hold_out
from minibert.training.options import TrainingOptions
from minibert.training.steps import count_labels, default_learning_rate

WORDS = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "who",
    "sat",
    "?",
    ".",
    "##s",
    "good",
    "bad",
    "seoul",
    "paris",
]
WORDS += [f"w{i}" for i in range(80)]
OPTIONS = TrainingOptions(epochs=4, batch_size=16, learning_rate=5e-3)


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    folder = tmp_path / "checkpoint"
    without_dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    config = tiny_config(vocab_size=len(WORDS), num_hidden_layers=1, **without_dropout)
    BertModel(config).save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n", encoding="utf-8")
    return str(folder)


def random_words(rng: np.random.Generator, count: int) -> list[str]:
    return [f"w{i}" for i in rng.integers(0, 80, count)]


def write_reviews(path: Path, count: int, seed: int) -> Path:
    """Write texts that contain "good" or "bad", which determines their label."""
    rng = np.random.default_rng(seed)
    lines = ["review\tverdict"]
    for _ in range(count):
        words = random_words(rng, int(rng.integers(1, 12)))
        verdict = ["bad", "good"][rng.integers(2)]
        words.insert(int(rng.integers(len(words) + 1)), verdict)
        lines.append(" ".join(words) + f"\t{verdict}!")
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def run(
    task: Task, checkpoint: str, files: list[Path], folder: Path, **options: Any
) -> dict[str, float]:
    return finetune(task, checkpoint, files[0], files[1], folder, OPTIONS, **options)


def test_classification_from_a_table(checkpoint: str, tmp_path: Path) -> None:
    files = [write_reviews(tmp_path / f"{seed}.tsv", 200, seed) for seed in range(2)]

    scores = run(
        SequenceTask(Table("review", label="verdict")), checkpoint, files, tmp_path / "out"
    )

    assert scores["accuracy"] > 0.95
    best = BertForSequenceClassification.from_pretrained(tmp_path / "out")
    assert best.config.id2label == {0: "bad!", 1: "good!"}
    tokenizer = BertTokenizer.from_pretrained(tmp_path / "out")
    logits = best(**tokenizer(["w1 good w2", "w1 bad"], padding=True, return_tensors="pt")).logits
    assert [best.config.id2label[i] for i in logits.argmax(-1).tolist()] == ["good!", "bad!"]
    logged = [
        json.loads(line)
        for line in (tmp_path / "out" / "log.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    assert max(entry["accuracy"] for entry in logged if "accuracy" in entry) == scores["accuracy"]


def test_regression_from_pairs(checkpoint: str, tmp_path: Path) -> None:
    files = []
    for seed in range(2):
        rng = np.random.default_rng(seed)
        rows = []
        for _ in range(200):
            goods = int(rng.integers(0, 5))
            first = ["good"] * goods + random_words(rng, 3)
            rows.append(
                {"a": " ".join(first), "b": " ".join(random_words(rng, 4)), "score": goods / 4}
            )
        files.append(tmp_path / f"{seed}.jsonl")
        files[-1].write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")

    task = SequenceTask(Table("a", pair="b", label="score"), regression=True)
    scores = run(task, checkpoint, files, tmp_path / "out")

    assert scores["spearman"] > 0.9
    config = BertForSequenceClassification.from_pretrained(tmp_path / "out").config
    assert (config.num_labels, config.problem_type) == (1, "regression")


def test_tags_of_words(checkpoint: str, tmp_path: Path) -> None:
    files = []
    for seed in range(2):
        rng = np.random.default_rng(seed)
        lines = []
        for _ in range(150):
            for word in [*random_words(rng, 4), "seoul", "paris", *random_words(rng, 2)]:
                lines.append(f"{word} {dict(seoul='B-LOC', paris='I-LOC').get(word, 'O')}")
            lines.append("")
        files.append(tmp_path / f"{seed}.conll")
        files[-1].write_text("\n".join(lines), encoding="utf-8")

    scores = run(TokenTask(), checkpoint, files, tmp_path / "out")

    assert scores["f1"] > 0.95
    best = BertForTokenClassification.from_pretrained(tmp_path / "out")
    assert best.config.id2label == {0: "B-LOC", 1: "I-LOC", 2: "O"}


def test_only_the_first_piece_of_a_word_has_a_tag(checkpoint: str) -> None:
    tokenizer = BertTokenizer.from_pretrained(checkpoint)
    task = TokenTask()
    rows = task.read([(["seouls", "sat"], ["B-LOC", "O"])])
    (example,) = task.encode(rows, tokenizer, tiny_config(**task.config(rows)), 16)
    tokens = tokenizer.convert_ids_to_tokens(example["input_ids"].tolist())
    assert tokens == ["[CLS]", "seoul", "##s", "sat", "[SEP]"]
    assert example["labels"].tolist() == [IGNORED, 0, IGNORED, 1, IGNORED]


def write_squad(path: Path, count: int, seed: int) -> Path:
    """Write questions whose answer is the only city of a context longer than a window."""
    rng = np.random.default_rng(seed)
    paragraphs = []
    for _ in range(count):
        words = random_words(rng, 40)
        city = ["Seoul", "Paris"][rng.integers(2)]
        words[int(rng.integers(40))] = city
        context = " ".join(words)
        answer = {"text": city, "answer_start": context.index(city)}
        paragraphs.append(
            {"context": context, "qas": [{"question": "who sat?", "answers": [answer]}]}
        )
    path.write_text(json.dumps({"data": [{"paragraphs": paragraphs}]}), encoding="utf-8")
    return path


def test_windows_have_the_positions_of_their_answers(checkpoint: str, tmp_path: Path) -> None:
    tokenizer, task = BertTokenizer.from_pretrained(checkpoint), AnswerTask()
    rows = task.read(write_squad(tmp_path / "a.json", 30, 0))
    examples = task.encode(rows, tokenizer, tiny_config(), 24)
    assert len(examples) > 2 * len(rows)
    answered = set()
    for example in examples:
        start, end = example["start_positions"], example["end_positions"]
        if start:
            context = rows[example["row"]].values["context"]
            text = context[example["offsets"][start, 0] : example["offsets"][end, 1]]
            assert text == rows[example["row"]].values["answers"][0]
            answered.add(example["row"])
    assert answered == set(range(len(rows)))


def test_answers_to_questions(checkpoint: str, tmp_path: Path) -> None:
    files = [write_squad(tmp_path / f"{seed}.json", 150, seed) for seed in range(2)]
    options = replace(OPTIONS, learning_rate=3e-3)
    scores = finetune(AnswerTask(), checkpoint, *files, tmp_path / "out", options, max_length=24)
    assert scores["exact_match"] > 0.9


@pytest.mark.parametrize(
    ("task", "message"),
    [
        (
            SequenceTask(Table("text", label="verdict")),
            r"a\.tsv: there is no column 'text'. The columns are review, verdict",
        ),
        (
            SequenceTask(Table("review", label="verdict"), regression=True),
            r"a\.tsv, line 2: verdict should be a finite number, not '\w+!'",
        ),
    ],
)
def test_errors_name_wrong_columns(
    task: Task, message: str, checkpoint: str, tmp_path: Path
) -> None:
    file = write_reviews(tmp_path / "a.tsv", 10, 0)
    with pytest.raises(ValueError, match=message):
        run(task, checkpoint, [file, file], tmp_path / "out")


def test_a_label_that_only_the_dev_file_has_raises_an_error(
    checkpoint: str, tmp_path: Path
) -> None:
    file = write_reviews(tmp_path / "a.tsv", 20, 0)
    other = tmp_path / "b.tsv"
    other.write_text("review\tverdict\nw1\tgreat!\n", encoding="utf-8")
    with pytest.raises(
        ValueError, match=r"b\.tsv \(.*great!.*\) are not among those of the training data"
    ):
        run(
            SequenceTask(Table("review", label="verdict")),
            checkpoint,
            [file, other],
            tmp_path / "out",
        )


@pytest.mark.slow
def test_sst2(minilm: str, tmp_path: Path) -> None:
    """MiniLM reaches an accuracy of 0.88 on SST-2's dev set, evaluated every 50 steps."""
    train, dev = shared_data("data", "sst2", "train.tsv"), shared_data("data", "sst2", "dev.tsv")
    task = SequenceTask(Table("sentence", label="label", columns=("sentence", "label")))
    options = TrainingOptions(epochs=3, learning_rate=1e-4, evaluate_every=50)
    scores = finetune(task, minilm, train, dev, tmp_path, options)
    assert scores["accuracy"] >= 0.88


STS_COLUMNS = ["genre", "file", "year", "id", "score", "sentence1", "sentence2"]


@pytest.mark.slow
def test_sts_benchmark(minilm: str, tmp_path: Path) -> None:
    """MiniLM with a regression head reaches a Spearman of 0.85 on the STS benchmark's dev set."""
    train, dev = (
        shared_data("data", "stsb", "stsb-train.csv"),
        shared_data("data", "stsb", "stsb-dev.csv"),
    )
    table = Table("sentence1", pair="sentence2", label="score", columns=STS_COLUMNS, delimiter="\t")
    task = SequenceTask(table, regression=True)
    scores = finetune(
        task, minilm, train, dev, tmp_path, TrainingOptions(epochs=4, learning_rate=1e-4)
    )
    assert scores["spearman"] >= 0.85


@pytest.mark.slow
def test_korean_pairs_with_the_official_vocabulary(tmp_path: Path) -> None:
    """A small new model with kcbert's vocabulary learns from KorSTS."""
    vocabulary = shared_data("data", "kcbert-base")
    tokenizer = BertTokenizer.from_pretrained(vocabulary)
    BertModel(tiny_config(vocab_size=len(tokenizer), max_position_embeddings=300)).save_pretrained(
        tmp_path / "model"
    )
    tokenizer.save_pretrained(tmp_path / "model")
    task = SequenceTask(Table("sentence1", pair="sentence2", label="score"), regression=True)
    files = [shared_data("data", "korsts", f"sts-{part}.tsv") for part in ("train", "dev")]
    options = TrainingOptions(epochs=3, learning_rate=1e-3)
    scores = finetune(task, tmp_path / "model", files[0], files[1], tmp_path / "out", options)
    assert scores["spearman"] > 0.1


def test_the_loss_of_answers_does_not_depend_on_padding(checkpoint: str, tmp_path: Path) -> None:
    tokenizer, task = BertTokenizer.from_pretrained(checkpoint), AnswerTask()
    examples = task.encode(
        task.read(write_squad(tmp_path / "a.json", 3, 0)), tokenizer, tiny_config(), 24
    )
    short, long = sorted(examples, key=length)[0], sorted(examples, key=length)[-1]
    assert length(short) < length(long)
    model = BertForQuestionAnswering.from_pretrained(checkpoint)
    together, short_alone, long_alone = (
        task.loss(model, pad(batch, 0))["start_positions"]
        for batch in ([short, long], [short], [long])
    )
    torch.testing.assert_close(together, short_alone + long_alone, rtol=0, atol=1e-5)


def test_a_question_that_leaves_no_room_raises_an_error(checkpoint: str, tmp_path: Path) -> None:
    rows = AnswerTask().read(write_squad(tmp_path / "a.json", 3, 0))
    tokenizer = BertTokenizer.from_pretrained(checkpoint)
    with pytest.raises(ValueError, match=r"'who sat\?' has 3 tokens, .*room for 2"):
        AnswerTask().encode(rows, tokenizer, tiny_config(), 6)
    # The stride is reduced to fit.
    assert max(map(length, AnswerTask().encode(rows, tokenizer, tiny_config(), 7))) == 7


def test_questions_without_an_answer(checkpoint: str) -> None:
    """The best span of all windows competes with the lowest [CLS] score."""
    values = {
        "question": "who sat?",
        "context": "w1 seoul w2 w3 paris w4",
        "answers": [{"text": "seoul", "answer_start": 3}],
    }
    tokenizer, task = BertTokenizer.from_pretrained(checkpoint), AnswerTask()
    rows = task.read([values])
    unanswerable = task.read([{**values, "answers": []}])
    model = BertForQuestionAnswering.from_pretrained(checkpoint)
    tokenizer.model_max_length = 8
    examples = task.encode(rows, tokenizer, model.config, 8)
    assert len(examples) > 1
    answerable = answer_question(model, tokenizer, "who sat?", values["context"])
    assert task.predict(model, rows, examples)[0].answer == answerable["answer"]
    answers = []
    for bias in (-100.0, 100.0):  # added to the score of having no answer

        class Biased(BertForQuestionAnswering):
            shift = torch.tensor([bias])

            def forward(self, *args: Any, **options: Any) -> Any:
                output = super().forward(*args, **options)
                output.start_logits[args[0] == tokenizer.cls_token_id] += self.shift
                return output

        biased = Biased.from_pretrained(checkpoint)
        biased.load_state_dict(model.state_dict())
        answers.append(task.predict(biased, unanswerable, examples)[0].answer)
    assert answers == [answerable["answer"], ""]


def test_every_word_of_a_long_sentence_has_one_tag(checkpoint: str) -> None:
    words = ["seouls"] * 30
    task, tokenizer = TokenTask(), BertTokenizer.from_pretrained(checkpoint)
    rows = task.read([(words, ["B-LOC", "O"] * 15)])
    config = tiny_config(**task.config(rows))
    examples = task.encode(rows, tokenizer, config, 12)
    labels = {}
    for example in examples:
        for word, label in zip(example["words"], example["labels"], strict=True):
            if word >= 0:
                assert word == len(labels)
                labels[word] = config.id2label[label]
    assert list(labels.values()) == rows[0].values["tags"]
    assert max(map(length, examples)) <= 12
    model = BertForTokenClassification.from_pretrained(checkpoint, **task.config(rows))
    with torch.no_grad():
        model.classifier.weight.zero_()
        model.classifier.bias.copy_(torch.tensor([1.0, 0.0]))  # predicts B-LOC for every word
    assert task.score(rows, task.predict(model, rows, examples)).metrics["precision"] == 0.5


@pytest.mark.parametrize("score", ["nan", "inf", ""])
def test_scores_that_are_not_numbers_raise_an_error(
    score: str, checkpoint: str, tmp_path: Path
) -> None:
    (tmp_path / "a.tsv").write_text(f"text\tlabel\nw1\t1\nw2\t{score}\n", encoding="utf-8")
    files = [tmp_path / "a.tsv"] * 2
    with pytest.raises(
        ValueError, match=rf"line 3: label.*(should be a finite number, not '{score}'|is empty)"
    ):
        run(SequenceTask(regression=True), checkpoint, files, tmp_path / "out")


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["1"] * 60, "All rows have the label '1': there is nothing to learn from a single class"),
        (
            [f"w{n}" for n in range(60)],
            "Column 'label' holds 60 different labels in 60 rows: name a column of classes",
        ),
    ],
)
def test_columns_without_classes_raise_an_error(
    labels: list[str], message: str, checkpoint: str, tmp_path: Path
) -> None:
    rows = "".join(f"w1 w2\t{label}\n" for label in labels)
    (tmp_path / "a.tsv").write_text("text\tlabel\n" + rows, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        run(SequenceTask(), checkpoint, [tmp_path / "a.tsv"] * 2, tmp_path / "out")


def test_class_weights_balance_rare_and_frequent_classes(checkpoint: str) -> None:
    values = [{"text": "w1 w2", "label": "often"}] * 3 + [{"text": "w3", "label": "seldom"}]
    task = SequenceTask(class_weights=True)
    rows = task.read(values)
    tokenizer, config = BertTokenizer.from_pretrained(checkpoint), tiny_config(**task.config(rows))
    examples = task.encode(rows, tokenizer, config, 16)
    assert [example["weight"] for example in examples] == pytest.approx([4 / 6, 4 / 6, 4 / 6, 2])
    model, batch = BertForSequenceClassification(config).eval(), pack(examples)
    logits = model(input_ids=batch["input_ids"], layout=batch["layout"]).logits
    expected = torch.nn.functional.cross_entropy(
        logits, batch["labels"], torch.tensor([4 / 6, 2.0]), reduction="sum"
    )
    torch.testing.assert_close(task.loss(model, batch)["labels"], expected)


def test_texts_of_unknown_words_are_reported(
    checkpoint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a.tsv"
    file.write_text("text\tlabel\n나는 한국을 사랑한다\t1\n나는 한국을 본다\t0\n", encoding="utf-8")
    options = TrainingOptions(steps=1)
    finetune(SequenceTask(), checkpoint, file, file, tmp_path / "out", options)
    assert "this model's vocabulary cannot read 2 of 2 texts" in capsys.readouterr().err


def test_examples_have_no_more_tokens_than_the_model_has_positions(
    checkpoint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.tsv").write_text(
        "text\tlabel\n" + "w1 " * 100 + "\t1\nw2\t0\n", encoding="utf-8"
    )
    files = [tmp_path / "a.tsv"] * 2
    run(SequenceTask(), checkpoint, files, tmp_path / "out", max_length=1000)
    told = capsys.readouterr().err
    assert "max_length is 64, not 1000: the model has no more positions" in told
    assert "50.0% of the texts are truncated" in told


def test_a_length_without_room_for_a_token_raises_an_error(
    checkpoint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [write_reviews(tmp_path / "a.tsv", 40, 0)] * 2
    task = SequenceTask(Table("review", label="verdict"))
    with pytest.raises(ValueError, match="max_length should be a whole number of 3 or more"):
        run(task, checkpoint, files, tmp_path / "out", max_length=2)
    assert "truncated" not in capsys.readouterr().err


def test_the_command(checkpoint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [write_reviews(tmp_path / f"{seed}.tsv", 40, seed) for seed in range(2)]
    command = ["finetune", "classification", "--model", checkpoint]
    command += ["--train", str(files[0]), "--dev", str(files[1])]
    command += ["--text-column", "review", "--label-column", "verdict"]
    command += ["--epochs", "1", "--output", str(tmp_path / "out"), "--json"]
    assert main(command) == 0
    assert json.loads(capsys.readouterr().out).keys() == {"output", "accuracy", "f1", "loss"}
    assert BertForSequenceClassification.from_pretrained(tmp_path / "out").config.num_labels == 2
    assert main(command) == 1
    message = capsys.readouterr().err
    assert message.startswith("minibert finetune: ") and message.count("\n") == 1
    assert "already holds a run: pass --resume" in message


LEARNED = re.compile(r"(\d+) of the 8 rows that are held out were in the training data of (\S+),")


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("with another seed", True),
        ("a run between", True),
        ("with the same seed", False),
        ("without states", False),
        ("on other rows", False),
        ("a row was added since", False),
        ("the file is gone", False),
    ],
)
def test_held_out_rows_that_the_model_has_learned_from_are_counted(
    before: str, expected: bool, checkpoint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = write_reviews(tmp_path / "first.tsv", 80, 0)
    other = write_reviews(tmp_path / "other.tsv", 80, 1)

    def start(model: str, train: Path, output: str, *more: str) -> str:
        command = ["finetune", "classification", "--model", model, "--train", str(train)]
        command += ["--text-column", "review", "--label-column", "verdict", "--steps", "1"]
        folder = str(tmp_path / output)
        capsys.readouterr()
        assert main([*command, "--output", folder, *more]) == 0
        return folder

    keep = ("--keep-states", "0") if before == "without states" else ()
    model = start(checkpoint, other if before == "on other rows" else first, "one", *keep)
    if before == "a run between":
        model = start(model, other, "two")
    lines = first.read_text(encoding="utf-8").splitlines()[1:]
    again = first
    if before == "the file is gone":
        again = first.rename(tmp_path / "again.tsv")
    if before == "a row was added since":
        again = tmp_path / "again.tsv"
        again.write_bytes(first.read_bytes())
        first.write_text(first.read_text(encoding="utf-8") + "\nw1 good\tgood!", encoding="utf-8")
    start(model, again, "last", "--seed", "0" if before == "with the same seed" else "1")

    match = LEARNED.search(capsys.readouterr().err)
    if not expected:
        assert match is None
        return
    labels = [line.split("\t")[1] for line in lines]
    learned, _ = hold_out(lines, labels, 0.1, 0)
    _, held_rows = hold_out(lines, labels, 0.1, 1)
    assert match and match.groups() == (str(len(set(held_rows) & set(learned))), model)


def test_without_a_dev_file_a_share_of_each_label_is_held_out(
    checkpoint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train = write_reviews(tmp_path / "train.tsv", 100, 0)
    test = write_reviews(tmp_path / "test.tsv", 50, 1)
    task = SequenceTask(Table("review", label="verdict"))
    options = replace(OPTIONS, learning_rate=None)

    scores = finetune(task, checkpoint, train, None, tmp_path / "out", options, test=test)

    printed = capsys.readouterr().err
    assert "no dev file: holding out 10 rows of" in printed
    assert "learning rate 0.001 (the default for this model)" in printed
    names = {"accuracy", "f1", "loss"}
    assert scores.keys() == names | {f"test_{name}" for name in names}
    model = BertForSequenceClassification.from_pretrained(tmp_path / "out")
    tokenizer = BertTokenizer.from_pretrained(tmp_path / "out")
    result = evaluate(
        model, tokenizer, test, text_column="review", label_column="verdict", bootstrap=0
    )
    assert result.metrics["accuracy"] == pytest.approx(scores["test_accuracy"])


def test_the_held_out_rows_are_stratified_and_reproducible() -> None:
    rows = list(range(100))
    strata = ["rare" if row < 20 else "frequent" for row in rows]
    train, held_out = hold_out(rows, strata, 0.1, seed=0)
    assert sorted([*train, *held_out]) == rows
    assert len(held_out) == 10 and sum(row < 20 for row in held_out) == 2
    assert hold_out(rows, strata, 0.1, seed=0) == (train, held_out)
    assert hold_out(rows, strata, 0.1, seed=1)[1] != held_out
    with pytest.raises(ValueError, match=r"training rows \(2\) .*pass a dev file"):
        hold_out([1, 2], ["a", "b"], 0.5, seed=0)
    with pytest.raises(ValueError, match="held_out should be .*between 0 and 1, not 1"):
        hold_out(rows, strata, 1, seed=0)


def test_predictions_truncate_as_in_training(checkpoint: str, tmp_path: Path) -> None:
    train = write_reviews(tmp_path / "train.tsv", 30, 0)
    task = SequenceTask(Table("review", label="verdict"))
    options = replace(OPTIONS, epochs=1)
    finetune(task, checkpoint, train, train, tmp_path / "out", options, max_length=6)
    model = BertForSequenceClassification.from_pretrained(tmp_path / "out")
    tokenizer = BertTokenizer.from_pretrained(tmp_path / "out")
    assert tokenizer.model_max_length == 6
    text = "w1 w2 w3 w4 good bad w5"
    assert classify(model, tokenizer, text) == classify(model, tokenizer, "w1 w2 w3 w4")


def test_more_steps_extend_a_finished_run(checkpoint: str, tmp_path: Path) -> None:
    train = write_reviews(tmp_path / "train.tsv", 30, 0)
    task = SequenceTask(Table("review", label="verdict"))
    arguments = (task, checkpoint, train, train, tmp_path / "out")
    finetune(*arguments, TrainingOptions(steps=3))
    finetune(*arguments, TrainingOptions(steps=5), resume=True)
    lines = (tmp_path / "out" / "log.jsonl").read_text(encoding="utf-8").splitlines()
    assert max(json.loads(line)["step"] for line in lines) == 5


@pytest.mark.parametrize(
    ("hidden_size", "rate"), [(768, 5e-5), (1024, 2.8e-5), (256, 4.5e-4), (128, 1e-3)]
)
def test_smaller_models_have_larger_learning_rates(hidden_size: int, rate: float) -> None:
    assert default_learning_rate(hidden_size) == rate


def test_several_labels_of_a_text(checkpoint: str, tmp_path: Path) -> None:
    """Each label is a word of the text. A text may have no label."""
    files = []
    for seed in range(2):
        rng = np.random.default_rng(seed)
        rows = []
        for _ in range(200):
            labels = [label for label in ("good", "bad", "sat") if rng.random() < 0.5]
            rows.append({"text": " ".join([*random_words(rng, 3), *labels]), "label": labels})
        files.append(tmp_path / f"{seed}.jsonl")
        files[-1].write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    options = replace(OPTIONS, epochs=12, learning_rate=6e-3)
    scores = finetune(SequenceTask(multi_label=True), checkpoint, *files, tmp_path / "out", options)
    assert scores.keys() == {"f1_micro", "f1_macro", "accuracy", "map", "loss"}
    assert scores["f1_micro"] > 0.9
    model = BertForSequenceClassification.from_pretrained(tmp_path / "out")
    assert model.config.problem_type == "multi_label_classification"
    tokenizer = BertTokenizer.from_pretrained(tmp_path / "out")
    result = evaluate(model, tokenizer, files[1], bootstrap=0)
    for name in ("map", "loss"):  # they have no thresholds
        assert result.metrics[name] == pytest.approx(scores[name])
    scored = classify(model, tokenizer, "w1 bad w2 good")
    assert len(scored) == 3
    likely = [label for label in scored if label["score"] >= 0.5]
    assert classify(model, tokenizer, "w1 bad w2 good", threshold=0.5) == likely


def test_the_loss_of_several_labels_is_that_of_torch(checkpoint: str) -> None:
    task = SequenceTask(multi_label=True)
    rows = task.read(
        [
            {"text": "w1 w2", "label": ["a", "c"]},
            {"text": "w3", "label": []},
            {"text": "w4", "label": ["b"]},
        ]
    )
    config = tiny_config(**task.config(rows))
    model = BertForSequenceClassification(config).eval()
    examples = task.encode(rows, BertTokenizer.from_pretrained(checkpoint), config, 8)
    for batch in (pack(examples), pad(examples, 0)):
        targets = torch.tensor([[1.0, 0, 1], [0, 0, 0], [0, 1, 0]])
        assert torch.equal(batch["labels"], targets)
        loss = task.loss(model, batch)["labels"] / count_labels(examples, "labels")
        names = ("input_ids", "token_type_ids", "attention_mask", "layout")
        inputs = {name: batch[name] for name in names if name in batch}
        torch.testing.assert_close(loss, model(**inputs, labels=targets).loss)


def test_rows_in_memory_train_as_their_file(checkpoint: Path, tmp_path: Path) -> None:
    rows = [{"text": f"cat {number}", "label": "ab"[number % 2]} for number in range(24)]
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    options = TrainingOptions(steps=3, batch_size=4, learning_rate=1e-3)
    task = SequenceTask()
    expected = finetune(task, checkpoint, file, None, tmp_path / "file", options, test=file)
    assert finetune(task, checkpoint, rows, None, tmp_path / "rows", options, test=rows) == expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"task": "classification"}, "task should be an object of Task, not a str"),
        ({"task": SequenceTask}, "task should be an object of Task, not a type"),
        ({"options": {"steps": 3}}, "options should be TrainingOptions, not a dict"),
    ],
)
def test_other_objects_are_refused(
    arguments: dict[str, Any], message: str, checkpoint: Path, tmp_path: Path
) -> None:
    given: dict[str, Any] = {"task": SequenceTask(), "options": None} | arguments
    with pytest.raises(TypeError, match=message):
        finetune(given["task"], checkpoint, [], None, tmp_path / "out", given["options"])
    assert not (tmp_path / "out").exists()


def test_a_task_without_metrics_is_refused(checkpoint: Path, tmp_path: Path) -> None:
    class Unscored(SequenceTask):
        metrics = ()

    with pytest.raises(ValueError, match="Unscored names no metrics"):
        finetune(Unscored(), checkpoint, [], None, tmp_path / "out")


def test_columns_of_labels_are_for_several_labels() -> None:
    with pytest.raises(ValueError, match="pass multi_label=True"):
        SequenceTask(label_columns=["a", "b"])
