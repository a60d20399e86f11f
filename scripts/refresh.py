"""Makes anew what the repository shows of the bundled models, after one of them was changed.

    pip install -c constraints.txt '.[notebooks]' playwright && apt-get install chromium
    python scripts/refresh.py

The outputs of the README's commands, in both languages; the notebooks that take a bundled model; the pictures of the
pages. Some minutes on two cores. Then read `git diff`: what the texts around them say must still be so. The figures
of the models' cards come from `recipe.table`.
"""

from __future__ import annotations

import argparse
import functools
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE = re.compile(
    r"(<!-- example of a command -->\n```bash\n(.*?)```\n\n```text\n)(.*?)(?=```)", re.DOTALL
)


def output(commands: str) -> str:
    """What the commands of an example print with the package beside this script, in an empty folder."""
    script = f'minibert() {{ "{sys.executable}" -m minibert "$@"; }}\n{commands}'
    with tempfile.TemporaryDirectory() as folder:
        return subprocess.run(
            ["bash", "-e", "-c", script],
            stdout=subprocess.PIPE,
            encoding="utf-8",
            check=True,
            timeout=600,
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        ).stdout


def main() -> None:
    """Runs all of it."""
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    printed = functools.cache(output)
    for readme in (ROOT / "README.md", ROOT / "README.ko.md"):
        text = readme.read_text(encoding="utf-8")
        readme.write_text(
            EXAMPLE.sub(lambda found: found[1] + printed(found[2]), text), encoding="utf-8"
        )
    sources = sorted((ROOT / "docs" / "notebooks").glob("*.md"))
    names = [path.stem for path in sources if '"minibert-' in path.read_text(encoding="utf-8")]
    for script, *arguments in (("docs/notebooks/build.py", *names), ("scripts/figures/page.py",)):
        subprocess.run([sys.executable, ROOT / script, *arguments], check=True)


if __name__ == "__main__":
    main()
