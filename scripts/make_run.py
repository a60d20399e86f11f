"""Pack a run of pre-training for the article of `minibert learn`: minibert/page/run.json.xz.

    python scripts/make_run.py out/run

The bundled run is a BERT of 2 layers, 128 hidden units, and 4,000 word pieces, trained for 4,500 steps on short English
sentences: Tatoeba (CC BY 2.0 FR) and ComVE (CC BY-SA 4.0).
"""

from __future__ import annotations

import argparse
import json
import lzma
from pathlib import Path

import minibert
from minibert.page.lesson import read_run

LARGEST = 31  # whole numbers of 6 bits


def main() -> None:
    """Packs the run whose folder is given."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", help="the folder of minibert pretrain --checkpoints")
    content = {**read_run(parser.parse_args().run, LARGEST), "folder": None}
    target = Path(minibert.__file__).parent / "page" / "run.json.xz"
    target.write_bytes(lzma.compress(json.dumps(content).encode(), preset=9))
    print(f"{target}: {target.stat().st_size / 1e6:.1f} MB, steps {content['steps']}")


if __name__ == "__main__":
    main()
