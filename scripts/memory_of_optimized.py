"""Prints the MB of resident memory that an optimised checkpoint adds to a process (Linux).

python scripts/memory_of_optimized.py CHECKPOINT PRECISION
"""

import gc
import sys

import torch

from minibert import BertConfig, BertModel, optimize


def resident() -> float:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 / 1e6


with torch.no_grad():
    optimize(BertModel(BertConfig.from_preset("tiny")))(torch.ones(1, 8, dtype=torch.long))  # loads the libraries
before = resident()
model = optimize(BertModel.from_pretrained(sys.argv[1]), precision=sys.argv[2])
gc.collect()
print(resident() - before)
