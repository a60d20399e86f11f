"""minibert: a from-scratch, pure-PyTorch BERT, equal to transformers bit for bit.

A public name is imported when it is first used, so that `import minibert` costs next to nothing.
`dir(minibert)` lists all names, and `__init__.pyi` declares them for type checkers.
"""

import sys

__version__ = "0.2.0.dev0"

_MODULES = {
    # The model, in reading order
    "BertConfig": "config",
    "PackedLayout": "layouts",
    "PaddedLayout": "layouts",
    "PreTrainedModel": "base",
    "BertPreTrainedModel": "base",
    "BertModel": "model",
    "BertForPreTraining": "heads",
    "BertForMaskedLM": "heads",
    "BertForNextSentencePrediction": "heads",
    "BertForSequenceClassification": "heads",
    "BertForTokenClassification": "heads",
    "BertForMultipleChoice": "heads",
    "BertForQuestionAnswering": "heads",
    # Text to ids and back
    "AddedToken": "tokenization.added",
    "BertTokenizer": "tokenization.tokenizer",
    # Names that leave the architecture open
    "AutoConfig": "encoders.auto",
    "AutoTokenizer": "encoders.auto",
    "BertTokenizerFast": "encoders.auto",
    "AutoModel": "encoders.auto",
    "AutoModelForPreTraining": "encoders.auto",
    "AutoModelForMaskedLM": "encoders.auto",
    "AutoModelForNextSentencePrediction": "encoders.auto",
    "AutoModelForSequenceClassification": "encoders.auto",
    "AutoModelForTokenClassification": "encoders.auto",
    "AutoModelForMultipleChoice": "encoders.auto",
    "AutoModelForQuestionAnswering": "encoders.auto",
    # Any checkpoint, as what it is
    "load": "encoders.text_models",
    # Texts to vectors
    "SentenceEmbedder": "encoders.embedder",
    "OnnxEmbedder": "encoders.onnx.onnx_embedder",
    "encode_to_shards": "vectors.shards",
    "encode_to_file": "vectors.shards",
    "nearest": "encoders.arithmetic.search",
    "semantic_search": "encoders.arithmetic.search",
    "similarity": "encoders.arithmetic.search",
    "open_vectors": "vectors.folder",
    "CrossEncoder": "encoders.rerank",
    "rerank": "encoders.rerank",
    "SentenceVectorizer": "encoders.sklearn",
    # Answers of fine-tuned models
    "Answerer": "encoders.answerer",
    "answer_question": "encoders.answerer",
    "Classifier": "encoders.classifier",
    "classify": "encoders.classifier",
    "Filler": "encoders.filler",
    "fill_mask": "encoders.filler",
    "Tagger": "encoders.tagger",
    "find_entities": "encoders.tagger",
    "evaluate": "tasks.evaluation",
    # Speed, and a look inside
    "optimize": "inference.optimize",
    "unoptimize": "inference.optimize",
    "trace": "study.trace",
}
"""Public names, and the modules that define them."""

_IN_TRANSFORMERS = (
    "DataCollatorForLanguageModeling",
    "DataCollatorForTokenClassification",
    "DataCollatorWithPadding",
    "EarlyStoppingCallback",
    "Trainer",
    "TrainingArguments",
    "get_linear_schedule_with_warmup",
    "pipeline",
    "set_seed",
)
"""What notebooks import beside a model. transformers' own works with minibert's classes."""

_INSTEAD = {
    "AutoModelForCausalLM": "it is an encoder, without a decoder",
    "PretrainedConfig": "BertConfig is the base of configs",
    "PreTrainedConfig": "BertConfig is the base of configs",
    "PreTrainedTokenizer": "BertTokenizer is the base of tokenizers",
    "PreTrainedTokenizerFast": "BertTokenizer(tokenizer_file=path) reads tokenizers that split "
    "words by WordPiece",
    "BertLMHeadModel": "it is an encoder, without a decoder",
    "SentenceTransformer": "SentenceEmbedder.from_pretrained(name) is its counterpart",
    "SentenceTransformerTrainer": "minibert finetune pairs trains embedders, or train "
    "embedder.as_sentence_transformer() by it",
    "SparseEncoder": "its vectors are dense",
    "InputExample": "minibert finetune pairs reads the texts from a table",
    "cos_sim": "similarity(a, b) is its counterpart",
    "pytorch_cos_sim": "similarity(a, b) is its counterpart",
    "dot_score": 'similarity(a, b, "dot") is its counterpart',
    "euclidean_sim": 'similarity(a, b, "euclidean") is its counterpart',
    "manhattan_sim": 'similarity(a, b, "manhattan") is its counterpart',
    "quantize_embeddings": 'embedder.encode(texts, precision="int8") is its counterpart',
}
"""Names of transformers and sentence-transformers that have another one here, or none."""

_IN_SENTENCE_TRANSFORMERS = {
    "paraphrase_mining": ".util",
    "community_detection": ".util",
    "mine_hard_negatives": ".util",
    "pairwise_cos_sim": ".util",
    "pairwise_dot_score": ".util",
    "normalize_embeddings": ".util",
    "truncate_embeddings": ".util",
    "evaluation": "",
}
"""What works with minibert's embedders and vectors, and the module of sentence-transformers."""

__all__ = ["__version__", *_MODULES]


def __getattr__(name: str) -> object:
    """Import a public name when it is first used.

    Raises:
        AttributeError: The name does not exist, so that `hasattr` is False and `getattr` has a
            default.
        ImportError: It is the same, in `from minibert import ...`, where Python would replace the
            advice of an AttributeError by "cannot import name".
    """
    if name in _MODULES:
        import importlib

        return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
    if name in _IN_TRANSFORMERS:
        advice = (
            f". That of transformers works with minibert's classes: from transformers import {name}"
        )
    elif name in _IN_SENTENCE_TRANSFORMERS:
        module = f"sentence_transformers{_IN_SENTENCE_TRANSFORMERS[name]}"
        advice = (
            ". That of sentence-transformers works with minibert's embedders and vectors: "
            f"from {module} import {name}"
        )
    elif name in _INSTEAD:
        advice = f": {_INSTEAD[name]}."
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # the function of Python that asks a package for the names of `from package import ...`
    is_import = sys._getframe(1).f_code.co_name == "_handle_fromlist"
    error = ImportError if is_import else AttributeError
    raise error(f"minibert has no {name}{advice}")


def __dir__() -> list[str]:
    """Return the public names."""
    return sorted(__all__)
