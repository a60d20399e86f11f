"""The training loop: equal to a plain transformers loop, and to itself when resumed or split."""

from __future__ import annotations

import importlib
import json
import math
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import tiny_config, with_reference
from torch import Tensor

from minibert import BertForSequenceClassification
from minibert.losses import IGNORED
from minibert.tasks.sequence import SequenceTask
from minibert.training.data import Example, epoch_order, pad
from minibert.training.options import TrainingOptions
from minibert.training.run import Run, compare_scores
from minibert.training.state import read_state, remove_states, saved_states
from minibert.training.steps import LossWatch, count_labels, linear_schedule, make_optimizer

OPTIONS = TrainingOptions(steps=50, batch_size=8, learning_rate=1e-3, exact=True)
losses_of = SequenceTask().loss


pytestmark = pytest.mark.usefixtures("one_thread")


def classification_examples(count: int = 100) -> list[Example]:
    """Return texts of 2 to 20 random ids, labeled by the parity of the first id."""
    rng = np.random.default_rng(0)
    texts = [rng.integers(5, 99, rng.integers(2, 21)) for _ in range(count)]
    return [
        {"input_ids": ids, "token_type_ids": np.zeros_like(ids), "labels": int(ids[0] % 2)}
        for ids in texts
    ]


def trainer_of(model: Any, folder: Path, options: TrainingOptions, **arguments: Any) -> Run:
    return Run(model, lambda _: classification_examples(), losses_of, folder, options, **arguments)


def run(model: Any, folder: Path, options: TrainingOptions, **arguments: Any) -> list[float]:
    """Train, and return the losses of the log."""
    trainer_of(model, folder, options, **arguments).train()
    return logged(folder, "loss")


def logged(folder: Path, key: str) -> list[float]:
    """Return the value of `key` in each line of a run's log."""
    lines = (folder / "log.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line)[key] for line in lines]


def assert_same_weights(
    first: dict[str, Tensor], second: dict[str, Tensor], tolerance: float = 0.0
) -> None:
    for name, weight in first.items():
        torch.testing.assert_close(
            second[name],
            weight,
            rtol=0,
            atol=tolerance,
            msg=lambda message, name=name: f"{name}: {message}",
        )


def reference_losses(theirs: Any, options: TrainingOptions) -> list[float]:
    """Train as a transformers user does, with the same batches, and return the losses."""
    transformers = importlib.import_module("transformers")
    examples = classification_examples()
    lengths = [len(example["input_ids"]) for example in examples]
    assert options.steps is not None
    batches: list[list[Example]] = []
    for epoch in range(5):
        for batch in epoch_order(lengths, options.batch_size, options.seed, epoch):
            batches.append([examples[index] for index in batch])
    batches = batches[: options.steps]
    decayed, bare = [], []
    for name, parameter in theirs.named_parameters():
        is_bare = "LayerNorm" in name or name.endswith("bias")
        (bare if is_bare else decayed).append(parameter)
    groups = [{"params": decayed, "weight_decay": 0.01}, {"params": bare, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=options.learning_rate, fused=True)
    schedule = transformers.get_linear_schedule_with_warmup(
        optimizer, options.steps // 10, options.steps
    )
    theirs.train()
    losses = []
    for examples_of_batch in batches:
        examples_of_batch.sort(key=lambda example: len(example["input_ids"]))
        loss = theirs(**pad(examples_of_batch, 0)).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(theirs.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def test_the_learning_rate_can_be_constant_before_it_decays() -> None:
    rates = [linear_schedule(step, steps=20, warmup=0.2, decay_steps=5) for step in range(21)]
    assert rates == pytest.approx(
        [0, 0.25, 0.5, 0.75, *[1.0] * 12, 0.8, 0.6, 0.4, 0.2][:20] + [0.0]
    )


def test_an_endless_run_can_be_resumed_with_an_end(tmp_path: Path) -> None:
    endless = replace(OPTIONS, steps=1000, warmup=0.004, decay_steps=1, save_every=20)
    steps = 0

    def interrupted(model: Any, batch: Any) -> Any:
        nonlocal steps
        steps += 1
        if steps > 20:
            raise KeyboardInterrupt
        return losses_of(model, batch)

    with pytest.raises(KeyboardInterrupt):
        model = BertForSequenceClassification(tiny_config())
        Run(model, lambda _: classification_examples(), interrupted, tmp_path, endless).train()
    ending = replace(endless, steps=30, decay_steps=10)
    trainer_of(BertForSequenceClassification(tiny_config()), tmp_path, ending, resume=True).train()
    decay = [1e-3 * share / 10 for share in range(10, 0, -1)]
    expected = [0.75e-3, *[1e-3] * 16, *decay]
    assert logged(tmp_path, "learning_rate")[3:] == pytest.approx(expected)


def test_a_resumed_run_may_change_its_schedule(tmp_path: Path) -> None:
    """The first run stopped during its warm-up, as `ko` of the recipe may before `decay-ko`."""
    trainer_of(
        BertForSequenceClassification(tiny_config()),
        tmp_path,
        replace(OPTIONS, steps=3, warmup=1.0),
    ).train()
    slower = replace(OPTIONS, steps=10, warmup=0.5, learning_rate=1e-4)
    trainer_of(BertForSequenceClassification(tiny_config()), tmp_path, slower, resume=True).train()
    expected = [0.6e-4, 0.8e-4, 1e-4, 0.8e-4, 0.6e-4, 0.4e-4, 0.2e-4]
    assert logged(tmp_path, "learning_rate")[3:] == pytest.approx(expected)


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_fifty_steps_equal_a_transformers_loop_with_dropout(attention: str, tmp_path: Path) -> None:
    ours, theirs = with_reference(
        "BertForSequenceClassification", tiny_config(attn_implementation=attention)
    )

    torch.manual_seed(3)
    expected = reference_losses(theirs, OPTIONS)
    torch.manual_seed(3)
    losses = run(ours, tmp_path, OPTIONS)

    assert losses == expected
    assert_same_weights(dict(theirs.state_dict()), dict(ours.state_dict()))
    assert losses[-1] < losses[0]


def test_packed_losses_equal_padded_ones(tmp_path: Path) -> None:
    config = tiny_config(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    ours, theirs = with_reference("BertForSequenceClassification", config)

    losses = run(ours, tmp_path, replace(OPTIONS, exact=False))

    expected = reference_losses(theirs, OPTIONS)
    assert max(abs(a - b) for a, b in zip(losses, expected, strict=True)) < 1e-5


def trained(folder: Path, **changes: Any) -> dict[str, Tensor]:
    torch.manual_seed(0)
    config = tiny_config(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    model = BertForSequenceClassification(config)
    run(model, folder, TrainingOptions(**{**vars(OPTIONS), "steps": 10, **changes}))
    return dict(model.state_dict())


def test_a_batch_split_into_several_forwards_gives_the_same_weights(tmp_path: Path) -> None:
    whole = trained(tmp_path / "whole")
    split = trained(tmp_path / "split", tokens_per_forward=25)
    assert_same_weights(whole, split, tolerance=1e-6)


class PowerCutError(Exception):
    """Ends a run between two steps."""


def power_cut_in(step: int) -> Any:
    """Return a callback that ends a run after a step is logged and before it is saved."""

    def callback(record: dict[str, Any]) -> None:
        if record["step"] == step:
            raise PowerCutError

    return callback


# An epoch has 13 steps.
THIRTY = TrainingOptions(steps=30, batch_size=8, learning_rate=1e-3, save_every=4)


@pytest.fixture(scope="module")
def whole_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[float], dict[str, Tensor]]:
    """The losses and the weights of a run that nothing stops."""
    torch.manual_seed(1)
    model = BertForSequenceClassification(tiny_config())
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as in the tests: `one_thread` comes after the fixtures of a module
    losses = run(model, tmp_path_factory.mktemp("whole"), THIRTY)
    torch.set_num_threads(threads)
    return losses, dict(model.state_dict())


@pytest.mark.parametrize("step", [1, 13, 14, 29])
def test_a_resumed_run_ends_with_the_same_weights_and_log(
    step: int, whole_run: tuple[list[float], dict[str, Tensor]], tmp_path: Path
) -> None:
    torch.manual_seed(1)
    interrupted = BertForSequenceClassification(tiny_config())
    with pytest.raises(PowerCutError):
        run(interrupted, tmp_path, THIRTY, callback=power_cut_in(step))
    torch.manual_seed(99)  # the seed of the resumed process does not matter
    resumed = BertForSequenceClassification(tiny_config())
    losses = run(resumed, tmp_path, THIRTY, resume=True)

    expected, weights = whole_run
    assert losses == expected
    assert_same_weights(weights, dict(resumed.state_dict()))


def test_a_state_is_loaded_without_running_code(tmp_path: Path) -> None:
    trained(tmp_path)
    assert (
        torch.load(tmp_path / "states" / "state-000000010.pt", weights_only=True)["position"][
            "step"
        ]
        == 10
    )


def test_a_new_run_does_not_overwrite_an_old_one(tmp_path: Path) -> None:
    trained(tmp_path)
    with pytest.raises(
        ValueError,
        match="holds a run: pass resume=True .*another folder",
    ):
        trained(tmp_path)


def test_resuming_without_a_state_raises_an_error(tmp_path: Path) -> None:
    model = BertForSequenceClassification(tiny_config())
    with pytest.raises(FileNotFoundError, match="holds no state to resume from: start without"):
        run(model, tmp_path, OPTIONS, resume=True)


def test_training_without_examples_raises_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="There are no examples to train on"):
        Run(
            BertForSequenceClassification(tiny_config()), lambda _: [], losses_of, tmp_path, OPTIONS
        )


def test_biases_and_layer_norms_do_not_decay() -> None:
    model = BertForSequenceClassification(tiny_config())
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    decayed, bare = make_optimizer(model, OPTIONS).param_groups
    assert decayed["weight_decay"] == 0.01 and bare["weight_decay"] == 0.0
    for name in (names[id(parameter)] for parameter in decayed["params"]):
        assert name.endswith("weight") and "LayerNorm" not in name
    for name in (names[id(parameter)] for parameter in bare["params"]):
        assert name.endswith("bias") or "LayerNorm" in name
    assert len(decayed["params"]) + len(bare["params"]) == len(names)


def test_lower_layers_have_smaller_rates_and_frozen_ones_stay_unchanged(tmp_path: Path) -> None:
    model = BertForSequenceClassification(tiny_config())
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    options = replace(OPTIONS, steps=2, layer_decay=0.5, freeze=1)
    trainer = trainer_of(model, tmp_path, options)
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    shares = {
        names[id(parameter)]: group["share"]
        for group in trainer.updates.optimizer.param_groups
        for parameter in group["params"]
    }
    assert shares["classifier.weight"] == shares["bert.pooler.dense.bias"] == 1.0
    assert shares["bert.encoder.layer.1.output.dense.weight"] == 0.5
    assert not [name for name in shares if "embeddings" in name or "layer.0." in name]
    trainer.train()
    unchanged = {
        name for name, weight in model.state_dict().items() if torch.equal(weight, before[name])
    }
    assert unchanged == {name for name in before if "embeddings" in name or "layer.0." in name}


def test_ignored_labels_are_not_counted() -> None:
    examples = [{"labels": np.array([-100, 3, -100])}, {"labels": np.array([1, 2])}]
    assert count_labels(examples, "labels") == 3
    assert count_labels([{"labels": 2.5}, {"labels": 0.0}], "labels") == 2


def test_early_stopping_keeps_the_best_model(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The score falls after the second evaluation, and training stops two evaluations later."""
    model = BertForSequenceClassification(tiny_config())
    best: dict[str, Tensor] = {}
    scores = iter([0.1, 0.5, 0.4, 0.3, 0.9])

    def evaluate() -> dict[str, float]:
        assert not model.training
        score = next(scores)
        if score == 0.5:
            best.update({name: weight.clone() for name, weight in model.state_dict().items()})
        return {"score": score}

    options = TrainingOptions(
        steps=100, batch_size=8, learning_rate=1e-3, evaluate_every=5, patience=2
    )
    trainer = trainer_of(model, tmp_path, replace(options, metric="score"), evaluate=evaluate)
    caplog.set_level("INFO", "minibert")
    trainer.train()

    assert trainer.step == 20
    assert "stopped after step 20 of 100: no better score in 2 evaluations" in caplog.text
    assert_same_weights(
        best, dict(BertForSequenceClassification.from_pretrained(tmp_path).state_dict())
    )


def test_more_frozen_layers_than_there_are_raise_an_error(tmp_path: Path) -> None:
    model = BertForSequenceClassification(tiny_config())
    layers = model.config.num_hidden_layers
    trainer_of(model, tmp_path, replace(OPTIONS, freeze=layers))
    with pytest.raises(ValueError, match=f"the model has only {layers} layers"):
        trainer_of(model, tmp_path, replace(OPTIONS, freeze=layers + 1))


def test_a_loss_without_labels_is_not_in_the_record(tmp_path: Path) -> None:
    """A batch of single texts has no loss of pairs, which would else read 0."""

    def objective(model: Any, batch: dict[str, Any]) -> dict[str, torch.Tensor]:
        loss = SequenceTask().loss(model, batch)["labels"]
        return {"labels": loss, "next_sentence_label": 0 * loss}

    examples = [
        {**example, "next_sentence_label": IGNORED} for example in classification_examples()[:8]
    ]
    model = BertForSequenceClassification(tiny_config())
    trainer = Run(model, lambda _: examples, objective, tmp_path, OPTIONS)
    record = trainer.train_step(trainer.next_batch())
    assert record["mlm_loss"] == record["loss"] and "nsp_loss" not in record


def test_without_tensorboard_no_folder_is_created(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same command works after tensorboard is installed."""
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(
        ImportError, match="A log for TensorBoard needs tensorboard, which is not installed"
    ):
        run(
            BertForSequenceClassification(tiny_config()),
            tmp_path / "run",
            replace(OPTIONS, steps=5, tensorboard=True),
        )
    assert not (tmp_path / "run").exists()


def test_tensorboard_gets_the_log(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    losses = run(
        BertForSequenceClassification(tiny_config()),
        tmp_path,
        replace(OPTIONS, steps=5, tensorboard=True),
    )
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    assert [event.value for event in events.Scalars("loss")] == pytest.approx(losses)


@pytest.mark.needs("locks")
def test_each_epoch_is_saved_and_partial_files_are_removed(tmp_path: Path) -> None:
    (tmp_path / "states").mkdir()
    (tmp_path / "states" / ".state-000000007.pt.0.tmp").write_bytes(b"half")
    options = TrainingOptions(epochs=2, batch_size=8, learning_rate=1e-3)
    options = replace(options, keep_states=9)
    trainer_of(BertForSequenceClassification(tiny_config()), tmp_path, options).train()
    saved = [read_state(path)["position"]["step"] for path in saved_states(tmp_path)]
    assert saved == [0, 13, 26]
    assert not list(tmp_path.glob("*.tmp")) + list(tmp_path.glob(".*.tmp"))


def test_a_loss_of_nan_ends_the_run(tmp_path: Path) -> None:
    examples = classification_examples()
    model = BertForSequenceClassification(tiny_config(num_labels=1, problem_type="regression"))
    for example in examples:
        example["labels"] = float("nan")
    losses = SequenceTask(regression=True).loss
    with pytest.raises(
        ValueError,
        match=r"nan in step 1 .*lower learning_rate.* from step 0",
    ):
        Run(model, lambda _: examples, losses, tmp_path, OPTIONS).train()


def test_the_error_names_a_state_that_reproduces_the_failure(tmp_path: Path) -> None:
    """The next step's loss is that of the saved weights, whatever the learning rate."""
    model = BertForSequenceClassification(tiny_config())
    trainer_of(model, tmp_path, replace(OPTIONS, steps=2, save_every=1)).train()
    with pytest.raises(ValueError, match=r"in step 3 .*2\.pt .*delete it, and resume=True"):
        trainer = trainer_of(model, tmp_path, replace(OPTIONS, steps=4), resume=True)
        trainer.updates.objective = lambda model, batch: {
            "labels": losses_of(model, batch)["labels"] * math.inf
        }
        trainer.train()
    saved_states(tmp_path)[0].unlink()
    # The error does not suggest deleting the only state.
    with pytest.raises(ValueError, match=r"Start again with resume=True"):
        trainer = trainer_of(model, tmp_path, replace(OPTIONS, steps=4), resume=True)
        trainer.updates.objective = lambda model, batch: {
            "labels": losses_of(model, batch)["labels"] * math.inf
        }
        trainer.train()


def test_files_with_other_names_are_not_states(tmp_path: Path) -> None:
    model = BertForSequenceClassification(tiny_config())
    trainer_of(model, tmp_path, replace(OPTIONS, steps=2, save_every=1)).train()
    states = tmp_path / "states"
    (states / "state-previous.pt").write_bytes((states / "state-000000001.pt").read_bytes())
    trainer_of(model, tmp_path, replace(OPTIONS, steps=3), resume=True).train()
    assert (states / "state-previous.pt").is_file()
    assert saved_states(tmp_path)[-1].name == "state-000000003.pt"


def test_a_score_may_be_named_loss(tmp_path: Path) -> None:
    trainer = trainer_of(
        BertForSequenceClassification(tiny_config()), tmp_path, replace(OPTIONS, steps=2)
    )
    trainer.evaluate = lambda: {"loss": 0.3}
    trainer.options = replace(trainer.options, metric="loss")
    trainer.train()
    assert trainer.best_scores == {"loss": 0.3}


def test_one_batch_of_a_large_loss_does_not_end_a_run(tmp_path: Path) -> None:
    """As of a rare class with a large weight, or of a number far from the others."""
    step = 0

    def with_an_outlier(model: Any, batch: Any) -> dict[str, Tensor]:
        nonlocal step
        step += 1
        factor = 1e6 if step == 4 else 1.0
        return {"labels": losses_of(model, batch)["labels"] * factor}

    model = BertForSequenceClassification(tiny_config())
    options = replace(OPTIONS, steps=8)
    trainer = Run(model, lambda _: classification_examples(), with_an_outlier, tmp_path, options)
    trainer.train()
    assert trainer.step == 8


@pytest.mark.parametrize(
    ("losses", "is_reported"),
    [
        ([1.0] * 200, False),
        ([1.0] * 60 + [1e9] + [1.0] * 60, False),
        ([2.0 / (step + 1) for step in range(300)], False),
        ([1.0 * 1.05**step for step in range(200)], True),
        ([2.0] * 50 + [0.1] * 100 + [3.0] * 50, True),
        ([1.0] * 50 + [1e-4] * 100 + [5e-4] * 100, False),  # it has nothing more to learn
    ],
)
def test_a_loss_that_rises_is_reported_once(losses: list[float], is_reported: bool) -> None:
    watch = LossWatch()
    assert sum(watch.rise(loss) is not None for loss in losses) == is_reported


@pytest.mark.parametrize(
    ("scores", "best", "metric", "expected"),
    [
        ({"f1": 0.5, "loss": 2.0}, {}, "f1", 1),
        ({"f1": 0.5, "loss": 2.0}, {"f1": 0.4, "loss": 1.0}, "f1", 1),
        ({"f1": 0.0, "loss": 1.0}, {"f1": 0.0, "loss": 2.0}, "f1", 1),  # a tie
        ({"f1": 0.0, "loss": 2.0}, {"f1": 0.0, "loss": 1.0}, "f1", -1),
        ({"f1": 0.0}, {"f1": 0.0}, "f1", 0),
        ({"loss": 1.0}, {"loss": 2.0}, "loss", 1),
        ({"mse": 3.0, "loss": 1.0}, {"mse": 2.0, "loss": 2.0}, "mse", -1),
        ({"held_out_loss": 1.0}, {"held_out_loss": 2.0}, "held_out_loss", 1),
        ({"f1": 0.1}, {"f1": math.nan}, "f1", 1),
        ({"f1": math.nan}, {"f1": 0.1}, "f1", -1),
    ],
)
def test_which_scores_are_better(
    scores: dict[str, float], best: dict[str, float], metric: str, expected: int
) -> None:
    assert compare_scores(scores, best, metric) == expected


def test_of_equal_scores_the_later_model_is_kept_and_patience_runs_out(tmp_path: Path) -> None:
    options = replace(OPTIONS, steps=20, evaluate_every=5, patience=2)
    model = BertForSequenceClassification(tiny_config())
    trainer = trainer_of(
        model, tmp_path, replace(options, metric="score"), evaluate=lambda: {"score": 0.0}
    )
    trainer.train()
    assert trainer.step == 15
    kept = BertForSequenceClassification.from_pretrained(tmp_path)
    assert_same_weights(kept.state_dict(), model.state_dict())


def test_another_metric_is_compared_with_the_best_model_so_far(tmp_path: Path) -> None:
    """A resumed run keeps the model that is in the folder unless a later one is better."""
    scores = {"first": 0.9, "second": 0.9}
    options = replace(OPTIONS, steps=5, evaluate_every=5, metric="first")
    model = BertForSequenceClassification(tiny_config())
    trainer_of(model, tmp_path, options, evaluate=lambda: scores).train()
    kept = BertForSequenceClassification.from_pretrained(tmp_path).state_dict()

    options = replace(options, metric="second")
    finished = trainer_of(model, tmp_path, options, evaluate=lambda: scores, resume=True)
    finished.train()
    assert finished.best_scores == scores
    options = replace(options, steps=10)
    worse = trainer_of(model, tmp_path, options, evaluate=lambda: {"second": 0.5}, resume=True)
    worse.train()
    assert worse.best_scores == scores
    assert_same_weights(kept, BertForSequenceClassification.from_pretrained(tmp_path).state_dict())


def test_a_metric_that_is_not_measured(tmp_path: Path) -> None:
    options = replace(OPTIONS, steps=2, metric="f2")
    model = BertForSequenceClassification(tiny_config())
    with pytest.raises(ValueError, match="metric is 'f2', but the scores are f1, loss"):
        trainer_of(model, tmp_path, options, evaluate=lambda: {"f1": 1.0, "loss": 0.0}).train()


def test_scores_of_numpy_can_be_resumed(tmp_path: Path) -> None:
    """A state is read without running code, which a number of numpy would need."""
    options = replace(OPTIONS, steps=5, metric="score")
    model = BertForSequenceClassification(tiny_config())
    scores = iter(np.array([0.5, 0.25], dtype=np.float32))
    for steps in (5, 10):
        trainer = trainer_of(
            model,
            tmp_path,
            replace(options, steps=steps),
            evaluate=lambda: {"score": next(scores)},
            resume=steps > 5,
        )
        trainer.train()
    assert trainer.best_scores == {"score": 0.5}
    assert json.loads((tmp_path / "log.jsonl").read_text(encoding="utf-8").splitlines()[5]) == {
        "step": 5,
        "epoch": 0,
        "score": 0.5,
    }


def test_an_error_of_a_callback_is_not_that_of_another_process(tmp_path: Path) -> None:
    def callback(record: dict[str, Any]) -> None:
        raise RuntimeError("Connection to the tracker failed")

    model = BertForSequenceClassification(tiny_config())
    with pytest.raises(RuntimeError, match="tracker"):
        trainer_of(model, tmp_path, OPTIONS, callback=callback).train()


def test_numbers_of_checkpoints_and_states_are_limited(tmp_path: Path) -> None:
    trained(tmp_path, checkpoints=3, save_every=2, keep_states=4)
    names = sorted(path.name for path in (tmp_path / "checkpoints").iterdir())
    assert names == ["step-000000", "step-000002", "step-000010"]  # denser at the beginning
    first, *_, last = (
        BertForSequenceClassification.from_pretrained(tmp_path / "checkpoints" / name)
        for name in names
    )
    assert not torch.equal(first.classifier.weight, last.classifier.weight)
    steps = [read_state(path)["position"]["step"] for path in saved_states(tmp_path)]
    assert steps == [4, 6, 8, 10] and len(saved_states(tmp_path)) == 4
    remove_states(tmp_path, 1)
    assert [path.name for path in saved_states(tmp_path)] == ["state-000000010.pt"]


def test_the_first_model_is_saved_even_if_its_score_is_nan(tmp_path: Path) -> None:
    scores = iter([float("nan"), 0.5, float("nan"), 0.25])
    options = replace(OPTIONS, steps=20, evaluate_every=5)
    model = BertForSequenceClassification(tiny_config())
    trainer = trainer_of(
        model,
        tmp_path,
        replace(options, metric="score"),
        evaluate=lambda: {"score": next(scores)},
    )
    trainer.train()
    assert trainer.best_scores == {"score": 0.5} and (tmp_path / "config.json").is_file()


def test_bf16_gives_slightly_different_weights(tmp_path: Path) -> None:
    exact, rounded = trained(tmp_path / "exact"), trained(tmp_path / "rounded", bf16=True)
    assert_same_weights(exact, rounded, tolerance=0.05)
    assert any(not torch.equal(exact[name], rounded[name]) for name in exact)


def test_a_run_may_be_resumed_with_other_data(tmp_path: Path) -> None:
    model = BertForSequenceClassification(tiny_config())
    trainer_of(model, tmp_path, replace(OPTIONS, steps=2)).train()
    flipped = [
        {**example, "labels": 1 - example["labels"]} for example in classification_examples()
    ]
    options = replace(OPTIONS, steps=4)
    Run(model, lambda _: flipped, losses_of, tmp_path, options, resume="with other data").train()
    assert len((tmp_path / "log.jsonl").read_text(encoding="utf-8").splitlines()) == 4
