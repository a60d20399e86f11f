"""Takes docs/figures/page.png and learn.png, pictures of what `minibert view` and `minibert learn` write.

pip install -c constraints.txt . playwright && apt-get install chromium
python scripts/figures/page.py
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from minibert.page.build import write_page
from minibert.page.lesson import article, articles

TEXT = "The animal did not cross the street because it was too tired."
SCENE = 5  # “it” and the animal
PATCHED = """async () => {
  await enter(SCENE, 1);
  await act();
  while (patching.cells.length < sizes.layers) await new Promise((resolve) => setTimeout(resolve, 100));
  await patchAt(0, 13);
  await judge.latest;
  document.getElementById("scene-found").scrollIntoView();
}"""


def main() -> None:
    """Writes both pages of minibert-en: the one shows its attention maps, the other what one state decides."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    pictures = Path(__file__).resolve().parents[2] / "docs" / "figures"
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        write_page(Path(folder, "page.html"), "minibert-en", TEXT)
        write_page(
            Path(folder, "learn.html"), "minibert-en", articles()["en"]["text"], more=article()
        )
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page(
            viewport={"width": 1280, "height": 760}, color_scheme="light", locale="en-US"
        )
        for name in ("page", "learn"):
            page.goto(Path(folder, f"{name}.html").as_uri())
            page.wait_for_selector("html[data-ready]")
            if name == "page":
                page.click("#tab-attention")
            else:
                page.evaluate(PATCHED.replace("SCENE", str(SCENE)))
                page.wait_for_timeout(500)
            page.screenshot(path=pictures / f"{name}.png")
        browser.close()


if __name__ == "__main__":
    main()
