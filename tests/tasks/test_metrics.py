"""Metrics on examples computed by hand, and beside the scripts and libraries of the field."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest
from sklearn.metrics import (
    accuracy_score,
    average_precision_score,
    f1_score,
    log_loss,
    matthews_corrcoef,
    precision_recall_fscore_support,
    roc_auc_score,
)

from minibert.encoders.rows.entity_tags import EntitySpan, entity_spans
from minibert.tasks.metrics import (
    answer_scores,
    area_under_curve,
    class_scores_of_counts,
    classification_scores,
    confusion_counts,
    confusion_matrix,
    entity_counts,
    entity_scores,
    entity_scores_of_counts,
    is_lower_better,
    matthews_correlation,
    mean_average_precision,
    multi_label_scores,
    ranking_scores,
    regression_scores,
    scores_by_answer,
)
from minibert.tasks.sequence import Labeled, SequenceTask


def test_classification() -> None:
    scores = classification_scores([0, 0, 1, 1], [0, 1, 1, 1])
    assert scores["accuracy"] == 0.75
    assert scores["f1"] == pytest.approx((2 / 3 + 4 / 5) / 2)


def test_a_class_that_does_not_occur_is_left_out_of_the_mean() -> None:
    assert classification_scores([0, 2], [0, 2])["f1"] == 1
    assert entity_scores_of_counts(np.array([[1.0, 0], [1, 0], [1, 0]]))["macro_f1"] == 1
    # one that is only predicted occurs, with an F1 of 0
    assert classification_scores([0, 0], [0, 1])["f1"] == pytest.approx((2 / 3 + 0) / 2)
    # ranks need rows with and without the class
    assert area_under_curve([[1, 0, 1], [0, 0, 1]], [[2, 1, 1], [1, 2, 2]]) == 1


def test_the_scores_of_each_class_are_those_of_sklearn() -> None:
    labels, predictions = [0, 0, 1, 2, 2, 2], [0, 1, 1, 2, 2, 0]
    counts = confusion_counts(confusion_matrix(labels, predictions, 4))
    expected = precision_recall_fscore_support(
        labels, predictions, labels=range(4), zero_division=0
    )
    scores = class_scores_of_counts(list("abcd"), counts)
    assert [score.label for score in scores] == list("abcd")
    columns = zip(*[(s.precision, s.recall, s.f1, s.support) for s in scores], strict=True)
    for column, reference in zip(columns, expected, strict=True):
        assert column == pytest.approx(reference.tolist())


def test_which_metrics_are_best_when_lowest() -> None:
    assert all(map(is_lower_better, ("loss", "eval_loss", "mse", "mae")))
    assert not any(map(is_lower_better, ("accuracy", "f1", "f1:loss", "lossless")))


def test_lists_of_numbers_are_those_of_booleans() -> None:
    labels, predictions = [[1, 0], [0, 2], [1.0, 1]], [[1, 1], [0, 1], [1.0, 0]]
    expected = multi_label_scores(np.array(labels) > 0, np.array(predictions) > 0)
    assert multi_label_scores(labels, predictions) == expected
    scores = [[3, 1], [2, 2], [5, 0]]
    for metric in (area_under_curve, mean_average_precision):
        assert metric(labels, scores) == metric(np.array(labels) > 0, np.array(scores, float))


def test_numbers_of_any_type_are_computed_as_doubles() -> None:
    rng = np.random.default_rng(0)
    labels, predictions = rng.normal(size=(2, 50)).astype(np.float32)
    expected = regression_scores(labels.astype(np.float64), predictions.astype(np.float64))
    assert regression_scores(labels, predictions) == expected
    relevance, scores = rng.integers(0, 3, (2, 12), dtype=np.uint8)  # without negative numbers
    expected_ranking = ranking_scores(relevance.tolist(), scores.tolist())
    assert ranking_scores(relevance, scores).tolist() == expected_ranking.tolist()
    rows = relevance[:, None], scores[:, None]
    expected_precision = mean_average_precision(*(values.tolist() for values in rows))
    assert mean_average_precision(*rows) == expected_precision


def test_answers_of_one_kind_have_no_scores_by_kind() -> None:
    agreements = np.array([[1.0, 0.0], [0.0, 0.5]])
    assert scores_by_answer(agreements, np.array([True, True])) == {}
    assert scores_by_answer(agreements, np.array([False, False])) == {}
    assert scores_by_answer(agreements, np.array([False, True])) == {
        "has_answer_exact_match": 0,
        "has_answer_f1": 0.5,
        "no_answer_exact_match": 1,
    }


def test_there_are_as_many_predictions_as_labels() -> None:
    for predictions in ([], [["O"]] * 2):
        with pytest.raises(ValueError):
            entity_scores([["O"]], predictions)
        with pytest.raises(ValueError):
            answer_scores([["tea"]], [str(words) for words in predictions])
    with pytest.raises(ValueError):
        class_scores_of_counts(["a"], np.ones((3, 2)))


def test_a_correlation_is_1_at_most_whatever_is_rounded() -> None:
    for values in np.random.default_rng(0).normal(size=(100, 7)):
        assert regression_scores(values, 3 * values)["pearson"] <= 1
        assert regression_scores(values, -3 * values)["pearson"] >= -1


def test_regression_has_rank_and_linear_correlation() -> None:
    scores = regression_scores([1.0, 2.0, 3.0], [1.0, 4.0, 9.0])
    assert scores["spearman"] == pytest.approx(1.0)
    assert 0.9 < scores["pearson"] < 1.0
    assert scores["mse"] == pytest.approx((0 + 4 + 36) / 3)
    assert scores["mae"] == pytest.approx((0 + 2 + 6) / 3)
    constant = regression_scores([1.0, 2.0], [3.0, 3.0])
    assert constant == {"pearson": 0.0, "spearman": 0.0, "mse": 2.5, "mae": 1.5}


def test_an_entity_counts_only_as_a_whole() -> None:
    right = [["B-PER", "I-PER", "O", "B-LOC"]]
    assert entity_scores(right, right)["f1"] == 1.0
    half = entity_scores(right, [["B-PER", "O", "O", "B-LOC"]])
    assert half == {
        "f1": 0.5,
        "macro_f1": 0.5,
        "precision": 0.5,
        "recall": 0.5,
        "accuracy": 0.75,
    }
    nothing = entity_scores([["O", "O"]], [["O", "O"]])
    assert nothing.pop("accuracy") == 1.0
    assert set(nothing.values()) == {0.0}


def test_macro_f1_is_the_mean_over_entity_types() -> None:
    """KLUE uses it: seqeval with average="macro", where a type without entities counts as 0."""
    right = [["B-PER", "O", "B-PER", "O", "B-LOC", "O"]]
    scores = entity_scores(right, [["B-PER", "O", "O", "O", "B-LOC", "B-ORG"]])
    # PER has 2/3, LOC 1, and ORG 0, because it is only predicted
    assert scores["macro_f1"] == pytest.approx((2 / 3 + 1 + 0) / 3)
    assert scores["f1"] == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("right", "predicted", "precision", "recall"),
    [
        ("I-PER I-PER O", "B-PER I-PER O", 1, 1),  # I- can begin an entity, as in CoNLL-2003
        ("B-PER B-PER O", "B-PER I-PER O", 0, 0),
        ("B-PER I-LOC O", "B-PER B-LOC O", 1, 1),
        ("B-PER I-PER O", "B-LOC I-LOC O", 0, 0),
        ("B-PER O B-PER", "B-PER O O", 1, 1 / 2),
        ("B-PER O O", "B-PER O B-PER", 1 / 2, 1),
        ("B-PER I-PER I-PER E-PER", "B-PER I-PER E-PER S-PER", 0, 0),
        ("S-PER S-PER B-PER E-PER", "S-PER B-PER E-PER S-PER", 1 / 3, 1 / 3),
    ],
)
def test_where_entities_begin_and_end(
    right: str, predicted: str, precision: float, recall: float
) -> None:
    """The scores are those of seqeval, the most common library."""
    scores = entity_scores([right.split()], [predicted.split()])
    assert (scores["precision"], scores["recall"]) == (
        pytest.approx(precision),
        pytest.approx(recall),
    )
    assert scores["f1"] == pytest.approx(2 * precision * recall / max(1e-9, precision + recall))


def test_entities_are_counted_in_each_sentence() -> None:
    kinds, counts = entity_counts([["B-PER", "B-PER"], ["O"]], [["B-PER", "O"], ["B-LOC"]])
    assert kinds == ["LOC", "PER"]
    assert counts.tolist() == [[[0, 1], [0, 1], [0, 2]], [[0, 0], [1, 0], [0, 0]]]


def test_an_entity_in_another_sentence_does_not_count() -> None:
    assert entity_scores([["B-PER"], ["O"]], [["O"], ["B-PER"]])["f1"] == 0.0


def test_answers_are_compared_without_articles_case_and_punctuation() -> None:
    answers = [["Denver Broncos", "The Denver Broncos"], ["1963"], []]
    assert answer_scores(answers, ["the denver broncos!", "1963.", ""]) == {
        "exact_match": 1.0,
        "f1": 1.0,
    }
    partial = answer_scores([["in the city of Paris"]], ["Paris"])
    assert partial == {"exact_match": 0.0, "f1": pytest.approx(2 * 1 / (4 + 1))}
    assert answer_scores([[]], ["something"]) == {"exact_match": 0.0, "f1": 0.0}
    # SQuAD's script leaves out an answer without a word where there are others
    assert answer_scores([["the", "cat"]], [""]) == {"exact_match": 0.0, "f1": 0.0}
    assert answer_scores([["the"]], [""]) == {"exact_match": 1.0, "f1": 1.0}


@pytest.mark.parametrize(
    ("tags", "spans"),
    [
        ("I-PER I-PER B-PER O", [("PER", 0, 2), ("PER", 2, 3)]),  # IOB1
        ("B-PER M-PER M-PER E-PER", [("PER", 0, 4)]),  # BMES
        ("B M E S", [("_", 0, 3), ("_", 3, 4)]),  # words of Chinese
        ("B I I O B", [("_", 0, 3), ("_", 4, 5)]),
        ("I I O I", [("_", 0, 2), ("_", 3, 4)]),
        ("S-AGE S-AGE", [("AGE", 0, 1), ("AGE", 1, 2)]),  # kinds without B- and I-
        ("U-AGE U-AGE", [("AGE", 0, 1), ("AGE", 1, 2)]),
        ("E-AGE", [("AGE", 0, 1)]),
        ("L-AGE L-AGE", [("AGE", 0, 1), ("AGE", 1, 2)]),
        ("B-PER L-PER U-PER", [("PER", 0, 2), ("PER", 2, 3)]),  # BILOU
        ("PER PER LOC O PER", [("PER", 0, 2), ("LOC", 2, 3), ("PER", 4, 5)]),
        ("B-per-son I-per-son", [("per-son", 0, 2)]),
        ("NOUN VERB", [("NOUN", 0, 1), ("VERB", 1, 2)]),
    ],
)
def test_schemes_of_tags(tags: str, spans: list[tuple[str, int, int]]) -> None:
    assert entity_spans(tags.split()) == [EntitySpan(*span) for span in spans]


def conlleval_spans(tags: list[str]) -> set[tuple[str, int, int]]:
    """The chunks of conlleval, by the rules in its description.

    A chunk ends behind E, behind S, before B, S or O, and where the kind changes. It begins with
    B, with S, with any tag that follows O, E or S, and where the kind changes.
    """
    chunks = set()
    start, last, last_kind = 0, "O", ""
    for position, tag in enumerate([*tags, "O"]):
        prefix, _, kind = tag.partition("-")
        ends = last != "O" and (last in "ES" or prefix in "BSO" or kind != last_kind)
        begins = prefix != "O" and (prefix in "BS" or last in "OES" or kind != last_kind)
        if ends:
            chunks.add((last_kind or "_", start, position))
        if begins:
            start = position
        last, last_kind = prefix, kind
    return chunks


PREFIXES_OF_SCHEMES = {"IOB": "BI", "IOE": "IE", "BIOES": "BIES", "BMES": "BMES", "BILOU": "BILU"}
AS_BIOES = str.maketrans("MLU", "IES")


def random_tags(rng: random.Random, prefixes: str, kinds: list[str]) -> list[str]:
    tags = ["O"]
    for prefix in prefixes:
        tags += [f"{prefix}-{kind}" if kind else prefix for kind in kinds]
    return rng.choices(tags, k=rng.randint(1, 8))


def in_bioes(tags: list[str]) -> list[str]:
    return [tag[0].translate(AS_BIOES) + tag[1:] for tag in tags]


@pytest.mark.parametrize("kinds", [["PER", "LOC"], ["PER"], [""]], ids=["two", "one", "bare"])
@pytest.mark.parametrize("scheme", PREFIXES_OF_SCHEMES)
def test_random_tags_are_read_as_by_seqeval_and_conlleval(scheme: str, kinds: list[str]) -> None:
    """Also sequences that do not follow the scheme, as models predict them."""
    seqeval = pytest.importorskip("seqeval.metrics.sequence_labeling")
    rng = random.Random(0)
    for _ in range(2000):
        tags = random_tags(rng, PREFIXES_OF_SCHEMES[scheme], kinds)
        spans = set(entity_spans(tags))
        expected = {
            (kind, first, last + 1) for kind, first, last in seqeval.get_entities(in_bioes(tags))
        }
        assert spans == expected, tags
        assert spans == conlleval_spans(in_bioes(tags)), tags


def tags_of_spans(rng: random.Random, scheme: str, length: int) -> list[str]:
    """A random sentence that follows a scheme."""
    tags = ["O"] * length
    position, previous = 0, ""
    while position < length:
        size = min(rng.randint(1, 3), length - position)
        kind = rng.choice(["PER", "LOC", ""])
        if kind:
            tags[position : position + size] = WRITERS[scheme](kind, size, previous)
        previous = kind
        position += size if kind else 1
    return tags


def _closed(kind: str, size: int, begin: str, inside: str, end: str, single: str) -> list[str]:
    if size == 1:
        return [f"{single}-{kind}"]
    return [f"{begin}-{kind}", *[f"{inside}-{kind}"] * (size - 2), f"{end}-{kind}"]


WRITERS: dict[str, Callable[[str, int, str], list[str]]] = {
    "IOB1": lambda kind, size, previous: [
        f"{'B' if previous == kind else 'I'}-{kind}",
        *[f"I-{kind}"] * (size - 1),
    ],
    "IOB2": lambda kind, size, _: [f"B-{kind}", *[f"I-{kind}"] * (size - 1)],
    "IOE2": lambda kind, size, _: [*[f"I-{kind}"] * (size - 1), f"E-{kind}"],
    "IOBES": lambda kind, size, _: _closed(kind, size, "B", "I", "E", "S"),
    "BILOU": lambda kind, size, _: _closed(kind, size, "B", "I", "L", "U"),
}


@pytest.mark.parametrize("scheme", WRITERS)
def test_scores_are_those_of_seqeval_in_strict_mode(scheme: str) -> None:
    seqeval = pytest.importorskip("seqeval.metrics")
    schemes = pytest.importorskip("seqeval.scheme")
    rng = random.Random(1)
    lengths = [rng.randint(1, 10) for _ in range(300)]
    expected, predicted = (
        [tags_of_spans(rng, scheme, length) for length in lengths] for _ in range(2)
    )
    report = seqeval.classification_report(
        expected,
        predicted,
        mode="strict",
        scheme=getattr(schemes, scheme),
        output_dict=True,
        zero_division=0,
    )
    scores = entity_scores(expected, predicted)
    assert scores["f1"] == pytest.approx(report["micro avg"]["f1-score"])
    assert scores["precision"] == pytest.approx(report["micro avg"]["precision"])
    assert scores["recall"] == pytest.approx(report["micro avg"]["recall"])
    assert scores["macro_f1"] == pytest.approx(report["macro avg"]["f1-score"])
    assert scores["accuracy"] == pytest.approx(seqeval.accuracy_score(expected, predicted))


def test_scores_are_those_of_scikit_learn() -> None:
    sklearn = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(0)
    for _ in range(50):
        expected = rng.integers(0, 2, (20, 4))
        expected[0] = 1
        scores = rng.integers(0, 6, (20, 4)) / 5  # many are equal
        assert mean_average_precision(expected, scores) == pytest.approx(
            sklearn.average_precision_score(expected, scores, average="macro")
        )
        classes, guesses = rng.integers(0, 4, (2, 30))
        computed = classification_scores(classes.tolist(), guesses.tolist())
        assert computed["accuracy"] == pytest.approx(sklearn.accuracy_score(classes, guesses))
        assert computed["f1"] == pytest.approx(sklearn.f1_score(classes, guesses, average="macro"))
        values, predictions = rng.normal(size=(2, 30))
        errors = regression_scores(values.tolist(), predictions.tolist())
        assert errors["mse"] == pytest.approx(sklearn.mean_squared_error(values, predictions))
        assert errors["mae"] == pytest.approx(sklearn.mean_absolute_error(values, predictions))
        relevance, ranks = rng.integers(0, 3, 15), rng.integers(0, 5, 15)
        relevance[0] = 1
        assert ranking_scores(relevance.tolist(), ranks.tolist())[1] == pytest.approx(
            sklearn.ndcg_score([relevance], [ranks], k=10)
        )


def test_reciprocal_ranks() -> None:
    assert ranking_scores([0, 1, 0], [0.9, 0.5, 0.1])[0] == 0.5
    assert ranking_scores([1, 0], [0.9, 0.1]).tolist() == [1.0, 1.0]
    assert ranking_scores([1, 0, 0], [0.5, 0.5, 0.5])[0] == 0.5  # the second of three on average
    assert ranking_scores([1, 1], [0.5, 0.5])[0] == 1.0
    assert ranking_scores([0, 0], [0.5, 0.1]).tolist() == [0.0, 0.0]
    assert ranking_scores([0] * 9 + [1], list(range(10, 0, -1)))[0] == 0.1
    assert ranking_scores([0] * 10 + [1], list(range(11, 0, -1)))[0] == 0.0  # behind the tenth


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("classes", [2, 3, 6])
def test_matthews_auc_and_micro_f1_are_those_of_sklearn(classes: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    labels = np.concatenate([np.arange(classes), rng.integers(classes, size=40)])
    scores = rng.random((len(labels), classes)).round(1) + 0.01  # rounded: with ties
    scores /= scores.sum(1, keepdims=True)
    predicted = scores.argmax(1)
    expected = matthews_corrcoef(labels, predicted)
    assert matthews_correlation(labels, predicted) == pytest.approx(expected)
    is_label = labels[:, None] == np.arange(classes)
    if classes == 2:
        auc = roc_auc_score(labels, scores[:, 1])
    else:
        auc = roc_auc_score(labels, scores, multi_class="ovr")
    assert area_under_curve(is_label, scores) == pytest.approx(auc)
    several = rng.random((len(labels), classes)) < 0.4
    auc = roc_auc_score(several, scores)
    assert area_under_curve(several, scores) == pytest.approx(auc)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("classes", [2, 3, 6])
def test_what_metric_names_is_the_score_of_sklearn(classes: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    names = [chr(ord("a") + index) for index in range(classes)]
    labels = np.concatenate([np.arange(classes), rng.integers(classes, size=40)])
    scores = rng.random((len(labels), classes)).round(1) + 0.01
    scores /= scores.sum(1, keepdims=True)
    predicted = scores.argmax(1)
    task = SequenceTask()
    rows = task.read([{"text": "tea", "label": names[label]} for label in labels])
    predictions = [Labeled(row, names) for row in scores]
    asked = ["matthews", "auc", "f1_micro", *(f"f1:{name}" for name in names)]
    computed = task.score(rows, predictions).reporting(asked).metrics
    options = {} if classes == 2 else {"multi_class": "ovr"}
    ranked = scores[:, 1] if classes == 2 else scores
    expected = {
        "accuracy": accuracy_score(labels, predicted),
        "f1": f1_score(labels, predicted, average="macro"),
        "loss": log_loss(labels, scores),
        "matthews": matthews_corrcoef(labels, predicted),
        "auc": roc_auc_score(labels, ranked, **options),
        "f1_micro": f1_score(labels, predicted, average="micro"),
    }
    of_classes = f1_score(labels, predicted, average=None)
    expected |= {f"f1:{name}": f1 for name, f1 in zip(names, of_classes, strict=True)}
    assert computed == pytest.approx(expected)


@pytest.mark.parametrize("seed", range(10))
def test_what_metric_names_of_several_labels_is_the_score_of_sklearn(seed: int) -> None:
    rng = np.random.default_rng(seed)
    names = list("abcd")
    expected = rng.random((40, 4)) < 0.4
    scores = rng.random((40, 4)).round(1)
    task = SequenceTask(multi_label=True)
    sets = [[name for name, has in zip(names, row, strict=True) if has] for row in expected]
    rows = task.read([{"text": "tea", "label": labels} for labels in sets])
    thresholds = np.full(4, 0.45)
    predictions = [Labeled(row, names, thresholds) for row in scores]
    computed = task.score(rows, predictions).reporting(["auc", "f1:a", "f1:d"]).metrics
    predicted = scores >= 0.45
    of_classes = f1_score(expected, predicted, average=None)
    reference = {
        "f1_micro": f1_score(expected, predicted, average="micro"),
        "f1_macro": f1_score(expected, predicted, average="macro"),
        "accuracy": accuracy_score(expected, predicted),
        "map": average_precision_score(expected, scores, average="macro"),
        "auc": roc_auc_score(expected, scores),
        "f1:a": of_classes[0],
        "f1:d": of_classes[3],
    }
    assert {name: computed[name] for name in reference} == pytest.approx(reference)


def test_scores_that_are_not_defined() -> None:
    assert mean_average_precision([[0], [0]], [[1], [2]]) == 0
    assert matthews_correlation([0, 1, 1], [1, 1, 1]) == 0
    assert np.isnan(area_under_curve([[True], [True]], [[0.1], [0.2]]))
