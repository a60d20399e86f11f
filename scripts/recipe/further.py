"""minibert-en or minibert-ko goes on from its folder, for as long as it is given: more text, taught sentences.

    PYTHONPATH=scripts python -m recipe.further en --data DATA --e5 e5-small-q4.bin --start FOLDER --work WORK

What was given away last was made so, one thread of an AMD Zen 4 reading 3,000 (en) to 4,000 (ko) tokens a second.
Every step reads

    words        Wikipedia, everyday sentences, books or reviews; in Korean of nouns before particles more are hidden
                 (`particles.py`)
    pairs        next sentence or not
    sentences    the vectors of larger models, and their states of every word (`teachers.py`)
and in Korean
    grades       pairs of KorSTS and KLUE STS train: the more alike, the higher the cosine (Su 2022, "CoSENT");
                 premises of KLUE NLI train beside what follows from them, not what contradicts them
while the learning rate falls in a line to zero at the end. An interrupted run goes on from its last state.
"""

from __future__ import annotations

import argparse
import json
import lzma
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain, count, islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import Optimizer

from minibert import BertForPreTraining, BertTokenizer
from minibert.files import replacing
from minibert.losses import IGNORED
from minibert.training.corpora import TokenCache
from minibert.training.data import Batch, Epochs, Example, pack
from minibert.training.loop import make_optimizer
from minibert.training.options import TrainingOptions
from minibert.training.pretraining import PretrainingData
from minibert.training.speedups import faster_operators, word_loss
from recipe import measures, table, texts
from recipe.distillation import SENTENCE, TaughtSentences, sentence_loss
from recipe.mixtures import AsAsked, Portions, complete, documents_of
from recipe.models import NO_DROPOUT, give_away
from recipe.particles import Particles, words_with_particles
from recipe.teachers import EnglishTeacher, KoreanTeacher, Teacher

PLACE = "place"
"""Name of the label that says where an example stands among the graded pairs."""
GRADED, FOLLOWING = 16, 6  # pairs and triples of a Korean step
EPOCH_STEPS, WARMUP, SAVE_SECONDS = 40, 60, 240


@dataclass(frozen=True)
class Stream:
    """A text of every step.

    Attributes:
        text: its name.
        tokens: of it in a step.
        max_length: of an example.
        pairs: whether it asks for the next sentence.
        hidden: in Korean, how often nouns before their particles and the other words are hidden.
    """

    text: str
    tokens: int
    max_length: int = 64
    pairs: bool = False
    hidden: tuple[float, float] | None = None


@dataclass(frozen=True)
class Further:
    """How a language goes on.

    Attributes:
        streams: the texts.
        documents: of a text at most; all of one that is not named.
        taught: sentences of a step.
        weights: of the losses; about even gradients.
        teacher: of the sentences.
    """

    streams: tuple[Stream, ...]
    documents: dict[str, int]
    taught: int
    weights: dict[str, float]
    teacher: type[Teacher]


LANGUAGES = {
    "en": Further(
        streams=(
            Stream("wikipedia", 1700, 128),
            Stream("wikipedia", 400, pairs=True),
            Stream("books", 200, pairs=True),
            Stream("everyday", 250),
        ),
        documents={},
        taught=110,
        weights={"words": 1.0, "pairs": 0.3, "sentences": 3.0, "states": 2.0},
        teacher=EnglishTeacher,
    ),
    "ko": Further(
        streams=(
            Stream("everyday", 1900, hidden=(0.34, 0.13)),
            Stream("wikipedia", 550, pairs=True),
            Stream("wikipedia", 400, 126, hidden=(0.28, 0.14)),
            Stream("nsmc-reviews", 450, hidden=(0.28, 0.14)),
        ),
        documents={"wikipedia": 7000, "nsmc-reviews": 150_000},
        taught=36,
        weights={
            "words": 1.0,
            "pairs": 0.35,
            "sentences": 1.2,
            "states": 3.0,
            "grades": 0.03,
            "following": 0.1,
        },
        teacher=KoreanTeacher,
    ),
}


def _lines(path: Path) -> list[str]:
    with lzma.open(path, "rt", encoding="utf-8") as file:
        return file.read().split("\n")[:-1]


def graded_pairs(data: Path, prompts: texts.Prompts) -> list[tuple[float, str, str]]:
    """Score of 0 to 1 and sentences of KorSTS and KLUE STS train, without lines of the tests and sentences of dev."""
    left_out = set(
        map(
            int,
            (data / "korsts" / "train-lines-in-test-wide.txt").read_text(encoding="utf-8").split(),
        )
    )
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
    for _, _, label, premise, hypothesis in (
        row.split("\t") for row in _lines(data / "klue" / "nli-train.tsv.xz")[1:]
    ):
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

    def __init__(
        self, language: str, data: Path, work: Path, e5: Path, tokenizer: Any, first: int = 0
    ) -> None:
        self.further, self.tokenizer = LANGUAGES[language], tokenizer
        prompts = texts.Prompts(
            text for path in table.PROMPTS.values() for text, _ in measures.read_prompts(path)
        )
        caches, some = {}, []
        for name in dict.fromkeys(stream.text for stream in self.further.streams):
            path, folder = data / table.FOLDERS[language] / f"{name}.txt.xz", work / "texts" / name
            documents = partial(texts.split, path, language, held_back=False, prompts=prompts)
            if not (folder / "cache.json").is_file():
                TokenCache.write(
                    islice(documents(), self.further.documents.get(name)), tokenizer, folder
                )
            caches[name] = TokenCache(folder)
            some.append(islice(documents(), 20_000))
        cut = {}
        if language == "ko":
            vocabulary = tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
            cut = words_with_particles(vocabulary, chain.from_iterable(chain.from_iterable(some)))
        self.streams = []
        for seed, source in enumerate(self.further.streams):
            cache = caches[source.text]
            portions = Portions(cache.lengths, EPOCH_STEPS * source.tokens, seed)
            epochs: Epochs = PretrainingData(
                partial(documents_of, cache, portions, source.pairs),
                tokenizer,
                max_length=source.max_length,
                next_sentence=source.pairs,
                mask_probability=0.2,
                seed=seed,
            ).epoch
            if source.hidden:
                nouns, rest = source.hidden
                epochs = Particles(epochs, tokenizer, cut, nouns=nouns, rest=rest, seed=seed)
            if language == "ko":
                epochs = AsAsked(epochs, tokenizer, seed=seed)
            self.streams.append((stream(epochs, seed, first // EPOCH_STEPS), source.tokens))
        self.teacher = self.further.teacher(work / "teacher", data, e5, tokenizer, prompts)
        self.taught = TaughtSentences(
            self.teacher.sentences, tokenizer, sentences_per_epoch=self.further.taught
        ).epoch
        rng, (pairs, triples) = np.random.default_rng(2), ([], [])
        if language == "ko":
            pairs, triples = graded_pairs(data, prompts), following_sentences(data, prompts)
        self.pairs = [pairs[n] for n in rng.permutation(len(pairs))]
        self.triples = [triples[n] for n in rng.permutation(len(triples))]

    def __call__(self, step: int) -> tuple[Batch, Tensor]:
        """The packed examples of a step, and the scores of its graded pairs."""
        found: list[Example] = []
        for examples, tokens in self.streams:
            while tokens > 0:
                found.append(next(examples))
                tokens -= len(found[-1]["input_ids"])
        found += self.taught(step)
        graded = _of_step(self.pairs, step, GRADED)
        asked = chain(*(row[1:] for row in graded), *_of_step(self.triples, step, FOLLOWING))
        for place, text in enumerate(asked):
            ids = self.tokenizer(text, truncation=True, max_length=64)["input_ids"]
            found.append({"input_ids": np.array(ids), PLACE: place})
        labels = ["labels"], ["next_sentence_label", SENTENCE, PLACE]
        examples = [complete(example, *labels) for example in found]
        batch = pack(sorted(examples, key=lambda example: len(example["input_ids"])))
        return batch, torch.tensor([score for score, *_ in graded])


def _of_step(rows: list[Any], step: int, size: int) -> list[Any]:
    return [rows[n % len(rows)] for n in range(step * size, (step + 1) * size)] if rows else []


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

    taught = batch[SENTENCE] != IGNORED
    tokens = taught.repeat_interleave(lengths)
    vectors, wanted = teacher.wanted(
        batch[SENTENCE][taught].tolist(), batch["input_ids"][tokens], lengths[taught]
    )
    apart = 1 - F.cosine_similarity(states[tokens], wanted, dim=-1)
    found = {
        "words": word_loss(out.prediction_logits, labels) / len(labels),
        "pairs": F.cross_entropy(
            out.seq_relationship_logits.float(), batch["next_sentence_label"], ignore_index=IGNORED
        ),
        "sentences": sentence_loss(means[taught], F.normalize(vectors, dim=-1)) / len(vectors),
        "states": torch.segment_reduce(apart, "mean", lengths=lengths[taught]).mean(),
    }
    if len(scores):
        given = (batch[PLACE] != IGNORED).nonzero().flatten()
        rows = F.normalize(means[given[batch[PLACE][given].argsort()]], dim=-1)
        pairs, triples = rows[: 2 * GRADED], rows[2 * GRADED :]
        premises, following, against = triples[0::3], triples[1::3], triples[2::3]
        cosines = premises @ torch.cat([following, against]).T
        found["grades"] = graded_loss((pairs[0::2] * pairs[1::2]).sum(-1), scores)
        found["following"] = F.cross_entropy(cosines * 20, torch.arange(len(premises)))
    return found


def run(
    model: nn.Module,
    optimizer: Optimizer,
    steps: Steps,
    work: Path,
    state: dict[str, Any],
    options: Any,
) -> None:
    """Trains until the time is over; `state` has the step, the tokens and the seconds so far."""
    learning_rate, limit = options.lr, options.hours * 3600

    def save() -> None:
        with replacing(work / "state.pt") as temporary:
            torch.save(
                {**state, "model": model.state_dict(), "optimizer": optimizer.state_dict()},
                temporary,
            )

    saved = time.monotonic()
    with (work / "log.jsonl").open("a", encoding="utf-8") as log:
        while state["seconds"] < limit and state["step"] < options.steps:
            began = time.monotonic()
            rate = (
                learning_rate
                * min(1, (state["step"] + 1) / WARMUP)
                * (1 - state["seconds"] / limit)
            )
            for group in optimizer.param_groups:
                group["lr"] = rate
            batch, scores = steps(state["step"])
            with faster_operators(torch.device("cpu"), model):
                with torch.autocast("cpu", torch.bfloat16):
                    found = losses(model, batch, scores, steps.teacher)
                torch.stack(
                    [steps.further.weights[name] * loss for name, loss in found.items()]
                ).sum().backward()
            nn.utils.clip_grad_norm_(model.parameters(), 2.0)
            optimizer.step()
            optimizer.zero_grad()
            state["step"] += 1
            state["tokens"] += len(batch["input_ids"])
            state["seconds"] += time.monotonic() - began
            entry = {
                **state,
                "lr": rate,
                **{name: round(loss.item(), 4) for name, loss in found.items()},
            }
            log.write(json.dumps(entry) + "\n")
            log.flush()
            if time.monotonic() - saved > SAVE_SECONDS:
                save()
                saved = time.monotonic()
    save()


def main() -> None:
    parser = argparse.ArgumentParser(
        description="minibert-en or minibert-ko goes on from its folder."
    )
    parser.add_argument("language", choices=LANGUAGES)
    for name, text in (
        ("data", "folder of texts"),
        ("e5", "e5-small-q4.bin"),
        ("start", "folder to begin with"),
    ):
        parser.add_argument(f"--{name}", type=Path, required=True, help=text)
    parser.add_argument(
        "--work",
        type=Path,
        required=True,
        help="folder of the run; the model is in its minibert-LANGUAGE",
    )
    parser.add_argument("--hours", type=float, default=1.7, help="of computing")
    parser.add_argument("--lr", type=float, default=4e-4, help="at the beginning; it falls to zero")
    parser.add_argument("--steps", type=int, default=10**9, help="so many at most")
    options = parser.parse_args()
    torch.manual_seed(0)
    options.work.mkdir(parents=True, exist_ok=True)
    tokenizer, saved = BertTokenizer.from_pretrained(options.start), options.work / "state.pt"
    model = BertForPreTraining.from_pretrained(
        options.start, dtype=torch.float32, **NO_DROPOUT
    ).train()
    optimizer = make_optimizer(model, TrainingOptions(learning_rate=options.lr, weight_decay=0.01))
    state: dict[str, Any] = {"step": 0, "tokens": 0, "seconds": 0.0}
    if saved.is_file():
        state = torch.load(saved, weights_only=True)
        model.load_state_dict(state.pop("model"))
        optimizer.load_state_dict(state.pop("optimizer"))
    steps = Steps(
        options.language, options.data, options.work, options.e5, tokenizer, state["step"]
    )
    run(model, optimizer, steps, options.work, state, options)
    give_away(model, tokenizer, options.work / f"minibert-{options.language}")


if __name__ == "__main__":
    main()
