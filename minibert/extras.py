"""Optional dependencies: importing one, and the line that installs its extra where it is missing.

On the package index the name `minibert` belongs to another project, so the distribution is called
`minibert-torch`; the import and the command are called `minibert`.
"""

import importlib
import json
import shlex
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

DISTRIBUTION = "minibert-torch"


def need(module: str, extra: str, purpose: str) -> Any:
    """Imports a module, such as "pyarrow.parquet", that an extra brings.

    Raises:
        ImportError: it is not installed; says for what `purpose` ("Writing .parquet") it is needed,
            and how to get it.
    """
    try:
        return importlib.import_module(module)
    except ImportError:
        package = module.partition(".")[0]
        raise ImportError(
            f"{purpose} needs {package}, which is not installed: {install_line(extra)}"
        ) from None


def install_line(extra: str = "") -> str:
    """The command that installs minibert, with an extra: from the clone that it came from, else from the index."""
    import importlib.metadata  # here: only errors need it

    here, brackets = Path(__file__).parents[1], f"[{extra}]" if extra else ""
    if (
        here / "pyproject.toml"
    ).is_file():  # the clone itself: whoever changes the code wants to go on doing so
        return f"pip install -e {shlex.quote(f'{here}{brackets}')}"
    source = DISTRIBUTION
    with suppress(
        importlib.metadata.PackageNotFoundError, KeyError, ValueError
    ):  # not by pip, or from the index
        url = json.loads(
            importlib.metadata.distribution(DISTRIBUTION).read_text("direct_url.json") or "{}"
        )["url"]
        clone = Path(unquote(urlsplit(url).path))
        if (clone / "pyproject.toml").is_file():
            source = str(clone)
    return f"pip install {shlex.quote(f'{source}{brackets}')}"
