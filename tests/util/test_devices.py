"""The model creates tensors only on the device of its inputs, and a GPU gives the CPU's results."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from conftest import ragged_batch, tiny_config
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import minibert
from minibert import BertModel, PackedLayout, PaddedLayout

HEADS = {
    "BertModel": {},
    "BertForPreTraining": {"labels": (2, 5), "next_sentence_label": (2,)},
    "BertForMaskedLM": {"labels": (2, 5)},
    "BertForNextSentencePrediction": {"labels": (2,)},
    "BertForSequenceClassification": {"labels": (2,)},
    "BertForTokenClassification": {"labels": (2, 5)},
    "BertForQuestionAnswering": {},
}


class TestMissingDevices:
    """A device that this computer does not have is refused in a sentence."""

    @pytest.mark.parametrize(
        ("device", "message"),
        [
            ("cuda:99", "device should be one of this computer's .*, not 'cuda:99'"),
            (torch.device("cuda:99"), "device should be one of this computer's .*, not 'cuda:99'"),
            ("gpu", "device should be one device, .* not 'gpu'"),
            (["cpu", "cpu"], "device should be one device"),
        ],
    )
    @pytest.mark.parametrize("option", ["device", "device_map"])
    def test_from_pretrained(self, device: Any, message: str, option: str) -> None:
        with pytest.raises(ValueError, match=message):
            BertModel.from_pretrained("minibert-tiny", **{option: device})

    def test_embedder(self) -> None:
        with pytest.raises(ValueError, match="device should be one of this computer's"):
            minibert.SentenceEmbedder.from_pretrained("minibert-tiny", device="cuda:99")


class OnlyOn(TorchDispatchMode):
    """Fail if an operation creates a tensor on another device, or in float64, which MPS lacks."""

    def __init__(self, device: str) -> None:
        super().__init__()
        self.expected = device

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, torch.Tensor):
                assert leaf.device.type == self.expected, f"{func} made a tensor on {leaf.device}"
                assert leaf.dtype != torch.float64, f"{func} made a tensor in float64"
        return result


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("name", HEADS)
def test_no_cpu_tensor_inside(name: str, attention: str) -> None:
    """Forward and backward passes on the meta device stand for those on any accelerator."""
    model = getattr(minibert, name)(tiny_config(attn_implementation=attention)).to("meta")
    ids = torch.zeros(2, 5, dtype=torch.long, device="meta")
    labels = {
        key: torch.zeros(shape, dtype=torch.long, device="meta")
        for key, shape in HEADS[name].items()
    }
    layout, packed = PaddedLayout(), PackedLayout([3, 7])
    layout.mask = torch.ones(2, 1, 1, 5, dtype=torch.bool, device="meta")
    with OnlyOn("meta"):
        for mode in (model.train, model.eval):
            output = mode()(ids, **labels, layout=layout, output_hidden_states=True)
            if labels:
                output.loss.backward()
            if name == "BertModel":
                model(ids.flatten(), layout=packed).pooler_output.sum().backward()


@pytest.fixture
def cuda() -> torch.device:
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    torch.backends.cuda.matmul.allow_tf32 = False
    return torch.device("cuda")


@pytest.mark.gpu
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_cuda_gives_the_same_results_as_the_cpu(cuda: torch.device, attention: str) -> None:
    model = BertModel(tiny_config(attn_implementation=attention)).eval()
    batch = ragged_batch(model.config)
    with torch.no_grad():
        expected = model(**batch)
        on_gpu = model.to(cuda)(**{name: x.to(cuda) for name, x in batch.items()})
    for ours, theirs in zip(on_gpu, expected, strict=True):
        torch.testing.assert_close(ours.cpu(), theirs, rtol=0, atol=2e-5)


@pytest.mark.gpu
def test_packed_equals_padded_on_cuda(cuda: torch.device) -> None:
    model = BertModel(tiny_config()).eval().to(cuda)
    ids = [torch.randint(1, 99, (length,), device=cuda) for length in (3, 9, 9, 1)]
    padded = torch.nn.utils.rnn.pad_sequence(ids, batch_first=True)
    with torch.no_grad():
        packed = model(torch.cat(ids), layout=PackedLayout([3, 9, 9, 1])).pooler_output
        expected = model(padded, attention_mask=(padded > 0).long()).pooler_output
    torch.testing.assert_close(packed, expected, rtol=0, atol=2e-5)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_on_cuda(cuda: torch.device, dtype: torch.dtype) -> None:
    model = BertModel(tiny_config()).eval()
    batch = ragged_batch(model.config)
    with torch.no_grad():
        expected = model(**batch).last_hidden_state[0]
        ours = model.to(cuda, dtype)(
            **{name: x.to(cuda) for name, x in batch.items()}
        ).last_hidden_state[0]
    assert torch.cosine_similarity(ours.float().cpu(), expected).min() > 0.999
