"""A known difference still differs, and a page tells of it."""

from __future__ import annotations

import pytest
from conftest import CHECKOUT
from known import KNOWN
from programs import Known


@pytest.mark.parametrize("difference", KNOWN, ids=lambda difference: difference.name)
def test_a_known_difference(difference: Known) -> None:
    page = CHECKOUT.joinpath(difference.page).read_text(encoding="utf-8")
    assert difference.sentence in " ".join(page.split())
    assert difference.still_differs(), "take the entry and the sentence away"
