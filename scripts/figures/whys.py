"""Measures what the page cannot measure itself, for three scenes of `minibert learn`.

    python scripts/figures/whys.py fine-tuning neurons [--language en]
    python scripts/figures/whys.py layers --klue KLUE --sst2 SST2

The results go into article/studied.json. KLUE is a folder with ner-train-5000.tsv.xz and
ner-dev.tsv.xz (KLUE-NER, CC BY-SA 4.0), and SST2 one with train.tsv and dev.tsv, a sentence and its
label in each line. Only counts of them are kept. Run it after a change of a bundled model or of the
sentences of the scenes.
"""

from __future__ import annotations

import argparse
import copy
import json
import lzma
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import minibert
from minibert.learn import live
from minibert.learn.build import load_page_model
from minibert.learn.lesson import article, articles

STUDIED = Path(minibert.__file__).parent / "learn/page/article/studied.json"
SPLITS, EPOCHS, BATCH, RATE = 5, 5, 20, 2e-4
TOP, SAME = 10, 8  # of the ten texts that excite a neuron most, so many have to share the piece
SPECIAL = ("[CLS]", "[SEP]", "[PAD]", "[MASK]", "[UNK]")


class Subject:
    """The bundled model of an article with the weights of its page, and its sentences."""

    def __init__(self, language: str) -> None:
        network, self.tokenizer = load_page_model(articles()[language]["model"])
        self.network = live.rounded(network).eval()
        self.lesson = article(language)["lesson"]

    def encode(self, texts: list[str]) -> Any:
        return self.tokenizer(texts, padding=True, return_tensors="pt")


# ---------------------------------------------------------------- fine-tuning


def answers(subject: Subject, network: Any) -> list[int]:
    """Return the id of the best piece at the [MASK] of every prompt of the scene on a layer."""
    batch = subject.encode(subject.lesson["examples"]["layer"]["many"])
    with torch.no_grad():
        logits = network(**batch).prediction_logits
    rows, places = (batch["input_ids"] == subject.tokenizer.mask_token_id).nonzero(as_tuple=True)
    best: list[int] = logits[rows, places].argmax(-1).tolist()
    return best


def nearest_meanings(subject: Subject, network: Any) -> int:
    """Return for how many of the triples the right meaning is the nearest by mean vectors."""
    triples = subject.lesson["crowds"]["paraphrases"]

    def vectors(texts: list[str]) -> Tensor:
        batch = subject.encode(texts)
        with torch.no_grad():
            states = network.bert(**batch).last_hidden_state
        mask = batch["attention_mask"][..., None]
        return nn.functional.normalize((states * mask).sum(1) / mask.sum(1), dim=-1)

    alike = vectors([own for own, _, _ in triples]) @ vectors([same for _, _, same in triples]).T
    return int((alike.argmax(1) == torch.arange(len(triples))).sum())


def fine_tune(subject: Subject, texts: list[str], labels: list[int], seed: int) -> tuple[Any, Any]:
    """Train all weights of a copy of the model, and a classifier on its pooler."""
    torch.manual_seed(seed)
    network = copy.deepcopy(subject.network)
    head = nn.Linear(network.config.hidden_size, 2)
    weights = [*network.bert.parameters(), *head.parameters()]
    optimizer = torch.optim.AdamW(weights, lr=RATE, weight_decay=0.01)
    steps = EPOCHS * -(-len(texts) // BATCH)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / steps)
    order = random.Random(seed)
    for _ in range(EPOCHS):
        shuffled = order.sample(range(len(texts)), len(texts))
        for start in range(0, len(texts), BATCH):
            own = shuffled[start : start + BATCH]
            pooled = network.bert(**subject.encode([texts[i] for i in own])).pooler_output
            loss = nn.functional.cross_entropy(head(pooled), torch.tensor([labels[i] for i in own]))
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(weights, 1.0)
            optimizer.step()
            schedule.step()
    return network, head


def moved(before: Any, after: Any) -> list[float]:
    """Return how far the weights moved, relative to their length: embeddings, layers, pooler."""
    parts = [before.bert.embeddings, *before.bert.encoder.layer, before.bert.pooler]
    others = [after.bert.embeddings, *after.bert.encoder.layer, after.bert.pooler]
    found = []
    for part, other in zip(parts, others, strict=True):
        old, new = (nn.utils.parameters_to_vector(own.parameters()) for own in (part, other))
        found.append(((new - old).norm() / old.norm()).item())
    return found


def study_fine_tuning(language: str) -> list[dict[str, Any]]:
    """Fine-tune on several splits of the labeled sentences, with true and with shuffled labels.

    Returns:
        For each split, with true and with shuffled labels: the share of new sentences that are
        right, the number of prompts with the same answer as before, the number of triples with the
        right meaning nearest, and how far each part moved.
    """
    subject = Subject(language)
    labeled = subject.lesson["labeled"]
    both = [*labeled["train"], *labeled["test"]]
    seen = len(labeled["train"])
    before = answers(subject, subject.network)
    found = []
    for split in range(SPLITS):
        start = 2 * (split * (len(both) // 2) // SPLITS)
        turned = [*both[start:], *both[:start]]
        texts, labels = [text for text, _ in turned], [label for _, label in turned]
        result = {}
        for name in ("true", "shuffled"):
            own = labels[:seen]
            if name == "shuffled":
                own = random.Random(split).sample(own, seen)
            network, head = fine_tune(subject, texts[:seen], own, split)
            network.eval()
            with torch.no_grad():
                logits = head(network.bert(**subject.encode(texts[seen:])).pooler_output)
            right = (logits.argmax(-1) == torch.tensor(labels[seen:])).float().mean().item()
            after = answers(subject, network)
            result[name] = {
                "right": round(right, 4),
                "kept": sum(a == b for a, b in zip(before, after, strict=True)),
                "nearest": nearest_meanings(subject, network),
                "moved": [round(value, 4) for value in moved(subject.network, network)],
            }
            print(language, split, name, result[name], flush=True)
        found.append(result)
    return found


# ---------------------------------------------------------------- neurons


def study_neurons(language: str) -> dict[str, Any]:
    """Count the neurons that are excited by one piece, and random directions for comparison.

    The sentences are divided into two halves. A neuron passes if eight of the ten texts of the
    first half that excite it most do so at the same piece. It holds if the same piece is most of
    the ten in the second half.

    Returns:
        For each layer: `neurons`, `passed`, `held`, and the same of as many random directions. Also
        `examples`: a neuron of each layer that passed, drawn at random, with its piece.
    """
    subject = Subject(language)
    network, sentences = subject.network, subject.lesson["sentences"]
    config = network.config
    generator = torch.Generator().manual_seed(0)
    directions = torch.randn(config.intermediate_size, config.hidden_size, generator=generator)
    best: dict[tuple[int, str], list[Any]] = {}
    inputs: dict[int, Tensor] = {}
    for number, layer in enumerate(network.bert.encoder.layer):
        layer.intermediate.register_forward_pre_hook(
            lambda module, args, number=number: inputs.__setitem__(number, args[0][0])
        )
    for text in sentences:
        batch = subject.encode([text])
        pieces = subject.tokenizer.convert_ids_to_tokens(batch["input_ids"][0].tolist())
        real = [i for i, piece in enumerate(pieces) if piece not in SPECIAL]
        with torch.no_grad():
            network.bert(**batch)
            for number, layer in enumerate(network.bert.encoder.layer):
                states = inputs[number][real]
                for kind, values in (
                    ("neurons", layer.intermediate(states)),
                    ("random", states @ directions.T),
                ):
                    most, place = values.max(0)
                    own = [pieces[real[i]] for i in place.tolist()]
                    best.setdefault((number, kind), []).append((most.numpy(), own))
    half = len(sentences) // 2
    counts: dict[str, list[dict[str, int]]] = {"neurons": [], "random": []}
    examples = []
    for (number, kind), found in best.items():
        passed, held = [], 0
        for neuron in range(config.intermediate_size):
            tops = []
            for part in (found[:half], found[half:]):
                ranked = sorted(part, key=lambda own: -own[0][neuron])[:TOP]
                tops.append(Counter(own[1][neuron] for own in ranked))
            piece, count = tops[0].most_common(1)[0]
            if count >= SAME:
                passed.append((neuron, piece))
                held += tops[1][piece] > TOP / 2
        counts[kind].append({"all": config.intermediate_size, "passed": len(passed), "held": held})
        if kind == "neurons" and passed:
            neuron, piece = random.Random(number).choice(passed)
            examples.append([number, neuron, piece])
        pieces_ = Counter(piece for _, piece in passed).most_common(8)
        print(language, number, kind, len(passed), held, pieces_)
    return {**counts, "examples": examples}


# ---------------------------------------------------------------- layers


def read_names(path: Path, count: int) -> Iterator[tuple[str, list[str]]]:
    """Yield sentences of KLUE-NER with the tag of each character."""
    with lzma.open(path, "rt", encoding="utf-8") as file:
        blocks = file.read().split("\n\n")
    sentences = 0
    for block in blocks:
        rows = [line.rsplit("\t", 1) for line in block.split("\n") if line and line[:2] != "##"]
        rows = [row for row in rows if len(row) == 2]
        if rows and sentences < count:
            sentences += 1
            yield "".join(character for character, _ in rows), [tag for _, tag in rows]


def spans(tags: list[str]) -> set[tuple[int, int, str]]:
    """Return the spans of BIO tags as (start, end, kind)."""
    found, start = set(), None
    for i, tag in enumerate([*tags, "O"]):
        goes_on = start is not None and tag == f"I-{tags[start][2:]}"
        if start is not None and not goes_on:
            found.add((start, i, tags[start][2:]))
            start = None
        if tag.startswith("B-"):
            start = i
    return found


def choices_of_layers(depth: int) -> dict[str, list[int]]:
    """Return the hidden states that a classifier gets, for each choice of the textbook's table."""
    four = list(range(depth - 3, depth + 1))
    return {
        "h0": [0],
        "second": [depth - 1],
        "last": [depth],
        "sum of four": four,
        "four": four,
        "sum of all": list(range(1, depth + 1)),
    }


def train_linear(rows: Tensor, labels: Tensor, kinds: int, mixed: bool, epochs: int = 8) -> Any:
    """Train a linear classifier on states (layers, rows, hidden).

    Args:
        rows: The states of the chosen layers.
        labels: The index of the kind of each row.
        kinds: The number of kinds.
        mixed: Whether the layers are summed, with weights that are trained, too. Otherwise they are
            concatenated.
        epochs: The number of passes.
    """
    torch.manual_seed(0)
    linear = nn.Linear(rows.shape[2] if mixed else rows.shape[0] * rows.shape[2], kinds)
    weights = nn.Parameter(torch.zeros(rows.shape[0]))
    optimizer = torch.optim.Adam([*linear.parameters(), weights], lr=3e-3)

    def classify(own: Tensor) -> Tensor:
        if mixed:
            return linear((weights.softmax(0)[:, None, None] * own).sum(0))
        return linear(own.transpose(0, 1).flatten(1))

    for _ in range(epochs):
        for own in torch.randperm(rows.shape[1]).split(512):
            loss = nn.functional.cross_entropy(classify(rows[:, own]), labels[own])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return classify


def study_opinions(sst2: Path) -> dict[str, Any]:
    """Tell praise from complaint (SST-2) with a linear classifier on frozen means of layers.

    Returns:
        For each choice of layers: the percentage of the development set that is right, and its
        standard error. The same for the model with random weights. `difference`: how much better
        the last layer is than each other choice on the same sentences, with its standard error.
    """
    subject = Subject("en")
    torch.manual_seed(0)
    blank = type(subject.network)(subject.network.config).eval()

    def read(part: str) -> list[tuple[str, int]]:
        lines = (sst2 / f"{part}.tsv").read_text(encoding="utf-8").splitlines()
        return [(text, int(label)) for text, label in (line.rsplit("\t", 1) for line in lines)]

    pairs = {"train": read("train")[:1500], "dev": read("dev")}
    sizes = {part: len(own) for part, own in pairs.items()}

    def features(network: Any, part: str) -> Tensor:
        """Return the mean states of the sentences: (depth, sentences, hidden)."""
        means = []
        for text, _ in pairs[part]:
            with torch.no_grad():
                states = network.bert(
                    **subject.encode([text]), output_hidden_states=True
                ).hidden_states
            means.append(torch.stack([state[0].mean(0) for state in states]))
        return torch.stack(means, 1)

    labels = {part: torch.tensor([label for _, label in own]) for part, own in pairs.items()}
    results: dict[str, Any] = {"sentences": sizes, "tags": 2}
    right: dict[str, Tensor] = {}
    for kind, network in (("trained", subject.network), ("random", blank)):
        rows, others = features(network, "train"), features(network, "dev")
        mean, spread = rows.mean(1, keepdim=True), rows.std(1, keepdim=True) + 1e-6
        rows, others = (rows - mean) / spread, (others - mean) / spread
        results[kind] = {}
        for name, layers in choices_of_layers(len(rows) - 1).items():
            if kind == "random" and name not in ("h0", "last"):
                continue
            mixed = name.startswith("sum")
            classify = train_linear(rows[layers], labels["train"], 2, mixed, epochs=60)
            with torch.no_grad():
                correct = (classify(others[layers]).argmax(-1) == labels["dev"]).double()
            results[kind][name] = percent_and_error(correct)
            if kind == "trained":
                right[name] = correct
            print(kind, name, results[kind][name], flush=True)
    results["difference"] = {
        name: percent_and_error(right["last"] - correct) for name, correct in right.items()
    }
    return results


def percent_and_error(values: Tensor) -> list[float]:
    """Return the mean of values and its standard error, both as percentages."""
    error = values.std() / len(values) ** 0.5
    return [round(100 * values.mean().item(), 1), round(100 * error.item(), 1)]


def study_names(klue: Path) -> dict[str, Any]:
    """Recognize Korean names with a linear classifier on frozen vectors of different layers.

    Returns:
        For each choice of layers: F1 of the spans on the development set, and its standard error by
        resampling the sentences 200 times. The same for the model with random weights.
    """
    subject = Subject("ko")
    config = subject.network.config
    torch.manual_seed(0)
    blank = type(subject.network)(config).eval()
    sizes = {"train": 1500, "dev": 1000}
    files = {"train": "ner-train-5000.tsv.xz", "dev": "ner-dev.tsv.xz"}
    names = {part: list(read_names(klue / files[part], size)) for part, size in sizes.items()}
    kinds = sorted({tag for _, tags in names["train"] for tag in tags})
    choices = choices_of_layers(config.num_hidden_layers)

    def features(network: Any, part: str) -> tuple[list[Tensor], list[list[str]]]:
        """Return the states (depth, tokens, hidden) and the tags of the tokens of each sentence."""
        states, tags = [], []
        for text, own in names[part]:
            encoding = subject.tokenizer(text, return_offsets_mapping=True, truncation=True)
            batch = {
                name: torch.tensor([encoding[name]]) for name in ("input_ids", "attention_mask")
            }
            with torch.no_grad():
                found = network.bert(**batch, output_hidden_states=True).hidden_states
            states.append(torch.stack([state[0, 1:-1] for state in found]))
            tags.append([own[start] for start, _ in encoding["offset_mapping"][1:-1]])
        return states, tags

    def f1(right: float, said: float, true: float) -> float:
        return 2 * right / max(said + true, 1)

    results: dict[str, Any] = {"sentences": sizes, "tags": len(kinds)}
    for kind, network in (("trained", subject.network), ("random", blank)):
        (states, tags), (others, answers_) = (features(network, part) for part in ("train", "dev"))
        rows = torch.cat(states, 1)
        mean, spread = rows.mean(1, keepdim=True), rows.std(1, keepdim=True) + 1e-6
        rows = (rows - mean) / spread
        labels = torch.tensor([kinds.index(tag) for own in tags for tag in own])
        results[kind] = {}
        for name, layers in choices.items():
            if kind == "random" and name not in ("h0", "last"):
                continue
            classify = train_linear(rows[layers], labels, len(kinds), name.startswith("sum"))
            counts = []
            for own, true in zip(others, answers_, strict=True):
                with torch.no_grad():
                    best = classify(((own - mean) / spread)[layers]).argmax(-1)
                said, wanted = spans([kinds[i] for i in best]), spans(true)
                counts.append((len(said & wanted), len(said), len(wanted)))
            table = np.array(counts)
            drawn = np.random.default_rng(0).integers(0, len(table), (200, len(table)))
            scores = [f1(*table[rows_].sum(0)) for rows_ in drawn]
            results[kind][name] = [
                round(100 * f1(*table.sum(0)), 1),
                round(100 * float(np.std(scores)), 1),
            ]
            print(kind, name, results[kind][name], flush=True)
    return results


def main() -> None:
    """Measure the studies of the command line, and keep the others."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("studies", nargs="+", choices=["fine-tuning", "neurons", "layers"])
    parser.add_argument("--language", choices=list(articles()), help="Measure one article.")
    parser.add_argument(
        "--klue", type=Path, help="Folder of KLUE-NER, for the Korean study of layers."
    )
    parser.add_argument("--sst2", type=Path, help="Folder of SST-2, for the English one.")
    options = parser.parse_args()
    for language in [options.language] if options.language else articles():
        for study in options.studies:
            found: Any
            if study == "fine-tuning":
                found = study_fine_tuning(language)
            elif study == "neurons":
                found = study_neurons(language)
            elif language == "ko":
                found = study_names(options.klue)
            else:
                found = study_opinions(options.sst2)
            content = json.loads(STUDIED.read_text(encoding="utf-8")) if STUDIED.exists() else {}
            content.setdefault(language, {})[study] = found
            STUDIED.write_text(
                json.dumps(content, ensure_ascii=False, indent=1) + "\n", encoding="utf-8"
            )


if __name__ == "__main__":
    main()
