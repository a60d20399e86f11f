"""Writes docs/command-line.md and docs/command-line.ko.md from the parsers of the commands.

    python scripts/command_line_guide.py            exits with 1 if a page is not up to date
    python scripts/command_line_guide.py --write    writes both pages

The English page has the help texts of the options. The Korean one has those of command_line_ko.py.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import command_line_ko

from minibert.cli import GROUPS, build_parser, name_of
from minibert.cli.finetune import TASKS
from minibert.cli.parser import Parser

DOCS = Path(__file__).resolve().parent.parent / "docs"
COMMON = ("-q", "--quiet", "--debug", "-h", "--help")  # described once, above the commands

INTRODUCTION = """\
`minibert help COMMAND` prints the options of a command. This page is made from the same texts by
`scripts/command_line_guide.py`.
"""

RULES = {
    "model": "`-m/--model NAME` names the model: a folder, a bundled model or a Hub id. "
    "`NAME@REVISION` names a branch, tag or commit. `convert` and `export` take `SRC DST`.",
    "output": "`-o/--output PATH` names what is written. Nothing is overwritten without `--force`.",
    "texts": "Texts come as arguments, by `--file`, or through a pipe. Every command that reads "
    "texts reads the same files: lines, .csv, .tsv, .jsonl, .json, .parquet, compressed files, "
    "folders and URIs.",
    "columns": "`--text-column`, `--pair-column`, `--label-column` and `--id-column` name the "
    "columns of a table. `--delimiter` and `--quoting` say how a table of text is written.",
    "results": "Results are printed for people. `--json` prints one document, whose key `output` "
    "has the results or what was written. `--jsonl` prints a line for each result.",
    "device": "`--device` is `cpu`, `cuda`, `cuda:1` or `mps`. Commands that embed and predict "
    "use the CPU unless it is given. Training uses a GPU where there is one, and prints it.",
    "messages": "Messages and warnings go to stderr, through the logger `minibert`. `-q/--quiet` "
    "leaves only errors, and `--debug` adds the traceback of an error.",
}

EXIT_CODES = {
    "0": "success",
    "1": "the work or the check failed",
    "2": "bad usage",
    "130": "stopped by Ctrl-C",
    "143": "stopped by SIGTERM",
}

ENVIRONMENT = {
    "MINIBERT_API_KEY": "Key that clients of `minibert serve` must send.",
    "HF_HOME": "Folder of the Hub cache. Default: `~/.cache/huggingface`.",
    "HF_TOKEN": "Token for private models of the Hub.",
    "HF_HUB_OFFLINE": "1 uses the Hub cache only, as `--offline` does for one command.",
    "HTTPS_PROXY": "Proxy for downloads from the Hub.",
    "OMP_NUM_THREADS": "Number of threads of PyTorch and ONNX Runtime. Default: one per core.",
    "CUDA_VISIBLE_DEVICES": "GPUs that exist for the command, such as `0` or `0,1`.",
    "RANK, WORLD_SIZE, LOCAL_RANK": "Set by torchrun: place of a process among all, their number, "
    "and the GPU of the process.",
    "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "Number of compiled products that oneDNN keeps. "
    "`minibert serve` sets 8192 unless it is set.",
    "LC_ALL, LC_MESSAGES, LANG": "A Korean locale lets `minibert learn` open in Korean.",
    "PYTHONUTF8": "1 reads arguments as UTF-8 where the terminal has another encoding.",
    "NO_PROXY": "Hosts that are reached without a proxy.",
}


@dataclass(frozen=True)
class Language:
    """Texts of a page in one language."""

    title: str
    introduction: str
    rules_title: str
    rules: Mapping[str, str]
    exit_codes_title: str
    exit_codes: Mapping[str, str]
    environment_title: str
    environment_heads: tuple[str, str]
    environment: Mapping[str, str]
    option_heads: tuple[str, str]
    required: str
    default: str
    choices: str
    groups: Mapping[str, str]
    summaries: Mapping[str, str]
    helps: Mapping[str, str]


ENGLISH = Language(
    title="The command line",
    introduction=INTRODUCTION,
    rules_title="What all commands have in common",
    rules=RULES,
    exit_codes_title="Exit codes",
    exit_codes=EXIT_CODES,
    environment_title="Environment variables",
    environment_heads=("variable", "meaning"),
    environment=ENVIRONMENT,
    option_heads=("option", "meaning"),
    required="Required.",
    default="Default: {value}.",
    choices="One of {values}.",
    groups={},
    summaries={},
    helps={},
)
KOREAN = Language(
    title=command_line_ko.TITLE,
    introduction=command_line_ko.INTRODUCTION,
    rules_title=command_line_ko.RULES_TITLE,
    rules=command_line_ko.RULES,
    exit_codes_title=command_line_ko.EXIT_CODES_TITLE,
    exit_codes=command_line_ko.EXIT_CODES,
    environment_title=command_line_ko.ENVIRONMENT_TITLE,
    environment_heads=command_line_ko.ENVIRONMENT_HEADS,
    environment=command_line_ko.ENVIRONMENT,
    option_heads=command_line_ko.OPTION_HEADS,
    required=command_line_ko.REQUIRED,
    default=command_line_ko.DEFAULT,
    choices=command_line_ko.CHOICES,
    groups=command_line_ko.GROUPS,
    summaries=command_line_ko.SUMMARIES,
    helps=command_line_ko.HELPS,
)
PAGES = {"command-line.md": ENGLISH, "command-line.ko.md": KOREAN}


def commands() -> Iterator[tuple[str, str, str, Parser]]:
    """Yields the group, name, summary and parser of each command.

    Each task of `minibert finetune` counts as a command.
    """
    parsers = build_parser().commands
    for group, modules in GROUPS.items():
        for module in modules:
            name = name_of(module)
            parser = parsers[name]
            if name != "finetune":
                yield group, name, module.SUMMARY, parser
                continue
            for task, summary in TASKS.items():
                yield group, f"finetune {task}", summary, parser.commands[task]


def shown_arguments(parser: Parser) -> list[argparse.Action]:
    """Returns the arguments that the section of a command describes."""
    return [
        action
        for action in parser.arguments()
        if action.help != argparse.SUPPRESS and not set(action.option_strings) & set(COMMON)
    ]


def key_of(action: argparse.Action) -> str:
    """Returns the key of an argument in the tables of a language: `--model`, or its metavar."""
    long = [option for option in action.option_strings if option.startswith("--")]
    return long[0] if long else str(action.metavar)


def help_of(language: Language, command: str, action: argparse.Action) -> str:
    """Returns the help text of an argument in a language.

    The most specific entry of `language.helps` is used, or else the text of the parser.
    """
    key = key_of(action)
    command_name = command.split()[0]
    for candidate in (f"{command} {key}", f"{command_name} {key}", key):
        if candidate in language.helps:
            return language.helps[candidate]
    return str(action.help).replace("%%", "%")


def meaning(language: Language, command: str, action: argparse.Action) -> str:
    """Returns the help text with the choices, the default, and whether the option is required."""
    parts = [help_of(language, command, action)]
    if action.choices is not None:
        values = ", ".join(f"`{choice}`" for choice in action.choices)
        parts.append(language.choices.format(values=values))
    if action.option_strings and action.required:
        parts.append(language.required)
    takes_value = action.nargs != 0
    if takes_value and action.default not in (None, [], False, argparse.SUPPRESS):
        parts.append(language.default.format(value=f"`{action.default}`"))
    return " ".join(parts).replace("|", "\\|")


def spelling(action: argparse.Action) -> str:
    """Returns the spellings of an argument with its value, such as `-m, --model NAME`."""
    spellings = ", ".join(action.option_strings)
    if action.nargs == 0 or isinstance(action, argparse.BooleanOptionalAction):
        return f"`{spellings}`"
    value = action.metavar or str(action.dest).upper()
    return f"`{spellings} {value}`" if spellings else f"`{value}`"


def section(language: Language, name: str, summary: str, parser: Parser) -> list[str]:
    """Returns the lines of the section of a command."""
    lines = [f"### minibert {name}", "", language.summaries.get(name, summary), ""]
    arguments = shown_arguments(parser)
    if arguments:
        lines += table(
            language.option_heads,
            {spelling(action): meaning(language, name, action) for action in arguments},
        )
    return lines


def table(heads: tuple[str, str], rows: Mapping[str, str]) -> list[str]:
    """Returns the lines of a table with two columns."""
    lines = [f"| {heads[0]} | {heads[1]} |", "|---|---|"]
    lines += [f"| {key} | {value} |" for key, value in rows.items()]
    return [*lines, ""]


def page(language: Language) -> str:
    """Returns the whole page."""
    lines = [f"# {language.title}", "", language.introduction]
    lines += [f"## {language.rules_title}", ""]
    lines += [f"* {rule}" for rule in language.rules.values()]
    lines += ["", f"## {language.exit_codes_title}", ""]
    codes = [f"{code} {meaning_of_code}" for code, meaning_of_code in language.exit_codes.items()]
    lines += [f"{', '.join(codes)}.", "", f"## {language.environment_title}", ""]
    variables = {_code_names(name): text for name, text in language.environment.items()}
    lines += table(language.environment_heads, variables)
    previous = ""
    for group, name, summary, parser in commands():
        if group != previous:
            lines += [f"## {language.groups.get(group, group.capitalize())}", ""]
            previous = group
        lines += section(language, name, summary, parser)
    return "\n".join(lines).rstrip() + "\n"


def _code_names(names: str) -> str:
    return ", ".join(f"`{name}`" for name in names.split(", "))


def main() -> int:
    """Compares or writes the pages, and returns the exit code."""
    parser = argparse.ArgumentParser(description="Writes or checks the guide of the command line.")
    parser.add_argument("--write", action="store_true", help="Write the pages.")
    options = parser.parse_args()
    code = 0
    for name, language in PAGES.items():
        path = DOCS / name
        text = page(language)
        if options.write:
            path.write_text(text, encoding="utf-8")
        elif not path.is_file() or path.read_text(encoding="utf-8") != text:
            print(f"docs/{name} is not up to date: python {sys.argv[0]} --write")
            code = 1
    return code


if __name__ == "__main__":
    raise SystemExit(main())
