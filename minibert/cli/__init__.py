"""The `minibert` command: plain text for people, `--json` for programs.

A file holds a group of commands, each with a function that declares its options and one that runs
it. What they share is in `options` (each shared option, once), `texts` (where texts come from),
`loading` (models), `results` (what is printed and written), `parser` and `running`. Exit codes: 0
success, 1 the work or the check failed, 2 bad usage, 130 Ctrl-C, 143 SIGTERM. An error is one
sentence on stderr, and `--debug` adds the traceback. A command imports heavy modules only when its
options are valid, so that `--help` and typing errors are answered at once.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Mapping, Sequence

import minibert
from minibert.cli import (
    convert,
    embed,
    evaluate,
    finetune,
    look,
    predict,
    pretrain,
    search,
    serve,
)
from minibert.cli.options import FORMAT, add_common, options_in_lines
from minibert.cli.parser import Command, Parser, nearest_name
from minibert.cli.results import EXPECTED_ERRORS, UsageError
from minibert.cli.running import end_failed, prepared, run_command
from minibert.text.formats import LINES, ROW_FORMATS
from minibert.text.table import Table

GROUPS: Mapping[str, tuple[Command, ...]] = {
    "use": (
        embed.embed,
        search.search,
        predict.rerank,
        predict.classify,
        predict.entities,
        predict.answer,
        predict.fill_mask,
        serve.serve,
    ),
    "learn": (look.learn, look.view, look.tokenize),
    "train": (pretrain.vocab, pretrain.pretrain, finetune.finetune, evaluate.evaluate),
    "check and convert": (
        look.verify,
        look.info,
        convert.convert,
        convert.export,
        look.models,
        look.completion,
    ),
}
DESCRIPTION = "BERT in plain PyTorch, bit-identical to transformers."
ENVIRONMENT = {
    "MINIBERT_API_KEY": "key that clients of minibert serve must send",
    "HF_HOME": "folder of the Hub cache (~/.cache/huggingface)",
    "HF_TOKEN": "token for private models of the Hub",
    "HF_HUB_OFFLINE": "1 uses the Hub cache only, as --offline does",
    "HTTPS_PROXY": "proxy for downloads from the Hub",
    "OMP_NUM_THREADS": "number of threads (one per core)",
    "CUDA_VISIBLE_DEVICES": "GPUs that exist for the command, such as 0,1",
}

MEANINGS = "\n".join(
    f"  {', '.join(form.endings) or 'any other':<18} {form.meaning}"
    for form in (*dict.fromkeys(ROW_FORMATS.values()), LINES)
)
FILES = f"""How files of texts and tables are read. The ending of the name decides:

{MEANINGS}

.gz, .bz2, .xz or .zst may follow. A folder stands for all of its files, and a URI such as
s3://bucket/texts.csv for a file elsewhere. --file - reads stdin. Text is UTF-8, or UTF-16 or
UTF-32 with a byte order mark.

{options_in_lines(Table, "text", *FORMAT)}"""
EXIT_CODES = "0 success, 1 the work or the check failed, 2 bad usage, 130 Ctrl-C, 143 SIGTERM"
TOPICS = {
    "files": FILES,
    "environment": "\n".join(f"{name:<20} {meaning}" for name, meaning in ENVIRONMENT.items()),
    "exit-codes": EXIT_CODES.replace(", ", "\n"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns the exit code."""
    command_line = sys.argv[1:] if arguments is None else list(arguments)
    with prepared(command_line) as messages:
        try:
            options = parse(command_line)
            messages.parser = options.parser
        except EXPECTED_ERRORS as error:  # of help that cannot be printed, or a damaged run.json
            return end_failed("minibert", error)
        return run_command(options)


class _Overview(Parser):
    """The parser of `minibert` itself, whose help lists the commands in their groups."""

    def format_help(self) -> str:
        """Every command with its summary and an example."""
        lines = [f"minibert {minibert.__version__}: {DESCRIPTION}"]
        for group, commands in GROUPS.items():
            lines += ["", group]
            for command in commands:
                lines.append(f"  {command.name:<10} {command.summary}")
                lines.append(f"  {'':<10} minibert {command.name} {command.example}")
        lines += ["", "environment variables"]
        lines += [f"  {name:<20} {meaning}" for name, meaning in ENVIRONMENT.items()]
        lines += [
            "",
            f"exit codes: {EXIT_CODES}",
            "minibert help COMMAND lists the options of a command. minibert --version",
            f"minibert help TOPIC explains {', '.join(TOPICS)}.",
        ]
        return "\n".join(lines) + "\n"


def build_parser(needed: str | None = None) -> Parser:
    """The parser with every command.

    Args:
        needed: the only command whose options are added, because all of them take longer than the
            parsing.
    """
    parser = _Overview(prog="minibert", description=DESCRIPTION)
    about = f"minibert {minibert.__version__} (minibert-torch): {DESCRIPTION}"
    parser.add_argument("--version", action="version", version=about, help="Print the version.")
    parsers = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser)
    for command in itertools.chain.from_iterable(GROUPS.values()):
        command_parser = parsers.add_parser(
            command.name,
            help=command.summary,
            description=command.summary,
            epilog=f"example: minibert {command.name} {command.example}",
        )
        command_parser.set_defaults(run=command.run, root_parser=parser)
        if needed in (None, command.name):
            command.add(command_parser)
            add_common(command_parser)
    parser.commands = dict(parsers.choices)
    return parser


def parse(arguments: list[str]) -> argparse.Namespace:
    """The options of a command line.

    Raises:
        SystemExit: With code 2 for arguments that do not fit, with code 0 after `--help` or
            `--version`.
    """
    named = arguments[1:2] if arguments[:1] == ["help"] else arguments[:1]
    if named == ["completion"]:  # which completes the options of every command
        named = []
    parser = build_parser(*named)
    if not arguments:
        parser.print_help()
        parser.exit(0)
    if arguments[0] == "help":
        if arguments[1:2] and arguments[1] in TOPICS:
            print(TOPICS[arguments[1]])
            parser.exit(0)
        arguments = [*arguments[1:], "--help"]
    first = arguments[0]
    if first.startswith("-") and first not in parser.options_by_name():
        parser.error(f"name a command before its options: minibert COMMAND {first}")
    if not first.startswith("-") and first not in parser.commands:
        nearest = nearest_name(first, parser.commands)
        parser.error(f"unknown command {first!r}{nearest}")
    if first == "finetune":
        try:
            arguments = [first, *finetune.with_task_of_run(arguments[1:])]
        except UsageError as error:
            parser.commands[first].error(str(error))
    options = parser.parse_command_line(arguments)
    if options.command is None:
        parser.error(f"name a command: {', '.join(parser.commands)}")
    options.arguments = arguments
    return options
