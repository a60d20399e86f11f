"""What models with a head share: how they are loaded, checked and run on examples.

PyTorch is imported when a model of it is run or checked.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from reprlib import Repr
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar, Self, Unpack

import numpy as np

from minibert.checkpoints.source import Source
from minibert.config import BertConfig
from minibert.encoders.encoder_options import (
    HeadKeywords,
    HeadOptions,
    HubOptions,
    TextModelOptions,
    part_of,
    takes,
)
from minibert.encoders.folders.checkpoint import Backend, Checkpoint
from minibert.encoders.folders.kinds import Kind
from minibert.encoders.folders.reading import Reading
from minibert.encoders.onnx.onnx_embedder import refuse_settled
from minibert.encoders.onnx.onnx_heads import OnnxModel
from minibert.encoders.rows.token_rows import token_types_of
from minibert.encoders.text_encoder import TextModel, check_max_length
from minibert.inference.finite import check_finite
from minibert.tokenization.tokenizer import BertTokenizer
from minibert.util.checks import check_count, check_kind, type_of
from minibert.util.errors import ArgumentError

if TYPE_CHECKING:
    from torch import Tensor

    from minibert.base import PreTrainedModel

TextOrTexts = str | Sequence[str]
Example = dict[str, Any]
"""Ids and labels of a row, or of a window of it, by the names of a model's arguments.

An array (tokens, ...) has an entry for each token. A number, or an array (1, ...), is of the row.
"""

_excerpt = Repr()
_excerpt.maxstring = 50


def excerpt(text: str) -> str:
    """A text in quotation marks, as an error shows it: of a long one the beginning and the end."""
    return _excerpt.repr(text)


class HeadModel(TextModel):
    """A model with a head, its tokenizer, and how it reads texts.

    What a `Classifier`, a `Tagger`, an `Answerer` and a `Filler` share. They compute with PyTorch,
    or with ONNX Runtime if the model is an `OnnxModel`.

    Args:
        model: A model with one of the heads of the class, or an `OnnxModel` exported from one.
        tokenizer: Its tokenizer.
        max_length: Tokens of the longest row, [CLS] and [SEP] included. None: what the tokenizer
            says, as far as the model has positions.
        prompts: TextOrTexts to put before every text, by name. The service puts them there.
        default_prompt_name: The prompt of requests that name none.

    Attributes:
        reading: How the model reads its inputs, as its training decided it.

    Raises:
        TypeError: The model is of another class, or the tokenizer is not one.
        ValueError: The export has another head, or a `max_length` beyond the positions.
    """

    kind: ClassVar[Kind]
    heads: ClassVar[tuple[str, ...]]
    """Names of the classes of models, which are imported when a model of PyTorch is checked."""

    def __init__(
        self,
        model: Any,
        tokenizer: BertTokenizer,
        *,
        max_length: int | None = None,
        prompts: Mapping[str, str] | None = None,
        default_prompt_name: str | None = None,
    ) -> None:
        require_model(model, tokenizer, self.heads)
        positions = model.config.max_position_embeddings
        super().__init__(tokenizer, positions, max_length, prompts, default_prompt_name)
        self.model = model
        self.reading = Reading.of(model.config)

    def __repr__(self) -> str:
        name = self.model.head if isinstance(self.model, OnnxModel) else type(self.model).__name__
        return f"{type(self).__name__}({name}, max_length={self.max_length})"

    @property
    def config(self) -> BertConfig:
        """The model's configuration."""
        config: BertConfig = self.model.config
        return config

    @classmethod
    @takes(HeadOptions)
    def from_pretrained(
        cls,
        name: str | os.PathLike[str] | Source | Checkpoint,
        *,
        backend: Backend = "torch",
        **options: Unpack[HeadKeywords],
    ) -> Self:
        """Load a fine-tuned model as its folder says.

        Args:
            name: Folder, bundled model or Hub id, or a checkpoint whose files may have been read.
            backend: "torch", or "onnx" for what `minibert export` has written.
            options: The fields of `minibert.encoders.encoder_options.HeadOptions`, which describes
                them. An export has no precision and runs on the CPU.

        Returns:
            The model.

        Raises:
            FileNotFoundError: The checkpoint does not exist, or a file of it is missing.
            ValueError: A damaged file, or a checkpoint of another kind.
            TypeError: An option that does not exist.
        """
        chosen = HeadOptions(**options)
        source_options = part_of(chosen, HubOptions)
        checkpoint = Checkpoint.of(name, backend=backend, mmap=chosen.mmap, **source_options)
        checkpoint.require_kind(cls.kind)
        model: Any
        if checkpoint.backend == "onnx":
            refuse_settled(chosen, TextModelOptions)
            model = OnnxModel(checkpoint)
        else:
            model = checkpoint.bert(
                precision=chosen.precision, device=chosen.device, dtype="float32"
            )
        return cls.of_folder(checkpoint, model, chosen.max_length)

    @classmethod
    def of_folder(cls, checkpoint: Checkpoint, model: Any, max_length: int | None = None) -> Self:
        """Return a model with the tokenizer and the settings of its folder.

        Args:
            checkpoint: The folder.
            model: The model that was made of it.
            max_length: As in the class. None: what the folder says.
        """
        folder = checkpoint.folder()
        options = TextModelOptions(max_length=max_length)
        settings = folder.settings(options, model.config.max_position_embeddings)
        return cls(model, folder.load_tokenizer(), **settings)


def has_head(model: Any, *heads: type) -> bool:
    """Whether a model has one of the heads, or is the export of one that has it."""
    if isinstance(model, OnnxModel):
        return model.head in [head.__name__ for head in heads]
    return isinstance(model, heads)


def require_model(model: Any, tokenizer: Any, heads: Sequence[str]) -> None:
    """Check the model and the tokenizer of a prediction.

    Args:
        model: It has one of the heads, or is an export of one that has it.
        tokenizer: Its tokenizer.
        heads: Names of classes.

    Raises:
        TypeError: The model is of another class, or the tokenizer is not one.
        ValueError: The export has another head.
    """
    if not isinstance(model, OnnxModel):
        from minibert import heads as classes

        kinds = tuple(getattr(classes, name) for name in heads)
        expected = " or ".join((*heads, "OnnxHead"))  # which is how users load an OnnxModel
        check_kind("model", model, kinds, f"a {expected}")
    elif model.head not in heads:
        raise ValueError(f"{model.source} was exported from a {model.head}, not from a {heads[0]}.")
    check_kind("tokenizer", tokenizer, Callable, "the BertTokenizer of the model")


def as_text_list(texts: TextOrTexts) -> list[str]:
    """Return the texts as a list. A mapping, a set or no collection is a ValueError."""
    if isinstance(texts, Mapping | set) or not isinstance(texts, Iterable):
        raise ArgumentError(
            "texts",
            f"is {type_of(texts)}. Pass a string or a list of strings, and second texts on "
            "their own.",
        )
    if isinstance(texts, str):
        return [texts]
    return list(texts)


def token_limit(
    model: PreTrainedModel | OnnxModel, tokenizer: BertTokenizer, max_length: int | None = None
) -> int:
    """How many tokens of a text are read: `max_length`, or what model and tokenizer take at once.

    Raises:
        ValueError: `max_length` is more than the positions of the model, or leaves no room for a
            token.
    """
    positions = model.config.max_position_embeddings
    if max_length is None:
        return min(tokenizer.model_max_length, positions)
    check_count("max_length", max_length, minimum=3)
    return check_max_length(max_length, positions)


def encode_texts(
    tokenizer: BertTokenizer,
    texts: Sequence[str],
    pairs: Sequence[str] | None,
    max_length: int,
) -> list[Example]:
    """TextOrTexts, or pairs of texts, truncated to `max_length` tokens.

    Each example has `input_ids`, `token_type_ids` and whether the text is `truncated`.

    Raises:
        ValueError: There is another number of texts than of pairs.
    """
    batch = tokenizer(texts, pairs, truncation=True, max_length=max_length)
    examples: list[Example] = [
        {"input_ids": np.array(ids), "token_type_ids": np.array(types), "truncated": False}
        for ids, types in zip(batch["input_ids"], token_types_of(batch), strict=True)
    ]
    full = [index for index, ids in enumerate(batch["input_ids"]) if len(ids) == max_length]
    if full:
        first = [texts[index] for index in full]
        second = None if pairs is None else [pairs[index] for index in full]
        longer = tokenizer(first, second, truncation=True, max_length=max_length + 1)
        for index, ids in zip(full, longer["input_ids"], strict=True):
            examples[index]["truncated"] = len(ids) > max_length
    return examples


def outputs_of(
    model: Any,
    examples: Sequence[Example],
    choose: Callable[[Any], Tensor],
    sizes: Sequence[int] | None = None,
) -> list[Tensor]:
    """What `choose` selects from the outputs of a model for each example, on the CPU.

    See `run_rows`. An exported model has outputs of the same names.
    """
    if isinstance(model, OnnxModel):
        return _exported_outputs(model, examples, choose)

    from minibert.inference.logits import run_rows

    def compute(row_ids: Tensor, **inputs: Any) -> Tensor:
        return choose(model(row_ids, **inputs))

    ids = [example["input_ids"] for example in examples]
    types = None
    if examples and "token_type_ids" in examples[0]:
        types = [example["token_type_ids"] for example in examples]
    return run_rows(model, compute, ids, types, sizes)


def _exported_outputs(
    model: OnnxModel, examples: Sequence[Example], choose: Callable[[Any], Tensor]
) -> list[Tensor]:
    import torch

    types = [
        example.get("token_type_ids", np.zeros_like(example["input_ids"])) for example in examples
    ]
    arrays = model.graph.run(
        [example["input_ids"].tolist() for example in examples], [row.tolist() for row in types]
    )
    results = []
    for index in range(len(examples)):
        tensors = {name: torch.from_numpy(rows[index]) for name, rows in arrays.items()}
        chosen = choose(SimpleNamespace(**tensors))
        check_finite(chosen)
        results.append(chosen)
    return results


def logits_of(model: Any, examples: Sequence[Example]) -> Tensor:
    """The logits of a sequence classifier, (examples, labels), float32 on the CPU."""
    import torch

    if not examples:
        return torch.empty(0, model.config.num_labels)
    sizes = [1] * len(examples)
    rows = outputs_of(model, examples, lambda output: output.logits, sizes)
    return torch.cat(rows).view(len(examples), -1)
