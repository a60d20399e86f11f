"""Compare a checkpoint with transformers, layer by layer.

Both load the same files, independently. This is the only module of the package that imports
transformers, the reference (extra `[parity]`), and only when it is used.
"""

import math
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from minibert.base import PreTrainedModel
from minibert.checkpoints.source import Source
from minibert.encoders.folders.checkpoint import Checkpoint
from minibert.heads import BertForMultipleChoice
from minibert.model import BertModel
from minibert.tokenization.tokenizer import BertTokenizer
from minibert.util.extras import need
from minibert.util.progress import SILENT, Progress

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
    """One tensor of minibert, compared with the reference's.

    Attributes:
        part: Its name, as in `trace` where that has one.
        max_difference: The largest absolute difference, infinite where ids, shapes or dtypes
            differ.
        mean_difference: The mean absolute difference.
        bit_equal: All values are the same.
    """

    part: str
    max_difference: float
    mean_difference: float
    bit_equal: bool


@dataclass
class Verification:
    """All comparisons of one checkpoint.

    Attributes:
        model: The name that was verified.
        reference: Name and version of what it was compared with.
        head: The class that the checkpoint was saved from, as far as its tensors tell.
        comparisons: In order of computation.
        missing: Tensors of `head` that the files lack. Each library draws its own, so weights
            differ although both libraries compute the same.
    """

    model: str
    reference: str
    head: str
    comparisons: list[Comparison] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)

    def passed(self, tolerance: float = 0.0) -> bool:
        """Whether no value differs by more than `tolerance`, and no id, shape or dtype at all."""
        return all(c.max_difference <= tolerance for c in self.comparisons)

    def to_dict(self, tolerance: float = 0.0) -> dict[str, Any]:
        """Return the comparisons for JSON, with infinite or undefined differences as strings."""
        fields = asdict(self)
        for row in fields["comparisons"]:
            for key, value in row.items():
                if isinstance(value, float) and not math.isfinite(value):
                    row[key] = str(value)
        return {**fields, "tolerance": tolerance, "passed": self.passed(tolerance)}

    def __str__(self) -> str:
        """Return a table for people."""
        width = max(len(c.part) for c in self.comparisons)
        equal = sum(c.bit_equal for c in self.comparisons)
        lines = [
            f"{self.model} ({self.head}) against {self.reference}",
            f"{'part':<{width}}  {'max':>8}  {'mean':>8}",
        ]
        for c in self.comparisons:
            verdict = "bit-equal" if c.bit_equal else "differs"
            lines.append(
                f"{c.part:<{width}}  {c.max_difference:>8.2g}  {c.mean_difference:>8.2g}  {verdict}"
            )
        if self.missing:
            lines.append(f"not in the files, drawn by each library: {', '.join(self.missing)}")
        lines.append(f"{equal} of {len(self.comparisons)} bit-equal")
        return "\n".join(lines)


def verify(
    name: str | os.PathLike[str] | Source,
    texts: str | Iterable[str] = TEXTS,
    *,
    device: torch.device | str = "cpu",
    progress: Progress = SILENT,
    **source_options: Any,
) -> Verification:
    """Compare tokenizer, every layer, the pooler and the heads of a checkpoint with transformers.

    The tokenizer is compared on each text and on pairs of texts, the model on the pairs, which have
    two segments and padding. Every layer is compared under eager attention, the last hidden state
    under SDPA, too.

    Args:
        name: Folder, bundled model or Hub id.
        texts: The texts to compare on, at least one, or a single text.
        device: Where both models compute.
        progress: Counts the `STEPS` of the comparison.
        source_options: `revision`, `cache_dir`, `local_files_only`, `token` and `subfolder` as for
            `Source.of`.

    Raises:
        ImportError: transformers is not installed. The error says what to install.
        FileNotFoundError: The checkpoint does not exist.
        ValueError: No text, a checkpoint minibert cannot load, or a name that the reference cannot
            open.
    """
    texts = [texts] if isinstance(texts, str) else list(texts)
    if not texts:
        raise ValueError("verify needs at least one text.")
    reference = _reference()
    progress.add()
    source = Source.of(name, **source_options)
    checkpoint = Checkpoint(source, is_bare=True)
    model_class = checkpoint.model_class
    result = Verification(
        str(source), f"transformers {reference.__version__}", model_class.__name__
    )
    tokenizer = BertTokenizer.from_pretrained(source)
    # by now all files of the checkpoint are in this folder
    folder = source.require("config.json").parent
    if source.single_file is not None:
        raise ValueError(f"{source} is a file, but transformers reads the folder: name that.")
    try:
        os.fspath(folder).encode()
    except UnicodeEncodeError:
        raise ValueError(
            f"{source} has a name that is not UTF-8, which transformers cannot open: rename it."
        ) from None
    their_tokenizer = reference.BertTokenizer.from_pretrained(folder)

    options: dict[str, Any] = {
        "padding": True,
        "truncation": True,
        "max_length": checkpoint.config.max_position_embeddings,
        "return_tensors": "pt",
    }
    pairs = [texts, texts[::-1]]
    for label, arguments in (("text", pairs[:1]), ("pair", pairs)):
        ours = tokenizer(*arguments, **options)
        batch = dict(their_tokenizer(*arguments, **options))
        for key, values in batch.items():
            result.comparisons.append(_compare(f"tokenizer.{label}.{key}", ours[key], values))
    progress.add()

    batch = {key: values.to(device) for key, values in batch.items()}
    if "token_type_ids" in batch:  # a model may have one segment
        batch["token_type_ids"].clamp_(max=checkpoint.config.type_vocab_size - 1)
    for attention in ("eager", "sdpa"):
        is_eager = attention == "eager"
        call = {**batch, "output_hidden_states": is_eager, "output_attentions": is_eager}
        base = {"attn_implementation": attention, "add_pooling_layer": checkpoint.has_pooler}
        ours, theirs, result.missing = _run(BertModel, source, folder, call, **base)
        if is_eager:
            result.comparisons += _compare_layers(ours, theirs)
        else:
            result.comparisons += _compare_outputs(attention, ours, theirs)
        progress.add()
    if model_class is not BertModel:
        if model_class is BertForMultipleChoice:
            batch = {key: values[:, None] for key, values in batch.items()}  # (batch, choices, seq)
        ours, theirs, result.missing = _run(model_class, source, folder, batch)
        result.comparisons += _compare_outputs(result.head, ours, theirs)
    progress.add()
    return result


def _reference() -> Any:
    transformers = need("transformers", "parity", "Comparing with the reference")
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    return transformers


def _run(
    kind: type[PreTrainedModel],
    source: Source,
    folder: Path,
    batch: Mapping[str, Any],
    **options: Any,
) -> tuple[Any, Any, list[str]]:
    """Load our model and the reference's from the files.

    Returns:
        The output of each, and the names of the tensors that the files lack.
    """
    ours: PreTrainedModel = kind.from_pretrained(source, **options)
    theirs = getattr(_reference(), kind.__name__).from_pretrained(folder, dtype="auto", **options)
    device = batch["input_ids"].device
    batch = {**batch, "return_dict": True}  # also where the config asks for tuples
    with torch.no_grad():
        outputs = ours.to(device)(**batch), theirs.to(device).eval()(**batch)
    return *outputs, ours.load_report.missing


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
    ours, theirs = ours.cpu(), theirs.cpu()
    is_close = ours.shape == theirs.shape and ours.dtype == theirs.dtype
    if is_close and not theirs.is_floating_point():  # an id is right or wrong
        is_close = torch.equal(ours, theirs)
    if not is_close:
        return Comparison(part, float("inf"), float("inf"), False)
    difference = (ours.double() - theirs.double()).abs()
    return Comparison(
        part, difference.max().item(), difference.mean().item(), torch.equal(ours, theirs)
    )
