"""Questions: tables of them, answers that are too long, and questions that are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from minibert import (
    BertConfig,
    BertForQuestionAnswering,
    BertTokenizer,
    answer_question,
    evaluate,
)
from minibert.encoders.folders.reading import Reading
from minibert.tasks.answers import AnswerTask, best_no_answer_threshold
from minibert.tasks.readers import read_conll, read_squad
from minibert.text import BadRow
from minibert.training.finetuning import finetune
from minibert.training.options import TrainingOptions

pytestmark = pytest.mark.usefixtures("one_thread")
CONTEXT = "Ann sings. Bob runs. Ann sleeps."


def table(tmp_path: Path, *rows: str, header: str = "question,context,answer") -> Path:
    path = tmp_path / "questions.csv"
    path.write_text("\n".join([header, *rows]), encoding="utf-8")
    return path


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "memory"])
def test_a_table_of_questions(ending: str, tmp_path: Path) -> None:
    rows = [{"question": "who runs?", "context": CONTEXT, "answer": "Bob"}]
    rows.append({"question": "who flies?", "context": CONTEXT, "answer": ""})
    frame = pd.DataFrame(rows)
    path = tmp_path / f"q.{ending}"
    data: Any = path
    if ending == "csv":
        frame.to_csv(path, index=False)
    elif ending == "tsv":
        frame.to_csv(path, index=False, sep="\t")
    elif ending == "jsonl":
        frame.to_json(path, orient="records", lines=True)
    else:
        data = frame
    answered, other = read_squad(data)
    assert answered.values == {
        "question": "who runs?",
        "context": CONTEXT,
        "answers": ["Bob"],
        "starts": [11],
    }
    assert other.values["answers"] == []


def test_the_place_of_an_answer_is_found_where_it_stands_once(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"line 2.*2 times.*answer_start"):
        read_squad(table(tmp_path, f"who?,{CONTEXT},Ann"))
    path = table(
        tmp_path,
        f"who?,{CONTEXT},Ann,21",
        f"who?,{CONTEXT},Bob,",
        header="question,context,answer_text,answer_start",
    )
    assert [row.values["starts"] for row in read_squad(path)] == [[21], [11]]


@pytest.mark.parametrize("answer", ["Eve", "ann sings"])
def test_an_answer_that_does_not_stand_in_its_context_is_refused(
    answer: str, tmp_path: Path
) -> None:
    path = table(tmp_path, f"who?,{CONTEXT},Bob", f"who?,{CONTEXT},{answer}")
    with pytest.raises(ValueError, match="line 3.*not in the context"):
        read_squad(path)
    skipped: list[BadRow] = []
    assert len(read_squad(path, skip=skipped)) == len(skipped) == 1


def test_other_columns_are_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"q, text.*question, context and answer"):
        read_squad(table(tmp_path, "who?,Ann sings.", header="q,text"))


def long_answers() -> list[dict[str, Any]]:
    context = " ".join(["tea"] * 45)
    return [{"question": "what?", "context": f"So {context}.", "answers": [context]}] * 3


def test_answers_that_are_never_predicted_are_counted() -> None:
    tokenizer = BertTokenizer.from_pretrained("minibert-tiny")
    for task, count in ((AnswerTask(), 1), (AnswerTask(max_answer_length=50), 0)):
        rows = task.read(long_answers())
        config = BertConfig.from_pretrained("minibert-tiny", **task.config(rows))
        examples = task.encode(rows, tokenizer, config, 128)
        notices = task.notices(rows, examples, config)
        assert len(notices) == count
        if count:
            assert "3 of 3" in notices[0] and "30" in notices[0] and "45" in notices[0]


def test_the_longest_answer_is_kept(tmp_path: Path) -> None:
    options = TrainingOptions(steps=30, learning_rate=1e-3)
    task = AnswerTask(max_answer_length=50)
    scores = finetune(task, "minibert-tiny", long_answers(), long_answers(), tmp_path, options)
    assert scores["exact_match"] == 1
    model = BertForQuestionAnswering.from_pretrained(tmp_path)
    tokenizer = BertTokenizer.from_pretrained(tmp_path)
    for arguments, exact in (({}, 1), ({"max_answer_length": 30}, 0)):
        result = evaluate(model, tokenizer, long_answers(), bootstrap=0, **arguments)
        assert result.metrics["exact_match"] == exact


@pytest.mark.parametrize("rows", ["training", "evaluation"])
def test_a_question_that_is_too_long_is_a_bad_row(rows: str, tmp_path: Path) -> None:
    good = {"question": "who?", "context": "Ann sings.", "answers": ["Ann"]}
    long = {**good, "question": "who " * 40}
    data = {"training": ([good, long], [good]), "evaluation": ([good], [long, good])}[rows]
    options = TrainingOptions(steps=1)
    arguments = (AnswerTask(), "minibert-tiny", *data)
    with pytest.raises(ValueError, match=r"row \d: the question.*skip_bad_rows"):
        finetune(*arguments, tmp_path / "a", options, max_length=32)
    finetune(*arguments, tmp_path / "b", options, max_length=32, skip_bad_rows=True)
    model = BertForQuestionAnswering.from_pretrained(tmp_path / "b")
    tokenizer = BertTokenizer.from_pretrained(tmp_path / "b")
    with pytest.raises(ValueError, match="skip_bad_rows"):
        evaluate(model, tokenizer, [long, good], bootstrap=0)
    with pytest.warns(UserWarning, match="1 bad row left out"):
        result = evaluate(model, tokenizer, [long, good], bootstrap=0, skip_bad_rows=True)
    assert (result.rows, result.skipped) == (1, 1)


@pytest.mark.parametrize(
    "wrong", [b"\xed\xa0\xbd O\n", b"Ann B-PER NNP\n", b"Ann\n", b"Ann http://x\n"]
)
def test_a_wrong_sentence_is_left_out_and_counted(wrong: bytes, tmp_path: Path) -> None:
    path = tmp_path / "w.conll"
    path.write_bytes(b"Ann B-PER\nsings O\n\n" * 4 + b"so O\n" + wrong * 2 + b"\nshe O\n")
    with pytest.raises(ValueError, match="line 14"):
        read_conll(path)
    skipped: list[BadRow] = []
    rows = read_conll(path, skip=skipped)
    assert [row.values["tokens"] for row in rows] == [["Ann", "sings"]] * 4 + [["she"]]
    assert [row.place for row in skipped] == [f"{path}, line 14"]


@pytest.mark.parametrize("separator", ["\t", " "])
def test_columns_the_other_way_round_are_refused(separator: str, tmp_path: Path) -> None:
    path = tmp_path / "t.bio"
    lines = ["O play", "B-Title blue", "E-Title river", "", "O who", "S-Actor I", ""]
    path.write_text("\n".join(line.replace(" ", separator) for line in lines), encoding="utf-8")
    with pytest.raises(ValueError, match="first column has the tags"):
        read_conll(path)


@pytest.mark.parametrize(
    "tags",
    ["B_LC I O", "B-LC I O", "B:LC I:LC O", "B.LC I.LC O", "B/LC I/LC O", "b-lc i-lc o", "LC-B O"],
)
def test_other_spellings_of_tags_are_refused(tags: str) -> None:
    words = [([f"w{n}" for n in range(len(tags.split()))], tags.split())]
    with pytest.raises(ValueError, match="B-KIND"):
        read_conll(words)


@pytest.mark.parametrize(
    "tags", ["B-LC I-LC O", "B I O", "LC PER O", "S-LC U-PER O", "E-mail S_x O PER", "NN VB O"]
)
def test_tags_as_they_are_used_are_read(tags: str) -> None:
    words = [([f"w{n}" for n in range(len(tags.split()))], tags.split())]
    assert read_conll(words)[0].values["tags"] == tags.split()


def squad_best_threshold(
    doubts: dict[int, float], scores: dict[int, float], has_answer: dict[int, bool]
) -> float:
    """The best F1 of `find_best_thresh_v2` of SQuAD's script, whose predictions all have words."""
    current = float(sum(not answered for answered in has_answer.values()))
    best = current
    for question in sorted(doubts, key=lambda question: doubts[question]):
        current += scores[question] if has_answer[question] else -1
        best = max(best, current)
    return best / len(scores)


@pytest.mark.parametrize("seed", range(50))
def test_the_threshold_of_no_answer_is_that_of_squads_script(seed: int) -> None:
    rng = np.random.default_rng(seed)
    count = int(rng.integers(2, 30))
    has_answer = rng.random(count) < 0.5
    doubts = rng.permutation(count) - rng.random() * count
    gains = np.where(has_answer, rng.random(count).round(1), 0)
    threshold = best_no_answer_threshold(doubts, gains, has_answer)
    f1 = np.where(doubts <= threshold, gains, ~has_answer).mean()
    columns = [dict(enumerate(column.tolist())) for column in (doubts, gains, has_answer)]
    assert f1 == pytest.approx(squad_best_threshold(*columns))


def test_the_threshold_of_no_answer_is_chosen_and_kept(tmp_path: Path) -> None:
    rows = [
        {"question": "who?", "context": f"{name} sings.", "answers": answers}
        for name, answers in (("Ann", ["Ann"]), ("Bob", []), ("Eve", ["Eve"]), ("Tim", []))
    ] * 4
    task = AnswerTask(fit_no_answer=True)
    options = TrainingOptions(steps=3, learning_rate=1e-3)
    scores = finetune(task, "minibert-tiny", rows, rows, tmp_path, options)
    model = BertForQuestionAnswering.from_pretrained(tmp_path)
    threshold = Reading.of(model.config).no_answer_threshold
    assert threshold is not None
    tokenizer = BertTokenizer.from_pretrained(tmp_path)
    kept = evaluate(model, tokenizer, rows, bootstrap=5).metrics
    assert {"has_answer_f1", "has_answer_exact_match", "no_answer_exact_match"} <= kept.keys()
    assert kept.keys() == scores.keys()
    for other in (-50.0, 0.0, 50.0):
        result = evaluate(model, tokenizer, rows, bootstrap=0, no_answer_threshold=other)
        assert result.metrics["f1"] <= kept["f1"] + 1e-9
    answers = answer_question(
        model, tokenizer, [row["question"] for row in rows], [row["context"] for row in rows]
    )
    for row, answer in zip(rows, answers, strict=True):
        is_none = answer["no_answer_score"] - answer["score"] > threshold
        assert (answer["answer"] == "") == is_none, row


def test_a_threshold_is_for_models_that_may_not_answer() -> None:
    with pytest.raises(ValueError, match="fit_no_answer"):
        AnswerTask(fit_no_answer=True, no_answer=False)
    with pytest.raises(ValueError, match="drop one"):
        AnswerTask(fit_no_answer=True, no_answer_threshold=1.0)
