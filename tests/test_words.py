"""American spelling, in the package and in what is written about it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from conftest import CHECKOUT

# beginnings and forms of words that American English spells in another way
BRITISH = re.compile(
    r"(?i)\b(?:analys(?:ed|er|ers|ing)\b|artefact|behaviour|catalogue|centre|colour"
    r"|defence|favour|fibre|flavour|fulfil\b|grey|honour|labelled|labelling|learnt\b|licence|metre"
    r"|modelled|modelling|neighbour|programme\b|spelt|travelled"
    r"|(?:capital|categor|custom|equal|final|general|initial|local|maxim|memor|minim|normal|optim"
    r"|organ|parallel|penal|quant|random|recogn|regular|serial|special|standard|summar|symbol"
    r"|synchron|token|util|vector|visual)is(?:e|ed|er|ers|es|ing|ation|ations)\b)"
)
# a test of typing errors, and the name of an attribute of HTML
EXEMPT = ("normalise_embeddings", "aria-labelledby")


@pytest.mark.parametrize("folder", ["minibert", "scripts", "tests", "docs"])
def test_spelling_is_american(folder: str) -> None:
    found = []
    for path in sorted((CHECKOUT / folder).rglob("*")):
        if path.suffix not in (".py", ".js", ".css", ".html", ".md", ".sh") or path == Path(
            __file__
        ):
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            words = BRITISH.findall(re.sub("|".join(EXEMPT), "", line).replace("_", " "))
            found += [f"{path.relative_to(CHECKOUT)}, line {number}: {word}" for word in words]
    assert not found
