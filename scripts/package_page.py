"""Adapts README.md to a package index, as a build hook of hatchling.

pyproject.toml sets it up in `[tool.hatch.metadata.hooks.custom]`. Relative links and pictures refer
to the public address of the repository, at the tag of this version. Without an address, links
become plain text and pictures are left out. Commands that install from a clone become commands that
install from the index. The URLs of the project come from the same address.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

# ![text](target), also inside a link: [![text](target)](link)
IMAGE = re.compile(r"(\[)?!\[([^\[\]]*)\]\(([^)]+)\)(?(1)\]\(([^)]+)\))")
LINK = re.compile(r"(?<!!)\[([^\[\]]+)\]\(([^)]+)\)")
# a line of nothing but links, such as those to the guides and to the README in another language
LONE_LINKS = re.compile(r"^(?:\[[^\[\]]+\]\((?!https?://)[^)]+\)(?: · )?)+\n\n?", re.MULTILINE)
# commands that need a clone
TESTS = re.compile(r" [^\n.]*:\n\n<!-- test command -->\n```bash\n.*?```\n", re.DOTALL)
FROM_A_CLONE = "From a clone of this repository:"
INSTALL = re.compile(r"pip install (?:-c constraints\.txt )?(?:-e )?('?)\.(?=[\[\s'])")


def package_page(readme: str, address: str, version: str) -> str:
    """Returns the README for a package page.

    Args:
        readme: Markdown of README.md.
        address: Public address of the repository, such as https://github.com/NAME/minibert, or "".
        version: Version of the package, whose tag the links refer to. The links of a development
            version, which has no tag, refer to the default branch.
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
    """Hook that sets `readme` and `urls`, which are dynamic in pyproject.toml."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Updates the metadata. hatchling calls this after it has set the version."""
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
