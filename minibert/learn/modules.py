"""Joins ES modules to one script, which a page can hold under its content security policy.

A browser loads no module from a page that is a single file. So each module becomes a function with
a scope of its own, in the order of their imports: nothing is renamed, and the exports of all
modules are in the constant `modules`, by their paths. A bundler would do the same, but whoever
installs the package has no Node.js, and whoever changes a module would have to run it.
"""

import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

# The two forms that the page uses: `import { a, b as c } from "./x.js";`, and `export` before a
# declaration. Prettier puts both at the beginning of a line.
_IMPORT = re.compile(r'^import \{([^}]*)\} from "(\.[^"]+)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:const|class|(?:async )?function) (\w+|\$))", re.MULTILINE)
# Comments that have lines of their own. They are a fifth of the sources, and stay there.
_COMMENT = re.compile(r"^ *(?://.*|/\*\*(?:(?!\*/)[\s\S])*\*/)\n", re.MULTILINE)
_OTHER = re.compile(r"^(?:import\b|export\b).*", re.MULTILINE)


def join(folder: Path, main: str) -> str:
    """Return a module and all that it imports as one script.

    Args:
        folder: The folder of all modules.
        main: Path of the module in the folder.

    Raises:
        ValueError: The imports form a circle, or a module uses another form of import or export.
    """
    parts = ['"use strict";', "const modules = {};"]
    parts += [_scope(folder, module) for module in _in_order(folder, main, [], set())]
    return "\n".join(parts)


def imports(folder: Path, module: str) -> list[str]:
    """Return the paths of the modules that a module imports, in its order."""
    return [_resolved(module, match[2]) for match in _IMPORT.finditer(_source(folder, module))]


def _in_order(folder: Path, module: str, above: list[str], seen: set[str]) -> Iterator[str]:
    """Yield a module after all that it imports, each module once.

    Args:
        folder: The folder of all modules.
        module: Path of the module.
        above: The modules that led to it.
        seen: The modules that were yielded before.
    """
    if module in above:
        circle = " -> ".join([*above[above.index(module) :], module])
        raise ValueError(f"the modules of the page import each other: {circle}.")
    if module in seen:
        return
    for other in imports(folder, module):
        yield from _in_order(folder, other, [*above, module], seen)
    seen.add(module)
    yield module


def _scope(folder: Path, module: str) -> str:
    """Return a module as a function that returns its exports."""
    source = _source(folder, module)
    names = _EXPORT.findall(source)

    def constants(match: re.Match[str]) -> str:
        wanted = ", ".join(name.strip() for name in match[1].split(",") if name.strip())
        wanted = wanted.replace(" as ", ": ")
        return f'const {{{wanted}}} = modules["{_resolved(module, match[2])}"];\n'

    body = _EXPORT.sub("", _IMPORT.sub(constants, _COMMENT.sub("", source)))
    other = _OTHER.search(body)
    if other:
        raise ValueError(f"{module} has a form of import or export that is not joined: {other[0]}")
    exported = f"return {{ {', '.join(names)} }};"
    return f'modules["{module}"] = (() => {{\n{body.strip()}\n{exported}\n}})();'


def _resolved(module: str, target: str) -> str:
    """Return the path of a module that another one imports."""
    path = PurePosixPath(module).parent
    for part in target.split("/"):
        path = path.parent if part == ".." else path / part
    return str(path)


def _source(folder: Path, module: str) -> str:
    return (folder / module).read_text(encoding="utf-8")
