"""The guide of thirty questions is what scripts/questions.py writes."""

from __future__ import annotations

import json

import pytest
import questions


@pytest.mark.parametrize("language", ["en", "ko"])
def test_the_guide_has_the_questions_of_the_page(language: str) -> None:
    source = json.loads(questions.SOURCE.read_text(encoding="utf-8"))
    written = questions.GUIDES[language].read_text(encoding="utf-8")
    assert written == questions.guide(source, language), "run python scripts/questions.py"
