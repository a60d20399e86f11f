"""The types that users see: mypy infers results and reports misspelled keywords."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import CHECKOUT

CODE = """
import torch
from minibert import BertConfig, BertForQuestionAnswering, BertForSequenceClassification, BertModel
from minibert import SentenceEmbedder, optimize

def use(embedder: SentenceEmbedder) -> None:
    reveal_type(embedder.encode("a"))
    reveal_type(embedder.encode(["a"], normalize_embeddings=True, overflow="mean"))
    reveal_type(embedder.encode_query(["a"], convert_to_tensor=True))
    reveal_type(embedder.words("a"))
    embedder.encode(["a"], batchsize=1)
    embedder.encode_document("a", overflow="drop")

ids = torch.ones(1, 3, dtype=torch.long)
reveal_type(BertModel.from_pretrained("a")(ids))
optimized = optimize(BertForSequenceClassification.from_pretrained("a"))
reveal_type(optimized(input_ids=ids, labels=ids).logits)
reveal_type(BertForQuestionAnswering.from_pretrained("a")(ids).start_logits)
BertModel.from_pretrained("a")(input_idz=ids)
BertForSequenceClassification.from_pretrained("a")(ids, output_hidden_state=True)
reveal_type(BertConfig(hidden_size=64, num_labels=3).num_labels)
BertConfig(hiden_size=64)
BertConfig(hidden_size="wide")
"""


@pytest.mark.slow  # mypy reads torch. The default run checks tests/samples/user_script.py.
def test_types(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    (tmp_path / "use.py").write_text(CODE, encoding="utf-8")
    # Run in the checkout, whose mypy cache has the types of torch.
    command = [sys.executable, "-m", "mypy", str(tmp_path / "use.py")]
    run = subprocess.run(command, capture_output=True, encoding="utf-8", cwd=CHECKOUT)
    revealed = [
        line.split("Revealed type is ")[1] for line in run.stdout.splitlines() if "Revealed" in line
    ]
    shapes = [text.count("int") for text in revealed[:2]]
    assert shapes == [1, 2], run.stdout  # (D,) and (N, D)
    assert "Tensor" in revealed[2] and "WordVectors" in revealed[3]
    assert "BertModelOutput" in revealed[4] and "Tensor" in revealed[5] and "Tensor" in revealed[6]
    assert "int" in revealed[7]
    errors = "\n".join(line for line in run.stdout.splitlines() if "error: " in line)
    expected = {
        11: "batchsize",
        12: "encode_document",
        19: "input_idz",
        20: "output_hidden_state",
        22: "hiden_size",
        23: "hidden_size",
    }
    for number, word in expected.items():
        assert re.search(rf"use\.py:{number}: error: .*\b{word}\b", errors), run.stdout
    assert {
        int(number) for number in re.findall(r"use\.py:(\d+): error", errors)
    } == expected.keys(), run.stdout
