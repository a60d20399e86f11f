"""Make what a package index shows of the README: a build hook of hatchling, `[tool.hatch.metadata.hooks.custom]`.

A package page has no files beside it. Links into the repository become links to its public address, at the tag of this
version, and so do the pictures. Without an address, a link becomes its text, and pictures are left out. Commands that
install from a clone install from the index there. The address also gives the project's URLs.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

# ![text](target), also inside a link: [![text](target)](link)
IMAGE = re.compile(r"(\[)?!\[([^\[\]]*)\]\(([^)]+)\)(?(1)\]\(([^)]+)\))")
LINK = re.compile(r"(?<!!)\[([^\[\]]+)\]\(([^)]+)\)")
# a line that is nothing but links, such as those to the guides and to the README in another language
LONE_LINKS = re.compile(r"^(?:\[[^\[\]]+\]\((?!https?://)[^)]+\)(?: · )?)+\n\n?", re.MULTILINE)
# what only a clone can do
TESTS = re.compile(r" [^\n.]*:\n\n<!-- test command -->\n```bash\n.*?```\n", re.DOTALL)
FROM_A_CLONE = "From a clone of this repository:"
INSTALL = re.compile(r"pip install (?:-c constraints\.txt )?(?:-e )?('?)\.(?=[\[\s'])")


def package_page(readme: str, address: str, version: str) -> str:
    """Return the README for a package page.

    Args:
        readme: Its Markdown.
        address: Public address of the repository, such as https://github.com/NAME/minibert, or "".
        version: Version whose tag holds the files that the links lead to. A development version has no tag: its links
            lead to the default branch.
    """
    reference = f"v{version}"
    if ".dev" in version:
        reference = "HEAD"

    def resolved(target: str, kind: str) -> str:
        if target.startswith(("https://", "http://")):
            return target
        if target.startswith("#"):  # a package page has no ids at its headings
            return f"{address}{target}"
        return f"{address}/{kind}/{reference}/{target}"

    def image(match: re.Match[str]) -> str:
        linked, text, target, link = match.groups()
        if not address and not target.startswith("https://"):
            return ""
        picture = f"![{text}]({resolved(target, 'raw')})"
        if linked and (address or link.startswith("https://")):
            return f"[{picture}]({resolved(link, 'blob')})"
        return picture

    def link(match: re.Match[str]) -> str:
        text, target = match.groups()
        if not address and not target.startswith("https://"):
            return text
        return f"[{text}]({resolved(target, 'blob')})"

    if not address:
        readme = LONE_LINKS.sub("", readme)
    readme = TESTS.sub("\n", readme).replace(FROM_A_CLONE, "From the package index:")
    page = LINK.sub(link, IMAGE.sub(image, readme))
    page = re.sub(r"\n{3,}", "\n\n", page)
    return INSTALL.sub(r"pip install \1minibert-torch", page)


class PackagePage(MetadataHookInterface):
    """Sets `readme` and `urls`, which pyproject.toml calls dynamic."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set them in the metadata of pyproject.toml, which has the version; hatchling calls this."""
        address = self.config["address"].rstrip("/")
        version = metadata["version"]
        readme = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        page = package_page(readme, address, version)
        metadata["readme"] = {"content-type": "text/markdown", "text": page}
        metadata["urls"] = {}
        if address:
            metadata["urls"] = {
                "Homepage": address,
                "Documentation": f"{address}/tree/HEAD/docs",
                "Repository": address,
                "Changelog": f"{address}/blob/HEAD/CHANGELOG.md",
                "Issues": f"{address}/issues",
            }
