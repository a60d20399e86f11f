"""Optional dependencies, and the command that installs the extra of a missing one.

On the package index the name `minibert` belongs to another project, so the distribution is called
`minibert-torch`. The import and the command are called `minibert`.
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
    """Import a module of an optional dependency.

    Args:
        module: Name of the module, such as "pyarrow.parquet".
        extra: Extra that installs it. "" if the dependencies bring it.
        purpose: Why it is needed, for the error, such as "Writing .parquet".

    Raises:
        ImportError: It is not installed, and the message has the command that installs it; or it is
            installed and cannot be imported, and the message has the reason.
    """
    package = module.partition(".")[0]
    try:
        return importlib.import_module(module)
    except ImportError as error:
        if isinstance(error, ModuleNotFoundError) and error.name == package:
            raise ImportError(
                f"{purpose} needs {package}, which is not installed: {install_line(extra)}"
            ) from None
        raise ImportError(
            f"{purpose} needs {package}, which is installed, but cannot be imported: {error}"
        ) from error


def install_line(extra: str = "") -> str:
    """Return the command that installs minibert with an extra.

    It installs from the clone that minibert was installed from, else from the package index.
    """
    import importlib.metadata  # here: only errors need it

    brackets = ""
    if extra:
        brackets = f"[{extra}]"
    here = Path(__file__).parents[2]
    if (here / "pyproject.toml").is_file():  # in a clone, whose changes should take effect
        return f"pip install -e {shlex.quote(f'{here}{brackets}')}"
    source = DISTRIBUTION
    # not installed by pip, or installed from the index
    with suppress(importlib.metadata.PackageNotFoundError, KeyError, ValueError):
        distribution = importlib.metadata.distribution(DISTRIBUTION)
        url = json.loads(distribution.read_text("direct_url.json") or "{}")["url"]
        clone = Path(unquote(urlsplit(url).path))
        if (clone / "pyproject.toml").is_file():
            source = str(clone)
    return f"pip install {shlex.quote(f'{source}{brackets}')}"
