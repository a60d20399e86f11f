"""`minibert pretrain`: a BERT from plain text, one sentence a line, an empty line between documents.

    minibert pretrain --config tiny --corpus corpus.txt --output out/tiny --steps 10000
    torchrun --nproc-per-node 8 -m minibert pretrain ...       # the same batch, shared out to eight processes
    minibert pretrain ... --resume                             # goes on after any interruption

The vocabulary is learned from the corpus (needs the extra `[train]`), unless `--vocab FOLDER` names one.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from minibert.cli.common import UsageError, check_files, report, source_of
from minibert.cli.training import add_training_options, filled, keep_options, options_of_run
from minibert.training.options import TrainingOptions

if TYPE_CHECKING:
    from minibert.heads import BertForMaskedLM, BertForPreTraining
    from minibert.tokenization.tokenizer import BertTokenizer


# arguments of `pretrain` that options of the same names give
_MORE = (
    "column",
    "held_out",
    "resume",
    "max_length",
    "sentence_order",
    "mask_probability",
    "whole_words",
    "spans",
)
SAMPLE_BYTES = 1 << 25  # of text to learn a vocabulary from; `minibert vocab` reads all of it


def add(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(model=None)
    parser.add_argument(
        "--config",
        metavar="FILE",
        help="a config.json, or tiny, mini, small, medium, base or large",
    )
    parser.add_argument(
        "--corpus",
        metavar="FILE[=WEIGHT]",
        nargs="+",
        help="text with a sentence a line and empty lines between documents; .jsonl, .csv or .parquet with a document "
        "a row; compressed, too; folders; s3://...; with the share of tokens to take of each, or all as they are",
    )
    parser.add_argument("--column", help="column of the texts in tables (default: text)")
    parser.add_argument(
        "--held-out", type=float, default=0.01, metavar="P", help="share of documents for measuring"
    )
    parser.add_argument(
        "--vocab", metavar="FOLDER", help="of a vocabulary (default: --model's, or a learned one)"
    )
    parser.add_argument(
        "--vocab-size",
        type=int,
        metavar="N",
        help="of a learned vocabulary (default: the config's)",
    )
    parser.add_argument(
        "--cased", action="store_true", help="keep capitals and accents (needed for Korean)"
    )
    parser.add_argument("--no-next-sentence", action="store_true", help="masked words only")
    parser.add_argument(
        "--sentence-order", action="store_true", help="pairs are swapped, not random (ALBERT)"
    )
    parser.add_argument(
        "--whole-words", action="store_true", help="mask all pieces of a word together"
    )
    parser.add_argument(
        "--spans", action="store_true", help="mask spans of several words (SpanBERT)"
    )
    parser.add_argument(
        "--mask-probability", type=float, default=0.15, metavar="P", help="share of the tokens"
    )
    add_training_options(
        parser,
        leave_out=("epochs",),
        steps=10_000,
        batch_size=256,
        learning_rate=1e-4,
        warmup=0.01,
        save_every=500,
    )


def run(options: argparse.Namespace) -> None:
    options = options_of_run(options, "corpus")
    if (options.config is None) == (options.model is None):
        raise UsageError(
            "give --config to start from scratch, or --model to go on from a checkpoint."
        )
    how, corpus = filled(TrainingOptions, options), _weighted(options.corpus)
    check_files(corpus)
    from minibert.training.pretraining import pretrain

    more = {name: getattr(options, name) for name in _MORE}
    more["next_sentence"] = not options.no_next_sentence
    with keep_options(options):
        model, tokenizer = _start(options, corpus)
        trainer = pretrain(model, tokenizer, corpus, options.output, how, **more)
    if trainer.is_first:
        report(
            options,
            {"path": options.output, "steps": trainer.step},
            f"The model is in {options.output}.",
        )


def _weighted(names: list[str]) -> list[str] | dict[str, float]:
    """The files, each with its weight if they have one: `books.txt=0.3`.

    What exists as a path is a path. Elsewhere the weight follows the last "=".
    """
    files: list[str] = []
    weights: dict[str, float] = {}
    for name in names:
        file, equals, weight = name.rpartition("=")
        if not equals or _exists(name) or not re.fullmatch(r"\d*\.?\d+", weight):
            files.append(name)
        else:
            weights[file] = float(weight)
    if files and weights:
        raise UsageError("give a weight to every corpus (FILE=0.7), or to none.")
    return weights or files


def _exists(name: str) -> bool:
    if "://" not in name:
        return os.path.exists(name)
    from minibert.corpus.location import Location

    return bool(Location(name).files())


def _start(
    options: argparse.Namespace, corpus: Iterable[str]
) -> tuple[BertForMaskedLM | BertForPreTraining, BertTokenizer]:
    """A model to train and its tokenizer: new ones, or a checkpoint's."""
    import torch

    from minibert.checkpoints.source import preset_file
    from minibert.config import BertConfig
    from minibert.files import read_json
    from minibert.heads import BertForMaskedLM, BertForPreTraining
    from minibert.tokenization.tokenizer import BertTokenizer

    model_class = BertForMaskedLM if options.no_next_sentence else BertForPreTraining
    cased: dict[str, Any] = {"do_lower_case": False} if options.cased else {}
    torch.manual_seed(options.seed)
    if options.model is not None:
        source = source_of(options)
        tokenizer = BertTokenizer.from_pretrained(options.vocab or source, **cased)
        model = model_class.from_pretrained(source, dtype=torch.float32)
        if len(tokenizer) > model.config.vocab_size:
            raise ValueError(
                f"{options.model} has {model.config.vocab_size} words, its tokenizer {len(tokenizer)}."
            )
        return model, tokenizer
    try:
        is_file = os.path.exists(options.config) or "." in options.config
        config = BertConfig(**read_json(options.config if is_file else preset_file(options.config)))
    except TypeError as error:  # a name that no config has
        raise ValueError(f"{options.config}: {error}") from None
    if options.vocab is None:
        _learn_vocabulary(options, corpus, options.vocab_size or config.vocab_size)
    tokenizer = BertTokenizer.from_pretrained(options.vocab or options.output, **cased)
    return model_class(
        config.replace(vocab_size=len(tokenizer), pad_token_id=tokenizer.pad_token_id)
    ), tokenizer


def _learn_vocabulary(options: argparse.Namespace, corpus: Iterable[str], vocab_size: int) -> None:
    """The first process learns a vocabulary from a sample of the corpus, and the others wait."""
    from minibert.training.processes import Processes
    from minibert.training.vocab import count_words_of_files, train_vocabulary

    processes, cased = Processes.join(), options.cased
    if processes.rank == 0 and not (
        options.resume and os.path.exists(os.path.join(options.output, "vocab.txt"))
    ):
        words = count_words_of_files(
            corpus, column=options.column, lowercase=not cased, max_bytes=SAMPLE_BYTES
        )
        train_vocabulary(words, options.output, vocab_size=vocab_size, lowercase=not cased)
    processes.gather(None)
