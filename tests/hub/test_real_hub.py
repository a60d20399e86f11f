"""Checkpoints from the Hub reproduce published values (../shared/golden).

Run these tests by `pytest -m hub`. They are skipped offline.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from conftest import shared_data

import minibert

pytestmark = pytest.mark.hub


@pytest.fixture(autouse=True)
def _online(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave offline mode for these tests, and skip them if the Hub cannot be reached."""
    from huggingface_hub import HfApi, constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    try:
        HfApi().model_info("google-bert/bert-base-uncased", timeout=10)
    except Exception as error:
        pytest.skip(f"the Hub cannot be reached ({type(error).__name__})")


def golden(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(shared_data("golden", name).read_text(encoding="utf-8"))
    return content


def assert_close(values: torch.Tensor, published: Any, atol: float) -> None:
    torch.testing.assert_close(values, torch.tensor(published), rtol=0, atol=atol)


def test_kcbert() -> None:
    published = golden("kcbert-base.json")
    (batch,) = published["tokenizer"]
    tokenizer = minibert.BertTokenizer.from_pretrained("beomi/kcbert-base", do_lower_case=False)
    encoded = tokenizer(
        batch["texts"], max_length=10, padding="max_length", truncation=True, return_tensors="pt"
    )
    assert encoded["input_ids"].tolist() == batch["input_ids"]
    assert encoded["attention_mask"].tolist() == batch["attention_mask"]
    with torch.no_grad():
        out = minibert.BertModel.from_pretrained("beomi/kcbert-base")(**encoded)
    (hidden,), (pooler,) = published["last_hidden_state"], published["pooler_output"]
    assert_close(
        out.last_hidden_state[:, hidden["rows"]][..., hidden["columns"]],
        hidden["values"],
        hidden["atol"],
    )
    assert_close(out.pooler_output[:, pooler["columns"]], pooler["values"], pooler["atol"])


def test_bert_base_uncased() -> None:
    published = golden("bert-base-uncased.json")
    tokenizer = minibert.BertTokenizer.from_pretrained("bert-base-uncased")
    for case in published["tokenizer"]:
        encoded = tokenizer(case["text"], padding="max_length", max_length=case["padded_to"])
        assert (
            encoded["input_ids"] == case["input_ids"]
            and tokenizer.tokenize(case["text"]) == case["tokens"]
        )
    model = minibert.BertModel.from_pretrained("bert-base-uncased", output_hidden_states=True)
    with torch.no_grad():
        for case in published["last_hidden_state"]:
            out = model(
                torch.tensor(case["input_ids"]), attention_mask=torch.tensor(case["attention_mask"])
            )
            assert_close(out.last_hidden_state[:, 1:4, 1:4], case["values"], case["atol"])
            assert len(out.hidden_states) == published["shapes"]["hidden_states"]


@pytest.mark.parametrize("number", range(7))
def test_published_heads(number: int) -> None:
    case = golden("heads.json")["cases"][number]
    if "text" in case:
        inputs = minibert.BertTokenizer.from_pretrained(case["model"])(
            case["text"], return_tensors="pt"
        )
    else:
        inputs = {n: torch.tensor(case[n]) for n in ("input_ids", "token_type_ids") if n in case}
    with torch.no_grad():
        out = getattr(minibert, case["head"]).from_pretrained(case["model"])(**inputs)
    if case["head"] == "BertModel":
        cls_state = out.last_hidden_state[0, 0]
        values = torch.cat([cls_state[:3], cls_state[-3:]])[: len(case["values"])]
    elif case["head"] == "BertForQuestionAnswering":
        values = torch.stack([out.start_logits[:, 1:4], out.end_logits[:, 1:4]])
    else:
        values = out.logits if case["slice"] == "logits" else out.logits[:, 1:4, 1:4]
    assert_close(values, case["values"], case.get("atol", 1e-4))


def test_fill_mask() -> None:
    (case,) = golden("bert-base-uncased.json")["fill_mask"]
    tokenizer = minibert.BertTokenizer.from_pretrained("bert-base-uncased")
    model = minibert.BertForMaskedLM.from_pretrained("bert-base-uncased")
    encoded = tokenizer(case["text"], return_tensors="pt")
    with torch.no_grad():
        logits = model(**encoded, positions=encoded["input_ids"] == tokenizer.mask_token_id).logits
    top = logits.softmax(-1)[0].topk(len(case["top"]))
    assert top.indices.tolist() == [token_id for _, token_id, _ in case["top"]]
    assert_close(top.values, [score for *_, score in case["top"]], case["atol"])
