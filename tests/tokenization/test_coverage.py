"""Texts that a vocabulary cannot read are reported wherever they meet a model, once."""

from __future__ import annotations

import unicodedata
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tiny_folder import LINES, tiny_folder

import minibert
from minibert import (
    BertTokenizer,
    CrossEncoder,
    SentenceEmbedder,
    answer_question,
    classify,
    encode_to_shards,
    find_entities,
)
from minibert.cli import main
from minibert.encoders.filler import Filler
from minibert.tokenization.coverage import unread_warning

KOREAN = ["고양이가 소파에서 잔다", "비가 많이 옵니다", "나는 네 꿈을 꿔"]
DECOMPOSED = [unicodedata.normalize("NFD", text) for text in KOREAN]


@pytest.mark.parametrize(
    ("model", "texts", "advice"),
    [
        ("minibert-ko", DECOMPOSED, "NFC"),
        ("minibert-en", KOREAN, "Try minibert-ko"),
        ("minibert-en", DECOMPOSED, "Try minibert-ko"),
        ("minibert-en", ["정말 재미있는 영화였다"], "Try minibert-ko"),  # letters and [UNK]
        ("minibert-ko", ["我喜欢猫", "今天下雨"], "Another model"),
        ("minibert-en", ["Кошка спит на диване"], "cannot read the text"),
        ("minibert-ko", ["แมวกำลังนอน"], "Another model"),
        ("minibert-tiny", ["แมวกำลังนอน 12"], "Another model"),
        ("minibert-ko", ["The cat sleeps.", "Where is my book?"], "cannot read 2 of 2 texts"),
        ("minibert-ko", ["It rains in Seoul."], "Try minibert-en"),
        ("minibert-ko", [*KOREAN, "Qu'est-ce que c'est déjà?"], "cannot read 1 of 4 texts"),
    ],
)
def test_what_cannot_be_read_and_what_helps(model: str, texts: list[str], advice: str) -> None:
    message = unread_warning(BertTokenizer.from_pretrained(model), texts)
    assert "cannot read" in message and advice in message


@pytest.mark.parametrize(
    ("model", "texts"),
    [
        ("minibert-ko", [*KOREAN, "비가 와", "ㅋㅋ 재밌다", "KBS, MBC, SBS, LG", "12.5 kg", ""]),
        ("minibert-ko", ["1 + 1 = 2 (3:45)", "LG전자 TV를 샀다", "👍👍👍", "2024. 5. 3."]),
        (
            "minibert-en",
            [
                "Pneumonoultramicroscopic",
                "x = f(a, b, c)",
                "Où est la gare?",
                "naïve café",
                "“quoted” — 5 €",
                "I love it 😀",
                "",
            ],
        ),
    ],
)
def test_ordinary_texts_can_be_read(model: str, texts: list[str]) -> None:
    assert unread_warning(BertTokenizer.from_pretrained(model), texts) == ""


def test_a_small_vocabulary_has_the_script_of_most_of_its_words() -> None:
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    letters = [prefix + letter for letter in "catdoghewin" for prefix in ("", "##")]
    tokenizer = BertTokenizer([*special, *dict.fromkeys(letters), "the", "고양이"])
    assert unread_warning(tokenizer, ["a cat and a dog"]) == ""
    tokenizer = BertTokenizer([*special, *dict.fromkeys(letters), "고양이", "강아지", "the"])
    assert "cannot read the text" in unread_warning(tokenizer, ["hi a cat"])


def test_the_whole_input_is_looked_at() -> None:
    tokenizer = BertTokenizer.from_pretrained("minibert-ko")
    texts = [*KOREAN * 100, DECOMPOSED[0]]
    assert "cannot read 1 of 301 texts" in unread_warning(tokenizer, texts)


def test_encoding_warns_once_and_changes_no_vector(tmp_path: Path) -> None:
    embedder = SentenceEmbedder.from_pretrained(tiny_folder(tmp_path / "m"), precision=None)
    with pytest.warns(UserWarning, match="cannot read 3 of 50 texts") as record:
        vectors = embedder.encode([*LINES, *KOREAN])
    assert len(record) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.array_equal(embedder.encode([*LINES, *KOREAN]), vectors)


@pytest.mark.parametrize("processes", [1, 2])
def test_a_corpus_is_counted_over_all_its_parts(processes: int, tmp_path: Path) -> None:
    embedder = SentenceEmbedder.from_pretrained("minibert-tiny")
    texts = [*["the cat sleeps"] * 5, *KOREAN * 3, "the dog"]
    with pytest.warns(UserWarning, match="cannot read 9 of 15 texts.*Try minibert-ko") as record:
        encode_to_shards(embedder, texts, tmp_path / "v", shard_size=4, processes=processes)
    assert len(record) == 1
    assert encode_to_shards(embedder, texts, tmp_path / "v").skipped == 4


def test_the_beginning_of_a_long_corpus_is_reported_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("minibert.encoders.text_encoder.CHUNK_TEXTS", 4)
    embedder = SentenceEmbedder.from_pretrained("minibert-tiny")
    read = []

    def texts() -> Iterator[str]:
        for number, text in enumerate([*KOREAN, "the cat", *["the dog"] * 8, KOREAN[0]]):
            read.append(len(record))
            yield f"{text} {number}"

    with pytest.warns(UserWarning) as record:
        encode_to_shards(embedder, texts(), tmp_path / "v", shard_size=4)
    assert read == [*[0] * 4, *[1] * 9]
    first, last = (str(warning.message) for warning in record)
    assert "cannot read 3 of the first 4 texts" in first and "cannot read 4 of 13 texts" in last


def test_a_stream_is_counted_over_all_its_chunks() -> None:
    embedder = SentenceEmbedder.from_pretrained("minibert-tiny")
    with pytest.warns(UserWarning, match="cannot read 9 of 12 texts") as record:
        list(embedder.encode_stream([*KOREAN * 3, *["the dog"] * 3], chunk_size=2))
    assert len(record) == 1


def test_scores_and_shards_warn_too(tmp_path: Path) -> None:
    folder = tiny_folder(tmp_path / "m")
    with pytest.warns(UserWarning, match="cannot read 1 of 1 text|cannot read the text"):
        encode_to_shards(
            SentenceEmbedder.from_pretrained(folder), KOREAN[:1], tmp_path / "v", shard_size=2
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it has no classifier
        reranker = CrossEncoder.from_pretrained(folder, precision=None)
    with pytest.warns(UserWarning, match="cannot read"):
        reranker.predict([("고양이", text) for text in KOREAN])


def test_a_search_says_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("\n".join(DECOMPOSED), encoding="utf-8")
    assert main(["search", "비", "--model", "minibert-ko", "--corpus", str(corpus)]) == 0
    error = capsys.readouterr().err
    assert error.count("cannot read") == 1 and "NFC" in error


def test_a_model_with_a_head_says_it_once(tmp_path: Path) -> None:
    folder = tiny_folder(tmp_path / "m")
    config = minibert.BertConfig.from_pretrained(folder)
    tokenizer = BertTokenizer.from_pretrained(folder)
    filler = Filler(minibert.BertForMaskedLM(config).eval(), tokenizer)
    texts = [*[line for line in LINES if line][:2], KOREAN[0]]
    with pytest.warns(UserWarning, match="cannot read 1 of 3 texts"):
        filler.fill_mask([f"{text} [MASK]" for text in texts])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        filler.fill_mask([f"{text} [MASK]" for text in texts])
    for head, predict in (
        ("BertForSequenceClassification", lambda model: classify(*model, texts)),
        ("BertForTokenClassification", lambda model: find_entities(*model, texts)),
        ("BertForQuestionAnswering", lambda model: answer_question(*model, texts, texts)),
    ):
        model = getattr(minibert, head)(config).eval()
        with pytest.warns(UserWarning, match="cannot read 1 of 3 texts"):
            predict((model, tokenizer))
