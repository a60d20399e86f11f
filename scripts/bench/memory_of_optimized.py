"""Prints the resident memory in MB that an optimized checkpoint adds to a process (Linux)."""

import argparse
import gc

import torch

from minibert import BertConfig, BertModel, optimize
from minibert.inference.precisions import FAST_PRECISIONS


def resident() -> float:
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[1]) * 4096 / 1e6


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("checkpoint")
parser.add_argument("precision", choices=FAST_PRECISIONS)
options = parser.parse_args()
with torch.no_grad():
    # the libraries that a first pass loads are not counted
    optimize(BertModel(BertConfig.from_preset("tiny")))(torch.ones(1, 8, dtype=torch.long))
before = resident()
model = optimize(BertModel.from_pretrained(options.checkpoint), precision=options.precision)
gc.collect()
print(resident() - before)
