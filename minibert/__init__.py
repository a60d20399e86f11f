"""minibert: a from-scratch, pure-PyTorch BERT, equal to the reference bit for bit.

Names are imported when first used, so that `import minibert` costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# public name -> module that defines it
_PUBLIC = {
    "BertConfig": "config",
    "AutoConfig": "config",
    "BertTokenizer": "tokenizer",
    "AutoTokenizer": "tokenizer",
    "BertTokenizerFast": "tokenizer",
    "AddedToken": "vocabulary",
    "PaddedLayout": "layouts",
    "PackedLayout": "layouts",
    "BertModel": "model",
    "BertForPreTraining": "heads",
    "BertForMaskedLM": "heads",
    "BertForNextSentencePrediction": "heads",
    "BertForSequenceClassification": "heads",
    "BertForTokenClassification": "heads",
    "BertForQuestionAnswering": "heads",
    "BertForMultipleChoice": "heads",
    "AutoModel": "heads",
    "AutoModelForPreTraining": "heads",
    "AutoModelForMaskedLM": "heads",
    "AutoModelForNextSentencePrediction": "heads",
    "AutoModelForSequenceClassification": "heads",
    "AutoModelForTokenClassification": "heads",
    "AutoModelForQuestionAnswering": "heads",
    "AutoModelForMultipleChoice": "heads",
    "classify": "predict",
    "find_entities": "predict",
    "answer_question": "predict",
    "fill_mask": "predict",
    "SentenceEmbedder": "embedder",
    "encode_corpus": "corpus",
    "encode_file": "corpus",
    "nearest": "search",
    "similarity": "search",
    "optimize": "inference",
    "unoptimize": "inference",
    "trace": "study.trace",
}

if TYPE_CHECKING:
    from minibert.config import AutoConfig as AutoConfig, BertConfig as BertConfig
    from minibert.corpus import encode_corpus as encode_corpus, encode_file as encode_file
    from minibert.embedder import SentenceEmbedder as SentenceEmbedder
    from minibert.heads import (
        AutoModel as AutoModel,
        AutoModelForMaskedLM as AutoModelForMaskedLM,
        AutoModelForMultipleChoice as AutoModelForMultipleChoice,
        AutoModelForNextSentencePrediction as AutoModelForNextSentencePrediction,
        AutoModelForPreTraining as AutoModelForPreTraining,
        AutoModelForQuestionAnswering as AutoModelForQuestionAnswering,
        AutoModelForSequenceClassification as AutoModelForSequenceClassification,
        AutoModelForTokenClassification as AutoModelForTokenClassification,
        BertForMaskedLM as BertForMaskedLM,
        BertForMultipleChoice as BertForMultipleChoice,
        BertForNextSentencePrediction as BertForNextSentencePrediction,
        BertForPreTraining as BertForPreTraining,
        BertForQuestionAnswering as BertForQuestionAnswering,
        BertForSequenceClassification as BertForSequenceClassification,
        BertForTokenClassification as BertForTokenClassification,
    )
    from minibert.inference import optimize as optimize, unoptimize as unoptimize
    from minibert.layouts import PackedLayout as PackedLayout, PaddedLayout as PaddedLayout
    from minibert.model import BertModel as BertModel
    from minibert.predict import (
        answer_question as answer_question,
        classify as classify,
        fill_mask as fill_mask,
        find_entities as find_entities,
    )
    from minibert.search import nearest as nearest, similarity as similarity
    from minibert.study.trace import trace as trace
    from minibert.tokenizer import (
        AutoTokenizer as AutoTokenizer,
        BertTokenizer as BertTokenizer,
        BertTokenizerFast as BertTokenizerFast,
    )
    from minibert.vocabulary import AddedToken as AddedToken

__all__ = ["__version__", *_PUBLIC]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'minibert' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"minibert.{_PUBLIC[name]}"), name)
    globals()[name] = value  # found without this function from now on
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_PUBLIC])
