"""Random uses of models and config files that are not a plain call, beside transformers."""

from __future__ import annotations

import functools
import importlib
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import HEADS
from hypothesis import strategies as st
from programs import programs, seed
from test_random_models import (
    batch_of,
    build,
    calls,
    compare_libraries,
    configs,
    fields_of,
    for_training,
)
from torch import Tensor, nn

transformers = importlib.import_module("transformers")
pytestmark = [pytest.mark.usefixtures("one_thread"), pytest.mark.filterwarnings("ignore")]

Batch = dict[str, Tensor]


def base_of(model: Any) -> Any:
    return getattr(model, "bert", model)


def values_of(output: Any) -> dict[str, Any]:
    """An output without what only transformers has in it."""
    values = dict(output.items()) if hasattr(output, "items") else dict(enumerate(output))
    values.pop("cross_attentions", None)
    return values


def by_position(model: Any, batch: Batch) -> Any:
    names = ("input_ids", "attention_mask", "token_type_ids", "position_ids", "inputs_embeds")
    return values_of(model(*(batch.get(name) for name in names)))


def parts(model: Any, batch: Batch) -> Any:
    """The parts of a model one after another, as a user's class calls them."""
    base = base_of(model)
    states = base.embeddings(batch["input_ids"].flatten(0, -2))
    layer = base.encoder.layer[0](states)
    first = layer[0] if isinstance(layer, tuple) else layer
    whole = base.encoder(states)[0]
    return states, first, whole, None if base.pooler is None else base.pooler(whole)


def functional_call(model: Any, batch: Batch) -> Any:
    state = {name: parameter * 0.5 for name, parameter in model.named_parameters()}
    return values_of(torch.func.functional_call(model, state, (), batch))


def functional_gradients(model: Any, batch: Batch) -> Any:
    def loss(state: dict[str, Tensor]) -> Tensor:
        result: Tensor = torch.func.functional_call(model, state, (), batch)[0]
        return result.float().pow(2).sum()

    gradients = torch.func.grad(loss)(dict(model.named_parameters()))
    return dict(sorted(gradients.items()))


def gradients_of_rows(model: Any, batch: Batch) -> Any:
    """A gradient of each text by itself, as for differential privacy."""
    state = {name: parameter.detach() for name, parameter in model.named_parameters()}

    def loss(state: dict[str, Tensor], ids: Tensor) -> Tensor:
        result: Tensor = torch.func.functional_call(model, state, (ids[None],))[0]
        return result.float().pow(2).sum()

    gradients = torch.func.vmap(torch.func.grad(loss), (None, 0))(state, batch["input_ids"])
    return dict(sorted(gradients.items()))


def averaged(model: Any, batch: Batch) -> Any:
    """An average of weights, as of the last epochs."""
    average = torch.optim.swa_utils.AveragedModel(model)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(0.5)
    average.update_parameters(model)
    average.update_parameters(model)
    return values_of(average(**batch))


def drawn_again(model: Any, batch: Batch) -> Any:
    model.apply(model._init_weights)
    model.tie_weights()
    return values_of(model(**batch))


def traced(model: Any, batch: Batch) -> Any:
    """For inference: in training a graph has the size of a head, and its root, in float32."""
    graph = torch.jit.trace(model.eval(), (batch["input_ids"],), strict=False, check_trace=False)
    return values_of(graph(batch["input_ids"]))


def cast(model: Any, batch: Batch) -> Any:
    dtype = model.dtype
    model.to(torch.float64).half().to(dtype)
    return values_of(model(**batch))


def without_gradients(model: Any, batch: Batch) -> Any:
    with torch.inference_mode():
        return values_of(model(**batch))


def as_sequence(model: Any, batch: Batch) -> Any:
    output = model(**batch, return_dict=True)
    names = list(output.keys())
    return output[0], output[:2], output[-1], output.to_tuple(), output[names[-1]], "x" in output


def as_tuple(model: Any, batch: Batch) -> Any:
    output = model(**batch, return_dict=False)
    return isinstance(output, tuple), output[0], output[1:], len(output)


def with_an_edited_config(model: Any, batch: Batch) -> Any:
    model.config.output_hidden_states = True
    model.config.return_dict = False
    return model(**batch)


def with_other_attention(model: Any, batch: Batch) -> Any:
    model.set_attn_implementation("eager")
    eager = values_of(model(**batch, output_attentions=True, return_dict=True))
    model.set_attn_implementation("sdpa")
    return eager, values_of(model(**batch))


def gradients_of(model: Any, batch: Batch) -> Any:
    """The gradients of the parameters that have some."""
    model(**batch)[0].float().pow(2).sum().backward()
    named = sorted(model.named_parameters())
    return {name: p.grad for name, p in named if p.grad is not None}


def frozen(model: Any, batch: Batch) -> Any:
    base_of(model).requires_grad_(False)
    base_of(model).encoder.layer[-1].requires_grad_(True)
    return gradients_of(model, batch)


def recomputed(model: Any, batch: Batch, reentrant: bool = False) -> Any:
    """As peft trains: frozen embeddings, inputs with gradients, and layers computed again."""
    base_of(model).embeddings.requires_grad_(False)
    model.train()
    model.gradient_checkpointing_enable({"use_reentrant": reentrant})
    model.enable_input_require_grads()
    gradients = gradients_of(model, batch)
    model.gradient_checkpointing_disable()
    model.disable_input_require_grads()
    return model.is_gradient_checkpointing, gradients


def without_dropout(model: Any, batch: Batch) -> Any:
    def switch_off(module: nn.Module) -> None:
        if isinstance(module, nn.Dropout):
            module.p = 0.0

    return values_of(model.train().apply(switch_off)(**batch))


def names(model: Any, batch: Batch) -> Any:
    parameters = [(name, p.shape, p.requires_grad) for name, p in model.named_parameters()]
    counts = (model.num_parameters(), model.num_parameters(exclude_embeddings=True))
    return sorted(parameters), counts, model.base_model_prefix, model.get_memory_footprint(False)


def with_(change: Callable[[Any, Batch], Batch]) -> Callable[[Any, Batch], Any]:
    """A call with other arguments, many of which are errors."""
    return lambda model, batch: values_of(model(**change(model, dict(batch))))


def changed(name: str, change: Callable[[Any, Tensor], Any]) -> Callable[[Any, Batch], Any]:
    """A call with another value of an argument."""
    return with_(lambda model, batch: {**batch, name: change(model, batch["input_ids"])})


USES: dict[str, Callable[[Any, Batch], Any]] = {
    "by position": by_position,
    "parts": parts,
    "functional_call": functional_call,
    "functional gradients": functional_gradients,
    "gradients of rows": gradients_of_rows,
    "averaged": averaged,
    "drawn again": drawn_again,
    "traced": traced,
    "cast": cast,
    "inference mode": without_gradients,
    "as a sequence": as_sequence,
    "as a tuple": as_tuple,
    "edited config": with_an_edited_config,
    "other attention": with_other_attention,
    "frozen": frozen,
    "recomputed": recomputed,
    "recomputed, reentrant": functools.partial(recomputed, reentrant=True),
    "without dropout": without_dropout,
    "names": names,
    "no ids": changed("input_ids", lambda model, ids: None),
    "two inputs": changed("inputs_embeds", lambda model, ids: ids[..., None].float()),
    "an unknown word": changed("input_ids", lambda model, ids: ids + model.config.vocab_size),
    "a negative word": changed("input_ids", lambda model, ids: ids - 100),
    "an unknown type": changed("token_type_ids", lambda model, ids: ids * 0 + 9),
    "an unknown position": changed("position_ids", lambda model, ids: ids * 0 + 99),
    "ids of floats": changed("input_ids", lambda model, ids: ids.float()),
    "too many tokens": changed("input_ids", lambda model, ids: ids.repeat_interleave(9, -1)),
    "a cache": changed("use_cache", lambda model, ids: False),
    "a mask of None": changed("attention_mask", lambda model, ids: None),
}


def used(library: Any, head: str, fields: dict[str, Any], call: dict[str, Any], use: str) -> Any:
    model = build(library, head, fields, call)
    batch = batch_of(head, fields, call)
    seed(1)
    return USES[use](model, batch)


@programs(
    "models",
    share=0.05,
    quick=8,
    fields=configs(),
    head=st.sampled_from(["BertModel", *HEADS]),
    call=calls,
    use=st.sampled_from(list(USES)),
)
def test_uses(fields: dict[str, Any], head: str, call: dict[str, Any], use: str) -> None:
    call = {**for_training(head, call), "embeds": False, "labels": False, "one_row": False}
    fields = fields_of(head, fields)
    if use == "other attention":  # whose masks of four dimensions are additive
        call = {**call, "attn_implementation": "eager"}
    # transformers sets a flag of the inputs of layers that are computed again
    if use in ("functional gradients", "gradients of rows"):
        call = {**call, "checkpointing": False}
    compare_libraries(used, head, fields, call, use)


FILE: dict[str, Any] = {
    "vocab_size": 12,
    "hidden_size": 8,
    "num_attention_heads": 2,
    "num_hidden_layers": 1,
    "intermediate_size": 6,
    "max_position_embeddings": 8,
}
ODD: dict[str, list[Any]] = {
    "architectures": [["BertForMaskedLM"], None],
    "attention_probs_dropout_prob": [0, 0.2, 1],
    "classifier_dropout": [None, 0, 0.5],
    "directionality": ["bidi"],
    "finetuning_task": ["mnli", None],
    "gradient_checkpointing": [False, True],
    "hidden_act": ["relu", "nonsense"],
    "hidden_dropout_prob": [0, 0.2],
    "id2label": [{"0": "a", "1": "b"}, {"1": "b", "0": "a"}],
    "layer_norm_eps": [1e-5, 1e-12],
    "model_type": ["bert"],
    "my_field": [{"a": [1]}, None, "text"],
    "num_labels": [2],
    "output_hidden_states": [True, False],
    "output_past": [True],
    "pad_token_id": [0, 3, None],
    "pooler_fc_size": [768],
    "position_embedding_type": ["absolute"],
    "problem_type": [None, "regression"],
    "return_dict": [True],
    "sep_token_id": [3],
    "task_specific_params": [None, {"a": {"b": 1}}],
    "tie_word_embeddings": [True, False],
    "tokenizer_class": ["BertTokenizer"],
    "torch_dtype": ["float32", "bfloat16", None],
    "torchscript": [False],
    "transformers_version": ["4.6.0.dev0"],
    "type_vocab_size": [1, 2],
    "use_bfloat16": [False],
    "use_cache": [True, False],
    "vocab_size": [12, "12", 12.0],
    "hidden_size": [8, 9],
    "num_hidden_layers": [1, 2],
    "_name_or_path": ["a/b"],
}
READ = (
    *("vocab_size", "hidden_size", "num_attention_heads", "num_hidden_layers", "hidden_act"),
    *("intermediate_size", "max_position_embeddings", "type_vocab_size", "layer_norm_eps"),
    *("hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout"),
    *("num_labels", "pad_token_id", "problem_type", "tie_word_embeddings", "architectures"),
    *("output_hidden_states", "use_cache", "return_dict"),
)
"""Fields of every config. Those that a file has in addition are attributes, too."""

# that transformers renames, writes anew, or removes when a model is built
NOT_KEPT = {"torch_dtype", "id2label", "_name_or_path", "transformers_version"}
NOT_KEPT |= {"gradient_checkpointing"}


@programs(
    "models",
    share=0.05,
    quick=8,
    fields=st.fixed_dictionaries(
        {}, optional={name: st.sampled_from(values) for name, values in ODD.items()}
    ),
    head=st.sampled_from(["BertModel", *HEADS]),
)
def test_config_files(fields: dict[str, Any], head: str) -> None:
    """What is read of a config.json, the model that is built, and what is written of it."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "config.json").write_text(json.dumps({**FILE, **fields}), encoding="utf-8")

        def read(library: Any) -> Any:
            config = library.BertConfig.from_pretrained(folder)
            config.save_pretrained(f"{folder}/{library.__name__}")
            again = library.BertConfig.from_pretrained(f"{folder}/{library.__name__}")
            seed(0)
            model = getattr(library, head)(config)
            names = {*READ, *fields} - NOT_KEPT
            values = [
                {name: getattr(each, name) for name in sorted(names)}
                | {"labels": sorted(each.id2label.items()), "dtype": str(each.torch_dtype)}
                for each in (config, again)
            ]
            return values, dict(sorted(model.state_dict().items()))

        compare_libraries(read)
