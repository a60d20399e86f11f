"""Times how fast the article of `minibert learn` opens and responds to edits in headless Chromium.

pip install -c constraints.txt . playwright && apt-get install chromium
python scripts/bench/page.py [REPEATS]
"""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import sync_playwright

from minibert.learn.build import write_page
from minibert.learn.lesson import article, articles

ALIVE = "() => document.documentElement.dataset.ready && document.querySelector('#pieces tbody tr')"
EDIT = """async (text) => {
  const { current } = modules["state/current.js"];
  const field = document.getElementById("edit");
  const began = performance.now();
  field.value = text;
  field.oninput();
  while (current.running || current.shown.request.text !== text)
    await new Promise((resolve) => setTimeout(resolve, 1));
  await new Promise(requestAnimationFrame);
  return performance.now() - began;
}"""


def main(repeats: int) -> None:
    """Opens the article in a new context several times, and edits its sentence."""
    opened, edited = [], []
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        file = Path(folder, "learn.html")
        write_page(file, "minibert-en", articles()["en"]["text"], more=article())
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        for _ in range(repeats):
            page = browser.new_context(offline=True).new_page()
            began = time.perf_counter()
            page.goto(file.as_uri())
            page.wait_for_function(ALIVE)
            opened.append(time.perf_counter() - began)
            # the first edit waits until the weights are unpacked
            page.evaluate(EDIT, articles()["en"]["text"] + " ")
            edited += [
                page.evaluate(EDIT, f"The cat was sleeping on the mat {i}.") for i in range(5)
            ]
            page.context.close()
        browser.close()
    for name, values, unit in (("first scene", opened, "s"), ("an edit", edited, "ms")):
        spread = f"{min(values):.2f} to {max(values):.2f}"
        print(f"{name}: median {statistics.median(values):.2f} {unit}, {spread}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 7)
