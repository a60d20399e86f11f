"""A user's script with every public name, for type checking only.

mypy checks it, and no test runs it.
"""

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

import minibert
from minibert import (
    AddedToken,
    AutoConfig,
    AutoModel,
    AutoModelForMaskedLM,
    AutoModelForMultipleChoice,
    AutoModelForNextSentencePrediction,
    AutoModelForPreTraining,
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    AutoTokenizer,
    BertConfig,
    BertForMaskedLM,
    BertForMultipleChoice,
    BertForNextSentencePrediction,
    BertForPreTraining,
    BertForQuestionAnswering,
    BertForSequenceClassification,
    BertForTokenClassification,
    BertModel,
    BertPreTrainedModel,
    BertTokenizer,
    BertTokenizerFast,
    CrossEncoder,
    OnnxEmbedder,
    PackedLayout,
    PaddedLayout,
    PreTrainedModel,
    SentenceEmbedder,
    SentenceVectorizer,
)

texts = ["A cat sat on the mat.", "고양이가 앉았다."]
config = BertConfig(vocab_size=100, hidden_size=32, num_hidden_layers=2, num_attention_heads=2)
tokenizer = BertTokenizer.from_pretrained("minibert-en")
tokenizer.add_tokens([AddedToken("<new>", single_word=True)])
batch = tokenizer(texts, padding=True, truncation=True, return_tensors="pt")
ids: torch.Tensor = batch.input_ids
model = BertModel.from_pretrained("minibert-en")
outputs = model(**batch)
pooled: torch.Tensor = model(ids, attention_mask=batch.attention_mask).last_hidden_state
packed = model(torch.cat([ids[0], ids[1]]), layout=PackedLayout([5, 5]))
layouts: list[PaddedLayout | PackedLayout] = [PaddedLayout(batch.attention_mask)]
heads: list[type[PreTrainedModel]] = [
    BertForPreTraining,
    BertForMaskedLM,
    BertForNextSentencePrediction,
    BertForTokenClassification,
    BertForSequenceClassification,
    BertForMultipleChoice,
    BertForQuestionAnswering,
]
loaded: list[PreTrainedModel] = [
    AutoModel.from_pretrained("folder"),
    AutoModelForPreTraining.from_pretrained("folder"),
    AutoModelForMaskedLM.from_pretrained("folder"),
    AutoModelForNextSentencePrediction.from_pretrained("folder"),
    AutoModelForSequenceClassification.from_pretrained("folder"),
    AutoModelForTokenClassification.from_pretrained("folder"),
    AutoModelForMultipleChoice.from_pretrained("folder"),
    AutoModelForQuestionAnswering.from_pretrained("folder"),
]
again = AutoConfig.from_pretrained("minibert-en"), AutoTokenizer.from_pretrained("minibert-en")
quick = BertTokenizerFast.from_pretrained("minibert-en")


class CustomModel(BertPreTrainedModel):
    def __init__(self, config: BertConfig) -> None:
        super().__init__(config)
        self.bert = BertModel(config)
        self.linear = torch.nn.Linear(config.hidden_size, 1)
        self.post_init()

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        hidden: torch.Tensor = self.bert(input_ids).last_hidden_state
        scores: torch.Tensor = self.linear(hidden[:, 0])
        return scores


custom: CustomModel = CustomModel.from_pretrained("minibert-en")
custom.save_pretrained("out")
fast = minibert.optimize(model, precision="int8")
plain: BertModel = minibert.unoptimize(fast)
kind, anything, its_tokenizer = minibert.load("minibert-en")
embedder = SentenceEmbedder.from_pretrained("minibert-en", precision="exact")
vectors: NDArray[np.float32] = embedder.encode(texts, normalize_embeddings=True, batch_size=32)
tensor: torch.Tensor = embedder.encode(texts, convert_to_tensor=True)
vector: NDArray[np.float32] = embedder.encode("a text", prompt="query: ", overflow="mean")
onnx = OnnxEmbedder.from_pretrained("exported")
onnx_vectors: NDArray[np.float32] = onnx.encode(texts)
report = minibert.encode_to_file(embedder, texts, "vectors.npy", normalize_embeddings=True)
shards = minibert.encode_to_shards(embedder, texts, Path("folder"), file_format="parquet")
print(report.lines, shards.tokens, minibert.open_vectors("folder")[0])
rows, scores = minibert.nearest(vectors, vectors, top_k=1, metric="dot")
hits = minibert.semantic_search(vectors, vectors, top_k=3)
print(hits[0][0]["corpus_id"], hits[0][0]["score"], minibert.similarity(vector, vectors, "cosine"))
reranker = CrossEncoder("reranker")
ranked = reranker.rank("a query", texts, top_k=1, return_documents=True)
pair_scores: NDArray[np.float32] = reranker.predict([("a", "b")], activation_fn=torch.nn.Sigmoid())
classifier = BertForSequenceClassification.from_pretrained("classifier", num_labels=3)
documents = minibert.rerank(classifier, tokenizer, "a query", texts, top_k=1)
label: str = minibert.classify(classifier, tokenizer, texts)[0][0]["label"]
masked = BertForMaskedLM.from_pretrained("minibert-en")
word: str = minibert.fill_mask(masked, tokenizer, "a [MASK].")[0][0]["token_str"]
tagger = BertForTokenClassification.from_pretrained("tagger")
person: str = minibert.find_entities(tagger, tokenizer, "Anna sat.")[0]["word"]
people: list[str] = [
    entity["word"]
    for entity in minibert.Tagger.from_pretrained("tagger").find_entities("Anna sat.")
]
answerer = minibert.Answerer.from_pretrained("answers", backend="onnx")
place: str = answerer.answer("Where?", "On it.")["answer"]
labels = minibert.Classifier.from_pretrained("labels", precision="int8").classify("Great.")
best: str = labels[0]["label"]
filler = minibert.Filler.from_pretrained("minibert-en")
guess: str = filler.fill_mask("A [MASK].")[0][0]["token_str"]
reader = BertForQuestionAnswering.from_pretrained("reader")
answer: str = minibert.answer_question(reader, tokenizer, "Who?", "Anna sat.")["answer"]
result = minibert.evaluate(classifier, tokenizer, "dev.csv", label_column="label")
print(result.to_dict(), rows, scores, ranked, documents, again, quick, loaded, packed, heads)
with minibert.trace(model) as trace:
    model(ids)
features = SentenceVectorizer("minibert-en").fit_transform(texts)

# Each line has a typo. Strict mypy reports an unused ignore if it does not find the typo.
embedder.encode(texts, normalize=True)  # type: ignore[call-overload]
minibert.encode_to_file(embedder, texts, "a.npy", normalize=True)  # type: ignore[call-arg]
minibert.optimize(model, precision="int4")  # type: ignore[arg-type]
minibert.similarity(vectors, vectors, metric="cosin")  # type: ignore[arg-type]
