"""The `minibert` command: plain text for people, `--json` for programs.

Exit codes: 0 done, 1 the work or the check failed, 2 bad usage. An error is one sentence on stderr; `--debug` adds
the traceback. Heavy modules are imported by the command that needs them, so that `--help` answers at once.
"""

from __future__ import annotations

import argparse
import json
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import minibert

DEFAULT_MODEL = "minibert-tiny"


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; returns the exit code."""
    options = build_parser().parse_args(arguments)
    warnings.showwarning = _show_warning
    try:
        code: int = options.run(options) or 0
    except KeyboardInterrupt:
        print("minibert: stopped", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output has gone, as `head` does
        sys.stderr.close()
        return 1
    except (ValueError, TypeError, OSError, ImportError) as error:
        if options.debug:
            traceback.print_exc()
        print(f"minibert {options.command}: {_sentence(error)}", file=sys.stderr)
        return 1
    return code


def build_parser() -> argparse.ArgumentParser:
    """The parser with every command; each command is a function here that calls the library."""
    parser = argparse.ArgumentParser(prog="minibert", description="A small, exact BERT.")
    parser.add_argument("--version", action="version", version=f"minibert {minibert.__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for add in (_add_tokenize, _add_info, _add_convert, _add_view, _add_verify):
        add(commands)
    return parser


def add_command(commands: Any, name: str, run: Callable[[Any], int | None], summary: str) -> argparse.ArgumentParser:
    """A command with the options that all of them share."""
    parser: argparse.ArgumentParser = commands.add_parser(name, help=summary, description=summary)
    parser.add_argument("--model", default=DEFAULT_MODEL, help="folder, bundled model or Hub id (default: %(default)s)")
    parser.add_argument("--revision", help="branch, tag or commit on the Hub")
    parser.add_argument("--offline", action="store_true", help="never ask the network")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--debug", action="store_true", help="print the traceback of an error")
    parser.set_defaults(run=run)
    return parser


def source_options(options: argparse.Namespace) -> dict[str, Any]:
    """What the command line says about where the model comes from, as `from_pretrained` takes it."""
    return {"revision": options.revision, "local_files_only": options.offline}


def print_json(content: Any) -> None:
    """One JSON document on stdout."""
    print(json.dumps(content, ensure_ascii=False))


def read_lines(options: argparse.Namespace) -> list[str]:
    """The texts of a command: its arguments, or the lines of `--file` (`-` for stdin), or of a piped stdin."""
    if options.texts and options.file:
        raise ValueError("give texts or --file, not both.")
    if options.texts:
        return list(options.texts)
    if options.file is None and sys.stdin.isatty():
        raise ValueError("no text given: pass it as arguments, by --file, or through a pipe.")
    name = options.file or "-"
    data = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    try:
        return data.decode("utf-8").splitlines()
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        where = "stdin" if name == "-" else name
        raise ValueError(f"line {line} of {where} is not UTF-8; convert the file (iconv -t utf-8).") from None


def _add_tokenize(commands: Any) -> None:
    parser = add_command(commands, "tokenize", _tokenize, "Show the WordPieces of texts, their ids and places.")
    _add_text_options(parser)


def _tokenize(options: argparse.Namespace) -> None:
    from minibert.tokenizer import BertTokenizer

    tokenizer = BertTokenizer.from_pretrained(options.model, **source_options(options))
    for text in read_lines(options):
        encoding = tokenizer(text, return_offsets_mapping=True)
        ids, offsets = encoding["input_ids"], encoding["offset_mapping"]
        tokens = tokenizer.convert_ids_to_tokens(ids)
        if options.json:
            spans = [list(span) for span in offsets]
            print_json({"text": text, "tokens": tokens, "input_ids": ids, "offsets": spans})
            continue
        width = max(len(token) for token in tokens)
        for token, token_id, (start, end) in zip(tokens, ids, offsets, strict=True):
            print(f"{token:<{width}}  {token_id:>6}  {start:>4}-{end:<4} {text[start:end]}")


def _add_info(commands: Any) -> None:
    parser = add_command(commands, "info", _info, "Show a checkpoint's config, tensors and what loading it does.")
    parser.add_argument("name", nargs="?", metavar="MODEL", help="the same as --model")


def _info(options: argparse.Namespace) -> None:
    from dataclasses import asdict

    from minibert.model import BertModel

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the report below says it all
        model = BertModel.from_pretrained(options.name or options.model, **source_options(options))
    assert model.load_report is not None
    report, config = asdict(model.load_report), model.config.to_dict()
    tensors = {name: list(parameter.shape) for name, parameter in model.named_parameters()}
    if options.json:
        content = {"config": config, "parameters": model.num_parameters(), "tensors": tensors, "load_report": report}
        return print_json(content)
    print(f"{report.pop('source')}: BERT with {model.num_parameters():,} parameters, {model.dtype}")
    print("\nconfig")
    for name, value in config.items():
        print(f"  {name:<30} {value}")
    print("\ntensors")
    for name, shape in tensors.items():
        print(f"  {name:<60} {' x '.join(map(str, shape))}")
    print("\nloading")
    for group, entries in report.items():
        print(f"  {group.replace('_', ' ')}: {len(entries) or 'none'}")
        for entry in entries:
            print("    " + (entry if isinstance(entry, str) else " -> ".join(map(str, entry))))
    return None


def _add_convert(commands: Any) -> None:
    summary = "Write a checkpoint as config.json + model.safetensors with today's tensor names."
    parser = add_command(commands, "convert", _convert, summary)
    parser.add_argument("folder", help="where to write; made when it does not exist")
    parser.add_argument("--dtype", default="auto", choices=["auto", "float32", "float16", "bfloat16"])


def _convert(options: argparse.Namespace) -> None:
    from minibert import heads
    from minibert.config import BertConfig
    from minibert.model import BertModel
    from minibert.tokenizer import BertTokenizer

    source = source_options(options)
    # the class that the checkpoint was saved from, so that its head comes along
    architectures = BertConfig.from_pretrained(options.model, **source).extra.get("architectures") or ["BertModel"]
    model_class = getattr(heads, str(architectures[0]), BertModel)
    model = model_class.from_pretrained(options.model, dtype=options.dtype, **source)
    assert model.load_report is not None
    model.save_pretrained(options.folder)
    BertTokenizer.from_pretrained(options.model, **source).save_pretrained(options.folder)
    result = {"folder": options.folder, "architecture": model_class.__name__, "renamed": len(model.load_report.renamed)}
    if options.json:
        return print_json(result)
    print(
        f"{model_class.__name__} with its tokenizer written to {options.folder} ({result['renamed']} tensors renamed)."
    )
    return None


def _add_view(commands: Any) -> None:
    parser = add_command(commands, "view", _view, "Write a page to walk through the model on one text.")
    parser.add_argument("text", metavar="TEXT")
    parser.add_argument("--pair", metavar="TEXT", help="a second text, as for next-sentence prediction")
    parser.add_argument(
        "--pad-to", type=int, metavar="N", help="fill up with [PAD] to N tokens, to see the mask at work"
    )
    parser.add_argument("--out", default="page.html", metavar="FILE", help="the page (default: %(default)s)")


def _view(options: argparse.Namespace) -> None:
    from minibert.study.page import write_page

    tokens = write_page(
        options.out, options.model, options.text, options.pair, options.pad_to, **source_options(options)
    )
    if options.json:
        return print_json({"page": options.out, "tokens": tokens, "bytes": Path(options.out).stat().st_size})
    print(f"{options.out} written ({tokens} tokens); open it in a browser.")
    return None


def _add_verify(commands: Any) -> None:
    parser = add_command(commands, "verify", _verify, "Compare a checkpoint with transformers, layer by layer.")
    parser.add_argument("name", nargs="?", metavar="MODEL", help="the checkpoint, as --model names it")
    parser.add_argument(
        "--text", action="append", help="compare on this text (may be repeated) instead of the built-in"
    )
    parser.add_argument(
        "--tolerance", type=float, default=0.0, help="largest difference allowed (default: %(default)s)"
    )


def _verify(options: argparse.Namespace) -> int:
    from minibert.study.verify import TEXTS, verify

    result = verify(options.name or options.model, options.text or TEXTS, **source_options(options))
    passed = result.passed(options.tolerance)
    if options.json:
        print_json(result.to_dict(options.tolerance))
    else:
        print(result)
        print(f"{'passed' if passed else 'FAILED'}: tolerance {options.tolerance:g}")
    return 0 if passed else 1


def _add_text_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("texts", nargs="*", metavar="TEXT")
    parser.add_argument("--file", help="read texts from this file, one a line (- for stdin)")


def _sentence(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    print(f"minibert: {message}", file=sys.stderr)
