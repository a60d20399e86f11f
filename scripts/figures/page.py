"""Takes the screenshots of `minibert view` and `minibert learn` in docs/figures.

    pip install -c constraints.txt . playwright && apt-get install chromium fonts-nanum
    python scripts/figures/page.py

page.png and learn.png show minibert-en. page.ko.png and learn.ko.png show minibert-ko in Korean and
need a Korean font.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from minibert.learn.build import write_page
from minibert.learn.lesson import article, articles

FIGURES = Path(__file__).resolve().parents[2] / "docs" / "figures"
LOCALES = {"en": "en-US", "ko": "ko-KR"}
TEXTS = {
    "en": "The animal did not cross the street because it was too tired.",
    "ko": "고양이가 창가에서 잠을 자다가 새를 보고 일어났다.",
}
# The scene on one head after its act, with the attention of the first layer open.
OPEN_HEAD = """async () => {
  const { enter, act } = modules["article/lesson.js"];
  const { SCENES } = modules["article/order.js"];
  const { openPart } = modules["views/strip/strip.js"];
  const { partIndex } = modules["views/strip/model-parts.js"];
  await enter(SCENES.findIndex((scene) => scene.id === "head"));
  await act();
  openPart(partIndex("attention", 0));
}"""


def open_page(browser: Any, file: Path, locale: str) -> Any:
    """Opens a file in a window with the size of the screenshots."""
    size = {"width": 1280, "height": 760}
    page = browser.new_page(viewport=size, color_scheme="light", locale=locale)
    page.goto(file.as_uri())
    page.wait_for_selector("html[data-ready]")
    return page


def main() -> None:
    """Takes screenshots of the attention maps and of the article in each language."""
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        for language, locale in LOCALES.items():
            content = articles()[language]
            ending = "png" if language == "en" else f"{language}.png"
            file = Path(folder, f"page.{language}.html")
            write_page(file, content["model"], TEXTS[language])
            page = open_page(browser, file, locale)
            page.click("#tab-attention")
            page.screenshot(path=FIGURES / f"page.{ending}")
            file = Path(folder, f"learn.{language}.html")
            write_page(file, content["model"], content["text"], more=article(language))
            page = open_page(browser, file, locale)
            page.evaluate(OPEN_HEAD)
            page.wait_for_timeout(2000)  # the weights arrive, and the strip comes to rest
            page.screenshot(path=FIGURES / f"learn.{ending}")
        browser.close()


if __name__ == "__main__":
    main()
