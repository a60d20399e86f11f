"""`minibert convert`: a checkpoint as config.json + model.safetensors with today's names."""

from __future__ import annotations

import argparse

from minibert.cli.common import UsageError, report, source_of


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", help="where to write; made when it does not exist")
    parser.add_argument(
        "--dtype", default="auto", choices=["auto", "float32", "float16", "bfloat16"]
    )


def run(options: argparse.Namespace) -> None:
    if not options.folder:
        raise UsageError("the folder to write has no name.")
    source = source_of(options)
    from minibert.auto import load_with_heads

    # the class that has a place for every tensor, whatever the config calls it, so that the head comes along
    # read whole: where a mapped file cannot be replaced, a folder is converted in place all the same
    model, tokenizer = load_with_heads(source, dtype=options.dtype, mmap=False)
    name, loaded = type(model).__name__, model.load_report
    assert loaded is not None
    if loaded.missing:
        lacking = ", ".join(loaded.missing)
        raise ValueError(
            f"{options.model} is not a complete {name}: it lacks {lacking}. Nothing was written."
        )
    model.save_pretrained(options.folder)
    tokenizer.save_pretrained(options.folder)
    left_out, renamed = loaded.left_out + loaded.unexpected, len(loaded.renamed)
    sentence = f"{name} with its tokenizer written to {options.folder} ({renamed} tensors renamed)."
    sentence += (
        f"\nLeft out, because {name} has no place for them: {', '.join(left_out)}."
        if left_out
        else ""
    )
    content = {
        "folder": options.folder,
        "architecture": name,
        "renamed": renamed,
        "left_out": left_out,
    }
    report(options, content, sentence)
