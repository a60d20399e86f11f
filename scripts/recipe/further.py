r"""Continues the training of minibert-en or minibert-ko for a number of hours.

    PYTHONPATH=scripts python -m recipe.further en --data DATA --e5 e5-small-q4.bin \
        --start FOLDER --work WORK

The released models are the result. One thread of an AMD Zen 4 processes 3,000 (en) to 4,000 (ko)
tokens per second. Every step has these losses:

    words        masked words of Wikipedia, everyday sentences, books or reviews. In Korean, nouns
                 before particles are masked more often (`particles.py`).
    pairs        next-sentence prediction
    sentences    sentence vectors of larger models
    states       token states of larger models (`teachers.py`)

and in Korean also

    grades       pairs of KorSTS and KLUE STS train: the higher the score, the higher the cosine
                 (Su 2022, "CoSENT")
    following    premises of KLUE NLI train: their entailments against contradictions

The learning rate falls linearly to zero. An interrupted run resumes from its last checkpoint.
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
from minibert.inference.training_speedups import faster_operators, word_loss
from minibert.losses import IGNORED
from minibert.training.corpora import TokenCache
from minibert.training.data import Batch, Epochs, Example, pack
from minibert.training.options import PretrainOptions, TrainingOptions
from minibert.training.pretraining import PretrainingData
from minibert.training.steps import make_optimizer
from minibert.util.files import replacing
from recipe import measures, table, texts
from recipe.distillation import SENTENCE, TaughtSentences, sentence_loss
from recipe.mixtures import AsAsked, Portions, complete, documents_of
from recipe.models import NO_DROPOUT, save_release
from recipe.particles import Particles, words_with_particles
from recipe.teachers import EnglishTeacher, KoreanTeacher, Teacher

PLACE = "place"
"""Name of the label that is the index of an example among the graded pairs."""
GRADED, FOLLOWING = 16, 6  # number of pairs and of triples in a Korean step
EPOCH_STEPS, WARMUP, SAVE_SECONDS = 40, 60, 240


@dataclass(frozen=True)
class Stream:
    """A text of every step.

    Attributes:
        text: Name of the text.
        tokens: Number of its tokens in a step.
        max_length: Maximum number of tokens of an example.
        pairs: Whether examples are pairs for next-sentence prediction.
        masking: In Korean, probabilities of masking nouns before particles and other words.
    """

    text: str
    tokens: int
    max_length: int = 64
    pairs: bool = False
    masking: tuple[float, float] | None = None


@dataclass(frozen=True)
class Settings:
    """Settings of the continued training in a language.

    Attributes:
        streams: The texts.
        documents: Maximum number of documents of a text. Texts that are not named are unlimited.
        taught: Number of sentences with target vectors in a step.
        weights: Weights of the losses, which make their gradients about equal.
        teacher: Teacher of the sentences.
    """

    streams: tuple[Stream, ...]
    documents: dict[str, int]
    taught: int
    weights: dict[str, float]
    teacher: type[Teacher]


LANGUAGES = {
    "en": Settings(
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
    "ko": Settings(
        streams=(
            Stream("everyday", 1900, masking=(0.34, 0.13)),
            Stream("wikipedia", 550, pairs=True),
            Stream("wikipedia", 400, 126, masking=(0.28, 0.14)),
            Stream("nsmc-reviews", 450, masking=(0.28, 0.14)),
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
    """Reads the scored sentence pairs of KorSTS and KLUE STS train.

    Lines that the test set of KorSTS has as well, and sentences of its dev set, are left out.

    Returns:
        Score from 0 to 1, first sentence and second sentence of each pair.
    """
    lines_in_test = data / "korsts" / "train-lines-in-test-wide.txt"
    left_out = {int(line) for line in lines_in_test.read_text(encoding="utf-8").split()}
    rows = (data / "korsts" / "sts-train.tsv").read_text(encoding="utf-8").split("\n")[:-1]
    # the list may or may not count the header, so both possible lines are left out
    korsts = (row.split("\t")[4:7] for n, row in enumerate(rows) if n and not {n, n + 1} & left_out)
    klue = (row.split("\t") for row in _lines(data / "klue" / "sts-train.tsv.xz")[1:])
    dev = {text for row in measures.sts_rows(data / table.STS["ko"]) for text in row[5:7]}
    pairs = [(float(score) / 5, a, b) for score, a, b in chain(korsts, klue) if not dev & {a, b}]
    return [row for row in pairs if row[1] not in prompts and row[2] not in prompts]


def following_sentences(data: Path, prompts: texts.Prompts) -> list[tuple[str, str, str]]:
    """Reads (premise, entailment, contradiction) triples of KLUE NLI train."""
    by_premise: dict[str, dict[str, str]] = {}
    for row in _lines(data / "klue" / "nli-train.tsv.xz")[1:]:
        _, _, label, premise, hypothesis = row.split("\t")
        by_premise.setdefault(premise, {})[label] = hypothesis
    triples = []
    for premise, hypotheses in by_premise.items():
        if {"entailment", "contradiction"} <= hypotheses.keys() and premise not in prompts:
            triples.append((premise, hypotheses["entailment"], hypotheses["contradiction"]))
    return triples


def stream(epochs: Epochs, seed: int, first: int) -> Iterator[Example]:
    """Yields the shuffled examples of all epochs, starting with epoch `first`."""
    for number in count(first):
        examples = epochs(number)
        for place in np.random.default_rng([seed, number]).permutation(len(examples)):
            yield examples[place]


class Steps:
    """Batches of a run.

    Args:
        language: "en" or "ko".
        data: Folder of the texts.
        work: Folder of the run.
        e5: Path of e5-small-q4.bin.
        tokenizer: Tokenizer of the model.
        first: First step, which is not 0 if a run is resumed.
    """

    def __init__(
        self, language: str, data: Path, work: Path, e5: Path, tokenizer: Any, first: int = 0
    ) -> None:
        self.settings = LANGUAGES[language]
        self.tokenizer = tokenizer
        prompts = texts.Prompts(
            text for path in table.PROMPTS.values() for text, _ in measures.read_prompts(path)
        )
        caches, samples = {}, []
        for name in dict.fromkeys(stream.text for stream in self.settings.streams):
            path, folder = data / table.FOLDERS[language] / f"{name}.txt.xz", work / "texts" / name
            documents = partial(texts.split, path, language, held_back=False, prompts=prompts)
            if not (folder / "cache.json").is_file():
                TokenCache.write(
                    islice(documents(), self.settings.documents.get(name)), tokenizer, folder
                )
            caches[name] = TokenCache(folder)
            samples.append(islice(documents(), 20_000))
        splits = {}
        if language == "ko":
            vocabulary = tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
            sentences = chain.from_iterable(chain.from_iterable(samples))
            splits = words_with_particles(vocabulary, sentences)
        self.streams = []
        for seed, source in enumerate(self.settings.streams):
            cache = caches[source.text]
            portions = Portions(cache.lengths, EPOCH_STEPS * source.tokens, seed)
            epochs: Epochs = PretrainingData(
                partial(documents_of, cache, portions, source.pairs),
                tokenizer,
                PretrainOptions(
                    max_length=source.max_length,
                    next_sentence=source.pairs,
                    mask_probability=0.2,
                    seed=seed,
                ),
            ).epoch
            if source.masking:
                nouns, rest = source.masking
                epochs = Particles(epochs, tokenizer, splits, nouns=nouns, rest=rest, seed=seed)
            if language == "ko":
                epochs = AsAsked(epochs, tokenizer, seed=seed)
            self.streams.append((stream(epochs, seed, first // EPOCH_STEPS), source.tokens))
        self.teacher = self.settings.teacher(work / "teacher", data, e5, tokenizer, prompts)
        self.taught = TaughtSentences(
            self.teacher.sentences, tokenizer, sentences_per_epoch=self.settings.taught
        ).epoch
        rng = np.random.default_rng(2)
        pairs: list[tuple[float, str, str]] = []
        triples: list[tuple[str, str, str]] = []
        if language == "ko":
            pairs = graded_pairs(data, prompts)
            triples = following_sentences(data, prompts)
        self.pairs = [pairs[n] for n in rng.permutation(len(pairs))]
        self.triples = [triples[n] for n in rng.permutation(len(triples))]

    def __call__(self, step: int) -> tuple[Batch, Tensor]:
        """Returns the packed examples of a step, and the scores of its graded pairs."""
        batch_examples: list[Example] = []
        for examples, tokens in self.streams:
            while tokens > 0:
                batch_examples.append(next(examples))
                tokens -= len(batch_examples[-1]["input_ids"])
        batch_examples += self.taught(step)
        graded = _of_step(self.pairs, step, GRADED)
        compared = chain(*(row[1:] for row in graded), *_of_step(self.triples, step, FOLLOWING))
        for place, text in enumerate(compared):
            ids = self.tokenizer(text, truncation=True, max_length=64)["input_ids"]
            batch_examples.append({"input_ids": np.array(ids), PLACE: place})
        labels = ["labels"], ["next_sentence_label", SENTENCE, PLACE]
        examples = [complete(example, *labels) for example in batch_examples]
        batch = pack(sorted(examples, key=lambda example: len(example["input_ids"])))
        return batch, torch.tensor([score for score, *_ in graded])


def _of_step(rows: list[Any], step: int, size: int) -> list[Any]:
    """Returns the rows of a step, which start again after the last row."""
    if not rows:
        return []
    return [rows[n % len(rows)] for n in range(step * size, (step + 1) * size)]


def graded_loss(cosines: Tensor, scores: Tensor, scale: float = 20.0) -> Tensor:
    """Computes the CoSENT loss of Su 2022.

    It is log(1 + sum of exp(scale * (cosine_i - cosine_j))), where the sum is over all i and j such
    that the score of i is lower than that of j.
    """
    gaps = (cosines[:, None] - cosines[None, :])[scores[:, None] < scores[None, :]] * scale
    return torch.logsumexp(torch.cat([gaps.new_zeros(1), gaps]), 0)


def losses(model: nn.Module, batch: Batch, scores: Tensor, teacher: Teacher) -> dict[str, Tensor]:
    """Returns the losses by name, each averaged over its labels."""
    inputs = {name: batch[name] for name in ("input_ids", "token_type_ids", "layout")}
    masked = batch["labels"] != IGNORED
    out = model(**inputs, positions=masked, output_hidden_states=True)
    labels, states = batch["labels"][masked], out.hidden_states[-1].float()
    lengths = torch.tensor(batch["layout"].lengths)
    means = torch.segment_reduce(states, "mean", lengths=lengths)

    taught = batch[SENTENCE] != IGNORED
    tokens = taught.repeat_interleave(lengths)
    vectors, target_states = teacher.targets(
        batch[SENTENCE][taught].tolist(), batch["input_ids"][tokens], lengths[taught]
    )
    distances = 1 - F.cosine_similarity(states[tokens], target_states, dim=-1)
    result = {
        "words": word_loss(out.prediction_logits, labels) / len(labels),
        "pairs": F.cross_entropy(
            out.seq_relationship_logits.float(), batch["next_sentence_label"], ignore_index=IGNORED
        ),
        "sentences": sentence_loss(means[taught], F.normalize(vectors, dim=-1)) / len(vectors),
        "states": torch.segment_reduce(distances, "mean", lengths=lengths[taught]).mean(),
    }
    if len(scores):
        compared = (batch[PLACE] != IGNORED).nonzero().flatten()
        rows = F.normalize(means[compared[batch[PLACE][compared].argsort()]], dim=-1)
        pairs, triples = rows[: 2 * GRADED], rows[2 * GRADED :]
        premises, entailed, contradicting = triples[0::3], triples[1::3], triples[2::3]
        cosines = premises @ torch.cat([entailed, contradicting]).T
        result["grades"] = graded_loss((pairs[0::2] * pairs[1::2]).sum(-1), scores)
        result["following"] = F.cross_entropy(cosines * 20, torch.arange(len(premises)))
    return result


def run(
    model: nn.Module,
    optimizer: Optimizer,
    steps: Steps,
    work: Path,
    state: dict[str, Any],
    options: Any,
) -> None:
    """Trains until the time is up or all steps are done.

    Args:
        model: The model.
        optimizer: Its optimizer.
        steps: Batches of the run.
        work: Folder of the run.
        state: Step, tokens and seconds so far. It is updated.
        options: Options of the command line.
    """
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
            warmup = min(1, (state["step"] + 1) / WARMUP)
            rate = learning_rate * warmup * (1 - state["seconds"] / limit)
            for group in optimizer.param_groups:
                group["lr"] = rate
            batch, scores = steps(state["step"])
            with faster_operators(torch.device("cpu"), model):
                with torch.autocast("cpu", torch.bfloat16):
                    by_name = losses(model, batch, scores, steps.teacher)
                weights = steps.settings.weights
                weighted = [weights[name] * loss for name, loss in by_name.items()]
                torch.stack(weighted).sum().backward()
            nn.utils.clip_grad_norm_(model.parameters(), 2.0)
            optimizer.step()
            optimizer.zero_grad()
            state["step"] += 1
            state["tokens"] += len(batch["input_ids"])
            state["seconds"] += time.monotonic() - began
            entry = {
                **state,
                "lr": rate,
                **{name: round(loss.item(), 4) for name, loss in by_name.items()},
            }
            log.write(json.dumps(entry) + "\n")
            log.flush()
            if time.monotonic() - saved > SAVE_SECONDS:
                save()
                saved = time.monotonic()
    save()


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Continues the training of minibert-en or minibert-ko."
    )
    parser.add_argument("language", choices=LANGUAGES, help="Language of the model.")
    parser.add_argument("--data", type=Path, required=True, help="Folder of the texts.")
    parser.add_argument("--e5", type=Path, required=True, help="Path of e5-small-q4.bin.")
    parser.add_argument("--start", type=Path, required=True, help="Folder of the initial model.")
    parser.add_argument(
        "--work",
        type=Path,
        required=True,
        help="Folder of the run. The model is written to minibert-LANGUAGE in it.",
    )
    parser.add_argument("--hours", type=float, default=1.7, help="Hours of training.")
    parser.add_argument(
        "--lr", type=float, default=4e-4, help="Peak learning rate, which falls to zero."
    )
    parser.add_argument("--steps", type=int, default=10**9, help="Maximum number of steps.")
    options = parser.parse_args()
    torch.manual_seed(0)
    options.work.mkdir(parents=True, exist_ok=True)
    tokenizer = BertTokenizer.from_pretrained(options.start)
    saved = options.work / "state.pt"
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
    save_release(model, tokenizer, options.work / f"minibert-{options.language}")


if __name__ == "__main__":
    main()
