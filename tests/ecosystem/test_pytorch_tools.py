"""PyTorch's tools and libraries for any module treat our model like the one of transformers.

The other files here test `transformers.Trainer`, accelerate, LoRA, prompt tuning and exporters.
"""

from __future__ import annotations

import copy
import io
import pickle
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import ragged_batch, tiny_config, with_reference
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

pytest.importorskip("transformers")
pytestmark = [pytest.mark.ecosystem, pytest.mark.filterwarnings("ignore")]
Batch = dict[str, Tensor]
Check = Callable[[Any, Batch], Any]
LABELS = torch.tensor([0, 1, 0])


def need(library: str) -> Any:
    return pytest.importorskip(
        library, reason=f"{library} is not installed: see 'clients' in tests/README.md"
    )


def trained(model: Any, batch: Batch, parameters: Any = None) -> Tensor:
    """The logits after two steps of SGD."""
    optimizer = torch.optim.SGD(model.parameters() if parameters is None else parameters, lr=0.1)
    for _ in range(2):
        model(**batch, labels=LABELS).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return model(**batch).logits


def state_dict(model: Any, batch: Batch) -> Any:
    return list(model.state_dict().items())


def parameters_and_modules(model: Any, batch: Batch) -> Any:
    linear = [name for name, module in model.named_modules() if isinstance(module, nn.Linear)]
    return sorted(linear), sorted((name, value) for name, value in model.named_parameters())


def forward_hooks(model: Any, batch: Batch) -> Any:
    """A hook doubles a layer's output, and another records the input of the attention."""
    seen: list[Tensor] = []
    layer = model.bert.encoder.layer[0]
    layer.attention.self.query.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    layer.output.register_forward_hook(lambda _, __, output: 2 * output)
    return model(**batch).logits, seen


def backward_hooks(model: Any, batch: Batch) -> Any:
    seen: list[Any] = []
    model.bert.encoder.layer[0].output.register_full_backward_hook(
        lambda _, __, gradients: seen.extend(gradients)
    )
    model(**batch, labels=LABELS).loss.backward()
    return seen


def deepcopy(model: Any, batch: Batch) -> Any:
    again = copy.deepcopy(model)
    trained(model, batch)
    return again(**batch).logits


def pickled(model: Any, batch: Batch) -> Any:
    return pickle.loads(pickle.dumps(model))(**batch).logits


def torch_save(model: Any, batch: Batch) -> Any:
    """Load a saved state dict into a model that has other weights."""
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    again = copy.deepcopy(model)
    trained(again, batch)
    again.load_state_dict(torch.load(file))
    return again(**batch).logits


def safetensors_model(model: Any, batch: Batch) -> Any:
    from safetensors.torch import load_model, save_model

    again = copy.deepcopy(model)
    trained(again, batch)
    with tempfile.TemporaryDirectory() as folder:
        save_model(model, f"{folder}/model.safetensors")
        load_model(again, f"{folder}/model.safetensors")
    return again(**batch).logits


def dtypes(model: Any, batch: Batch) -> Any:
    return [model.to(dtype)(**batch).logits for dtype in (torch.float64, torch.bfloat16)]


def meta_device(model: Any, batch: Batch) -> Any:
    """Move the model to the meta device, and back with its former weights."""
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    empty = model.to("meta")
    assert all(parameter.is_meta for parameter in empty.parameters())
    empty.to_empty(device="cpu").load_state_dict(weights, strict=False)
    shapes = [tuple(value.shape) for value in empty.state_dict().values()]
    return shapes, [value for name, value in empty.named_parameters()]


def functional_call(model: Any, batch: Batch) -> Any:
    doubled = {name: 2 * value for name, value in model.named_parameters()}
    return torch.func.functional_call(model, doubled, (), batch).logits


def gradients_of_each_example(model: Any, batch: Batch) -> Any:
    """Per-example gradients of the classifier, by `torch.func.vmap`."""
    classifier_weight = model.classifier.weight.detach()
    states = model.bert(**batch).pooler_output.detach()

    def loss(weight: Tensor, state: Tensor, label: Tensor) -> Tensor:
        logits = torch.func.functional_call(model.classifier, {"weight": weight}, (state,))
        return nn.functional.cross_entropy(logits, label)

    gradients = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))
    return gradients(classifier_weight, states, LABELS)


def autocast(model: Any, batch: Batch) -> Any:
    with torch.autocast("cpu", torch.bfloat16):
        return model(**batch, labels=LABELS).loss


def gradient_checkpointing(model: Any, batch: Batch) -> Any:
    model.gradient_checkpointing_enable({"use_reentrant": False})
    return trained(model.train(), batch)


def pruning_of_weights(model: Any, batch: Batch) -> Any:
    from torch.nn.utils import prune

    for layer in model.bert.encoder.layer:
        prune.l1_unstructured(layer.attention.self.query, "weight", 0.5)
        prune.remove(layer.attention.self.query, "weight")
    return model(**batch).logits


def parametrizations(model: Any, batch: Batch) -> Any:
    from torch.nn.utils.parametrizations import weight_norm

    for layer in model.bert.encoder.layer:
        weight_norm(layer.intermediate.dense)
    return trained(model, batch)


def averaged_model(model: Any, batch: Batch) -> Any:
    averaged = torch.optim.swa_utils.AveragedModel(model)
    trained(model, batch)
    averaged.update_parameters(model)
    averaged.update_parameters(model)
    return averaged(**batch).logits


def frozen_layers(model: Any, batch: Batch) -> Any:
    model.bert.requires_grad_(False)
    return trained(model, batch, [p for p in model.parameters() if p.requires_grad])


def counted_operations(model: Any, batch: Batch) -> Any:
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        model(**batch)
    return counter.get_total_flops()


def profiled(model: Any, batch: Batch) -> Any:
    with torch.profiler.profile() as profile:
        model(**batch)
    return sum(event.count for event in profile.key_averages() if event.key == "aten::addmm")


def tensorboard_graph(model: Any, batch: Batch) -> Any:
    writer = pytest.importorskip("torch.utils.tensorboard")
    model.config.return_dict = False
    with tempfile.TemporaryDirectory() as folder, writer.SummaryWriter(folder) as log:
        log.add_graph(model, tuple(batch.values()), use_strict_trace=False)
        return len(list(Path(folder).iterdir()))


@contextmanager
def one_process() -> Iterator[None]:
    import torch.distributed as distributed

    with tempfile.TemporaryDirectory() as folder:
        distributed.init_process_group(
            "gloo", init_method=f"file://{folder}/store", rank=0, world_size=1
        )
        try:
            yield
        finally:  # a second group cannot be created as long as there is one
            distributed.destroy_process_group()


def distributed_data_parallel(model: Any, batch: Batch) -> Any:
    with one_process():
        return trained(
            nn.parallel.DistributedDataParallel(model, find_unused_parameters=True), batch
        )


def fully_sharded(model: Any, batch: Batch) -> Any:
    from torch.distributed.fsdp import fully_shard

    with one_process():
        mesh = torch.distributed.init_device_mesh("cpu", (1,))
        for layer in model.bert.encoder.layer:
            fully_shard(layer, mesh=mesh)
        return trained(fully_shard(model, mesh=mesh), batch)


def peft_kinds(model: Any, batch: Batch) -> Any:
    """Seven kinds of adapters besides LoRA and prompt tuning."""
    peft = pytest.importorskip("peft")
    task = {"task_type": "SEQ_CLS"}
    queries = {**task, "target_modules": ["query"]}
    adapters = [
        peft.LoraConfig(**queries, r=4, use_dora=True, init_lora_weights=False),
        peft.IA3Config(**task, target_modules=["key", "value"], feedforward_modules=[]),
        peft.LoHaConfig(**queries, r=2, init_weights=False),
        peft.LoKrConfig(**queries, r=2, init_weights=False),
        peft.AdaLoraConfig(**queries, total_step=10),
        peft.OFTConfig(**queries, r=0, oft_block_size=4),
        peft.PromptEncoderConfig(**task, num_virtual_tokens=3, encoder_hidden_size=8),
    ]
    logits = []
    for adapter in adapters:
        torch.manual_seed(2)
        adapted = peft.get_peft_model(copy.deepcopy(model), adapter).eval()
        out = adapted(**batch, labels=LABELS)
        out.loss.backward()
        logits.append(out.logits)
    return logits


def lightning(model: Any, batch: Batch) -> Any:
    library: Any = need("lightning")

    class Module(library.LightningModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def training_step(self, rows: Batch, _: int) -> Tensor:
            return self.model(**rows).loss  # type: ignore[no-any-return]

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    rows = [
        {**{name: value[n] for name, value in batch.items()}, "labels": LABELS[n]}
        for n in range(len(LABELS))
    ]
    quiet: Any = {name: False for name in ("logger", "enable_checkpointing", "enable_progress_bar")}
    trainer = library.Trainer(max_epochs=1, accelerator="cpu", enable_model_summary=True, **quiet)
    trainer.fit(Module(), torch.utils.data.DataLoader(rows, batch_size=3))
    return model.eval()(**batch).logits


def skorch(model: Any, batch: Batch) -> Any:
    library: Any = need("skorch")
    options: Any = {"criterion": nn.CrossEntropyLoss, "lr": 0.1, "train_split": None, "verbose": 0}

    class Logits(nn.Module):  # skorch's criterion takes a tensor, not an output object
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, **rows: Tensor) -> Tensor:
            return self.model(**rows).logits  # type: ignore[no-any-return]

    classifier = library.NeuralNetClassifier(
        Logits(), **options, max_epochs=2, iterator_train__shuffle=False
    )
    rows = {name: value.numpy() for name, value in batch.items()}
    classifier.fit(rows, LABELS.numpy())
    return torch.from_numpy(classifier.predict_proba(rows))


def nnsight(model: Any, batch: Batch) -> Any:
    """nnsight reads and changes the output of a module.

    BERT's submodules named `output` clash with an attribute of nnsight, which adds `E_output`.
    """
    library: Any = need("nnsight")
    seen = library.NNsight(model)
    with seen.trace(**batch):
        query = seen.bert.encoder.layer[0].attention.self.query.output.save()
        seen.bert.encoder.layer[0].output[:] = 0
        logits = seen.classifier.output.save()
    return query, logits, "E_output" in dir(seen.bert.encoder.layer[0])


def lime(model: Any, batch: Batch) -> Any:
    text: Any = need("lime.lime_text")

    def probabilities(texts: list[str]) -> Any:
        ids = torch.tensor(
            [
                [2, *(len(word) + 5 for word in [*sentence.split(), "x"]), 3, *[0] * 9][:9]
                for sentence in texts
            ]
        )
        return model(ids, attention_mask=(ids > 0).long()).logits.softmax(-1).detach().numpy()

    explained = text.LimeTextExplainer(random_state=0).explain_instance(
        "one word after another", probabilities
    )
    return [(word, torch.tensor(weight)) for word, weight in explained.as_list()]


CHECKS: list[Check] = [
    state_dict,
    parameters_and_modules,
    forward_hooks,
    backward_hooks,
    deepcopy,
    pickled,
    torch_save,
    safetensors_model,
    dtypes,
    meta_device,
    functional_call,
    gradients_of_each_example,
    autocast,
    gradient_checkpointing,
    pruning_of_weights,
    parametrizations,
    averaged_model,
    frozen_layers,
    counted_operations,
    profiled,
    tensorboard_graph,
    distributed_data_parallel,
    fully_sharded,
    peft_kinds,
    lightning,
    skorch,
    nnsight,
    lime,
]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_equal_to_the_reference(check: Check) -> None:
    config = tiny_config(num_labels=2, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    models = with_reference("BertForSequenceClassification", config)
    batch = ragged_batch(config)
    torch.manual_seed(1)
    ours, theirs = (tree_leaves(check(model, batch)) for model in models)
    assert len(ours) == len(theirs) > 0
    for value, expected in zip(ours, theirs, strict=True):
        assert torch.equal(value, expected) if isinstance(value, Tensor) else value == expected


def test_torchinfo_summarizes_models() -> None:
    torchinfo = need("torchinfo")
    ours, theirs = with_reference("BertForSequenceClassification", tiny_config())
    batch = ragged_batch(ours.config)
    totals = []
    for model in (ours, theirs):
        summary = torchinfo.summary(model, input_data=dict(batch), verbose=0)
        totals.append((summary.total_params, summary.total_mult_adds, summary.total_output_bytes))
    assert totals[0] == totals[1]
