"""Random labels and predictions, scored by minibert and by the field's libraries and scripts."""

from __future__ import annotations

import itertools
import math
import re
import string
import warnings
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, strategies as st
from programs import assert_same, programs
from scipy import stats
from seqeval import metrics as seqeval, scheme as schemes
from sklearn import metrics as sklearn

from minibert.tasks.metrics import (
    answer_agreements,
    answer_scores,
    area_under_curve,
    average_ranks,
    class_scores_of_counts,
    classification_scores,
    confusion_counts,
    confusion_matrix,
    entity_scores,
    matthews_correlation,
    mean_average_precision,
    multi_label_scores,
    ranking_scores,
    regression_scores,
)

pytestmark = pytest.mark.filterwarnings("ignore")  # of libraries, about classes without rows
TOLERANCE = 1e-9


@st.composite
def label_pairs(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    """Labels and predictions of up to 20 rows."""
    classes = draw(st.integers(1, 5))
    label = st.integers(0, classes - 1)
    rows = draw(st.lists(st.tuples(label, label), min_size=1, max_size=20))
    return [expected for expected, _ in rows], [predicted for _, predicted in rows]


@programs("metrics", share=1 / 9, quick=10, pair=label_pairs())
def test_one_class_a_row(pair: tuple[list[int], list[int]]) -> None:
    expected, predicted = pair
    scores = classification_scores(expected, predicted)
    assert_same(scores["accuracy"], float(sklearn.accuracy_score(*pair)), TOLERANCE)
    assert_same(scores["f1"], float(sklearn.f1_score(*pair, average="macro")), TOLERANCE)
    matthews = float(sklearn.matthews_corrcoef(*pair))
    assert_same(matthews_correlation(*pair), matthews, TOLERANCE)

    classes = 1 + max(expected + predicted)
    confusion = confusion_matrix(expected, predicted, classes)
    assert np.array_equal(confusion, sklearn.confusion_matrix(*pair, labels=range(classes)))
    found = class_scores_of_counts([str(i) for i in range(classes)], confusion_counts(confusion))
    columns = sklearn.precision_recall_fscore_support(*pair, labels=range(classes), zero_division=0)
    rows = [(row.precision, row.recall, row.f1, row.support) for row in found]
    np.testing.assert_allclose(rows, np.transpose(columns), rtol=0, atol=TOLERANCE)


SCORES = st.one_of(
    st.floats(-1e6, 1e6),
    st.floats(0, 1, width=32),
    st.sampled_from([0.0, -0.0, 0.25, 0.5, 1.0, -1.0, 1e-300, 5e-324]),
)


@programs("metrics", share=1 / 9, quick=10, data=st.data())
def test_several_classes_a_row(data: st.DataObject) -> None:
    rows, classes = data.draw(st.integers(1, 12)), data.draw(st.integers(1, 4))
    shape = (rows, classes)
    flags = st.lists(st.booleans(), min_size=rows * classes, max_size=rows * classes)
    expected = np.array(data.draw(flags)).reshape(shape)
    predicted = np.array(data.draw(flags)).reshape(shape)
    values = st.lists(SCORES, min_size=rows * classes, max_size=rows * classes)
    scores = np.array(data.draw(values)).reshape(shape)

    found = multi_label_scores(expected, predicted)
    # one column would be read as one class a row
    truth, guesses = (np.hstack([x, np.zeros((rows, 1), bool)]) for x in (expected, predicted))
    options: dict[str, Any] = {"labels": range(classes), "zero_division": 0}
    assert_same(
        found,
        {
            "f1_micro": float(sklearn.f1_score(truth, guesses, average="micro", **options)),
            "f1_macro": float(sklearn.f1_score(truth, guesses, average="macro", **options)),
            "accuracy": float(sklearn.accuracy_score(truth, guesses)),
        },
        TOLERANCE,
    )

    columns = range(classes)
    areas = [
        sklearn.roc_auc_score(expected[:, i], scores[:, i])
        for i in columns
        if expected[:, i].any() and not expected[:, i].all()
    ]
    area = float(np.mean(areas)) if areas else math.nan
    assert_same(area_under_curve(expected, scores), area, TOLERANCE)
    precisions = [
        sklearn.average_precision_score(expected[:, i], scores[:, i])
        for i in columns
        if expected[:, i].any()
    ]
    precision = float(np.mean(precisions)) if precisions else 0.0
    assert_same(mean_average_precision(expected, scores), precision, TOLERANCE)


@programs(
    "metrics",
    share=1 / 9,
    quick=10,
    documents=st.lists(
        st.tuples(st.integers(-1, 3) | st.floats(0, 5), st.sampled_from([0.0, 0.5, 1.0]) | SCORES),
        min_size=2,
        max_size=7,
    ),
    k=st.integers(1, 10),
)
def test_one_query(documents: list[tuple[float, float]], k: int) -> None:
    relevance, scores = np.array(documents, dtype=np.float64).T
    found = ranking_scores(relevance, scores, k)
    relevance = np.maximum(relevance, 0)
    if not relevance.any():
        assert found.tolist() == [0.0, 0.0]
        return
    # scikit-learn divides by gains, which may be denormal
    assume(relevance[relevance > 0].min() > 1e-9)
    expected = sklearn.ndcg_score(relevance[None], scores[None], k=k)
    np.testing.assert_allclose(found[1], expected, rtol=0, atol=TOLERANCE)

    first = []  # rank of the first relevant document, in every order of equal scores
    for order in itertools.permutations(range(len(scores))):
        ranked = scores[list(order)]
        if (np.diff(ranked) <= 0).all():
            first.append(1 + int(np.argmax(relevance[list(order)] > 0)))
    rank = float(np.mean(first))
    expected = 1 / rank if rank <= k + TOLERANCE else 0.0
    np.testing.assert_allclose(found[0], expected, rtol=0, atol=TOLERANCE)


NUMBERS = st.one_of(
    st.integers(-5, 5).map(float), st.floats(-1e3, 1e3, width=32), st.floats(1e6, 1e6 + 1)
)


@programs(
    "metrics",
    share=1 / 9,
    quick=10,
    pairs=st.lists(st.tuples(NUMBERS, NUMBERS), min_size=2, max_size=20),
)
def test_numbers(pairs: list[tuple[float, float]]) -> None:
    expected, predicted = np.array(pairs, dtype=np.float64).T
    found = regression_scores(expected.tolist(), predicted.tolist())
    squares = float(sklearn.mean_squared_error(expected, predicted))
    np.testing.assert_allclose(found["mse"], squares, rtol=1e-12)
    absolute = float(sklearn.mean_absolute_error(expected, predicted))
    np.testing.assert_allclose(found["mae"], absolute, rtol=1e-12)
    assert np.array_equal(average_ranks(expected), stats.rankdata(expected))
    if np.ptp(expected) == 0 or np.ptp(predicted) == 0:
        assert found["pearson"] == found["spearman"] == 0
        return
    spearman = float(stats.spearmanr(expected, predicted).statistic)
    assert_same(found["spearman"], spearman, TOLERANCE)
    with warnings.catch_warnings():
        warnings.simplefilter("error", stats.NearConstantInputWarning)
        try:
            pearson = float(stats.pearsonr(expected, predicted).statistic)
        except stats.NearConstantInputWarning:  # rounding decides
            return
    assert_same(found["pearson"], pearson, 1e-7)


KINDS = ("PER", "LOC", "per-son")
# of an entity: alone, its first, a middle and its last word
SCHEMES = {
    "IOB1": (schemes.IOB1, ""),  # with B or E only where it touches another of its kind
    "IOE1": (schemes.IOE1, ""),
    "IOB2": (schemes.IOB2, "BBII"),
    "IOE2": (schemes.IOE2, "EIIE"),
    "BIOES": (schemes.IOBES, "SBIE"),
    "BMES": (schemes.IOBES, "SBME"),
    "BILOU": (schemes.BILOU, "UBIL"),
}
chunks = st.lists(
    st.tuples(st.sampled_from([None, *KINDS]), st.integers(1, 3)), min_size=1, max_size=6
)


def tags_of(entities: list[tuple[str | None, int]], scheme: str) -> list[str]:
    """The tags of a sentence in a scheme. An entity is its kind, or None, and its words."""
    tags: list[str] = []
    for index, (kind, words) in enumerate(entities):
        if kind is None:
            tags.extend(["O"] * words)
            continue
        if scheme == "IOB1":
            is_next = index > 0 and entities[index - 1][0] == kind
            prefixes = "B" * is_next + "I" * (words - is_next)
        elif scheme == "IOE1":
            is_next = index + 1 < len(entities) and entities[index + 1][0] == kind
            prefixes = "I" * (words - is_next) + "E" * is_next
        else:
            alone, first, middle, last = SCHEMES[scheme][1]
            prefixes = alone if words == 1 else first + middle * (words - 2) + last
        tags.extend(f"{prefix}-{kind}" for prefix in prefixes)
    return tags


def scores_of_seqeval(expected: Any, predicted: Any, **options: Any) -> dict[str, float]:
    """What `entity_scores` gives, by seqeval."""
    options["zero_division"] = 0
    scores = {
        "f1": seqeval.f1_score(expected, predicted, **options),
        "macro_f1": seqeval.f1_score(expected, predicted, average="macro", **options),
        "precision": seqeval.precision_score(expected, predicted, **options),
        "recall": seqeval.recall_score(expected, predicted, **options),
        "accuracy": seqeval.accuracy_score(expected, predicted),
    }
    return {name: 0.0 if np.isnan(value) else float(value) for name, value in scores.items()}


@programs(
    "metrics",
    share=1 / 9,
    quick=10,
    scheme=st.sampled_from(list(SCHEMES)),
    sentences=st.lists(st.tuples(chunks, chunks), min_size=1, max_size=4),
)
def test_entities_in_a_scheme(scheme: str, sentences: list[Any]) -> None:
    """Tags that follow a scheme, in the strict mode of seqeval, which counts nothing else."""
    expected, predicted = [], []
    for right, guess in sentences:
        tags = (tags_of(right, scheme), tags_of(guess, scheme))
        longest = max(map(len, tags))
        expected.append(tags[0] + ["O"] * (longest - len(tags[0])))
        predicted.append(tags[1] + ["O"] * (longest - len(tags[1])))
    found = entity_scores(expected, predicted)
    if scheme == "BMES":  # which seqeval has under the names of IOBES
        expected, predicted = (
            [[tag.replace("M-", "I-", 1) for tag in tags] for tags in part]
            for part in (expected, predicted)
        )
    # The strict IOE1 of seqeval knows no entity of one word before another of its kind.
    is_lone_end = scheme == "IOE1" and any(
        tag[0] == "E" and before != f"I{tag[1:]}"
        for tags in [*expected, *predicted]
        for before, tag in itertools.pairwise(["O", *tags])
    )
    if not is_lone_end:
        strict = scores_of_seqeval(expected, predicted, mode="strict", scheme=SCHEMES[scheme][0])
        assert_same(found, strict, TOLERANCE)
    if scheme != "BILOU":  # whose L- and U- seqeval has in strict mode only
        assert_same(found, scores_of_seqeval(expected, predicted), TOLERANCE)


tagged = st.sampled_from(["O", *(f"{prefix}-{kind}" for prefix in "BIES" for kind in KINDS[:2])])


@st.composite
def tag_pairs(draw: st.DrawFn, tags: st.SearchStrategy[str]) -> tuple[list[Any], list[Any]]:
    """Tags and predictions of up to four sentences."""
    sentence = st.lists(st.tuples(tags, tags), min_size=1, max_size=8)
    sentences = draw(st.lists(sentence, min_size=1, max_size=4))
    right, guesses = ([[pair[i] for pair in row] for row in sentences] for i in (0, 1))
    return right, guesses


@programs("metrics", share=1 / 9, quick=10, pair=tag_pairs(tagged | st.sampled_from("BIES")))
def test_entities_of_any_tags(pair: tuple[list[Any], list[Any]]) -> None:
    """Tags that follow no scheme, as models predict them, in the default mode of seqeval."""
    assert_same(entity_scores(*pair), scores_of_seqeval(*pair), TOLERANCE)


def ends(last: str, last_kind: str, prefix: str, kind: str) -> bool:
    """Whether a chunk ends before a word: `endOfChunk` of conlleval.pl."""
    pairs = ("BB", "BO", "IB", "IO", "EE", "EI", "EO")
    return last + prefix in pairs or (last != "O" and last_kind != kind)


def begins(last: str, last_kind: str, prefix: str, kind: str) -> bool:
    """Whether a chunk begins with a word: `startOfChunk` of conlleval.pl."""
    pairs = ("BB", "IB", "OB", "OI", "EE", "EI", "OE")
    return last + prefix in pairs or (prefix != "O" and last_kind != kind)


def scores_of_conlleval(expected: list[list[str]], predicted: list[list[str]]) -> dict[str, float]:
    """What conlleval.pl prints, as shares: one pass over the words, with a break after each row."""
    right = found = wanted = words = right_tags = 0
    is_right = False
    last, guess_last = ("O", ""), ("O", "")
    for tags, guesses in zip(expected, predicted, strict=True):
        for tag, guess in [*zip(tags, guesses, strict=True), ("", "")]:
            prefix, _, kind = (tag or "O").partition("-")
            guess_prefix, _, guess_kind = (guess or "O").partition("-")
            end = ends(*last, prefix, kind)
            guess_end = ends(*guess_last, guess_prefix, guess_kind)
            if is_right:
                if end and guess_end and last[1] == guess_last[1]:
                    is_right = False
                    right += 1
                elif end != guess_end or kind != guess_kind:
                    is_right = False
            begin = begins(*last, prefix, kind)
            guess_begin = begins(*guess_last, guess_prefix, guess_kind)
            if begin and guess_begin and kind == guess_kind:
                is_right = True
            wanted += begin
            found += guess_begin
            if tag:
                words += 1
                right_tags += (prefix, kind) == (guess_prefix, guess_kind)
            last, guess_last = (prefix, kind), (guess_prefix, guess_kind)
    precision = right / found if found else 0.0
    recall = right / wanted if wanted else 0.0
    total = precision + recall
    return {
        "f1": 2 * precision * recall / total if total else 0.0,
        "precision": precision,
        "recall": recall,
        "accuracy": right_tags / words,
    }


# conlleval.pl has no rule for B- behind E-, which no scheme of its time has
@programs(
    "metrics", share=1 / 9, quick=10, pair=tag_pairs(tagged.filter(lambda tag: tag[0] in "BIO"))
)
def test_chunks_that_begin_with_b(pair: tuple[list[Any], list[Any]]) -> None:
    found = entity_scores(*pair)
    del found["macro_f1"]
    assert_same(found, scores_of_conlleval(*pair), TOLERANCE)


@programs(
    "metrics", share=1 / 9, quick=10, pair=tag_pairs(tagged.filter(lambda tag: tag[0] in "IEO"))
)
def test_chunks_that_end_with_e(pair: tuple[list[Any], list[Any]]) -> None:
    found = entity_scores(*pair)
    del found["macro_f1"]
    assert_same(found, scores_of_conlleval(*pair), TOLERANCE)


def normalized(text: str) -> str:
    """`normalize_answer` of SQuAD's scripts."""
    text = "".join(char for char in text.lower() if char not in set(string.punctuation))
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


def f1_of(answer: str, prediction: str) -> float:
    """`f1_score` of the first script, which has no answers without words."""
    expected, predicted = normalized(answer).split(), normalized(prediction).split()
    same = sum((Counter(predicted) & Counter(expected)).values())
    if same == 0:
        return 0.0
    precision, recall = same / len(predicted), same / len(expected)
    return 2 * precision * recall / (precision + recall)


def f1_of_second(answer: str, prediction: str) -> float:
    """`compute_f1` of the second script, where a question may have no answer."""
    if not normalized(answer) or not normalized(prediction):
        return float(normalized(answer) == normalized(prediction))
    return f1_of(answer, prediction)


WORDS = ("the", "a", "An", "cat", "Cat.", "cats", "a-b", "é", "1", "İ", "ß", "the_cat", "「a」")
ANSWERS = st.one_of(
    st.lists(st.sampled_from(WORDS), max_size=5).map(" ".join),
    st.text("aAnthe .,'-_\u2019\u00a0\n\u3000가é", max_size=10),
    st.text(max_size=5),
)
questions = st.lists(
    st.tuples(st.lists(ANSWERS, max_size=4), ANSWERS | st.just("")), min_size=1, max_size=5
)


@programs("metrics", share=1 / 9, quick=10, rows=questions)
def test_answers(rows: list[tuple[list[str], str]]) -> None:
    """As the script of SQuAD 2.0, and where all answers have words as that of SQuAD 1.1."""
    second = []
    for answers, prediction in rows:
        expected = [answer for answer in answers if normalized(answer)] or [""]
        exact = max(float(normalized(answer) == normalized(prediction)) for answer in expected)
        second.append((exact, max(f1_of_second(answer, prediction) for answer in expected)))
    found = answer_scores(*zip(*rows, strict=True))
    exact, overlap = np.mean(second, axis=0).tolist()
    assert_same(found, {"exact_match": exact, "f1": overlap}, TOLERANCE)

    first = [
        (answers, prediction)
        for answers, prediction in rows
        if answers and all(map(normalized, answers))
    ]
    for answers, prediction in first:
        exact = max(float(normalized(answer) == normalized(prediction)) for answer in answers)
        overlap = max(f1_of(answer, prediction) for answer in answers)
        agreement = answer_agreements([answers], [prediction])[0]
        np.testing.assert_allclose(agreement, [exact, overlap], rtol=0, atol=TOLERANCE)
