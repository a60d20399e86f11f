"""SentenceEmbedder: order, limits, prompts, words and model folders."""

from __future__ import annotations

import copy
import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st
from safetensors.torch import save_file
from tiny_folder import VOCABULARY, WORDS, sentence_folder, tiny_folder

from minibert import BertModel, BertTokenizer, SentenceEmbedder
from minibert.checkpoints.source import Source
from minibert.encoders.arithmetic.pooling import combine_layers
from minibert.encoders.arithmetic.steps import Dense
from minibert.encoders.folders.checkpoint import Checkpoint
from minibert.encoders.rows.token_rows import split_row, truncate_row

TEXTS = [
    "hello world",
    "how tall do trees grow in korea?",
    "",
    "x",
    "trees. trees, trees!",
    "hello world",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_folder(tmp_path_factory.mktemp("tiny"), num_hidden_layers=5)


@pytest.fixture(scope="module")
def embedder(folder: Path) -> SentenceEmbedder:
    return SentenceEmbedder.from_pretrained(folder, precision=None)


def mean_of_states(embedder: SentenceEmbedder, text: str) -> np.ndarray[Any, Any]:
    """Compute the mean of the last hidden states of a single text."""
    batch = embedder.tokenizer([text], return_tensors="pt")
    with torch.inference_mode():
        return embedder.model(**batch).last_hidden_state[0].mean(0).numpy()


class TestEncode:
    def test_order_and_shape(self, embedder: SentenceEmbedder) -> None:
        vectors = embedder.encode(TEXTS)
        assert vectors.shape == (len(TEXTS), 32) and vectors.dtype == np.float32
        for text, vector in zip(TEXTS, vectors, strict=True):
            np.testing.assert_allclose(vector, mean_of_states(embedder, text), atol=1e-6)

    def test_a_string_an_empty_list_and_an_iterator(self, embedder: SentenceEmbedder) -> None:
        assert embedder.encode("hello world").shape == (32,)
        assert embedder.encode([]).shape == (0, 32)
        assert embedder.encode(iter(["hello", "x"])).shape == (2, 32)

    @given(
        texts=st.lists(st.lists(st.sampled_from(WORDS), max_size=20).map(" ".join), max_size=12),
        batch_tokens=st.integers(1, 100),
    )
    def test_batches_change_nothing(
        self, embedder: SentenceEmbedder, texts: list[str], batch_tokens: int
    ) -> None:
        alone = [embedder.encode(text) for text in texts]
        together = embedder.encode(texts, batch_tokens=batch_tokens)
        np.testing.assert_allclose(together, np.reshape(alone, (len(texts), 32)), atol=1e-6)

    def test_batches_in_threads_change_nothing(self, two_threads: None, folder: Path) -> None:
        embedder = SentenceEmbedder.from_pretrained(folder, precision="fp32")
        texts = [" ".join(["hello", "world"] * (1 + i % 7)) + " x" * i for i in range(40)]
        few = embedder.encode(texts, overflow="mean")
        many = embedder.encode(texts, overflow="mean", batch_tokens=64)
        np.testing.assert_allclose(many, few, atol=1e-6)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"overflow": "drop"}, 'overflow should be "truncate" or "mean", not \'drop\''),
            ({"batch_tokens": 0}, "batch_tokens should be a whole number of 1 or more, not 0"),
            ({"prompt_name": "other"}, "there is no prompt 'other'. This model has none"),
            (
                {"output_value": "token_embeddings", "precision": "int8"},
                "precision is 'int8', but it is that of sentence vectors",
            ),
            (
                {"prompt": "hello " * 70},
                r"max_length is 64 tokens, but \[CLS\], prompt and \[SEP\] take 72",
            ),
        ],
    )
    def test_invalid_options(
        self, embedder: SentenceEmbedder, options: dict[str, Any], message: str
    ) -> None:
        with pytest.raises(ValueError, match=message):
            embedder.encode(["hello"], **options)

    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
    def test_an_embedder_with_a_dense_layer_is_cast(
        self, embedder: SentenceEmbedder, dtype: torch.dtype
    ) -> None:
        torch.manual_seed(0)
        dense = Dense(embedder.dimension, 8, True, "Tanh")
        original = SentenceEmbedder(embedder.model, embedder.tokenizer, steps=[dense])
        cast = copy.deepcopy(original).to(dtype)
        for overflow, texts in (("truncate", TEXTS), ("mean", ["hello " * 100])):
            options: Any = {"overflow": overflow}
            vectors = cast.encode(texts, **options)
            assert vectors.dtype == np.float32
            np.testing.assert_allclose(vectors, original.encode(texts, **options), atol=0.05)

    @pytest.mark.usefixtures("at_once")
    def test_progress(self, embedder: SentenceEmbedder, capsys: pytest.CaptureFixture[str]) -> None:
        embedder.encode(TEXTS, show_progress_bar=True)
        shown = capsys.readouterr().err
        assert "6/6" in shown and "tokens/s" in shown
        embedder.encode(TEXTS)
        assert capsys.readouterr().err == ""

    def test_damaged_weights(self, embedder: SentenceEmbedder) -> None:
        damaged = copy.deepcopy(embedder)
        with torch.no_grad():
            damaged.model.embeddings.word_embeddings.weight[VOCABULARY.index("trees")] = torch.nan
        with pytest.raises(
            ValueError,
            match="'tall trees' is not finite: .*weights",
        ):
            damaged.encode(["hello", "tall trees"])

    def test_a_text_that_is_not_a_string(self, embedder: SentenceEmbedder) -> None:
        with pytest.raises(ValueError, match="texts should be strings, but number 1 is nan"):
            embedder.encode(["hello", float("nan")])  # type: ignore[list-item]


class TestLongTexts:
    LONG = " ".join(["hello world how tall do trees grow"] * 20)  # 140 words for a window of 64

    def test_truncated_and_counted(self, embedder: SentenceEmbedder) -> None:
        with pytest.warns(UserWarning, match="1 of 2 texts .*more than 64 tokens .*truncated"):
            vectors = embedder.encode([self.LONG, "hello"])
        ids = embedder.tokenizer(self.LONG, truncation=True, max_length=64)["input_ids"]
        with torch.inference_mode():
            states = embedder.model(torch.tensor([ids])).last_hidden_state[0]
        np.testing.assert_allclose(vectors[0], states.mean(0).numpy(), atol=1e-6)

    def test_a_text_of_exactly_max_length_gives_no_warning(
        self, embedder: SentenceEmbedder
    ) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            embedder.encode(" ".join(["hello"] * 62))

    @pytest.mark.parametrize("side", ["right", "left"])
    def test_truncation_on_the_side_of_the_tokenizer(self, folder: Path, side: str) -> None:
        tokenizer = BertTokenizer.from_pretrained(folder, truncation_side=side)
        whole = tokenizer(self.LONG, verbose=False)["input_ids"]
        assert (
            truncate_row(whole, 20, side)
            == tokenizer(self.LONG, truncation=True, max_length=20)["input_ids"]
        )

    def test_mean_over_windows(self, embedder: SentenceEmbedder) -> None:
        prompt = "query: "
        ids = embedder.tokenizer(prompt + self.LONG, verbose=False)["input_ids"]
        head, body, end = ids[:3], ids[3:-1], ids[-1:]
        rows = [head + body[start : start + 60] + end for start in range(0, len(body), 60)]
        assert [len(row) for row in rows] == [64, 64, 24]
        with torch.inference_mode():
            means = [
                embedder.model(torch.tensor([row])).last_hidden_state[0].mean(0) for row in rows
            ]
        expected = (64 * means[0] + 64 * means[1] + 24 * means[2]) / (64 + 64 + 24)
        vectors = embedder.encode(["hello", self.LONG, "x"], overflow="mean", prompt=prompt)
        np.testing.assert_allclose(vectors[1], expected.numpy(), atol=1e-6)
        np.testing.assert_allclose(
            vectors[::2], embedder.encode(["hello", "x"], prompt=prompt), atol=1e-6
        )

    @given(length=st.integers(3, 200), head=st.integers(1, 5), limit=st.integers(7, 50))
    def test_windows_have_every_token_once(self, length: int, head: int, limit: int) -> None:
        row = [*range(head + length), -1]
        windows = split_row(row, limit, head)
        assert all(
            window[:head] == row[:head] and window[-1] == -1 and head < len(window) - 1 < limit
            for window in windows
        )
        assert [token for window in windows for token in window[head:-1]] == row[head:-1]


class TestStream:
    def test_reads_one_chunk_ahead(self, embedder: SentenceEmbedder) -> None:
        read = 0

        def texts() -> Iterator[str]:
            nonlocal read
            for number in range(1, 10_001):
                read = number
                yield "hello"

        stream = embedder.encode_stream(texts(), chunk_size=10)
        for number in range(1, 4):
            chunk, vectors = next(stream)
            assert (len(chunk), vectors.shape, read) == (10, (10, 32), 10 * number)

    def test_same_vectors(self, embedder: SentenceEmbedder) -> None:
        texts, vectors = zip(*embedder.encode_stream(TEXTS, chunk_size=4), strict=True)
        assert [*texts[0], *texts[1]] == TEXTS
        np.testing.assert_allclose(np.concatenate(vectors), embedder.encode(TEXTS), atol=1e-6)


class TestLayers:
    @pytest.mark.parametrize(
        "layers",
        [
            "embeddings",
            "last",
            "second_to_last",
            "sum_last_4",
            "concat_last_4",
            "sum_all_12",
            [1, 3],
            [-2],
        ],
    )
    @pytest.mark.parametrize("pooling", ["mean", "pooler", ["pooler", "cls"]])
    def test_against_all_hidden_states(self, folder: Path, layers: Any, pooling: Any) -> None:
        embedder = SentenceEmbedder.from_pretrained(
            folder, layers=layers, pooling=pooling, precision=None
        )
        whole = BertModel.from_pretrained(folder)
        batch = embedder.tokenizer([TEXTS[1]], return_tensors="pt")
        with torch.inference_mode():
            output = whole(**batch, output_hidden_states=True)
        features = combine_layers(output.hidden_states, layers)[0]
        parts = {"mean": features.mean(0), "cls": features[0], "pooler": output.pooler_output[0]}
        expected = torch.cat(
            [parts[name] for name in ([pooling] if isinstance(pooling, str) else pooling)]
        )
        vector = embedder.encode(TEXTS[1])
        assert embedder.dimension == len(vector)
        np.testing.assert_allclose(vector, expected.numpy(), rtol=1e-5, atol=1e-5)

    def test_weights(self, folder: Path) -> None:
        weights = [0.4, 0.3, 0.2, 0.1]
        summed = SentenceEmbedder.from_pretrained(
            folder, layers="sum_last_4", layer_weights=weights, precision=None
        )
        side_by_side = SentenceEmbedder.from_pretrained(
            folder, layers="concat_last_4", precision=None
        )
        parts = np.split(side_by_side.encode("hello"), 4)
        expected = sum(weight * part for weight, part in zip(weights, parts, strict=True))
        np.testing.assert_allclose(summed.encode("hello"), expected, rtol=1e-5, atol=1e-6)

    def test_unneeded_layers_are_dropped(self, folder: Path) -> None:
        embedder = SentenceEmbedder.from_pretrained(folder, layers=[2], precision=None)
        assert len(embedder.model.encoder.layer) == 2

    def test_the_layers_of_a_live_model_are_not_dropped(self, folder: Path) -> None:
        model, tokenizer = BertModel.from_pretrained(folder), BertTokenizer.from_pretrained(folder)
        embedder = SentenceEmbedder(model, tokenizer, layers=[2])
        loaded = SentenceEmbedder.from_pretrained(folder, layers=[2], precision=None)
        assert len(model.encoder.layer) == 5
        np.testing.assert_allclose(embedder.encode("hello"), loaded.encode("hello"), atol=1e-6)


class TestWords:
    def test_words_offsets_and_vectors(self, embedder: SentenceEmbedder) -> None:
        text = "Hello, abc  trees"  # hello , a ##b ##c trees
        words, offsets, vectors = embedder.words(text)
        assert words == ["Hello", ",", "abc", "trees"]
        assert offsets == [(0, 5), (5, 6), (7, 10), (12, 17)]
        with torch.inference_mode():
            states = embedder.model(
                **embedder.tokenizer([text], return_tensors="pt")
            ).last_hidden_state[0]
        expected = torch.stack([states[1], states[2], states[3:6].mean(0), states[6]])
        np.testing.assert_allclose(vectors, expected.numpy(), atol=1e-6)
        first = embedder.words(text, merge="first").vectors
        np.testing.assert_allclose(first[2], states[3].numpy(), atol=1e-6)

    def test_several_texts(self, embedder: SentenceEmbedder) -> None:
        several = embedder.words(["trees grow in korea", "", "x y"])
        assert [result.words for result in several] == [
            ["trees", "grow", "in", "korea"],
            [],
            ["x", "y"],
        ]
        assert [result.vectors.shape for result in several] == [(4, 32), (0, 32), (2, 32)]
        np.testing.assert_allclose(several[2].vectors, embedder.words("x y").vectors, atol=1e-6)

    def test_unknown_merge(self, embedder: SentenceEmbedder) -> None:
        with pytest.raises(ValueError, match='merge should be "mean" or "first", not \'last\''):
            embedder.words("x", merge="last")


class TestFolders:
    def test_plain_bert(self, folder: Path) -> None:
        plain = SentenceEmbedder.from_pretrained(folder, precision=None)
        assert (plain.pooling, list(plain.steps), plain.max_length) == (["mean"], [], 64)

    def test_a_missing_pooler_gives_a_warning_only_if_used(
        self, folder: Path, tmp_path: Path
    ) -> None:
        BertModel.from_pretrained(folder, add_pooling_layer=False).save_pretrained(tmp_path)
        (tmp_path / "vocab.txt").write_bytes((folder / "vocab.txt").read_bytes())
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            SentenceEmbedder.from_pretrained(tmp_path, precision=None)
        with pytest.warns(UserWarning, match="pooler.dense.weight, pooler.dense.bias are not in"):
            SentenceEmbedder.from_pretrained(tmp_path, pooling="pooler", precision=None)

    def test_arguments_override_the_folder(self, tmp_path: Path) -> None:
        steps = ("Pooling", {"pooling_mode_cls_token": True}), ("Normalize", {})
        sentence_folder(
            tmp_path, *steps, sentence_bert_config={"max_seq_length": 20, "do_lower_case": False}
        )
        default = SentenceEmbedder.from_pretrained(tmp_path, precision=None)
        assert (default.pooling, default.max_length) == (["cls"], 20)
        assert np.linalg.norm(default.encode("hello")) == pytest.approx(1)
        options: dict[str, Any] = {"pooling": "max", "normalize": False, "max_length": 10}
        changed = SentenceEmbedder.from_pretrained(tmp_path, precision=None, **options)
        assert (changed.pooling, changed.max_length, list(changed.steps)) == (["max"], 10, [])
        normalized = SentenceEmbedder.from_pretrained(tmp_path, precision=None, normalize=True)
        assert np.array_equal(normalized.encode("hello"), default.encode("hello"))

    def test_max_length_never_exceeds_the_position_embeddings(self, tmp_path: Path) -> None:
        sentence_folder(tmp_path, ("Pooling", {}), sentence_bert_config={"max_seq_length": 512})
        assert SentenceEmbedder.from_pretrained(tmp_path, precision=None).max_length == 64

    def test_prompts(self, tmp_path: Path) -> None:
        prompts = {"prompts": {"query": "query: ", "passage": None}, "default_prompt_name": "query"}
        sentence_folder(
            tmp_path, ("Pooling", {"pooling_mode": "mean"}), config_sentence_transformers=prompts
        )
        embedder = SentenceEmbedder.from_pretrained(tmp_path, precision=None)
        with_prompt = embedder.encode("query: hello", prompt_name="passage")
        assert (
            SentenceEmbedder.from_pretrained(tmp_path, default_prompt_name="").default_prompt_name
            == "query"
        )
        for options in ({}, {"prompt_name": "query"}, {"prompt": "query: "}):
            np.testing.assert_allclose(embedder.encode("hello", **options), with_prompt, atol=1e-6)
        with pytest.raises(
            ValueError, match="there is no prompt 'q'. This model has query, passage"
        ):
            embedder.encode("hello", prompt_name="q")
        with pytest.raises(ValueError, match="there is no prompt 'q'"):
            SentenceEmbedder.from_pretrained(tmp_path, precision=None, default_prompt_name="q")

    @pytest.mark.parametrize(
        ("steps", "message"),
        [
            (
                [("Pooling", {"pooling_mode": "lasttoken"})],
                "asks for pooling 'lasttoken', but minibert has cls, max, mean",
            ),
            (
                [("Pooling", {"pooling_mode_lasttoken": True})],
                "asks for pooling 'lasttoken'",
            ),
            (
                [("Pooling", {}), ("LSTM", {})],
                "asks for the module 'sentence_transformers.models.LSTM'",
            ),
            (
                [("Normalize", {})],
                "should list a Transformer, a Pooling, .* not Transformer, Normalize",
            ),
            (
                [("Pooling", {}), ("Dense", {"activation_function": "os.system"})],
                "asks for activation 'os.system'",
            ),
            (
                [("Pooling", {}), ("Dense", {"use_residual": True})],
                "asks for a Dense with use_residual",
            ),
            (
                [("Pooling", {}), ("Normalize", {"module_input_name": "token_embeddings"})],
                "works on 'token_embeddings'",
            ),
        ],
    )
    def test_unsupported_modules(self, tmp_path: Path, steps: list[Any], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            SentenceEmbedder.from_pretrained(sentence_folder(tmp_path, *steps))

    @pytest.mark.parametrize("path", ["../elsewhere", "/etc", "a/../../b", "C:\\x"])
    def test_paths_outside_the_folder(self, tmp_path: Path, path: str) -> None:
        sentence_folder(tmp_path, ("Pooling", {}))
        modules = json.loads((tmp_path / "modules.json").read_text(encoding="utf-8"))
        modules[1]["path"] = path
        (tmp_path / "modules.json").write_text(json.dumps(modules), encoding="utf-8")
        with pytest.raises(ValueError, match="which is outside the model's folder"):
            SentenceEmbedder.from_pretrained(tmp_path)

    def test_third_party_modules_are_not_imported(self, tmp_path: Path) -> None:
        sentence_folder(tmp_path, ("Pooling", {}))
        modules = json.loads((tmp_path / "modules.json").read_text(encoding="utf-8"))
        modules[0]["type"] = "my_package.Transformer"
        (tmp_path / "modules.json").write_text(json.dumps(modules), encoding="utf-8")
        with pytest.raises(ValueError, match="asks for the module 'my_package.Transformer'"):
            SentenceEmbedder.from_pretrained(tmp_path)

    @given(data=st.data())
    def test_any_json_is_read_or_raises_a_value_error(
        self, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
    ) -> None:
        leaves = (
            st.none()
            | st.booleans()
            | st.integers()
            | st.sampled_from(["", "mean", "query", "x/y", "torch.nn.ReLU"])
        )
        values = (
            leaves
            | st.lists(leaves, max_size=2)
            | st.dictionaries(st.sampled_from(["query", "x"]), leaves)
        )
        keys = {
            "1_Pooling/config.json": ["pooling_mode", "pooling_mode_cls_token", "include_prompt"],
            "2_Dense/config.json": [
                "in_features",
                "out_features",
                "bias",
                "activation_function",
                "use_residual",
            ],
            "sentence_bert_config.json": ["max_seq_length", "do_lower_case"],
            "config_sentence_transformers.json": ["prompts", "default_prompt_name"],
        }
        path = tmp_path_factory.mktemp("any")
        sentence_folder(path, ("Pooling", {}), ("Dense", {}))
        torch.save({"linear.weight": torch.zeros(8, 32)}, path / "2_Dense" / "pytorch_model.bin")
        for name, names in keys.items():
            (path / name).write_text(
                json.dumps(data.draw(st.dictionaries(st.sampled_from(names), values))),
                encoding="utf-8",
            )
        try:
            Checkpoint(Source(path)).folder(cross_encoder=False)
        except ValueError as error:
            assert str(path) in str(error)

    @pytest.mark.parametrize(
        "content", [b"{", b"{}", b"[1]", b"\xff", b'[{"type": 1}]', b'[{"path": []}]']
    )
    def test_damaged_modules(self, tmp_path: Path, content: bytes) -> None:
        sentence_folder(tmp_path, ("Pooling", {}))
        (tmp_path / "modules.json").write_bytes(content)
        with pytest.raises(ValueError, match="modules.json"):
            SentenceEmbedder.from_pretrained(tmp_path)

    def test_a_dense_that_does_not_fit(self, tmp_path: Path) -> None:
        dense = {
            "in_features": 32,
            "out_features": 8,
            "activation_function": "torch.nn.modules.linear.Identity",
        }
        sentence_folder(tmp_path, ("Pooling", {}), ("Dense", dense))
        weights = {"linear.weight": torch.randn(8, 32), "linear.bias": torch.randn(8)}
        torch.save(weights, tmp_path / "2_Dense" / "pytorch_model.bin")
        assert SentenceEmbedder.from_pretrained(tmp_path, precision=None).encode("hello").shape == (
            8,
        )
        with pytest.raises(
            ValueError,
            match="64 dimensions, .*Dense .*takes 32",
        ):
            SentenceEmbedder.from_pretrained(tmp_path, precision=None, layers=[1, 2])
        torch.save(
            {"linear.weight": torch.randn(8, 31)}, tmp_path / "2_Dense" / "pytorch_model.bin"
        )
        with pytest.raises(
            ValueError, match=r"2_Dense should hold the tensors \{.*\(8, 32\).*not .*\(8, 31\)"
        ):
            SentenceEmbedder.from_pretrained(tmp_path, precision=None)
        (tmp_path / "2_Dense" / "config.json").write_text(
            json.dumps({**dense, "in_features": 2**63}), encoding="utf-8"
        )
        with pytest.raises(
            ValueError, match=r"2_Dense should hold the tensors \{.*\(8, 9223372036854775808\)"
        ):
            SentenceEmbedder.from_pretrained(tmp_path, precision=None)

    def test_unknown_option(self, folder: Path) -> None:
        with pytest.raises(TypeError, match="no option 'poling'"):
            SentenceEmbedder.from_pretrained(folder, poling="mean")


class TestTransformerSettings:
    """Keys of sentence_bert_config.json that change vectors are applied or raise an error."""

    LONG = "Hello WORLD how tall do trees grow in korea hello world trees"

    @pytest.mark.parametrize(
        "settings",
        [
            {"processing_kwargs": {"text": {"max_length": 8}}},
            {"processing_kwargs": {"common": {"max_length": 8}, "text": {"padding": True}}},
            {"max_seq_length": 20, "tokenizer_args": {"model_max_length": 8}},
            {"max_seq_length": 20, "processor_kwargs": {"model_max_length": 8, "use_fast": True}},
            {
                "processor_kwargs": {"model_max_length": 12},
                "processing_kwargs": {"text": {"max_length": 8, "truncation": True}},
            },
            {"processor_kwargs": {"do_lower_case": False}},
            {
                "model_args": {"add_pooling_layer": False},
                "config_args": {"trust_remote_code": True},
            },
        ],
        ids=str,
    )
    def test_applied(self, tmp_path: Path, settings: dict[str, Any]) -> None:
        library = pytest.importorskip("sentence_transformers")
        pooling = ("Pooling", {"embedding_dimension": 32, "pooling_mode": "mean"})
        sentence_folder(tmp_path, pooling, sentence_bert_config=settings)
        theirs = library.SentenceTransformer(str(tmp_path), device="cpu")
        embedder = SentenceEmbedder.from_pretrained(tmp_path, precision="exact")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            vector = embedder.encode(self.LONG)
        np.testing.assert_allclose(vector, theirs.encode(self.LONG), rtol=1e-5, atol=2e-6)

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"query_length": 8}, "sets query_length to 8"),
            ({"document_length": 8}, "sets document_length to 8"),
            ({"query_expansion": {"length": 8}}, "sets query_expansion to"),
            ({"processing_kwargs": {"text": {"truncation": False}}}, "sets truncation to False"),
            ({"processing_kwargs": {"text": {"add_special_tokens": False}}}, "add_special_tokens"),
            ({"tokenizer_args": {"cls_token": "x"}}, "tokenizer_args sets cls_token"),
            ({"config_args": {"num_hidden_layers": 1}}, "config_args sets num_hidden_layers"),
            ({"config_kwargs": {"hidden_act": "relu"}}, "config_kwargs sets hidden_act"),
            ({"model_kwargs": {"num_hidden_layers": 1}}, "model_kwargs sets num_hidden_layers"),
            ({"transformer_task": "fill-mask"}, "asks for transformer_task 'fill-mask'"),
            (
                {"modality_config": {"text": {"method_output_name": "pooler_output"}}},
                "asks for the output 'pooler_output'",
            ),
            ({"processing_kwargs": [1]}, "processing_kwargs should be a dict"),
        ],
    )
    def test_unsupported(self, tmp_path: Path, settings: dict[str, Any], message: str) -> None:
        sentence_folder(tmp_path, ("Pooling", {}), sentence_bert_config=settings)
        with pytest.raises(ValueError, match=f"sentence_bert_config.json.*{message}"):
            SentenceEmbedder.from_pretrained(tmp_path)


class TestTruncation:
    """Vectors truncated to their first dimensions."""

    @pytest.mark.parametrize("normalize", [None, False, True])
    def test_steps(self, tmp_path: Path, normalize: bool | None) -> None:
        pooling = ("Pooling", {"pooling_mode": "mean"})
        folder = sentence_folder(
            tmp_path, pooling, config_sentence_transformers={"truncate_dim": 10}
        )
        whole = SentenceEmbedder.from_pretrained(folder, truncate_dim=32).encode(["hello world"])
        embedder = SentenceEmbedder.from_pretrained(folder, normalize=normalize)
        vectors = embedder.encode(["hello world"])
        assert embedder.dimension == 10 and vectors.shape == (1, 10)
        expected = whole[:, :10] / (np.linalg.norm(whole[:, :10]) if normalize else 1)
        np.testing.assert_allclose(vectors, expected, rtol=0, atol=1e-6)

    def test_a_normalize_before_a_dense_stays(self, tmp_path: Path) -> None:
        steps = [
            ("Pooling", {"pooling_mode": "mean"}),
            ("Normalize", {}),
            ("Dense", {}),
            ("Normalize", {}),
        ]
        folder = sentence_folder(tmp_path, *steps)
        dense = {
            "in_features": 32,
            "out_features": 4,
            "bias": True,
            "activation_function": "torch.nn.Tanh",
        }
        (folder / "3_Dense" / "config.json").write_text(json.dumps(dense), encoding="utf-8")
        weights = {"linear.weight": torch.randn(4, 32), "linear.bias": torch.randn(4)}
        save_file(weights, folder / "3_Dense" / "model.safetensors")
        kinds = {
            choice: [
                type(step).__name__
                for step in SentenceEmbedder.from_pretrained(folder, normalize=choice).steps
            ]
            for choice in (None, True, False)
        }
        assert kinds[None] == kinds[True] == ["Normalize", "Dense", "Normalize"]
        assert kinds[False] == ["Normalize", "Dense"]


class TestCounts:
    """Truncated texts and words are counted and reported."""

    def test_a_stream_counts_all_its_chunks(self, embedder: SentenceEmbedder) -> None:
        long = "hello " * 100
        with pytest.warns(UserWarning, match=r"^3 of 5 texts have more than 64 tokens") as warned:
            list(embedder.encode_stream([long, "in", long, "how", long], chunk_size=2))
        assert len(warned) == 1

    def test_words_past_max_length(self, embedder: SentenceEmbedder) -> None:
        with pytest.warns(
            UserWarning,
            match="^1 of 3 texts .*more than 64 tokens.* no vector",
        ):
            embedder.words(["hello " * 63, "hello " * 62, "in"])

    @pytest.mark.usefixtures("at_once")
    def test_the_progress_bar_counts_texts_not_windows(
        self, embedder: SentenceEmbedder, capsys: pytest.CaptureFixture[str]
    ) -> None:
        embedder.encode(
            ["in", "hello " * 500], overflow="mean", show_progress_bar=True, batch_tokens=64
        )
        assert "2/2" in capsys.readouterr().err

    def test_several_texts_are_not_a_single_string(self, embedder: SentenceEmbedder) -> None:
        for method in (embedder.encode_stream, embedder.embed_documents):
            with pytest.raises(
                ValueError,
                match=r"should be several strings, not 'a\.txt'\..*minibert\.text\.read\(path\)",
            ):
                method("a.txt")  # type: ignore[operator]
        with pytest.raises(ValueError, match="chunk_size should be .* 1 or more, not 0"):
            list(embedder.encode_stream(["a"], chunk_size=0))


def test_the_representation_says_how_texts_become_vectors() -> None:
    embedder = SentenceEmbedder.from_pretrained("minibert-tiny", max_length=20, pooling="cls")
    assert "pooling=['cls'], max_length=20" in repr(embedder)
