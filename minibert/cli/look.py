"""Commands that look at a model, a run or the package.

`info` describes a checkpoint (config, tensors, a report of loading it) or a training run (its
curves). `tokenize` shows tokens, `view` and `learn` write pages, `verify` compares a checkpoint
with transformers, `models` lists what is bundled, and `completion` prints a script for the shell.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
import warnings
import webbrowser
from pathlib import Path
from typing import Any

from minibert.checkpoints.source import Source
from minibert.cli.loading import check_device, source_of
from minibert.cli.options import (
    add_device,
    add_model,
    add_options,
    add_results,
    add_texts,
)
from minibert.cli.parser import Once, Parser, command
from minibert.cli.results import (
    ResultPrinter,
    UsageError,
    claim_file,
    claim_picture,
    print_json,
    report,
)
from minibert.cli.texts import rows_of
from minibert.util.checks import amount, warn
from minibert.util.extras import need
from minibert.util.files import parse_json, read_json, read_text
from minibert.util.progress import Progress, counted, is_watched

Curves = dict[str, tuple[list[int], list[float]]]
_NOT_DRAWN = ("step", "epoch", "tokens", "seconds_left", "memory_mb", "precision", "recall")


def add_info(parser: Parser) -> None:
    add_model(
        parser,
        help="Model: a folder, a bundled model or a Hub id (NAME@REVISION), or the folder of a "
        "training run, whose first and last scores are shown.",
    )
    add_options(
        parser,
        "--plot",
        help="Picture of the curves of a run to write (.png, .svg, .pdf).",
    )
    add_options(parser, "--force", "--json")


@command("--model bert-base-uncased", add_info)
def info(options: argparse.Namespace) -> None:
    """Show a checkpoint's config and tensors, and what loading does to it."""
    folder = Path(options.model)
    curves = read_curves(folder / "log.jsonl")
    if options.plot:
        if not curves:
            raise UsageError(
                f"--plot draws the curves of a training run, but {options.model} has no log.jsonl."
            )
        claim_picture(options.plot, options.force)
        plot_curves(curves, options.plot)
        report(options, {"output": options.plot}, f"The curves are in {options.plot}.")
        return
    if not curves or (folder / "config.json").is_file():
        _show_model(options, curves)
    elif options.json:
        print_json({"output": {"curves": curves}})
    if not options.json:
        for name, (steps, values) in curves.items():
            first, last = f"{values[0]:.4g} at step {steps[0]:,}", f"{values[-1]:.4g}"
            print(f"{name:<16} {first}, {last} at {steps[-1]:,}")


def _show_model(options: argparse.Namespace, curves: Curves) -> None:
    source = source_of(options)
    from dataclasses import asdict

    from minibert.checkpoints.hub import DEFAULTS
    from minibert.encoders.folders.checkpoint import Checkpoint
    from minibert.model import BertModel

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the report below has it all
        checkpoint = Checkpoint(source, is_bare=True)
        model = BertModel.from_pretrained(source, state_dict=checkpoint.tensors)
        with_heads = checkpoint.bert(checkpoint.model_class)
        for name in DEFAULTS:
            source.file(name)
    assert model.load_report is not None
    loading = asdict(model.load_report)
    loading["assumed_absent"] = [f"{name}: {DEFAULTS[name]}" for name in source.assumed_absent]
    config = model.config.to_dict()
    tensors = {name: list(parameter.shape) for name, parameter in model.named_parameters()}
    class_name = type(with_heads).__name__
    if options.json:
        content = {
            "config": config,
            "parameters": model.num_parameters(),
            "class": class_name,
            "parameters_with_heads": with_heads.num_parameters(),
            "tensors": tensors,
            "load_report": loading,
        }
        if curves:
            content["curves"] = curves
        print_json({"output": content})
        return
    print(f"{loading.pop('source')}: {class_name}, {model.dtype}")
    print(
        f"  {model.num_parameters():,} parameters in the encoder and pooler (BertModel), listed "
        "below"
    )
    if class_name != "BertModel":
        print(
            f"  {with_heads.num_parameters():,} parameters with the heads, where tensors that are "
            "shared count once"
        )
    print("\nconfig")
    for name, value in config.items():
        print(f"  {name:<30} {value}")
    print("\ntensors")
    for name, shape in tensors.items():
        print(f"  {name:<60} {' x '.join(map(str, shape))}")
    print("\nloading")
    for group, entries in loading.items():
        print(f"  {group.replace('_', ' ')}: {len(entries) or 'none'}")
        for entry in entries:
            line = entry if isinstance(entry, str) else " -> ".join(map(str, entry))
            print(f"    {line}")


def read_curves(log: Path) -> Curves:
    """Read the steps and values of each measure of a training run, or empty without a log."""
    curves: Curves = {}
    if not log.is_file():
        return curves
    finished, _, _ = read_text(log).rpartition("\n")  # a run that goes on may be writing a line
    for number, line in enumerate(finished.splitlines(), 1):
        record = parse_json(line, f"{log}, line {number}", dict)
        for name, value in record.items():
            is_number = isinstance(value, int | float) and math.isfinite(value)
            if is_number and name not in _NOT_DRAWN:
                steps, values = curves.setdefault(name, ([], []))
                steps.append(record.get("step", number))
                values.append(value)
    return curves


def plot_curves(curves: Curves, path: str) -> None:
    """Draws each curve into a panel of one picture."""
    columns = min(2, len(curves))
    rows = -(-len(curves) // 2)
    matplotlib = need("matplotlib.figure", "plot", "Drawing curves")
    figure = matplotlib.Figure(figsize=(5 * columns, 2.5 * rows), layout="constrained")
    for number, (name, (steps, values)) in enumerate(curves.items(), 1):
        axes = figure.add_subplot(rows, columns, number)
        axes.plot(steps, values, marker="." if len(steps) < 30 else "")
        axes.set(title=name, xlabel="step")
    figure.savefig(path)


def add_tokenize(parser: Parser) -> None:
    add_texts(parser, "Text to tokenize. Several may be given.")
    add_model(parser)
    add_results(parser)


@command('"I love Korea"', add_tokenize)
def tokenize(options: argparse.Namespace) -> None:
    """Show the tokens of texts, their ids and their positions."""
    from minibert.tokenization.coverage import warn_of_coverage
    from minibert.tokenization.tokenizer import BertTokenizer

    tokenizer = BertTokenizer.from_pretrained(source_of(options))
    # all are read before anything is printed
    texts = [row.text for row in rows_of(options, texts_alone=True)]
    with ResultPrinter(options) as results:
        if results.as_text:
            warn_of_coverage(tokenizer, texts)
        longest = 0
        for text in counted(texts, "texts", is_watched(printing=True)):
            encoding = tokenizer(text, return_offsets_mapping=True, verbose=False)
            ids = encoding["input_ids"]
            longest = max(longest, len(ids))
            spans = [list(span) for span in encoding["offset_mapping"]]
            tokens = tokenizer.convert_ids_to_tokens(ids)
            width = max(len(token) for token in tokens)
            lines = [
                f"{token:<{width}}  {token_id:>6}  {start:>4}-{end:<4} {text[start:end]}"
                for token, token_id, (start, end) in zip(tokens, ids, spans, strict=True)
            ]
            record = {"text": text, "tokens": tokens, "input_ids": ids, "offsets": spans}
            results.show(record, "\n".join(lines))
    if longest > tokenizer.model_max_length:
        warn(f"a text has {longest} tokens, but the model takes {tokenizer.model_max_length}.")


def add_view(parser: Parser) -> None:
    parser.add_argument(
        "text", metavar="TEXT", nargs="?", help="Text to walk through. Optional with --run."
    )
    add_model(parser)
    parser.add_argument(
        "--pair", action=Once, metavar="TEXT", help="Second text, as for next-sentence prediction."
    )
    parser.add_argument(
        "--pad-to",
        type=int,
        metavar="N",
        help="Number of tokens to pad to with [PAD], which shows the mask at work.",
    )
    parser.add_argument(
        "--run",
        metavar="DIR",
        dest="training",
        help="Folder of a run of minibert pretrain --checkpoints, whose snapshots are shown.",
    )
    add_page_options(parser)


def add_page_options(parser: Parser) -> None:
    """Options of a command that writes a page."""
    add_options(
        parser, "--output", help="Page to write. Default: a temporary file, opened in a browser."
    )
    parser.add_argument(
        "--open",
        action=argparse.BooleanOptionalAction,
        help="Open the page in a browser. Default: only at a terminal, without --output.",
    )
    add_options(parser, "--force", "--json")


@command('"I love Korea" --output page.html', add_view)
def view(options: argparse.Namespace) -> None:
    """Write a page to walk through the model on one text."""
    if options.training is None:
        if options.text is None:
            raise UsageError("give the text to walk through, or --run FOLDER.")
        write(options, source_of(options), options.text)
        return
    from minibert.learn.lesson import PROMPT, run_for_page, snapshots

    source = str(snapshots(options.training)[-1])
    write(options, source, options.text or PROMPT, run=run_for_page(options.training))


def write(options: argparse.Namespace, source: Source | str, text: str, **more: Any) -> None:
    """Writes a page with what else it shows, reports where it is, and opens it if it should."""
    path = options.output
    if path is None:
        path = str(Path(tempfile.mkdtemp(prefix="minibert-"), f"{options.command}.html"))
    claim_file(path, options.force)
    from minibert.learn.build import PAGE_STEPS, write_page

    pair = getattr(options, "pair", None)
    pad_to = getattr(options, "pad_to", None)
    with Progress(is_watched(), PAGE_STEPS, "steps") as progress:
        tokens = write_page(path, source, text, pair, pad_to, progress, more)
    opens = options.open
    if opens is None:
        opens = options.output is None and sys.stdout.isatty()
    address = Path(path).resolve().as_uri()
    hint = "" if opens else " (--open opens it)"
    content = {"output": path, "tokens": tokens, "bytes": Path(path).stat().st_size}
    report(options, content, f"{path} written ({amount(tokens, 'token')}): {address}{hint}")
    if opens and not webbrowser.open(address):
        raise OSError(f"no browser was found. Open {address} in one.")


ARTICLE_MODELS = {"en": "minibert-en", "ko": "minibert-ko"}


def add_learn(parser: Parser) -> None:
    add_model(
        parser,
        default=None,
        help="Model beside the article: a folder, a bundled model or a Hub id. The scenes are "
        "those that fit its pieces. Default: minibert-ko with --lang ko or in a Korean locale, "
        "else minibert-en.",
    )
    parser.add_argument(
        "--lang",
        choices=tuple(ARTICLE_MODELS),
        help="Language of the page when it opens. The page has a switch. "
        "Default: the browser's for the page, the locale's for the model.",
    )
    add_page_options(parser)


@command("--output learn.html", add_learn)
def learn(options: argparse.Namespace) -> None:
    """Open an article in scenes next to a live BERT."""
    from minibert.learn.language import locale_language
    from minibert.learn.lesson import article, articles, fitting_article
    from minibert.tokenization.tokenizer import BertTokenizer

    language = options.lang or locale_language()
    if options.model is None:
        options.model = ARTICLE_MODELS[language]
    source = source_of(options)
    fitting = fitting_article(BertTokenizer.from_pretrained(source), preferred=language)
    more = article(fitting)
    if options.lang is not None:
        more["language"] = options.lang
    write(options, source, articles()[fitting]["text"], **more)


def add_verify(parser: Parser) -> None:
    add_model(parser)
    parser.add_argument(
        "--text",
        action="append",
        metavar="TEXT",
        help="Text to compare on, instead of the built-in ones. May be repeated.",
    )
    parser.add_argument(
        "--tolerance",
        type=float,
        default=0.0,
        metavar="X",
        help="Largest difference allowed (0: equal bits).",
    )
    add_device(parser)
    add_options(parser, "--json")


@command("--model bert-base-uncased", add_verify)
def verify(options: argparse.Namespace) -> int:
    """Compare a checkpoint with transformers, layer by layer."""
    if not 0 <= options.tolerance < math.inf:
        raise UsageError(f"--tolerance should be 0 or more and finite, not {options.tolerance:g}.")
    source = source_of(options)
    need("transformers", "parity", "Comparing with the reference")  # before torch, which is slow
    device = check_device(options.device)
    from minibert.study.verify import STEPS, TEXTS, verify

    with Progress(is_watched(), STEPS, "steps") as progress:
        result = verify(source, options.text or TEXTS, device=device, progress=progress)
    passed = result.passed(options.tolerance)
    if options.json:
        print_json({"output": result.to_dict(options.tolerance)})
    else:
        print(result)
        print(f"{'passed' if passed else 'FAILED'}: tolerance {options.tolerance:g}")
    return 0 if passed else 1


def add_models(parser: Parser) -> None:
    add_options(parser, "--json")


@command("--json", add_models)
def models(options: argparse.Namespace) -> None:
    """List the bundled models, and the sizes that --config names."""
    from minibert.checkpoints.source import BUNDLED_MODELS, preset_file

    configs = [("model", file) for file in sorted(BUNDLED_MODELS.glob("*/config.json"))]
    sizes = ("tiny", "mini", "small", "medium", "base", "large")
    configs += [("size", Path(preset_file(name))) for name in sizes]
    models: list[dict[str, Any]] = []
    for kind, file in configs:
        config = read_json(file)
        name = file.parent.name if kind == "model" else file.stem
        fields = ("hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size")
        models.append({"name": name, "kind": kind, **{field: config[field] for field in fields}})
    if options.json:
        print_json({"output": models})
        return
    for model in models:
        print(
            f"{model['name']:<14} {model['kind']:<6} {model['num_hidden_layers']:>3} layers, "
            f"{model['hidden_size']:>5} dimensions, {model['num_attention_heads']:>3} heads, "
            f"{model['vocab_size']:>7,} tokens"
        )


def add_completion(parser: Parser) -> None:
    parser.add_argument(
        "shell", choices=["bash", "zsh", "fish"], metavar="SHELL", help="Shell: bash, zsh or fish."
    )


@command("bash", add_completion)
def completion(options: argparse.Namespace) -> None:
    """Print a script with which bash, zsh or fish completes commands and options."""
    shtab = need("shtab", "completion", "minibert completion")
    print(shtab.complete(options.root_parser, shell=options.shell))
