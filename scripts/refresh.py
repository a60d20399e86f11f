"""Updates everything in the repository that shows results of a bundled model.

    pip install -c constraints.txt '.[notebooks]' playwright && apt-get install chromium
    python scripts/refresh.py

Run it after a bundled model has changed. It updates the outputs of the examples in the READMEs and
guides, the notebooks that load a bundled model, and the pictures of the pages. It takes some
minutes on two cores. Then check in `git diff` that the texts around the results are still true.
The figures of the model cards come from `recipe.table`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

import guides

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    """Runs the guides, the notebooks and the pictures."""
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
