"""Pre-trains a BERT from scratch on plain text: one sentence a line, an empty line between documents.

    python scripts/pretrain.py --config configs/tiny.json --corpus corpus.txt --output out/tiny --steps 10000
    torchrun --nproc-per-node 8 scripts/pretrain.py ...        # the same batch, shared out to eight processes
    python scripts/pretrain.py ... --resume                    # goes on after any interruption

The vocabulary is learned from the corpus (needs `pip install 'minibert[train]'`), unless `--vocab FOLDER` names one.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import torch

from minibert import BertConfig, BertForMaskedLM, BertForPreTraining, BertTokenizer
from minibert.files import read_json
from minibert.training.loop import Trainer, TrainingOptions, check_new
from minibert.training.pretraining import PretrainingData, encode_documents, pretraining_losses, read_documents
from minibert.training.processes import Processes
from minibert.training.vocab import train_vocabulary


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Pre-trains a BERT from scratch.")
    parser.add_argument("--config", type=Path, required=True, help="a config.json, such as configs/tiny.json")
    parser.add_argument("--corpus", type=Path, nargs="+", required=True, help="text files")
    parser.add_argument("--output", type=Path, required=True, help="folder for the state, the log and the model")
    parser.add_argument("--vocab", type=Path, help="folder with a vocabulary (default: learned into OUTPUT)")
    parser.add_argument("--vocab-size", type=int, help="size of a learned vocabulary (default: the config's)")
    parser.add_argument("--cased", action="store_true", help="keep capitals and accents (needed for Korean)")
    parser.add_argument("--max-length", type=int, default=128, help="tokens of an example (default: %(default)s)")
    parser.add_argument("--no-next-sentence", action="store_true", help="masked words only")
    parser.add_argument("--whole-words", action="store_true", help="mask all pieces of a word together")
    parser.add_argument("--mask-probability", type=float, default=0.15)
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--batch-size", type=int, default=256, help="examples of an update (default: %(default)s)")
    parser.add_argument("--learning-rate", type=float, default=1e-4)
    parser.add_argument("--warmup", type=float, default=0.01, help="share of the steps (default: %(default)s)")
    parser.add_argument("--tokens-per-forward", type=int, default=16384)
    parser.add_argument("--save-every", type=int, default=500, help="steps between saved states")
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--sharded", action="store_true", help="share the weights out to the processes, too (FSDP2)")
    parser.add_argument("--tensorboard", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--resume", action="store_true")
    return parser.parse_args()


def load_tokenizer(options: argparse.Namespace, documents: list[list[str]], vocab_size: int) -> BertTokenizer:
    """The tokenizer that is named, or one whose vocabulary the first process learns from the corpus."""
    cased = {"do_lower_case": False} if options.cased else {}
    if options.vocab:
        return BertTokenizer.from_pretrained(options.vocab, **cased)
    processes = Processes.join()
    if processes.rank == 0 and not (options.resume and (options.output / "vocab.txt").exists()):
        sentences = (sentence for document in documents for sentence in document)
        train_vocabulary(sentences, options.output, vocab_size=vocab_size, lowercase=not options.cased)
    processes.gather(None)  # the others wait
    return BertTokenizer.from_pretrained(options.output, **cased)


def main() -> None:
    options = parse()
    if not options.resume:
        check_new(options.output)
    config = BertConfig(**read_json(options.config))
    if options.max_length > config.max_position_embeddings:
        raise ValueError(
            f"--max-length is {options.max_length}; the config has {config.max_position_embeddings} positions."
        )
    documents = read_documents(options.corpus)
    tokenizer = load_tokenizer(options, documents, options.vocab_size or config.vocab_size)
    config = config.replace(vocab_size=len(tokenizer), pad_token_id=tokenizer.pad_token_id)
    torch.manual_seed(options.seed)
    model = (BertForMaskedLM if options.no_next_sentence else BertForPreTraining)(config)
    data = PretrainingData(
        encode_documents(documents, tokenizer),
        tokenizer,
        max_length=options.max_length,
        next_sentence=not options.no_next_sentence,
        mask_probability=options.mask_probability,
        whole_words=options.whole_words,
        seed=options.seed,
    )
    names = ("steps", "batch_size", "learning_rate", "warmup", "tokens_per_forward", "bf16", "sharded", "seed")
    chosen = {name: getattr(options, name) for name in (*names, "save_every", "tensorboard")}
    trainer = Trainer(model, data, pretraining_losses, options.output, TrainingOptions(**chosen), resume=options.resume)
    trainer.run()
    trainer.save_model(options.output)
    if trainer.processes.rank == 0:
        tokenizer.save_pretrained(options.output)
        print(f"Saved to {options.output}.")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
    except (ValueError, TypeError, OSError, ImportError, RuntimeError) as error:
        if os.environ.get("DEBUG"):
            raise
        sys.exit(f"pretrain.py: {error}")
