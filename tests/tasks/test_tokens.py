"""Tags of single characters, as in KLUE's named entities."""

from __future__ import annotations

import lzma
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import shared_data, tiny_config

from minibert import BertForTokenClassification, BertModel, BertTokenizer, find_entities
from minibert.losses import IGNORED
from minibert.tasks.readers import read_conll
from minibert.tasks.tokens import TokenTask
from minibert.training.finetuning import finetune
from minibert.training.options import TrainingOptions

pytestmark = pytest.mark.usefixtures("one_thread")

TEXT, TAGS = (
    "김 모은 서울에 갔다",
    ["B-PS", "I-PS", "I-PS", "O", "O", "B-LC", "I-LC", "O", "O", "O", "O"],
)
WORDS = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "김",
    "모",
    "##은",
    "서울",
    "##에",
    "갔",
    "##다",
]


def write_klue(path: Path, sentences: int) -> Path:
    """Write `sentences` copies of one sentence in KLUE's format."""
    lines = [
        "## 문장 구분자 : \\n\\n",
        *(f"{letter}\t{tag}" for letter, tag in zip(TEXT, TAGS, strict=True)),
        "",
    ]
    path.write_text("\n".join(lines * sentences), encoding="utf-8")
    return path


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    config = tiny_config(
        vocab_size=len(WORDS), hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
    )
    BertModel(config).save_pretrained(tmp_path / "checkpoint")
    tokenizer = BertTokenizer(WORDS, do_lower_case=False)
    tokenizer.save_pretrained(tmp_path / "checkpoint")
    return tmp_path / "checkpoint"


def test_spaces_are_characters_and_comments_are_skipped(tmp_path: Path) -> None:
    (row,) = read_conll(write_klue(tmp_path / "klue.tsv", 1))
    assert "".join(row.values["tokens"]) == TEXT and row.values["tags"] == TAGS


def test_each_piece_has_the_tag_of_its_first_character(checkpoint: Path, tmp_path: Path) -> None:
    rows = read_conll(write_klue(tmp_path / "klue.tsv", 1))
    task, tokenizer = TokenTask(), BertTokenizer.from_pretrained(checkpoint)
    model = BertForTokenClassification.from_pretrained(checkpoint, **task.config(rows))
    (example,) = task.encode(rows, tokenizer, model.config, 32)
    labels = [model.config.id2label.get(label, "") for label in example["labels"].tolist()]
    assert labels == ["", "B-PS", "I-PS", "O", "B-LC", "O", "O", "O", ""]
    assert (example["labels"] == IGNORED).sum() == 2


def test_a_particle_is_not_part_of_a_name(checkpoint: Path, tmp_path: Path) -> None:
    file = write_klue(tmp_path / "klue.tsv", 16)
    options = TrainingOptions(epochs=10, batch_size=8, learning_rate=6e-3)
    scores = finetune(TokenTask(), checkpoint, file, file, tmp_path / "out", options)
    assert scores["f1"] == scores["macro_f1"] == 1.0
    model = BertForTokenClassification.from_pretrained(tmp_path / "out")
    tokenizer = BertTokenizer.from_pretrained(tmp_path / "out")
    entities = find_entities(model, tokenizer, TEXT, by_piece=True)
    keys = ("entity_group", "start", "end", "word")
    assert [tuple(entity[key] for key in keys) for entity in entities] == [
        ("PS", 0, 3, "김 모"),
        ("LC", 5, 7, "서울"),
    ]


def test_spans_of_a_long_text_are_exact() -> None:
    """The model predicts each piece's tag. Borders of its windows of 16 tokens fall into names."""
    tags = ["O", "B-PS", "I-PS", "B-LC"]
    pieces = {"김": "B-PS", "모": "I-PS", "서울": "B-LC"}
    size = len(WORDS)
    sizes = {
        "vocab_size": size,
        "hidden_size": size,
        "num_attention_heads": 1,
        "num_hidden_layers": 0,
    }
    config = tiny_config(**sizes, max_position_embeddings=16, id2label=dict(enumerate(tags)))
    model = BertForTokenClassification(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        embeddings = model.bert.embeddings
        embeddings.word_embeddings.weight.copy_(torch.eye(size))
        embeddings.LayerNorm.weight.fill_(1)
        for number, word in enumerate(WORDS):
            model.classifier.weight[tags.index(pieces.get(word, "O")), number] = 1
    tokenizer = BertTokenizer(WORDS, do_lower_case=False)
    times, step = 40, len(TEXT) + 1
    for stride in (None, 0, 5):
        entities = find_entities(model, tokenizer, " ".join([TEXT] * times), stride, by_piece=True)
        assert [(entity["start"], entity["end"], entity["word"]) for entity in entities] == [
            (n * step + start, n * step + end, TEXT[start:end])
            for n in range(times)
            for start, end in ((0, 3), (5, 7))
        ]


@pytest.mark.parametrize("known_sentences", [0, 8])
def test_sentences_that_a_vocabulary_cannot_read_are_counted(
    checkpoint: Path, tmp_path: Path, known_sentences: int, capsys: pytest.CaptureFixture[str]
) -> None:
    rare = "\n".join(f"{letter}\tO" for letter in "강릉만종")
    file = write_klue(tmp_path / "klue.tsv", known_sentences)
    file.write_text(f"{rare}\n\n강\tB-LC\n\n{file.read_text(encoding='utf-8')}", encoding="utf-8")
    finetune(TokenTask(), checkpoint, file, file, tmp_path / "out", TrainingOptions(steps=1))
    said = f"vocabulary cannot read 2 of {2 + known_sentences} texts"  # one has a single letter
    assert said in capsys.readouterr().err


def test_every_label_of_klue_is_scored(tmp_path: Path) -> None:
    """Hardly any entity of the published file is lost when its characters become tokens."""
    with lzma.open(shared_data("data", "klue", "ner-dev.tsv.xz"), "rt", encoding="utf-8") as file:
        lines = file.read().split("\n")
    (tmp_path / "dev.tsv").write_text("\n".join(lines[:20_000]), encoding="utf-8")
    rows, task = read_conll(tmp_path / "dev.tsv"), TokenTask()
    tokenizer = BertTokenizer.from_pretrained("minibert-ko")
    config = BertForTokenClassification.config_class.from_pretrained("minibert-ko").replace(
        **task.config(rows)
    )
    token_starts: list[set[int]] = [set() for _ in rows]
    for example in task.encode(rows, tokenizer, config, 128):
        token_starts[example["row"]].update([0, *example["words"].tolist()])
    assert all(token_starts)
    is_scored = [
        position in token_starts[row]
        for row, sentence in enumerate(rows)
        for position, tag in enumerate(sentence.values["tags"])
        if tag[0] == "B"
    ]
    assert len(is_scored) > 500
    assert np.mean(is_scored) > 0.93  # the others begin within a token


def test_confident_mistakes_are_ordered_where_float32_is_1(checkpoint: Path) -> None:
    model = BertForTokenClassification.from_pretrained(checkpoint, num_labels=2)
    tokenizer = BertTokenizer.from_pretrained(checkpoint)
    task = TokenTask()
    rows = task.read([(["김"], ["LABEL_1"])])
    examples = task.encode(rows, tokenizer, model.config, 8)
    confidences = []
    for logit in (20.0, 30.0):
        model.classifier.weight.data.zero_()
        model.classifier.bias.data = torch.tensor([logit, 0.0])
        confidences.append(task.predict(model, rows, examples)[0].confidence)
    assert 0.999 < confidences[0] < confidences[1]
