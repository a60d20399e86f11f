"""Cross-encoders against sentence-transformers' CrossEncoder."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_folder import classifier_folder

from minibert import BertForSequenceClassification, BertTokenizer, CrossEncoder, rerank

QUERY = "how tall do trees grow?"
DOCUMENTS = [
    "trees grow in korea.",
    "hello world",
    "",
    "hello world",
    "tall trees " * 60,
    "in korea",
]
PAIRS = [(QUERY, document) for document in DOCUMENTS]

ACTIVATIONS: dict[str, Any] = {
    "none": None,
    "identity": torch.nn.Identity(),
    "tanh": torch.nn.Tanh(),
    "a label": lambda logits: logits[:, 0],
    "kept": lambda logits: logits[:, -1:],
    "two columns": lambda logits: torch.cat([logits[:, :1], -logits[:, :1]], dim=1),
    "the best": lambda logits: logits.argmax(-1),
    "bfloat16": lambda logits: logits.bfloat16(),
    "double": lambda logits: logits.double(),
}


def both(folder: Path, **options: Any) -> tuple[CrossEncoder, Any]:
    """Return a folder's cross-encoder of minibert and that of sentence-transformers."""
    sentence_transformers = pytest.importorskip("sentence_transformers")
    theirs = sentence_transformers.CrossEncoder(str(folder), device="cpu", **options)
    return CrossEncoder(folder, precision="exact", **options), theirs


def assert_identical(received: Any, expected: Any) -> None:
    """Assert that two results of `predict` have equal types, shapes and bits."""
    assert type(received) is type(expected)
    if isinstance(expected, list):
        assert len(received) == len(expected)
        for ours, theirs in zip(received, expected, strict=True):
            assert_identical(ours, theirs)
    else:
        assert received.dtype == expected.dtype and received.shape == expected.shape
        assert bool((received == expected).all())


class TestAgainstSentenceTransformers:
    @pytest.mark.parametrize("labels", [1, 3])
    @pytest.mark.parametrize(
        "activation", [None, torch.nn.Identity(), torch.nn.Tanh(), torch.nn.Sigmoid()]
    )
    def test_saved_folders(self, tmp_path: Path, labels: int, activation: Any) -> None:
        sentence_transformers = pytest.importorskip("sentence_transformers")
        folder = str(classifier_folder(tmp_path / "bert", labels))
        theirs = sentence_transformers.CrossEncoder(folder, activation_fn=activation, device="cpu")
        theirs.save_pretrained(str(tmp_path / "saved"))
        expected = theirs.predict(PAIRS)
        for precision in (None, "fp32"):
            ours = CrossEncoder.from_pretrained(tmp_path / "saved", precision=precision)
            np.testing.assert_allclose(ours.predict(PAIRS), expected, rtol=0, atol=1e-6)
        assert np.shape(ours.predict(PAIRS[0])) == expected[0].shape
        if labels == 1:
            ranked = theirs.rank(QUERY, DOCUMENTS, top_k=3, return_documents=True)
            received = ours.rank(QUERY, DOCUMENTS, top_k=3, return_documents=True)
            for mine, other in zip(received, ranked, strict=True):
                assert (mine["corpus_id"], mine["text"]) == (other["corpus_id"], other["text"])
                assert mine["score"] == pytest.approx(float(other["score"]), abs=1e-6)

    @pytest.mark.parametrize(
        "field",
        [
            {"sentence_transformers": {"activation_fn": "torch.nn.modules.linear.Identity"}},
            {"sbert_ce_default_activation_function": "torch.nn.modules.linear.Identity"},
            {},
        ],
    )
    def test_folders_of_older_versions(self, tmp_path: Path, field: dict[str, Any]) -> None:
        sentence_transformers = pytest.importorskip("sentence_transformers")
        config = json.loads(
            (classifier_folder(tmp_path, 1) / "config.json").read_text(encoding="utf-8")
        )
        (tmp_path / "config.json").write_text(json.dumps({**config, **field}), encoding="utf-8")
        expected = sentence_transformers.CrossEncoder(str(tmp_path), device="cpu").predict(PAIRS)
        np.testing.assert_allclose(
            CrossEncoder.from_pretrained(tmp_path).predict(PAIRS), expected, rtol=0, atol=1e-6
        )

    def test_prompts(self, tmp_path: Path) -> None:
        sentence_transformers = pytest.importorskip("sentence_transformers")
        prompts = {"prompts": {"query": "in korea ", "x": "hello "}, "default_prompt_name": "query"}
        folder = classifier_folder(tmp_path / "bert", 1)
        theirs = sentence_transformers.CrossEncoder(str(folder), device="cpu", **prompts)
        theirs.save_pretrained(str(tmp_path / "saved"))
        ours = CrossEncoder.from_pretrained(tmp_path / "saved", precision=None)
        for options in ({}, {"prompt_name": "x"}, {"prompt": "tall "}, {"prompt": ""}):
            expected = theirs.predict(PAIRS, batch_size=2, show_progress_bar=False, **options)
            scores = ours.predict(PAIRS, batch_size=2, show_progress_bar=False, **options)
            np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-6)
        with pytest.raises(ValueError, match="there is no prompt 'q'. This model has query, x"):
            ours.predict(PAIRS, prompt_name="q")

    @pytest.mark.parametrize("activation", ACTIVATIONS)
    @pytest.mark.parametrize("labels", [1, 3])
    def test_options_of_predict(self, labels: int, activation: Any, tmp_path: Path) -> None:
        """Bit for bit, as soon as each pair is computed alone."""
        ours, theirs = both(classifier_folder(tmp_path, labels))
        for softmax, tensor, array in itertools.product([False, True], repeat=3):
            options: dict[str, Any] = {
                "activation_fn": ACTIVATIONS[activation],
                "apply_softmax": softmax,
                "convert_to_tensor": tensor,
                "convert_to_numpy": array,
            }
            for pairs in (PAIRS, PAIRS[:1], PAIRS[0]):
                expected = theirs.predict(pairs, batch_size=1, **options)
                assert_identical(ours.predict(pairs, batch_tokens=1, **options), expected)

    @pytest.mark.parametrize("activation", ["none", "identity", "tanh", "double"])
    def test_options_of_rank(self, activation: str, tmp_path: Path) -> None:
        ours, theirs = both(classifier_folder(tmp_path, 1))
        for top_k, texts in itertools.product([None, 1, 3, 99], [False, True]):
            options: dict[str, Any] = {
                "activation_fn": ACTIVATIONS[activation],
                "top_k": top_k,
                "return_documents": texts,
            }
            expected = theirs.rank(QUERY, DOCUMENTS, batch_size=1, **options)
            assert ours.rank(QUERY, DOCUMENTS, batch_tokens=1, **options) == expected

    @pytest.mark.parametrize("labels", [1, 3])
    def test_lengths(self, labels: int, tmp_path: Path) -> None:
        ours, theirs = both(classifier_folder(tmp_path, labels), max_length=12)
        for length in (12, 9):
            ours.max_length = theirs.max_seq_length = length
            assert ours.max_seq_length == length
            expected = theirs.predict(PAIRS, batch_size=1)
            assert_identical(ours.predict(PAIRS, batch_tokens=1), expected)

    @pytest.mark.parametrize("labels", [1, 3])
    def test_attributes(self, labels: int, tmp_path: Path) -> None:
        ours, theirs = both(classifier_folder(tmp_path, labels))
        assert (ours.num_labels, ours.device) == (theirs.num_labels, theirs.device)
        for name in ("forward", "to", "register_forward_hook", "is_singular_input"):
            assert hasattr(theirs, name) and not hasattr(ours, name)
            with pytest.raises(AttributeError, match=f"CrossEncoder has no {name}: .*[a-z]"):
                getattr(ours, name)

    def test_names_of_the_pairs(self, tmp_path: Path) -> None:
        ours, theirs = both(classifier_folder(tmp_path, 1))
        for name in ("inputs", "sentences"):
            named: dict[str, Any] = {name: PAIRS}
            expected = theirs.predict(**named, batch_size=1)
            assert_identical(ours.predict(**named, batch_tokens=1), expected)
            with pytest.raises(TypeError, match=f"no option '{name}': pass the texts first"):
                ours.predict(PAIRS, **named)


class TestInputs:
    """The inputs and options that sentence-transformers' `predict` and `rank` accept."""

    @pytest.fixture
    def encoder(self, tmp_path: Path) -> CrossEncoder:
        return CrossEncoder.from_pretrained(classifier_folder(tmp_path, 1), precision="exact")

    def test_by_name(self, encoder: CrossEncoder, tmp_path: Path) -> None:
        expected = encoder.predict(PAIRS)
        assert np.array_equal(
            CrossEncoder(str(tmp_path), precision="exact").predict(PAIRS), expected
        )
        plain = CrossEncoder(tmp_path, activation_fn=torch.nn.Identity(), max_length=20)
        assert plain.max_length == 20 and plain.predict(PAIRS).max() != expected.max()
        # sentence-transformers 5 took the number of labels in the place of the tokenizer
        for arguments in ((encoder.model,), (encoder.model, 1), (tmp_path, 1)):
            with pytest.raises(TypeError, match="takes a BertForSequenceClassification and its"):
                CrossEncoder(*arguments)

    def test_pairs(self, encoder: CrossEncoder) -> None:
        pandas = pytest.importorskip("pandas")
        expected = encoder.predict(PAIRS)
        table = pandas.DataFrame(PAIRS, columns=["query", "document"])
        several: list[Any] = [
            np.array(PAIRS),
            np.array(PAIRS, dtype=object),
            [list(pair) for pair in PAIRS],
            [np.array(pair) for pair in PAIRS],
            tuple(PAIRS),
            iter(PAIRS),
            zip(table["query"], table["document"], strict=True),
            pandas.Series(PAIRS, index=range(5, 11)),
        ]
        for pairs in several:
            assert np.array_equal(encoder.predict(pairs), expected)
        single = encoder.predict(PAIRS[0])
        assert np.shape(single) == ()
        for pair in (list(PAIRS[0]), np.array(PAIRS[0]), pandas.Series(PAIRS[0])):
            assert encoder.predict(pair) == single
        for nothing in ([], np.empty((0, 2), dtype=str), iter(())):
            assert encoder.predict(nothing).shape == (0,)
        for wrong, message in (
            (table, r'pass its pairs, such as texts\[\["query", "document"\]\]'),
            ({"a": "b"}, "not a dict, which gives its keys"),
            ("hello", "pairs should be pairs of strings, not a single string"),
            (["a", "b", "c"], "pairs should be two strings each, but number 0 is 'a'"),
        ):
            with pytest.raises(ValueError, match=message):
                encoder.predict(wrong)  # type: ignore[call-overload]

    def test_documents(self, encoder: CrossEncoder) -> None:
        pandas = pytest.importorskip("pandas")
        expected = encoder.rank(QUERY, DOCUMENTS)
        for documents in (
            pandas.Series(DOCUMENTS, index=range(5, 11)),
            np.array(DOCUMENTS),
            tuple(DOCUMENTS),
            iter(DOCUMENTS),
        ):
            assert encoder.rank(QUERY, documents) == expected
        for wrong in (set(DOCUMENTS), "hello", pandas.DataFrame({"text": DOCUMENTS})):
            with pytest.raises(ValueError, match="should be "):
                encoder.rank(QUERY, wrong)

    def test_options(self, encoder: CrossEncoder) -> None:
        scores = encoder.predict(PAIRS)
        tensor = encoder.predict(PAIRS, convert_to_tensor=True)
        assert isinstance(tensor, torch.Tensor) and np.array_equal(tensor.numpy(), scores)
        several = encoder.predict(PAIRS, convert_to_numpy=False)
        assert isinstance(several, list) and torch.equal(torch.stack(several), tensor)
        logits = encoder.predict(PAIRS, activation_fn=torch.nn.Identity(), batch_size=2)
        np.testing.assert_allclose(torch.from_numpy(logits).sigmoid().numpy(), scores, atol=1e-6)
        assert np.array_equal(encoder.predict(PAIRS, device="cpu"), scores)
        with pytest.raises(ValueError, match="device should be one device"):
            encoder.predict(PAIRS, device=["cpu", "cpu"])  # type: ignore[call-overload]
        with pytest.raises(ValueError, match="batch_size should be a whole number of 1 or more"):
            encoder.predict(PAIRS, batch_size=0)
        with pytest.raises(ValueError, match="convert_to_tensor should be True or False"):
            encoder.predict(PAIRS, convert_to_tensor="False")  # type: ignore[call-overload]
        workers: Any = {"num_workers": 2}  # of sentence-transformers
        with pytest.raises(TypeError, match="no option 'num_workers': leave it out"):
            encoder.predict(PAIRS, **workers)
        best = encoder.rank(QUERY, DOCUMENTS, top_k=1, return_documents=False)
        assert best == [{"corpus_id": int(scores.argmax()), "score": float(scores.max())}]

    @pytest.mark.parametrize("labels", [1, 3])
    def test_no_pairs(self, labels: int, tmp_path: Path) -> None:
        encoder = CrossEncoder(classifier_folder(tmp_path, labels))
        scores = encoder.predict([], apply_softmax=True)
        assert scores.dtype == np.float32
        assert scores.shape == ((0,) if labels == 1 else (0, labels))
        assert encoder.predict([], convert_to_tensor=True).shape == scores.shape
        assert encoder.predict([], convert_to_numpy=False) == []

    def test_activations_that_lose_pairs(self, encoder: CrossEncoder, tmp_path: Path) -> None:
        several = CrossEncoder(classifier_folder(tmp_path / "several", 3))
        for model in (encoder, several):
            with pytest.raises(
                ValueError, match="activation_fn should return scores for each of 6"
            ):
                model.predict(PAIRS, activation_fn=torch.mean)
        with pytest.raises(ValueError, match=r"one score for each of 6 pairs, not .* \(6, 2\)"):
            encoder.rank(QUERY, DOCUMENTS, activation_fn=ACTIVATIONS["two columns"])

    @pytest.mark.usefixtures("at_once")
    def test_progress(self, encoder: CrossEncoder, capsys: pytest.CaptureFixture[str]) -> None:
        encoder.predict(PAIRS, show_progress_bar=True)
        assert "6/6" in capsys.readouterr().err

    def test_softmax(self, tmp_path: Path) -> None:
        encoder = CrossEncoder(classifier_folder(tmp_path, 3), precision="exact")
        scores = encoder.predict(PAIRS, apply_softmax=True)
        np.testing.assert_allclose(scores.sum(axis=1), 1, atol=1e-6)
        chosen = encoder.predict(PAIRS, activation_fn=lambda x: x[:, 0], apply_softmax=True)
        assert np.array_equal(chosen, encoder.predict(PAIRS)[:, 0])

    @pytest.mark.parametrize(
        "activation",
        [
            lambda logits: logits.softmax(-1)[:, -1],
            lambda logits: logits[:, -1:],
            lambda logits: logits.argmax(-1),
            lambda logits: logits.bfloat16(),
            lambda logits: logits.exp_(),
            torch.nn.Sequential(),
            torch.nn.PReLU(),
        ],
        ids=["a label", "kept", "the best", "bfloat16", "in place", "nothing", "trained"],
    )
    @pytest.mark.parametrize("labels", [1, 3])
    def test_activations(self, activation: Any, labels: int, tmp_path: Path) -> None:
        sentence_transformers = pytest.importorskip("sentence_transformers")
        ours = CrossEncoder(classifier_folder(tmp_path, labels), precision="exact")
        theirs = sentence_transformers.CrossEncoder(str(tmp_path), device="cpu")
        scores = ours.predict(PAIRS, activation_fn=activation)
        expected = theirs.predict(PAIRS, activation_fn=activation)
        assert scores.shape == expected.shape and scores.dtype == expected.dtype
        np.testing.assert_allclose(scores, expected, rtol=1e-2, atol=1e-5)
        if labels == 1:
            ranked = ours.rank(QUERY, DOCUMENTS, activation_fn=activation)
            best = theirs.rank(QUERY, DOCUMENTS, activation_fn=activation)
            received = {hit["corpus_id"]: hit["score"] for hit in ranked}
            assert received == {
                hit["corpus_id"]: pytest.approx(hit["score"], rel=1e-2, abs=1e-5) for hit in best
            }

    @pytest.mark.parametrize("precision", ["exact", "fp32"])
    def test_saved(self, encoder: CrossEncoder, tmp_path: Path, precision: Any) -> None:
        sentence_transformers = pytest.importorskip("sentence_transformers")
        ours = CrossEncoder(tmp_path, activation_fn=torch.nn.Tanh(), precision=precision)
        ours.prompts = {"query": "in korea "}
        ours.save_pretrained(tmp_path / "saved")
        expected = ours.predict(PAIRS, prompt_name="query")
        again = CrossEncoder(tmp_path / "saved", precision=precision)
        np.testing.assert_allclose(again.predict(PAIRS, prompt_name="query"), expected, atol=1e-6)
        theirs = sentence_transformers.CrossEncoder(str(tmp_path / "saved"), device="cpu")
        scores = theirs.predict(PAIRS, prompt_name="query")
        np.testing.assert_allclose(scores, expected, atol=1e-5)
        ours.activation_fn = torch.relu
        with pytest.raises(ValueError, match="activation_fn should be one of .* to be saved"):
            ours.save_pretrained(tmp_path / "again")
        assert not (tmp_path / "again").exists()


class TestRerank:
    @pytest.fixture
    def parts(self, tmp_path: Path) -> tuple[BertForSequenceClassification, BertTokenizer]:
        classifier_folder(tmp_path, 1)
        return BertForSequenceClassification.from_pretrained(
            tmp_path
        ), BertTokenizer.from_pretrained(tmp_path)

    def test_order(self, parts: tuple[BertForSequenceClassification, BertTokenizer]) -> None:
        scores = CrossEncoder(*parts).predict(PAIRS)
        ranked = rerank(*parts, QUERY, DOCUMENTS)
        order = np.argsort(-scores, kind="stable").tolist()
        assert [entry["corpus_id"] for entry in ranked] == order
        assert [entry["score"] for entry in ranked] == sorted(scores.tolist(), reverse=True)
        assert rerank(*parts, QUERY, DOCUMENTS, top_k=2) == ranked[:2]
        assert rerank(*parts, QUERY, []) == []

    def test_mistakes(
        self, parts: tuple[BertForSequenceClassification, BertTokenizer], tmp_path: Path
    ) -> None:
        with pytest.raises(ValueError, match="top_k should be .* 1 or more, not 0"):
            rerank(*parts, QUERY, DOCUMENTS, top_k=0)
        with pytest.raises(
            ValueError, match="pairs should be two strings each, but number 0 is .* None"
        ):
            rerank(*parts, QUERY, [None])  # type: ignore[list-item]
        with pytest.raises(ValueError, match="one label, .*has 2"):
            CrossEncoder.from_pretrained(classifier_folder(tmp_path / "two", 2)).rank(
                QUERY, DOCUMENTS
            )

    def test_unsupported_settings(self, tmp_path: Path) -> None:
        folder = classifier_folder(tmp_path, 1)
        settings = folder / "config_sentence_transformers.json"
        settings.write_text(json.dumps({"activation_fn": "os.system"}), encoding="utf-8")
        with pytest.raises(
            ValueError, match="config_sentence_transformers.json asks for activation 'os.system'"
        ):
            CrossEncoder.from_pretrained(folder)
        settings.write_text(json.dumps({"default_prompt_name": "query"}), encoding="utf-8")
        with pytest.raises(ValueError, match="there is no prompt 'query'. This model has none"):
            CrossEncoder.from_pretrained(folder)
        settings.write_text("{}", encoding="utf-8")
        (folder / "sentence_bert_config.json").write_text(
            json.dumps({"max_seq_length": "12"}), encoding="utf-8"
        )
        with pytest.raises(
            ValueError, match="sentence_bert_config.json: max_seq_length should be a int, not '12'"
        ):
            CrossEncoder.from_pretrained(folder)
        modules = [
            {"path": "", "type": f"sentence_transformers.models.{kind}"}
            for kind in ("Transformer", "Dense")
        ]
        (folder / "modules.json").write_text(json.dumps(modules), encoding="utf-8")
        with pytest.raises(
            ValueError, match="which makes an embedder. A cross-encoder has a Transformer alone"
        ):
            CrossEncoder.from_pretrained(folder)


def test_none_asks_for_nothing(tmp_path: Path) -> None:
    """As sentence-transformers passes `pool=None`, where it mines hard negatives."""
    encoder = CrossEncoder.from_pretrained(classifier_folder(tmp_path, 1))
    expected = encoder.predict([(QUERY, "tall")])
    assert np.array_equal(encoder.predict([(QUERY, "tall")], pool=None, chunk_size=None), expected)
    with pytest.raises(TypeError, match="predict has no option 'pool'"):
        encoder.predict([(QUERY, "tall")], pool={})
