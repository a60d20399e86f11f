"""The guide of thirty questions equals the output of scripts/questions.py."""

from __future__ import annotations

import json

import pytest
import questions


@pytest.mark.parametrize("language", ["en", "ko"])
def test_the_guide_is_up_to_date(language: str) -> None:
    source = json.loads(questions.SOURCE.read_text(encoding="utf-8"))
    written = questions.GUIDES[language].read_text(encoding="utf-8")
    assert written == questions.guide(source, language), "run python scripts/questions.py"
