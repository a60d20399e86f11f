"""Tools for the models of transformers run on ours unchanged, and give the same results."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import HEADS, ragged_batch, tiny_config, with_reference
from safetensors.torch import load_file
from tiny_folder import VOCABULARY
from torch import Tensor, nn

import minibert
from minibert.outputs import LogitsOutput

transformers = pytest.importorskip("transformers")
pytestmark = [pytest.mark.ecosystem, pytest.mark.filterwarnings("ignore")]


STEPS = 16  # an epoch has 12.5
# the labels of each class, computed from input ids of shape (seq,)
LABELS: dict[str, Callable[[Tensor], dict[str, Any]]] = {
    "BertForSequenceClassification": lambda ids: {"labels": int(ids.sum() % 3)},
    "BertForMaskedLM": lambda ids: {"labels": ids},
    "BertForPreTraining": lambda ids: {"labels": ids, "next_sentence_label": int(ids[0] % 2)},
}


def trained(
    model: Any, folder: Path, checkpointing: bool, resume: Path | None = None, **options: Any
) -> Any:
    """Train the model for `STEPS` steps and return the `transformers.Trainer`."""
    generator = torch.Generator().manual_seed(0)
    all_ids = torch.randint(1, 99, (100, 9), generator=generator)
    mask = torch.ones(9, dtype=torch.long)
    rows = [
        {"input_ids": ids, "attention_mask": mask, **LABELS[type(model).__name__](ids)}
        for ids in all_ids
    ]
    arguments = transformers.TrainingArguments(
        output_dir=str(folder),
        max_steps=STEPS,
        per_device_train_batch_size=4,
        gradient_accumulation_steps=2,
        learning_rate=1e-3,
        logging_steps=1,
        save_steps=STEPS // 2,
        report_to=[],
        use_cpu=True,
        gradient_checkpointing=checkpointing,
        dataloader_num_workers=0,
        seed=1,
        **options,
    )
    trainer = transformers.Trainer(
        model=model, args=arguments, train_dataset=rows, eval_dataset=rows[:8]
    )
    trainer.train(resume_from_checkpoint=None if resume is None else str(resume))
    return trainer


def losses_of(trainer: Any) -> list[float]:
    return [log["loss"] for log in trainer.state.log_history if "loss" in log]


@pytest.mark.parametrize("checkpointing", [False, True])
def test_trainer(checkpointing: bool, tmp_path: Path) -> None:
    """After more than an epoch with dropout, losses and weights equal those of the reference."""
    config = tiny_config(num_labels=3, num_hidden_layers=1)
    ours, theirs = with_reference("BertForSequenceClassification", config)
    ours.config.use_cache = False
    mine, yours = (
        trained(model, tmp_path / type(model).__module__, checkpointing) for model in (ours, theirs)
    )
    for trainer in (mine, yours):
        assert trainer.evaluate()["eval_loss"] > 0
        assert trainer.predict(trainer.eval_dataset[:5]).predictions.shape == (5, 3)
    assert losses_of(mine) == losses_of(yours) and len(losses_of(mine)) == STEPS
    assert mine.state.total_flos == yours.state.total_flos > 0
    for name, weight in theirs.named_parameters():
        assert torch.equal(ours.get_parameter(name), weight), name
    saved = load_file(Path(mine.args.output_dir, f"checkpoint-{STEPS}", "model.safetensors"))
    assert torch.equal(saved["classifier.weight"], ours.classifier.weight)


@pytest.mark.parametrize(
    ("name", "checkpointing"),
    [
        pytest.param("BertForMaskedLM", False, marks=pytest.mark.slow),
        ("BertForMaskedLM", True),
        ("BertForPreTraining", False),
    ],
)
def test_trainer_keeps_checkpoints_of_tied_weights(
    name: str, checkpointing: bool, tmp_path: Path
) -> None:
    """A resumed model and a reloaded best model have the right weights, which stay tied."""
    config = tiny_config(num_hidden_layers=1)
    ours, theirs = with_reference(name, config)
    resumed = copy.deepcopy(ours)
    best = {"eval_strategy": "steps", "eval_steps": STEPS // 2, "load_best_model_at_end": True}
    # the highest loss counts as the best, so that the best checkpoint is not the last one
    best |= {"metric_for_best_model": "loss", "greater_is_better": True}
    mine, yours = (
        trained(model, tmp_path / type(model).__module__, checkpointing, **best)
        for model in (ours, theirs)
    )
    assert losses_of(mine) == losses_of(yours) and len(losses_of(mine)) == STEPS
    halfway, end = (
        Path(mine.args.output_dir, f"checkpoint-{step}") for step in (STEPS // 2, STEPS)
    )
    assert Path(mine.state.best_model_checkpoint) == halfway
    trained(resumed, tmp_path / "resumed", checkpointing, resume=halfway)
    for folder, model in ((halfway, ours), (end, resumed)):
        assert model.cls.predictions.decoder.weight is model.get_input_embeddings().weight
        assert model.cls.predictions.decoder.bias is model.cls.predictions.bias
        loaded = getattr(minibert, name).from_pretrained(folder, config=config)
        reference = load_file(Path(yours.args.output_dir, folder.name, "model.safetensors"))
        for key, weight in reference.items():
            assert torch.equal(model.get_parameter(key), weight), (folder, key)
            assert torch.equal(loaded.get_parameter(key), weight), (folder, key)
    assert not torch.equal(ours.cls.predictions.bias, resumed.cls.predictions.bias)


def test_accelerate(tmp_path: Path) -> None:
    accelerate = pytest.importorskip("accelerate")
    # another test may have set another precision
    accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)
    accelerator = accelerate.Accelerator(cpu=True, mixed_precision="bf16")
    model = minibert.BertForSequenceClassification(tiny_config())
    batch = {**ragged_batch(model.config), "labels": torch.tensor([0, 1, 0])}
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    prepared, optimizer = accelerator.prepare(model, optimizer)
    for _ in range(2):
        output = prepared(**batch)
        assert type(output) is LogitsOutput and output.logits.dtype == torch.float32
        accelerator.backward(output.loss)
        optimizer.step()
        optimizer.zero_grad()
    accelerator.unwrap_model(prepared).save_pretrained(
        tmp_path,
        is_main_process=accelerator.is_main_process,
        save_function=accelerator.save,
        state_dict=accelerator.get_state_dict(prepared),
    )
    again = minibert.BertForSequenceClassification.from_pretrained(tmp_path)
    assert torch.equal(again.classifier.weight, model.classifier.weight)
    accelerator.save_state(str(tmp_path / "state"))
    accelerator.load_state(str(tmp_path / "state"))


def test_accelerate_keeps_tied_weights(tmp_path: Path) -> None:
    accelerate = pytest.importorskip("accelerate")
    accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)
    accelerator = accelerate.Accelerator(cpu=True)
    model = accelerator.prepare(minibert.BertForMaskedLM(tiny_config()))
    words = model.get_input_embeddings().weight
    saved = words.detach().clone()
    accelerator.save_state(str(tmp_path / "state"))
    accelerator.save_model(model, str(tmp_path / "model"))
    with torch.no_grad():
        words.add_(1)
    accelerator.load_state(str(tmp_path / "state"))
    another = minibert.BertForMaskedLM(tiny_config())
    accelerate.load_checkpoint_in_model(another, str(tmp_path / "model"))
    for loaded in (model, another):
        assert loaded.get_output_embeddings().weight is loaded.get_input_embeddings().weight
        assert torch.equal(loaded.get_input_embeddings().weight, saved)


def test_accelerate_places_modules() -> None:
    accelerate = pytest.importorskip("accelerate")
    with accelerate.init_empty_weights():
        model = minibert.BertForMaskedLM(tiny_config())
    assert all(parameter.is_meta for parameter in model.parameters())
    accelerate.utils.compute_module_sizes(model)
    places = accelerate.infer_auto_device_map(
        model, no_split_module_classes=model._no_split_modules
    )
    assert set(places.values()) == {"cpu"}
    moved = accelerate.utils.send_to_device(LogitsOutput(logits=torch.ones(2, 3)), "meta")
    assert type(moved) is LogitsOutput and moved.logits.is_meta


@pytest.mark.parametrize("kind", ["lora", "prompt"])
def test_peft(kind: str, tmp_path: Path) -> None:
    peft = pytest.importorskip("peft")
    config = tiny_config(num_labels=3)
    outputs = []
    for model in with_reference("BertForSequenceClassification", config):
        if kind == "lora":
            adapter = peft.LoraConfig(
                task_type="SEQ_CLS", r=4, target_modules=["query", "value"], init_lora_weights=False
            )
        else:
            adapter = peft.PromptTuningConfig(task_type="SEQ_CLS", num_virtual_tokens=3)
        torch.manual_seed(2)  # the seed of the adapter's weights
        adapted = peft.get_peft_model(model, adapter).eval()
        torch.manual_seed(3)
        out = adapted(**ragged_batch(config), labels=torch.tensor([0, 1, 2]))
        out.loss.backward()
        outputs.append(out.logits)
        adapted.save_pretrained(tmp_path / type(model).__module__)
    assert torch.equal(*outputs)


def test_prefix_tuning_raises_an_error() -> None:
    """Prefix tuning passes past_key_values, and an encoder without a cache rejects them."""
    peft = pytest.importorskip("peft")
    model = minibert.BertForSequenceClassification(tiny_config())
    adapted = peft.get_peft_model(
        model, peft.PrefixTuningConfig(task_type="SEQ_CLS", num_virtual_tokens=3)
    )
    with pytest.raises(ValueError, match="(?i)past.key.values"):
        adapted(**ragged_batch(model.config))


def test_captum() -> None:
    captum = pytest.importorskip("captum.attr")
    config = tiny_config(num_labels=3)
    results = []
    for model in with_reference("BertForSequenceClassification", config):
        torch.manual_seed(4)
        batch = ragged_batch(config)
        ids, mask = batch["input_ids"], batch["attention_mask"]

        def score(ids: Tensor, mask: Tensor, model: nn.Module = model) -> Tensor:
            return model(ids, attention_mask=mask).logits

        gradients = captum.LayerIntegratedGradients(score, model.bert.embeddings)
        attributed = gradients.attribute(
            ids, torch.zeros_like(ids), additional_forward_args=mask, target=1, n_steps=4
        )

        def score_embeds(embeds: Tensor, mask: Tensor, model: nn.Module = model) -> Tensor:
            return model(inputs_embeds=embeds, attention_mask=mask).logits

        conductance = captum.LayerConductance(score_embeds, model.bert.encoder.layer[1])
        embeds = model.bert.embeddings.word_embeddings(ids).detach()
        conducted = conductance.attribute(embeds, additional_forward_args=mask, target=1, n_steps=4)
        results.append((attributed, conducted if isinstance(conducted, Tensor) else conducted[0]))
    for ours, theirs in zip(*results, strict=True):
        assert torch.equal(ours, theirs)


def test_bertviz() -> None:
    bertviz = pytest.importorskip("bertviz")
    model = minibert.BertModel(tiny_config()).eval()
    attentions = model(torch.randint(1, 99, (1, 5)), output_attentions=True).attentions
    page = bertviz.head_view(attentions, list("abcde"), html_action="return")
    assert "attention" in page.data


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return a function that loads our class and the reference's from the same folder."""
    folder = tmp_path_factory.mktemp("pipelines")
    (folder / "vocab.txt").write_text("\n".join(VOCABULARY), encoding="utf-8")
    tokenizer = transformers.BertTokenizerFast(str(folder / "vocab.txt"))

    def load(name: str) -> tuple[Any, Any, Any]:
        torch.manual_seed(0)
        model = getattr(minibert, name)(tiny_config(vocab_size=len(VOCABULARY), num_labels=2))
        model.save_pretrained(folder / name)
        return (
            getattr(minibert, name).from_pretrained(folder / name),
            getattr(transformers, name).from_pretrained(folder / name),
            tokenizer,
        )

    return load


@pytest.mark.parametrize(
    ("task", "name", "text"),
    [
        ("fill-mask", "BertForMaskedLM", "hello [MASK] trees"),
        ("text-classification", "BertForSequenceClassification", "hello tall trees"),
        ("token-classification", "BertForTokenClassification", "hello tall trees"),
        ("feature-extraction", "BertModel", "hello tall trees"),
    ],
)
def test_pipelines(task: str, name: str, text: str, both: Any) -> None:
    ours, theirs, tokenizer = both(name)
    pipelines = [
        transformers.pipeline(task, model=model, tokenizer=tokenizer, device="cpu")
        for model in (ours, theirs)
    ]
    assert repr(pipelines[0])
    for inputs, options in ((text, {}), ([text, f"{text} in korea", text], {"batch_size": 2})):
        results = [pipeline(inputs, **options) for pipeline in pipelines]
        assert results[0] == results[1]


def test_dynamic_quantization() -> None:
    ours, theirs = with_reference("BertForSequenceClassification", tiny_config())
    batch = ragged_batch(ours.config)
    logits = []
    for model in (ours, theirs):
        quantized = torch.ao.quantization.quantize_dynamic(model, {nn.Linear}, dtype=torch.qint8)
        kinds = [
            type(module).__name__
            for module in quantized.modules()
            if "quantized" in type(module).__module__
        ]
        assert kinds.count("Linear") == 2 * 6 + 2
        logits.append(quantized(**batch).logits)
    torch.testing.assert_close(*logits)
    optimized = minibert.optimize(ours)
    embedder = minibert.SentenceEmbedder(
        optimized.bert, minibert.BertTokenizer.from_pretrained("minibert-tiny")
    )
    for model in (optimized, embedder):
        with pytest.raises(ValueError, match="Nothing is left to quantize in an optimized model"):
            torch.ao.quantization.quantize_dynamic(model, {nn.Linear}, dtype=torch.qint8)


@pytest.mark.parametrize("name", HEADS[:4])
def test_data_parallel_gathers_outputs(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """DataParallel gathers outputs of GPUs into one. Here `torch.cat` replaces its CUDA gather."""
    from torch.nn.parallel import scatter_gather

    monkeypatch.setattr(
        scatter_gather.Gather,
        "apply",
        lambda _, dim, *tensors: torch.cat([x[None] if not x.dim() else x for x in tensors]),
    )
    model = getattr(minibert, name)(tiny_config()).eval()
    batch = ragged_batch(model.config)
    labels = {
        "labels": batch["input_ids"]
        if "Masked" in name or "PreTraining" in name
        else torch.tensor([0, 1, 0])
    }
    if "PreTraining" in name:
        labels["next_sentence_label"] = torch.tensor([0, 1, 0])
    for options in ({}, labels, {"output_hidden_states": True, "output_attentions": True}):
        first, second = [model(**batch, **options) for _ in range(2)]
        joined = scatter_gather.gather([first, second], "cpu")
        assert type(joined) is type(first) and joined.keys() == first.keys()
        assert joined[-1][0].shape[-1] == first[-1][0].shape[-1]
        for name in joined.keys():
            (both, *_), (half, *_) = (
                value if isinstance(value, tuple) else [value]
                for value in (joined[name], second[name])
            )
            assert torch.equal(both[both.shape[0] // 2 :], half.reshape(-1, *both.shape[1:]))


def test_float32_outputs() -> None:
    """Under mixed precision, accelerate converts the outputs of a model to float32."""
    accelerate = pytest.importorskip("accelerate")
    model = minibert.BertModel(tiny_config()).bfloat16()
    output = model(**ragged_batch(model.config), output_hidden_states=True)
    converted = accelerate.utils.convert_to_fp32(output)
    assert type(converted) is type(output) and converted.hidden_states[0].dtype == torch.float32


@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "name", ["BertForMaskedLM", pytest.param("BertModel", marks=pytest.mark.slow)]
)
def test_optimized_models_compile(name: str, backend: str) -> None:
    """`torch.compile` skips the optimized encoder, so `fullgraph=True` raises an error."""
    torch.compiler.reset()
    model = minibert.optimize(getattr(minibert, name)(tiny_config(num_hidden_layers=1)).eval())
    batch = ragged_batch(model.config)
    with torch.no_grad():
        compiled = torch.compile(copy.deepcopy(model), backend=backend)
        torch.testing.assert_close(compiled(**batch)[0], model(**batch)[0], rtol=0, atol=1e-5)
        torch.compiler.reset()
        with pytest.raises(torch._dynamo.exc.Unsupported):  # the message depends on the version
            torch.compile(model, backend=backend, fullgraph=True)(**batch)
