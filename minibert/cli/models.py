"""`minibert models`: the models and sizes that come with minibert."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from minibert.cli.options import add_json
from minibert.cli.parser import Parser
from minibert.cli.results import print_json

SUMMARY = "List the bundled models, and the sizes that --config names."
EXAMPLE = "--json"
_FIELDS = ("hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size")


def add(parser: Parser) -> None:
    add_json(parser)


def run(options: argparse.Namespace) -> None:
    from minibert.checkpoints.source import BUNDLED_MODELS, preset_file

    models = []
    for folder in sorted(BUNDLED_MODELS.iterdir()):
        config = folder / "config.json"
        if config.is_file():
            models.append(
                {"name": folder.name, "kind": "model", **_sizes(config.read_text("utf-8"))}
            )
    for name in ("tiny", "mini", "small", "medium", "base", "large"):
        text = Path(preset_file(name)).read_text("utf-8")
        models.append({"name": name, "kind": "size", **_sizes(text)})
    if options.json:
        print_json({"output": models})
        return
    for model in models:
        print(
            f"{model['name']:<14} {model['kind']:<6} {model['num_hidden_layers']:>3} layers, "
            f"{model['hidden_size']:>5} dimensions, {model['num_attention_heads']:>3} heads, "
            f"{model['vocab_size']:>7,} tokens"
        )


def _sizes(text: str) -> dict[str, int]:
    config = json.loads(text)
    return {name: config[name] for name in _FIELDS}
