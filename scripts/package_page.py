"""What a package index shows of the README: a build hook of hatchling, see `[tool.hatch.metadata.hooks.custom]`.

A package page has no files beside it, so links into the repository become links to its public address, at the tag of
this version, and images the files themselves. While there is no address, links become their text and images are left
out. What is installed from a clone in the repository is installed from the index there. The address also gives the
project's URLs.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

# [text](target) and ![text](target), the target not being an address or a place on the page itself
RELATIVE_LINK = re.compile(r"(!?)\[([^\[\]]*)\]\((?!https?://|#)([^)]+)\)")


def package_page(readme: str, address: str, version: str) -> str:
    """The README for a package page.

    Args:
        readme: its Markdown.
        address: of the repository, such as https://github.com/NAME/minibert; "" while there is none.
        version: whose tag holds the files that the links lead to.
    """

    def absolute(link: re.Match[str]) -> str:
        image, text, target = link.groups()
        if not address:
            return "" if image else text
        return f"{image}[{text}]({address}/{'raw' if image else 'blob'}/v{version}/{target})"

    page = RELATIVE_LINK.sub(absolute, readme)
    return re.sub(r"pip install -c constraints\.txt ('?)\.", r"pip install \1minibert-torch", page)


class PackagePage(MetadataHookInterface):
    """Sets `readme` and `urls`, which pyproject.toml calls dynamic."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Called by hatchling with the metadata of pyproject.toml and the version."""
        address = self.config["address"].rstrip("/")
        readme = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        page = package_page(readme, address, metadata["version"])
        metadata["readme"] = {"content-type": "text/markdown", "text": page}
        names = {
            "Repository": "",
            "Changelog": f"/blob/v{metadata['version']}/CHANGELOG.md",
            "Issues": "/issues",
        }
        metadata["urls"] = {name: address + path for name, path in names.items() if address}
