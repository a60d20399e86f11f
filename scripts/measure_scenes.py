"""Measures what the scenes of `minibert learn` conclude from, into their measured.json.

    python scripts/measure_scenes.py [en] [ko]

The page itself measures, in a headless Chromium, so that a reader's page can repeat it exactly.
Tests compare the results with PyTorch. It takes some minutes. Run it after a change of a bundled
model, of the sentences, or of an experiment of a scene. `--only NAME` measures one experiment and
keeps the others. `--only asked` computes the sentence vectors of the phrasings in Ask, into
vectors.json: run it after a change of the other files in minibert/learn/page/ask.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from pathlib import Path

import numpy as np

import minibert
from minibert.cli import main as command_line
from minibert.learn.build import phrasings_digest
from minibert.learn.lesson import articles
from minibert.learn.live import deflated

LARGEST = 6  # of the integers in a shipped vector: they change a cosine by 0.03 on average
PAGE = Path(minibert.__file__).parent / "learn" / "page"
MEASURE = """async (only) => {
    const { SCENES } = modules["article/order.js"];
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
VECTORS = """async () => {
    const { entries, modelLanguage, phrasings } = modules["ask/entries.js"];
    const { computedVector } = modules["ask/search.js"];
    const vectors = [];
    for (const text of entries.flatMap((one) => phrasings(one[modelLanguage()]))) {
        vectors.push(await computedVector(text));
    }
    return vectors;
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


def rounded_vectors(vectors: list[list[float]]) -> dict[str, object]:
    """Return vectors as integers up to `LARGEST`, times one scale, around their mean."""
    middle = np.mean(vectors, axis=0)
    apart = np.array(vectors) - middle
    scale = rounded(float(np.abs(apart).max()) / LARGEST)
    whole = np.rint(apart / scale).astype(np.int8)
    return {
        "scale": scale,
        "middle": rounded(middle.tolist()),
        "whole": deflated(whole.tobytes()),
    }


def measure(language: str, only: list[str]) -> None:
    """Measure the experiments of one article, and the vectors of its language in Ask."""
    from playwright.sync_api import sync_playwright

    target = PAGE / "article" / language / "measured.json"
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
        weights = page.evaluate("modules['state/page.js'].page.live.digest")
        vectors = page.evaluate(VECTORS) if not only or "asked" in only else None
        browser.close()
    if results:
        write_results(target, results, weights)
    if vectors:
        texts = phrasings_digest(language)
        vectors = {"weights": weights, "texts": texts, **rounded_vectors(vectors)}
        write_vectors(PAGE / "ask" / "vectors.json", language, vectors)


def write_results(target: Path, results: dict[str, object], weights: str) -> None:
    """Write the results of experiments, and keep the others of the same weights."""
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


def write_vectors(target: Path, language: str, vectors: dict[str, object]) -> None:
    """Write the vectors of one language, and keep those of the others."""
    content = {**json.loads(target.read_text(encoding="utf-8")), language: vectors}
    lines = [f"{json.dumps(name)}: {json.dumps(own)}" for name, own in sorted(content.items())]
    target.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    print(f"{target}: {language}, {target.stat().st_size / 1e6:.2f} MB")


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
