"""Pre-training: masking, pairs of sentences, reproducible epochs, losses and the command."""

from __future__ import annotations

import json
import math
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import tiny_config
from hypothesis import given, strategies as st
from safetensors.torch import load_file

from minibert import BertForMaskedLM, BertForPreTraining, BertTokenizer
from minibert.cli import main
from minibert.losses import IGNORED
from minibert.training.corpora import Corpus, encode_documents
from minibert.training.data import pack, pad
from minibert.training.options import PretrainOptions, TrainingOptions
from minibert.training.pretraining import (
    Masking,
    PretrainingData,
    pretrain,
    pretraining_losses,
    sentence_pairs,
    single_texts,
)
from minibert.training.processes import Processes
from minibert.training.run import Run

WORDS = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "un",
    "##believ",
    "##able",
    "cat",
    "dog",
    "sat",
]
WORDS += [f"word{i}" for i in range(988)]
PAD, UNK, CLS, SEP, MASK = range(5)


@pytest.fixture
def tokenizer(tmp_path: Path) -> BertTokenizer:
    (tmp_path / "vocab.txt").write_text("\n".join(WORDS) + "\n", encoding="utf-8")
    return BertTokenizer.from_pretrained(tmp_path)


def numbered_documents(count: int = 6) -> list[list[Any]]:
    """Return documents of unique tokens: document d has 1000 d, 1000 d + 1 and so on."""
    rng = np.random.default_rng(0)
    documents = []
    for number in range(count):
        ends = np.cumsum(rng.integers(1, 15, 30))
        documents.append(np.split(1000 * (number + 1) + np.arange(ends[-1]), ends[:-1]))
    return documents


def masked_tokens(tokenizer: BertTokenizer, whole_words: bool = False) -> tuple[Any, Any, Any]:
    """Mask a million tokens, 2 percent of them special. Return ids, masked ids and labels."""
    rng = np.random.default_rng(0)
    ids = rng.integers(5, len(WORDS), (1000, 1000))
    ids[rng.random(ids.shape) < 0.02] = SEP
    ids[:, 0] = CLS
    masking = Masking.for_tokenizer(tokenizer, whole_words=whole_words)
    rows = [masking(row, rng) for row in ids]
    return ids, np.stack([masked for masked, _ in rows]), np.stack([labels for _, labels in rows])


@pytest.mark.parametrize("whole_words", [False, True])
def test_masking_statistics_over_a_million_tokens(
    whole_words: bool, tokenizer: BertTokenizer
) -> None:
    ids, masked_ids, labels = masked_tokens(tokenizer, whole_words)
    chosen = labels != IGNORED

    assert not chosen[np.isin(ids, (PAD, UNK, CLS, SEP, MASK))].any()
    assert np.array_equal(masked_ids[~chosen], ids[~chosen])
    assert np.array_equal(labels[chosen], ids[chosen])
    # Five standard deviations are 0.0018 for a million draws and 0.005 for 150,000.
    assert abs(chosen.mean() / (ids >= 5).mean() - 0.15) < 0.002
    is_mask = masked_ids[chosen] == MASK
    is_unchanged = masked_ids[chosen] == ids[chosen]
    assert abs(is_mask.mean() - 0.8) < 0.005
    assert abs(is_unchanged.mean() - 0.1) < 0.005
    random_ids = masked_ids[chosen][~is_mask & ~is_unchanged]
    assert not np.isin(random_ids, (PAD, UNK, CLS, SEP, MASK)).any()
    assert len(np.unique(random_ids)) > 980  # nearly all words of the vocabulary


def test_whole_words_are_masked_with_all_their_pieces(tokenizer: BertTokenizer) -> None:
    ids = np.array(tokenizer("unbelievable cat unbelievable dog")["input_ids"])
    masking = Masking.for_tokenizer(tokenizer, probability=0.5, whole_words=True)
    rng = np.random.default_rng(0)
    for _ in range(100):
        chosen = masking(ids, rng)[1] != IGNORED
        assert len(set(chosen[1:4])) == 1 and len(set(chosen[5:8])) == 1
    assert ids.tolist() == [CLS, 5, 6, 7, 8, 5, 6, 7, 9, SEP]


def test_half_of_the_pairs_are_consecutive_and_the_others_cross_documents() -> None:
    documents = numbered_documents()
    flat = [np.concatenate(document) for document in documents]
    labels = []
    for seed in range(100):
        for first, second, label in sentence_pairs(documents, 40, np.random.default_rng(seed)):
            assert len(first) + (0 if second is None else len(second)) <= 40
            assert (np.diff(first) == 1).all()  # consecutive tokens of one document
            if second is None:
                assert label == IGNORED and first[-1] in (text[-1] for text in flat)
                continue
            assert len(first) and len(second) and (np.diff(second) == 1).all()
            same = first[0] // 1000 == second[0] // 1000
            assert same == (label == 0)
            labels.append(label)
            if label == 0:
                assert second[0] > first[-1]
    assert len(labels) > 4000
    assert abs(np.mean(labels) - 0.5) < 0.03  # four standard deviations


def test_without_truncation_the_next_text_starts_where_the_first_ends() -> None:
    pairs = sentence_pairs(numbered_documents(), 10_000, np.random.default_rng(0))
    consecutive = [
        (first, second) for first, second, label in pairs if label == 0 and second is not None
    ]
    assert consecutive
    assert all(second[0] == first[-1] + 1 for first, second in consecutive)


def test_no_text_is_lost() -> None:
    """Every token of the corpus is in a first text, or in a second text that follows it."""
    documents = numbered_documents()
    tokens: set[int] = set()
    for first, second, label in sentence_pairs(documents, 10_000, np.random.default_rng(1)):
        tokens.update(first.tolist())
        if second is not None and label == 0:
            tokens.update(second.tolist())
    assert tokens == {
        int(token) for document in documents for sentence in document for token in sentence
    }


def test_random_pairs_need_two_documents() -> None:
    with pytest.raises(ValueError, match="two or more documents, not 1: .*empty lines"):
        sentence_pairs(numbered_documents(1), 40, np.random.default_rng(0))


def test_texts_without_pairs_are_the_documents_in_order() -> None:
    documents = numbered_documents()
    everything = [np.concatenate(document).tolist() for document in documents]
    rng = np.random.default_rng(0)
    texts = [first for first, _, _ in single_texts(documents, 10_000, rng)]
    assert [text.tolist() for text in texts] == everything
    epochs = [[text for text, _, _ in single_texts(documents, 12, rng)] for _ in range(2)]
    for texts in epochs:
        assert np.concatenate(texts).tolist() == [*chain.from_iterable(everything)]
        assert {len(text) for text in texts} <= set(range(1, 13))
    assert [len(text) for text in epochs[0]] != [len(text) for text in epochs[1]]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_length": 4}, "max_length should be 5 or more, not 4"),
        ({"mask_probability": 1.5}, "mask_probability should be a share from 0 to 1, not 1.5"),
        ({}, "needs documents of several sentences, a line each: put them so"),
    ],
)
def test_impossible_options_and_documents_raise_an_error(
    options: dict[str, Any], message: str, tokenizer: BertTokenizer
) -> None:
    with pytest.raises(ValueError, match=message):
        PretrainingData(
            list(encode_documents([["cat sat"], ["dog sat"]], tokenizer)),
            tokenizer,
            PretrainOptions(**options),
        ).epoch(0)


@given(
    st.lists(
        st.lists(st.lists(st.integers(5, 98), min_size=1, max_size=12), min_size=1, max_size=6),
        min_size=2,
    ),
    st.integers(2, 60),
)
def test_any_corpus_gives_valid_pairs(corpus: list[list[list[int]]], limit: int) -> None:
    documents = [[np.array(sentence) for sentence in document] for document in corpus]
    for first, second, label in sentence_pairs(documents, limit, np.random.default_rng(0)):
        assert 1 <= len(first) and len(first) + (0 if second is None else len(second)) <= limit
        assert (second is None) == (label == IGNORED)


def pretraining_data(tokenizer: BertTokenizer, **options: Any) -> PretrainingData:
    documents = [
        ["cat sat word1", "dog sat word2 word3", "unbelievable cat"] * 5,
        ["word4 word5", "word6 word7"] * 5,
    ]
    return PretrainingData(
        list(encode_documents(documents, tokenizer)),
        tokenizer,
        PretrainOptions(max_length=24, **options),
    )


def test_epochs_differ_and_are_reproducible(tokenizer: BertTokenizer) -> None:
    def rows(data: PretrainingData, epoch: int) -> list[list[int]]:
        return [example["input_ids"].tolist() for example in data.epoch(epoch)]

    data, same, other_seed = (pretraining_data(tokenizer, seed=seed) for seed in (0, 0, 1))
    assert rows(data, 3) == rows(same, 3)
    assert rows(data, 3) != rows(data, 4)
    assert rows(data, 3) != rows(other_seed, 3)


def test_examples_have_the_layout_of_the_paper(tokenizer: BertTokenizer) -> None:
    for example in pretraining_data(tokenizer, mask_probability=0.0).epoch(0):
        ids, segments = example["input_ids"].tolist(), example["token_type_ids"].tolist()
        assert len(ids) <= 24 and ids[0] == CLS and ids[-1] == SEP
        assert segments == sorted(segments)
        assert ids.count(SEP) == (1 if example["next_sentence_label"] == IGNORED else 2)
        if example["next_sentence_label"] != IGNORED:
            # The first [SEP] belongs to the first text.
            assert segments.index(1) == ids.index(SEP) + 1
        assert (example["labels"] == IGNORED).all()


@pytest.mark.parametrize("next_sentence", [True, False])
def test_losses_equal_those_of_the_model(next_sentence: bool, tokenizer: BertTokenizer) -> None:
    examples = pretraining_data(tokenizer, next_sentence=next_sentence).epoch(0)
    model = (BertForPreTraining if next_sentence else BertForMaskedLM)(
        tiny_config(vocab_size=len(WORDS))
    ).eval()
    batch = pack(examples)

    losses = pretraining_losses(model, batch)

    means = [summed / (batch[name] != IGNORED).sum() for name, summed in losses.items()]
    assert len(means) == (2 if next_sentence else 1)
    torch.testing.assert_close(sum(means), model(**batch).loss)


def test_all_words_of_a_span_are_masked_alike(tokenizer: BertTokenizer) -> None:
    masking = Masking.for_tokenizer(tokenizer, spans=True)
    ids = np.full(200_000, WORDS.index("cat"))
    masked_ids, labels = masking(ids, np.random.default_rng(0))
    chosen = labels != IGNORED
    edges = np.flatnonzero(np.diff(chosen.astype(int), prepend=0, append=0))
    starts, ends = edges[::2], edges[1::2]
    assert chosen.mean() == pytest.approx(0.15, abs=0.01)
    # A geometric distribution with p = 0.2, truncated at 10 words, has a mean of 4.46. Adjacent
    # spans look like a single one.
    assert (ends - starts).mean() == pytest.approx(4.46 / 0.85, rel=0.1)
    is_uniform = [
        len(set((masked_ids[start:end] == MASK).tolist())) == 1
        for start, end in zip(starts, ends, strict=True)
    ]
    assert np.mean(is_uniform) > 0.9


def test_sentence_order_swaps_half_of_the_pairs() -> None:
    pairs = sentence_pairs(numbered_documents(1), 60, np.random.default_rng(0), sentence_order=True)
    labels = set()
    for first, second, label in pairs:
        if second is not None:
            assert (second[0] > first[0]) == (label == 0)
            labels.add(label)
    assert labels == {0, 1}


def test_scores_of_a_run_equal_those_of_transformers(
    tokenizer: BertTokenizer, tmp_path: Path
) -> None:
    """transformers computes held-out loss, perplexity and accuracies from the saved model."""
    transformers = pytest.importorskip("transformers")
    rng = np.random.default_rng(0)
    lines = [" ".join(f"word{i}" for i in rng.integers(0, 50, 8)) for _ in range(400)]
    # Every document has two lines.
    documents = [f"{lines[n]}\n{lines[n + 1]}\n" for n in range(0, len(lines), 2)]
    (tmp_path / "corpus.txt").write_text("\n".join(documents), "utf-8")
    model = BertForPreTraining(tiny_config(vocab_size=len(WORDS)))
    options = PretrainOptions(
        steps=4, batch_size=8, evaluate_every=4, pool=1, max_length=32, held_out=0.1
    )
    records: list[dict[str, Any]] = []
    corpus_file = str(tmp_path / "corpus.txt")
    pretrain(model, tokenizer, [corpus_file], tmp_path / "run", options, callback=records.append)

    corpus = Corpus([str(tmp_path / "corpus.txt")], tokenizer, tmp_path / "again", held_out=0.1)
    examples = PretrainingData(
        corpus.held_out(10**6), tokenizer, PretrainOptions(max_length=32)
    ).epoch(0)
    reference = transformers.BertForPreTraining.from_pretrained(tmp_path / "run").eval()
    batch = pad(examples, 0)
    with torch.no_grad():
        output = reference(**batch)
        logits = reference(**{**batch, "next_sentence_label": None}).prediction_logits
    logits = logits.transpose(1, 2)  # (batch, vocab, seq)
    is_masked = batch["labels"] != IGNORED
    loss = torch.nn.functional.cross_entropy(logits, batch["labels"]).item()
    scores = next(record for record in records if "perplexity" in record)
    assert scores["held_out_loss"] == pytest.approx(output.loss.item(), rel=1e-5)
    assert scores["perplexity"] == pytest.approx(np.exp(loss), rel=1e-4)
    is_correct = (logits.argmax(1) == batch["labels"])[is_masked]
    assert scores["masked_accuracy"] == is_correct.double().mean().item()
    is_pair = batch["next_sentence_label"] != IGNORED
    is_correct = output.seq_relationship_logits.argmax(-1) == batch["next_sentence_label"]
    assert scores["next_sentence_accuracy"] == is_correct[is_pair].double().mean().item()
    steps = [record for record in records if "loss" in record]
    for step in steps:
        assert step["loss"] == pytest.approx(step["mlm_loss"] + step.get("nsp_loss", 0), rel=1e-6)
    lines = (tmp_path / "run" / "log.jsonl").read_text("utf-8").splitlines()
    assert [json.loads(line) for line in lines] == records


def test_the_command_can_learn_a_vocabulary(tmp_path: Path) -> None:
    (tmp_path / "corpus.txt").write_text(
        "나는 한국을 사랑한다.\n너는 한국을 사랑하니?\n\n" * 20, encoding="utf-8"
    )
    (tmp_path / "config.json").write_text(
        json.dumps(tiny_config(max_position_embeddings=128).to_dict()), encoding="utf-8"
    )
    command = ["pretrain", "--config", str(tmp_path / "config.json")]
    command += ["--corpus", str(tmp_path / "corpus.txt"), "--output", str(tmp_path / "out")]
    command += ["--steps", "3", "--batch-size", "4", "--vocab-size", "60"]
    command += ["--cased", "--whole-words", "--no-next-sentence"]
    assert main(command) == 0
    model = BertForMaskedLM.from_pretrained(tmp_path / "out")
    tokenizer = BertTokenizer.from_pretrained(tmp_path / "out")
    assert model.config.vocab_size == len(tokenizer) <= 60
    assert tokenizer.tokenize("나는 한국을") == ["나는", "한국을"] and not tokenizer.do_lower_case


def test_the_command_continues_from_a_checkpoint(tokenizer: BertTokenizer, tmp_path: Path) -> None:
    before = BertForPreTraining(tiny_config(vocab_size=len(WORDS)))
    before.save_pretrained(tmp_path / "before")
    tokenizer.save_pretrained(tmp_path / "before")
    (tmp_path / "corpus.txt").write_text(
        "cat sat\ndog sat\n\nword1 word2\nword3\n", encoding="utf-8"
    )
    files = ["--corpus", str(tmp_path / "corpus.txt"), "--output", str(tmp_path / "out")]
    command = ["pretrain", "--model", str(tmp_path / "before"), *files, "--max-length", "16"]
    assert main([*command, "--steps", "2", "--batch-size", "2", "--learning-rate", "1e-6"]) == 0
    after = BertForPreTraining.from_pretrained(tmp_path / "out").state_dict()
    for name, weight in before.state_dict().items():
        torch.testing.assert_close(after[name], weight, rtol=0, atol=1e-5)
    assert any(not torch.equal(after[name], weight) for name, weight in before.state_dict().items())


def test_a_run_is_resumed_from_its_folder_alone(
    tokenizer: BertTokenizer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It ends with the weights of an uninterrupted run, and keeps checkpoints but no states."""
    BertForPreTraining(tiny_config(vocab_size=len(WORDS))).save_pretrained(tmp_path / "before")
    tokenizer.save_pretrained(tmp_path / "before")
    (tmp_path / "corpus.txt").write_text(
        "cat sat\ndog sat\n\nword1 word2\nword3\n\n" * 20, encoding="utf-8"
    )
    command = ["pretrain", "--model", str(tmp_path / "before")]
    command += ["--corpus", str(tmp_path / "corpus.txt"), "--max-length", "16", "--steps", "6"]
    command += ["--batch-size", "4", "--save-every", "2", "--checkpoints", "2"]
    assert main([*command, "--output", str(tmp_path / "whole")]) == 0
    train_step = Run.train_step

    def power_cut(self: Run, batch: Any) -> Any:
        if self.step == 5:
            raise OSError("the power went off.")
        return train_step(self, batch)

    with monkeypatch.context() as patch:
        patch.setattr(Run, "train_step", power_cut)
        assert main([*command, "--output", str(tmp_path / "interrupted")]) == 1
    assert main(["pretrain", "--output", str(tmp_path / "interrupted"), "--resume"]) == 0
    whole, resumed = (
        load_file(tmp_path / name / "model.safetensors") for name in ("whole", "interrupted")
    )
    assert all(torch.equal(resumed[name], weight) for name, weight in whole.items())
    first_checkpoint = tmp_path / "interrupted" / "checkpoints" / "step-000000"
    assert BertTokenizer.from_pretrained(first_checkpoint).tokenize("cat") == ["cat"]
    states = [path.name for path in sorted(tmp_path.glob("*/states/*.pt"))]
    assert states == ["state-000000006.pt"] * 2
    assert main([*command, "--output", str(tmp_path / "interrupted")]) == 1
    assert "already holds a run" in capsys.readouterr().err
    assert main(["pretrain", "--output", str(tmp_path / "other"), "--resume"]) == 2
    assert "other holds no run to resume: give --corpus" in capsys.readouterr().err


def test_two_phases_of_lengths(tokenizer: BertTokenizer, tmp_path: Path) -> None:
    """The second phase has longer examples and a decaying rate, as in the README."""
    BertForPreTraining(tiny_config(vocab_size=len(WORDS))).save_pretrained(tmp_path / "before")
    tokenizer.save_pretrained(tmp_path / "before")
    (tmp_path / "corpus.txt").write_text(
        ("cat sat word1\ndog sat word2\n" * 9 + "\n") * 20, encoding="utf-8"
    )
    command = ["pretrain", "--model", str(tmp_path / "before")]
    command += ["--corpus", str(tmp_path / "corpus.txt"), "--max-length", "16", "--steps", "6"]
    command += ["--batch-size", "4", "--warmup", "0", "--decay-steps", "0"]
    assert main([*command, "--output", str(tmp_path / "run"), "--keep-states", "1"]) == 0
    more = ["--resume-with-other-data", "--max-length", "48", "--steps", "9", "--decay-steps", "3"]
    assert main(["pretrain", "--output", str(tmp_path / "run"), *more]) == 0
    lines = (tmp_path / "run" / "log.jsonl").read_text(encoding="utf-8").splitlines()
    steps = [record for record in map(json.loads, lines) if "tokens" in record]
    assert [record["step"] for record in steps] == list(range(1, 10))
    assert max(record["tokens"] for record in steps[:6]) <= 4 * 16
    assert max(record["tokens"] for record in steps[6:]) > 4 * 16
    rates = [record["learning_rate"] / 1e-4 for record in steps]
    assert rates == pytest.approx([1.0] * 7 + [2 / 3, 1 / 3])


def test_the_command_needs_a_config_or_a_checkpoint(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["pretrain", "--corpus", "a.txt", "--output", "out"]) == 2
    assert "give --config to start from scratch, or --model to continue" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("corpus", "options", "message"),
    [
        ("corpus.txt", PretrainOptions(), "corpus should be a list of files, not the string"),
        (Path("corpus.txt"), PretrainOptions(), "corpus should be a list of files"),
        (["corpus.txt"], TrainingOptions(), "should be PretrainOptions, not a TrainingOptions"),
    ],
)
def test_other_arguments_are_refused(
    corpus: Any, options: Any, message: str, tokenizer: BertTokenizer, tmp_path: Path
) -> None:
    model = BertForPreTraining(tiny_config(vocab_size=len(WORDS)))
    with pytest.raises(TypeError, match=message):
        pretrain(model, tokenizer, corpus, tmp_path / "out", options)


@pytest.mark.parametrize("weight", [0.0, -1.0, math.nan])
def test_a_corpus_without_weight_is_refused(
    weight: float, tokenizer: BertTokenizer, tmp_path: Path
) -> None:
    model = BertForPreTraining(tiny_config(vocab_size=len(WORDS)))
    corpus = {"a.txt": 1.0, "b.txt": weight}
    with pytest.raises(ValueError, match=r"the weight of b\.txt should be more than 0"):
        pretrain(model, tokenizer, corpus, tmp_path / "out", PretrainOptions(max_length=16))


@pytest.mark.parametrize(
    ("model_class", "corpus", "message"),
    [
        (BertForPreTraining, [], "corpus names no file"),
        (BertForMaskedLM, ["a.txt"], "no head for next sentences"),
    ],
)
def test_what_cannot_be_pretrained_is_refused_before_anything_is_read(
    model_class: Any, corpus: list[str], message: str, tokenizer: BertTokenizer, tmp_path: Path
) -> None:
    model = model_class(tiny_config(vocab_size=len(WORDS)))
    with pytest.raises(ValueError, match=message):
        pretrain(model, tokenizer, corpus, tmp_path / "out", PretrainOptions(max_length=16))
    assert not (tmp_path / "out" / "tokens").exists()


def test_a_model_is_saved_where_patience_has_nothing_to_measure(
    tokenizer: BertTokenizer, tmp_path: Path
) -> None:
    file = tmp_path / "corpus.txt"
    file.write_text("cat sat word1\ndog sat word2\n\n" * 20, encoding="utf-8")
    model = BertForPreTraining(tiny_config(vocab_size=len(WORDS)))
    options = PretrainOptions(steps=1, batch_size=4, max_length=16, held_out=0.0, patience=2)
    pretrain(model, tokenizer, (name for name in [str(file)]), tmp_path / "out", options)
    saved = BertForPreTraining.from_pretrained(tmp_path / "out")
    assert torch.equal(saved.bert.pooler.dense.weight, model.bert.pooler.dense.weight)


def test_no_process_reads_a_corpus_before_the_first_has_removed_an_old_error(
    tokenizer: BertTokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "corpus.txt"
    file.write_text("cat sat word1\ndog sat word2\n\n" * 20, encoding="utf-8")
    error = tmp_path / "out" / "tokens" / "0" / "error.json"
    error.parent.mkdir(parents=True)
    error.write_text("{}", encoding="utf-8")
    meetings = []

    class Together(Processes):
        def gather(self, value: Any) -> list[Any]:
            meetings.append(error.exists())
            return super().gather(value)

    monkeypatch.setattr("minibert.training.pretraining.Processes", Together)
    model = BertForPreTraining(tiny_config(vocab_size=len(WORDS)))
    options = PretrainOptions(steps=1, batch_size=4, max_length=16)
    pretrain(model, tokenizer, [str(file)], tmp_path / "out", options)
    assert meetings == [False]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--config", "tiny", "--vocab", "v", "--vocab-size", "50"], "no effect on --vocab"),
        (["--model", "minibert-tiny", "--vocab-size", "50"], "no effect on --model"),
        (["--model", "minibert-tiny", "--adapt-vocab"], "--adapt-vocab needs --model and --vocab"),
        (["--config", "tiny", "--no-next-sentence", "--sentence-order"], "--no-next-sentence"),
    ],
)
def test_options_without_effect_are_refused(
    options: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["pretrain", "--corpus", "a.txt", "--output", str(tmp_path / "out")]
    assert main([*command, *options]) == 2
    assert message in capsys.readouterr().err
