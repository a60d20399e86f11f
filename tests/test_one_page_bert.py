"""scripts/one_page_bert.py: its outputs equal those of the package and of transformers."""

from __future__ import annotations

import ast
import runpy
import sys
from pathlib import Path

import one_page_bert
import pytest
import torch
from conftest import CHECKOUT
from official import bert_base_uncased

from minibert import BertForMaskedLM, BertTokenizer, fill_mask

SOURCE = Path(one_page_bert.__file__).read_text(encoding="utf-8")
TEXTS = (
    "Paris is the [MASK] of France.",
    "Embeddings aren't  un-embeddable [MASK]! Héllo; 20%",
    "a [MASK]",
)


@pytest.fixture(scope="module")
def official(tmp_path_factory: pytest.TempPathFactory, minilm: str) -> Path:
    """Folder of a checkpoint with official names and vocabulary, and random weights."""
    return bert_base_uncased(tmp_path_factory.mktemp("official"), minilm, num_hidden_layers=3)


@pytest.mark.parametrize("text", TEXTS)
def test_hidden_states_and_logits_equal_the_package_and_the_reference(
    official: Path, text: str
) -> None:
    transformers = pytest.importorskip("transformers")
    model, pieces = one_page_bert.load(official)
    vocabulary = {piece: index for index, piece in enumerate(pieces)}
    ids = torch.tensor([one_page_bert.tokenize(text, vocabulary)])
    assert ids[0].tolist() == BertTokenizer.from_pretrained(official)(text)["input_ids"]
    with torch.inference_mode():
        states, logits = model.hidden_states(ids), model(ids)
        for model_class in (BertForMaskedLM, transformers.BertForMaskedLM):
            reference = model_class.from_pretrained(official, attn_implementation="eager")
            out = reference(ids, output_hidden_states=True)
            assert len(states) == len(out.hidden_states)
            assert all(torch.equal(a, b) for a, b in zip(states, out.hidden_states, strict=True))
            assert torch.equal(logits, out.logits)


@pytest.mark.parametrize(
    "arguments", [[], ["minibert-en"], [str(CHECKOUT / "minibert/models/minibert-en"), TEXTS[0]]]
)
def test_fills_a_mask_as_the_package_does(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["one_page_bert.py", *arguments])
    runpy.run_path(one_page_bert.__file__, run_name="__main__")
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    model = BertForMaskedLM.from_pretrained("minibert-en")
    tokenizer = BertTokenizer.from_pretrained("minibert-en")
    expected = [answer["token_str"] for answer in fill_mask(model, tokenizer, TEXTS[0])[0]]
    assert [word for _, word in lines] == expected


def test_a_name_that_is_not_a_model_is_reported() -> None:
    with pytest.raises(SystemExit, match="minibert-fr is not a folder with a config.json"):
        one_page_bert.folder_of("minibert-fr")


def test_one_page_names_only_files_that_exist_and_imports_only_torch_and_safetensors() -> None:
    imported = set()
    for node in ast.walk(ast.parse(SOURCE)):
        if isinstance(node, ast.Import):
            imported |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add(str(node.module).split(".")[0])
    assert imported - sys.stdlib_module_names == {"torch", "safetensors"}
    named = [
        name.strip()
        for line in SOURCE.splitlines()
        if "# in full:" in line
        for name in line.split(":")[-1].split(",")
    ]
    assert len(named) >= 8 and all((CHECKOUT / name).exists() for name in named), named
