"""Measures what the scenes of `minibert learn` conclude from, into minibert/learn/measured_*.json.

    python scripts/measure_scenes.py [en] [ko]

The page itself measures, in a headless Chromium, so that a reader's page can repeat it exactly.
Tests compare the results with PyTorch. It takes some minutes. Run it after a change of a bundled
model, of the sentences, or of an experiment in minibert/learn. `--only NAME` measures one
experiment and keeps the others.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from pathlib import Path

import minibert
from minibert.cli import main as command_line
from minibert.learn.lesson import articles

LEARN = Path(minibert.__file__).parent / "learn"
MEASURE = """async (only) => {
    const used = new Set(SCENES.flatMap((scene) => scene.experiments?.() ?? []));
    const found = {};
    for (const experiment of used) {
        if (only.length && !only.includes(experiment.name)) continue;
        experiment.found = [];
        await experiment.finish(() => true);
        found[experiment.name] = experiment.results;
    }
    return found;
}"""


def rounded(value: object) -> object:
    """Return a result with four digits after the point."""
    if isinstance(value, float):
        return round(value, 4)
    if isinstance(value, list):
        return [rounded(item) for item in value]
    if isinstance(value, dict):
        return {name: rounded(item) for name, item in value.items()}
    return value


def measure(language: str, only: list[str]) -> None:
    """Measure the experiments of one article."""
    from playwright.sync_api import sync_playwright

    target = LEARN / articles()[language]["measured"]
    if not target.exists():
        target.write_text('{"weights": null}', encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        path = Path(folder, "learn.html")
        command_line(["learn", "--model", articles()[language]["model"], "--output", str(path)])
        program = shutil.which("chromium") or shutil.which("google-chrome")
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        page = browser.new_page()
        page.on("pageerror", lambda error: print(error))
        page.set_default_timeout(3_600_000)
        page.goto(path.as_uri())
        page.wait_for_selector("html[data-ready]")
        results = page.evaluate(MEASURE, only)
        weights = page.evaluate("page.live.digest")
        browser.close()
    before = json.loads(target.read_text(encoding="utf-8"))
    kept = before if before.get("weights") == weights else {}
    content = {**kept, **{name: rounded(found) for name, found in results.items()}}
    content["weights"] = weights
    lines = [
        f"{json.dumps(name)}: {json.dumps(found, ensure_ascii=False)}"
        for name, found in content.items()
    ]
    target.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    print(f"{target}: {', '.join(results)}, {target.stat().st_size / 1e6:.2f} MB")


def main() -> None:
    """Measure the articles of the command line, or all."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("languages", nargs="*", choices=[[], *articles()], default=[])
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME")
    options = parser.parse_args()
    for language in options.languages or articles():
        measure(language, options.only)


if __name__ == "__main__":
    main()
