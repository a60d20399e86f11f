"""`minibert pretrain`: train a BERT on plain text, and `minibert vocab`: learn its vocabulary.

The text has one sentence a line and an empty line between documents.

    minibert pretrain --config tiny --corpus corpus.txt --output out/tiny --steps 10000

    # the same batch, divided among eight processes
    torchrun --nproc-per-node 8 -m minibert pretrain ...

    # continues after any interruption
    minibert pretrain ... --resume

The vocabulary is learned from the corpus (needs the extra `[train]`), unless `--vocab FOLDER` names
one.

    minibert vocab --corpus wiki.txt books/ --vocab-size 30000 --output out/vocabulary

Words are counted in parallel, in memory that does not grow with the text. The `tokenizers` library
learns the pieces from the counts.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from minibert.cli.loading import source_of
from minibert.cli.options import (
    add_fields,
    add_model,
    add_options,
    add_table,
    filled,
    table_of,
)
from minibert.cli.parser import Parser, command
from minibert.cli.results import UsageError, claim_folder, report, usage_of
from minibert.cli.texts import check_files
from minibert.cli.training import (
    add_run_options,
    add_training_options,
    keep_options,
    training_command,
)
from minibert.text.location import Location
from minibert.training.options import PretrainOptions
from minibert.util.checks import amount
from minibert.util.errors import Message, message_of

if TYPE_CHECKING:
    from minibert.config import BertConfig
    from minibert.heads import BertForMaskedLM, BertForPreTraining
    from minibert.tokenization.tokenizer import BertTokenizer

SAMPLE_BYTES = 1 << 25  # of text to learn a vocabulary from; `minibert vocab` reads all of it


def add(parser: Parser) -> None:
    add_model(
        parser,
        default=None,
        help="Checkpoint to continue from: a folder, a bundled model or a Hub id (NAME@REVISION).",
    )
    parser.add_argument(
        "--config",
        metavar="FILE",
        help="Model to train from scratch: a config.json, or tiny, mini, small, medium, base or "
        "large.",
    )
    parser.add_argument(
        "--corpus",
        metavar="FILE[=WEIGHT]",
        nargs="+",
        help="Text with a sentence a line and empty lines between documents, or tables with a "
        "document a row, compressed or not, folders and URIs. WEIGHT is the share of tokens to "
        "take of each. Without weights, all are taken as they are.",
    )
    add_table(parser)
    add_fields(parser, PretrainOptions, "held_out")
    parser.add_argument(
        "--vocab",
        metavar="DIR",
        help="Folder of a vocabulary. Default: --model's, or one learned from the corpus.",
    )
    parser.add_argument(
        "--adapt-vocab",
        action="store_true",
        help="Carry --model's embeddings over to --vocab: pieces of both keep theirs, a new piece "
        "starts from the mean of the pieces it was split into.",
    )
    parser.add_argument(
        "--vocab-size",
        type=int,
        metavar="N",
        help="Maximum size of a learned vocabulary. Default: the config's.",
    )
    add_options(parser, "--cased")
    add_training_options(parser, PretrainOptions, leave_out=("epochs", "metric"))
    add_run_options(parser)


def _check(options: argparse.Namespace) -> None:
    """Refuse options that contradict each other, or that have no effect."""
    if (options.config is None) == (options.model is None):
        raise UsageError(
            "give --config to start from scratch, or --model to continue from a checkpoint, and "
            "not both."
        )
    existing = "--model" if options.model is not None else "--vocab"
    if options.vocab_size is not None and (options.model or options.vocab):
        raise UsageError(
            f"--vocab-size has no effect on {existing}, which has a vocabulary: drop it."
        )
    if options.adapt_vocab and not (options.model and options.vocab):
        raise UsageError("--adapt-vocab needs --model and --vocab: give both, or drop it.")


@training_command(
    "--config tiny --corpus corpus.txt --output out/tiny",
    add,
    needed=lambda _: ("corpus",),
    check=_check,
)
def pretrain(options: argparse.Namespace) -> None:
    """Pre-train a BERT on plain text: from scratch (--config), or a checkpoint (--model)."""
    settings = filled(PretrainOptions, options)
    corpus = weighted_files(options.corpus)
    check_files(corpus)
    from minibert.training.pretraining import pretrain

    with keep_options(options) as folder:
        model, tokenizer = start(options, corpus)
        trained = pretrain(
            model,
            tokenizer,
            corpus,
            folder,
            settings,
            table=table_of(options),
            resume=options.resume,
        )
        if trained.is_first and options.model is not None:
            from minibert.encoders.folders.sentence_folder import copy_modules, transformer_folder

            source = source_of(options)
            if not transformer_folder(source):
                copy_modules(source, options.output)
    if not trained.is_first:
        return
    from minibert.cli.look import read_curves
    from minibert.training.card import write_card

    curves = read_curves(Path(options.output, "log.jsonl"))
    losses = {name: values[-1] for name, (_, values) in curves.items() if "loss" in name}
    usage = usage_of("masked", options.output, trained.model.config)
    write_card(
        options.output,
        "A BERT pre-trained on plain text",
        {"corpus": ", ".join(options.corpus), "base": options.model, "config": options.config},
        {**vars(settings), "epochs": None},
        losses,
        usage,
    )
    measured = ", ".join(f"{name} {value:.4f}" for name, value in losses.items())
    report(
        options,
        {"output": options.output, "steps": trained.step, **losses},
        f"The model is in {options.output}{': ' if measured else ''}{measured}.\n"
        f"Use it: {usage}.\n"
        f"Fine-tune it: minibert finetune classification --model {options.output} "
        "--train train.tsv --output out/labels",
    )


def weighted_files(names: list[str]) -> list[str] | dict[str, float]:
    """The files, each with its weight if they have one: `books.txt=0.3`.

    What exists as a file or a folder of files is one. Elsewhere the weight follows the last "=".
    """
    files: list[str] = []
    weights: dict[str, float] = {}
    for name in names:
        file, equals, weight = name.rpartition("=")
        is_weighted = equals and re.fullmatch(r"\d*\.?\d+", weight)
        if is_weighted and not Location(name).files():
            weights[file] = float(weight)
        else:
            files.append(name)
    if files and weights:
        raise UsageError("give a weight to every corpus (FILE=0.7), or to none.")
    return weights or files


def start(
    options: argparse.Namespace, corpus: Iterable[str]
) -> tuple[BertForMaskedLM | BertForPreTraining, BertTokenizer]:
    """A model to train and its tokenizer: new ones, or a checkpoint's."""
    import torch

    from minibert.heads import BertForMaskedLM, BertForPreTraining
    from minibert.tokenization.tokenizer import BertTokenizer

    model_class = BertForPreTraining if options.next_sentence else BertForMaskedLM
    cased: dict[str, Any] = {"do_lower_case": False} if options.cased else {}
    torch.manual_seed(options.seed)
    if options.model is not None:
        source = source_of(options)
        tokenizer = BertTokenizer.from_pretrained(options.vocab or source, **cased)
        model = model_class.from_pretrained(source, dtype=torch.float32)
        if options.vocab is not None:
            _fit_vocabulary(options, model, BertTokenizer.from_pretrained(source), tokenizer)
        if len(tokenizer) > model.config.vocab_size:
            raise ValueError(
                f"{options.model} has {model.config.vocab_size} words, its tokenizer "
                f"{len(tokenizer)}."
            )
        return model, tokenizer
    config = _read_config(options.config)
    if options.vocab is None:
        _learn_vocabulary(options, corpus, options.vocab_size or config.vocab_size)
    tokenizer = BertTokenizer.from_pretrained(options.vocab or options.output, **cased)
    config = config.replace(vocab_size=len(tokenizer), pad_token_id=tokenizer.pad_token_id)
    return model_class(config), tokenizer


def _read_config(name: str) -> BertConfig:
    """Read a config.json, that of a folder ("./tiny"), or the preset of this name."""
    from minibert.checkpoints.source import preset_file
    from minibert.config import BertConfig
    from minibert.util.files import read_json

    path: str | os.PathLike[str] = name
    is_path = os.path.isfile(name) or "." in name or os.sep in name
    if is_path and os.path.isdir(name):
        path = os.path.join(name, "config.json")
    elif not is_path:
        path = preset_file(name)  # a folder of the same name is "./tiny"
    try:
        return BertConfig.from_dict(read_json(path))
    except TypeError as error:  # a name that no config has
        raise ValueError(Message(f"{name}: ", message_of(error))) from None


def _fit_vocabulary(
    options: argparse.Namespace,
    model: BertForMaskedLM | BertForPreTraining,
    old: BertTokenizer,
    new: BertTokenizer,
) -> None:
    """Adapts the model to another vocabulary, and raises a UsageError unless that was asked for."""
    from minibert.training.adaptation import adapt_vocabulary, same_vocabulary

    if same_vocabulary(old, new):
        return
    if not options.adapt_vocab:
        raise UsageError(
            f"--vocab {options.vocab} differs from the vocabulary of {options.model}, whose "
            "ids the model was trained on: drop --vocab, or pass --adapt-vocab to carry the "
            "embeddings over."
        )
    adapt_vocabulary(model, old, new)


def _learn_vocabulary(options: argparse.Namespace, corpus: Iterable[str], vocab_size: int) -> None:
    """The first process learns a vocabulary from a sample of the corpus, and the others wait."""
    from minibert.training.processes import Processes
    from minibert.training.vocab import count_words_of_files, train_vocabulary

    processes, cased = Processes.join(options.device), options.cased
    if processes.rank == 0 and not (
        options.resume and os.path.exists(os.path.join(options.output, "vocab.txt"))
    ):
        words = count_words_of_files(
            corpus,
            table=table_of(options),
            lowercase=not cased,
            max_bytes=SAMPLE_BYTES,
        )
        train_vocabulary(words, options.output, vocab_size=vocab_size, lowercase=not cased)
    processes.gather(None)


def add_vocab(parser: Parser) -> None:
    parser.add_argument(
        "--corpus",
        metavar="FILE",
        nargs="+",
        required=True,
        help="Files, folders or URIs of text, as for minibert pretrain.",
    )
    add_table(parser)
    parser.add_argument(
        "--vocab-size", type=int, default=30000, metavar="N", help="Maximum number of tokens."
    )
    parser.add_argument(
        "--min-frequency",
        type=int,
        default=2,
        metavar="N",
        help="Minimum number of occurrences of a token.",
    )
    add_options(
        parser,
        "--output",
        metavar="DIR",
        required=True,
        help="Folder for vocab.txt and tokenizer_config.json.",
    )
    add_options(parser, "--cased", "--force", "--json")


@command("--corpus corpus.txt --output out/vocabulary", add_vocab)
def vocab(options: argparse.Namespace) -> None:
    """Learn a WordPiece vocabulary from text."""
    check_files(options.corpus)
    claim_folder(options.output, options.force)
    from minibert.training.vocab import count_words_of_files, train_vocabulary

    lowercase = not options.cased
    words = count_words_of_files(options.corpus, table=table_of(options), lowercase=lowercase)
    if not words:
        raise ValueError(f"there is no text in {', '.join(options.corpus)}.")
    settings: dict[str, Any] = {
        "vocab_size": options.vocab_size,
        "min_frequency": options.min_frequency,
    }
    tokenizer = train_vocabulary(words, options.output, lowercase=lowercase, **settings)
    sentence = (
        f"{len(tokenizer):,} tokens, learned from {amount(len(words), 'different word')}, are in "
        f"{options.output}.\nTrain with them: minibert pretrain --config tiny --vocab "
        f"{options.output} --corpus {' '.join(options.corpus)} --output out/model"
    )
    content = {"output": options.output, "pieces": len(tokenizer), "words": len(words)}
    report(options, content, sentence)
