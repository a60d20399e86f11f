"""Characters without a token: in words, at the ends of answers, and in files of characters."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from seqeval.metrics import accuracy_score, f1_score, precision_score, recall_score
from seqeval.metrics.sequence_labeling import get_entities

from minibert import BertForQuestionAnswering, BertForTokenClassification, BertTokenizer
from minibert.encoders.rows.windows import behind_marks
from minibert.tasks.answers import AnswerTask
from minibert.tasks.tokens import TokenTask

pytestmark = [
    pytest.mark.usefixtures("one_thread"),
    pytest.mark.filterwarnings("ignore:.*newly initialized", "ignore:.*seems not to be NE tag"),
]
VANISHING = ["\u200b", "\u200d", "\u00ad", "\ufffd", "\u0007", "\ue000", "\u3000", "\u0301"]
SCHEMES = {
    "IOB2": ["O", "B-X", "I-X", "B-Y", "I-Y"],
    "IOE": ["O", "I-X", "E-X", "I-Y", "E-Y"],
    "BIOES": ["O", *(f"{prefix}-{kind}" for kind in "XY" for prefix in "BIES")],
    "IO": ["O", "I-X", "I-Y"],
}


def predict(checkpoint: str, data: list[Any], wrong: float = 0.0) -> tuple[Any, Any]:
    """The rows, and predictions of a model that knows the right tag of most tokens."""
    task = TokenTask()
    rows = task.read(data)
    names = task.config(rows)["id2label"]
    model = BertForTokenClassification.from_pretrained(checkpoint, **task.config(rows)).eval()
    examples = task.encode(rows, BertTokenizer.from_pretrained(checkpoint), model.config, 64)
    rng = random.Random(0)
    logits = []
    for example in examples:
        best = torch.tensor(example["labels"]).clamp(min=0)
        for position in range(len(best)):
            if rng.random() < wrong:
                best[position] = rng.randrange(len(names))
        logits.append(torch.nn.functional.one_hot(best, len(names)).float() * 9)

    def outputs(*_: Any, **__: Any) -> list[torch.Tensor]:
        return logits

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("minibert.tasks.tokens.outputs_of", outputs)
        return rows, task.predict(model, rows, examples)


@pytest.mark.parametrize("vanishing", VANISHING)
@pytest.mark.parametrize(
    ("checkpoint", "words", "tags"),
    [
        ("minibert-tiny", ["ann", "{}", "lee", "sings"], ["B-PER", "I-PER", "I-PER", "O"]),
        ("minibert-tiny", ["ann", "lee", "{}", "sings"], ["B-PER", "I-PER", "O", "O"]),
        ("minibert-ko", [*"민수", "{}", *" 가"], ["B-PER", "I-PER", "O", "O", "O"]),
        ("minibert-ko", [*"민", "{}", *"수 가"], ["B-PER", "I-PER", "I-PER", "O", "O"]),
    ],
)
def test_a_word_without_a_token_cuts_no_name(
    checkpoint: str, words: list[str], tags: list[str], vanishing: str
) -> None:
    filled = [word.format(vanishing) for word in words]
    tags = list(tags)
    data = [(filled, tags), (["a", "b"] if checkpoint == "minibert-tiny" else ["가"], ["O"] * 2)]
    if checkpoint == "minibert-ko":
        data[1] = (["가"], ["O"])
        if vanishing == "\u0301":  # which a cased vocabulary keeps in the piece
            tags[2] = "I-PER"
    rows, predictions = predict(checkpoint, data)
    assert TokenTask().score(rows, predictions).metrics["f1"] == 1.0
    assert len(predictions[0].tags) == len(words)


def compare_with_seqeval(scheme: str, count: int) -> None:
    """Random sentences with words without a token, scored by ours and by seqeval."""
    rng = random.Random(scheme)
    labels = SCHEMES[scheme]
    data = []
    for _ in range(count):
        size = rng.randint(2, 8)
        words = [rng.choice(VANISHING) if rng.random() < 0.2 else "ann" for _ in range(size)]
        words.append("lee")
        data.append((words, [rng.choice(labels) for _ in words]))
    rows, predictions = predict("minibert-tiny", data, wrong=0.3)
    expected, predicted = [], []
    for (words, tags), prediction in zip(data, predictions, strict=True):
        kept = [index for index, word in enumerate(words) if word in ("ann", "lee")]
        expected.append([tags[index] for index in kept])
        predicted.append([prediction.tags[index] for index in kept])
    scores = TokenTask().score(rows, predictions).metrics
    for name, metric in (("f1", f1_score), ("precision", precision_score)):
        assert scores[name] == pytest.approx(metric(expected, predicted)), name
    assert scores["recall"] == pytest.approx(recall_score(expected, predicted))
    assert scores["accuracy"] == pytest.approx(accuracy_score(expected, predicted))
    assert get_entities(expected)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_scores_are_those_of_seqeval_for_the_words_that_are_read(scheme: str) -> None:
    compare_with_seqeval(scheme, 300)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", SCHEMES)
def test_twenty_thousand_sentences_score_as_with_seqeval(scheme: str) -> None:
    compare_with_seqeval(scheme, 20_000)


@pytest.mark.parametrize(
    ("context", "answer"),
    [
        ("She met Jose\u0301 there.", "Jose\u0301"),
        ("वह गुरु है", "गुरु"),
        ("She met \u200eAnn\u200e.", "\u200eAnn\u200e"),
        ("She met \ufeffAnn.", "\ufeffAnn"),
        ("She met Ann\u00ad there.", "Ann\u00ad"),
        ("He met שָׁלוֹם there.", "שָׁלוֹם"),
        ("She met Ann.", "Ann"),
    ],
)
def test_an_answer_has_the_tokens_that_overlap_with_it(context: str, answer: str) -> None:
    tokenizer = BertTokenizer.from_pretrained("minibert-tiny")
    config = BertForQuestionAnswering.from_pretrained("minibert-tiny").config
    task = AnswerTask()
    rows = task.read([{"question": "who?", "context": context, "answers": [answer]}])
    (example,) = task.encode(rows, tokenizer, config, 64)
    start, end = example["start_positions"], example["end_positions"]
    assert start > 0
    first, last = example["offsets"][start, 0], example["offsets"][end, 1]
    begin = context.index(answer)
    assert begin <= first < last <= begin + len(answer)
    assert not task.notices(rows, [example], config)


@pytest.mark.parametrize("max_length", range(12, 20))
def test_one_window_at_least_has_the_whole_answer(max_length: int) -> None:
    """And no window has a part of it."""
    tokenizer = BertTokenizer.from_pretrained("minibert-tiny")
    config = BertForQuestionAnswering.from_pretrained("minibert-tiny").config
    context = "one two three four Ann Jose\u0301 five six seven eight nine ten " * 2
    rows = AnswerTask().read(
        [{"question": "who?", "context": context, "answers": ["Ann Jose\u0301"]}]
    )
    examples = AnswerTask().encode(rows, tokenizer, config, max_length)
    placed = [example for example in examples if example["start_positions"]]
    assert placed
    for example in placed:
        ids = example["input_ids"][example["start_positions"] : example["end_positions"] + 1]
        assert tokenizer.decode(ids.tolist()) == "ann jose"


@pytest.mark.parametrize(
    ("text", "end", "expected"),
    [("Jose\u0301 x", 4, 5), ("गुरु है", 3, 4), ("Ann.", 3, 3), ("नमस्\u200dते", 4, 5), ("Ann", 3, 3)],
)
def test_a_span_takes_the_marks_of_its_last_character(text: str, end: int, expected: int) -> None:
    assert behind_marks(text, end) == expected
