"""The kinds of models: their names, and what errors call them."""

from __future__ import annotations

from typing import Literal

Kind = Literal[
    "embedder",
    "reranker",
    "classifier",
    "tagger",
    "answers",
    "choices",
    "masked",
    "next_sentence",
    "base",
]

KIND_OF_CLASS: dict[str, Kind] = {
    "BertForSequenceClassification": "classifier",
    "BertForTokenClassification": "tagger",
    "BertForQuestionAnswering": "answers",
    "BertForMultipleChoice": "choices",
    "BertForMaskedLM": "masked",
    "BertForPreTraining": "masked",
    "BertForNextSentencePrediction": "next_sentence",
    "BertModel": "base",
}
"""The kind of a model, by the class that has a place for its tensors."""

NOUN_OF_KIND: dict[Kind, str] = {
    "embedder": "an embedder",
    "reranker": "a reranker",
    "classifier": "a classifier",
    "tagger": "a tagger of words",
    "answers": "a question answerer",
    "choices": "a multiple-choice model",
    "masked": "a masked language model",
    "next_sentence": "a model of next sentences",
    "base": "a BERT without a head that minibert knows",
}
"""What an error calls a model of each kind."""
