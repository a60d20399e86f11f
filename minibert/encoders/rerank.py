"""Cross-encoders: query and document go through BERT together, and a classifier scores the pair.

They are slower than comparing vectors, and better: score the hundred nearest of a search again, and
show the best ten.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Unpack, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from minibert.checkpoints.model_files import replacing_model
from minibert.checkpoints.source import Source
from minibert.config import BertConfig
from minibert.encoders.arithmetic.scoring import Ranked, Ranking, TextScorer, relevance_activation
from minibert.encoders.encoder_options import (
    HubOptions,
    LoadKeywords,
    LoadOptions,
    PredictKeywords,
    PredictOptions,
    RankKeywords,
    RankOptions,
    RerankerKeywords,
    RerankerOptions,
    part_of,
    takes,
)
from minibert.encoders.folders.checkpoint import Checkpoint
from minibert.encoders.folders.sentence_folder import (
    ACTIVATION_CLASSES,
    SentenceFolder,
    write_sentence_folder,
)
from minibert.encoders.rows.token_rows import (
    Pair,
    Settings,
    Vectors,
    check_collection,
    check_pairs,
)
from minibert.heads import BertForSequenceClassification
from minibert.tokenization.tokenizer import BertTokenizer
from minibert.util.checks import check_count
from minibert.util.devices import resolve_device
from minibert.util.errors import ArgumentError

ActivationFunction = Callable[[Tensor], Tensor]
# pairs of texts in a list, an array (N, 2) or any other iterable
Pairs = Iterable[Pair | Sequence[str]] | NDArray[Any]


class CrossEncoder(TextScorer):
    """A sequence classifier over pairs of texts, its tokenizer, and the activation of its logits.

    ```python
    reranker = CrossEncoder("cross-encoder/ms-marco-MiniLM-L6-v2")
    reranker.rank("How tall do trees grow?", documents, top_k=3)
    ```

    Args:
        model: The classifier, or a name, which is loaded as `from_pretrained` does.
        tokenizer: Its tokenizer. A name brings its own.
        activation_fn: Applied to the logits. None: what the folder of a name says, else a sigmoid
            for one label and nothing for several.
        max_length: Tokens of the longest pair. None: what the folder or the tokenizer says, as far
            as the model has positions.
        prompts: Texts to put before every query, by name.
        default_prompt_name: The prompt that is used when a call names none.
        options: The fields of `minibert.encoders.encoder_options.LoadOptions`, of a model that is
            loaded by name.

    Raises:
        TypeError: A model without a tokenizer, or an option that does not exist or has no effect.
        ValueError: A prompt that does not exist, or a `max_length` beyond the positions.
    """

    model: BertForSequenceClassification
    activation_fn: ActivationFunction

    @takes(LoadOptions)
    def __init__(
        self,
        model: BertForSequenceClassification | str | os.PathLike[str] | Source,
        tokenizer: BertTokenizer | None = None,
        activation_fn: ActivationFunction | None = None,
        max_length: int | None = None,
        prompts: Mapping[str, str] | None = None,
        default_prompt_name: str | None = None,
        **options: Unpack[LoadKeywords],
    ) -> None:
        if isinstance(model, str | os.PathLike | Source):
            loaded = CrossEncoder.from_pretrained(
                model,
                max_length=max_length,
                prompts=prompts,
                default_prompt_name=default_prompt_name,
                **options,
            )
            model = loaded.model
            tokenizer = tokenizer or loaded.tokenizer
            activation_fn = loaded.activation_fn if activation_fn is None else activation_fn
            max_length = loaded.max_length
            prompts = loaded.prompts
            default_prompt_name = loaded.default_prompt_name
        elif options:
            raise TypeError(f"{next(iter(options))} is for a model that is loaded by its name.")
        if model is None or not callable(tokenizer):
            raise TypeError(
                "CrossEncoder takes a BertForSequenceClassification and its tokenizer, or the name "
                "of a model, which brings both."
            )
        positions = model.config.max_position_embeddings
        super().__init__(tokenizer, positions, max_length, prompts, default_prompt_name)
        self.model = model.eval()
        # not by its truth value: an empty nn.Sequential has none
        self.activation_fn = (
            _activation(model.config, None) if activation_fn is None else activation_fn
        )

    def __repr__(self) -> str:
        return (
            f"CrossEncoder({type(self.model).__name__}, num_labels={self.num_labels}, "
            f"max_length={self.max_length}, activation_fn={self.activation_fn!r})"
        )

    @property
    def config(self) -> BertConfig:  # type: ignore[override]
        """The model's configuration."""
        return self.model.config

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return self.model.device

    @classmethod
    @takes(RerankerOptions)
    def from_pretrained(
        cls,
        name: str | os.PathLike[str] | Source | Checkpoint,
        **options: Unpack[RerankerKeywords],
    ) -> CrossEncoder:
        """Loads a cross-encoder's folder with the activation that it names.

        Args:
            name: Folder or Hub id, or a checkpoint whose files may have been read.
            options: The fields of `minibert.encoders.encoder_options.RerankerOptions`, which
                describes them.

        Returns:
            The cross-encoder.

        Raises:
            FileNotFoundError: The checkpoint does not exist, or a file of it is missing.
            ValueError: A damaged file, or an activation or module that minibert does not have. The
                error names it.
            TypeError: An option that does not exist.
        """
        chosen = RerankerOptions(**options)
        checkpoint = Checkpoint.of(name, mmap=chosen.mmap, **part_of(chosen, HubOptions))
        folder = checkpoint.folder(cross_encoder=True)
        model: Any = checkpoint.bert(
            BertForSequenceClassification,
            chosen.precision,
            device=chosen.device,
            dtype=torch.float32,
        )
        return cls(
            model,
            folder.load_tokenizer(),
            _activation(model.config, folder.activation(model.config)),
            **folder.settings(chosen, model.config.max_position_embeddings),
        )

    def save_pretrained(self, path: str | os.PathLike[str]) -> None:
        """Writes a folder that `from_pretrained` and sentence-transformers load.

        Args:
            path: Folder, which is created if it does not exist.

        Raises:
            ValueError: An activation that is not in `ACTIVATION_CLASSES` of
                `minibert.encoders.folders.sentence_folder`. Nothing is written then.
            OSError: A file cannot be written.
        """
        kind = type(self.activation_fn)
        if kind.__name__ not in ACTIVATION_CLASSES or getattr(nn, kind.__name__) is not kind:
            raise ArgumentError(
                "activation_fn",
                f"should be one of {', '.join(ACTIVATION_CLASSES)} of torch.nn to be saved, "
                f"not {self.activation_fn!r:.80}.",
            )
        with replacing_model(path, whole=True) as target:
            folder = SentenceFolder(
                Source(target),
                max_length=self.max_length,
                prompts=self.prompts,
                default_prompt_name=self.default_prompt_name,
                activation_fn=f"{kind.__module__}.{kind.__name__}",
            )
            write_sentence_folder(folder, target)
            self.tokenizer.save_pretrained(target)
            self.model.save_pretrained(target)

    @overload
    def predict(
        self, pairs: Pairs | Pair, **options: Unpack[RankKeywords]
    ) -> NDArray[np.float32]: ...
    @overload
    def predict(self, pairs: Pairs | Pair, **options: Unpack[PredictKeywords]) -> Any: ...

    @takes(PredictOptions)
    def predict(self, pairs: Pairs | Pair, **options: Any) -> Any:
        """Scores of pairs of texts.

        Args:
            pairs: Pairs in a list, an array (N, 2) or any other iterable, or a single pair. The
                longer text is truncated where a pair is too long. `inputs=` and `sentences=` of
                sentence-transformers are the same.
            options: The fields of `minibert.encoders.encoder_options.PredictOptions`, which
                describes them.

        Returns:
            (N,) float32 for a model with one label, (N, labels) for several, or what
            `activation_fn` makes of these. Arrays are float32, and tensors have the type that it
            gives. Without the first axis for a single pair.

        Raises:
            ValueError: Something that is not a pair of strings, an unknown prompt, or an
                activation that does not return scores for each pair.
        """
        chosen = PredictOptions(**options)
        checked, is_single = _check_pairs(pairs)
        settings = self._prepare(chosen)
        array, _ = self.compute_logits(checked, settings, "pairs", bool(chosen.show_progress_bar))
        scores = self._scores(array, chosen)
        if chosen.apply_softmax and scores.dim() > 1:
            scores = scores.softmax(dim=1)
        results: Any
        if chosen.convert_to_tensor:
            results = scores.to(self.device)
        elif chosen.convert_to_numpy:
            results = scores.float().numpy()
        else:
            results = list(scores.to(self.device))
        if is_single:
            return results[0]
        return results

    def score(self, text_pairs: Sequence[Pair]) -> list[float]:
        """`predict` as a list of floats, as LangChain's cross-encoders have it.

        Args:
            text_pairs: Pairs of texts.
        """
        scores: list[float] = self.predict(text_pairs).tolist()
        return scores

    @takes(RankOptions)
    def rank(
        self,
        query: str,
        documents: Iterable[str],
        top_k: int | None = None,
        return_documents: bool = True,
        **options: Unpack[RankKeywords],
    ) -> Ranking:
        """Documents by their scores with a query, best first.

        Equal scores are in the order of their logits, then in that of the documents.

        Args:
            query: The first text of each pair.
            documents: The second texts, in any sequence.
            top_k: How many documents to return. None: all.
            return_documents: Whether results have the documents' "text".
            options: The fields of `minibert.encoders.encoder_options.RankOptions`, which describes
                them.

        Returns:
            `{"corpus_id", "score", "text"}` of each in a list, whose `truncated` has the indices of
            those that were. `corpus_id` is the document's index.

        Raises:
            ValueError: A model with several labels, something that is not a text, or an activation
                that returns several scores for a pair.
        """
        chosen = RankOptions(**options)
        return self.rank_documents(
            query,
            documents,
            top_k,
            return_documents,
            self._prepare(chosen),
            lambda logits: self._scores(logits, chosen).double().numpy(),
            bool(chosen.show_progress_bar),
        )

    def _scores(self, logits: Vectors, chosen: Any) -> Tensor:
        """The activation of logits (N, labels): (N,) for a single score a pair, or (N, scores)."""
        activate = self.activation_fn if chosen.activation_fn is None else chosen.activation_fn
        with torch.no_grad():
            scores = activate(torch.tensor(logits))  # a copy, for one that works in place
        if self.num_labels == 1 and scores.numel() == len(logits):
            scores = scores.reshape(len(logits))
        if scores.shape[:1] != (len(logits),):
            raise ArgumentError(
                "activation_fn",
                f"should return scores for each of {len(logits)} pairs, not a tensor of the shape "
                f"{tuple(scores.shape)}.",
            )
        return scores

    def _prepare(self, chosen: Any) -> Settings:
        """Move the model where the options of a call want it, and return its settings."""
        check_count("batch_size", chosen.batch_size)
        if chosen.device is not None:
            self.model.to(resolve_device(chosen.device))
        return self.settings(
            prompt=chosen.prompt,
            prompt_name=chosen.prompt_name,
            batch_tokens=chosen.batch_tokens,
        )


def rerank(
    model: BertForSequenceClassification,
    tokenizer: BertTokenizer,
    query: str,
    documents: Iterable[str],
    top_k: int | None = None,
) -> list[Ranked]:
    """`CrossEncoder(model, tokenizer).rank(query, documents, top_k)`.

    Args:
        model: A classifier with one label. Scores are the sigmoid of its logit.
        tokenizer: Its tokenizer.
        query: The first text of each pair.
        documents: The second texts.
        top_k: How many documents to return. None: all.

    Raises:
        ValueError: As `CrossEncoder.rank`.
    """
    return CrossEncoder(model, tokenizer).rank(query, documents, top_k)


def _check_pairs(pairs: Any) -> tuple[list[Pair], bool]:
    """The pairs in a list, and whether a single one was passed.

    Raises:
        ValueError: Something that is not a pair of strings.
    """
    if isinstance(pairs, str):
        raise ArgumentError(
            "pairs", f"should be pairs of strings, not a single string, {pairs!r:.60}."
        )
    check_collection(pairs, 'its pairs, such as texts[["query", "document"]].values')
    items = pairs.tolist() if isinstance(pairs, np.ndarray) else list(pairs)
    if len(items) == 2 and all(isinstance(text, str) for text in items):
        return [(items[0], items[1])], True
    items = [item.tolist() if isinstance(item, np.ndarray) else item for item in items]
    return check_pairs(items), False


def _activation(config: BertConfig, name: str | None) -> nn.Module:
    """The activation of this name, or of a model whose folder names none."""
    activation: nn.Module = getattr(nn, relevance_activation(config, name))()
    return activation
