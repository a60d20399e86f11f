"""minibert-ko goes on from its folder, for as long as it is given: more text, gaps as people ask them, graded pairs.

    PYTHONPATH=scripts python -m recipe.further --data DATA --e5 e5-small-q4.bin --start FOLDER --work WORK --hours 1.7

What was given away last was made so, one thread of an AMD Zen 4 reading 4,000 tokens a second. Every step reads

    words        everyday sentences, Wikipedia and reviews; of nouns before particles more are hidden (`particles.py`)
    pairs        next sentence or not, from Wikipedia
    sentences    multilingual-e5-small's vectors, mapped to the space of minibert-en, and what each word means; of
                 human translations the vector that minibert-en has for the English
    grades       pairs of KorSTS and KLUE STS train: the more alike, the higher the cosine (Su 2022, "CoSENT");
                 premises of KLUE NLI train beside what follows from them, not what contradicts them
while the learning rate falls in a line from 3.7e-4 to zero at the end. An interrupted run goes on from its last state.
"""

from __future__ import annotations

import argparse
import json
import lzma
import time
from collections.abc import Iterator
from functools import partial
from itertools import chain, count, islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import Optimizer

from minibert import BertForPreTraining, BertModel, BertTokenizer
from minibert.checkpoints.source import BUNDLED_MODELS
from minibert.files import replacing
from minibert.losses import IGNORED
from minibert.training.corpora import TokenCache
from minibert.training.data import Batch, Epochs, Example, pack
from minibert.training.loop import make_optimizer
from minibert.training.options import TrainingOptions
from minibert.training.pretraining import PretrainingData
from minibert.training.speedups import faster_operators, word_loss
from recipe import measures, table, texts
from recipe.distillation import sentence_loss
from recipe.e5 import E5, E5File, E5Tokenizer
from recipe.mixtures import AsAsked, Portions, documents_of
from recipe.models import NO_DROPOUT, give_away
from recipe.particles import Particles, words_with_particles
from recipe.space import linear_map
from recipe.words import states_of_tokens

# text, tokens of it a step, next sentences, longest example, how often nouns before particles and the rest are hidden
STREAMS = (
    ("everyday", 1900, False, 64, (0.34, 0.13)),
    ("wikipedia", 550, True, 64, None),
    ("wikipedia", 400, False, 126, (0.28, 0.14)),
    ("nsmc-reviews", 450, False, 64, (0.28, 0.14)),
)
DOCUMENTS = {"everyday": 10**9, "wikipedia": 7000, "nsmc-reviews": 150_000}
ENGLISH, KOREAN = 12_288, 57_344  # sentences that e5 reads
TAUGHT, GRADED, FOLLOWING = 36, 16, 6  # sentences, pairs and triples of a step
WEIGHTS = {
    "words": 1.0,
    "pairs": 0.35,
    "sentences": 1.2,
    "states": 3.0,
    "grades": 0.03,
    "following": 0.1,
}  # about even gradients
EPOCH_STEPS, WARMUP, SAVE_SECONDS = 40, 40, 240


class Teacher:
    """The sentences whose vectors and words' states are known, as examples; made once, kept in a folder."""

    def __init__(self, folder: Path, data: Path, e5: Path, tokenizer: Any, prompts: texts.Prompts) -> None:
        self.tokenizer = tokenizer
        if not (folder / "sentences" / "cache.json").is_file():
            folder.mkdir(parents=True, exist_ok=True)
            self._make(folder, data, e5, prompts)
        self.cache = TokenCache(folder / "sentences")
        self.starts = np.append(0, np.cumsum(self.cache.lengths))
        self.vectors = np.load(folder / "vectors.npy", mmap_mode="r")
        self.states = np.load(folder / "states.npy", mmap_mode="r")
        self.order = np.random.default_rng(1).permutation(len(self.cache))

    def _make(self, folder: Path, data: Path, e5: Path, prompts: texts.Prompts) -> None:
        file = E5File.read(e5)
        file.save(folder / "e5")
        teacher = E5(folder / "e5", E5Tokenizer(file))
        english_model = BertModel.from_pretrained(BUNDLED_MODELS / "minibert-en")
        english_vectors = partial(
            measures.vectors, english_model, BertTokenizer.from_pretrained(BUNDLED_MODELS / "minibert-en")
        )
        english = texts.teacher_sentences(data, "en", prompts)[:ENGLISH]
        weight, bias = linear_map(teacher.encode(english).numpy(), english_vectors(english).numpy(), ridge=1e-3)

        korean = texts.teacher_sentences(data, "ko", prompts)[:KOREAN]
        vectors, words = teacher.encode_words(korean)
        counts = [len(ids) for ids in self._ids(korean)]
        states = states_of_tokens(words, korean, self.tokenizer).numpy()
        states = (states @ weight + bias) * states.any(-1, keepdims=True)
        found = list(
            zip(korean, vectors.numpy() @ weight + bias, np.split(states, np.cumsum(counts)[:-1]), strict=True)
        )

        sides = (texts.parallel(data, column, texts.GENERAL) for column in (0, 1))
        human = [pair for pair in zip(*sides, strict=True) if pair[1] not in prompts]
        translations = [pair[1] for pair in human]
        nothing = [np.zeros((len(ids), len(bias))) for ids in self._ids(translations)]
        found += zip(translations, english_vectors([pair[0] for pair in human]).numpy(), nothing, strict=True)

        found = [row for row in found if 0 < len(row[2]) <= 120]
        np.save(folder / "vectors.npy", np.stack([row[1] for row in found]).astype(np.float16))
        np.save(folder / "states.npy", np.concatenate([row[2] for row in found]).astype(np.float16))
        TokenCache.write(([row[0]] for row in found), self.tokenizer, folder / "sentences")

    def _ids(self, sentences: list[str]) -> list[list[int]]:
        rows: list[list[int]] = self.tokenizer(sentences, add_special_tokens=False)["input_ids"]
        return rows

    def examples(self, step: int) -> Iterator[Example]:
        """Those of a step, each with its number."""
        for place in range(step * TAUGHT, (step + 1) * TAUGHT):
            number = int(self.order[place % len(self.order)])
            yield {**_plain(self.tokenizer, np.concatenate(self.cache[number])), "sentence": number}

    def wanted_states(self, numbers: list[int]) -> Tensor:
        """The states of the sentences' tokens, (tokens, hidden): [CLS] and [SEP] have the mean of the others'."""
        found = []
        for number in numbers:
            states = self.states[self.starts[number] : self.starts[number + 1]].astype(np.float32)
            mean = states.mean(0, keepdims=True)
            found += [mean, states, mean]
        return torch.from_numpy(np.concatenate(found))


def _lines(path: Path) -> list[str]:
    with lzma.open(path, "rt", encoding="utf-8") as file:
        return file.read().split("\n")[:-1]


def _plain(tokenizer: Any, ids: Any) -> Example:
    ids = np.concatenate([[tokenizer.cls_token_id], ids, [tokenizer.sep_token_id]])
    return {"input_ids": ids, "labels": np.full_like(ids, IGNORED)}


def graded_pairs(data: Path, prompts: texts.Prompts) -> list[tuple[float, str, str]]:
    """Score of 0 to 1 and sentences of KorSTS and KLUE STS train, without lines of the tests and sentences of dev."""
    left_out = set(map(int, (data / "korsts" / "train-lines-in-test-wide.txt").read_text(encoding="utf-8").split()))
    rows = (data / "korsts" / "sts-train.tsv").read_text(encoding="utf-8").split("\n")[:-1]
    # the list may count the header or not: both of its readings are left out
    korsts = (row.split("\t")[4:7] for n, row in enumerate(rows) if n and not {n, n + 1} & left_out)
    klue = (row.split("\t") for row in _lines(data / "klue" / "sts-train.tsv.xz")[1:])
    never = {text for row in measures.sts_rows(data / table.STS["ko"]) for text in row[5:7]}
    found = [(float(score) / 5, a, b) for score, a, b in chain(korsts, klue) if not never & {a, b}]
    return [row for row in found if row[1] not in prompts and row[2] not in prompts]


def following_sentences(data: Path, prompts: texts.Prompts) -> list[tuple[str, str, str]]:
    """Premise, what follows from it, what contradicts it, of KLUE NLI train."""
    by_premise: dict[str, dict[str, str]] = {}
    for _, _, label, premise, hypothesis in (row.split("\t") for row in _lines(data / "klue" / "nli-train.tsv.xz")[1:]):
        by_premise.setdefault(premise, {})[label] = hypothesis
    wanted = ("entailment", "contradiction")
    return [
        (p, *(found[n] for n in wanted))
        for p, found in by_premise.items()
        if {*wanted} <= {*found} and p not in prompts
    ]


def stream(epochs: Epochs, seed: int, first: int) -> Iterator[Example]:
    """The examples of all epochs from the first one on, each epoch in an order of its own."""
    for number in count(first):
        examples = epochs(number)
        for place in np.random.default_rng([seed, number]).permutation(len(examples)):
            yield examples[place]


class Steps:
    """The batches of the run, from a step on."""

    def __init__(self, data: Path, work: Path, e5: Path, tokenizer: Any, first: int = 0) -> None:
        prompts = texts.Prompts(text for text, _ in measures.read_prompts(table.PROMPTS["ko"]))
        self.tokenizer = tokenizer
        caches = {}
        for name, documents in DOCUMENTS.items():
            folder = work / "texts" / name
            if not (folder / "cache.json").is_file():
                TokenCache.write(islice(self._documents(data, name, prompts), documents), tokenizer, folder)
            caches[name] = TokenCache(folder)
        vocabulary = tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
        some = chain.from_iterable(islice(self._documents(data, name, prompts), 20_000) for name in DOCUMENTS)
        cut = words_with_particles(vocabulary, chain.from_iterable(some))
        self.streams = []
        for seed, (name, tokens, pairs, length, hidden) in enumerate(STREAMS):
            portions = Portions(caches[name].lengths, EPOCH_STEPS * tokens, seed)
            epochs: Epochs = PretrainingData(
                partial(documents_of, caches[name], portions, pairs),
                tokenizer,
                max_length=length,
                next_sentence=pairs,
                mask_probability=0.2,
                seed=seed,
            ).epoch
            if hidden:
                epochs = Particles(epochs, tokenizer, cut, nouns=hidden[0], rest=hidden[1], seed=seed)
            self.streams.append((stream(AsAsked(epochs, tokenizer, seed=seed), seed, first // EPOCH_STEPS), tokens))
        self.teacher = Teacher(work / "teacher", data, e5, tokenizer, prompts)
        rng = np.random.default_rng(2)
        pairs_, triples = graded_pairs(data, prompts), following_sentences(data, prompts)
        self.pairs = [pairs_[n] for n in rng.permutation(len(pairs_))]
        self.triples = [triples[n] for n in rng.permutation(len(triples))]

    @staticmethod
    def _documents(data: Path, name: str, prompts: texts.Prompts) -> Iterator[list[str]]:
        return texts.split(data / "korean" / f"{name}.txt.xz", "ko", held_back=False, prompts=prompts)

    def __call__(self, step: int) -> tuple[Batch, Tensor]:
        """The packed examples of a step, and the scores of its graded pairs."""
        found: list[Example] = []
        for examples, tokens in self.streams:
            while tokens > 0:
                found.append(next(examples))
                tokens -= len(found[-1]["input_ids"])
        found += self.teacher.examples(step)
        graded = [self.pairs[n % len(self.pairs)] for n in range(step * GRADED, (step + 1) * GRADED)]
        triples = [self.triples[n % len(self.triples)] for n in range(step * FOLLOWING, (step + 1) * FOLLOWING)]
        for place, text in enumerate(chain(*(row[1:] for row in graded), *triples)):
            ids = self.tokenizer(text, add_special_tokens=False)["input_ids"][:62]
            found.append({**_plain(self.tokenizer, ids), "place": place})
        none: Example = {"next_sentence_label": IGNORED, "sentence": IGNORED, "place": IGNORED}
        complete = [{**none, "token_type_ids": np.zeros_like(e["input_ids"]), **e} for e in found]
        batch = pack(sorted(complete, key=lambda example: len(example["input_ids"])))
        return batch, torch.tensor([score for score, _, _ in graded])


def graded_loss(cosines: Tensor, scores: Tensor, scale: float = 20.0) -> Tensor:
    """Su 2022: log(1 + the sum of exp(scale * (cos_i - cos_j)) over all pairs i that have a lower score than j)."""
    gaps = (cosines[:, None] - cosines[None, :])[scores[:, None] < scores[None, :]] * scale
    return torch.logsumexp(torch.cat([gaps.new_zeros(1), gaps]), 0)


def losses(model: nn.Module, batch: Batch, scores: Tensor, teacher: Teacher) -> dict[str, Tensor]:
    """Each loss, a mean over what it asks."""
    inputs = {name: batch[name] for name in ("input_ids", "token_type_ids", "layout")}
    asked = batch["labels"] != IGNORED
    out = model(**inputs, positions=asked, output_hidden_states=True)
    labels, states = batch["labels"][asked], out.hidden_states[-1].float()
    lengths = torch.tensor(batch["layout"].lengths)
    means = torch.segment_reduce(states, "mean", lengths=lengths)

    numbers = batch["sentence"]
    taught = numbers != IGNORED
    wanted = torch.from_numpy(teacher.vectors[numbers[taught].numpy()].astype(np.float32))
    apart = 1 - F.cosine_similarity(
        states[taught.repeat_interleave(lengths)], teacher.wanted_states(numbers[taught].tolist()), dim=-1
    )
    given = (batch["place"] != IGNORED).nonzero().flatten()
    vectors = F.normalize(means[given[batch["place"][given].argsort()]], dim=-1)
    pairs, triples = vectors[: 2 * GRADED], vectors[2 * GRADED :]
    premises, following, against = triples[0::3], triples[1::3], triples[2::3]
    cosines = premises @ torch.cat([following, against]).T
    return {
        "words": word_loss(out.prediction_logits, labels) / len(labels),
        "pairs": F.cross_entropy(
            out.seq_relationship_logits.float(), batch["next_sentence_label"], ignore_index=IGNORED
        ),
        "sentences": sentence_loss(means[taught], F.normalize(wanted, dim=-1)) / len(wanted),
        "states": torch.segment_reduce(apart, "mean", lengths=lengths[taught]).mean(),
        "grades": graded_loss((pairs[0::2] * pairs[1::2]).sum(-1), scores),
        "following": F.cross_entropy(cosines * 20, torch.arange(len(premises))),
    }


def run(model: nn.Module, optimizer: Optimizer, steps: Steps, work: Path, state: dict[str, Any], options: Any) -> None:
    """Trains until the time is over; `state` has the step, the tokens and the seconds so far."""
    learning_rate, limit = options.lr, options.hours * 3600

    def save() -> None:
        with replacing(work / "state.pt") as temporary:
            torch.save({**state, "model": model.state_dict(), "optimizer": optimizer.state_dict()}, temporary)

    saved = time.monotonic()
    with (work / "log.jsonl").open("a", encoding="utf-8") as log:
        while state["seconds"] < limit and state["step"] < options.steps:
            began = time.monotonic()
            rate = learning_rate * min(1, (state["step"] + 1) / WARMUP) * (1 - state["seconds"] / limit)
            for group in optimizer.param_groups:
                group["lr"] = rate
            batch, scores = steps(state["step"])
            with faster_operators(torch.device("cpu"), model):
                with torch.autocast("cpu", torch.bfloat16):
                    found = losses(model, batch, scores, steps.teacher)
                torch.stack([WEIGHTS[name] * loss for name, loss in found.items()]).sum().backward()
            nn.utils.clip_grad_norm_(model.parameters(), 2.0)
            optimizer.step()
            optimizer.zero_grad()
            state["step"] += 1
            state["tokens"] += len(batch["input_ids"])
            state["seconds"] += time.monotonic() - began
            entry = {**state, "lr": rate, **{name: round(loss.item(), 4) for name, loss in found.items()}}
            log.write(json.dumps(entry) + "\n")
            log.flush()
            if time.monotonic() - saved > SAVE_SECONDS:
                save()
                saved = time.monotonic()
    save()


def main() -> None:
    parser = argparse.ArgumentParser(description="minibert-ko goes on from its folder.")
    for name, text in (("data", "folder of texts"), ("e5", "e5-small-q4.bin"), ("start", "folder to begin with")):
        parser.add_argument(f"--{name}", type=Path, required=True, help=text)
    parser.add_argument("--work", type=Path, required=True, help="folder of the run; the model is in its minibert-ko")
    parser.add_argument("--hours", type=float, default=1.7, help="of computing")
    parser.add_argument("--lr", type=float, default=3.7e-4)
    parser.add_argument("--steps", type=int, default=10**9, help="so many at most")
    options = parser.parse_args()
    torch.manual_seed(0)
    options.work.mkdir(parents=True, exist_ok=True)
    tokenizer, saved = BertTokenizer.from_pretrained(options.start), options.work / "state.pt"
    model = BertForPreTraining.from_pretrained(options.start, dtype=torch.float32, **NO_DROPOUT).train()
    optimizer = make_optimizer(model, TrainingOptions(learning_rate=options.lr, weight_decay=0.01))
    state: dict[str, Any] = {"step": 0, "tokens": 0, "seconds": 0.0}
    if saved.is_file():
        state = torch.load(saved, weights_only=True)
        model.load_state_dict(state.pop("model"))
        optimizer.load_state_dict(state.pop("optimizer"))
    steps = Steps(options.data, options.work, options.e5, tokenizer, state["step"])
    run(model, optimizer, steps, options.work, state, options)
    give_away(model, tokenizer, options.work / "minibert-ko")


if __name__ == "__main__":
    main()
