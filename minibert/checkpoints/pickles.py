"""Checks of an old pytorch_model.bin, before `torch.load` sees it."""

import io
import pickle
import pickletools
import zipfile
from pathlib import Path
from typing import IO

# what no honest pickle of a BERT comes near: a large one has 400 tensors of 60 opcodes
MAX_OPCODES, MAX_PICKLED_NAME = 1_000_000, 1000
TAR_MAGIC = 257, b"ustar"  # where it is, and what
# of torch.save before zip files: a magic number, the version, the system, the object, its storages
LEGACY_PICKLES = 5


def check_pickle(path: Path) -> None:
    """Refuse pickles on which `torch.load` would spend much time or memory, before it reads them.

    Raises:
        pickle.UnpicklingError: a name in it is implausibly long, or its parts are larger than the
        file. zipfile.BadZipFile: not a complete zip file.
    """
    with path.open("rb") as file:
        if not zipfile.is_zipfile(file):
            file.seek(0)
            for _ in range(LEGACY_PICKLES):
                _check_opcodes(file)
            return
        with zipfile.ZipFile(file) as parts:
            entries = parts.infolist()
            size = sum(entry.file_size for entry in entries)
            if size > path.stat().st_size:  # compressed, or one on another
                raise pickle.UnpicklingError("its parts are larger than the file")
            for entry in entries:
                if entry.filename.endswith("data.pkl"):
                    _check_opcodes(io.BytesIO(parts.read(entry)))


def _check_opcodes(stream: IO[bytes]) -> None:
    """Walk through a pickle without executing it.

    The time of torch's own error for a bad name grows with the square of its length.
    """
    for number, (_, argument, _) in enumerate(pickletools.genops(stream)):
        length = len(argument) if isinstance(argument, str | bytes) else 0
        if number > MAX_OPCODES or length > MAX_PICKLED_NAME:
            raise pickle.UnpicklingError("an implausibly long name or number of parts")
