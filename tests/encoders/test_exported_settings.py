"""An exported model keeps what its folder says, is whole or refused, and sends nothing home."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import tiny_config
from tiny_folder import (
    VOCABULARY,
    classifier_folder,
    sentence_folder,
    tiny_folder,
    two_poolings,
)
from torch import nn

from minibert import (
    BertConfig,
    BertModel,
    BertPreTrainedModel,
    CrossEncoder,
    OnnxEmbedder,
    SentenceEmbedder,
    encode_to_shards,
)
from minibert.checkpoints.source import Source

pytest.importorskip("onnxscript")
pytest.importorskip("onnxruntime")

from minibert.encoders.onnx.export import export  # noqa: E402
from minibert.encoders.onnx.onnx_heads import OnnxHead  # noqa: E402

pytestmark = [pytest.mark.ecosystem, pytest.mark.usefixtures("shared_graphs")]
PAIRS = [
    ("how do trees grow", "TALL trees grow in korea " * 6),
    ("Hello", "world"),
    ("hello " * 12, "in Korea"),
    ("", "?"),
]


class TestReranker:
    """The exported head gives the scores of the cross-encoder."""

    SETTINGS: dict[str, dict[str, Any]] = {
        "length": {"sentence_bert_config": {"max_seq_length": 16}},
        "length of the tokenizer": {
            "sentence_bert_config": {"tokenizer_args": {"model_max_length": 20}}
        },
        "prompts": {
            "config_sentence_transformers": {
                "prompts": {"query": "query: ", "other": "hello "},
                "default_prompt_name": "query",
            }
        },
        "lower case": {
            "sentence_bert_config": {"do_lower_case": True},
            "tokenizer_config": {"do_lower_case": False, "model_max_length": 64},
        },
        "options of the tokenizer": {
            "sentence_bert_config": {"tokenizer_args": {"do_lower_case": False}}
        },
        "all": {
            "sentence_bert_config": {
                "max_seq_length": 14,
                "tokenizer_args": {"do_lower_case": False},
            },
            "config_sentence_transformers": {
                "prompts": {"q": "hello "},
                "default_prompt_name": "q",
                "activation_fn": "torch.nn.modules.linear.Identity",
            },
        },
    }

    @pytest.mark.parametrize("case", list(SETTINGS))
    @pytest.mark.filterwarnings("ignore:.*were truncated")
    def test_scores(self, tmp_path: Path, case: str) -> None:
        settings = self.SETTINGS[case]
        folder = classifier_folder(tmp_path / "head", 1)
        tokenizer = settings.get("tokenizer_config")
        if tokenizer is not None:
            (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer), encoding="utf-8")
        plain = CrossEncoder(folder, precision=None).predict(PAIRS)
        for name, content in settings.items():
            (folder / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
        encoder = CrossEncoder(folder, precision=None)
        assert export(Source(folder), tmp_path / "out").difference < 1e-4
        head = OnnxHead.from_pretrained(tmp_path / "out")
        expected = encoder.predict(PAIRS)
        assert np.abs(expected - plain).max() > 1e-4  # the settings matter
        np.testing.assert_allclose(head.scores(PAIRS)[:, 0], expected, rtol=0, atol=1e-5)
        for name in encoder.prompts:
            expected = encoder.predict(PAIRS[:1], prompt_name=name)
            received = head.rank(PAIRS[0][0], [PAIRS[0][1]], prompt_name=name)
            assert received[0]["score"] == pytest.approx(float(expected[0]), abs=1e-5)
        assert (head.max_length, head.prompts) == (encoder.max_length, encoder.prompts)


@pytest.mark.filterwarnings("ignore:.*were truncated")
def test_an_embedder_compares_vectors_as_its_folder_says(tmp_path: Path) -> None:
    settings = {
        "similarity_fn_name": "dot",
        "truncate_dim": 48,
        "prompts": {"query": "hello ", "passage": "x "},
    }
    folder = two_poolings(
        tmp_path / "model",
        sentence_bert_config={"max_seq_length": 12},
        config_sentence_transformers=settings,
    )
    export(Source(folder), tmp_path / "out")
    # another user may read it, as any folder that is made
    assert (tmp_path / "out").stat().st_mode == folder.stat().st_mode
    theirs = OnnxEmbedder.from_pretrained(tmp_path / "out")
    ours = SentenceEmbedder.from_pretrained(folder, precision=None)
    texts = ["trees grow", "hello world " * 9, "in korea"]
    queries, documents = ours.encode_query(texts), ours.encode_document(texts)
    np.testing.assert_allclose(theirs.encode_query(texts), queries, atol=1e-5)
    np.testing.assert_allclose(theirs.encode_document(texts), documents, atol=1e-5)
    scores = ours.similarity(queries, documents).numpy()
    np.testing.assert_allclose(theirs.similarity(queries, documents), scores, atol=1e-5)
    pairwise = ours.similarity_pairwise(queries, documents).numpy()
    np.testing.assert_allclose(theirs.similarity_pairwise(queries, documents), pairwise, atol=1e-5)
    assert (theirs.truncate_dim, theirs.dimension, str(theirs.device)) == (48, 48, "cpu")
    theirs.truncate_dim = 8
    np.testing.assert_allclose(theirs.encode_query(texts), queries[:, :8], atol=1e-5)
    windows = theirs.encode_query(texts, overflow="mean", truncate_dim=4)
    expected = ours.encode_query(texts, overflow="mean")[:, :4]
    np.testing.assert_allclose(windows, expected, atol=1e-5)
    with pytest.raises(ValueError, match="truncate_dim is 10, but .* truncated to 8"):
        theirs.encode(texts, truncate_dim=10)
    encode_to_shards(theirs, texts, tmp_path / "vectors")
    theirs.truncate_dim = 16
    with pytest.raises(ValueError, match="begun with truncate_dim 8, not 16"):
        encode_to_shards(theirs, texts, tmp_path / "vectors")


class Duo(BertPreTrainedModel):
    """A class of a user's own: two heads and a layer that minibert does not have."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config)
        self.bert = BertModel(config)
        self.mixer = nn.Linear(config.hidden_size, config.hidden_size)
        self.intent = nn.Linear(config.hidden_size, 3)


class TestClassesOfOnesOwn:
    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        folder = tiny_folder(tmp_path / "duo", num_hidden_layers=1)
        duo = Duo(tiny_config(vocab_size=len(VOCABULARY), num_hidden_layers=1))
        duo.bert.load_state_dict(BertModel.from_pretrained(folder).state_dict())
        duo.save_pretrained(folder)
        return folder

    def test_heads_are_refused(self, folder: Path, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match="has 4 tensors that BertModel has no place for, such"):
            export(Source(folder), tmp_path / "out", heads=True)
        assert not (tmp_path / "out").exists()

    def test_an_embedder_is_exported_with_a_warning(self, folder: Path, tmp_path: Path) -> None:
        with pytest.warns(UserWarning, match="but not in BertModel"):
            exported = export(Source(folder), tmp_path / "out")
        assert exported.kind == "SentenceEmbedder"


def test_graphs_of_other_exporters(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    sentence_folder(tmp_path, ("Pooling", {}))
    helper = onnx.helper
    shapes = [("input_ids", onnx.TensorProto.INT64), ("last_hidden_state", onnx.TensorProto.INT64)]
    inputs, outputs = ([helper.make_tensor_value_info(n, t, ["b", "s"])] for n, t in shapes)
    node = helper.make_node("Identity", ["input_ids"], ["last_hidden_state"])
    graph = helper.make_graph([node], "graph", inputs, outputs)
    opset = helper.make_opsetid("", 17)
    model = helper.make_model(graph, opset_imports=[opset], ir_version=9)
    onnx.save(model, tmp_path / "model.onnx")
    with pytest.raises(ValueError, match="has the outputs last_hidden_state. An embedder's graph"):
        OnnxEmbedder.from_pretrained(tmp_path)


class TestTelemetry:
    """ONNX Runtime reads ORT_DISABLE_TELEMETRY when it is loaded, and writes files into HOME."""

    CODE = """if True:
        import os, sys
        import minibert
        from minibert import OnnxEmbedder
        assert os.environ.get("ORT_DISABLE_TELEMETRY") == (sys.argv[2] or None)
        OnnxEmbedder.from_pretrained(sys.argv[1]).encode("hello")
        assert os.environ["ORT_DISABLE_TELEMETRY"] == (sys.argv[2] or "1")
    """

    def test_it_is_off_unless_the_user_turns_it_on(self, tmp_path: Path) -> None:
        folder = sentence_folder(tmp_path / "model", ("Pooling", {}), layers=1)
        export(Source(folder), tmp_path / "out")
        home = tmp_path / "home"
        home.mkdir()
        environment = {**os.environ, "HOME": str(home), "USERPROFILE": str(home)}
        for name in ("CI", "ORT_DISABLE_TELEMETRY", "XDG_CACHE_HOME"):
            environment.pop(name, None)
        command = [sys.executable, "-c", self.CODE, str(tmp_path / "out")]
        subprocess.run([*command, ""], env=environment, check=True)
        assert [path.name for path in home.rglob("*")] == []
        environment["ORT_DISABLE_TELEMETRY"] = "0"
        subprocess.run([*command, "0"], env=environment, check=True)
