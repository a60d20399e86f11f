"""The package as a whole: what importing costs, which module may import which, how long files are."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import CHECKOUT

import minibert

PACKAGE = CHECKOUT / "minibert"
# A reader goes from the top down, and each module imports only from those above it. DESIGN's order, with the modules
# that know about files before the model: `from_pretrained` is a method of every model, so it has to stand above them.
READING_ORDER = [
    "__init__",
    "files",
    "config",
    "outputs",
    "wordpiece",
    "vocabulary",
    "encoding",
    "tokenizer_files",
    "tokenizer",
    "layouts",
    "checkpoint",
    "layers",
    "embeddings",
    "attention",
    "encoder",
    "model",
    "heads",
    "batching",
    "predict",
    "kernels",
    "inference",
    "pooling",
    "sentence_folder",
    "embedder",
    "vector_files",
    "corpus",
]
REFERENCES = {"transformers", "tokenizers", "sentence_transformers", "onnxruntime", "openvino"}
# where a reference is the point: comparing with it, and training a vocabulary with it
ALLOWED = {"study/verify.py": {"transformers"}, "training/vocab.py": {"tokenizers"}}


def imports(path: Path) -> set[str]:
    """Every module that a file imports, anywhere in it, but for what only the type checker sees."""
    found: set[str] = set()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    tree.body = [node for node in tree.body if not (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node))]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            if node.module == "minibert":
                found |= {f"minibert.{alias.name}" for alias in node.names}
    return found


MODULES = sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("module", [m for m in MODULES if "/" not in m and Path(m).stem in READING_ORDER[1:]])
def test_a_module_imports_only_from_above(module: str) -> None:
    above = READING_ORDER[: READING_ORDER.index(Path(module).stem)]
    for name in imports(PACKAGE / module):
        if name.startswith("minibert."):
            assert name.split(".")[1] in above, f"{module} imports {name}, which comes after it"


def test_every_core_module_has_its_place() -> None:
    outside = {"cli", "search", "__main__"}
    assert {Path(m).stem for m in MODULES if "/" not in m} <= {*READING_ORDER, *outside}


@pytest.mark.parametrize("module", MODULES)
def test_no_reference_is_imported(module: str) -> None:
    roots = {name.split(".")[0] for name in imports(PACKAGE / module)}
    assert not (roots & REFERENCES) - ALLOWED.get(module, set())


@pytest.mark.parametrize("module", MODULES)
def test_a_file_is_read_in_one_sitting(module: str) -> None:
    assert len((PACKAGE / module).read_text(encoding="utf-8").splitlines()) <= 500


def test_the_model_is_short_and_plain() -> None:
    """The four files that are the model: under 500 lines, no files, no types of numbers, no branch for speed."""
    files = [PACKAGE / f"{name}.py" for name in ("model", "embeddings", "attention", "encoder")]
    assert sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files) < 500
    for path in files:
        assert not imports(path) & {"os", "pathlib", "json", "safetensors", "minibert.files", "minibert.inference"}
        words = {node.id for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Name)}
        assert not words & {"fast", "is_cuda", "precision", "bfloat16", "float16"}


def test_importing_is_light() -> None:
    """`import minibert` imports neither torch nor any reference; using the model imports torch and no reference."""
    code = f"""if True:
        import sys, minibert
        assert "torch" not in sys.modules
        from minibert import BertModel, BertTokenizer, BertConfig
        BertModel(BertConfig.from_preset("tiny"))
        print([name for name in sys.modules if name in {REFERENCES} or name == "huggingface_hub"])
    """
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_public_names() -> None:
    for name in minibert.__all__:
        assert getattr(minibert, name) is not None
    assert set(minibert.__all__) <= set(dir(minibert))
    with pytest.raises(AttributeError, match="module 'minibert' has no attribute 'nothing'"):
        minibert.nothing  # noqa: B018


def test_runtime_dependencies() -> None:
    lines = (CHECKOUT / "pyproject.toml").read_text().splitlines()
    (line,) = [line for line in lines if line.startswith("dependencies = ")]
    names = [part.strip(' "').split(">")[0] for part in line.split("[")[1].rstrip("]").split(",")]
    assert sorted(names) == ["huggingface_hub", "numpy", "safetensors", "torch"]
