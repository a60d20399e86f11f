"""`encode` with the options of sentence-transformers, with pairs, and with invalid arguments."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_folder import sentence_folder, tiny_folder

from minibert import SentenceEmbedder
from minibert.layouts import PackedLayout

METHODS = ("encode", "encode_query", "encode_document", "embed_documents", "words")
TEXTS = ["hello world", "how tall do trees grow in korea?", "", "hello world"]


class TestResults:
    def test_types_of_results(self, embedder: SentenceEmbedder) -> None:
        vectors = embedder.encode(TEXTS)
        tensor = embedder.encode(TEXTS, convert_to_tensor=True)
        assert isinstance(tensor, torch.Tensor) and np.array_equal(tensor.numpy(), vectors)
        several = embedder.encode(TEXTS, convert_to_numpy=False)
        assert isinstance(several, list) and torch.equal(torch.stack(several), tensor)
        # torch sums matrix products of few rows in a different order with several threads
        torch.testing.assert_close(
            embedder.encode(TEXTS[1], convert_to_tensor=True), tensor[1], rtol=0, atol=1e-6
        )

    def test_truncate_dim_can_be_set(self, embedder: SentenceEmbedder) -> None:
        """The attribute can be set, as in sentence-transformers."""
        whole = embedder.encode(TEXTS)
        for size in (10, 6, None):
            embedder.truncate_dim = size
            np.testing.assert_array_equal(embedder.encode(TEXTS), whole[:, :size])
            assert (embedder.truncate_dim, embedder.dimension) == (size, size or whole.shape[1])
        with pytest.raises(ValueError, match="truncate_dim should be .* 1 or more, not 0"):
            embedder.truncate_dim = 0
        embedder.truncate_dim = 6
        with pytest.raises(ValueError, match="truncate_dim is 10, but .* truncated to 6"):
            embedder.encode(TEXTS, truncate_dim=10)
        embedder.truncate_dim = None

    def test_normalized_and_truncated(self, embedder: SentenceEmbedder) -> None:
        vectors = embedder.encode(TEXTS, truncate_dim=10, normalize_embeddings=True)
        expected = embedder.encode(TEXTS)[:, :10]
        np.testing.assert_allclose(
            vectors, expected / np.linalg.norm(expected, axis=1, keepdims=True), atol=1e-6
        )

    def test_binary_vectors(self, embedder: SentenceEmbedder) -> None:
        expected = np.packbits(embedder.encode(TEXTS) > 0, axis=1)
        unsigned = embedder.encode(TEXTS, precision="ubinary")
        assert unsigned.dtype == np.uint8 and np.array_equal(unsigned, expected)
        signed = embedder.encode(TEXTS, precision="binary")
        assert signed.dtype == np.int8 and np.array_equal(
            signed.astype(int), expected.astype(int) - 128
        )

    def test_token_embeddings(self, embedder: SentenceEmbedder) -> None:
        states = embedder.encode(TEXTS, output_value="token_embeddings")
        np.testing.assert_allclose(
            [state.mean(0).tolist() for state in states], embedder.encode(TEXTS), atol=1e-6
        )

    @pytest.mark.parametrize("overflow", ["truncate", "mean"])
    def test_token_embeddings_of_a_long_text_warn(
        self, embedder: SentenceEmbedder, overflow: Any
    ) -> None:
        text = "hello " * 2 * embedder.max_length
        options: dict[str, Any] = {"output_value": "token_embeddings", "overflow": overflow}
        with pytest.warns(UserWarning, match="truncated") as records:
            states = embedder.encode(text, **options)
        assert len(states) == embedder.max_length
        assert "overflow" not in str(records[0].message)  # which would not help

    def test_options_without_effect(self, embedder: SentenceEmbedder) -> None:
        vectors = embedder.encode(TEXTS, batch_size=2, show_progress_bar=False, device="cpu")
        assert np.array_equal(vectors, embedder.encode(TEXTS))

    def test_equal_texts_are_encoded_once(self, embedder: SentenceEmbedder) -> None:
        settings = embedder.settings()
        (once, rows), (twice, same) = (
            embedder.encode_chunk(texts, settings) for texts in (TEXTS[:3], TEXTS)
        )
        assert rows.tokens == same.tokens
        assert np.array_equal(twice[3], once[0])


class TestInputs:
    """Texts in every kind of ordered collection."""

    def test_arrays(self, embedder: SentenceEmbedder) -> None:
        expected = embedder.encode(TEXTS)
        for array in (np.array(TEXTS), np.array(TEXTS, dtype=object)):
            assert np.array_equal(embedder.encode(array), expected)
        assert np.array_equal(
            embedder.encode(np.array([("a", "b"), ("x", "")])),
            embedder.encode([("a", "b"), ("x", "")]),
        )

    @pytest.mark.parametrize(
        ("texts", "message"),
        [
            ({"a": "x y", "b": "u"}, r"not a dict, which gives its keys: pass list\(texts.values"),
            (Counter(["x", "y"]), "not a Counter, which gives its keys"),
            ({"x", "y"}, "not a set, which has no order: pass sorted"),
            (frozenset(["x"]), "not a frozenset, which has no order"),
            (b"hello", "not a bytes: decode it first"),
            (5, "not an int"),
            (None, "not None"),
        ],
    )
    def test_unsupported_collections(
        self, embedder: SentenceEmbedder, texts: Any, message: str
    ) -> None:
        for method in METHODS:
            with pytest.raises(ValueError, match=message):
                getattr(embedder, method)(texts)
        with pytest.raises(ValueError, match=message):
            list(embedder.encode_stream(texts))

    def test_tables(self, embedder: SentenceEmbedder) -> None:
        pandas = pytest.importorskip("pandas")
        datasets = pytest.importorskip("datasets")
        columns = {"text": ["x", "y", "z"]}
        dataset = datasets.Dataset.from_dict(columns)
        tables = [pandas.DataFrame(columns), dataset, datasets.DatasetDict({"train": dataset})]
        for texts in tables:
            for method in METHODS:
                with pytest.raises(
                    ValueError, match=r'pass one of its columns, such as texts\["te'
                ):
                    getattr(embedder, method)(texts)
            with pytest.raises(ValueError, match="pass one of its columns"):
                list(embedder.encode_stream(texts))
        expected = embedder.encode(columns["text"])
        for texts in (tables[0]["text"], dataset["text"]):
            assert np.array_equal(embedder.encode(texts), expected)


class TestPairs:
    PAIRS = [("hello world", "trees grow"), ("how tall?", ""), ("x", "hello " * 80)]

    def test_against_the_model(self, embedder: SentenceEmbedder) -> None:
        with pytest.warns(UserWarning, match="1 of 3 texts have more than 64 tokens"):
            vectors = embedder.encode(self.PAIRS)
        for pair, vector in zip(self.PAIRS, vectors, strict=True):
            batch = embedder.tokenizer(*pair, return_tensors="pt", truncation=True, max_length=64)
            with torch.inference_mode():
                expected = embedder.model(**batch).last_hidden_state[0].mean(0)
            np.testing.assert_allclose(vector, expected.numpy(), atol=1e-6)

    def test_mistakes(self, embedder: SentenceEmbedder) -> None:
        with pytest.raises(
            ValueError, match="pairs should be two strings each, but number 1 is 'hello'"
        ):
            embedder.encode([("a", "b"), "hello"])
        with pytest.raises(ValueError, match='overflow="mean" is for single texts'):
            embedder.encode(self.PAIRS, overflow="mean")
        with pytest.raises(
            ValueError, match="texts should be strings, but number 1 is \\['a', 'b'\\]"
        ):
            embedder.encode(["hello", ["a", "b"]])  # type: ignore[list-item]


@pytest.mark.parametrize("method", ["encode", "encode_query", "encode_document"])
@pytest.mark.parametrize("name", ["inputs", "sentences"])
def test_names_of_the_texts(embedder: SentenceEmbedder, method: str, name: str) -> None:
    """Those of sentence-transformers 6 and 5."""
    encode = getattr(embedder, method)
    for texts in (["hello", "world"], "hello"):
        assert np.array_equal(encode(**{name: texts}), encode(texts))


class TestMistakes:
    @pytest.mark.parametrize("option", ["batchsize", "normalise_embeddings", "pool", "inputs"])
    def test_options_that_do_not_exist(self, embedder: SentenceEmbedder, option: str) -> None:
        for method in (embedder.encode, embedder.encode_query, embedder.encode_document):
            with pytest.raises(TypeError, match=f"no option '{option}'"):
                method(["hello"], **{option: 1})  # type: ignore[call-overload]
        with pytest.raises(TypeError, match="encode_stream has no option 'batch_token'"):
            embedder.encode_stream(["hello"], batch_token=1)  # type: ignore[call-arg]

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"batch_size": 0}, "batch_size should be a whole number of 1 or more, not 0"),
            ({"truncate_dim": 0}, "truncate_dim should be a whole number of 1 or more, not 0"),
            (
                {"precision": "bf16"},
                r"precision is that of the vectors, .*from_pretrained.* is that of",
            ),
            (
                {"precision": "int8"},
                "a single vector has no ranges for int8: encode many texts together",
            ),
            (
                {"output_value": "logits"},
                'output_value should be "sentence_embedding" or "token_embeddings", not',
            ),
            ({"output_value": None}, "output_value should be .* not None"),
            ({"device": "cuda:99"}, "device should be one of this computer's .*, not 'cuda:99'"),
            ({"prompt": 3}, "prompt should be a string, not 3"),
            ({"device": "gpu"}, "device should be one device, .* not 'gpu'"),
            ({"device": ["cpu", "cpu"]}, r"device should be one device, .* not \['cpu', 'cpu'\]"),
        ],
    )
    def test_invalid_values(
        self, embedder: SentenceEmbedder, options: dict[str, Any], message: str
    ) -> None:
        with pytest.raises(ValueError, match=message):
            embedder.encode(["hello"], **options)


class TestPrompts:
    @pytest.mark.parametrize(
        ("prompts", "message"),
        [
            (["query: "], r"prompts should be a dict of names and texts, .* not \['query: '\]"),
            ({"query": 3}, r"prompts\['query'\] should be a string, not 3"),
        ],
    )
    def test_what_is_not_prompts(self, prompts: Any, message: str, tmp_path: Path) -> None:
        sentence_folder(tmp_path, ("Pooling", {}))
        with pytest.raises(ValueError, match=message):
            SentenceEmbedder.from_pretrained(tmp_path, prompts=prompts)

    def test_query_and_document(self, tmp_path: Path) -> None:
        prompts = {"prompts": {"query": "query: ", "passage": "how? "}}
        sentence_folder(tmp_path, ("Pooling", {}), config_sentence_transformers=prompts)
        embedder = SentenceEmbedder.from_pretrained(tmp_path, precision=None)
        assert np.array_equal(
            embedder.encode_query("hello"), embedder.encode("hello", prompt="query: ")
        )
        assert np.array_equal(
            embedder.encode_document("hello"), embedder.encode("hello", prompt_name="passage")
        )
        assert np.array_equal(
            embedder.encode_query("hello", prompt="x "), embedder.encode("hello", prompt="x ")
        )
        tensor = embedder.encode_query(["hello"], convert_to_tensor=True)
        assert isinstance(tensor, torch.Tensor)

    def test_prompts_of_a_call_are_added_to_those_of_the_folder(self, tmp_path: Path) -> None:
        prompts = {"prompts": {"query": "query: ", "passage": "how? "}}
        sentence_folder(tmp_path, ("Pooling", {}), config_sentence_transformers=prompts)
        embedder = SentenceEmbedder.from_pretrained(tmp_path, prompts={"query": "who? "})
        assert embedder.prompts == {"query": "who? ", "passage": "how? "}
        assert np.array_equal(
            embedder.encode_document("hello"), embedder.encode("hello", prompt="how? ")
        )

    def test_every_embedder_has_the_names_of_queries_and_documents(
        self, embedder: SentenceEmbedder
    ) -> None:
        for name in ("query", "document"):
            assert np.array_equal(
                embedder.encode("hello", prompt_name=name), embedder.encode("hello")
            )

    def test_a_prompt_counts_more_than_the_name_of_one(self, embedder: SentenceEmbedder) -> None:
        with pytest.warns(UserWarning, match="prompt_name 'query' has no effect"):
            vector = embedder.encode("hello", prompt="x ", prompt_name="query")
        assert np.array_equal(vector, embedder.encode("hello", prompt="x "))

    def test_without_prompts(self, embedder: SentenceEmbedder) -> None:
        assert np.array_equal(embedder.encode_query("hello"), embedder.encode("hello"))
        assert np.array_equal(embedder.encode_document("hello"), embedder.encode("hello"))


class TestModule:
    """An embedder works like any nn.Module."""

    def test_parameters_and_hooks(self, embedder: SentenceEmbedder) -> None:
        assert {name.split(".")[0] for name, _ in embedder.named_parameters()} == {"model"}
        seen = []
        handle = embedder.model.embeddings.register_forward_hook(lambda *_: seen.append(1))
        embedder.encode("hello")
        handle.remove()
        assert seen == [1] and not embedder.training

    def test_gradients(self, tmp_path: Path) -> None:
        embedder = SentenceEmbedder.from_pretrained(tiny_folder(tmp_path), precision=None)
        rows = embedder.tokenizer(TEXTS, return_token_type_ids=False)["input_ids"]
        ids = torch.tensor([token_id for row in rows for token_id in row])
        vectors = embedder(ids, layout=PackedLayout([len(row) for row in rows]))
        np.testing.assert_allclose(vectors.detach().numpy(), embedder.encode(TEXTS), atol=1e-6)
        vectors.sum().backward()
        assert embedder.model.embeddings.word_embeddings.weight.grad is not None

    def test_encoding_in_training_mode_has_no_dropout(self, tmp_path: Path) -> None:
        embedder = SentenceEmbedder.from_pretrained(tiny_folder(tmp_path), precision=None)
        expected = embedder.encode(TEXTS)
        embedder.train()
        assert np.array_equal(embedder.encode(TEXTS), expected)
        assert embedder.training and embedder.model.training

    def test_device_dimension_and_max_length(self, embedder: SentenceEmbedder) -> None:
        assert embedder.to("cpu") is embedder and embedder.device == torch.device("cpu")
        fast = SentenceEmbedder(embedder.model, embedder.tokenizer)
        assert (
            fast.get_sentence_embedding_dimension()
            == fast.get_embedding_dimension()
            == fast.dimension
            == 32
        )
        fast.max_seq_length = 20
        assert fast.max_length == fast.max_seq_length == 20
        assert fast.tokenize(["hello " * 30])["input_ids"].shape == (1, 20)

    def test_a_max_length_beyond_the_position_embeddings(self, tmp_path: Path) -> None:
        folder = tiny_folder(tmp_path)
        embedder = SentenceEmbedder.from_pretrained(folder, precision="exact")
        message = "is 1024 tokens, but the model has 64 positions: set it to 64 or less"
        with pytest.raises(ValueError, match=message):
            embedder.max_seq_length = 1024
        with pytest.raises(ValueError, match=message):
            SentenceEmbedder.from_pretrained(folder, max_length=1024)
        assert embedder.max_seq_length == 64

    def test_exact_is_the_unchanged_model(self, tmp_path: Path) -> None:
        folder = tiny_folder(tmp_path)
        exact = SentenceEmbedder.from_pretrained(folder, precision="exact")
        assert np.array_equal(
            exact.encode(TEXTS),
            SentenceEmbedder.from_pretrained(folder, precision=None).encode(TEXTS),
        )
        exact.train()  # an optimized model raises an error
        message = "precision should be one of exact, fp32, bf16, int8, not 'fp16'"
        with pytest.raises(ValueError, match=message):
            SentenceEmbedder.from_pretrained(folder, precision="fp16")  # type: ignore[call-overload]

    def test_constructed_from_a_name(self) -> None:
        with pytest.raises(
            TypeError, match=r"SentenceEmbedder\.from_pretrained\('minibert-en'\) loads both"
        ):
            SentenceEmbedder("minibert-en")  # type: ignore[arg-type]


class TestPadded:
    """An embedder called like a model on padded rows."""

    POOLINGS = ["cls", "mean", "max", "mean_sqrt_len", "pooler", ["max", "cls"]]

    @pytest.mark.parametrize("pooling", POOLINGS, ids=str)
    def test_vectors(self, tmp_path: Path, pooling: Any) -> None:
        embedder = SentenceEmbedder.from_pretrained(
            tiny_folder(tmp_path), pooling=pooling, layers="last", normalize=True, precision=None
        )
        for texts in (TEXTS, [("a", "b c d"), ("x y", "")]):
            vectors = embedder(**embedder.tokenize(texts))
            np.testing.assert_allclose(vectors.detach().numpy(), embedder.encode(texts), atol=1e-6)

    def test_pooling_without_the_prompt(self, embedder: SentenceEmbedder) -> None:
        batch = embedder.tokenize(["how tall? " + text for text in TEXTS])
        head = len(embedder.tokenizer("how tall?")["input_ids"]) - 1
        embedder.include_prompt = False
        expected = embedder.encode(TEXTS, prompt="how tall? ")
        embedder.include_prompt = True
        np.testing.assert_allclose(
            embedder(**batch, skip=head).detach().numpy(), expected, atol=1e-6
        )

    def test_without_an_attention_mask(self, embedder: SentenceEmbedder) -> None:
        ids = embedder.tokenize(TEXTS[:1])["input_ids"]
        np.testing.assert_allclose(
            embedder(ids).detach().numpy(), embedder.encode(TEXTS[:1]), atol=1e-6
        )


class TestSimilarity:
    def test_by_name(self, embedder: SentenceEmbedder) -> None:
        a, b = embedder.encode(TEXTS), embedder.encode(TEXTS[:2])
        cosines = embedder.similarity(a, torch.from_numpy(b))
        assert isinstance(cosines, torch.Tensor) and cosines.shape == (4, 2)
        assert cosines[0, 0].item() == pytest.approx(1, abs=1e-6)
        np.testing.assert_allclose(
            embedder.similarity_pairwise(a[:2], b), cosines.diag(), atol=1e-6
        )
