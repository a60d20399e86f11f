"""Takes scripts/figures/page.png, the README's picture of the page that `minibert view` writes.

pip install -c constraints.txt '.[browser]' && apt-get install chromium
python scripts/figures/page.py
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from minibert.study.page.build import write_page

TEXT = "The animal did not cross the street because it was too tired."


def main() -> None:
    """Writes the page of minibert-en on the text, opens its attention maps and takes the picture."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    chromium = shutil.which("chromium")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        write_page(Path(folder, "page.html"), "minibert-en", TEXT)
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1280, "height": 760}, color_scheme="light", locale="en-US")
        page.goto(Path(folder, "page.html").as_uri())
        page.wait_for_selector("html[data-ready]")
        page.click("#tab-attention")
        page.screenshot(path=Path(__file__).with_suffix(".png"))
        browser.close()


if __name__ == "__main__":
    main()
