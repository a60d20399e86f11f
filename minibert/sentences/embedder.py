"""SentenceEmbedder: texts to vectors, sorted by length and packed, so that no time goes into padding."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal, overload

from minibert.checkpoints.source import Source, split_source
from minibert.checks import check_count, refuse_unknown
from minibert.extras import need
from minibert.inference.batching import BATCH_TOKENS
from minibert.sentences.familiar import FamiliarNames
from minibert.sentences.folder import read_sentence_folder
from minibert.sentences.onnx import OnnxGraph, OnnxModel
from minibert.sentences.rows import check_texts, named_prompt, rows_of
from minibert.tokenization.tokenizer import BertTokenizer

if TYPE_CHECKING:
    import torch
    from torch import nn

    from minibert.model import BertModel
    from minibert.sentences.model import SentenceModel as Engine, WordVectors
    from minibert.sentences.pooling import Layers
else:
    Engine = object


class SentenceEmbedder(FamiliarNames, Engine):
    """A BERT, its tokenizer, and how hidden states become one vector for each text.

    ```python
    embedder = SentenceEmbedder.from_pretrained("sentence-transformers/all-MiniLM-L6-v2")
    vectors = embedder.encode(["I love Korea", "Paris"])     # numpy (2, 384) float32
    ```

    Args:
        model: the BERT; used as it is.
        tokenizer: its tokenizer.
        pooling: one of `minibert.sentences.pooling.POOLINGS`, or several to be put side by side.
        layers: which layers, and
        layer_weights: with what weights; as in `minibert.sentences.pooling.combine_layers`.
        steps: modules that the pooled vectors (batch, hidden) go through: `Dense`, `Normalize`, `Truncate`.
        max_length: tokens of the longest text, [CLS] and [SEP] included; never more than the model has positions.
            None: what the tokenizer says.
        prompts: texts to put before every text, by name.
        default_prompt_name: the prompt that is used when a call names none.
        include_prompt: whether a prompt's tokens take part in pooling.

    Raises:
        ValueError: a pooling, layer or prompt that is not there, or vectors that do not fit the first `Dense`.
    """

    def __new__(cls: Any, model: Any = None, *_: Any, **__: Any) -> Any:
        """An embedder that is a `SentenceModel`, too, and so an `nn.Module`; of an exported graph, an `OnnxModel`."""
        if isinstance(model, OnnxGraph):
            engine: Any = OnnxModel
        else:
            from minibert.sentences.model import SentenceModel  # here: a graph needs no torch

            engine = SentenceModel
        return object.__new__(cls if issubclass(cls, engine) else _run_by(cls, engine))

    def __init__(
        self,
        model: BertModel,
        tokenizer: BertTokenizer | None = None,
        *,
        pooling: str | Sequence[str] = "mean",
        layers: Layers = "last",
        layer_weights: Sequence[float] | None = None,
        steps: Iterable[nn.Module] = (),
        max_length: int | None = None,
        prompts: dict[str, str] | None = None,
        default_prompt_name: str | None = None,
        include_prompt: bool = True,
    ) -> None:
        if isinstance(model, str | os.PathLike) or tokenizer is None:
            name = repr(model) if isinstance(model, str | os.PathLike) else "name"
            both = f"SentenceEmbedder.from_pretrained({name}) loads both"
            raise TypeError(f"SentenceEmbedder takes a BertModel and its tokenizer; {both}.")
        super().__init__(model, pooling, layers, layer_weights, steps)
        self.tokenizer = tokenizer
        positions = model.config.max_position_embeddings
        if max_length is not None:
            check_count("max_length", max_length)
        self.max_length = min(
            positions, tokenizer.model_max_length if max_length is None else max_length
        )
        self.prompts = dict(prompts or {})
        self.default_prompt_name = default_prompt_name
        self.include_prompt = include_prompt
        self.precision: str | None = None  # what `from_pretrained` made of the model
        named_prompt(self.prompts, default_prompt_name)  # it must exist

    @classmethod
    def from_pretrained(
        cls,
        name: str | os.PathLike[str] | Source,
        *,
        backend: Literal["torch", "onnx"] = "torch",
        pooling: str | Sequence[str] | None = None,
        layers: Layers | None = None,
        layer_weights: Sequence[float] | None = None,
        normalize: bool | None = None,
        truncate_dim: int | None = None,
        precision: str | None = "fp32",
        max_length: int | None = None,
        prompts: dict[str, str] | None = None,
        default_prompt_name: str | None = None,
        device: torch.device | str | None = None,
        mmap: bool = True,
        **options: Any,
    ) -> SentenceEmbedder:
        """Loads a sentence-transformers folder as it says, or any BERT.

        Args:
            name: folder, bundled model or Hub id.
            backend: "onnx" runs what `minibert export` has written by ONNX Runtime, on the CPU, and imports no torch.
                What the graph settles, which is all from pooling to precision below, is left out then.
            pooling: None follows the folder's modules.json; a plain BERT has none and gets `"mean"`.
            layers: as in `minibert.sentences.pooling.resolve_layers`; None: `"last"`. Layers above the highest one that
                is needed are not kept.
            layer_weights: as in `minibert.sentences.pooling.combine_layers`.
            normalize: make vectors of length 1 at the end, or leave them as they are; None follows the folder, and
                leaves a plain BERT's as they are.
            truncate_dim: keep the first so many numbers of each vector, before it is made of length 1 by
                `normalize=True`; None follows the folder.
            precision: "fp32", "bf16" or "int8" as in `minibert.optimize`; None runs the model unchanged, whose float32
                results equal the reference's bit for bit.
            max_length: as in the class; None: what the folder says.
            prompts: None: the folder's.
            default_prompt_name: None: the folder's.
            device: where to run; None: the CPU.
            mmap: as in `BertModel.from_pretrained`; an optimised model has its weights in memory anyway.
            options: `revision`, `cache_dir`, `local_files_only`, `token` and `subfolder` as for `Source.of`.

        Raises:
            FileNotFoundError: no such checkpoint, or a file of it is missing.
            ValueError: a damaged file, or something in the folder that minibert does not have, named.
        """
        source, unknown = split_source(name, options)
        if unknown:
            known = [
                name
                for name in inspect.signature(cls.from_pretrained).parameters
                if name != "options"
            ]
            refuse_unknown("SentenceEmbedder.from_pretrained", unknown, known)
        own = dict[str, Any](
            pooling=pooling, truncate_dim=truncate_dim, max_length=max_length, prompts=prompts
        )
        own["default_prompt_name"] = default_prompt_name or None  # "": the folder's, too
        folder = replace(
            read_sentence_folder(source),
            **{name: one for name, one in own.items() if one is not None},
        )
        if backend == "onnx":
            settled = dict[str, Any](
                pooling=pooling, layers=layers, layer_weights=layer_weights, normalize=normalize
            )
            settled |= {"truncate_dim": truncate_dim, "device": device, "precision": precision}
            if given := [
                name for name, value in settled.items() if value is not None and value != "fp32"
            ]:
                raise ValueError(
                    f'leave {given[0]} out with backend="onnx": the export of the graph has settled it.'
                )
            parts: dict[str, Any] = {"model": OnnxGraph(folder.transformer)}
        elif backend == "torch":
            from minibert.sentences.model import load_parts

            layers = "last" if layers is None else layers
            parts = load_parts(
                folder, layers, layer_weights, normalize, precision, device=device, mmap=mmap
            )
        else:
            raise ValueError(f'backend should be "torch" or "onnx", not {backend!r}.')
        embedder: SentenceEmbedder = cls(
            tokenizer=folder.load_tokenizer(),
            pooling=folder.pooling,
            max_length=folder.max_length,
            prompts=folder.prompts,
            default_prompt_name=folder.default_prompt_name,
            include_prompt=folder.include_prompt,
            **parts,
        )
        embedder.precision = precision if backend == "torch" else None
        embedder.similarity_fn_name = folder.similarity_fn_name
        return embedder

    def save_pretrained(self, path: str | os.PathLike[str]) -> None:
        """Writes a folder that `from_pretrained` and sentence-transformers load.

        An optimised model is saved with the weights that it computes with. A single layer below the last becomes the
        last of a shorter model, and `pooling="pooler"` a `Dense` layer on [CLS].

        Raises:
            ValueError: layers or poolings that the format has no place for; nothing is written then.
            OSError: a file cannot be written.
        """
        from minibert.sentences.saving import save_sentence_folder

        if isinstance(self, OnnxModel):
            raise ValueError(
                f"an exported model is not written again: copy its folder, {self.model.source}."
            )
        save_sentence_folder(self, Path(path))

    def as_sentence_transformer(self) -> Any:
        """A `sentence_transformers.SentenceTransformer` that runs this model, for libraries that ask for that type.

        KeyBERT and BERTopic, for example, silently take another model in place of an embedder of another type. It
        encodes, trains, is evaluated and saved by sentence-transformers' own code, and the model inside is this
        embedder's: training it needs one that was loaded with `precision=None`.

        Raises:
            ImportError: sentence-transformers is not installed.
            ValueError: layers or poolings that sentence-transformers does not have.
        """
        library = need("sentence_transformers", "clients", "as_sentence_transformer()")
        # a SentenceTransformer is made of files, which Windows does not remove while they are mapped
        with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            path = os.path.join(folder, "minibert")
            self.save_pretrained(path)
            unused = {"add_pooling_layer": False}  # for the BERT that gives way to the model's own
            made = library.SentenceTransformer(path, device=str(self.device), model_kwargs=unused)
            if self.layers == [self.model.config.num_hidden_layers] and self.pooling != [
                "pooler"
            ]:  # as it was saved
                name = next(made[0].named_children())[0]  # "auto_model" before version 6
                setattr(made[0], name, self.model)
        return made

    @overload
    def words(  # type: ignore[overload-overlap]
        self, texts: str, *, merge: Literal["mean", "first"] = ..., batch_tokens: int = ...
    ) -> WordVectors: ...
    @overload
    def words(
        self,
        texts: Sequence[str],
        *,
        merge: Literal["mean", "first"] = ...,
        batch_tokens: int = ...,
    ) -> list[WordVectors]: ...

    def words(
        self, texts: str | Sequence[str], *, merge: str = "mean", batch_tokens: int = BATCH_TOKENS
    ) -> Any:
        """Vectors of the words of texts, from the chosen layers, without prompt, pooling and normalisation.

        Words are the tokenizer's: cut at white space and around punctuation. Those past `max_length` tokens are left
        out, and a warning says of how many texts.

        Args:
            texts: one text or several.
            merge: how the WordPieces of a word become one vector: their "mean", or the "first" of them.
            batch_tokens: tokens of one pass through the model.

        Returns:
            `WordVectors` of each text in a list; of a single text, just its own.
        """
        from minibert.sentences.model import merge_pieces

        if merge not in ("mean", "first"):
            raise ValueError(f'merge should be "mean" or "first", not {merge!r}.')
        every = check_texts([texts] if isinstance(texts, str) else list(texts))
        if not every:
            return []
        settings = self.chunk_settings({"prompt": "", "batch_tokens": batch_tokens})
        rows = rows_of(self.tokenizer, every, self.max_length, settings)
        self._report_cut(
            rows.overlong, len(every), "truncate", advice="words past it have no vector."
        )
        encodings = self.tokenizer(
            list(rows.texts), truncation=True, max_length=self.max_length
        ).encodings
        states = self.token_states(rows, batch_tokens)
        found = [
            merge_pieces(*one, merge)
            for one in zip(map(str, rows.texts), encodings, states, strict=True)
        ]
        return found[0] if isinstance(texts, str) else [found[place] for place in rows.places]


@cache
def _run_by(cls: Any, engine: Any) -> type:
    """The class with an engine: the same to all who see it, pickle too."""

    def reduce(self: Any) -> Any:
        return cls.__new__, (cls, self.model), vars(self)

    about = {"__module__": cls.__module__, "__doc__": cls.__doc__, "__reduce__": reduce}
    return type(cls.__name__, (cls, engine), about)
