"""SentenceVectorizer: an embedder as a step of scikit-learn's pipelines, without importing it."""

from __future__ import annotations

import importlib
import inspect
import os
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import numpy as np

from minibert.encoders.arithmetic.pooling_names import Pooling
from minibert.encoders.embedder import SentenceEmbedder
from minibert.encoders.rows.token_rows import Matrix, list_texts
from minibert.inference.precisions import Precision
from minibert.util.checks import refuse_unknown
from minibert.util.errors import ArgumentError


class SentenceVectorizer:
    """Texts to vectors as a transformer of scikit-learn.

    ```python
    vectorizer = SentenceVectorizer("sentence-transformers/all-MiniLM-L6-v2")
    classifier = make_pipeline(vectorizer, LogisticRegression())
    cross_val_score(classifier, texts, labels, n_jobs=2)
    ```

    The model is loaded with the first texts, in each process for itself: cloning and pickling take
    its name only.

    Args:
        model: Folder, bundled model or Hub id.
        precision: As in `SentenceEmbedder.from_pretrained`.
        pooling: As in `SentenceEmbedder.from_pretrained`, like the rest.
        normalize: L2-normalize the vectors.
        truncate_dim: Truncate each vector to its first N dimensions.
        max_length: Tokens of the longest text.
        prompt_name: The name of one of the model's prompts.
    """

    def __init__(
        self,
        model: str | os.PathLike[str] = "minibert-en",
        *,
        precision: Precision | None = "fp32",
        pooling: Pooling | Sequence[Pooling] | None = None,
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
            options = self.get_params()
            del options["model"], options["prompt_name"]
            self._embedder: SentenceEmbedder = SentenceEmbedder.from_pretrained(
                self.model, backend="torch", **options
            )
        return self._embedder

    def fit(self, texts: Iterable[str], y: Any = None) -> SentenceVectorizer:
        """Learn nothing, because the model is trained already.

        Args:
            texts: Ignored.
            y: Ignored.

        Returns:
            This vectorizer.
        """
        return self

    def transform(self, texts: Iterable[str]) -> Matrix:
        """Vectors (N, D) of texts.

        Args:
            texts: Strings in a list, an array or a column of a table, or a table of one column, as
                a `ColumnTransformer` passes it.

        Raises:
            ValueError: A table of several columns, or something that is not a text.
        """
        vectors = self.embedder.encode(_one_column(texts), prompt_name=self.prompt_name)
        container = vars(self).get("_sklearn_output_config", {}).get("transform", "default")
        if container == "default":
            return vectors
        library = importlib.import_module(container)
        names = self.get_feature_names_out().tolist()
        if container == "polars":
            return library.DataFrame(vectors, schema=names)  # type: ignore[no-any-return]
        index = getattr(texts, "index", None)
        if callable(index):  # the method of a list
            index = None
        return library.DataFrame(vectors, index=index, columns=names)  # type: ignore[no-any-return]

    def set_output(
        self, *, transform: Literal["default", "pandas", "polars"] | None = None
    ) -> SentenceVectorizer:
        """Choose what `transform` returns, as any transformer of scikit-learn does.

        Args:
            transform: "default" is an array (N, D), "pandas" and "polars" are tables with the names
                of `get_feature_names_out`. None changes nothing.

        Returns:
            This vectorizer.

        Raises:
            ValueError: Another container.
        """
        if transform not in (None, "default", "pandas", "polars"):
            raise ArgumentError(
                "transform", f'should be "default", "pandas" or "polars", not {transform!r:.80}.'
            )
        if transform is not None:
            # the name under which scikit-learn keeps it, and clones it
            self._sklearn_output_config = {"transform": transform}
        return self

    def fit_transform(self, texts: Iterable[str], y: Any = None) -> Matrix:
        """The same as `transform`.

        Args:
            texts: As in `transform`.
            y: Ignored.

        Returns:
            Vectors (N, D).
        """
        return self.transform(texts)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray[Any, Any]:
        """Names of the D dimensions: vector0, vector1, ...

        Args:
            input_features: Ignored.

        Returns:
            An array (D,) of strings.
        """
        return np.array(
            [f"vector{number}" for number in range(self.embedder.dimension)], dtype=object
        )

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The arguments of the constructor, by name.

        Args:
            deep: Ignored.
        """
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def set_params(self, **params: Any) -> SentenceVectorizer:
        """Changes arguments of the constructor. Another model is loaded when needed.

        Args:
            params: Arguments of the constructor.

        Returns:
            This vectorizer.

        Raises:
            TypeError: An argument that the constructor does not have.
        """
        refuse_unknown("SentenceVectorizer", params, self.get_params())
        vars(self).update(params)
        vars(self).pop("_embedder", None)
        return self

    def __getstate__(self) -> dict[str, Any]:
        state = self.get_params()
        if "_sklearn_output_config" in vars(self):
            state["_sklearn_output_config"] = self._sklearn_output_config
        return state

    def __repr__(self) -> str:
        parameters = [f"{name}={value!r}" for name, value in self.get_params().items()]
        return f"SentenceVectorizer({', '.join(parameters)})"

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import Tags, TargetTags

        return Tags(
            estimator_type="transformer", target_tags=TargetTags(required=False), requires_fit=False
        )


def _one_column(texts: Any) -> list[Any]:
    """The texts of a column, or of a table or an array (N, 1) that has one column."""
    shape: tuple[int, ...] = getattr(texts, "shape", ())
    if len(shape) == 2:
        if shape[1] != 1:
            raise ArgumentError(
                "texts",
                f"should be one column, but this {type(texts).__name__} has {shape[1]}: "
                'select it, as in ColumnTransformer([("vectors", SentenceVectorizer(), "text")]).',
            )
        texts = np.asarray(texts)[:, 0]
    return list_texts(texts)
