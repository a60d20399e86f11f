"""The results that the scenes of `minibert learn` are shipped with are those of PyTorch.

A sample of every experiment is computed again. The slow test computes more of each.
"""

from __future__ import annotations

import base64
import json
import re
from collections import Counter
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from test_page import inflate

from minibert.learn import live
from minibert.learn.build import load_page_model, part, phrasings_digest
from minibert.learn.lesson import article, articles
from minibert.learn.live import VISIBLE_SIDES

LANGUAGES = ("en", "ko")


class Model:
    """The model of an article with the weights of the page."""

    def __init__(self, language: str) -> None:
        network, self.tokenizer = load_page_model(articles()[language]["model"])
        self.network = live.rounded(network)
        self.layers = self.network.config.num_hidden_layers
        self.heads = self.network.config.num_attention_heads
        self.lesson = article(language)["lesson"]
        self.measured = self.lesson["measured"]
        self.means: dict[str, list[torch.Tensor]] = {}

    def run(self, text: str, pair: str | None = None, **options: Any) -> tuple[Any, list[str]]:
        trace, encoding = live.compute(self.network, self.tokenizer, text, pair, **options)
        return trace, self.tokenizer.convert_ids_to_tokens(encoding["input_ids"])

    def state(self, trace: Any, depth: int) -> torch.Tensor:
        name = "embeddings.output" if depth == 0 else f"layer.{depth - 1}.output"
        state: torch.Tensor = trace[name][0]
        return state

    def mean(self, text: str, depth: int = -1) -> torch.Tensor:
        """Return the mean of the states of a text, of which each is computed once."""
        if text not in self.means:
            trace, _ = self.run(text)
            states = [self.state(trace, at) for at in range(self.layers + 1)]
            self.means[text] = [state.mean(0) for state in states]
        return self.means[text][depth]

    def answer(self, text: str, place: int | None = None, **options: Any) -> str:
        """Return the best piece for the [MASK] of a text."""
        masked = [] if place is None else [place]
        trace, pieces = self.run(text, masked=masked, **options)
        best = int(trace["mlm.logits"][0, pieces.index("[MASK]")].argmax())
        word: str = self.tokenizer.convert_ids_to_tokens([best])[0]
        return word

    def shares(self, text: str, words: list[str], **options: Any) -> list[float]:
        """Return the probabilities of words at the [MASK] of a text."""
        trace, pieces = self.run(text, **options)
        ids = self.tokenizer.convert_tokens_to_ids(words)
        found: list[float] = (
            trace["mlm.logits"][0, pieces.index("[MASK]")].softmax(-1)[ids].tolist()
        )
        return found


def cosine(a: torch.Tensor, b: torch.Tensor) -> float:
    return torch.cosine_similarity(a, b, dim=0).item()


@pytest.fixture(scope="module", params=LANGUAGES)
def model(request: pytest.FixtureRequest) -> Model:
    return Model(request.param)


@pytest.fixture(params=[2, pytest.param(12, marks=pytest.mark.slow)])
def sample(request: pytest.FixtureRequest) -> Any:
    """A function that returns the indices of a few items, spread over a list."""
    return lambda items: sorted({i * len(items) // request.param for i in range(request.param)})


def test_layers_without_feed_forward_or_heads(model: Model, sample: Any) -> None:
    """Both are removed alike: what they compute becomes 0 before their last matrix."""
    texts = model.lesson["examples"]["layer"]["many"]
    layers = model.network.bert.encoder.layer
    matrices = {
        "idling": [layer.output.dense for layer in layers],
        "unheard": [layer.attention.output.dense for layer in layers],
    }
    for i in sample(texts):
        answer = model.answer(texts[i])
        for name, dense in matrices.items():
            kept = []
            for removed in [*([own] for own in dense), dense]:
                hooks = [
                    own.register_forward_pre_hook(lambda module, args: (torch.zeros_like(*args),))
                    for own in removed
                ]
                kept.append(model.answer(texts[i]) == answer)
                for hook in hooks:
                    hook.remove()
            assert model.measured[name][i] == kept


def test_heads_that_share_their_weights(
    model: Model, sample: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = model.lesson["examples"]["layer"]["many"]
    results = model.measured["shared"]
    softmax = torch.Tensor.softmax
    answers = {i: model.answer(texts[i]) for i in sample(texts)}
    for at, sharing in enumerate((2, model.heads // 2, model.heads, None)):

        def mean(scores: torch.Tensor, dim: int, sharing: int | None = sharing) -> torch.Tensor:
            weights = softmax(scores, dim)
            if weights.dim() < 4:  # probabilities of pieces
                return weights
            if sharing is None:  # the control: those of the next head
                return weights.roll(-1, 1)
            groups = weights.unflatten(1, (-1, sharing))
            return groups.mean(2, keepdim=True).expand_as(groups).flatten(1, 2)

        monkeypatch.setattr(torch.Tensor, "softmax", mean)
        for i, answer in answers.items():
            assert results[i][at] == (model.answer(texts[i]) == answer)
        monkeypatch.setattr(torch.Tensor, "softmax", softmax)


def crowd(model: Model, name: str) -> Any:
    if name not in model.lesson["crowds"]:
        pytest.skip(f"only the other article measures {name}")
    return model.lesson["crowds"][name]


def test_results_belong_to_the_bundled_weights(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "deflated", lambda data: "")  # the digest is of the numbers
    assert model.measured["weights"] == live.embed_model(model.network, model.tokenizer)["digest"]


def test_patterns_of_heads(model: Model, sample: Any) -> None:
    sentences = model.lesson["sentences"]
    results = model.measured["evidence"]
    assert len(results) == len(sentences) == 500
    width = 1 + model.layers * model.heads
    for i in sample(sentences):
        trace, pieces = model.run(sentences[i])
        real = [at for at, piece in enumerate(pieces) if piece not in ("[CLS]", "[SEP]")]
        shares = np.frombuffer(base64.b64decode(results[i]), dtype=np.uint8)[:width] / 254
        expected = [1 / len(pieces)]
        for layer in range(model.layers):
            probabilities = trace[f"layer.{layer}.attention.probabilities"][0]
            expected += probabilities[:, real, [at - 1 for at in real]].mean(-1).tolist()
        np.testing.assert_allclose(shares, expected, atol=0.006)


def hidden_pieces(model: Model) -> list[tuple[str, int, str]]:
    """Return the sentences in which a scene hides a piece, with the place and the piece."""
    allowed = model.lesson["examples"]["sides"].get("pieces")
    found: list[tuple[str, int, str]] = []
    for text in model.lesson["sentences"]:
        pieces = ["[CLS]", *model.tokenizer.tokenize(text), "[SEP]"]
        places = [
            place
            for place, (piece, after) in enumerate(pairwise(pieces))
            if (piece in allowed if allowed else re.fullmatch(r"[^\W\d_]{2,}", piece))
            and not after.startswith("##")
        ]
        if places:
            place = places[7 * len(found) % len(places)]
            found.append((text, place, pieces[place]))
    return found


def test_hidden_pieces(model: Model, sample: Any) -> None:
    results = model.measured["hiding"]
    hidden = hidden_pieces(model)
    assert len(hidden) >= len(results)
    for (_, _, piece), result in zip(hidden, results, strict=False):
        assert result["piece"] == piece
    for number in sample(range(len(results)))[: 4 if len(sample(range(100))) > 2 else 2]:
        text, place, piece = hidden[number]
        found = [
            sides for sides in VISIBLE_SIDES if model.answer(text, place, sides=sides) == piece
        ]
        assert results[number]["sides"] == found


def test_gradients(model: Model, sample: Any) -> None:
    """Those of PyTorch, which the page computes by itself, reach every token at h0."""
    results = model.measured["returning"]
    assert len(results) == 40
    last = model.network.bert.encoder.layer[-1].output
    for number in sample(results):
        text, place, piece = hidden_pieces(model)[number]
        inputs = model.tokenizer(text, return_tensors="pt")
        word = inputs["input_ids"][0, place].item()
        assert model.tokenizer.convert_ids_to_tokens([word]) == [piece]
        inputs["input_ids"][0, place] = model.tokenizer.mask_token_id
        neurons: list[torch.Tensor] = []
        hook = last.dense.register_forward_pre_hook(
            lambda module, args, kept=neurons: kept.append(args[0])
        )
        last.dense.weight.requires_grad_()
        with torch.enable_grad():
            output = model.network(**inputs, output_hidden_states=True)
            loss = -output.prediction_logits.log_softmax(-1)[0, place, word]
            first, weight = torch.autograd.grad(loss, [output.hidden_states[0], last.dense.weight])
        hook.remove()
        lengths = first[0].norm(dim=-1)
        result = results[number]
        assert result["isHome"] == (lengths.argmax().item() == place)
        assert result["least"] == pytest.approx((lengths.min() / lengths.max()).item(), abs=1e-3)
        # the way of the page ends at the weight with the longest neuron and the longest gradient
        neuron = neurons[0][0, place].abs().argmax()
        for slope in result["slopes"]:
            assert abs(slope) == pytest.approx(weight[:, neuron].abs().max().item(), rel=5e-3)


def test_gaps(model: Model, sample: Any) -> None:
    texts = model.lesson["examples"]["gap"]["many"]
    results = model.measured["gaps"]
    assert len(results) == len(texts)
    for i in sample(texts):
        word, share = results[i]["word"], results[i]["share"]
        assert model.answer(texts[i]) == word
        assert model.shares(texts[i], [word]) == pytest.approx([share], abs=1e-3)


def test_keys_and_values(model: Model, sample: Any) -> None:
    """In the head that looks at the token before, keys tell places and values tell words."""
    results = model.measured["telling"]
    sentences = model.lesson["sentences"]
    special = set(model.tokenizer.all_special_tokens)

    def alike(one: tuple[Any, int], other: tuple[Any, int]) -> dict[str, float]:
        return {
            name: cosine(
                *(trace[f"layer.0.attention.{name}"][0, 1, i] for trace, i in (one, other))
            )
            for name in ("key", "value")
        }

    for number in sample(results):
        (trace, pieces), (after, next_pieces) = map(model.run, sentences[number : number + 2])
        shares = trace["layer.0.attention.probabilities"][0, 1]
        inside = range(2, len(pieces) - 1)
        result = results[number]
        expected = np.mean([shares[i, i - 1].item() for i in inside])
        assert result["share"] == pytest.approx(expected, abs=1e-3)
        different = [
            i
            for i, pair in enumerate(zip(pieces, next_pieces, strict=False))
            if pair[0] != pair[1] and not special & set(pair)
        ]
        place = different[len(different) // 2]
        assert result["place"] == pytest.approx(alike((trace, place), (after, place)), abs=1e-3)
        again = [
            [i for i, own in enumerate(pieces) if own == piece]
            for piece in pieces
            if piece not in special and pieces.count(piece) > 1
        ]
        if again:
            first, second, *_ = again[0]
            assert result["word"] == pytest.approx(alike((trace, first), (trace, second)), abs=1e-3)
        else:
            assert result["word"] is None


def test_skipped_layers(model: Model, sample: Any) -> None:
    texts = model.lesson["examples"]["layer"]["many"]
    results = model.measured["skipping"]
    assert len(results) == len(texts) >= 40
    for i in sample(texts):
        answer = model.answer(texts[i])
        spared = [model.answer(texts[i], off=[(layer,)]) == answer for layer in range(model.layers)]
        assert results[i]["spared"] == spared
        trace, pieces = model.run(texts[i])
        place = pieces.index("[MASK]")
        turn = [
            cosine(model.state(trace, depth)[place], model.state(trace, depth + 1)[place])
            for depth in range(model.layers)
        ]
        assert results[i]["turn"] == pytest.approx(turn, abs=1e-3)


def test_pairs_of_sentences(model: Model, sample: Any) -> None:
    def follows(text: str, pair: str) -> float:
        return float(model.run(text, pair)[0]["nsp.logits"][0].softmax(-1)[0])

    pairs = model.lesson["examples"]["pair"]["many"]
    results = model.measured["judging"]
    assert len(results) == len(pairs) >= 20
    for i in sample(pairs):
        first, second = pairs[i]
        assert results[i]["real"] == pytest.approx(follows(first, second), abs=1e-3)
        assert results[i]["turned"] == pytest.approx(follows(second, first), abs=1e-3)
        others = [pairs[(i + shift) % len(pairs)][1] for shift in (3, 7, 11, 17)]
        swapped = [follows(first, other) for other in others]
        assert results[i]["swapped"] == pytest.approx(swapped, abs=1e-3)


def test_same_meaning_and_same_words(model: Model, sample: Any) -> None:
    triples = model.lesson["crowds"]["paraphrases"]
    results, nearest = model.measured["paraphrases"], model.measured["nearest"]
    assert len(results) == len(nearest) == len(triples) == 20
    meanings = {depth: [model.mean(t[2], depth) for t in triples] for depth in (0, model.layers)}
    for i in sample(triples):
        for name, depth in (("first", 0), ("last", model.layers)):
            own, words = (model.mean(text, depth) for text in triples[i][:2])
            alike = [cosine(own, words), cosine(own, meanings[depth][i])]
            assert results[i][name] == pytest.approx(alike, abs=1e-3)
            ranks = [cosine(own, meaning) for meaning in meanings[depth]]
            assert nearest[i][name] == (max(ranks) == ranks[i])


def test_professions(model: Model, sample: Any) -> None:
    content = crowd(model, "professions")
    results = model.measured["professions"]
    assert [own["word"] for own in results] == content["words"]
    for i in sample(results):
        text = content["text"].replace("{word}", results[i]["word"])
        shares = model.shares(text, ["she", "he"])
        assert [results[i]["she"], results[i]["he"]] == pytest.approx(shares, abs=1e-3)


def test_two_senses(model: Model) -> None:
    senses = crowd(model, "senses")
    results = model.measured["senses"]
    assert len(results) == sum(len(own) for sense in senses for own in sense["texts"])
    word, texts = senses[0]["word"], senses[0]["texts"]

    def state(text: str) -> torch.Tensor:
        trace, pieces = model.run(text)
        return model.state(trace, model.layers)[pieces.index(word)]

    own, same, other = (state(text) for text in (texts[0][0], texts[0][1], texts[1][0]))
    difference = cosine(own, same) - cosine(own, other)
    assert results[0][-1] == pytest.approx(difference, abs=1e-3)


def test_who_does_what(model: Model, sample: Any) -> None:
    verbs = crowd(model, "roles")
    results = model.measured["roles"]
    assert len(results) == len(verbs)
    for i in sample(verbs):
        agent, patient, past, participle = verbs[i]
        own = model.mean(f"The {agent} {past} the {patient}.")
        others = (
            f"The {patient} {past} the {agent}.",
            f"The {patient} was {participle} by the {agent}.",
        )
        assert results[i] == pytest.approx(
            [cosine(own, model.mean(text)) for text in others], abs=1e-3
        )


def test_pronouns(model: Model, sample: Any) -> None:
    pairs = crowd(model, "pronouns")
    moved, silenced = model.measured["pronouns"], model.measured["silenced"]
    assert len(moved) == len(silenced) == len(pairs) == 20
    for i in sample(pairs):
        pair = pairs[i]
        texts = [pair["text"].replace("{}", word) for word in pair["words"]]
        ahead = []
        for text in texts:
            trace, pieces = model.run(text)
            leads = []
            for noun in pair["nouns"]:
                query, key = pieces.index("it"), pieces.index(noun)
                maps = torch.stack(
                    [
                        trace[f"layer.{layer}.attention.probabilities"][0]
                        for layer in range(model.layers)
                    ]
                ).flatten(0, 1)
                leads.append(maps[:, query, key] - maps[:, :, key].mean(-1))
            ahead.append(leads[0] - leads[1])
        assert moved[i]["moved"] == pytest.approx((ahead[0] - ahead[1]).tolist(), abs=1e-3)
        for head in (None, 24):
            margins = []
            for text in texts:
                hidden = re.sub(r"\bit\b", "the [MASK]", text)
                off = [] if head is None else [divmod(head, model.heads)]
                shares = model.shares(hidden, pair["nouns"], off=off)
                margins.append(np.log(shares[0]) - np.log(shares[1]))
            own = silenced[i]["whole"] if head is None else silenced[i]["without"][head]
            assert own == pytest.approx(margins[0] - margins[1], abs=5e-3)


@pytest.mark.parametrize("language", LANGUAGES)
def test_ask_has_vectors_of_its_phrasings(language: str) -> None:
    """After a change of the phrasings or spellings, the vectors have to be computed again."""
    digest = json.loads(part("ask/vectors.json"))[language]["texts"]
    assert digest == phrasings_digest(language), "run scripts/measure_scenes.py --only asked"


@cache
def usual_forms() -> tuple[re.Pattern[str], dict[str, str]]:
    """Return a pattern of the other forms of Korean terms, and the usual form of each."""
    terms = json.loads(part("ask/terms.json")).values()
    usual = {
        form.lower(): own["ko"]["forms"][0]
        for own in terms
        for form in own["en"]["forms"]
        if form not in own["ko"]["forms"]
    }
    for first, others in json.loads(part("ask/spellings.json")).items():
        usual |= {form.lower(): first for form in others}
    pattern = "|".join(
        "[ -]?".join(map(re.escape, re.split("[ -]", form)))
        for form in sorted(usual, key=len, reverse=True)
    )
    joined = {re.sub("[ -]", "", form): first for form, first in usual.items()}
    return re.compile(f"(?<![a-z])({pattern})(?![a-z])"), joined


def in_usual_forms(text: str) -> str:
    """Write every term of a Korean text in its usual form, as Ask does."""
    if not re.search("[ㄱ-ㅣ가-힣]", text):
        return text
    pattern, joined = usual_forms()
    return pattern.sub(lambda found: joined[re.sub("[ -]", "", found[0])], text.lower())


def test_vectors_of_phrasings(model: Model, sample: Any) -> None:
    """The shipped vectors are means of last states, in which pieces of few entries weigh more."""
    language = model.lesson["language"]
    entries = [
        [own[language]["question"], *own[language]["also"]]
        for own in json.loads(part("ask/questions.json"))
    ] + [
        [*own[language].get("ask", []), *own[language]["forms"]]
        for own in json.loads(part("ask/terms.json")).values()
    ]
    entries = [[in_usual_forms(text) for text in own] for own in entries]
    pieces = [{i for ids in model.tokenizer(own)["input_ids"] for i in ids} for own in entries]
    counts = Counter(i for ids in pieces for i in ids)
    shipped = json.loads(part("ask/vectors.json"))[language]
    whole = np.frombuffer(inflate(shipped["whole"]), np.int8).reshape(-1, len(shipped["middle"]))
    vectors = torch.tensor(shipped["middle"] + shipped["scale"] * whole)
    texts = [text for own in entries for text in own]
    assert len(vectors) == len(texts)
    for i in sample(texts):
        ids = model.tokenizer(texts[i])["input_ids"]
        weights = torch.tensor([np.log(len(entries) / counts[piece]) + 0.1 for piece in ids])
        states = model.state(model.run(texts[i])[0], model.layers)
        expected = weights.float() @ states / weights.sum()
        assert (vectors[i] - expected).abs().max() < 0.6 * shipped["scale"]


def fitted(rows: Any, labels: Any, others: Any) -> Any:
    """Train a classifier on rows as the page does, and return its logits for other rows."""
    mean = rows.mean(0)
    weights = np.zeros(rows.shape[1])
    bias = 0.0
    for _ in range(300):
        error = (1 / (1 + np.exp(-((rows - mean) @ weights + bias))) - labels) / len(rows)
        weights = weights - 10 * ((rows - mean).T @ error + 0.001 * weights)
        bias -= 10 * error.sum()
    return (others - mean) @ weights + bias


@pytest.mark.slow
def test_classifiers_on_several_splits(model: Model) -> None:
    labeled, task = model.lesson["labeled"], model.lesson["examples"]["task"]
    seen = len(labeled["train"])
    texts = [*labeled["train"], *labeled["test"]]
    labels = np.array([label for _, label in texts])
    results = model.measured["splits"]
    assert len(results) == task["splits"] == 20
    for depth, amounts, first in ((model.layers, task["amounts"]["last"], 0),):
        means = [model.mean(text, depth).double() for text, _ in texts]
        vectors = np.stack([(mean / mean.norm()).numpy() for mean in means])
        for trial, amount in enumerate(amounts, first):
            for split in (0, 7):
                start = split * (len(labels) // 2) // len(results)
                order = np.roll(np.arange(len(labels)), -2 * start)
                train, test = order[:amount], order[seen:]
                logits = fitted(vectors[train], labels[train], vectors[test])
                right = ((logits > 0) == (labels[test] == 1)).mean()
                assert results[split][trial]["right"] == pytest.approx(right, abs=0.026)


def test_the_texts_are_true_of_the_results() -> None:
    """What the verdicts say in words about the shipped results."""
    english, korean = (article(language)["lesson"]["measured"] for language in LANGUAGES)
    he = sum(own["he"] > own["she"] for own in english["professions"])
    assert he >= 55
    closer = sum(swapped > passive for swapped, passive in english["roles"])
    assert closer == len(english["roles"])  # the vector holds words far more than roles
    for measured in (english, korean):
        wins = sum(own["last"][1] > own["last"][0] for own in measured["paraphrases"])
        first = sum(own["first"][1] > own["first"][0] for own in measured["paraphrases"])
        assert first < wins
        assert sum(own["last"] for own in measured["nearest"]) >= 17
        # no layer of so small a model is idle
        kept = np.array([own["spared"] for own in measured["skipping"]]).mean(0)
        assert kept.max() < 0.9
        # the more heads share their weights, the more is lost, but no less if each has those of
        # its neighbor, which are as different as its own
        pairs, halves, every, neighbors = np.array(measured["shared"]).mean(0)
        assert pairs > halves >= every and every < 0.5
        assert neighbors <= halves
        # without any feed-forward network hardly an answer survives, and without any head
        for name in ("idling", "unheard"):
            assert np.array(measured[name])[:, -1].mean() < 0.15
        # the key of the head tells the place, the value the word
        telling = measured["telling"]
        assert np.mean([own["share"] for own in telling]) > 0.98
        for kind, name in (("place", "key"), ("word", "value")):
            other = {"key": "value", "value": "key"}[name]
            cosines = [own[kind] for own in telling if own[kind]]
            assert np.mean([own[name] for own in cosines]) > 0.85
            assert np.mean([own[other] for own in cosines]) < 0.25
        # a gradient reaches all tokens, is what is measured, and often longer beside the hidden one
        returning = measured["returning"]
        assert min(own["least"] for own in returning) > 0
        assert sum(not own["isHome"] for own in returning) > len(returning) / 2
        gradients, slopes = np.array([own["slopes"] for own in returning]).T
        assert (abs(slopes / gradients - 1) < 0.01).all()
        both = sum("both" in own["sides"] for own in measured["hiding"])
        left = sum({"both", "left"} <= set(own["sides"]) for own in measured["hiding"])
        assert left < 0.6 * both
    moved = np.array([own["moved"] for own in english["pronouns"]]).mean(0)
    whole = np.mean([own["whole"] for own in english["silenced"]])
    remaining = np.array([own["without"] for own in english["silenced"]]).mean(0) / whole
    assert moved.argmax() == 24 and 0.7 < remaining[24] < 0.95  # a part, and a small one
    assert abs(moved[remaining.argmin()]) < 0.01 and remaining.min() < remaining[24] - 0.05
    particles = korean["particles"]
    assert sum(particles[:24]) >= 22 and sum(particles[24:]) <= 14


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_texts_are_true_of_the_studies(language: str) -> None:
    """What the scenes on fine-tuning, neurons and layers say in words."""
    lesson = article(language)["lesson"]
    studied, count = lesson["studied"], len(lesson["examples"]["layer"]["many"])
    runs = {kind: [run[kind] for run in studied["fine-tuning"]] for kind in ("true", "shuffled")}
    kept, without = (np.mean([run["kept"] for run in some]) for some in runs.values())
    assert 0.75 * count < kept < without < count  # most of the loss is there without a task, too
    assert count - without > (count - kept) / 2
    before = sum(own["last"] for own in lesson["measured"]["nearest"])
    assert np.mean([run["nearest"] for run in runs["true"]]) < before
    embeddings, *layers, pooler = np.mean([run["moved"] for run in runs["true"]], axis=0)
    assert embeddings < min(layers) and max(layers) < pooler < 0.05
    neurons = {
        kind: [sum(own[name] for own in studied["neurons"][kind]) for name in ("passed", "all")]
        for kind in ("neurons", "random")
    }
    assert neurons["random"][0] < neurons["neurons"][0] < neurons["neurons"][1] / 4
    for kind, (passed, _) in neurons.items():  # neither is an accident of the first sentences
        assert sum(own["held"] for own in studied["neurons"][kind]) > 0.8 * passed


def test_the_text_is_true_of_the_layers_in_english() -> None:
    """No choice of layers differs from the last layer by more than its interval, but h0 does."""
    layers = article("en")["lesson"]["studied"]["layers"]
    for name, (ahead, error) in layers["difference"].items():
        assert (abs(ahead) > 1.96 * error) == (name == "h0"), name
    assert layers["random"]["last"][0] < layers["trained"]["h0"][0] < layers["trained"]["last"][0]


def test_the_text_is_true_of_the_layers() -> None:
    trained, random = (
        article("ko")["lesson"]["studied"]["layers"][kind] for kind in ("trained", "random")
    )
    score = {name: own[0] for name, own in trained.items()}
    assert score["h0"] < score["last"] < score["second"] < score["four"] == max(score.values())
    wide = 1.96 * trained["four"][1]
    assert min(score["sum of four"], score["sum of all"]) > score["four"] - wide
    assert random["last"][0] < score["h0"] / 2


@pytest.mark.slow
def test_activations_of_the_example_neurons(model: Model) -> None:
    """A neuron is excited by its piece more than by others."""
    for layer, neuron, piece in model.lesson["studied"]["neurons"]["examples"]:
        own, others = [], []
        for text in model.lesson["sentences"][:100]:
            trace, pieces = model.run(text)
            values = trace[f"layer.{layer}.intermediate"][0, :, neuron].tolist()
            for value, name in list(zip(values, pieces, strict=True))[1:-1]:
                (own if name == piece else others).append(value)
        assert not own or np.mean(own) > np.mean(others), (layer, neuron, piece)
