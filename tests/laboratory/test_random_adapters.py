"""Random adapters of peft on minibert's models and on those of transformers."""

from __future__ import annotations

import importlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import HEADS, ragged_batch, tiny_config, with_reference
from hypothesis import strategies as st
from programs import compare, programs, seed
from safetensors.torch import load_file

peft = pytest.importorskip("peft")
transformers = importlib.import_module("transformers")
pytestmark = [pytest.mark.usefixtures("one_thread"), pytest.mark.filterwarnings("ignore")]

LINEAR = ("query", "key", "value", "attention.output.dense", "intermediate.dense", "output.dense")
FIELDS: dict[str, dict[str, Any]] = {
    "LoraConfig": {"r": [1, 2, 4], "lora_alpha": [1, 8], "lora_dropout": [0.0, 0.3]},
    "LoHaConfig": {"r": [1, 2], "alpha": [1, 8], "rank_dropout": [0.0, 0.3]},
    "LoKrConfig": {"r": [1, 2], "alpha": [1, 8], "decompose_both": [True, False]},
    "OFTConfig": {"r": [0], "oft_block_size": [2, 4], "coft": [True, False]},
    "BOFTConfig": {"boft_block_size": [2, 4], "boft_n_butterfly_factor": [1]},
    "HRAConfig": {"r": [2, 4], "apply_GS": [True, False]},
    "VeraConfig": {"r": [2, 4], "d_initial": [0.1, 0.5]},
    "FourierFTConfig": {"n_frequency": [4, 20], "scaling": [1.0, 50.0]},
    "IA3Config": {},
    "AdaLoraConfig": {"init_r": [4], "target_r": [2], "total_step": [10]},
    "LNTuningConfig": {},
}
LORA = {
    "use_dora": [True, False],
    "use_rslora": [True, False],
    "bias": ["none", "all", "lora_only"],
}


@pytest.fixture(scope="module", autouse=True)
def _no_model_cards() -> Iterator[None]:
    """Leave out the README.md of a saved adapter, whose template takes a third of a program."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(peft.PeftModel, "create_or_update_model_card", lambda *arguments: None)
        yield


@st.composite
def adapters(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """The class of an adapter's config, and its fields."""
    kind = draw(st.sampled_from(list(FIELDS)))
    fields = {**FIELDS[kind], **(LORA if kind == "LoraConfig" else {})}
    options = {name: draw(st.sampled_from(values)) for name, values in fields.items()}
    if kind == "LNTuningConfig":
        options["target_modules"] = ["LayerNorm"]
    elif kind in ("VeraConfig", "IA3Config"):  # whose layers have one shape, or two roles
        options["target_modules"] = draw(
            st.lists(st.sampled_from(LINEAR[:3]), min_size=1, unique=True)
        )
        if kind == "IA3Config":
            options["feedforward_modules"] = draw(
                st.sampled_from([[], options["target_modules"][:1]])
            )
    else:
        names = st.lists(st.sampled_from(LINEAR), min_size=1, unique=True)
        options["target_modules"] = draw(names | st.just("all-linear"))
        if draw(st.booleans()):
            options["layers_to_transform"] = draw(st.sampled_from([[0], [1], [0, 1]]))
            if options["target_modules"] == "all-linear":
                del options["layers_to_transform"]
    return kind, options


def labels_of(head: str, ids: torch.Tensor) -> dict[str, torch.Tensor]:
    """Labels of a batch whose label is a class, a token or a place."""
    rows = len(ids)
    if head in ("BertForMaskedLM", "BertForPreTraining"):
        labels = {"labels": ids}
        if head == "BertForPreTraining":
            labels["next_sentence_label"] = torch.arange(rows) % 2
        return labels
    if head == "BertForTokenClassification":
        return {"labels": ids % 3}
    if head == "BertForQuestionAnswering":
        return {
            "start_positions": torch.zeros(rows).long(),
            "end_positions": torch.ones(rows).long(),
        }
    return {"labels": torch.arange(rows) % 2}


def adapted(model: Any, head: str, adapter: tuple[str, dict[str, Any]], train: bool) -> Any:
    """Loss, outputs and gradients, the saved adapter, and outputs after a step and merging."""
    kind, options = adapter
    seed(2)
    wrapped = peft.get_peft_model(model, getattr(peft, kind)(**options)).train(train)
    seed(3)
    with torch.no_grad():
        for _, parameter in sorted(wrapped.named_parameters()):
            if parameter.requires_grad:
                parameter.add_(torch.randn_like(parameter) * 0.1)
    batch = ragged_batch(model.config, (5, 3, 1))
    batch |= labels_of(head, batch["input_ids"])
    if head == "BertForMultipleChoice":
        batch = {name: x[:, None] if x.ndim == 2 else x * 0 for name, x in batch.items()}
    seed(4)
    out = wrapped(**batch)
    out.loss.backward()
    gradients = {
        name: p.grad.clone() for name, p in sorted(wrapped.named_parameters()) if p.grad is not None
    }
    trainable = [p for p in wrapped.parameters() if p.requires_grad]
    torch.optim.SGD(trainable, lr=0.1).step()
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        wrapped.save_pretrained(folder)
        saved = load_file(Path(folder, "adapter_model.safetensors"))
        after = dict(wrapped.eval()(**batch).items())
        merged: Any = None
        if hasattr(wrapped.base_model, "merge_and_unload"):
            merged = dict(wrapped.merge_and_unload()(**batch).items())
    return dict(out.items()), gradients, dict(sorted(saved.items())), after, merged


@programs(
    "adapters",
    quick=10,
    adapter=adapters(),
    head=st.sampled_from(HEADS),
    train=st.booleans(),
    attention=st.sampled_from(["eager", "sdpa"]),
)
def test_adapters(
    adapter: tuple[str, dict[str, Any]], head: str, train: bool, attention: str
) -> None:
    if adapter[1]["target_modules"] == "all-linear":
        # of classes of transformers peft leaves out the tied decoder (docs/integrations.md)
        adapter = (adapter[0], {**adapter[1], "exclude_modules": ["decoder"]})
    labels = {} if head == "BertForQuestionAnswering" else {"num_labels": 3}
    seed(0)
    pair = with_reference(head, tiny_config(attn_implementation=attention, **labels))
    compare(*(lambda model=model: adapted(model, head, adapter, train) for model in pair))
