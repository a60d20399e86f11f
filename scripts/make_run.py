"""Packs a pre-training run for the article of `minibert learn`, into run.json.xz.

    python scripts/make_run.py out/run

The bundled run trains a BERT of 2 layers, 128 hidden units and 4,000 word pieces for 4,500 steps on
short English sentences: Tatoeba (CC BY 2.0 FR) and ComVE (CC BY-SA 4.0).
"""

from __future__ import annotations

import argparse
import json
import lzma
from pathlib import Path

import minibert
from minibert.learn.lesson import run_for_page

LARGEST = 31  # the largest absolute value, so that integers have 6 bits


def main() -> None:
    """Packs the run in the folder of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", help="Folder that minibert pretrain --checkpoints wrote.")
    content = {**run_for_page(parser.parse_args().run, LARGEST), "folder": None}
    target = Path(minibert.__file__).parent / "learn/page/article/run.json.xz"
    target.write_bytes(lzma.compress(json.dumps(content).encode(), preset=9))
    print(f"{target}: {target.stat().st_size / 1e6:.1f} MB, steps {content['steps']}")


if __name__ == "__main__":
    main()
