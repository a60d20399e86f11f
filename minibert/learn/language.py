"""The language of the reader: Korean in a Korean locale, else English."""

import locale
import os
import re


def locale_language() -> str:
    """Return "ko" in a Korean locale, else "en"."""
    names = ("LC_ALL", "LC_MESSAGES", "LANG")
    chosen = next((os.environ[name] for name in names if os.environ.get(name)), None)
    if chosen is None:  # as on Windows, where the names are such as Korean_Korea
        chosen = locale.getlocale()[0] or ""
    return "ko" if re.match(r"(ko|korean)([_.\-]|$)", chosen, re.IGNORECASE) else "en"
