"""Prints the resident memory in MB that a checkpoint adds to a process (Linux)."""

import argparse
import gc

import torch

from minibert import BertConfig, BertModel, optimize
from minibert.inference.precisions import PRECISIONS


def resident() -> float:
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[1]) * 4096 / 1e6


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("checkpoint")
parser.add_argument("precision", choices=PRECISIONS, help="exact: as loaded, else optimized.")
options = parser.parse_args()
# the libraries that building a model loads are not counted, nor those that a first pass does
tiny = BertModel(BertConfig.from_preset("tiny"))
if options.precision != "exact":
    with torch.no_grad():
        optimize(tiny)(torch.ones(1, 8, dtype=torch.long))
before = resident()
model = BertModel.from_pretrained(options.checkpoint)
if options.precision != "exact":
    model = optimize(model, precision=options.precision)
gc.collect()
print(resident() - before)
