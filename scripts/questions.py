"""Writes docs/questions.md and docs/questions.ko.md from the questions that the page answers.

    python scripts/questions.py

Run it after every edit of minibert/learn/questions.json. A test compares the guides with that file.
"""

import json
from pathlib import Path
from urllib.parse import urlencode

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "minibert" / "learn" / "questions.json"
WORDS = ROOT / "minibert" / "learn" / "words.json"
GUIDES = {"en": ROOT / "docs" / "questions.md", "ko": ROOT / "docs" / "questions.ko.md"}

HEADS = {
    "en": """# Thirty questions

People ask these about BERT. Each answer has three sentences, and an address that opens the live
page at a view that shows it. Open the page with `minibert learn`, press **Ask**, and type a
question in your own words. Or append an address such as `#ask=pooler` to that of the page.
`minibert view` has the same box for your own model.
""",
    "ko": """# 서른 가지 질문

BERT에 대해 자주 받는 질문입니다. 답은 세 문장이고, 답마다 직접 확인할 수 있는 화면이 있습니다.
`minibert learn --model minibert-ko`로 페이지를 열고 **질문**을 누른 다음 궁금한 점을 편하게
적어 보세요. 아래의 주소를 페이지 주소 뒤에 붙여도 그 화면이 열립니다. 가지고 있는 모델로 보려면
`minibert view`를 사용하세요.
""",
}
LINK_LABELS = {"en": "On the page", "ko": "화면"}


def tab_name(section: str, words: dict[str, str]) -> str:
    """Returns the name of a section's tab."""
    if section == "head":
        return words["head.tab"]
    return words[section]


def guide(questions: list[dict], language: str) -> str:
    """Returns the guide in one language."""
    words = json.loads(WORDS.read_text(encoding="utf-8"))[language]
    parts = [HEADS[language]]
    for number, question in enumerate(questions, 1):
        door = question["door"][language]
        tab = tab_name(door["section"], words)
        address = urlencode({"ask": question["id"]})
        text = door["text"].replace("[", "\\[")
        parts.append(
            f"## {number}. {question[language]['question']}\n\n"
            f"{question[language]['answer'].replace('[', chr(92) + '[')}\n\n"
            f"{LINK_LABELS[language]}: `#{address}` ({tab}, “{text}”)\n"
        )
    return "\n".join(parts)


def main() -> None:
    """Writes both guides."""
    questions = json.loads(SOURCE.read_text(encoding="utf-8"))
    for language, path in GUIDES.items():
        path.write_text(guide(questions, language), encoding="utf-8")


if __name__ == "__main__":
    main()
