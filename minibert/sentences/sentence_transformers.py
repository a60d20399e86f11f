"""A real `SentenceTransformer` around an embedder, for the libraries that ask for that type.

KeyBERT, BERTopic and others look for "sentence_transformers" in the name of an embedder's type, and take a model of
their own where they do not find it; trainers and evaluators call methods that only the class itself has.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from minibert.extras import need

if TYPE_CHECKING:
    from minibert.sentences.model import SentenceModel


def around(model: SentenceModel, save: Callable[[str], None]) -> Any:
    """See `SentenceEmbedder.as_sentence_transformer`.

    Args:
        model: goes into the `SentenceTransformer`.
        save: writes its sentence-transformers folder.
    """
    library = need("sentence_transformers", "clients", "as_sentence_transformer()")
    with TemporaryDirectory() as folder:  # a SentenceTransformer is made of files
        path = os.path.join(folder, "minibert")
        save(path)
        unused = {"add_pooling_layer": False}  # for the BERT that gives way to the model's own
        made = library.SentenceTransformer(path, device=str(model.device), model_kwargs=unused)
    if model.layers == [model.model.config.num_hidden_layers] and model.pooling != ["pooler"]:  # as it was saved
        (name, _), *_ = made[0].named_children()  # "auto_model" before version 6
        setattr(made[0], name, model.model)
    return made
