"""`minibert convert`: write a checkpoint in the current format.

The result is config.json and model.safetensors with today's tensor names.
"""

from __future__ import annotations

import argparse

from minibert.cli.loading import source_of
from minibert.cli.options import add_force, add_json, add_offline
from minibert.cli.parser import Parser
from minibert.cli.results import claim_folder, is_same_folder, report
from minibert.files import new_folder

SUMMARY = "Write a checkpoint as safetensors with today's tensor names."
EXAMPLE = "old/checkpoint new/folder"


def add(parser: Parser) -> None:
    parser.add_argument("src", metavar="SRC", help="Checkpoint: a folder or a Hub id.")
    parser.add_argument(
        "dst",
        metavar="DST",
        help="Folder to write. The same as SRC converts that folder in place.",
    )
    add_offline(parser)
    parser.add_argument(
        "--dtype",
        default="auto",
        choices=["auto", "float32", "float16", "bfloat16"],
        help="Type of the written tensors (auto: the checkpoint's).",
    )
    add_force(parser)
    add_json(parser)


def run(options: argparse.Namespace) -> None:
    src, dst = options.src, options.dst
    is_in_place = is_same_folder(src, dst)
    if not is_in_place:
        claim_folder(dst, options.force)
    source = source_of(options, src)
    from minibert.auto import load_with_heads
    from minibert.encoders.copying import copy_modules, transformer_folder

    # The class that has a place for every tensor, whatever the config calls it, so that the head is
    # kept. Read as a whole, because a memory-mapped file cannot be replaced on every system.
    folder = transformer_folder(source)
    model, tokenizer = load_with_heads(source.inside(folder), dtype=options.dtype, mmap=False)
    name = type(model).__name__
    loaded = model.load_report
    assert loaded is not None
    if loaded.missing:
        raise ValueError(
            f"{src} is not a complete {name}: it lacks {', '.join(loaded.missing)}. "
            "Nothing was written."
        )
    with new_folder(dst) as written:
        model.save_pretrained(written / folder)
        tokenizer.save_pretrained(written / folder)
        if not is_in_place:
            copy_modules(source, written)
    left_out = loaded.left_out + loaded.unexpected
    renamed = len(loaded.renamed)
    sentence = f"{name} with its tokenizer written to {dst} ({renamed} tensors renamed)."
    if left_out:
        sentence += f"\nLeft out, because {name} has no place for them: {', '.join(left_out)}."
    content = {"output": dst, "architecture": name, "renamed": renamed, "left_out": left_out}
    report(options, content, sentence)
