"""The embedder gives its own vectors inside other libraries (dependency group `clients`).

The first tests cover the recipes of scripts/clients. The others cover libraries that take the
embedder, `as_sentence_transformer()`, `to_transformers()` or arrays without a recipe.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import CHECKOUT, tiny_config, with_reference
from tiny_folder import WORDS, classifier_folder, sentence_folder

from minibert import CrossEncoder, SentenceEmbedder, nearest

pytestmark = [pytest.mark.ecosystem, pytest.mark.filterwarnings("ignore")]
TEXTS = [f"{first} {second}" for first in WORDS for second in WORDS]
QUERY = "tall trees in korea"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    prompts = {"prompts": {"query": "query: ", "document": ""}}
    steps = ("Pooling", {"embedding_dimension": 32, "pooling_mode": "mean"}), ("Normalize", {})
    return sentence_folder(
        tmp_path_factory.mktemp("tiny"), *steps, config_sentence_transformers=prompts
    )


@pytest.fixture(scope="module")
def embedder(folder: Path) -> SentenceEmbedder:
    return SentenceEmbedder.from_pretrained(folder)


@pytest.fixture
def recipe(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that imports a recipe, and skips if its library is not installed."""
    monkeypatch.setenv("ANONYMIZED_TELEMETRY", "False")
    monkeypatch.setenv("HAYSTACK_TELEMETRY_ENABLED", "False")
    monkeypatch.syspath_prepend(str(CHECKOUT / "scripts" / "clients"))

    def load(name: str, *libraries: str) -> Any:
        for library in libraries:
            pytest.importorskip(
                library, reason=f"{library} is not installed: see 'clients' in tests/README.md"
            )
        return importlib.import_module(name)

    return load


def nearest_texts(embedder: SentenceEmbedder, top: int = 5) -> list[str]:
    rows, _ = nearest(embedder.encode_query(QUERY), embedder.encode_document(TEXTS), top)
    return [TEXTS[row] for row in rows[0]]


def test_keybert(embedder: SentenceEmbedder, recipe: Any) -> None:
    extractor = recipe("with_keybert", "keybert", "sentence_transformers").keyword_extractor(
        embedder
    )
    document = "hello tall trees grow in korea"
    keywords = dict(extractor.extract_keywords(document, stop_words=None, top_n=6))
    text, *words = embedder.encode([document, *keywords])
    np.testing.assert_allclose(list(keywords.values()), [text @ word for word in words], atol=1e-3)


def test_bertopic(embedder: SentenceEmbedder, recipe: Any) -> None:
    module = recipe("with_keybert", "bertopic", "sentence_transformers")
    from bertopic.dimensionality import BaseDimensionalityReduction

    model = module.topic_model(embedder, min_topic_size=5, umap_model=BaseDimensionalityReduction())
    topics, _ = model.fit_transform(TEXTS)
    assert len(topics) == len(TEXTS)
    np.testing.assert_allclose(
        model.embedding_model.embed(TEXTS), embedder.encode(TEXTS), atol=1e-5
    )


def test_chroma(embedder: SentenceEmbedder, recipe: Any, tmp_path: Path) -> None:
    embeddings = recipe("with_chroma", "chromadb").Embeddings(embedder)
    import chromadb

    collection = chromadb.PersistentClient(str(tmp_path)).create_collection(
        "texts", embedding_function=embeddings, configuration={"hnsw": {"space": "cosine"}}
    )
    collection.add(ids=TEXTS, documents=TEXTS)
    assert collection.query(query_texts=[QUERY], n_results=5)["ids"] == [nearest_texts(embedder)]


def test_llama_index(embedder: SentenceEmbedder, recipe: Any) -> None:
    embedding = recipe("with_llama_index", "llama_index.core").Embedding(embedder)
    from llama_index.core import Document, VectorStoreIndex

    index = VectorStoreIndex.from_documents(
        [Document(text=text) for text in TEXTS], embed_model=embedding
    )
    nodes = index.as_retriever(similarity_top_k=5).retrieve(QUERY)
    assert [node.text for node in nodes] == nearest_texts(embedder)


def test_haystack(embedder: SentenceEmbedder, recipe: Any) -> None:
    module = recipe("with_haystack", "haystack")
    from haystack import Document, Pipeline
    from haystack.components.retrievers.in_memory import InMemoryEmbeddingRetriever
    from haystack.document_stores.in_memory import InMemoryDocumentStore

    store = InMemoryDocumentStore(embedding_similarity_function="cosine")
    documents = [Document(content=text) for text in TEXTS]
    store.write_documents(module.DocumentEmbedder(embedder).run(documents)["documents"])
    pipeline = Pipeline()
    pipeline.add_component("query", module.TextEmbedder(embedder))
    pipeline.add_component("search", InMemoryEmbeddingRetriever(store, top_k=5))
    pipeline.connect("query.embedding", "search.query_embedding")
    answer = pipeline.run({"query": {"text": QUERY}})["search"]["documents"]
    assert [document.content for document in answer] == nearest_texts(embedder)


def test_a_pipeline_of_haystack_is_saved_by_the_name_of_its_model(
    folder: Path, embedder: SentenceEmbedder, recipe: Any
) -> None:
    module = recipe("with_haystack", "haystack")
    from haystack import Document, Pipeline

    pipeline = Pipeline()
    pipeline.add_component("query", module.TextEmbedder(str(folder)))
    pipeline.add_component("documents", module.DocumentEmbedder(str(folder)))
    loaded = Pipeline.loads(pipeline.dumps(), allowed_modules=["with_haystack"])
    answer = loaded.run(
        {"query": {"text": QUERY}, "documents": {"documents": [Document(content=QUERY)]}}
    )
    np.testing.assert_allclose(
        answer["query"]["embedding"], embedder.encode_query(QUERY), atol=1e-6
    )
    (document,) = answer["documents"]["documents"]
    np.testing.assert_allclose(document.embedding, embedder.encode_document(QUERY), atol=1e-6)
    pipeline.add_component("other", module.TextEmbedder(embedder))
    with pytest.raises(ValueError, match="TextEmbedder of an embedder cannot be saved"):
        pipeline.dumps()


def test_lancedb(folder: Path, embedder: SentenceEmbedder, recipe: Any, tmp_path: Path) -> None:
    recipe("with_lancedb", "lancedb")
    import lancedb
    from lancedb.embeddings import get_registry
    from lancedb.pydantic import LanceModel, Vector
    from pydantic import create_model

    function = get_registry().get("minibert").create(name=str(folder))
    fields: Any = {
        "text": (str, function.SourceField()),
        "vector": (Vector(function.ndims()), function.VectorField()),
    }
    table = lancedb.connect(tmp_path).create_table(
        "texts", schema=create_model("Row", __base__=LanceModel, **fields)
    )
    table.add([{"text": text} for text in TEXTS])
    rows = table.search(QUERY).distance_type("cosine").limit(5).to_list()
    assert [row["text"] for row in rows] == nearest_texts(embedder)


def test_semantic_router(embedder: SentenceEmbedder, recipe: Any) -> None:
    encoder = recipe("with_semantic_router", "semantic_router").Encoder(
        embedder=embedder, score_threshold=0.0
    )
    from semantic_router import IndexedRouter, Route

    assert encoder(TEXTS[:3]) == embedder.encode_document(TEXTS[:3]).tolist()
    routes = [Route(name=word, utterances=[word, f"{word} {word}"]) for word in WORDS[:3]]
    router = IndexedRouter(encoder=encoder, routes=routes)
    assert [router(word).name for word in WORDS[:3]] == WORDS[:3]


def test_mteb(embedder: SentenceEmbedder, recipe: Any) -> None:
    module = recipe("with_mteb", "mteb", "sentence_transformers")
    import mteb
    from datasets import Dataset, DatasetDict
    from mteb.abstasks import AbsTaskSTS

    rows = {
        "sentence1": TEXTS[:20],
        "sentence2": TEXTS[20:40],
        "score": [float(n % 6) for n in range(20)],
    }

    class Tiny(AbsTaskSTS):
        metadata = mteb.get_task("STSBenchmark").metadata.model_copy(update={"name": "Tiny"})
        min_score, max_score = 0, 5

        def load_data(self, **_: Any) -> None:
            self.dataset = DatasetDict({"test": Dataset.from_dict(rows)})
            self.data_loaded = True

    result = module.evaluate(embedder, [Tiny()])
    score = result.task_results[0].scores["test"][0]["cosine_spearman"]
    scipy = pytest.importorskip("scipy.stats")
    cosines = (embedder.encode(TEXTS[:20]) * embedder.encode(TEXTS[20:40])).sum(axis=1)
    assert score == pytest.approx(scipy.spearmanr(cosines, rows["score"]).statistic, abs=1e-4)


def test_txtai(embedder: SentenceEmbedder, recipe: Any) -> None:
    index = recipe("with_txtai", "txtai").index(embedder, content=False)
    index.index(TEXTS)
    rows, cosines = nearest(embedder.encode_query(QUERY), embedder.encode_document(TEXTS), 5)
    numbers, scores = zip(*index.search(QUERY, 5), strict=True)
    assert list(numbers) == rows[0].tolist()
    np.testing.assert_allclose(scores, cosines[0], atol=1e-4)


def test_spacy(folder: Path, embedder: SentenceEmbedder, recipe: Any) -> None:
    recipe("with_spacy", "spacy")
    import spacy

    nlp = spacy.blank("en")
    nlp.add_pipe("minibert", config={"name_or_path": str(folder)})
    document = nlp("hello tall trees")
    other = nlp("trees in korea")
    assert np.array_equal(document.vector, embedder.encode(document.text)) and document.has_vector
    assert np.array_equal(document[1:].vector, embedder.encode("tall trees"))
    cosine = float(document.vector @ other.vector)
    assert document.similarity(other) == pytest.approx(cosine, abs=1e-5)


def need(library: str) -> Any:
    return pytest.importorskip(
        library, reason=f"{library} is not installed: see 'clients' in tests/README.md"
    )


@pytest.fixture(scope="module")
def bare(folder: Path) -> SentenceEmbedder:
    """The embedder without optimization, which can be trained and inspected."""
    return SentenceEmbedder.from_pretrained(folder, precision=None)


def test_evaluators(folder: Path, bare: SentenceEmbedder, tmp_path: Path) -> None:
    library = need("sentence_transformers")
    reranker = classifier_folder(tmp_path / "reranker", 1)
    import sentence_transformers.evaluation as evaluation
    from sentence_transformers.util import mine_hard_negatives

    reference = library.SentenceTransformer(str(folder), device="cpu")
    ours: Any = bare.as_sentence_transformer()
    a, b, c = TEXTS[:20], TEXTS[20:40], TEXTS[40:60]
    documents = {f"d{n}": text for n, text in enumerate(TEXTS)}
    relevant = {f"q{n}": {f"d{n + 9}"} for n in range(8)}
    samples = [{"query": a[n], "positive": [b[n]], "negative": [c[n], c[n + 1]]} for n in range(8)]
    makers: list[Any] = [
        lambda: evaluation.EmbeddingSimilarityEvaluator(a, b, [n / 20 for n in range(20)]),
        lambda: evaluation.BinaryClassificationEvaluator(a, b, [0, 1] * 10),
        lambda: evaluation.TripletEvaluator(a, b, c),
        lambda: evaluation.InformationRetrievalEvaluator(
            {f"q{n}": a[n] for n in range(8)}, documents, relevant
        ),
        lambda: evaluation.ParaphraseMiningEvaluator(documents, [("d0", "d1"), ("d2", "d30")]),
        lambda: evaluation.RerankingEvaluator(samples),
        lambda: evaluation.TranslationEvaluator(a, b),
        lambda: evaluation.MSEEvaluator(a, b, teacher_model=reference),
    ]
    for make in makers:
        assert make()(ours) == pytest.approx(make()(reference), abs=1e-4)
    from datasets import Dataset

    pairs = Dataset.from_dict({"question": a, "answer": b})
    options: Any = {"corpus": TEXTS, "num_negatives": 2, "range_max": 20, "verbose": False}
    cross_encoders = [
        (None, None),
        (CrossEncoder.from_pretrained(reranker), library.CrossEncoder(str(reranker), device="cpu")),
    ]
    for use_faiss in (False, True):
        for cross_encoder, reference_encoder in cross_encoders:
            options |= {"use_faiss": use_faiss, "relative_margin": 0.001}
            ways = (ours, cross_encoder), (bare, cross_encoder), (reference, reference_encoder)
            *negatives, expected = (
                mine_hard_negatives(pairs, model, cross_encoder=scorer, **options).to_dict()
                for model, scorer in ways
            )
            assert negatives == [expected, expected] and expected["question"]


def test_setfit(folder: Path, tmp_path: Path) -> None:
    setfit = need("setfit")
    library = need("sentence_transformers")
    from datasets import Dataset
    from sklearn.linear_model import LogisticRegression

    rows = Dataset.from_dict({"text": TEXTS[:16], "label": [0, 1] * 8})
    answers = []
    ours = SentenceEmbedder.from_pretrained(folder, precision=None).as_sentence_transformer()
    for body in (library.SentenceTransformer(str(folder), device="cpu"), ours):
        torch.manual_seed(0)
        model = setfit.SetFitModel(model_body=body, model_head=LogisticRegression(), labels=[0, 1])
        options: Any = {"batch_size": 8, "max_steps": 3, "report_to": "none", "save_strategy": "no"}
        arguments = setfit.TrainingArguments(output_dir=str(tmp_path), **options)
        setfit.Trainer(model=model, args=arguments, train_dataset=rows).train()
        answers.append(np.asarray(model.predict_proba(TEXTS[30:50])))
        model.save_pretrained(tmp_path / "saved")
        again = setfit.SetFitModel.from_pretrained(tmp_path / "saved")
        np.testing.assert_allclose(again.predict_proba(TEXTS[30:50]), answers[-1], atol=1e-5)
    np.testing.assert_allclose(*answers, atol=1e-5)


def test_langchain(embedder: SentenceEmbedder, recipe: Any) -> None:
    """LangChain's chains, filters and third-party stores accept the recipe's class."""
    embeddings = recipe("with_langchain", "langchain_core").Embeddings(embedder)
    need("langchain_community")
    from langchain_classic.chains import HypotheticalDocumentEmbedder
    from langchain_classic.retrievers.document_compressors import EmbeddingsFilter
    from langchain_community.document_transformers import EmbeddingsRedundantFilter
    from langchain_community.vectorstores import FAISS
    from langchain_core.documents import Document
    from langchain_core.language_models import FakeListLLM

    documents = [Document(page_content=text) for text in TEXTS]
    store = FAISS.from_texts(TEXTS, embeddings)
    chosen = EmbeddingsFilter(embeddings=embeddings, k=5).compress_documents(documents, QUERY)
    for answer in (store.similarity_search(QUERY, k=5), chosen):
        assert [document.page_content for document in answer] == nearest_texts(embedder)

    redundant = EmbeddingsRedundantFilter(embeddings=embeddings, similarity_threshold=0.95)
    remaining = redundant.transform_documents(documents)
    assert 0 < len(remaining) < len(TEXTS)
    hyde = HypotheticalDocumentEmbedder.from_llm(
        FakeListLLM(responses=[TEXTS[3]]), embeddings, "web_search"
    )
    np.testing.assert_allclose(
        hyde.embed_query("x"), embedder.encode_document([TEXTS[3]])[0], atol=1e-6
    )


def test_vector_stores_take_arrays(embedder: SentenceEmbedder) -> None:
    usearch = need("usearch.index")
    qdrant = need("qdrant_client")
    vectors = embedder.encode_document(TEXTS)
    query = embedder.encode_query(QUERY)
    index = usearch.Index(ndim=32, metric="cos")
    index.add(np.arange(len(TEXTS)), vectors)
    assert [TEXTS[row] for row in index.search(query, 5, exact=True).keys] == nearest_texts(
        embedder
    )
    client = qdrant.QdrantClient(":memory:")
    parameters = qdrant.models.VectorParams(size=32, distance="Cosine")
    client.create_collection("texts", vectors_config=parameters)
    client.upload_collection("texts", vectors=vectors, ids=list(range(len(TEXTS))))
    points = client.query_points("texts", query=query, limit=5).points
    assert [TEXTS[point.id] for point in points] == nearest_texts(embedder)


@pytest.fixture
def classifiers(bare: SentenceEmbedder) -> list[Any]:
    """Our classifier and the reference's, with the same weights."""
    need("transformers")
    config = tiny_config(num_labels=2, vocab_size=len(bare.tokenizer))
    return [model.eval() for model in with_reference("BertForSequenceClassification", config)]


def test_shap(classifiers: list[Any], bare: SentenceEmbedder) -> None:
    shap = need("shap")
    transformers = need("transformers")
    tokenizer = bare.tokenizer.to_transformers()
    options: Any = {"tokenizer": tokenizer, "top_k": None, "device": "cpu"}
    pipelines = [
        transformers.pipeline("text-classification", model=model, **options)
        for model in classifiers
    ]
    values, expected = (shap.Explainer(pipeline)([QUERY]).values for pipeline in pipelines)
    np.testing.assert_allclose(values, expected, atol=1e-6)


def test_model2vec(folder: Path, bare: SentenceEmbedder) -> None:
    need("skeletoken")  # a dependency of model2vec[distill]
    transformers = need("transformers")
    distill = need("model2vec.distill").distill_from_model
    tokenizer = bare.tokenizer.to_transformers()
    models = bare.model, transformers.BertModel.from_pretrained(folder)
    vectors, expected = (
        distill(model=model, tokenizer=tokenizer, pca_dims=8, device="cpu").encode(TEXTS[:5])
        for model in models
    )
    np.testing.assert_allclose(np.abs(vectors), np.abs(expected), atol=1e-4)


def test_transformer_lens(folder: Path, bare: SentenceEmbedder) -> None:
    bridge_class = need("transformer_lens.model_bridge").TransformerBridge
    tokenizer = bare.tokenizer.to_transformers()
    ids = bare.tokenizer(QUERY, return_tensors="pt")["input_ids"]
    models = with_reference("BertForMaskedLM", tiny_config(vocab_size=len(bare.tokenizer)))
    options: Any = {"tokenizer": tokenizer, "device": "cpu"}
    bridges = [
        bridge_class.boot_transformers(str(folder), hf_model=model.eval(), **options)
        for model in models
    ]
    (logits, cache), (reference_logits, reference_cache) = (
        bridge.run_with_cache(ids) for bridge in bridges
    )
    assert torch.equal(logits, reference_logits) and cache.keys() == reference_cache.keys()
    # TransformerLens sums per head, in another order, and our positions have no batch axis
    for name, states in cache.items():
        expected = reference_cache[name].float()
        assert torch.allclose(states.float(), expected, rtol=0, atol=1e-5), name
