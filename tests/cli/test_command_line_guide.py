"""The command-line guide is generated from the parsers, and every help text stands alone."""

from __future__ import annotations

import argparse
import re

import command_line_guide as guide
import pytest
from conftest import CHECKOUT

from minibert.cli.options import PRECISIONS

# a help text that begins with one of these words is a fragment
FRAGMENTS = ("Of", "As", "In", "For", "To", "With", "By", "From", "Than", "Which", "That", "And")
ENVIRONMENT = re.compile(r"environ(?:\.get|\.setdefault)?[(\[]\"([A-Z_]+)\"")


@pytest.mark.parametrize("name", guide.PAGES)
def test_pages_are_up_to_date(name: str) -> None:
    written = (CHECKOUT / "docs" / name).read_text(encoding="utf-8")
    assert written == guide.page(guide.PAGES[name]), (
        "run python scripts/command_line_guide.py --write"
    )


def arguments() -> list[tuple[str, argparse.Action]]:
    return [
        (name, action)
        for _, name, _, parser in guide.commands()
        for action in guide.shown_arguments(parser)
    ]


def test_every_help_text_is_a_sentence() -> None:
    for command, action in arguments():
        words = str(action.help or "").split()
        place = f"{command} {guide.key_of(action)}: {action.help}"
        assert len(words) >= 2, place
        assert words[0].rstrip(",") not in FRAGMENTS, place
        assert words[0][0].isupper() and words[-1].endswith("."), place
        assert ";;" not in str(action.help) and len(words) < 60, place


def test_every_default_and_choice_is_shown() -> None:
    for command, action in arguments():
        text = guide.meaning(guide.ENGLISH, command, action)
        place = f"{command} {guide.key_of(action)}: {text}"
        for choice in action.choices or ():
            assert f"`{choice}`" in text, place
        if action.nargs != 0 and action.default not in (None, [], False):
            assert f"`{action.default}`" in text, place
    text = guide.page(guide.ENGLISH)
    assert all(f"`{precision}`" in text for precision in PRECISIONS)


def test_every_text_has_a_korean_one() -> None:
    """Every argument has a Korean help text, and no Korean text is unused."""
    used = set()
    for command, action in arguments():
        key = guide.key_of(action)
        places = (f"{command} {key}", f"{command.split()[0]} {key}", key)
        translated = [place for place in places if place in guide.KOREAN.helps]
        assert translated, f"scripts/command_line_ko.py has no text for {command} {key}"
        used.update(translated[:1])
    assert set(guide.KOREAN.helps) == used
    assert {name for _, name, _, _ in guide.commands()} == set(guide.KOREAN.summaries)
    for english, korean in (
        (guide.ENGLISH.rules, guide.KOREAN.rules),
        (guide.ENGLISH.environment, guide.KOREAN.environment),
        (guide.ENGLISH.exit_codes, guide.KOREAN.exit_codes),
    ):
        assert english.keys() == korean.keys()


def test_every_environment_variable_is_in_the_table() -> None:
    listed = {name for names in guide.ENVIRONMENT for name in names.split(", ")}
    internal = {"TORCHELASTIC_RESTART_COUNT", "LOCAL_WORLD_SIZE"}  # set by torchrun, not by users
    for path in (CHECKOUT / "minibert").rglob("*.py"):
        for name in ENVIRONMENT.findall(path.read_text(encoding="utf-8")):
            assert name in listed | internal, f"{path}: {name}"
