"""Makes anew what the repository shows of the bundled models, after one of them was changed.

    pip install -c constraints.txt '.[notebooks]' playwright && apt-get install chromium
    python scripts/refresh.py

What the examples of the READMEs and the guides print, in both languages; the notebooks that take a bundled model; the
pictures of the pages. Some minutes on two cores. Then read `git diff`: what the texts around them say must still be so.
The figures of the models' cards come from `recipe.table`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

import guides

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    """Runs all of it."""
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    for page in guides.pages():
        guides.run_page(page, write=True)
    sources = sorted((ROOT / "docs" / "notebooks").glob("*.md"))
    names = [path.stem for path in sources if '"minibert-' in path.read_text(encoding="utf-8")]
    for script, *arguments in (("docs/notebooks/build.py", *names), ("scripts/figures/page.py",)):
        subprocess.run([sys.executable, ROOT / script, *arguments], check=True)


if __name__ == "__main__":
    main()
