"""Metrics against scikit-learn, scipy and seqeval, on random labels and on models."""

from __future__ import annotations

import json
import unicodedata
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import tiny_config

import minibert
from minibert import SentenceEmbedder, evaluate
from minibert.tasks import metrics
from minibert.tasks.evaluation import bootstrap_intervals
from minibert.tasks.sequence import SequenceTask

sklearn_metrics = pytest.importorskip("sklearn.metrics")
stats = pytest.importorskip("scipy.stats")
seqeval_metrics = pytest.importorskip("seqeval.metrics")

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{index}" for index in range(45))]
TAGS = ["O", "O", "B-PER", "I-PER", "B-LOC", "I-LOC"]


def close(value: float) -> Any:
    return pytest.approx(value, rel=1e-12, abs=1e-12)


@pytest.fixture
def tokenizer() -> minibert.BertTokenizer:
    return minibert.BertTokenizer(WORDS)


def random_texts(count: int, seed: int = 0) -> list[str]:
    rng = np.random.default_rng(seed)
    return [" ".join(f"w{word}" for word in rng.integers(0, 45, 6)) for _ in range(count)]


def build(name: str, **changes: Any) -> Any:
    torch.manual_seed(1)
    config = tiny_config(vocab_size=len(WORDS), initializer_range=0.3, **changes)
    return getattr(minibert, name)(config).eval()


@pytest.mark.parametrize("seed", range(5))
def test_classification_equals_scikit_learn(seed: int) -> None:
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 4, 60)
    predictions = rng.integers(0, 5, 60)
    scores = metrics.classification_scores(labels.tolist(), predictions.tolist())
    assert scores["accuracy"] == close(sklearn_metrics.accuracy_score(labels, predictions))
    assert scores["f1"] == close(sklearn_metrics.f1_score(labels, predictions, average="macro"))
    confusion = metrics.confusion_matrix(labels, predictions, 5)
    assert np.array_equal(confusion, sklearn_metrics.confusion_matrix(labels, predictions))
    counts = metrics.confusion_counts(confusion)
    classes = metrics.class_scores_of_counts(list("abcde"), counts)
    expected = sklearn_metrics.precision_recall_fscore_support(labels, predictions, zero_division=0)
    for index, row in enumerate(classes):
        assert [row.precision, row.recall, row.f1, row.support] == close(
            [column[index] for column in expected]
        )


@pytest.mark.parametrize("seed", range(5))
def test_multi_label_equals_scikit_learn(seed: int) -> None:
    rng = np.random.default_rng(seed)
    labels = rng.random((40, 5)) < 0.3
    predictions = rng.random((40, 5)) < 0.3
    scores = metrics.multi_label_scores(labels, predictions)
    options = {"zero_division": 0}
    for average in ("micro", "macro"):
        expected = sklearn_metrics.f1_score(labels, predictions, average=average, **options)
        assert scores[f"f1_{average}"] == close(expected)
    assert scores["accuracy"] == close(sklearn_metrics.accuracy_score(labels, predictions))


@pytest.mark.parametrize("seed", range(5))
def test_correlations_equal_scipy(seed: int) -> None:
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 6, 50).astype(float)
    predictions = labels + rng.normal(size=50).round(1)
    scores = metrics.regression_scores(labels.tolist(), predictions.tolist())
    assert scores["pearson"] == close(stats.pearsonr(labels, predictions).statistic)
    assert scores["spearman"] == close(stats.spearmanr(labels, predictions).statistic)


@pytest.mark.parametrize("seed", range(5))
def test_entities_equal_seqeval(seed: int) -> None:
    rng = np.random.default_rng(seed)
    labels = [[TAGS[tag] for tag in rng.integers(0, 6, 9)] for _ in range(30)]
    predictions = [
        [tag if rng.random() < 0.7 else TAGS[rng.integers(0, 6)] for tag in row] for row in labels
    ]
    scores = metrics.entity_scores(labels, predictions)
    assert scores["f1"] == close(seqeval_metrics.f1_score(labels, predictions))
    assert scores["precision"] == close(seqeval_metrics.precision_score(labels, predictions))
    assert scores["recall"] == close(seqeval_metrics.recall_score(labels, predictions))
    macro = seqeval_metrics.f1_score(labels, predictions, average="macro")
    assert scores["macro_f1"] == close(macro)


def test_a_classifier(tokenizer: Any, tmp_path: Path) -> None:
    model = build("BertForSequenceClassification", id2label={0: "bad", 1: "fair", 2: "good"})
    texts = random_texts(50)
    rng = np.random.default_rng(0)
    labels = [["bad", "fair", "good"][label] for label in rng.integers(0, 3, 50)]
    lines = [f"{label}\t{text}" for label, text in zip(labels, texts, strict=True)]
    file = tmp_path / "dev.tsv"
    file.write_text("\n".join(["mood\tsentence", *lines]) + "\n", encoding="utf-8")

    result = evaluate(
        model, tokenizer, file, text_column="sentence", label_column="mood", bootstrap=50
    )

    predictions = [scores[0]["label"] for scores in minibert.classify(model, tokenizer, texts)]
    assert len(set(predictions)) == 3
    assert result.task == "classification" and result.rows == 50
    assert result.metrics["accuracy"] == close(sklearn_metrics.accuracy_score(labels, predictions))
    macro = sklearn_metrics.f1_score(labels, predictions, average="macro")
    assert result.metrics["f1"] == close(macro)
    assert result.confusion == sklearn_metrics.confusion_matrix(labels, predictions).tolist()
    low, high = result.intervals["accuracy"]
    assert low < result.metrics["accuracy"] < high
    wrong = [row for row in range(50) if labels[row] != predictions[row]]
    assert sorted(mistake.row for mistake in result.errors) == wrong
    scores = [mistake.score for mistake in result.errors]
    assert scores == sorted(scores, reverse=True)
    first = result.errors[0]
    assert (first.expected, first.predicted) == (labels[first.row], predictions[first.row])
    assert json.loads(json.dumps(result.to_dict()))["metrics"] == result.metrics


def test_a_regression(tokenizer: Any) -> None:
    model = build("BertForSequenceClassification", num_labels=1, problem_type="regression")
    rows = [{"a": text, "y": index % 7} for index, text in enumerate(random_texts(30))]
    result = evaluate(model, tokenizer, rows, text_column="a", label_column="y", bootstrap=20)
    texts = [row["a"] for row in rows]
    predictions = [scores[0]["score"] for scores in minibert.classify(model, tokenizer, texts)]
    labels = [row["y"] for row in rows]
    assert result.metrics["pearson"] == close(stats.pearsonr(labels, predictions).statistic)
    assert result.metrics["spearman"] == close(stats.spearmanr(labels, predictions).statistic)


def test_several_labels_of_a_text(tokenizer: Any) -> None:
    names = {0: "good", 1: "funny", 2: "long"}
    model = build(
        "BertForSequenceClassification", id2label=names, problem_type="multi_label_classification"
    )
    rows = [
        {"text": text, "label": [names[index % 3]] if index % 4 else []}
        for index, text in enumerate(random_texts(30))
    ]
    result = evaluate(model, tokenizer, rows, bootstrap=0)
    results = minibert.classify(model, tokenizer, [row["text"] for row in rows], threshold=0.5)
    predicted = [{label["label"] for label in labels} for labels in results]
    exact = [set(row["label"]) == labels for row, labels in zip(rows, predicted, strict=True)]
    assert result.metrics["accuracy"] == close(float(np.mean(exact)))
    assert result.intervals == {} and [row.label for row in result.classes] == list(names.values())


def test_scores_that_are_1_in_float32_keep_their_order(tokenizer: Any) -> None:
    """The mean average precision and the order of the errors are those of the logits."""
    names = {0: "good", 1: "funny", 2: "long"}
    texts = random_texts(30)
    several = [{"text": text, "label": [names[i % 3]]} for i, text in enumerate(texts)]
    model = build(
        "BertForSequenceClassification", id2label=names, problem_type="multi_label_classification"
    )
    expected = evaluate(model, tokenizer, several, bootstrap=0).metrics["map"]
    with torch.no_grad():
        model.classifier.bias += 20
    assert evaluate(model, tokenizer, several, bootstrap=0).metrics["map"] == expected
    # thresholds apply to the scores of `classify`, which are all 1
    at_threshold = evaluate(model, tokenizer, several, threshold=1.0, bootstrap=0).metrics
    assert at_threshold["f1_micro"] == close(0.5)
    model.config.problem_type = "single_label_classification"
    with torch.no_grad():
        model.classifier.bias[0] += 20
    single = [{"text": text, "label": "long"} for text in texts]
    errors = evaluate(model, tokenizer, single, bootstrap=0).errors
    assert len({error.score for error in errors}) == len(texts)


def test_a_tagger(tokenizer: Any, tmp_path: Path) -> None:
    model = build("BertForTokenClassification", id2label=dict(enumerate(sorted(set(TAGS)))))
    rng = np.random.default_rng(0)
    sentences = []
    for text in random_texts(20):
        sentences.append((text.split(), [TAGS[tag] for tag in rng.integers(0, 6, 6)]))
    file = tmp_path / "dev.conll"
    blocks = ["\n".join(map("\t".join, zip(*pair, strict=True))) for pair in sentences]
    file.write_text("\n\n".join(blocks) + "\n", encoding="utf-8")
    result = evaluate(model, tokenizer, file, bootstrap=20)
    predictions = []
    for words, _ in sentences:
        batch = tokenizer([words], is_split_into_words=True, return_tensors="pt")
        labels = model(batch["input_ids"]).logits[0, 1:-1].argmax(-1).tolist()
        predictions.append([model.config.id2label[label] for label in labels])
    tags = [sentence_tags for _, sentence_tags in sentences]
    assert result.metrics["f1"] == close(seqeval_metrics.f1_score(tags, predictions))
    assert {row.label for row in result.classes} == {"PER", "LOC"}
    assert evaluate(model, tokenizer, sentences, bootstrap=0).metrics == result.metrics
    objects = [{"tokens": words, "ner_tags": row_tags} for words, row_tags in sentences]
    assert evaluate(model, tokenizer, objects, bootstrap=0).metrics == result.metrics
    with pytest.raises(ValueError, match="data, row 1: words and tags should be strings, not 1"):
        evaluate(model, tokenizer, [(["w1"], [1])], bootstrap=0)


def test_answers(tokenizer: Any) -> None:
    model = build("BertForQuestionAnswering")
    rows = [
        {"question": "w1 w2", "context": text, "answers": [text.split()[2]]}
        for text in random_texts(12)
    ]
    result = evaluate(model, tokenizer, rows, bootstrap=20)
    questions = [row["question"] for row in rows]
    contexts = [row["context"] for row in rows]
    answers = [row["answers"] for row in rows]
    results = minibert.answer_question(model, tokenizer, questions, contexts)
    predictions = [answer["answer"] for answer in results]
    expected = metrics.answer_scores(answers, predictions)
    assert {name: result.metrics[name] for name in expected} == expected
    as_in_squad = [
        {**row, "answers": [{"text": text, "answer_start": 0} for text in row["answers"]]}
        for row in rows
    ]
    as_in_datasets = [{**row, "answers": {"text": row["answers"]}} for row in rows]
    for spelled in (as_in_squad, as_in_datasets):
        assert evaluate(model, tokenizer, spelled, bootstrap=20).metrics == result.metrics


@pytest.mark.parametrize("answers", ["w1", 3, [1], {"start": [2]}])
def test_answers_that_are_no_texts_raise_an_error(tokenizer: Any, answers: Any) -> None:
    row = {"question": "w1", "context": "w1 w2", "answers": answers}
    with pytest.raises(ValueError, match="data, row 1: (an )?answers? should be"):
        evaluate(build("BertForQuestionAnswering"), tokenizer, [row], bootstrap=0)


class Frame:
    """What evaluation uses of a pandas DataFrame."""

    iloc = None

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self.rows = rows

    def __iter__(self) -> Any:
        return iter(self.rows[0])

    def to_dict(self, orient: str) -> Any:
        assert orient == "records"
        return self.rows


def test_a_data_frame_is_a_table(tokenizer: Any) -> None:
    model = build("BertForQuestionAnswering")
    rows = [{"question": "w1", "context": "w1 w2", "answers": ["w2"]}]
    expected = evaluate(model, tokenizer, rows, bootstrap=0)
    assert evaluate(model, tokenizer, Frame(rows), bootstrap=0) == expected  # type: ignore[arg-type]


def test_an_embedder(tokenizer: Any) -> None:
    embedder = SentenceEmbedder(build("BertModel"), tokenizer)
    anchors = random_texts(20, seed=1)
    positives = [f"{anchor} w3" for anchor in anchors]
    rows = [{"q": anchor, "a": text} for anchor, text in zip(anchors, positives, strict=True)]
    columns = {"text_column": "q", "pair_column": "a"}
    result = evaluate(embedder, None, rows, bootstrap=20, **columns)
    assert json.loads(json.dumps([asdict(mistake) for mistake in result.errors]))
    scores = minibert.similarity(embedder.encode(anchors), embedder.encode(positives))
    ranks = [(row > row[index]).sum() for index, row in enumerate(np.asarray(scores))]
    assert result.metrics["mrr"] == close(float(np.mean([1 / (rank + 1) for rank in ranks])))
    assert result.metrics["recall@1"] == close(float(np.mean([rank == 0 for rank in ranks])))
    assert evaluate(embedder, None, (row for row in rows), bootstrap=0, **columns).rows == 20  # type: ignore[arg-type]
    scored = [{**row, "label": index} for index, row in enumerate(rows)]
    assert evaluate(embedder, None, scored, bootstrap=0, **columns).task == "scores"
    with pytest.raises(ValueError, match="task is 'tokens', but .* does 'pairs' or 'scores'"):
        evaluate(embedder, None, rows, task="tokens", **columns)


def test_intervals_are_reproducible_and_cover_the_mean() -> None:
    values = np.random.default_rng(0).normal(size=400)

    def statistic(rows: Any) -> dict[str, float]:
        return {"mean": float(values[rows].mean())}

    first = bootstrap_intervals(statistic, 400, 1000, seed=0)
    assert first == bootstrap_intervals(statistic, 400, 1000, seed=0)
    low, high = first["mean"]
    error = values.std() / 20
    assert low == pytest.approx(values.mean() - 1.96 * error, abs=0.2 * error)
    assert high == pytest.approx(values.mean() + 1.96 * error, abs=0.2 * error)


def test_invalid_data_and_models(tokenizer: Any) -> None:
    model = build("BertForSequenceClassification", id2label={0: "bad", 1: "good"})
    with pytest.raises(ValueError, match="data has no rows"):
        evaluate(model, tokenizer, [])
    with pytest.raises(ValueError, match="data, row 1: .*no column 'label'.* columns are"):
        evaluate(model, tokenizer, [{"text": "w1"}])
    with pytest.raises(
        ValueError,
        match=r"data \(fine\) are not among those of the model \(bad, good\)",
    ):
        evaluate(model, tokenizer, [{"text": "w1", "label": "fine"}])
    with pytest.raises(ValueError, match="task is 'tokens', but the model, a BertForSequence"):
        evaluate(model, tokenizer, [{"text": "w1", "label": "bad"}], task="tokens")
    with pytest.raises(TypeError, match="model should be a sequence classifier"):
        evaluate(build("BertForMaskedLM"), tokenizer, [{"text": "w1", "label": "bad"}])
    reranker = build("BertForSequenceClassification", num_labels=1)
    rows = [{"text": "w1", "pair": "w2", "label": 1}]
    with pytest.raises(ValueError, match="does 'regression' or 'reranking'"):
        evaluate(reranker, tokenizer, rows, pair_column="pair", task="classification")
    with pytest.raises(ValueError, match="pass pair_column"):
        evaluate(reranker, tokenizer, rows, task="reranking")


def test_rows_may_hold_values_of_numpy(tokenizer: Any) -> None:
    classifier = build("BertForSequenceClassification", id2label={0: "0", 1: "1"})
    labels = np.array([0, 1, 1])
    data = [{"text": "w1 w2", "label": label} for label in labels]
    plain = [{"text": "w1 w2", "label": label} for label in labels.tolist()]
    result = evaluate(classifier, tokenizer, data, bootstrap=0)
    assert result == evaluate(classifier, tokenizer, plain, bootstrap=0)
    with pytest.raises(ValueError, match="NaN is not a label"):
        evaluate(classifier, tokenizer, [{"text": "w1", "label": np.float32("nan")}])
    several = SequenceTask(multi_label=True)
    (row,) = several.read([{"text": "w1", "label": np.array(["a", "b"])}])
    assert several.labels_of(row) == ["a", "b"]


def test_a_threshold_is_for_labels(tokenizer: Any) -> None:
    model = build("BertForSequenceClassification", num_labels=1, problem_type="regression")
    rows = [{"text": text, "label": 1} for text in random_texts(3)]
    with pytest.raises(ValueError, match="threshold is for labels of texts"):
        evaluate(model, tokenizer, rows, threshold=0.5)
    with pytest.raises(TypeError, match="threshold should be a number"):
        evaluate(model, tokenizer, rows, threshold="0.5")  # type: ignore[arg-type]


def test_texts_that_the_vocabulary_cannot_read_are_told() -> None:
    labels = {0: "a", 1: "b"}
    text = "정말 재미있는 영화였다"
    rows = [{"text": f"{text} {number}", "label": "ab"[number % 2]} for number in range(30)]
    model = minibert.BertForSequenceClassification.from_pretrained("minibert-ko", id2label=labels)
    tokenizer = minibert.BertTokenizer.from_pretrained("minibert-ko")
    decomposed = [{**row, "text": unicodedata.normalize("NFD", str(row["text"]))} for row in rows]
    with pytest.warns(UserWarning, match="cannot read 30 of 30 texts"):
        evaluate(model, tokenizer, decomposed, bootstrap=0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        evaluate(model, tokenizer, rows, bootstrap=0)
    assert not any("cannot read" in str(warning.message) for warning in caught)
