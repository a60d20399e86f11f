"""The package as a whole: what importing costs, which module may import which."""

from __future__ import annotations

import ast
import graphlib
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
# The rooms from the ground up: a module imports only from rooms above it in this list, and from its own room. The
# reading path (config to heads) reads downwards without a jump back; `base` stands before the model because
# `from_pretrained` is a method of every model.
ROOMS = [
    "extras",
    "__init__",
    "files",
    "progress",
    "checks",
    "compat",
    "checkpoints",
    "config",
    "initialization",
    "loading",
    "saving",
    "base",
    "outputs",
    "layouts",
    "custom",
    "embeddings",
    "attention",
    "encoder",
    "model",
    "losses",
    "heads",
    "tokenization",
    "coverage",
    "auto",
    "inference",
    "sentences",
    "corpus",
    "tasks",
    "predict",
    "serving",
    "training",
    "study",
    "page",
    "cli",
    "__main__",
]
REFERENCES = {"transformers", "tokenizers", "sentence_transformers", "onnxruntime", "openvino"}


def is_module(name: str) -> bool:
    path = CHECKOUT.joinpath(*name.split("."))
    return path.is_dir() or path.with_suffix(".py").exists()


def imports(path: Path) -> set[str]:
    """Every module that a file imports, anywhere in it, functions and type checks included."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= names
            # `from minibert.cli import embed` imports a module, and nothing of the package around it
            if not all(is_module(name) for name in names):
                found.add(node.module)
    return found


MODULES = sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))


def room(module: str) -> str:
    """The first name below the package: "sentences" of sentences/corpus.py and of minibert.corpus.shards."""
    return re.split(r"[./]", module.removeprefix("minibert."))[0]


def module_graph() -> dict[str, set[str]]:
    """Module -> the modules of the package that it imports anywhere, functions and type checks included."""
    names = {
        "minibert." + m.removesuffix(".py").removesuffix("/__init__").replace("/", "."): m
        for m in MODULES
    }
    return {
        name: {i for i in imports(PACKAGE / path) if i in names} - {name}
        for name, path in names.items()
    }


@pytest.mark.parametrize("module", MODULES)
def test_a_module_imports_only_from_rooms_above(module: str) -> None:
    own = room(module)
    for name in imports(PACKAGE / module):
        if name.startswith("minibert."):
            above = ROOMS[: ROOMS.index(own) + 1]
            assert room(name) in above, f"{module} imports {name}, which comes after it"


def test_there_is_no_import_circle() -> None:
    graphlib.TopologicalSorter(module_graph()).prepare()  # CycleError names the circle


def test_no_reference_is_imported() -> None:
    """Every module and every public name can be imported without any of the libraries that minibert is compared with."""
    names = module_graph().keys() - {"minibert.__init__", "minibert.__main__"}
    code = f"""if True:
        import importlib, sys
        for name in {sorted(names)}:
            module = importlib.import_module(name)
            for public in dir(module):
                getattr(module, public)
        print(sorted(sys.modules.keys() & {REFERENCES}))
    """
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True
    )
    assert run.stdout.strip() == "[]"


def test_importing_is_light() -> None:
    """`import minibert` imports neither torch nor any reference, nor does tokenizing; the model imports torch alone.

    Nor does it import torch's compiler, which takes as long as torch itself.
    """
    code = f"""if True:
        import sys, minibert
        from minibert import BertTokenizer
        BertTokenizer.from_pretrained("minibert-tiny")(["I love Korea"], return_offsets_mapping=True)
        assert "torch" not in sys.modules
        from minibert import BertModel, BertConfig, SentenceEmbedder
        import torch
        model = BertModel(BertConfig.from_preset("tiny"))
        model(torch.tensor([[2, 3]])).pooler_output.sum().backward()
        assert not sys.modules.keys() & {{"torch._dynamo", "torch.distributed.tensor", "sympy"}}
        print([name for name in sys.modules if name in {REFERENCES} or name == "huggingface_hub"])
    """
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True
    )
    assert run.stdout.strip() == "[]"


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
    # its types are checked by mypy, in strict mode (pyproject.toml)
    script = (CHECKOUT / "tests" / "samples" / "user_script.py").read_text(encoding="utf-8")
    former_names = {"encode_corpus", "encode_file", "open_corpus"}
    names = set(minibert.__all__) - former_names - {"__version__"}
    assert {name for name in names if not re.search(rf"\b{name}\b", script)} == set()


def test_from_a_zip_archive(tmp_path: Path) -> None:
    """As zipapp and PyInstaller pack it: a bundled model is loaded, and a text embedded."""
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
        assert ".zip" in minibert.__file__ and minibert.BertConfig.from_preset("tiny").hidden_size == 128
        print(minibert.SentenceEmbedder.from_pretrained("minibert-tiny").encode("I love Korea").shape)
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


def test_runtime_dependencies() -> None:
    lines = (CHECKOUT / "pyproject.toml").read_text(encoding="utf-8").splitlines()
    (line,) = [line for line in lines if line.startswith("dependencies = ")]
    names = [part.strip(' "').split(">")[0] for part in line.split("[")[1].rstrip("]").split(",")]
    assert sorted(names) == ["huggingface_hub", "numpy", "safetensors", "torch"]
