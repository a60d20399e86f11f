"""Holds a checkpoint against transformers, layer by layer: the same files, loaded twice, independently.

The one module of this package that imports the reference (extra `[parity]`), and only when it is used.
"""

import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from minibert.auto import class_for_tensors, has_pooler
from minibert.base import PreTrainedModel
from minibert.checkpoints.source import Source
from minibert.checkpoints.tensors import read_tensors
from minibert.config import BertConfig
from minibert.extras import need
from minibert.heads import BertForMultipleChoice
from minibert.model import BertModel
from minibert.progress import SILENT, Progress
from minibert.tokenization.tokenizer import BertTokenizer

TEXTS = (
    "I love Korea",
    "나는 한국을 사랑한다. 아버지가방에들어가신다!",
    "The quick brown fox jumps over the lazy dog; it didn't ask, and nobody minded.",
    "Café naïve — “quotes”, 北京 and 東京, 3.14% of $1,000,000 👩‍👩‍👧 🇰🇷",
    "x",
    "unaffable internationalization " * 8,
    "",
    "[MASK] is the capital of [UNK].",
)

STEPS = 5  # the reference is imported; tokenizers, both attentions and the heads are compared


@dataclass(frozen=True)
class Comparison:
    """One tensor of ours against the reference's.

    Attributes:
        part: its name, as in `trace` where that has one.
        max_difference: the largest absolute difference; infinite where the shapes differ.
        mean_difference: the mean absolute difference.
        bit_equal: every number is the same.
    """

    part: str
    max_difference: float
    mean_difference: float
    bit_equal: bool


@dataclass
class Verification:
    """All comparisons of one checkpoint.

    Attributes:
        model: the name that was verified.
        reference: name and version of what it was compared with.
        head: the class that the checkpoint was saved from, as far as its tensors tell.
        comparisons: in order of computation.
    """

    model: str
    reference: str
    head: str
    comparisons: list[Comparison] = field(default_factory=list)

    def passed(self, tolerance: float = 0.0) -> bool:
        """Whether no number differs by more than `tolerance`."""
        return all(c.max_difference <= tolerance for c in self.comparisons)

    def to_dict(self, tolerance: float = 0.0) -> dict[str, Any]:
        """For JSON; an infinite or undefined difference is a string, which JSON has no number for."""
        own = asdict(self)
        for row in own["comparisons"]:
            row |= {
                k: str(v) for k, v in row.items() if isinstance(v, float) and not math.isfinite(v)
            }
        return {**own, "tolerance": tolerance, "passed": self.passed(tolerance)}

    def __str__(self) -> str:
        """The table for people."""
        width = max(len(c.part) for c in self.comparisons)
        equal = sum(c.bit_equal for c in self.comparisons)
        return "\n".join(
            [
                f"{self.model} ({self.head}) against {self.reference}",
                f"{'part':<{width}}  {'max':>8}  {'mean':>8}",
                *(
                    f"{c.part:<{width}}  {c.max_difference:>8.2g}  {c.mean_difference:>8.2g}  "
                    f"{'bit-equal' if c.bit_equal else 'differs'}"
                    for c in self.comparisons
                ),
                f"{equal} of {len(self.comparisons)} bit-equal",
            ]
        )


def verify(
    name: str | os.PathLike[str] | Source,
    texts: Sequence[str] = TEXTS,
    *,
    progress: Progress = SILENT,
    **source_options: Any,
) -> Verification:
    """Compares tokenizer, every layer, the pooler and the heads of a checkpoint with transformers.

    The tokenizer is compared on each text and on pairs of texts; the model on the pairs, which have two segments and
    padding: every layer under eager attention, the last hidden state under SDPA too.

    Args:
        name: folder, bundled model or Hub id.
        texts: what to compare on, at least one.
        progress: counts the `STEPS` of it.
        source_options: `revision`, `cache_dir`, `local_files_only`, `token` and `subfolder` as for `Source.of`.

    Raises:
        ImportError: transformers is not installed; says what to install.
        FileNotFoundError: no such checkpoint.
        ValueError: no text, a checkpoint that minibert refuses, or a name that the reference cannot open.
    """
    if not texts:
        raise ValueError("verify needs at least one text.")
    reference = _reference()
    progress.add()
    source = Source.of(name, **source_options)
    config, names = BertConfig.from_pretrained(source), read_tensors(source).keys()
    whole = class_for_tensors(source, names)
    result = Verification(str(source), f"transformers {reference.__version__}", whole.__name__)
    pairs = list(texts), list(texts)[::-1]
    tokenizer = BertTokenizer.from_pretrained(source)
    folder = source.require(
        "config.json"
    ).parent  # by now everything that the checkpoint has lies there
    try:
        os.fspath(folder).encode()
    except UnicodeEncodeError:
        raise ValueError(
            f"{source} has a name that is not UTF-8, which transformers cannot open: rename it."
        ) from None
    their_tokenizer = reference.BertTokenizer.from_pretrained(folder)

    longest = config.max_position_embeddings
    options: dict[str, Any] = {
        "padding": True,
        "truncation": True,
        "max_length": longest,
        "return_tensors": "pt",
    }
    for label, arguments in (("text", pairs[:1]), ("pair", pairs)):
        ours, batch = tokenizer(*arguments, **options), dict(their_tokenizer(*arguments, **options))
        result.comparisons += [
            _compare(f"tokenizer.{label}.{key}", ours[key], batch[key]) for key in batch
        ]
    progress.add()

    pooler = has_pooler(names)
    for attention in ("eager", "sdpa"):
        models = _load(
            BertModel, source, folder, attn_implementation=attention, add_pooling_layer=pooler
        )
        with torch.no_grad():
            outputs = [
                m(**batch, output_hidden_states=True, output_attentions=attention == "eager")
                for m in models
            ]
        result.comparisons += (
            _compare_layers(*outputs)
            if attention == "eager"
            else _compare_outputs("sdpa", *outputs)
        )
        progress.add()
    if whole is not BertModel:
        models = _load(whole, source, folder)
        if whole is BertForMultipleChoice:
            batch = {key: value[:, None] for key, value in batch.items()}  # (batch, choices, seq)
        with torch.no_grad():
            result.comparisons += _compare_outputs(result.head, *[m(**batch) for m in models])
    progress.add()
    return result


def _reference() -> Any:
    transformers = need("transformers", "parity", "Comparing with the reference")
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    return transformers


def _load(
    kind: type[PreTrainedModel], source: Source, folder: Path, **options: Any
) -> tuple[Any, Any]:
    """Our model and the reference's, each from the files."""
    ours = kind.from_pretrained(source, **options)
    theirs = getattr(_reference(), kind.__name__).from_pretrained(
        folder, dtype=ours.dtype, **options
    )
    return ours, theirs.eval()


def _compare_layers(ours: Any, theirs: Any) -> Iterator[Comparison]:
    yield _compare("embeddings.output", ours.hidden_states[0], theirs.hidden_states[0])
    for i in range(len(theirs.attentions)):
        yield _compare(
            f"layer.{i}.attention.probabilities", ours.attentions[i], theirs.attentions[i]
        )
        yield _compare(f"layer.{i}.output", ours.hidden_states[i + 1], theirs.hidden_states[i + 1])
    if theirs.pooler_output is not None:
        yield _compare("pooler.output", ours.pooler_output, theirs.pooler_output)


def _compare_outputs(label: str, ours: Any, theirs: Any) -> Iterator[Comparison]:
    """Everything that both return, but not layer by layer."""
    for key, value in theirs.items():
        if isinstance(value, Tensor):
            yield _compare(f"{label}.{key}", ours[key], value)


def _compare(part: str, ours: Tensor, theirs: Tensor) -> Comparison:
    if ours.shape != theirs.shape:
        return Comparison(part, float("inf"), float("inf"), False)
    difference = (ours.double() - theirs.double()).abs()
    return Comparison(
        part, difference.max().item(), difference.mean().item(), torch.equal(ours, theirs)
    )
