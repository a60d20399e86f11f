"""The package as a whole: the cost of importing it, and which modules may import which."""

from __future__ import annotations

import ast
import functools
import graphlib
import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from conftest import CHECKOUT, python_path

import minibert
import minibert.study

PACKAGE = CHECKOUT / "minibert"
# Modules and subpackages. Each imports only from itself and from the entries before it, so that
# config to heads can be read from top to bottom. `base` comes before the model because every
# model has its method `from_pretrained`.
IMPORT_ORDER = [
    "util",
    "__init__",
    "compat",
    "initialization",
    "checkpoints",
    "config",
    "base",
    "outputs",
    "inputs",
    "layouts",
    "parts",
    "embeddings",
    "attention",
    "encoder",
    "model",
    "losses",
    "heads",
    "tokenization",
    "inference",
    "text",
    "encoders",
    "vectors",
    "tasks",
    "serving",
    "training",
    "study",
    "learn",
    "cli",
    "__main__",
]
REFERENCES = {
    "transformers",
    "tokenizers",
    "sentence_transformers",
    "onnxruntime",
    "openvino",
    "langchain_core",
}


def is_module(name: str) -> bool:
    path = CHECKOUT.joinpath(*name.split("."))
    return path.is_dir() or path.with_suffix(".py").exists()


@functools.cache
def imports(path: Path) -> set[str]:
    """Return the modules that a file imports, also in functions and for type checking."""
    imported: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            imported |= names
            # `from minibert.cli import embed` imports a module, but no name of the package itself.
            if not all(is_module(name) for name in names):
                imported.add(node.module)
    return imported


MODULES = sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))


def top_level(module: str) -> str:
    """Return the entry of IMPORT_ORDER that a path or module name belongs to.

    It is "text" for text/read.py and for minibert.text.read.
    """
    return re.split(r"[./]", module.removeprefix("minibert."))[0]


def module_graph() -> dict[str, set[str]]:
    """Map each module to the modules of the package that it imports."""
    paths = {}
    for path in MODULES:
        dotted = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        paths[f"minibert.{dotted}"] = path
    return {name: (imports(PACKAGE / path) & paths.keys()) - {name} for name, path in paths.items()}


@pytest.mark.parametrize("module", MODULES)
def test_a_module_imports_only_earlier_entries(module: str) -> None:
    allowed = IMPORT_ORDER[: IMPORT_ORDER.index(top_level(module)) + 1]
    for name in imports(PACKAGE / module):
        if name.startswith("minibert."):
            assert top_level(name) in allowed, f"{module} imports {name}, which comes after it"


def test_there_is_no_import_cycle() -> None:
    graphlib.TopologicalSorter(module_graph()).prepare()  # CycleError names the cycle


def printed_by(code: str) -> str:
    """Run code in a fresh interpreter and return what it prints."""
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, encoding="utf-8", check=True).stdout.strip()


def test_tokenizing_does_not_import_torch() -> None:
    code = """if True:
        import sys, minibert
        from minibert import BertTokenizer
        tokenizer = BertTokenizer.from_pretrained("minibert-tiny")
        tokenizer(["I love Korea"], return_offsets_mapping=True)
        print("torch" in sys.modules)
    """
    assert printed_by(code) == "False"


def test_computing_imports_what_computes() -> None:
    """A model without parts of a user, called without labels, imports nothing else.

    Neither torch's compiler, which takes as long as torch itself, nor one of the libraries compared
    with, which the public names do not import either.
    """
    code = f"""if True:
        import sys, torch
        from minibert.config import BertConfig
        from minibert.model import BertModel
        config = BertConfig(
            vocab_size=99, hidden_size=32, num_attention_heads=4, num_hidden_layers=2,
            intermediate_size=64,
        )
        BertModel(config)(torch.tensor([[2, 3]])).pooler_output.sum().backward()
        rooms = (
            "checkpoints", "heads", "inputs.explain", "inputs.labels", "parts.custom",
            "tokenization", "util.files",
        )
        found = [name for name in rooms if f"minibert.{{name}}" in sys.modules]
        from minibert import BertModel, BertConfig, BertTokenizer, SentenceEmbedder
        BertTokenizer.from_pretrained("minibert-tiny")
        BertModel(BertConfig.from_preset("tiny"))(torch.tensor([[2, 3]]))
        others = {REFERENCES} | {{
            "huggingface_hub", "sympy", "torch._dynamo", "torch.distributed.tensor"
        }}
        print(found + sorted(others & sys.modules.keys()))
    """
    assert printed_by(code) == "[]"


def test_public_names_are_those_that_type_checkers_see() -> None:
    stubs = (PACKAGE / "__init__.pyi").read_text(encoding="utf-8")
    declared = {
        alias.asname: node.module
        for node in ast.parse(stubs).body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname
    }
    modules = {name: f"minibert.{module}" for name, module in minibert._MODULES.items()}
    assert declared == modules
    assert {"rollout", "check", "show"} <= set(dir(minibert.study))


def test_a_user_script_has_every_public_name() -> None:
    # mypy checks the script in strict mode (pyproject.toml).
    script = (CHECKOUT / "tests" / "samples" / "user_script.py").read_text(encoding="utf-8")
    names = set(minibert.__all__) - {"__version__"}
    assert {name for name in names if not re.search(rf"\b{name}\b", script)} == set()


def test_from_a_zip_archive(tmp_path: Path) -> None:
    """A bundled model can be loaded from an archive, as zipapp and PyInstaller make them."""
    with zipfile.ZipFile(tmp_path / "app.zip", "w") as archive:
        for path in [*PACKAGE.rglob("*"), *(CHECKOUT / "configs").glob("*.json")]:
            if (
                path.is_file()
                and path.suffix != ".pyc"
                and not {"minibert-en", "minibert-ko"} & set(path.parts)
            ):
                inside = PACKAGE if PACKAGE in path.parents else CHECKOUT
                archive.write(path, Path("minibert", path.relative_to(inside)))
    code = """if True:
        import minibert
        assert ".zip" in minibert.__file__
        assert minibert.BertConfig.from_preset("tiny").hidden_size == 128
        embedder = minibert.SentenceEmbedder.from_pretrained("minibert-tiny")
        print(embedder.encode("I love Korea").shape)
    """
    environment = python_path(tmp_path / "app.zip")
    run = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        encoding="utf-8",
        env=environment,
        cwd=tmp_path,
    )
    assert run.stdout.strip() == "(128,)", run.stderr


def test_help_without_docstrings() -> None:
    command = [sys.executable, "-OO", "-m", "minibert", "pretrain", "--help"]
    run = subprocess.run(command, capture_output=True, encoding="utf-8", check=True, cwd=CHECKOUT)
    assert "Number of optimizer steps" in run.stdout


def test_public_names() -> None:
    for name in minibert.__all__:
        assert getattr(minibert, name) is not None
    assert set(minibert.__all__) == set(dir(minibert))
    with pytest.raises(AttributeError, match="module 'minibert' has no attribute 'nothing'"):
        minibert.nothing  # noqa: B018


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("Trainer", "from transformers import Trainer"),
        ("BertLMHeadModel", "without a decoder"),
        ("SentenceTransformer", "SentenceEmbedder.from_pretrained"),
    ],
)
def test_a_name_of_another_library_is_answered_with_what_to_use(name: str, advice: str) -> None:
    with pytest.raises(ImportError, match=advice):
        exec(f"from minibert import {name}")
    with pytest.raises(ImportError, match=advice):
        exec(f"from minibert import BertModel, {name} as another")
    with pytest.raises(AttributeError, match=advice):
        getattr(minibert, name)


@pytest.mark.parametrize("name", ["Trainer", "SentenceTransformer", "nothing"])
def test_a_missing_name_has_a_default(name: str) -> None:
    assert not hasattr(minibert, name)
    assert getattr(minibert, name, "default") == "default"


def test_runtime_dependencies() -> None:
    lines = (CHECKOUT / "pyproject.toml").read_text(encoding="utf-8").splitlines()
    (line,) = [line for line in lines if line.startswith("dependencies = ")]
    names = [part.strip(' "').split(">")[0] for part in line.split("[")[1].rstrip("]").split(",")]
    assert sorted(names) == ["huggingface_hub", "numpy", "safetensors", "torch"]


@pytest.fixture(scope="module")
def imported() -> dict[str, object]:
    """What a fresh interpreter finds when minibert is imported after its dependencies."""
    names = module_graph().keys() - {"minibert.__init__", "minibert.__main__"}
    code = f"""if True:
        import importlib, json, os, signal, sys, threading, warnings
        import huggingface_hub, numpy, safetensors.torch, torch

        hooks = []
        register = getattr(os, "register_at_fork", None)  # Windows has no fork

        def register_and_report(**functions):
            module = sys._getframe(1).f_globals["__name__"]
            if module.startswith("minibert"):
                hooks.append(module)
            register(**functions)

        def state():
            return {{
                "import finders": [str(finder) for finder in sys.meta_path],
                "path hooks": [str(hook) for hook in sys.path_hooks],
                "threads": [thread.name for thread in threading.enumerate()],
                "threads of torch": torch.get_num_threads(),
                "warnings filters": [str(entry) for entry in warnings.filters],
                "signal handlers": [str(signal.getsignal(number)) for number in (2, 15)],
                "variables": sorted(os.environ),
                "fork hooks": hooks[:],
            }}

        before = state()
        if register:
            os.register_at_fork = register_and_report
        import minibert
        for name in dir(minibert):
            getattr(minibert, name)
        after = state()
        changed = {{name: after[name] for name in after if after[name] != before[name]}}
        for name in {sorted(names)}:
            module = importlib.import_module(name)
            for public in dir(module):
                getattr(module, public)
        references = sorted(sys.modules.keys() & {REFERENCES})
        print(json.dumps({{"changed": changed, "references": references}}))
    """
    values: dict[str, object] = json.loads(printed_by(code))
    return values


def test_importing_has_no_side_effects(imported: dict[str, object]) -> None:
    """Importing minibert changes no hook, thread, filter, handler or environment variable."""
    assert imported["changed"] == {}


def test_no_reference_is_imported(imported: dict[str, object]) -> None:
    """Importing every module and public name imports none of the libraries compared with."""
    assert imported["references"] == []
