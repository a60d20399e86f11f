"""Random models, heads, masks and dtypes beside transformers: outputs, gradients, files."""

from __future__ import annotations

import importlib
import tempfile
from typing import Any

import pytest
import torch
from conftest import HEADS
from hypothesis import strategies as st
from programs import assert_same, compare, programs, seed
from torch import Tensor

import minibert
from minibert.encoder import ACTIVATIONS

transformers = importlib.import_module("transformers")
pytestmark = pytest.mark.usefixtures("one_thread")
OWN_ACTIVATIONS = sorted(ACTIVATIONS)  # now: examples of the guides register others
MLM = ("BertForMaskedLM", "BertForPreTraining")
MASKS = ("none", "integers", "booleans", "floats", "additive", "rows", "hidden row")
PROBLEMS = ("regression", "single_label_classification", "multi_label_classification")


@st.composite
def configs(draw: Any) -> dict[str, Any]:
    """Fields of a small config that both libraries accept."""
    heads = draw(st.sampled_from([1, 2, 3, 4]))
    fields = {
        "vocab_size": draw(st.integers(8, 40)),
        "num_attention_heads": heads,
        "hidden_size": heads * draw(st.sampled_from([1, 2, 4, 5, 8])),
        "num_hidden_layers": draw(st.integers(1, 3)),
        "intermediate_size": draw(st.integers(1, 24)),
        "max_position_embeddings": draw(st.integers(6, 20)),
        "type_vocab_size": draw(st.integers(1, 3)),
        "hidden_act": draw(st.sampled_from(OWN_ACTIVATIONS)),
        "hidden_dropout_prob": draw(st.sampled_from([0.0, 0.1, 0.5])),
        "attention_probs_dropout_prob": draw(st.sampled_from([0.0, 0.1, 0.5])),
        "classifier_dropout": draw(st.sampled_from([None, 0.0, 0.3])),
        "layer_norm_eps": draw(st.sampled_from([1e-12, 1e-5])),
        "initializer_range": draw(st.sampled_from([0.02, 0.5])),
        "tie_word_embeddings": draw(st.booleans()),
        "pad_token_id": draw(st.sampled_from([0, 3, None])),
        "num_labels": draw(st.integers(1, 4)),
        "problem_type": draw(st.sampled_from([None, *PROBLEMS])),
    }
    if fields["num_labels"] == 1 and fields["problem_type"] == "single_label_classification":
        fields["problem_type"] = None
    return fields


calls = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 2**31),
        "attn_implementation": st.sampled_from(["eager", "sdpa"]),
        "train": st.booleans(),
        "mask": st.sampled_from(MASKS),
        "embeds": st.booleans(),
        "types": st.booleans(),
        "positions": st.booleans(),
        "one_row": st.booleans(),
        "ids": st.sampled_from([torch.int64, torch.int64, torch.int32]),
        "labels": st.booleans(),
        "hidden_states": st.booleans(),
        "attentions": st.booleans(),
        "return_dict": st.sampled_from([None, True, False]),
        "checkpointing": st.booleans(),
        "dtype": st.sampled_from(["float32", "float64", "bfloat16", "float16"]),
        "autocast": st.sampled_from([None, None, torch.bfloat16, torch.float16]),
    }
)


def fields_of(head: str, fields: dict[str, Any]) -> dict[str, Any]:
    """The fields of a config, with the two labels of a head for answers: start and end."""
    if head == "BertForQuestionAnswering":
        return {**fields, "num_labels": 2, "problem_type": None}
    return fields


def build(library: Any, head: str, fields: dict[str, Any], call: dict[str, Any]) -> Any:
    """A model whose weights are those of `call["seed"]` in both libraries."""
    seed(call["seed"])
    config = library.BertConfig(**fields, attn_implementation=call["attn_implementation"])
    model = getattr(library, head)(config)
    seed(call["seed"])
    named = dict(model.named_parameters())
    with torch.no_grad():
        for name in sorted(named):  # the order of registration may differ
            named[name].add_(torch.randn(named[name].shape) * 0.1)
    if call["checkpointing"]:
        model.gradient_checkpointing_enable()
    return model.train(call["train"]).to(getattr(torch, call["dtype"]))


def batch_of(head: str, fields: dict[str, Any], call: dict[str, Any]) -> dict[str, Tensor]:
    """The arguments of a call, the same ones for both libraries."""
    generator = torch.Generator().manual_seed(call["seed"])
    batch, seq = 3, 5

    def whole(high: int, *shape: int) -> Tensor:
        return torch.randint(high, shape, generator=generator)

    lead = (batch, 2) if head == "BertForMultipleChoice" else (batch,)
    arguments: dict[str, Tensor] = {}
    dtype = getattr(torch, call["dtype"])
    if call["embeds"]:
        shape = (*lead, seq, fields["hidden_size"])
        states = torch.randn(shape, generator=generator).to(dtype)
        arguments["inputs_embeds"] = states.requires_grad_(call["train"])
    else:
        arguments["input_ids"] = whole(fields["vocab_size"], *lead, seq).to(call["ids"])
    lengths = 1 + whole(seq, *lead)
    visible = (torch.arange(seq) < lengths[..., None]).long()
    if call["mask"] == "integers" or (call["mask"] != "none" and len(lead) == 2):
        arguments["attention_mask"] = visible
    elif call["mask"] == "booleans":
        arguments["attention_mask"] = visible.bool()
    elif call["mask"] == "floats":
        arguments["attention_mask"] = visible.float()
    elif call["mask"] == "hidden row":
        arguments["attention_mask"] = visible * torch.tensor([[1], [0], [1]])
    elif call["mask"] in ("rows", "additive"):
        rows = visible[:, None, None, :].bool() & (whole(3, batch, 1, seq, seq) > 0)
        rows[..., 0] = True
        arguments["attention_mask"] = rows
        # Under eager attention transformers adds a boolean mask as 0 and 1 (docs/parity.md).
        if call["mask"] == "additive" or call["attn_implementation"] == "eager":
            offsets = torch.zeros(rows.shape, dtype=dtype)
            arguments["attention_mask"] = offsets.masked_fill(~rows, torch.finfo(dtype).min)
    # of all texts, but not of all choices, which transformers flattens first
    rows_of_ids = (1,) if call["one_row"] and len(lead) == 1 else lead
    if call["types"]:
        types = whole(fields["type_vocab_size"], *rows_of_ids, seq)
        arguments["token_type_ids"] = types.to(call["ids"])
    if call["positions"] and len(lead) == 1:
        positions = whole(fields["max_position_embeddings"], *rows_of_ids, seq)
        arguments["position_ids"] = positions.to(call["ids"])
    if not call["labels"]:
        return arguments
    tokens = whole(3, batch, seq) - 1
    if head in MLM:
        arguments["labels"] = torch.where(tokens < 0, -100, whole(fields["vocab_size"], batch, seq))
        if head == "BertForPreTraining":
            arguments["next_sentence_label"] = whole(2, batch)
    elif head == "BertForTokenClassification":
        arguments["labels"] = torch.where(tokens < 0, -100, whole(fields["num_labels"], batch, seq))
    elif head == "BertForQuestionAnswering":
        arguments["start_positions"] = whole(seq + 2, batch)
        arguments["end_positions"] = whole(seq + 2, batch)
    elif head in ("BertForNextSentencePrediction", "BertForMultipleChoice"):
        arguments["labels"] = whole(2, batch)
    elif head == "BertForSequenceClassification":
        labels, problem = fields["num_labels"], fields["problem_type"]
        if problem == "multi_label_classification":
            arguments["labels"] = whole(2, batch, labels).float()
        elif problem == "regression" or labels == 1:
            shape = (batch,) if labels == 1 else (batch, labels)
            arguments["labels"] = torch.rand(shape, generator=generator)
        else:
            arguments["labels"] = whole(labels, batch)
    return arguments


def step(library: Any, head: str, fields: dict[str, Any], call: dict[str, Any]) -> Any:
    """Outputs and gradients of one call."""
    model = build(library, head, fields, call)
    arguments = batch_of(head, fields, call)
    seed(1)
    enabled = call["autocast"] is not None
    options = {"output_hidden_states": call["hidden_states"]}
    if call["return_dict"] is not None:  # transformers reads None as False, a known difference
        options["return_dict"] = call["return_dict"]
    if call["attentions"] and call["attn_implementation"] == "eager":
        options["output_attentions"] = True
    with torch.autocast("cpu", call["autocast"] or torch.bfloat16, enabled=enabled):
        output = model(**arguments, **options)
    named = not isinstance(output, tuple)
    values = dict(output.items()) if named else dict(enumerate(output))
    if head == "BertModel" and options.get("output_attentions"):  # a known difference
        values.pop("cross_attentions" if named else 3 + call["hidden_states"], None)
    loss = next(iter(values.values()))
    if not call["labels"]:
        loss = loss.float().pow(2).sum()
    if loss.requires_grad:
        loss.backward()
    gradients = {name: p.grad for name, p in sorted(model.named_parameters())}
    if "inputs_embeds" in arguments:
        gradients["inputs_embeds"] = arguments["inputs_embeds"].grad
    return values, {name: grad for name, grad in gradients.items() if grad is not None}


def for_training(head: str, call: dict[str, Any]) -> dict[str, Any]:
    """A call of a model that may have no labels, in full precision."""
    return {**call, "labels": call["labels"] and head != "BertModel", "autocast": None}


def compare_libraries(run: Any, *arguments: Any) -> None:
    """Compare what a function does with the classes of both libraries."""
    compare(lambda: run(minibert, *arguments), lambda: run(transformers, *arguments))


@programs(
    "models", share=0.3, fields=configs(), head=st.sampled_from(["BertModel", *HEADS]), call=calls
)
def test_outputs_and_gradients(fields: dict[str, Any], head: str, call: dict[str, Any]) -> None:
    if call["labels"] and head == "BertModel":
        call = {**call, "labels": False}
    compare_libraries(step, head, fields, call)


changes = st.lists(
    st.sampled_from(["smaller", "larger", "untie", "tie", "state_dict", "save", "exchange"]),
    min_size=1,
    max_size=4,
)


def has_shared_decoder(model: Any) -> bool:
    """Whether the decoder of a masked language model is the tensor of its word embeddings."""
    decoder = model.get_output_embeddings()
    return decoder is not None and decoder.weight is model.get_input_embeddings().weight


@programs(
    "models", share=0.2, quick=8, fields=configs(), head=st.sampled_from(HEADS), steps=changes
)
def test_changed_saved_and_loaded(fields: dict[str, Any], head: str, steps: list[str]) -> None:
    """The same changes in both libraries, and files that either may have written."""
    call: dict[str, Any] = {
        "seed": 0,
        "attn_implementation": "eager",
        "train": False,
        "checkpointing": False,
        "dtype": "float32",
    }
    fields = fields_of(head, fields)
    pair = [build(library, head, fields, call) for library in (minibert, transformers)]
    is_resized = False
    with tempfile.TemporaryDirectory() as folder:
        for number, change in enumerate(steps):
            is_resized = is_resized or change in ("smaller", "larger")
            is_tied = pair[0].config.tie_word_embeddings
            if is_resized and not is_tied:
                return  # transformers loses a bias, or its size: a known difference
            if change in ("save", "exchange") and not is_tied and has_shared_decoder(pair[0]):
                return  # transformers loses the decoder: a known difference
            if change == "exchange":
                for model, other in zip(pair, ("theirs", "ours"), strict=True):
                    model.save_pretrained(f"{folder}/{number}-{other}")
            for index, library in enumerate((minibert, transformers)):
                model = pair[index]
                rows = len(model.get_input_embeddings().weight)
                if change in ("smaller", "larger"):
                    model.resize_token_embeddings(max(rows + (3 if change == "larger" else -2), 5))
                    with torch.no_grad():  # new rows are drawn
                        for parameter in model.parameters():
                            if len(parameter) > rows and change == "larger":
                                parameter[rows:] = 0.5
                elif change in ("tie", "untie"):
                    model.config.tie_word_embeddings = change == "tie"
                    model.tie_weights()
                elif change == "state_dict":
                    new = getattr(library, head)(model.config).eval()
                    new.load_state_dict(model.state_dict())
                    pair[index] = new
                else:
                    place = f"{folder}/{number}-{'ours' if index == 0 else 'theirs'}"
                    if change == "save":
                        model.save_pretrained(place)
                    pair[index] = getattr(library, head).from_pretrained(place).eval()
            ids = torch.arange(1, 5)[None]
            if head == "BertForMultipleChoice":
                ids = ids[None]
            assert_same(dict(pair[0](ids).items()), dict(pair[1](ids).items()), at=f"{number}")


OPTIMIZERS = ("SGD", "AdamW", "Adam", "Adagrad", "RMSprop")
training = st.fixed_dictionaries(
    {
        "optimizer": st.sampled_from(OPTIMIZERS),
        "rate": st.sampled_from([1e-3, 0.1]),
        "decay": st.sampled_from([0.0, 0.1]),
        "largest": st.sampled_from([None, 0.01, 1.0]),
        "frozen": st.sampled_from([None, "embeddings", "LayerNorm", "layer.0", "classifier"]),
        "batches": st.integers(1, 3),
    }
)


def trained(
    library: Any, head: str, fields: dict[str, Any], call: dict[str, Any], how: dict[str, Any]
) -> Any:
    """The weights of a model after some steps of an optimizer, and the norms of its gradients."""
    model = build(library, head, fields, call)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(how["frozen"] is None or how["frozen"] not in name)
    # In the order of the names: that of the registration may differ.
    learned = [p for _, p in sorted(model.named_parameters()) if p.requires_grad]
    optimizer = getattr(torch.optim, how["optimizer"])(
        learned, lr=how["rate"], weight_decay=how["decay"]
    )
    norms = []
    seed(1)
    for number in range(how["batches"]):
        output = model(**batch_of(head, fields, {**call, "seed": call["seed"] + number}))
        loss = output["loss"] if call["labels"] else output[0].float().pow(2).sum()
        loss.backward()
        if how["largest"] is not None:
            norms.append(torch.nn.utils.clip_grad_norm_(learned, how["largest"]))
        optimizer.step()
        optimizer.zero_grad()
    return norms, dict(sorted(model.state_dict().items()))


@programs(
    "models",
    share=0.1,
    quick=8,
    fields=configs(),
    head=st.sampled_from(["BertModel", *HEADS]),
    call=calls,
    how=training,
)
def test_steps_of_an_optimizer(
    fields: dict[str, Any], head: str, call: dict[str, Any], how: dict[str, Any]
) -> None:
    call = for_training(head, call)
    compare_libraries(trained, head, fields, call, how)


# Modules that are called with the same tensors in both libraries.
HOOKED = (
    *("embeddings", "embeddings.word_embeddings", "embeddings.LayerNorm", "embeddings.dropout"),
    *("encoder.layer.0.attention.self.query", "encoder.layer.0.attention.self.value"),
    *("encoder.layer.0.attention.output", "encoder.layer.0.attention.output.LayerNorm"),
    *("encoder.layer.0.intermediate", "encoder.layer.0.intermediate.intermediate_act_fn"),
    *("encoder.layer.0.output", "encoder.layer.0.output.dense", "encoder.layer.0", "pooler"),
)
CHANGES = ("nothing", "half", "noise", "module", "prune", "prune rows", "spectral", "parametrize")


class Halved(torch.nn.Module):
    """A parametrization, or a module in the place of another."""

    def __init__(self, inner: torch.nn.Module | None = None) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        return (x if self.inner is None else self.inner(x)) * 0.5


def changed(model: Any, base: Any, name: str, change: str) -> None:
    """Change a module of a model as a user does with PyTorch's means."""
    prune = importlib.import_module("torch.nn.utils.prune")
    module = base.get_submodule(name)
    if change == "half":
        module.register_forward_hook(lambda m, i, output: output * 0.5)
    elif change == "noise":
        module.register_forward_hook(lambda m, i, output: output + torch.randn_like(output))
    elif change == "module" and isinstance(module, torch.nn.Linear):
        parent, _, last = name.rpartition(".")
        setattr(base.get_submodule(parent), last, Halved(module))
    elif hasattr(module, "weight") and module.weight.dim() == 2:
        if change == "prune":
            prune.l1_unstructured(module, "weight", amount=0.5)
        elif change == "prune rows":
            prune.ln_structured(module, "weight", amount=0.5, n=2, dim=0)
            prune.remove(module, "weight")
        elif change == "spectral" and isinstance(module, torch.nn.Linear):
            torch.nn.utils.parametrizations.weight_norm(module)
        elif change == "parametrize":
            torch.nn.utils.parametrize.register_parametrization(module, "weight", Halved())


def hooked(
    library: Any, head: str, fields: dict[str, Any], call: dict[str, Any], hooks: dict[str, str]
) -> Any:
    """What the modules of a model return on the way, and what comes back to them."""
    model = build(library, head, fields, call)
    base = model if head == "BertModel" else model.bert
    seen: list[Any] = []
    seed(2)
    for name, change in hooks.items():
        if name == "pooler" and base.pooler is None:
            continue
        changed(model, base, name, change)
        module = base.get_submodule(name)
        module.register_forward_hook(lambda m, i, output, n=name: seen.append((n, output.detach())))
        module.register_full_backward_hook(
            lambda m, i, gradients, n=name: seen.append((f"{n} backward", gradients[0]))
        )
    seed(1)
    output = model(**batch_of(head, fields, call))
    loss = output["loss"] if call["labels"] else output[0].float().pow(2).sum()
    loss.backward()
    gradients = {name: p.grad for name, p in sorted(model.named_parameters()) if p.grad is not None}
    return seen, dict(output.items()), gradients


@programs(
    "models",
    share=0.1,
    quick=8,
    fields=configs(),
    head=st.sampled_from(["BertModel", *HEADS]),
    call=calls,
    hooks=st.dictionaries(st.sampled_from(HOOKED), st.sampled_from(CHANGES), max_size=3),
)
def test_hooks_and_changed_modules(
    fields: dict[str, Any], head: str, call: dict[str, Any], hooks: dict[str, str]
) -> None:
    call = for_training(head, call)
    compare_libraries(hooked, head, fields, call, hooks)


AUTO = (
    *("AutoModel", "AutoModelForPreTraining", "AutoModelForMaskedLM"),
    *("AutoModelForNextSentencePrediction", "AutoModelForSequenceClassification"),
    *("AutoModelForTokenClassification", "AutoModelForMultipleChoice"),
    "AutoModelForQuestionAnswering",
)
keywords = st.fixed_dictionaries(
    {},
    optional={
        "dtype": st.sampled_from([torch.float32, torch.float64, torch.bfloat16, "auto", "float16"]),
        "attn_implementation": st.sampled_from(["eager", "sdpa"]),
        "num_labels": st.integers(1, 5),
        "ignore_mismatched_sizes": st.booleans(),
        "hidden_dropout_prob": st.just(0.3),
        "output_hidden_states": st.booleans(),
        "id2label": st.just({0: "a", 1: "b", 2: "c"}),
    },
)


@programs(
    "models",
    share=0.1,
    quick=8,
    fields=configs(),
    head=st.sampled_from(["BertModel", *HEADS]),
    auto=st.sampled_from(AUTO),
    dtype=st.sampled_from(["float32", "float64", "bfloat16"]),
    writer=st.sampled_from([minibert, transformers]),
    options=keywords,
)
def test_auto_classes(
    fields: dict[str, Any], head: str, auto: str, dtype: str, writer: Any, options: dict[str, Any]
) -> None:
    """Any folder by any class, with keywords: the class, the dtype, and what files decide."""
    call: dict[str, Any] = {
        "seed": 0,
        "attn_implementation": "eager",
        "train": False,
        "checkpointing": False,
        "dtype": dtype,
    }
    if "QuestionAnswering" in head + auto:
        fields = {**fields, "num_labels": 2, "problem_type": None}  # start and end
        options = {k: v for k, v in options.items() if k not in ("num_labels", "id2label")}
    elif "id2label" in options:  # which a different number of labels contradicts
        options = {**options, "num_labels": 3}
    if fields["problem_type"] == "single_label_classification" and options.get("num_labels") == 1:
        fields = {**fields, "problem_type": None}  # AutoModel of transformers takes it
    with tempfile.TemporaryDirectory() as folder:
        written = build(writer, head, fields, call)
        written.save_pretrained(folder)

        def loaded(library: Any) -> Any:
            model, report = getattr(library, auto).from_pretrained(
                folder, output_loading_info=True, **options
            )
            # Layers that the folder lacks are drawn.
            drawn = {*report["missing_keys"], *(key for key, *_ in report["mismatched_keys"])}
            if written.config.tie_word_embeddings:  # transformers lists one of two tied tensors
                drawn.discard("cls.predictions.decoder.bias")
            weights = {
                name: value
                for name, value in sorted(model.state_dict().items())
                if name not in drawn
            }
            config = model.config
            return (
                type(model).__name__.removeprefix("minibert."),
                sorted(drawn),
                sorted(report["unexpected_keys"]),
                (model.training, model.dtype, config.num_labels, config.id2label),
                (config.hidden_dropout_prob, config.output_hidden_states),
                weights,
            )

        compare(lambda: loaded(minibert), lambda: loaded(transformers))


@programs("models", share=0.001, quick=1, fields=configs(), head=st.sampled_from(HEADS), call=calls)
def test_compiled(fields: dict[str, Any], head: str, call: dict[str, Any]) -> None:
    """torch.compile records a model of both libraries, whose graphs compute the same."""
    call = {**call, "autocast": None, "checkpointing": False, "train": False}

    def computed(library: Any) -> Any:
        torch.compiler.reset()
        model = torch.compile(build(library, head, fields, call), backend="eager")
        with torch.no_grad():
            return dict(model(**batch_of(head, fields, call)).items())

    compare(lambda: computed(minibert), lambda: computed(transformers))
