"""The `minibert` command: plain text for people, `--json` for programs.

Exit codes: 0 done, 1 the work or the check failed, 2 bad usage. An error is one sentence on stderr; `--debug` adds
the traceback. Heavy modules are imported by the command that needs them, so that `--help` answers at once.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import minibert
from minibert.files import read_lines

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from minibert.sentences.embedder import SentenceEmbedder

DEFAULT_MODEL = "minibert-tiny"


class UsageError(ValueError):
    """Options that do not go together."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; returns the exit code."""
    options = build_parser().parse_args(arguments)
    warnings.showwarning = _show_warning
    try:
        code: int = options.run(options) or 0
        _flush()  # here and not when Python ends, so that a full disk is an error like any other
    except KeyboardInterrupt:
        print("minibert: stopped", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output has gone, as `head` does
        _drop_output()
        return 1
    except (ValueError, TypeError, OSError, ImportError) as error:
        if options.debug:
            traceback.print_exc()
        print(f"minibert {options.command}: {_sentence(error)}", file=sys.stderr)
        try:
            _flush()
        except OSError:
            _drop_output()
        return 2 if isinstance(error, UsageError) else 1
    return code


def _flush() -> None:
    if sys.stdout is not None:  # closed by the shell
        sys.stdout.flush()


def _drop_output() -> None:
    """Nothing more goes to stdout: Python would try what is left when it ends, and complain."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def build_parser() -> argparse.ArgumentParser:
    """The parser with every command; each command is a function here that calls the library."""
    parser = argparse.ArgumentParser(prog="minibert", description="A small, exact BERT.")
    parser.add_argument("--version", action="version", version=f"minibert {minibert.__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for add in (
        _add_embed,
        _add_search,
        _add_tokenize,
        _add_fill_mask,
        _add_info,
        _add_convert,
        _add_view,
        _add_verify,
    ):
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


def _checkpoint(options: argparse.Namespace) -> str:
    """The model of a command that takes it as an argument, too."""
    if options.name is None:
        return str(options.model)
    if options.model != DEFAULT_MODEL:
        raise UsageError("name the model once, not by --model as well.")
    return str(options.name)


def print_json(content: Any) -> None:
    """One JSON document on stdout."""
    print(json.dumps(content, ensure_ascii=False, allow_nan=False))


def texts_of(options: argparse.Namespace) -> Iterable[str]:
    """The texts of a command, one at a time: its arguments, or the lines of `--file` (`-`: stdin) or of a pipe."""
    if options.texts and options.file:
        raise UsageError("give texts or --file, not both.")
    if options.texts:
        return list(options.texts)
    if options.file is None and (sys.stdin is None or sys.stdin.isatty()):
        raise UsageError("no text given: pass it as arguments, by --file, or through a pipe.")
    return chain.from_iterable(read_lines(name) for name in options.file or ["-"])


def _add_embed(commands: Any) -> None:
    parser = add_command(commands, "embed", _embed, "Turn texts into vectors, on stdout or in files.")
    _add_text_options(parser)
    _add_embedder_options(parser)
    parser.add_argument("--normalize", action=argparse.BooleanOptionalAction, help="vectors of length 1")
    parser.add_argument("--batch-tokens", type=int, help="tokens that go through the model together (default: 2048)")
    parser.add_argument("--prompt", help="put before every text")
    parser.add_argument("--prompt-name", help="a prompt that the model brings, such as query")
    parser.add_argument(
        "--overflow", default="truncate", choices=["truncate", "mean"], help="what to do with long texts"
    )
    parser.add_argument(
        "--out", metavar="FILE", help="write .npy, .safetensors, .jsonl or .parquet, whole or not at all"
    )
    parser.add_argument("--out-dir", metavar="FOLDER", help="write shards; run again to go on after a stop")
    formats = ["npy", "safetensors", "jsonl", "parquet"]
    parser.add_argument("--format", default="npy", choices=formats, help="of the shards (default: %(default)s)")
    parser.add_argument("--shard-size", type=int, default=16384, help="texts in a shard (default: %(default)s)")


def _embed(options: argparse.Namespace) -> None:
    from minibert.sentences.corpus import encode_corpus, encode_file
    from minibert.sentences.vectors import json_line, numbers

    texts = texts_of(options)
    # torchrun tells each of its processes its number and how many there are
    rank, world_size = int(os.environ.get("RANK") or 0), int(os.environ.get("WORLD_SIZE") or 1)
    if options.out and options.out_dir:
        raise UsageError("give --out or --out-dir, not both.")
    if world_size > 1 and not (options.out_dir and options.file and "-" not in options.file):
        raise UsageError("under torchrun give --file and --out-dir: each process writes shards of its own.")
    embedder = _load_embedder(options, options.normalize)
    settings = {name: getattr(options, name) for name in ("prompt", "prompt_name", "overflow", "batch_tokens")}
    settings = {name: value for name, value in settings.items() if value is not None}
    show_progress = rank == 0 and sys.stderr.isatty()
    if options.out_dir:
        report = encode_corpus(
            embedder,
            texts,
            options.out_dir,
            file_format=options.format,
            shard_size=options.shard_size,
            rank=rank,
            world_size=world_size,
            show_progress=show_progress,
            **settings,
        )
    elif options.out:
        report = encode_file(embedder, texts, options.out, show_progress=show_progress, **settings)
    else:
        for window, vectors in embedder.encode_stream(texts, **settings):
            for text, vector in zip(window, vectors, strict=True):
                print(json_line(text, vector) if options.json else " ".join(numbers(vector)))
        return
    if options.json:
        return print_json({"path": options.out or options.out_dir, "dimension": embedder.dimension, **vars(report)})
    skipped = f", {report.skipped} finished shards skipped" if report.skipped else ""
    print(f"{report.lines} texts, {report.tokens} tokens written to {options.out or options.out_dir}{skipped}")
    if report.overlong:
        cut = "were cut there (--overflow mean takes all of them in)"
        done = cut if options.overflow == "truncate" else "were averaged over windows"
        print(f"{report.overlong} texts have more than {embedder.max_length} tokens and {done}")


def _add_search(commands: Any) -> None:
    parser = add_command(commands, "search", _search, "Find the lines of a file that are most similar to a text.")
    parser.add_argument("query", metavar="QUERY")
    parser.add_argument("--corpus", required=True, metavar="FILE", help="texts, one a line (- for stdin)")
    parser.add_argument(
        "--vectors",
        metavar="FILE",
        help="their vectors, as `minibert embed --out FILE.npy` wrote them (with --prompt-name, if the model has a "
        "prompt for documents)",
    )
    parser.add_argument("--top", type=int, default=5, help="lines to show (default: %(default)s)")
    _add_embedder_options(parser)


def _search(options: argparse.Namespace) -> None:
    from minibert.sentences.search import nearest

    embedder = _load_embedder(options)
    texts = list(read_lines(options.corpus))
    # asymmetric models put one prompt before a question and another before what may answer it
    document = next((name for name in ("document", "passage", "corpus") if name in embedder.prompts), None)
    if options.vectors:
        vectors = _read_vectors(options.vectors)
        if len(vectors) != len(texts):
            raise ValueError(
                f"{options.vectors} holds {len(vectors)} vectors, but {options.corpus} {len(texts)} lines."
            )
        if document:
            warnings.warn(f"the vectors should come from minibert embed --prompt-name {document}.", stacklevel=2)
    else:
        vectors = embedder.encode(texts, prompt_name=document, show_progress=sys.stderr.isatty())
    query = embedder.encode(options.query, prompt_name="query" if "query" in embedder.prompts else None)
    rows, scores = nearest(query, vectors, options.top)
    found = [(int(row) + 1, float(score), texts[row]) for row, score in zip(rows[0], scores[0], strict=True)]
    if options.json:
        results = [{"line": line, "score": score, "text": text} for line, score, text in found]
        return print_json({"query": options.query, "results": results})
    for line, score, text in found:
        print(f"{score:.4f}  {line:>6}  {text}")


def _read_vectors(name: str) -> NDArray[np.float32]:
    """The vectors (N, D) of an .npy file, memory-mapped."""
    import numpy as np

    try:
        vectors: NDArray[np.float32] = np.load(name, mmap_mode="r")
    except (ValueError, EOFError):
        raise ValueError(f"{name} is not a whole .npy file; write one with minibert embed --out FILE.npy.") from None
    if not isinstance(vectors, np.ndarray) or vectors.ndim != 2 or vectors.dtype.kind != "f":
        raise ValueError(f"{name} should hold one row of numbers for each text, as minibert embed writes them.")
    return vectors


def _add_embedder_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--pooling", type=lambda names: names.split(","), help="cls, pooler, mean, max or mean_sqrt_len"
    )
    parser.add_argument("--layers", type=_layers, help="last, second_to_last, concat_last_4, ... or numbers: 11,12")
    parser.add_argument(
        "--layer-weights", type=lambda numbers: [float(n) for n in numbers.split(",")], metavar="W,W,..."
    )
    parser.add_argument("--precision", default="fp32", choices=["fp32", "bf16", "int8", "exact"])
    parser.add_argument("--max-length", type=int, help="most tokens of a text (default: what the model says)")


def _layers(choice: str) -> str | list[int]:
    return [int(n) for n in choice.split(",")] if choice[-1:].isdigit() and "_" not in choice else choice


def _load_embedder(options: argparse.Namespace, normalize: bool | None = None) -> SentenceEmbedder:
    from minibert.sentences.embedder import SentenceEmbedder

    return SentenceEmbedder.from_pretrained(
        options.model,
        pooling=options.pooling,
        layers=options.layers,
        layer_weights=options.layer_weights,
        normalize=normalize,
        precision=None if options.precision == "exact" else options.precision,
        max_length=options.max_length,
        **source_options(options),
    )


def _add_tokenize(commands: Any) -> None:
    parser = add_command(commands, "tokenize", _tokenize, "Show the WordPieces of texts, their ids and places.")
    _add_text_options(parser)


def _tokenize(options: argparse.Namespace) -> None:
    from minibert.tokenization.tokenizer import BertTokenizer

    tokenizer = BertTokenizer.from_pretrained(options.model, **source_options(options))
    for text in list(texts_of(options)):  # all are read before anything is printed
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


def _add_fill_mask(commands: Any) -> None:
    parser = add_command(commands, "fill-mask", _fill_mask, "Guess the words behind [MASK] in texts.")
    parser.add_argument("--top", type=int, default=5, help="guesses for each [MASK] (default: %(default)s)")
    _add_text_options(parser)


def _fill_mask(options: argparse.Namespace) -> None:
    from minibert.heads import BertForMaskedLM
    from minibert.predict import fill_mask
    from minibert.tokenization.tokenizer import BertTokenizer

    texts = list(texts_of(options))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what would be worth a warning is an error here
        model = BertForMaskedLM.from_pretrained(options.model, **source_options(options))
    if model.load_report and model.load_report.missing:
        lacking = model.load_report.missing[0]
        raise ValueError(
            f"{options.model} was not trained to fill masks, for it has no {lacking}; pass another --model."
        )
    tokenizer = BertTokenizer.from_pretrained(options.model, **source_options(options))
    for text, masks in zip(texts, fill_mask(model, tokenizer, texts, options.top), strict=True):
        if options.json:
            print_json({"text": text, "masks": masks})
            continue
        if len(texts) > 1:
            print(text)
        for number, guesses in enumerate(masks, 1):
            if len(masks) > 1:
                print(f"{tokenizer.mask_token} {number}")
            for guess in guesses:
                print(f"{guess['score']:.4f}  {guess['token']}")


def _add_info(commands: Any) -> None:
    parser = add_command(commands, "info", _info, "Show a checkpoint's config, tensors and what loading it does.")
    parser.add_argument("name", nargs="?", metavar="MODEL", help="the same as --model")


def _info(options: argparse.Namespace) -> None:
    from dataclasses import asdict

    from minibert.model import BertModel

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the report below says it all
        model = BertModel.from_pretrained(_checkpoint(options), **source_options(options))
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
    from minibert.files import Source
    from minibert.model import BertModel
    from minibert.study import has_pooler, head_class
    from minibert.tokenization.tokenizer import BertTokenizer

    if not options.folder:
        raise UsageError("the folder to write has no name.")
    source = source_options(options)
    # the class that has a place for every tensor, whatever the config calls it, so that the head comes along
    checkpoint = Source(options.model, **source)
    name = head_class(checkpoint, BertConfig.from_pretrained(options.model, **source))
    pooler: Any = {"add_pooling_layer": has_pooler(checkpoint)} if name == "BertModel" else {}
    model = getattr(heads, name, BertModel).from_pretrained(options.model, dtype=options.dtype, **pooler, **source)
    tokenizer = BertTokenizer.from_pretrained(options.model, **source)
    report = model.load_report
    assert report is not None
    if report.missing:
        lacking = ", ".join(report.missing)
        raise ValueError(f"{options.model} is no whole {name}: it lacks {lacking}. Nothing was written.")
    model.save_pretrained(options.folder)
    tokenizer.save_pretrained(options.folder)
    left_out = report.left_out + report.unexpected
    if options.json:
        counts = {"renamed": len(report.renamed), "left_out": left_out}
        return print_json({"folder": options.folder, "architecture": name, **counts})
    print(f"{name} with its tokenizer written to {options.folder} ({len(report.renamed)} tensors renamed).")
    if left_out:
        print(f"Left out, because {name} has no place for them: {', '.join(left_out)}.")
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

    result = verify(_checkpoint(options), options.text or TEXTS, **source_options(options))
    passed = result.passed(options.tolerance)
    if options.json:
        print_json(result.to_dict(options.tolerance))
    else:
        print(result)
        print(f"{'passed' if passed else 'FAILED'}: tolerance {options.tolerance:g}")
    return 0 if passed else 1


def _add_text_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("texts", nargs="*", metavar="TEXT")
    parser.add_argument(
        "--file", action="append", help="read texts from this file, one a line (- for stdin); may be repeated"
    )


def _sentence(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    print(f"minibert: {message}", file=sys.stderr)
