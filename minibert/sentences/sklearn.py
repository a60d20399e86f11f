"""SentenceVectorizer: an embedder as a step of scikit-learn's pipelines, by duck typing and without importing it."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterable
from typing import Any

import numpy as np

from minibert.checks import refuse_unknown
from minibert.sentences.embedder import SentenceEmbedder
from minibert.sentences.rows import Matrix


class SentenceVectorizer:
    """Texts to vectors as a transformer of scikit-learn.

    ```python
    classifier = make_pipeline(SentenceVectorizer("sentence-transformers/all-MiniLM-L6-v2"), LogisticRegression())
    cross_val_score(classifier, texts, labels, n_jobs=2)
    ```

    The model is loaded when the first texts come, in each process for itself: cloning and pickling take its name only.

    Args:
        model: folder, bundled model or Hub id.
        precision: as in `minibert.optimize`.
        pooling: as in `SentenceEmbedder.from_pretrained`, like the rest.
        normalize: make vectors of length 1.
        truncate_dim: keep the first so many numbers of each vector.
        max_length: tokens of the longest text.
        prompt_name: a prompt that the model brings.
    """

    def __init__(
        self,
        model: str | os.PathLike[str] = "minibert-en",
        *,
        precision: str | None = "fp32",
        pooling: str | list[str] | None = None,
        normalize: bool | None = None,
        truncate_dim: int | None = None,
        max_length: int | None = None,
        prompt_name: str | None = None,
    ) -> None:
        self.model = model
        self.precision = precision
        self.pooling = pooling
        self.normalize = normalize
        self.truncate_dim = truncate_dim
        self.max_length = max_length
        self.prompt_name = prompt_name

    @property
    def embedder(self) -> SentenceEmbedder:
        """The model, loaded now if it is not."""
        if "_embedder" not in vars(self):
            options = {
                name: value
                for name, value in self.get_params().items()
                if name not in ("model", "prompt_name")
            }
            self._embedder = SentenceEmbedder.from_pretrained(self.model, **options)
        return self._embedder

    def fit(self, texts: Iterable[str], y: Any = None) -> SentenceVectorizer:
        """Learns nothing: the model is trained."""
        return self

    def transform(self, texts: Iterable[str]) -> Matrix:
        """Vectors (N, D) of texts, such as a list or a column of a table."""
        return self.embedder.encode(list(texts), prompt_name=self.prompt_name)

    def fit_transform(self, texts: Iterable[str], y: Any = None) -> Matrix:
        """`transform`."""
        return self.transform(texts)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray[Any, Any]:
        """Names of the D numbers: vector0, vector1, ..."""
        return np.array(
            [f"vector{number}" for number in range(self.embedder.dimension)], dtype=object
        )

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The arguments of the constructor, by name."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def set_params(self, **params: Any) -> SentenceVectorizer:
        """Changes arguments of the constructor; another model is loaded when needed."""
        refuse_unknown("SentenceVectorizer", params, self.get_params())
        vars(self).update(params)
        vars(self).pop("_embedder", None)
        return self

    def __getstate__(self) -> dict[str, Any]:
        return self.get_params()

    def __repr__(self) -> str:
        return f"SentenceVectorizer({', '.join(f'{name}={value!r}' for name, value in self.get_params().items())})"

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import Tags, TargetTags

        return Tags(
            estimator_type="transformer", target_tags=TargetTags(required=False), requires_fit=False
        )
