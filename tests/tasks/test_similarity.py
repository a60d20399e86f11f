"""Training for similarity: losses equal those of sentence-transformers, scores, and whole runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from tiny_folder import WORDS, sentence_folder, tiny_folder

from minibert import SentenceEmbedder, evaluate
from minibert.cli import main
from minibert.tasks.similarity import SimilarityTask, positive_ranks, ranking_loss, score_loss
from minibert.tasks.task import inputs_of
from minibert.text import Table
from minibert.training.data import pack
from minibert.training.finetuning import finetune
from minibert.training.options import TrainingOptions
from minibert.training.state import saved_states
from minibert.util.errors import ArgumentError

pytestmark = pytest.mark.usefixtures("one_thread")

PAIRS = Table("anchor", pair="positive")
SCORED = Table("anchor", pair="positive", label="score")
OPTIONS = TrainingOptions(epochs=4, batch_size=16, learning_rate=3e-3)
DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return tiny_folder(tmp_path / "checkpoint", num_hidden_layers=1, **DROPOUT)


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def pairs(count: int, seed: int) -> list[dict[str, Any]]:
    """Return sentences of letters, their translations and negatives.

    The translation of "a c f" is "n p s". A negative differs from it in its last word.
    """
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(count):
        words = rng.choice(13, 4, replace=False)
        wrong = [*words[:3], (words[3] + 1) % 13]
        rows.append(
            {
                "anchor": " ".join(chr(97 + n) for n in words),
                "positive": " ".join(chr(110 + n) for n in words),
                "negative": " ".join(chr(110 + n) for n in wrong),
            }
        )
    return rows


def scored(count: int, seed: int) -> list[dict[str, Any]]:
    """Return pairs of sentences whose score is their share of common words, times 5."""
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(count):
        common = int(rng.integers(0, 5))
        same = list(rng.choice(WORDS[:5], common))
        first = same + list(rng.choice(list("abc"), 4 - common))
        second = same + list(rng.choice(list("xyz"), 4 - common))
        rows.append(
            {"anchor": " ".join(first), "positive": " ".join(second), "score": 5 * common / 4}
        )
    return rows


def test_the_ranking_loss_equals_that_of_sentence_transformers() -> None:
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

    vectors, texts = torch.randn(6, 3, 16), torch.arange(18).view(6, 3)
    theirs = MultipleNegativesRankingLoss(None)
    for columns in (2, 3):
        expected = theirs.compute_loss_from_embeddings(list(vectors[:, :columns].unbind(1)), None)
        torch.testing.assert_close(
            ranking_loss(vectors[:, :columns], texts[:, :columns]) / 6, expected
        )


def test_the_score_loss_equals_that_of_sentence_transformers() -> None:
    from sentence_transformers.sentence_transformer.losses import CosineSimilarityLoss

    vectors, scores = torch.randn(6, 2, 16), torch.rand(6)
    expected = CosineSimilarityLoss(None).compute_loss_from_embeddings(
        list(vectors.unbind(1)), scores
    )
    torch.testing.assert_close(score_loss(vectors, scores) / 6, expected)


def test_correct_answers_are_not_negatives() -> None:
    """Rows 0 and 1 share an anchor, 2 and 3 a positive, and row 5's positive is row 4's anchor."""
    texts = torch.tensor([[0, 1], [0, 2], [3, 4], [5, 4], [6, 7], [8, 6]])
    vectors = torch.randn(6, 2, 8)
    unit = F.normalize(vectors, dim=-1)
    scores = unit[:, 0] @ unit[:, 1].T * 20
    for row, column in [(0, 1), (1, 0), (2, 3), (3, 2), (4, 5)]:
        scores[row, column] = -torch.inf
    torch.testing.assert_close(
        ranking_loss(vectors, texts), F.cross_entropy(scores, torch.arange(6), reduction="sum")
    )


def test_vectors_are_in_the_order_of_the_texts(checkpoint: Path) -> None:
    """The texts are sorted by length and packed, and the vectors equal the embedder's."""
    values = [{"anchor": " ".join(WORDS[:n]), "positive": " ".join(WORDS[n:])} for n in (1, 7, 3)]
    task = SimilarityTask()
    rows = task.read(values)
    model, tokenizer = task.load(checkpoint, rows)
    vectors = model.eval()(**inputs_of(pack(task.encode(rows, tokenizer, model.config, 64))))
    texts = [row[name] for row in values for name in ("anchor", "positive")]
    np.testing.assert_allclose(vectors.detach().numpy(), model.embedder.encode(texts), atol=1e-6)


@pytest.mark.parametrize("table", [PAIRS, SCORED])
def test_matryoshka_adds_the_losses_of_the_first_dimensions(table: Table, checkpoint: Path) -> None:
    plain = SimilarityTask(table)
    nested = SimilarityTask(table, matryoshka=(8, 16))
    rows = plain.read([{**row, "score": 0.5} for row in pairs(4, 0)])
    model, tokenizer = plain.load(checkpoint, rows)
    batch = pack(plain.encode(rows, tokenizer, model.config, 64))
    (expected,) = plain.loss(model.eval(), batch).values()
    (nested_loss,) = nested.loss(model.eval(), batch).values()
    for size in (8, 16):
        truncated = SentenceEmbedder.from_pretrained(checkpoint, precision=None, truncate_dim=size)
        (loss,) = plain.loss(type(model)(truncated), batch).values()
        expected = expected + loss
    torch.testing.assert_close(nested_loss, expected)


def test_ranks_of_positives() -> None:
    """Anchor "a" finds its positive first, "b" second. "c" has two, which do not compete."""
    candidates = np.eye(5, dtype=np.float32)
    anchors = candidates[[0, 1, 2, 2]] + 0.1 * candidates[[4, 4, 4, 4]]
    anchors[1, 4] = 2.0
    anchors[2:, 3] = 1.1
    ranks = positive_ranks(anchors, candidates, ["a", "b", "c", "c"], list("pqrst"))
    assert ranks.tolist() == [0, 1, 0, 0]


def test_an_anchor_is_not_a_wrong_answer_to_itself() -> None:
    """In pairs of questions that are duplicates, each is an anchor and a positive."""
    vectors = np.eye(4, dtype=np.float32)
    ranks = positive_ranks(vectors, vectors[[1, 0, 3, 2]], list("abcd"), list("badc"))
    assert ranks.tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("negatives", [(), ("negative",)])
def test_pairs_and_triplets(negatives: tuple[str, ...], checkpoint: Path, tmp_path: Path) -> None:
    files = [
        write(tmp_path / f"{seed}.jsonl", pairs(count, seed)) for seed, count in ((0, 300), (1, 60))
    ]
    task = SimilarityTask(negatives=negatives)
    rows = task.read(files[1])
    before = task.score(rows, task.predict(task.load(checkpoint, rows)[0], rows, [])).metrics
    scores = finetune(task, checkpoint, *files, tmp_path / "out", OPTIONS)
    assert scores.keys() == {"mrr", "recall@1", "recall@10"}
    measured = evaluate(
        SentenceEmbedder.from_pretrained(tmp_path / "out", precision="exact"),
        None,
        files[1],
        text_column="anchor",
        pair_column="positive",
        negative_columns=negatives,
        bootstrap=0,
    ).metrics
    assert {name: measured[name] for name in scores} == scores
    assert before["recall@10"] < 0.4
    assert scores["recall@10"] > 0.8


def test_negatives_have_columns_of_their_own(checkpoint: Path, tmp_path: Path) -> None:
    file = write(tmp_path / "dev.jsonl", scored(4, 0))
    embedder = SentenceEmbedder.from_pretrained(checkpoint, precision="exact")
    for task, message in ((None, "no column 'typo'"), ("scores", "negative_columns is for")):
        with pytest.raises(ValueError, match=message):
            evaluate(
                embedder,
                None,
                file,
                task=task,
                text_column="anchor",
                pair_column="positive",
                label_column="score",
                negative_columns=["typo"],
            )
    with pytest.raises(ValueError, match="'positive'"):
        SimilarityTask(negatives=["positive"])


def test_scored_pairs(checkpoint: Path, tmp_path: Path) -> None:
    files = [
        write(tmp_path / f"{seed}.jsonl", scored(count, seed))
        for seed, count in ((0, 300), (1, 100))
    ]
    scores = finetune(
        SimilarityTask(SCORED, max_score=5), checkpoint, *files, tmp_path / "out", OPTIONS
    )
    assert scores["spearman"] > 0.9


def test_pairs_can_be_evaluated_with_scores(checkpoint: Path, tmp_path: Path) -> None:
    files = [
        write(tmp_path / "train.jsonl", pairs(40, 0)),
        write(tmp_path / "dev.jsonl", scored(40, 1)),
    ]
    task = SimilarityTask(PAIRS, ["negative"], dev_table=SCORED)  # its scores are up to 5
    scores = finetune(
        task, checkpoint, *files, tmp_path / "out", TrainingOptions(steps=2, batch_size=8)
    )
    assert scores.keys() == {"pearson", "spearman"}


def test_held_out_pairs_are_ranked_although_a_test_file_has_scores(
    checkpoint: Path, tmp_path: Path
) -> None:
    test = write(tmp_path / "test.jsonl", scored(20, 1))
    task = SimilarityTask(PAIRS, dev_table=SCORED)
    records: list[dict[str, Any]] = []
    options = TrainingOptions(
        steps=4, batch_size=8, learning_rate=0.0, evaluate_every=1, patience=2
    )
    scores = finetune(
        task,
        checkpoint,
        pairs(40, 0),
        None,
        tmp_path / "out",
        options,
        test=test,
        callback=records.append,
    )
    assert {"recall@1", "mrr", "test_spearman"} <= scores.keys()
    assert max(record["step"] for record in records) == 3  # none is better than the first


@pytest.mark.parametrize("options", [{"pool": 50}, {"tokens_per_forward": 64}])
def test_options_that_the_task_decides(
    options: dict[str, Any], checkpoint: Path, tmp_path: Path
) -> None:
    (name,) = options
    with pytest.raises(ValueError, match=f"{name} has no effect on this task: drop it"):
        finetune(
            SimilarityTask(), checkpoint, pairs(4, 0), None, tmp_path, TrainingOptions(**options)
        )


@pytest.mark.parametrize("score", [0, -5.0, float("nan")])
def test_the_largest_score_is_positive(score: float) -> None:
    with pytest.raises(ValueError, match="max_score should be more than 0"):
        SimilarityTask(SCORED, max_score=score)


def test_rows_of_an_evaluation_file_may_lack_negatives(checkpoint: Path, tmp_path: Path) -> None:
    task = SimilarityTask(PAIRS, ["negative"])
    dev = [*pairs(4, 1), {"anchor": "a b", "positive": "n o"}]
    options = TrainingOptions(steps=1, batch_size=8)
    assert finetune(task, checkpoint, pairs(40, 0), dev, tmp_path / "out", options)


def test_sentence_transformers_loads_the_folder(tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer

    dense = {
        "in_features": 64,
        "out_features": 8,
        "bias": True,
        "activation_function": "torch.nn.modules.activation.Tanh",
    }
    pooling = {
        "word_embedding_dimension": 32,
        "pooling_mode_mean_tokens": True,
        "pooling_mode_cls_token": True,
    }
    checkpoint = sentence_folder(
        tmp_path / "checkpoint", ("Pooling", pooling), ("Dense", dense), ("Normalize", {})
    )
    layer = torch.nn.Linear(64, 8)

    save_file(
        {f"linear.{n}": p.detach() for n, p in layer.named_parameters()},
        checkpoint / "2_Dense" / "model.safetensors",
    )
    file = write(tmp_path / "train.jsonl", pairs(40, 0))
    finetune(
        SimilarityTask(),
        checkpoint,
        file,
        file,
        tmp_path / "out",
        TrainingOptions(steps=5, learning_rate=1e-3),
    )
    best, texts = tmp_path / "out", ["hello world", "how do tall trees grow"]
    ours = SentenceEmbedder.from_pretrained(best, precision=None).encode(texts)
    np.testing.assert_allclose(
        ours, SentenceTransformer(str(best), device="cpu").encode(texts), atol=1e-6
    )
    trained = load_file(best / "2_Dense" / "model.safetensors")["linear.weight"]
    assert not torch.equal(trained, layer.weight)  # the Dense layer is trained, too


class PowerCutError(Exception):
    """Ends a run between two steps."""


def test_a_resumed_run_ends_with_the_same_weights(tmp_path: Path) -> None:
    checkpoint = tiny_folder(tmp_path / "checkpoint")  # with dropout
    file = write(tmp_path / "train.jsonl", pairs(60, 0))
    options = TrainingOptions(
        steps=12, batch_size=8, learning_rate=1e-3, save_every=5, keep_states=1
    )
    finetune(SimilarityTask(matryoshka=[8]), checkpoint, file, file, tmp_path / "whole", options)

    def power_cut(record: dict[str, Any]) -> None:
        if record["step"] == 8:
            raise PowerCutError

    folder = tmp_path / "interrupted"
    task = SimilarityTask(matryoshka=[8])
    with pytest.raises(PowerCutError):
        finetune(task, checkpoint, file, file, folder, options, callback=power_cut)
    task = SimilarityTask(matryoshka=[8])
    finetune(task, checkpoint, file, file, folder, options, resume=True)
    whole, resumed = (
        torch.load(saved_states(tmp_path / name)[-1], weights_only=True)["model"]
        for name in ("whole", "interrupted")
    )
    assert all(torch.equal(resumed[name], weight) for name, weight in whole.items())


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"anchor": "a"}], "line 1: there is no column 'positive'. The columns are anchor"),
        (
            [{"anchor": "a", "positive": None, "score": 1}],
            "line 1: positive is null",
        ),
        (
            [{"anchor": "a", "positive": "b", "score": 4.5}],
            r"line 1: score should be a number of -1 to 1 .*, not 4.5",
        ),
        ([{"anchor": "a", "positive": "b", "score": "x"}], "score should be a number"),
    ],
)
def test_errors_name_damaged_rows(rows: list[dict[str, Any]], message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        SimilarityTask(SCORED).read(write(tmp_path / "train.jsonl", rows))


def test_matryoshka_sizes_that_are_too_large_raise_an_error(checkpoint: Path) -> None:
    with pytest.raises(ValueError, match="^matryoshka should have sizes from 1 to 31, not 32"):
        SimilarityTask(matryoshka=[16, 32]).load(checkpoint, [])


def test_a_pooling_that_is_not_saved_is_not_trained(checkpoint: Path) -> None:
    with pytest.raises(ArgumentError) as caught:
        SimilarityTask(pooling=["pooler", "mean"]).load(checkpoint, [])
    assert caught.value.argument.name == "pooling"


def test_the_command(checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(write(tmp_path / "train.jsonl", pairs(20, 0)))
    command = ["finetune", "triplets", "--text-column", "anchor", "--pair-column", "positive"]
    command += ["--train", file, "--dev", file, "--model", str(checkpoint)]
    command += ["--output", str(tmp_path / "out"), "--steps", "2"]
    assert main(command) == 2
    assert "give --negative-column" in capsys.readouterr().err
    command += ["--negative-column", "negative", "--matryoshka", "8,16", "--json"]
    assert main(command) == 0
    assert json.loads(capsys.readouterr().out).keys() == {"output", "mrr", "recall@1", "recall@10"}
    assert SentenceEmbedder.from_pretrained(tmp_path / "out").encode("a").shape == (32,)
