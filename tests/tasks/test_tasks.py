"""Predictions of the task functions.

They are compared with transformers' pipelines, with a brute-force search, and with models whose
weights are set by hand.
"""

from __future__ import annotations

import importlib
import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import tiny_config
from hypothesis import given, strategies as st

import minibert
from minibert import answer_question, classify, fill_mask, find_entities
from minibert.cli import main

transformers = importlib.import_module("transformers")

WORDS = (
    "the a river city paris seoul ##burg ##s king ##dom of in is was flows through , . ! "
    "café o ##ne 한강 ##은"
)
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS.split()]
TEXTS = [
    "The river flows through Seoul.",
    "Paris",
    "The kingdom of Parisburg, in the city!",
    "Café 한강은 flows   through\tthe unknownword kings, kings of kings.",
    "O one of the cities was the kingdom of the river.",
]


def small_tokenizer(max_length: int) -> minibert.BertTokenizer:
    vocab = {word: index for index, word in enumerate(VOCABULARY)}
    return minibert.BertTokenizer(vocab, strip_accents=False, model_max_length=max_length)


@pytest.fixture(scope="module")
def tokenizer() -> minibert.BertTokenizer:
    return small_tokenizer(64)


def build(name: str, **changes: Any) -> Any:
    """Build a random model whose predictions differ from text to text."""
    torch.manual_seed(1)
    return getattr(minibert, name)(
        tiny_config(vocab_size=len(VOCABULARY), initializer_range=0.1, **changes)
    ).eval()


def pipeline(
    task: str, model: Any, tokenizer: minibert.BertTokenizer, folder: Path, **options: Any
) -> Any:
    """Load transformers' pipeline with the same checkpoint."""
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return transformers.pipeline(task, model=str(folder), tokenizer=str(folder), **options)


class TestClassify:
    @pytest.mark.parametrize(
        "changes",
        [
            {"id2label": {0: "bad", 1: "fair", 2: "good"}},
            {"num_labels": 4, "problem_type": "multi_label_classification"},
            {"num_labels": 1, "problem_type": "regression"},
        ],
        ids=["one label", "several labels", "regression"],
    )
    def test_equals_the_pipeline(
        self, changes: dict[str, Any], tokenizer: Any, tmp_path: Path
    ) -> None:
        model = build("BertForSequenceClassification", **changes)
        reference = pipeline("text-classification", model, tokenizer, tmp_path, top_k=None)
        results = classify(model, tokenizer, TEXTS)
        assert len({labels[0]["score"] for labels in results}) == len(TEXTS)
        for labels, expected in zip(results, reference(TEXTS), strict=True):
            assert [label["label"] for label in labels] == [label["label"] for label in expected]
            assert [label["score"] for label in labels] == pytest.approx(
                [label["score"] for label in expected], rel=1e-4
            )

    def test_pairs(self, tokenizer: Any, tmp_path: Path) -> None:
        model = build("BertForSequenceClassification", num_labels=3)
        reference = pipeline("text-classification", model, tokenizer, tmp_path, top_k=None)
        pairs = TEXTS[::-1]
        for labels, text, pair in zip(
            classify(model, tokenizer, TEXTS, pairs), TEXTS, pairs, strict=True
        ):
            expected = reference({"text": text, "text_pair": pair})
            assert [label["score"] for label in labels] == pytest.approx(
                [label["score"] for label in expected], rel=1e-4
            )
            assert classify(model, tokenizer, text, pair)[0]["score"] == pytest.approx(
                labels[0]["score"]
            )

    def test_one_label_is_a_regression_by_default(self, tokenizer: Any) -> None:
        model = build("BertForSequenceClassification", num_labels=1)
        logits = model(**tokenizer(TEXTS[0], return_tensors="pt")).logits
        assert classify(model, tokenizer, TEXTS[0]) == [
            {"label": "LABEL_0", "score": pytest.approx(logits.item(), rel=1e-4)}
        ]

    def test_a_long_text_is_truncated(self, tokenizer: Any) -> None:
        model = build("BertForSequenceClassification")
        long = "the river " * 100
        beginning = " ".join(long.split()[:62])
        assert classify(model, tokenizer, long) == classify(model, tokenizer, beginning)

    def test_an_empty_list(self, tokenizer: Any) -> None:
        assert classify(build("BertForSequenceClassification"), tokenizer, []) == []

    def test_a_model_in_training_mode_predicts_without_dropout(self, tokenizer: Any) -> None:
        model = build("BertForSequenceClassification")
        expected = classify(model, tokenizer, TEXTS)
        assert classify(model.train(), tokenizer, TEXTS) == expected
        assert model.training and model.dropout.training

    def test_output_options_in_the_config_change_nothing(self, tokenizer: Any) -> None:
        expected = classify(build("BertForSequenceClassification"), tokenizer, TEXTS)
        options = {"output_attentions": True, "output_hidden_states": True, "return_dict": False}
        model = build("BertForSequenceClassification", **options)
        assert classify(model, tokenizer, TEXTS) == expected


def build_tagger(
    labels: dict[str, str], tokenizer: minibert.BertTokenizer, positions: int = 64
) -> Any:
    """Build a token classifier that labels tokens by a table.

    It has no layers, and its embeddings are orthogonal, so the logits of a token depend on the
    token only.

    Args:
        labels: the label of each token. Other tokens have the label "O".
        tokenizer: the tokenizer of the vocabulary.
        positions: the number of position embeddings.
    """
    names = sorted({"O", *labels.values()})
    size = len(tokenizer)
    config = minibert.BertConfig(
        vocab_size=size,
        hidden_size=size,
        num_hidden_layers=0,
        num_attention_heads=1,
        intermediate_size=1,
        max_position_embeddings=positions,
        id2label=dict(enumerate(names)),
    )
    model = minibert.BertForTokenClassification(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        model.bert.embeddings.LayerNorm.weight.fill_(1)
        model.bert.embeddings.word_embeddings.weight.copy_(torch.eye(size))
        for token, token_id in tokenizer.get_vocab().items():
            model.classifier.weight[names.index(labels.get(token, "O")), token_id] = 1
    return model


def groups_and_words(spans: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(span["entity_group"], span["word"]) for span in spans]


class TestFindEntities:
    @pytest.mark.parametrize(
        "names",
        [
            ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"],
            ["O", "PER", "LOC"],
            ["LABEL_0", "LABEL_1", "LABEL_2"],
        ],
        ids=["B- and I-", "plain", "unnamed"],
    )
    def test_equals_the_pipeline(self, names: list[str], tokenizer: Any, tmp_path: Path) -> None:
        model = build("BertForTokenClassification", id2label=dict(enumerate(names)))
        reference = pipeline(
            "token-classification", model, tokenizer, tmp_path, aggregation_strategy="first"
        )
        results = find_entities(model, tokenizer, TEXTS)
        assert sum(map(len, results)) > 10
        for text, ours in zip(TEXTS, results, strict=True):
            theirs = reference(text)
            assert [(span["entity_group"], span["start"], span["end"]) for span in ours] == [
                (span["entity_group"], span["start"], span["end"]) for span in theirs
            ]
            assert [span["score"] for span in ours] == pytest.approx(
                [float(span["score"]) for span in theirs], rel=1e-4
            )
            assert all(span["word"] == text[span["start"] : span["end"]] for span in ours)

    @pytest.mark.parametrize(
        ("labels", "text", "expected"),
        [
            ("paris:B-LOC seoul:I-LOC", "paris seoul", ["LOC paris seoul"]),
            ("paris:B-LOC seoul:B-LOC", "paris seoul", ["LOC paris", "LOC seoul"]),
            ("paris:I-LOC seoul:I-PER", "paris seoul", ["LOC paris", "PER seoul"]),
            ("paris:B-LOC seoul:I-PER", "paris the seoul", ["LOC paris", "PER seoul"]),
            ("paris:I-LOC seoul:I-LOC", "paris the seoul", ["LOC paris", "LOC seoul"]),
            ("paris:LOC seoul:LOC", "paris, seoul paris", ["LOC paris", "LOC seoul paris"]),
            (
                "paris:B-LOC of:I-LOC seoul:E-LOC",
                "paris of seoul of",
                ["LOC paris of seoul", "LOC of"],
            ),
            (
                "paris:S-LOC seoul:B-LOC of:E-LOC",
                "paris paris seoul of",
                ["LOC paris", "LOC paris", "LOC seoul of"],
            ),
            (
                "paris:U-LOC seoul:B-LOC of:L-LOC",
                "paris seoul of seoul",
                ["LOC paris", "LOC seoul of", "LOC seoul"],
            ),
            ("paris:E-LOC seoul:I-LOC", "paris seoul", ["LOC paris", "LOC seoul"]),
            ("paris:E-mail seoul:E-mail", "paris seoul", ["mail paris", "mail seoul"]),
            ("paris:B-x-y seoul:I-x-y", "paris seoul", ["x-y paris seoul"]),
            (
                "king:B-PER ##dom:B-LOC ##s:O",
                "kingdom kings kingdoms",
                ["PER kingdom", "PER kings", "PER kingdoms"],
            ),
            ("king:O ##dom:B-LOC", "kingdom", []),
            ("", "paris", []),
        ],
    )
    def test_spans(self, labels: str, text: str, expected: list[str], tokenizer: Any) -> None:
        model = build_tagger(dict(entry.split(":") for entry in labels.split()), tokenizer)
        spans = groups_and_words(find_entities(model, tokenizer, text))
        assert [" ".join(span) for span in spans] == expected

    def test_score_is_the_mean_over_words(self, tokenizer: Any) -> None:
        # with a single label, the whole text is one span
        model = build("BertForTokenClassification", num_labels=1)
        model.config = model.config.replace(id2label={0: "X"})
        (span,) = find_entities(model, tokenizer, "the kingdom of paris")
        assert span == {
            "entity_group": "X",
            "score": 1.0,
            "word": "the kingdom of paris",
            "start": 0,
            "end": 20,
        }

    @pytest.mark.parametrize("stride", [None, 0, 5, 13])
    def test_long_texts_are_split_into_windows(self, stride: int | None, tokenizer: Any) -> None:
        """A model without context gives equal spans in windows of 16 tokens and in one of 600."""
        labels = {"paris": "B-LOC", "seoul": "I-LOC", "king": "B-PER", "of": "I-LOC"}
        torch.manual_seed(2)
        words = ["paris", "seoul", "kingdoms", "of", "the", "river", "unheard", "parisburgs"]
        text = " ".join(words[index] for index in torch.randint(0, 8, (120,)).tolist())
        long = small_tokenizer(600)
        expected = find_entities(build_tagger(labels, tokenizer, positions=600), long, text)
        assert len(expected) > 40
        model = build_tagger(labels, tokenizer, positions=16)
        assert find_entities(model, long, text, stride) == expected
        results = find_entities(model, long, [text, "the", text], stride)
        assert results == [expected, [], expected]

    def test_a_word_in_two_windows_is_labeled_where_it_has_more_context(
        self, tokenizer: Any
    ) -> None:
        """The model labels positions, not words, so the labels show which window was used."""
        model = build_tagger({"river": "B-1"}, tokenizer, positions=12)  # windows of ten words
        config = model.config.replace(
            id2label={position: f"position{position}" for position in range(12)}
        )
        model = minibert.BertForTokenClassification(config).eval()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.zero_()
            model.bert.embeddings.LayerNorm.weight.fill_(1)
            model.bert.embeddings.position_embeddings.weight[:, :12] = torch.eye(12)
            model.classifier.weight[:, :12] = torch.eye(12)
        text = "the " * 16
        spans = find_entities(model, tokenizer, text.strip(), stride=4)
        # Words 0-9 are in the first window at positions 1-10, and words 6-15 in the second.
        # Words 8 and 9 have more context in the second window.
        positions = [1, 2, 3, 4, 5, 6, 7, 8, 3, 4, 5, 6, 7, 8, 9, 10]
        assert [span["entity_group"] for span in spans] == [
            f"position{position}" for position in positions
        ]

    @given(text=st.text(max_size=80), seed=st.integers(0, 3))
    def test_any_text(self, text: str, seed: int) -> None:
        tokenizer = small_tokenizer(512)
        torch.manual_seed(seed)
        names = dict(enumerate(["O", "B-A", "I-A", "E-A", "S-A"]))
        config = tiny_config(
            vocab_size=len(VOCABULARY),
            max_position_embeddings=9,
            id2label=names,
            initializer_range=1,
        )
        spans = find_entities(minibert.BertForTokenClassification(config).eval(), tokenizer, text)
        end = 0
        for span in spans:
            assert end <= span["start"] < span["end"] <= len(text)
            assert span["word"] == text[span["start"] : span["end"]] and 0 < span["score"] <= 1
            end = span["end"]


def brute_force(
    model: Any, folder: Path, question: str, context: str, limit: int, stride: int, longest: int
) -> Any:
    """Score every pair of positions in every window with transformers' tokenizer and model.

    Returns:
        The best (score, start, end), and the lowest score of [CLS], which means no answer.
    """
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    windows = tokenizer(
        question,
        context,
        truncation="only_second",
        max_length=limit,
        stride=stride,
        return_overflowing_tokens=True,
        return_offsets_mapping=True,
    )
    best, no_answer = (float("-inf"), 0, 0), float("inf")
    for row, ids in enumerate(windows["input_ids"]):
        types = torch.tensor([windows["token_type_ids"][row]])
        with torch.no_grad():
            out = model(torch.tensor([ids]), token_type_ids=types)
        start, end = out.start_logits[0].tolist(), out.end_logits[0].tolist()
        no_answer = min(no_answer, start[0] + end[0])
        sequences = windows.sequence_ids(row)
        inside = [position for position, sequence in enumerate(sequences) if sequence == 1]
        for first in inside:
            for last in inside:
                if first <= last < first + longest:
                    span = (
                        windows["offset_mapping"][row][first][0],
                        windows["offset_mapping"][row][last][1],
                    )
                    best = max(best, (start[first] + end[last], *span))
    return best, no_answer


class TestAnswerQuestion:
    @pytest.mark.parametrize("longest", [1, 4, 30])
    @pytest.mark.parametrize("stride", [None, 0, 7])
    def test_equals_brute_force(
        self, longest: int, stride: int | None, tokenizer: Any, tmp_path: Path
    ) -> None:
        model = build("BertForQuestionAnswering", max_position_embeddings=24)
        model.save_pretrained(tmp_path)
        tokenizer.save_pretrained(tmp_path)
        reference = transformers.BertForQuestionAnswering.from_pretrained(tmp_path).eval()
        questions = ["the king is in paris?", "seoul", "the city of a river"]
        contexts = [" ".join(TEXTS), TEXTS[0], TEXTS[3] + TEXTS[2]]
        options = {"stride": stride, "max_answer_length": longest, "no_answer": True}
        answers = answer_question(model, tokenizer, questions, contexts, **options)
        for question, context, answer in zip(questions, contexts, answers, strict=True):
            best, no_answer = brute_force(
                reference, tmp_path, question, context, 24, 6 if stride is None else stride, longest
            )
            assert answer["no_answer_score"] == pytest.approx(no_answer, rel=1e-4)
            assert answer["score"] == pytest.approx(best[0], rel=1e-4)
            if no_answer > best[0]:
                assert (answer["answer"], answer["start"], answer["end"]) == ("", 0, 0)
            else:
                assert (answer["start"], answer["end"]) == best[1:]
                assert answer["answer"] == context[answer["start"] : answer["end"]] != ""
            single = answer_question(model, tokenizer, question, context, **options)
            assert single["start"] == answer["start"]
            assert single["score"] == pytest.approx(answer["score"], rel=1e-4)

    def test_no_answer_only_if_allowed(self, tokenizer: Any) -> None:
        """The model prefers [CLS]: of vectors of equal norm, its own has the largest product."""
        model = build("BertForQuestionAnswering", num_hidden_layers=0)
        cls = model.bert(torch.tensor([[tokenizer.cls_token_id]])).last_hidden_state[0, 0].detach()
        with torch.no_grad():
            model.qa_outputs.weight.copy_(cls.expand(2, -1))
        answer = answer_question(model, tokenizer, "the king?", TEXTS[2])
        assert answer["answer"] and answer.keys() == {"answer", "score", "start", "end"}
        no_answer = answer_question(model, tokenizer, "the king?", TEXTS[2], no_answer=True)
        assert no_answer["no_answer_score"] == pytest.approx(2 * float(cls @ cls))
        assert no_answer == {
            **answer,
            "answer": "",
            "start": 0,
            "end": 0,
            "no_answer_score": no_answer["no_answer_score"],
        }

    @pytest.mark.parametrize("context", ["", "  \n "])
    def test_a_context_without_a_word(self, context: str, tokenizer: Any) -> None:
        message = f"The context {context!r} has no word to answer with"
        with pytest.raises(ValueError, match=re.escape(message)):
            answer_question(build("BertForQuestionAnswering"), tokenizer, "where?", context)

    def test_a_question_that_leaves_no_room(self, tokenizer: Any) -> None:
        with pytest.raises(ValueError, match="question .* has 80 tokens, .*room for .* shorten"):
            answer_question(
                build("BertForQuestionAnswering"), tokenizer, "the river " * 40, TEXTS[0]
            )

    @given(question=st.text(max_size=12), context=st.text(max_size=60), longest=st.integers(1, 5))
    def test_any_text(self, question: str, context: str, longest: int) -> None:
        """The answer is a part of the context, or an error gives the reason."""
        model = build("BertForQuestionAnswering", max_position_embeddings=18)
        try:
            answer = answer_question(
                model, small_tokenizer(512), question, context, max_answer_length=longest
            )
        except ValueError as error:
            assert re.search("has no word to answer with|there is room for", str(error))
        else:
            assert answer["answer"] == context[answer["start"] : answer["end"]] != ""

    def test_options(self, tokenizer: Any) -> None:
        model = build("BertForQuestionAnswering")
        with pytest.raises(ValueError, match="max_answer_length should be .* 1 or more, not 0"):
            answer_question(model, tokenizer, "where?", TEXTS[0], max_answer_length=0)
        with pytest.raises(ValueError, match="stride is 60, .*from 0 to less than"):
            answer_question(model, tokenizer, "where?", " ".join(TEXTS * 3), stride=60)


class TestFillMask:
    def test_equals_the_pipeline(self, tokenizer: Any, tmp_path: Path) -> None:
        model = build("BertForMaskedLM")
        reference = pipeline("fill-mask", model, tokenizer, tmp_path)
        texts = [
            "The [MASK] flows through Seoul.",
            "[MASK]",
            "Paris is the [MASK] [MASK] of [MASK].",
        ]
        results = fill_mask(model, tokenizer, texts, top_k=4)
        for text, ours in zip(texts, results, strict=True):
            theirs = reference(text, top_k=4)
            theirs = theirs if isinstance(theirs[0], list) else [theirs]
            assert len(ours) == text.count("[MASK]")
            for guesses, expected in zip(ours, theirs, strict=True):
                assert [guess["token"] for guess in guesses] == [
                    guess["token"] for guess in expected
                ]
                assert [guess["token_str"] for guess in guesses] == [
                    VOCABULARY[guess["token"]] for guess in guesses
                ]
                assert [guess["score"] for guess in guesses] == pytest.approx(
                    [guess["score"] for guess in expected], rel=1e-4
                )
            single = fill_mask(model, tokenizer, text, top_k=4)
            assert [[guess["token"] for guess in mask] for mask in single] == [
                [guess["token"] for guess in mask] for mask in ours
            ]

    @pytest.mark.parametrize("name", ["BertForMaskedLM", "BertForPreTraining"])
    def test_the_decoder_runs_on_masked_tokens_only(self, name: str, tokenizer: Any) -> None:
        model = build(name)
        rows = []
        model.cls.predictions.decoder.register_forward_hook(
            lambda module, inputs, output: rows.append(len(inputs[0]))
        )
        fill_mask(
            model,
            tokenizer,
            ["The [MASK] flows through [MASK].", "[MASK] is in the city of Paris."],
        )
        assert rows == [3]

    def test_top_k(self, tokenizer: Any) -> None:
        model = build("BertForMaskedLM")
        (guesses,) = fill_mask(model, tokenizer, "the [MASK]", top_k=1000)
        assert len(guesses) == len(VOCABULARY)
        assert sum(guess["score"] for guess in guesses) == pytest.approx(1)
        assert fill_mask(model, tokenizer, "the [MASK]", top_k=2) == [guesses[:2]]
        with pytest.raises(ValueError, match="top_k should be .* 1 or more, not 0"):
            fill_mask(model, tokenizer, "the [MASK]", top_k=0)

    def test_equal_probabilities_keep_the_order_of_the_logits(self, tokenizer: Any) -> None:
        model = build("BertForMaskedLM")
        with torch.no_grad():  # all but one have the probability 0 in float32
            model.cls.predictions.bias[:] = 10.0 * torch.arange(len(VOCABULARY)) - 1000
            model.cls.predictions.bias[7] = 0
        (guesses,) = fill_mask(model, tokenizer, "the [MASK]", top_k=4)
        assert [guess["token"] for guess in guesses] == [7, *range(len(VOCABULARY))[:-4:-1]]

    def test_padding_rows_of_the_embedding_table_are_not_predicted(self, tokenizer: Any) -> None:
        """A table rounded up to a multiple of 8 has rows without a word."""
        model = build("BertForMaskedLM")
        model.resize_token_embeddings(48)
        with torch.no_grad():
            model.cls.predictions.bias[40:] = 100
        (guesses,) = fill_mask(model, tokenizer, "the [MASK]", top_k=48)
        assert len(guesses) == len(VOCABULARY)

    def test_invalid_texts(self, tokenizer: Any) -> None:
        model = build("BertForMaskedLM")
        with pytest.raises(
            ValueError,
            match=re.escape("'the river' has no [MASK]. Write it where a word should be guessed"),
        ):
            fill_mask(model, tokenizer, ["the [MASK]", "the river"])
        with pytest.raises(ValueError, match="'the river .*' has 203 tokens, .*takes 64: shorten"):
            fill_mask(model, tokenizer, "the river " * 100 + "[MASK]")


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (classify, "BertForSequenceClassification or OnnxHead"),
        (find_entities, "BertForTokenClassification or OnnxHead"),
        (
            lambda *arguments: answer_question(*arguments, "the river"),
            "BertForQuestionAnswering or OnnxHead",
        ),
        (fill_mask, "BertForMaskedLM or BertForPreTraining or OnnxHead"),
    ],
)
def test_a_model_for_another_task(call: Any, expected: str, tokenizer: Any) -> None:
    with pytest.raises(
        TypeError, match=f"model should be a {expected}, not a BertForNextSentencePrediction"
    ):
        call(build("BertForNextSentencePrediction"), tokenizer, "the river")


class TestCommand:
    @pytest.fixture
    def folder(self, tokenizer: Any, tmp_path: Path) -> str:
        build("BertForMaskedLM").save_pretrained(tmp_path)
        tokenizer.save_pretrained(tmp_path)
        return str(tmp_path)

    def test_plain(self, folder: str, tokenizer: Any, capsys: pytest.CaptureFixture[str]) -> None:
        text = "Paris is the [MASK] of the river."
        assert main(["fill-mask", text, "--top-k", "3", "--model", folder]) == 0
        (guesses,) = fill_mask(build("BertForMaskedLM"), tokenizer, text, top_k=3)
        assert capsys.readouterr().out == "".join(
            f"{guess['score']:.4f}  {guess['token_str']}\n" for guess in guesses
        )

    def test_several(self, folder: str, capsys: pytest.CaptureFixture[str]) -> None:
        texts = ["the [MASK] of [MASK]", "[MASK]"]
        assert main(["fill-mask", *texts, "--top-k", "1", "--model", folder]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines[0] == texts[0]
        assert lines[1] == "[MASK] 1" and lines[3] == "[MASK] 2"
        assert lines[5] == "[MASK]" and len(lines) == 7

    def test_json(self, folder: str, tokenizer: Any, capsys: pytest.CaptureFixture[str]) -> None:
        texts = ["the [MASK] of [MASK]", "[MASK]"]
        assert main(["fill-mask", *texts, "--model", folder, "--jsonl"]) == 0
        lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        expected = fill_mask(build("BertForMaskedLM"), tokenizer, texts)
        assert lines == [
            {"text": text, "masks": masks} for text, masks in zip(texts, expected, strict=True)
        ]

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["the river"], "'the river' has no [MASK]. Write it where a word should be guessed."),
            (
                ["[MASK]", "--model", "no/such-model", "--offline"],
                "'no/such-model' is not a local folder",
            ),
        ],
    )
    def test_errors(
        self, arguments: list[str], message: str, folder: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        model = [] if "--model" in arguments else ["--model", folder]
        assert main(["fill-mask", *arguments, *model]) == 1
        captured = capsys.readouterr()
        assert captured.out == "" and captured.err.startswith(f"minibert fill-mask: {message}")
        assert captured.err.count("\n") == 1

    def test_a_checkpoint_without_the_head(
        self, tokenizer: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        build("BertForSequenceClassification").save_pretrained(tmp_path)
        tokenizer.save_pretrained(tmp_path)
        assert main(["fill-mask", "[MASK]", "--model", str(tmp_path)]) == 1
        captured = capsys.readouterr()
        expected = f"minibert fill-mask: {tmp_path} is a classifier, not a masked language model"
        assert captured.err.startswith(expected) and captured.err.count("\n") == 1


def test_invalid_inputs_and_damaged_weights(tokenizer: Any) -> None:
    model = build("BertForSequenceClassification")
    with pytest.raises(ValueError, match="texts is a dict.*list of strings"):
        classify(model, tokenizer, {"text": "the river", "text_pair": "paris"})
    for pairs in (["paris", "rome"], []):
        with pytest.raises(ValueError, match=f"1 texts, but {len(pairs)} in text_pair"):
            classify(model, tokenizer, ["the river"], pairs)
    with pytest.raises(ValueError, match="2 questions, but 1 context"):
        answer_question(build("BertForQuestionAnswering"), tokenizer, ["a", "b"], ["the river"])
    with torch.no_grad():
        model.classifier.bias[0] = torch.nan
    with pytest.raises(ValueError, match="output of .* is not finite: .*its weights are damaged"):
        classify(model, tokenizer, "the river")
