"""READMEs and guides: examples print what the page shows, and links work."""

from __future__ import annotations

import re
from pathlib import Path

import guides
import pytest
from conftest import CHECKOUT
from test_model import PARAMETERS

GENERATED = ("questions.md",)
PAGES = [page for page in guides.pages() if page.name not in GENERATED]
KOREAN = guides.pages(korean=True)
ALL = [*guides.pages(), *KOREAN, CHECKOUT / ".github" / "CONTRIBUTING.md"]
ALL = [page for page in ALL if page.exists()]
WITH_EXAMPLES = [page for page in PAGES if any(block.is_run for block in guides.examples(page))]
WITH_SLOW_EXAMPLES = [
    page for page in PAGES if any(block.is_slow for block in guides.examples(page))
]


def name(page: Path) -> str:
    return page.relative_to(CHECKOUT).as_posix()


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """URLs that an example opens. No browser starts."""
    addresses: list[str] = []
    monkeypatch.setattr("webbrowser.open", addresses.append)
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)
    return addresses


def run(page: Path, slow: bool, subtests: pytest.Subtests) -> None:
    session = guides.Session()
    for example in guides.examples(page):
        if example.missing:
            with subtests.test(example.note):
                pytest.skip(
                    f"{', '.join(example.missing)} not installed: see 'clients' in tests/README.md"
                )
        if not example.is_run or (example.is_slow and not slow):
            continue
        printed = session.run(example)
        if example.output is not None:
            assert guides.is_same(printed, example.output), (
                f"{example.code}prints\n{printed}instead of\n{example.output}"
            )


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("page", WITH_EXAMPLES, ids=name)
def test_the_examples_print_what_the_page_shows(
    page: Path, opened: list[str], subtests: pytest.Subtests
) -> None:
    run(page, False, subtests)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("page", WITH_SLOW_EXAMPLES, ids=name)
def test_the_slow_examples_print_what_the_page_shows(
    page: Path, opened: list[str], subtests: pytest.Subtests
) -> None:
    run(page, True, subtests)


@pytest.mark.parametrize(
    "printed, shown, same",
    [
        ("0.5869  rain\n", "0.5870  rain\n", True),
        ("0.5869  rain\n", "0.6869  rain\n", False),
        ("0.5869  rain\n", "0.5869  snow\n", False),
        ("first\na\nb\nlast\n", "first\n...\nlast\n", True),
        ("first\na\nb\n", "first\n...\nlast\n", False),
        ("0.1  ...\n", "0.1  ...\n", True),
    ],
)
def test_outputs_are_compared(printed: str, shown: str, same: bool) -> None:
    """Words must be equal and numbers close. A line of dots stands for any lines."""
    assert guides.is_same(printed, shown) == same


def without_comments(page: Path) -> list[tuple[str, str | None, str]]:
    """Return the examples of a page without comments, which may be translated."""
    blocks = guides.examples(page)
    return [(re.sub(r" *#.*", "", block.code), block.output, block.note) for block in blocks]


@pytest.mark.parametrize("page", KOREAN, ids=name)
def test_korean_pages_show_the_same_examples(page: Path) -> None:
    english = page.with_name(page.name.replace(".ko.md", ".md"))
    assert without_comments(page) == without_comments(english)


@pytest.mark.parametrize("page", KOREAN, ids=name)
def test_korean_pages_show_the_same_numbers(page: Path) -> None:
    """The numbers in each row of every table are equal."""
    english = page.with_name(page.name.replace(".ko.md", ".md"))
    assert figures(page) == figures(english)


def figures(page: Path) -> list[list[str]]:
    rows = re.findall(r"^\|.*\|$", page.read_text(encoding="utf-8"), re.MULTILINE)
    texts = [re.sub(r"\]\([^)]*\)", "", row) for row in rows]
    return [sorted(re.findall(r"\d(?:[\d,.]*\d)?", text)) for text in texts]


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub names them."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    shown = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading) for heading in headings]
    return {guides.anchor(heading) for heading in shown}


@pytest.mark.parametrize("page", ALL, ids=name)
def test_links(page: Path) -> None:
    """Every link within the repository leads to an existing file and heading."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)
    broken = []
    for target in re.findall(r"\]\((?!https?://|mailto:)([^)\s]+)\)", text):
        file, _, place = target.partition("#")
        path = (page.parent / file).resolve() if file else page
        if not path.exists() or (place and place not in anchors(path)):
            broken.append(target)
    assert not broken


@pytest.mark.parametrize(
    "index", [p for p in ALL if p.parent.name == "docs" and "README" in p.name]
)
def test_the_index_names_every_guide(index: Path) -> None:
    """The index of each language links to its guides, or to the English ones if untranslated."""
    suffix = ".ko.md" if index.name.endswith(".ko.md") else ".md"
    targets = set(re.findall(r"\]\(([\w.-]+\.md)", index.read_text(encoding="utf-8")))
    for page in guides.pages():
        if page.parent.name == "docs" and page.name != "README.md":
            translated = page.with_suffix(suffix)
            assert (translated if translated.exists() else page).name in targets


@pytest.mark.parametrize("page", sorted((CHECKOUT / "docs").glob("training*.md")), ids=name)
def test_sizes(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\w+) \| \d+ \| \d+ \| \d+ \| ([\d,]+) \|$", text, re.MULTILINE)
    assert {preset: int(count.replace(",", "")) for preset, count in rows} == PARAMETERS
