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
    "BertTokenizer": "tokenizer",
    "AutoTokenizer": "tokenizer",
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
    "AutoModelForMaskedLM": "heads",
    "AutoModelForSequenceClassification": "heads",
    "AutoModelForTokenClassification": "heads",
    "AutoModelForQuestionAnswering": "heads",
    "SentenceEmbedder": "embedder",
    "optimize": "optimize",
    "trace": "study.trace",
}

if TYPE_CHECKING:
    from minibert.config import BertConfig as BertConfig
    from minibert.heads import (
        AutoModel as AutoModel,
    )
    from minibert.heads import (
        AutoModelForMaskedLM as AutoModelForMaskedLM,
    )
    from minibert.heads import (
        AutoModelForQuestionAnswering as AutoModelForQuestionAnswering,
    )
    from minibert.heads import (
        AutoModelForSequenceClassification as AutoModelForSequenceClassification,
    )
    from minibert.heads import (
        AutoModelForTokenClassification as AutoModelForTokenClassification,
    )
    from minibert.heads import (
        BertForMaskedLM as BertForMaskedLM,
    )
    from minibert.heads import (
        BertForMultipleChoice as BertForMultipleChoice,
    )
    from minibert.heads import (
        BertForNextSentencePrediction as BertForNextSentencePrediction,
    )
    from minibert.heads import (
        BertForPreTraining as BertForPreTraining,
    )
    from minibert.heads import (
        BertForQuestionAnswering as BertForQuestionAnswering,
    )
    from minibert.heads import (
        BertForSequenceClassification as BertForSequenceClassification,
    )
    from minibert.heads import (
        BertForTokenClassification as BertForTokenClassification,
    )
    from minibert.layouts import PackedLayout as PackedLayout
    from minibert.layouts import PaddedLayout as PaddedLayout
    from minibert.model import BertModel as BertModel
    from minibert.study.trace import trace as trace

__all__ = ["__version__", *_PUBLIC]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'minibert' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"minibert.{_PUBLIC[name]}"), name)
    globals()[name] = value  # found without this function from now on
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_PUBLIC])
