"""Exported graphs: the values of PyTorch for any batch, in a folder that is written atomically."""

from __future__ import annotations

import json
import pickle
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_folder import WORDS, classifier_folder, head_folder, sentence_folder, two_poolings

from minibert import (
    BertForMaskedLM,
    BertForMultipleChoice,
    BertForNextSentencePrediction,
    BertForPreTraining,
    BertForQuestionAnswering,
    BertForSequenceClassification,
    BertForTokenClassification,
    BertTokenizer,
    CrossEncoder,
    OnnxEmbedder,
    SentenceEmbedder,
    classify,
)
from minibert.checkpoints.source import Source
from minibert.encoders.auto import load_with_heads

pytest.importorskip("onnxscript")
pytest.importorskip("onnxruntime")

from minibert.cli import main  # noqa: E402
from minibert.encoders.onnx import export as exporting  # noqa: E402
from minibert.encoders.onnx.onnx_embedder import open_session  # noqa: E402
from minibert.encoders.onnx.onnx_heads import OnnxHead  # noqa: E402

pytestmark = [pytest.mark.ecosystem, pytest.mark.usefixtures("shared_graphs")]
TEXTS = ["tall trees grow in korea", "hello", "", "how do tall trees grow in korea? " * 5]


@pytest.fixture(scope="module")
def embedder(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A folder with two poolings that leave out the prompt, and its export."""
    root = tmp_path_factory.mktemp("models")
    settings = {"prompts": {"query": "query: "}, "truncate_dim": 48}
    folder = two_poolings(root / "folder", config_sentence_transformers=settings)
    assert main(["export", "-m", str(folder), "-o", str(root / "exported")]) == 0
    return folder, root / "exported"


def padded(tokenizer: BertTokenizer, texts: list[str], **options: Any) -> dict[str, np.ndarray]:
    return dict(
        tokenizer(
            texts, padding=True, truncation=True, max_length=64, return_tensors="np", **options
        )
    )


class TestEmbedder:
    def test_vectors_of_any_batch(self, embedder: tuple[Path, Path]) -> None:
        folder, exported = embedder
        ours, session = (
            SentenceEmbedder.from_pretrained(folder, precision=None),
            open_session(exported / "model.onnx"),
        )
        for texts in (TEXTS, TEXTS[:1], TEXTS * 5):
            batch = padded(ours.tokenizer, texts)
            batch["pooling_mask"] = batch["attention_mask"]
            (vectors,) = session.run(["sentence_embedding"], batch)
            np.testing.assert_allclose(vectors, ours.encode(texts), rtol=0, atol=1e-5)
        batch = padded(ours.tokenizer, ["query: " + text for text in TEXTS])
        batch["pooling_mask"] = batch["attention_mask"].copy()
        batch["pooling_mask"][:, : 1 + len(ours.tokenizer.tokenize("query: "))] = 0
        (vectors,) = session.run(["sentence_embedding"], batch)
        np.testing.assert_allclose(vectors, ours.encode_query(TEXTS), rtol=0, atol=1e-5)

    def test_files_of_the_export(self, embedder: tuple[Path, Path]) -> None:
        _, exported = embedder
        names = {path.name for path in exported.iterdir()}
        assert {"model.onnx", "steps.onnx", "vocab.txt", "config.json", "modules.json"} <= names
        assert not list(exported.rglob("*.safetensors"))
        assert [path.name for path in exported.parent.iterdir() if path.name.startswith(".")] == []

    def test_an_existing_export_is_not_overwritten(
        self, embedder: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
    ) -> None:
        folder, exported = embedder
        assert main(["export", "-m", str(folder), "-o", str(exported)]) == 2
        assert "already holds" in capsys.readouterr().err

    def test_a_graph_with_other_results_is_not_written(
        self, embedder: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        folder, exported = embedder

        def write(module: object, inputs: object, path: Path) -> None:
            """Write the graph of another model."""
            path.write_bytes((exported / path.name).read_bytes())

        monkeypatch.setattr(exporting, "_write", write)
        other = SentenceEmbedder.from_pretrained(folder, precision=None)
        with torch.no_grad():
            other.model.embeddings.word_embeddings.weight.neg_()
        other.save_pretrained(tmp_path / "other")
        with pytest.raises(
            ValueError,
            match="nothing was written: .*results differ",
        ):
            exporting.export(Source(tmp_path / "other"), tmp_path / "out")
        assert [path.name for path in tmp_path.iterdir()] == ["other"]


def test_another_export_in_the_folder(embedder: tuple[Path, Path], tmp_path: Path) -> None:
    """Nothing of an earlier export in the same folder decides how a later one is read."""
    out = tmp_path / "out"
    exporting.export(Source(embedder[0]), out)
    exporting.export(Source(classifier_folder(tmp_path / "head", 3)), out, force=True)
    assert OnnxHead.from_pretrained(out).logits(TEXTS).shape == (4, 3)
    exporting.export(Source(embedder[0]), out, force=True)
    plain = sentence_folder(tmp_path / "plain", ("Pooling", {}), layers=1)
    exporting.export(Source(plain), out, force=True)
    texts = [*TEXTS, " ".join(WORDS) * 20]  # the last one in windows
    expected = SentenceEmbedder.from_pretrained(plain).encode(texts, overflow="mean")
    exported = OnnxEmbedder.from_pretrained(out)
    vectors = exported.encode(texts, overflow="mean")
    np.testing.assert_allclose(vectors, expected, rtol=0, atol=1e-5)
    with pytest.raises(ValueError, match="include_prompt should be True"):
        OnnxEmbedder(exported.model, exported.tokenizer, include_prompt=False)


def test_the_comparison_of_vectors() -> None:
    """A vector of zeros equals another one, and NaN equals nothing."""
    zero, other = np.float32([[0, 0], [1, 2]]), np.float32([[0, 0.5], [1, 2]])
    assert exporting._difference(zero, zero) == (0, pytest.approx(1))
    assert exporting._difference(zero, other)[1] == 0
    assert all(np.isnan(exporting._difference(zero * np.nan, zero * np.nan)))


def test_a_model_that_computes_nan_is_not_exported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NaN is larger than no difference that is allowed."""
    folder = save_head(tmp_path / "head", BertForTokenClassification)
    exporting.export(Source(folder), tmp_path / "whole")
    model = BertForTokenClassification.from_pretrained(folder)
    with torch.no_grad():
        model.classifier.bias[0] = torch.nan
    model.save_pretrained(folder)
    graph = tmp_path / "whole" / "model.onnx"
    monkeypatch.setattr(exporting, "_write", lambda module, inputs, path: shutil.copy(graph, path))
    with pytest.raises(ValueError, match="nothing was written"):
        exporting.export(Source(folder), tmp_path / "out")


@pytest.mark.slow
def test_int8(embedder: tuple[Path, Path], tmp_path: Path) -> None:
    folder, exported = embedder
    report = exporting.export(Source(folder), tmp_path / "int8", precision="int8")
    assert 0.99 < report.cosine < 0.999999  # 1 would be float32
    assert (tmp_path / "int8" / "model.onnx").stat().st_size < (
        exported / "model.onnx"
    ).stat().st_size


def save_head(folder: Path, head: type[Any]) -> Path:
    return head_folder(folder, head, num_labels=2 if head is BertForQuestionAnswering else 3)


@pytest.mark.parametrize(
    "head",
    [
        "classification",
        pytest.param(BertForTokenClassification, marks=pytest.mark.slow),
        pytest.param(BertForMaskedLM, marks=pytest.mark.slow),
    ],
)
def test_heads(head: Any, tmp_path: Path) -> None:
    folder = (
        classifier_folder(tmp_path / "head", 3)
        if head == "classification"
        else save_head(tmp_path / "head", head)
    )
    report = exporting.export(Source(folder), tmp_path / "out")
    assert report.kind.startswith("BertFor") and report.difference < 1e-5
    model, tokenizer = load_with_heads(folder)
    batch = padded(tokenizer, TEXTS)
    (logits,) = open_session(tmp_path / "out" / "model.onnx").run(["logits"], batch)
    with torch.inference_mode():
        expected = model(**{name: torch.from_numpy(x) for name, x in batch.items()}).logits.numpy()
    np.testing.assert_allclose(logits, expected, rtol=0, atol=1e-5)


HEADS = [
    BertForPreTraining,
    BertForMaskedLM,
    BertForNextSentencePrediction,
    BertForSequenceClassification,
    BertForTokenClassification,
    BertForMultipleChoice,
    BertForQuestionAnswering,
]


# one head for a text and one for each token, because each export takes long
IN_INT8 = {BertForSequenceClassification, BertForTokenClassification}


@pytest.mark.parametrize(
    "head",
    [pytest.param(head, marks=[] if head in IN_INT8 else [pytest.mark.slow]) for head in HEADS],
    ids=lambda head: head.__name__,
)
def test_every_head_in_int8(head: Any, tmp_path: Path) -> None:
    folder = (
        classifier_folder(tmp_path / "head", 3)
        if head is BertForSequenceClassification
        else save_head(tmp_path / "head", head)
    )
    report = exporting.export(Source(folder), tmp_path / "out", precision="int8")
    assert report.kind == head.__name__ and report.cosine > 0.9
    exported = OnnxHead.from_pretrained(tmp_path / "out")
    if head is BertForMultipleChoice:
        with pytest.raises(ValueError, match="multiple-choice"):
            exported.run(TEXTS)
        return
    lengths = [min(64, len(ids)) for ids in exported.tokenizer(TEXTS)["input_ids"]]
    for arrays in exported.run(TEXTS).values():
        assert len(arrays) == len(TEXTS)
        for array, length in zip(arrays, lengths, strict=True):
            assert array.shape[0] == length or array.shape in ((2,), (3,))


class TestExportedHeads:
    @pytest.fixture(scope="class", params=[3, 1])
    def folders(self, request: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
        """A classifier or a reranker, and its export."""
        root = tmp_path_factory.mktemp("heads")
        folder = classifier_folder(root / "head", request.param)
        exporting.export(Source(folder), root / "out")
        return folder, root / "out"

    def test_scores(self, folders: tuple[Path, Path]) -> None:
        folder, out = folders
        encoder = CrossEncoder.from_pretrained(folder, precision=None)
        exported = OnnxHead.from_pretrained(out)
        pairs = [(text, "tall trees") for text in TEXTS]
        if encoder.model.config.num_labels == 1:
            expected = encoder.predict(pairs)[:, None]
        else:
            labels = classify(encoder.model, encoder.tokenizer, TEXTS)
            received = exported.classify(TEXTS)
            for ours, theirs in zip(received, labels, strict=True):
                assert [label["label"] for label in ours] == [label["label"] for label in theirs]
            expected = exported.activation(encoder.predict(pairs))
        np.testing.assert_allclose(exported.scores(pairs), expected, rtol=0, atol=1e-5)

    def test_saturated_scores_keep_the_order_of_the_logits(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        several = {"problem_type": "multi_label_classification"}
        model, tokenizer = load_with_heads(classifier_folder(tmp_path / "head", 3, **several))
        exporting.export(Source(tmp_path / "head"), tmp_path / "out")
        exported = OnnxHead.from_pretrained(tmp_path / "out")
        saturated = torch.tensor([60.0, 100.0, 80.0])
        with torch.no_grad():
            model.classifier.bias.copy_(saturated)
        monkeypatch.setattr(exported, "logits", lambda texts: saturated.numpy()[None])
        labels = exported.classify(TEXTS[:1])
        assert [label["label"] for label in labels[0]] == ["LABEL_1", "LABEL_2", "LABEL_0"]
        assert labels == classify(model, tokenizer, TEXTS[:1])

    @pytest.mark.parametrize(
        ("activation", "file"),
        [
            ("Identity", "config.json"),
            ("Tanh", "config.json"),
            ("Sigmoid", "config_sentence_transformers.json"),
            (None, ""),
        ],
    )
    def test_a_reranker_keeps_its_activation(
        self, activation: str | None, file: str, tmp_path: Path
    ) -> None:
        folder = classifier_folder(tmp_path / "head", 1, problem_type="regression")
        if activation is not None:
            settings = {"activation_fn": f"torch.nn.modules.{activation}"}
            content = settings
            if file == "config.json":
                content = json.loads((folder / file).read_text(encoding="utf-8"))
                content["sentence_transformers"] = settings
            (folder / file).write_text(json.dumps(content), encoding="utf-8")
        exporting.export(Source(folder), tmp_path / "out")
        pairs = [(text, "tall trees") for text in TEXTS]
        expected = CrossEncoder.from_pretrained(folder, precision=None).predict(pairs)
        scores = OnnxHead.from_pretrained(tmp_path / "out").scores(pairs)[:, 0]
        np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-5)

    def test_both_backends_serve_equal_scores_of_a_regression(self, tmp_path: Path) -> None:
        testclient = pytest.importorskip("fastapi.testclient")
        app = pytest.importorskip("minibert.serving.app")
        models = pytest.importorskip("minibert.serving.models")
        folder = classifier_folder(tmp_path / "head", 1, problem_type="regression")
        exporting.export(Source(folder), tmp_path / "out")
        answers = []
        for path, backend in ((folder, "torch"), (tmp_path / "out", "onnx")):
            queue = {"max_wait_ms": 1, "max_tokens": 512, "max_pending": 9}
            model = models.load_served("head", Source(path), backend=backend, **queue)
            try:
                client = testclient.TestClient(app.create_app([model]))
                predicted = client.post("/predict", json={"inputs": TEXTS[0]}).json()
                query = {"query": "tall trees", "texts": TEXTS[:1]}
                ranked = client.post("/rerank", json=query).json()
                answers.append([predicted[0]["score"], ranked[0]["score"]])
            finally:
                model.batched.close()
        assert answers[0] == pytest.approx(answers[1], abs=1e-5)

    def test_served(self, folders: tuple[Path, Path]) -> None:
        _, out = folders
        testclient = pytest.importorskip("fastapi.testclient")
        app = pytest.importorskip("minibert.serving.app")
        models = pytest.importorskip("minibert.serving.models")
        queue = {"max_wait_ms": 1, "max_tokens": 512, "max_pending": 9}
        model = models.load_served("head", Source(out), backend="onnx", **queue)
        exported = OnnxHead.from_pretrained(out)
        try:
            client = testclient.TestClient(app.create_app([model]))
            labels = client.post("/predict", json={"inputs": TEXTS[0]}).json()
            names = exported.config.id2label.values()
            expected = dict(zip(names, exported.scores(TEXTS[:1])[0].tolist(), strict=True))
            assert len(labels) == len(expected)
            for label in labels:
                assert label["score"] == pytest.approx(expected[label["label"]], abs=1e-5)
        finally:
            model.batched.close()

    def test_forms_of_texts(self, folders: tuple[Path, Path]) -> None:
        exported = OnnxHead.from_pretrained(folders[1])
        expected = exported.logits(TEXTS)
        for texts in (iter(TEXTS), np.array(TEXTS), tuple(TEXTS)):
            np.testing.assert_array_equal(exported.logits(texts), expected)
        for wrong in ("hello", {"hello"}, {"hello": 1}, b"hello"):
            for method in (exported.run, exported.scores, exported.classify):
                with pytest.raises(ValueError, match="texts should be "):
                    method(wrong)  # type: ignore[arg-type]

    def test_command(self, folders: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
        folder, out = folders
        command = ("classify", *(text for text in TEXTS if text), "-m")
        expected = printed_results(capsys, *command, folder)
        assert printed_results(capsys, *command, out, "--backend", "onnx") == rounded(expected)

    def test_an_exported_embedder_does_not_load_as_a_head(
        self, embedder: tuple[Path, Path]
    ) -> None:
        with pytest.raises(ValueError, match="was exported from an embedder"):
            OnnxHead.from_pretrained(embedder[1])


def printed_results(capsys: pytest.CaptureFixture[str], *arguments: object) -> list[Any]:
    assert main([*map(str, arguments), "--json"]) == 0
    results: list[Any] = json.loads(capsys.readouterr().out)["output"]
    return results


def rounded(results: Any) -> Any:
    """Replace each score by an approximate value, for comparison with another library."""
    if isinstance(results, dict):
        return {name: rounded(value) for name, value in results.items()}
    if isinstance(results, list):
        return [rounded(value) for value in results]
    return pytest.approx(results, abs=1e-4) if isinstance(results, float) else results


@pytest.mark.parametrize(
    ("command", "head"),
    [
        ("entities", BertForTokenClassification),
        pytest.param("answer --question who", BertForQuestionAnswering, marks=pytest.mark.slow),
    ],
    ids=["entities", "answer"],
)
def test_commands_run_exported_heads(
    command: str, head: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The results equal those of PyTorch, also for texts of several windows."""
    folder = save_head(tmp_path / "head", head)
    out = tmp_path / "out"
    assert main(["export", "-m", str(folder), "-o", str(out)]) == 0
    capsys.readouterr()
    arguments = (*command.split(), *(text for text in TEXTS if text), "-m")
    expected = printed_results(capsys, *arguments, folder)
    assert printed_results(capsys, *arguments, out, "--backend", "onnx") == rounded(expected)
    assert main([*arguments, str(out)]) == 2
    assert "run it with --backend onnx" in capsys.readouterr().err
    texts = [text for text in TEXTS if text]
    if head is BertForTokenClassification:
        spans = [result["entities"] for result in expected]
        check_served(out, "/predict", [[text] for text in texts], spans)
    else:
        names = ("answer", "score", "start", "end")
        answers = [{name: result[name] for name in names} for result in expected]
        questions = [{"question": "who", "context": text} for text in texts]
        check_served(out, "/question-answering", questions, answers)


def check_served(out: Path, route: str, inputs: list[Any], expected: list[Any]) -> None:
    testclient = pytest.importorskip("fastapi.testclient")
    app = pytest.importorskip("minibert.serving.app")
    models = pytest.importorskip("minibert.serving.models")
    queue = {"max_wait_ms": 1, "max_tokens": 512, "max_pending": 9}
    model = models.load_served("model", Source(out), backend="onnx", **queue)
    try:
        client = testclient.TestClient(app.create_app([model]))
        assert client.post(route, json={"inputs": inputs}).json() == rounded(expected)
    finally:
        model.batched.close()


@pytest.mark.parametrize("command", ["entities", "answer --question who", "classify"])
def test_options_that_the_export_fixes(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [*command.split(), "a text", "-m", "minibert-tiny", "--backend", "onnx"]
    assert main([*arguments, "--precision", "int8"]) == 2
    assert "the precision of the export" in capsys.readouterr().err
    assert main([*arguments, "--device", "cuda"]) == 2
    assert "runs on the CPU" in capsys.readouterr().err


def test_damaged_graphs(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(b"no graph")
    with pytest.raises(ValueError, match=r"model\.onnx is damaged, or not for this onnxruntime"):
        open_session(tmp_path / "model.onnx")


class TestBackend:
    """`backend="onnx"` gives the results of PyTorch and never imports torch."""

    @pytest.fixture(scope="class")
    def both(self, embedder: tuple[Path, Path]) -> tuple[SentenceEmbedder, OnnxEmbedder]:
        folder, exported = embedder
        torch_embedder = SentenceEmbedder.from_pretrained(folder, precision=None)
        return torch_embedder, SentenceEmbedder.from_pretrained(exported, backend="onnx")

    @pytest.mark.parametrize(
        "options",
        [
            {},
            {"overflow": "mean"},
            {"prompt_name": "query"},
            {"prompt": "how do ", "overflow": "mean", "batch_tokens": 70},
            {"truncate_dim": 8, "normalize_embeddings": True},
            {"precision": "ubinary", "truncate_dim": 16},
        ],
    )
    @pytest.mark.filterwarnings("ignore:.*were truncated")
    def test_encode(
        self, both: tuple[SentenceEmbedder, OnnxEmbedder], options: dict[str, Any]
    ) -> None:
        ours, theirs = both
        long = " ".join(WORDS) * 20
        texts = [*TEXTS, long, *TEXTS[:2], "a", *(" ".join(WORDS[:n]) for n in range(9))]
        for inputs in (texts, texts[0], []):
            np.testing.assert_allclose(
                theirs.encode(inputs, **options), ours.encode(inputs, **options), rtol=0, atol=1e-5
            )

    def test_the_rest_of_the_api(self, both: tuple[SentenceEmbedder, OnnxEmbedder]) -> None:
        ours, theirs = both
        pairs = [("tall trees", "grow"), ("hello world", "in korea")]
        np.testing.assert_allclose(theirs.encode(pairs), ours.encode(pairs), rtol=0, atol=1e-5)
        np.testing.assert_allclose(
            theirs.encode_query(TEXTS), ours.encode_query(TEXTS), rtol=0, atol=1e-5
        )
        states = theirs.encode(TEXTS[:3], output_value="token_embeddings")
        expected = ours.encode(TEXTS[:3], output_value="token_embeddings")
        for state, reference in zip(states, expected, strict=True):
            np.testing.assert_allclose(state, reference, rtol=0, atol=1e-5)
        for words, reference in zip(theirs.words(TEXTS[:3]), ours.words(TEXTS[:3]), strict=True):
            assert words.words == reference.words
            np.testing.assert_allclose(words.vectors, reference.vectors, rtol=0, atol=1e-5)
        with theirs.batched() as batched:
            np.testing.assert_allclose(
                batched.encode("hello"), ours.encode("hello"), rtol=0, atol=1e-5
            )
        again = pickle.loads(pickle.dumps(theirs))
        np.testing.assert_array_equal(again.encode(TEXTS[:2]), theirs.encode(TEXTS[:2]))
        assert isinstance(theirs, OnnxEmbedder)
        assert (theirs.dimension, theirs.max_length, theirs.pooling) == (48, 64, ["cls", "mean"])

    def test_another_working_folder(
        self, embedder: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The graph of the steps is the one beside the model when that was loaded."""
        _, exported = embedder
        long = " ".join(WORDS) * 20
        expected = OnnxEmbedder.from_pretrained(exported).encode(long, overflow="mean")
        monkeypatch.chdir(exported.parent)
        loaded = OnnxEmbedder.from_pretrained(exported.name)
        monkeypatch.chdir(tmp_path)
        np.testing.assert_array_equal(loaded.encode(long, overflow="mean"), expected)

    def test_options_that_the_graph_fixes(self, embedder: tuple[Path, Path]) -> None:
        folder, exported = embedder
        for option in (
            {"pooling": "max"},
            {"normalize": True},
            {"precision": "int8"},
            {"precision": None},
            {"mmap": False},
            {"layers": [1]},
        ):
            argument = next(iter(option))
            with pytest.raises(ValueError, match=f"{argument} should be left out with backend="):
                SentenceEmbedder.from_pretrained(exported, backend="onnx", **option)  # type: ignore[arg-type]
        with pytest.raises(FileNotFoundError, match=r"holds no model\.onnx"):
            SentenceEmbedder.from_pretrained(folder, backend="onnx")
        with pytest.raises(ValueError, match="cannot be saved to .*: copy its folder"):
            SentenceEmbedder.from_pretrained(exported, backend="onnx").save_pretrained(
                exported.parent / "again"
            )
        with pytest.raises(ValueError, match="runs on the CPU, not on cuda"):
            SentenceEmbedder.from_pretrained(exported, backend="onnx").encode(
                "hello", device="cuda"
            )

    def test_torch_is_never_imported(self, embedder: tuple[Path, Path], tmp_path: Path) -> None:
        """Neither `encode` nor the commands nor the service import it."""
        _, exported = embedder
        (tmp_path / "lines.txt").write_text("\n".join(filter(None, TEXTS)), encoding="utf-8")
        code = """if True:
            import sys
            from minibert import OnnxEmbedder
            from minibert.cli import main
            folder, corpus = sys.argv[1:]
            embedder = OnnxEmbedder.from_pretrained(folder)
            texts = ["hello", "how do trees grow? " * 30]
            embedder.encode(texts, overflow="mean", precision="binary")
            options = ["--model", folder, "--backend", "onnx"]
            assert main(["embed", "hello", "--jsonl", *options]) == 0
            assert main(["embed", "--file", corpus, "--output", corpus + ".npy", *options]) == 0
            assert main(["embed", "--file", corpus, "--output", corpus + ".shards/", *options]) == 0
            search = ["search", "tall trees", "--corpus", corpus, *options]
            assert main(search) == 0
            assert main([*search, "--vectors", corpus + ".npy"]) == 0
            from minibert.checkpoints.source import Source
            from minibert.serving.app import create_app
            from minibert.serving.models import load_served
            queue = {"max_wait_ms": 1, "max_tokens": 512, "max_pending": 9}
            model = load_served("tiny", Source(folder), backend="onnx", **queue)
            create_app([model])
            model.batched.encode("hello")
            assert "torch" not in sys.modules
        """
        command = [
            sys.executable,
            "-W",
            "error",
            "-c",
            code,
            str(exported),
            str(tmp_path / "lines.txt"),
        ]
        run = subprocess.run(command, capture_output=True, encoding="utf-8")
        assert run.returncode == 0, run.stderr
