"""Commands that write a model in another form.

`convert` writes config.json and model.safetensors with today's tensor names, `export` an ONNX graph
that runs without PyTorch.
"""

from __future__ import annotations

import argparse
import os

from minibert.cli.loading import source_of
from minibert.cli.options import add_model, add_options
from minibert.cli.parser import Parser, command
from minibert.cli.results import UsageError, claim_folder, report, usage_of
from minibert.inference.precisions import GRAPH_PRECISIONS
from minibert.util.checks import amount


def _is_same_folder(first: str, second: str) -> bool:
    """Whether two paths lead to one folder, which exists."""
    return os.path.isdir(first) and os.path.isdir(second) and os.path.samefile(first, second)


def add_convert(parser: Parser) -> None:
    add_model(parser, default=None, required=True)
    add_options(
        parser,
        "--output",
        metavar="DIR",
        required=True,
        help="Folder to write. That of --model converts it in place.",
    )
    parser.add_argument(
        "--dtype",
        default="auto",
        choices=["auto", "float32", "float16", "bfloat16"],
        help="Type of the written tensors (auto: the checkpoint's).",
    )
    add_options(parser, "--force", "--json")


@command("--model old/checkpoint -o new/folder", add_convert)
def convert(options: argparse.Namespace) -> None:
    """Write a checkpoint as safetensors with today's tensor names."""
    is_in_place = _is_same_folder(options.model, options.output)
    if not is_in_place:
        claim_folder(options.output, options.force)
    source = source_of(options)
    from minibert.checkpoints.model_files import replacing_model
    from minibert.encoders.auto import load_with_heads
    from minibert.encoders.folders.sentence_folder import copy_modules, transformer_folder

    # The class that has a place for every tensor, whatever the config calls it, so that the head is
    # kept. Read as a whole, because a memory-mapped file cannot be replaced on every system.
    folder = transformer_folder(source)
    model, tokenizer = load_with_heads(source.inside(folder), dtype=options.dtype, mmap=False)
    name = type(model).__name__
    loaded = model.load_report
    assert loaded is not None
    if loaded.missing:
        raise ValueError(
            f"{options.model} is not a complete {name}: it lacks {', '.join(loaded.missing)}. "
            "Nothing was written."
        )
    with replacing_model(options.output, whole=not is_in_place) as written:
        model.save_pretrained(written / folder)
        tokenizer.save_pretrained(written / folder)
        if not is_in_place:
            copy_modules(source, written)
    left_out = loaded.left_out + loaded.unexpected
    renamed = len(loaded.renamed)
    sentence = (
        f"{name} with its tokenizer written to {options.output} ({amount(renamed, 'tensor')} "
        "renamed)."
    )
    if left_out:
        sentence += f"\nLeft out, because {name} has no place for them: {', '.join(left_out)}."
    content = {
        "output": options.output,
        "architecture": name,
        "renamed": renamed,
        "left_out": left_out,
    }
    report(options, content, sentence)


def add_export(parser: Parser) -> None:
    add_model(parser, default=None, required=True)
    add_options(parser, "--output", metavar="DIR", required=True, help="Folder to write.")
    parser.add_argument(
        "--precision",
        default="fp32",
        choices=GRAPH_PRECISIONS,
        help="Arithmetic of the graph. int8 quantizes it.",
    )
    parser.add_argument(
        "--heads",
        action="store_true",
        help="Export the heads of a model that could make vectors as well.",
    )
    add_options(parser, "--force", "--json")


@command("--model minibert-en -o out/minibert-en-onnx", add_export)
def export(options: argparse.Namespace) -> None:
    """Write a model as an ONNX graph, which runs without PyTorch."""
    if _is_same_folder(options.model, options.output):
        raise UsageError("--output is the folder of the model itself. Name another folder.")
    claim_folder(options.output, options.force)
    source = source_of(options)
    from minibert.config import BertConfig
    from minibert.encoders.folders.kinds import KIND_OF_CLASS
    from minibert.encoders.onnx.export import export

    done = export(source, options.output, options.precision, options.heads, options.force)
    sentence = (
        f"{done.kind} written to {options.output}. Compared with PyTorch, its values differ by at "
        f"most\n{done.difference:.1e} of the largest one, and the smallest cosine is "
        f"{done.cosine:.6f}."
    )
    config = BertConfig.from_pretrained(options.output)
    usage = usage_of(KIND_OF_CLASS.get(done.kind, "embedder"), options.output, config, "onnx")
    if usage:  # other graphs are used from Python
        sentence += f"\nUse it: {usage}"
    content = {"output": options.output, "precision": options.precision, **done._asdict()}
    report(options, content, sentence)
