"""Importing a name of transformers from minibert raises an error that says where to import it."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

import minibert
import minibert.util


@pytest.mark.parametrize(
    "name",
    [
        "Trainer",
        "pipeline",
        "DataCollatorWithPadding",
        "set_seed",
        "get_linear_schedule_with_warmup",
    ],
)
def test_the_error_says_where_to_import_the_name(name: str) -> None:
    with pytest.raises(ImportError, match=f"from transformers import {name}$"):
        exec(f"from minibert import {name}")
    with pytest.raises(AttributeError, match=name):
        getattr(minibert, name)


def test_other_names_raise_the_usual_errors() -> None:
    assert not hasattr(minibert, "GPT2Model")
    with pytest.raises(ImportError, match="cannot import name"):
        exec("from minibert import GPT2Model")
    assert importlib.import_module("minibert").BertModel is minibert.BertModel


def test_names_of_sentence_transformers_say_what_to_use() -> None:
    for name, advice in {
        "cos_sim": "similarity",
        "paraphrase_mining": "from sentence_transformers.util import",
        "InputExample": "finetune pairs",
        "semantic_search": "minibert.semantic_search",
    }.items():
        with pytest.raises(AttributeError, match=advice):
            getattr(minibert.util, name)
    with pytest.raises(ImportError, match="similarity"):
        exec("from minibert import dot_score")
    assert not hasattr(minibert, "no_such_name") and not hasattr(minibert.util, "no_such_name")
    # a module that is not imported yet is found
    code = "import minibert.util\nfrom minibert.util import devices\nfrom minibert import losses"
    subprocess.run([sys.executable, "-c", code], check=True)
