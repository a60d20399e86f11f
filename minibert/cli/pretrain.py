"""`minibert pretrain`: a BERT from plain text, one sentence a line, an empty line between documents.

    minibert pretrain --config configs/tiny.json --corpus corpus.txt --output out/tiny --steps 10000
    torchrun --nproc-per-node 8 -m minibert pretrain ...       # the same batch, shared out to eight processes
    minibert pretrain ... --resume                             # goes on after any interruption

The vocabulary is learned from the corpus (needs the extra `[train]`), unless `--vocab FOLDER` names one.
"""

from __future__ import annotations

import argparse
import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from minibert.cli.common import UsageError, add_command, check_files, print_json, source_of
from minibert.cli.training import add_training_options, training_options

if TYPE_CHECKING:
    from minibert.checkpoints.source import Source
    from minibert.heads import BertForMaskedLM, BertForPreTraining
    from minibert.tokenization.tokenizer import BertTokenizer
    from minibert.training.corpora import TokenCache


def add(commands: Any) -> None:
    """Adds the command."""
    parser = add_command(
        commands, "pretrain", run, "Pre-train a BERT on plain text: from scratch (--config), or a checkpoint (--model)."
    )
    parser.set_defaults(model=None)
    parser.add_argument("--config", metavar="FILE", type=Path, help="a config.json, such as configs/tiny.json")
    parser.add_argument(
        "--corpus", metavar="FILE", nargs="+", required=True, help="a sentence a line, empty lines between documents"
    )
    parser.add_argument(
        "--vocab", metavar="FOLDER", help="that has a vocabulary (default: --model's, or one learned from the corpus)"
    )
    parser.add_argument("--vocab-size", type=int, metavar="N", help="of a learned vocabulary (default: the config's)")
    parser.add_argument("--cased", action="store_true", help="keep capitals and accents (needed for Korean)")
    parser.add_argument(
        "--max-length", type=int, default=128, metavar="N", help="limit of tokens an example (default: %(default)s)"
    )
    parser.add_argument("--no-next-sentence", action="store_true", help="masked words only")
    parser.add_argument("--whole-words", action="store_true", help="mask all pieces of a word together")
    parser.add_argument(
        "--mask-probability", type=float, default=0.15, metavar="P", help="share of the tokens (default: %(default)s)"
    )
    add_training_options(
        parser,
        leave_out=("epochs", "evaluate_every", "patience"),
        steps=10_000,
        batch_size=256,
        learning_rate=1e-4,
        warmup=0.01,
        save_every=500,
    )


def run(options: argparse.Namespace) -> None:
    """Runs the command."""
    if (options.config is None) == (options.model is None):
        raise UsageError("give --config to start from scratch, or --model to go on from a checkpoint.")
    how = training_options(options)
    check_files([*options.corpus, *([options.config] if options.config else [])])
    from minibert.training.loop import Trainer
    from minibert.training.pretraining import PretrainingData, pretraining_losses
    from minibert.training.state import check_new

    if not options.resume:
        check_new(options.output)
    model, tokenizer = _start(options)
    if options.max_length > (positions := model.config.max_position_embeddings):
        raise ValueError(f"--max-length is {options.max_length}; the config has {positions} positions.")
    data = PretrainingData(
        _documents(options, tokenizer),
        tokenizer,
        max_length=options.max_length,
        next_sentence=not options.no_next_sentence,
        mask_probability=options.mask_probability,
        whole_words=options.whole_words,
        seed=options.seed,
    )
    trainer = Trainer(
        model, data.epoch, pretraining_losses, options.output, how, tokenizer=tokenizer, resume=options.resume
    )
    trainer.run()
    trainer.save_model(options.output)
    if not trainer.is_first:
        return
    if options.json:
        return print_json({"path": options.output, "steps": trainer.step})
    print(f"The model is in {options.output}.")


def _documents(options: argparse.Namespace, tokenizer: BertTokenizer) -> TokenCache:
    """The corpus as ids on disk: the first process cuts it and the others wait; a resumed run finds it there."""
    from minibert.training.corpora import TokenCache
    from minibert.training.pretraining import read_documents
    from minibert.training.processes import Processes

    folder = os.path.join(options.output, "tokens")
    files = [[os.path.abspath(name), os.stat(name).st_size, os.stat(name).st_mtime_ns] for name in options.corpus]
    vocabulary = hashlib.sha256(repr((tokenizer.get_vocab(), tokenizer.do_lower_case)).encode()).hexdigest()
    made_of = {"files": files, "vocabulary": vocabulary}
    processes = Processes.join()
    if processes.rank == 0 and not TokenCache.is_made_of(folder, made_of):
        TokenCache.write(read_documents(options.corpus), tokenizer, folder, made_of)
    processes.gather(None)
    return TokenCache(folder)


def _start(options: argparse.Namespace) -> tuple[BertForMaskedLM | BertForPreTraining, BertTokenizer]:
    """A model to train and its tokenizer: new ones, or a checkpoint's."""
    import torch

    from minibert.config import BertConfig
    from minibert.files import read_json
    from minibert.heads import BertForMaskedLM, BertForPreTraining

    model_class = BertForMaskedLM if options.no_next_sentence else BertForPreTraining
    if options.model is not None:
        torch.manual_seed(options.seed)
        source = source_of(options)
        tokenizer = _tokenizer(options, options.vocab or source)
        model = model_class.from_pretrained(source, dtype=torch.float32)
        if len(tokenizer) > model.config.vocab_size:
            raise ValueError(f"{options.model} has {model.config.vocab_size} words, its tokenizer {len(tokenizer)}.")
        return model, tokenizer
    try:
        config = BertConfig(**read_json(options.config))
    except TypeError as error:  # a name that no config has
        raise ValueError(f"{options.config}: {error}") from None
    vocabulary = options.vocab
    if vocabulary is None:
        _learn_vocabulary(options, options.vocab_size or config.vocab_size)
        vocabulary = options.output
    tokenizer = _tokenizer(options, vocabulary)
    torch.manual_seed(options.seed)
    return model_class(config.replace(vocab_size=len(tokenizer), pad_token_id=tokenizer.pad_token_id)), tokenizer


def _tokenizer(options: argparse.Namespace, name: str | Source) -> BertTokenizer:
    from minibert.tokenization.tokenizer import BertTokenizer

    cased: dict[str, Any] = {"do_lower_case": False} if options.cased else {}
    return BertTokenizer.from_pretrained(name, **cased)


def _learn_vocabulary(options: argparse.Namespace, vocab_size: int) -> None:
    """The first process learns a vocabulary from the corpus, and the others wait."""
    from minibert.training.pretraining import read_documents
    from minibert.training.processes import Processes
    from minibert.training.vocab import train_vocabulary

    processes = Processes.join()
    if processes.rank == 0 and not (options.resume and os.path.exists(os.path.join(options.output, "vocab.txt"))):
        sentences = (sentence for document in read_documents(options.corpus) for sentence in document)
        train_vocabulary(sentences, options.output, vocab_size=vocab_size, lowercase=not options.cased)
    processes.gather(None)
