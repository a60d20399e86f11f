"""The modules of the page: which may import which, and how they become one script."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from minibert.learn.build import MAIN, PAGE, WORKER
from minibert.learn.modules import imports, join

# Folders and files. Each imports only from itself and from the entries before it.
IMPORT_ORDER = ["model", "state", "parts", "views", "article", "ask", "main.js"]
MODULES = sorted(path.relative_to(PAGE).as_posix() for path in PAGE.rglob("*.js"))


def entry(module: str) -> int:
    return IMPORT_ORDER.index(module.split("/")[0])


def reached(module: str) -> Iterator[str]:
    yield module
    for other in imports(PAGE, module):
        yield from reached(other)


@pytest.mark.parametrize("module", MODULES)
def test_a_module_imports_only_earlier_entries(module: str) -> None:
    late = [other for other in imports(PAGE, module) if entry(other) > entry(module)]
    assert late == [], f"{module} imports {late[0]}, which comes after it"


def test_every_module_is_part_of_the_page() -> None:
    assert sorted({*reached(MAIN), *reached(WORKER)}) == MODULES


def test_the_model_knows_no_page() -> None:
    for module in MODULES:
        if module.startswith("model/"):
            code = re.sub(r"//.*|/\*.*?\*/", "", (PAGE / module).read_text("utf-8"), flags=re.S)
            assert not re.search(r"\b(document|window|location|navigator)\b", code), module


def write(folder: Path, **modules: str) -> None:
    for name, source in modules.items():
        (folder / f"{name}.js").write_text(source, encoding="utf-8")


def test_modules_are_joined_in_the_order_of_their_imports(tmp_path: Path) -> None:
    write(
        tmp_path,
        main='import { b } from "./b.js";\nimport { a as first } from "./a.js";\n\nb(first);\n',
        b='import { a } from "./a.js";\n\nexport function b() {\n  return a;\n}\n',
        a="// A.\n\n/**\n * The first.\n */\nexport const a = '// 1'; // kept\n"
        "const own =\n  /** @type {any} */ (2);\n\n/** B. */\nconst b = 3;\n",
    )
    script = join(tmp_path, "main.js")
    assert re.findall(r'^modules\["(.*)"\] = ', script, re.MULTILINE) == ["a.js", "b.js", "main.js"]
    assert 'const {a: first} = modules["a.js"];' in script
    assert "return { a };" in script and "return { b };" in script
    assert "import" not in script and "export" not in script
    # comments with lines of their own stay in the sources
    assert "A." not in script and "The first" not in script and "'// 1'; // kept" in script
    assert "(2);" in script and "B." not in script


def test_modules_that_import_each_other_are_an_error(tmp_path: Path) -> None:
    write(tmp_path, main='import { a } from "./a.js";\n', a='import { b } from "./main.js";\n')
    with pytest.raises(ValueError, match=r"each other: main\.js -> a\.js -> main\.js"):
        join(tmp_path, "main.js")


@pytest.mark.parametrize(
    "line",
    [
        "export default 1;",
        "export let a = 1;",
        "export { a };",
        'import a from "./a.js";',
        'import "./a.js";',
        "export const { a } = b;",
    ],
)
def test_other_forms_of_import_and_export_are_an_error(tmp_path: Path, line: str) -> None:
    """A binding that changes would not change in the modules that import it."""
    write(tmp_path, main=f"{line}\n", a="export const a = 1;\n")
    with pytest.raises(ValueError, match=r"main\.js has a form of import or export .*: "):
        join(tmp_path, "main.js")
