"""minibert: a from-scratch, pure-PyTorch BERT, equal to the reference bit for bit.

A public name is imported when it is first used, so that `import minibert` costs next to nothing;
`dir(minibert)` lists them all, and `__init__.pyi` says the same to type checkers.
"""

import importlib
from collections.abc import Callable, Mapping
from typing import Any

__version__ = "0.1.0"


def lazy(
    package: str, homes: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """The `__getattr__`, `__dir__` and `__all__` of a package whose names are imported when they are first used.

    `homes` has the names that each module below it defines, separated by blanks.
    """
    modules = {
        name: f"{package}.{module}" for module, names in homes.items() for name in names.split()
    }

    def getattribute(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(modules[name]), name)

    return (
        getattribute,
        lambda: sorted({*vars(importlib.import_module(package)), *modules}),
        [*modules],
    )


_HOMES = {
    # The model, in reading order
    "config": "BertConfig",
    "layouts": "PackedLayout PaddedLayout",
    "model": "BertModel",
    "heads": "BertForPreTraining BertForMaskedLM BertForNextSentencePrediction BertForSequenceClassification "
    "BertForTokenClassification BertForMultipleChoice BertForQuestionAnswering",
    # Text to ids and back
    "tokenization.added": "AddedToken",
    "tokenization.tokenizer": "BertTokenizer",
    # Names that leave the architecture open
    "auto": "AutoConfig AutoTokenizer BertTokenizerFast AutoModel AutoModelForPreTraining AutoModelForMaskedLM "
    "AutoModelForNextSentencePrediction AutoModelForSequenceClassification AutoModelForTokenClassification "
    "AutoModelForMultipleChoice AutoModelForQuestionAnswering",
    # Texts to vectors
    "sentences.embedder": "SentenceEmbedder",
    "sentences.onnx": "OnnxEmbedder",
    "corpus.shards": "encode_to_shards encode_corpus encode_to_file encode_file",
    "sentences.search": "nearest semantic_search similarity",
    "corpus.formats": "open_vectors open_corpus",
    "sentences.rerank": "CrossEncoder rerank",
    "sentences.sklearn": "SentenceVectorizer",
    # Answers of fine-tuned models
    "tasks.answers": "answer_question",
    "tasks.classification": "classify",
    "tasks.masks": "fill_mask",
    "tasks.entities": "find_entities",
    "tasks.evaluation": "evaluate",
    # Speed, and a look inside
    "inference.optimize": "optimize unoptimize",
    "study.trace": "trace",
}
# what notebooks import beside a model; their versions of transformers take minibert's classes as
# they are
_IN_TRANSFORMERS = frozenset(
    {
        "DataCollatorForLanguageModeling",
        "DataCollatorForTokenClassification",
        "DataCollatorWithPadding",
        "EarlyStoppingCallback",
        "Trainer",
        "TrainingArguments",
        "get_linear_schedule_with_warmup",
        "pipeline",
        "set_seed",
    }
)
_public, __dir__, _names = lazy(__name__, _HOMES)


def __getattr__(name: str) -> Any:
    """A public name, imported when it is first used."""
    if name in _IN_TRANSFORMERS:
        # an ImportError, because `from minibert import ...` would replace the words of an
        # AttributeError
        raise ImportError(
            f"minibert has no {name}; the one of transformers works with minibert's classes: "
            f"from transformers import {name}"
        )
    return _public(name)


__all__ = ["__version__", *_names]
