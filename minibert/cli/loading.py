"""From the options to a model: its source, its device, and an embedder."""

from __future__ import annotations

import argparse
import logging
import os
import warnings
from typing import TYPE_CHECKING, Any

from minibert.checkpoints.source import Source
from minibert.cli.options import filled
from minibert.cli.results import USES, UsageError
from minibert.encoders.encoder_options import EmbedderOptions

if TYPE_CHECKING:
    from minibert.encoders.folders.checkpoint import Checkpoint
    from minibert.encoders.folders.kinds import Kind
    from minibert.encoders.text_encoder import TextEncoder

logger = logging.getLogger("minibert")


def source_of(options: argparse.Namespace, name: str | None = None) -> Source:
    """Where the model that the options name, or another of this name, comes from.

    Raises:
        UsageError: A revision of a model that is not on the Hub.
    """
    name, revision = split_revision(str(options.model) if name is None else name)
    source = Source(model_folder(name), revision=revision, local_files_only=options.offline)
    if revision and source.folder is not None:
        raise UsageError(
            f"{name} is a folder on this computer or a bundled model. Only models of the Hub have "
            f"revisions: drop @{revision}."
        )
    return source


def split_revision(name: str) -> tuple[str, str | None]:
    """The name and the revision of "NAME@REVISION". A path that exists is a name as it stands."""
    bare, at, revision = name.rpartition("@")
    if not at or not bare or os.path.exists(name):
        return name, None
    return bare, revision


def check_device(name: str, backend: str = "torch") -> str:
    """The device, if this computer has it. Where there is a choice, it is announced.

    Raises:
        ValueError: The device does not exist here, or ONNX Runtime is to run on another one than
            the CPU.
    """
    if backend == "onnx":
        if name != "cpu":
            raise UsageError("--backend onnx runs on the CPU: leave --device out.")
        return name
    from minibert.util import devices

    available = devices.available_devices()
    kind = devices.resolve_device(name).type
    if kind not in {each.partition(":")[0] for each in available}:  # such as meta
        raise UsageError(f"--device should be one of {', '.join(available)}, not {name!r}.")
    if len(available) > 1:
        others = "" if name != "cpu" else f" (there is also {', '.join(available[1:])}: --device)"
        logger.info("computing on %s%s.", name, others)
    return name


def embedder_of(options: argparse.Namespace, name: str | None = None) -> TextEncoder:
    """The embedder that the options describe. `name` takes the place of their model."""
    source = source_of(options, name)
    check_device(options.device, options.backend)
    check_backend(source, options.backend)
    from minibert.encoders.folders.checkpoint import Checkpoint
    from minibert.encoders.onnx.onnx_embedder import settled
    from minibert.encoders.text_models import load_text_model

    checkpoint = Checkpoint(source, options.backend)
    if options.backend == "torch":
        warn_of_head(checkpoint)
    elif options.precision != EmbedderOptions.precision:
        raise settled("precision")
    settings = vars(filled(EmbedderOptions, options))
    embedder: TextEncoder = load_text_model(checkpoint, "embedder", **settings)
    return embedder


def head_of(options: argparse.Namespace, kind: Kind) -> Any:
    """The model with a head that the options name, which is of this kind.

    Returns:
        As `minibert.encoders.text_models.load_text_model`.

    Raises:
        UsageError: The device does not exist here, or the graph has decided what an option sets.
        ValueError: The checkpoint is of another kind.
    """
    chosen = getattr(options, "backend", None)  # None: the command has no choice
    backend: Any = chosen or "torch"
    precision: Any = getattr(options, "precision", "exact")
    if backend == "onnx" and precision != "fp32":  # the default of the option
        raise UsageError("--backend onnx has the precision of the export: leave --precision out.")
    source = source_of(options)
    check_backend(source, chosen)
    device = check_device(options.device, backend)
    from minibert.encoders.folders.checkpoint import Checkpoint
    from minibert.encoders.folders.kinds import NOUN_OF_KIND
    from minibert.encoders.text_models import load_text_model

    checkpoint = Checkpoint(source, backend)
    max_length = getattr(options, "max_length", None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what would be worth a warning is an error here
        try:
            return load_text_model(
                checkpoint, kind, precision=precision, device=device, max_length=max_length
            )
        except ValueError:
            actual = checkpoint.kind
            if actual == kind or actual not in USES:
                raise
            command = " ".join(USES[actual].split()[:2])
            raise ValueError(
                f"{source} is {NOUN_OF_KIND[actual]}, not {NOUN_OF_KIND[kind]}: use it by "
                f"{command}, or train another one by minibert finetune."
            ) from None


def check_backend(source: Source, backend: str | None) -> None:
    """Check that the model can run in the chosen backend.

    Args:
        source: The model.
        backend: "torch" or "onnx". None: torch, and the command has no other.

    Raises:
        UsageError: The folder holds an ONNX graph and no weights, and the backend is torch.
    """
    if source.folder is None or backend == "onnx":
        return
    folder = source.folder
    names = ("model.safetensors", "pytorch_model.bin", "model.safetensors.index.json")
    has_weights = any((folder / name).is_file() for name in names)
    if (folder / "model.onnx").is_file() and not has_weights:
        advice = "run it with --backend onnx"
        if backend is None:
            advice = "name the model that it was exported from"
        raise UsageError(f"{source} was written by minibert export: {advice}.")


def warn_of_head(checkpoint: Checkpoint) -> None:
    """Warn of a checkpoint that was fine-tuned to classify, rank, tag or answer."""
    from minibert.encoders.folders.kinds import NOUN_OF_KIND

    if checkpoint.kind in ("classifier", "reranker", "tagger", "answers"):
        logger.warning(
            "%s is %s: its hidden states were not trained to be compared as vectors.",
            checkpoint,
            NOUN_OF_KIND[checkpoint.kind],
        )


def model_folder(path: str) -> str:
    """The folder of the model: `path`, or the best model of a run that lies in it."""
    best = os.path.join(path, "best")
    if not os.path.isfile(os.path.join(path, "config.json")) and os.path.isfile(
        os.path.join(best, "config.json")
    ):
        return best
    return path
