"""Files and folders by path or by URI: `s3://bucket/folder`, `gs://...`, `hdfs://...`, through pyarrow's file systems.

What is written appears atomically everywhere: it is made on this machine, copied beside its place,
and moved there.
"""

from __future__ import annotations

import bz2
import gzip
import importlib
import io
import lzma
import os
import re
import tempfile
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from minibert.extras import need
from minibert.files import parse_json, replacing, write_json

_URI = re.compile(r"([a-z][a-z0-9+.-]+://[^?]*)(\?.*)?", re.IGNORECASE)


def _unpack_zstd(file: IO[bytes]) -> IO[bytes]:
    """Decompress by Python's own module (3.14), by the package zstandard, or by pyarrow."""
    raw: Any
    with suppress(ImportError):
        raw = importlib.import_module("compression.zstd").open(file, "rb")
        return io.BufferedReader(raw)
    with suppress(ImportError):
        decompressor = importlib.import_module("zstandard").ZstdDecompressor()
        raw = decompressor.stream_reader(file, read_across_frames=True)
        return io.BufferedReader(raw)
    arrow = need("pyarrow", "parquet", "Reading .zst")
    return io.BufferedReader(arrow.CompressedInputStream(arrow.PythonFile(file, "r"), "zstd"))


_DECOMPRESS: dict[str, Callable[[IO[bytes]], Any]] = {
    ".gz": gzip.open,
    ".bz2": bz2.open,
    ".xz": lzma.open,
    ".zst": _unpack_zstd,
}


class Location:
    """A file or a folder, on this machine or elsewhere.

    Args:
        name: a path, or a URI that `pyarrow.fs.FileSystem.from_uri` understands, its options behind
            a question mark.

    Raises:
        ImportError: a URI without pyarrow.
        ValueError: a URI of no known kind.
    """

    def __init__(self, name: str | os.PathLike[str]) -> None:
        self.name = self.path = os.fspath(name)
        self.fs: Any = None
        found = _URI.fullmatch(self.name)
        self._uri = found and found.groups("")
        if self._uri is None:
            return
        fs = need("pyarrow.fs", "parquet", f"Reaching {self.name}")
        try:
            self.fs, self.path = fs.FileSystem.from_uri(self.name)
        except (ValueError, OSError) as error:
            raise ValueError(f"{self.name} cannot be reached: {error}") from None

    def __str__(self) -> str:
        return self.name

    def __truediv__(self, below: str) -> Location:
        if not below:  # what `files` calls a file itself
            return self
        if self._uri is None:
            return Location(os.path.join(self.name, below))
        start, query = self._uri
        return Location(f"{start.rstrip('/')}/{below}{query}")

    @property
    def suffix(self) -> str:
        """The ending that says the format, in lower case: ".jsonl" for "A.JSONL.gz"."""
        path = Path(self.path)
        if path.suffix.lower() in _DECOMPRESS:
            path = path.with_suffix("")
        return path.suffix.lower()

    @property
    def compressed(self) -> bool:
        """Whether the file has to be read from its beginning."""
        return Path(self.path).suffix.lower() in _DECOMPRESS

    def files(self) -> dict[str, tuple[int, float]]:
        """Size in bytes and time of the last change of every file, by its path below this folder, sorted.

        A file's own name is "". Names that begin with a dot or an underscore are left out, as every
        reader of such folders does. What does not exist is empty.
        """
        if self.fs is None:
            if os.path.exists(self.path) and not os.path.isdir(
                self.path
            ):  # a pipe or a device, too
                paths = {"": self.path}
            else:
                every = [
                    os.path.join(folder, name)
                    for folder, _, names in os.walk(self.path)
                    for name in names
                ]
                paths = {
                    os.path.relpath(path, self.path).replace(os.sep, "/"): path for path in every
                }
            # only these are looked at, for a temporary file of another process may be gone by now
            about = {name: os.stat(paths[name]) for name in _shown(paths)}
            return {name: (status.st_size, status.st_mtime) for name, status in about.items()}
        from pyarrow.fs import FileSelector, FileType

        entries = [self.fs.get_file_info(self.path)]
        if entries[0].type != FileType.File:
            entries = self.fs.get_file_info(
                FileSelector(self.path, recursive=True, allow_not_found=True)
            )
        found = {
            entry.path[len(self.path) :].strip("/"): entry
            for entry in entries
            if entry.type == FileType.File
        }
        return {name: (found[name].size, found[name].mtime_ns / 1e9) for name in _shown(found)}

    def open(self) -> IO[bytes]:
        """The bytes, decompressed where the name says .gz, .bz2, .xz or .zst."""
        file: Any = (
            open(self.path, "rb")
            if self.fs is None
            else io.BufferedReader(self.fs.open_input_file(self.path))
        )
        unpack = _DECOMPRESS.get(Path(self.path).suffix.lower())
        return unpack(file) if unpack else file  # type: ignore[no-any-return]

    def make_folder(self) -> None:
        """Makes this folder, where there are folders."""
        if self.fs is None:
            Path(self.path).mkdir(parents=True, exist_ok=True)
        elif self.fs.type_name in ("hdfs", "local"):  # object stores only have names
            self.fs.create_dir(self.path, recursive=True)

    @contextmanager
    def replacing(self) -> Iterator[Path]:
        """A path on this machine, whose file is here when the block succeeds; see `minibert.files.replacing`."""
        if self.fs is None:
            with replacing(self.path) as temporary:
                yield temporary
            return
        from pyarrow.fs import LocalFileSystem, copy_files

        parent, _, name = self.path.rpartition("/")
        beside = f"{parent}/.{name}.{uuid.uuid4().hex}.tmp"
        with tempfile.TemporaryDirectory() as folder:
            temporary = Path(folder, name)
            yield temporary
            copy_files(
                str(temporary),
                beside,
                source_filesystem=LocalFileSystem(),
                destination_filesystem=self.fs,
            )  # in place, a copy that was cut short would look whole
            self.fs.move(beside, self.path)

    def read_json(self) -> dict[str, Any]:
        """The JSON object in the file; errors as of `minibert.files.parse_json`."""
        with self.open() as file:
            return parse_json(file.read(), self, dict)

    def write_json(self, content: Any) -> None:
        """See `minibert.files.write_json`."""
        with self.replacing() as temporary:
            write_json(temporary, content)


def _shown(names: Iterable[str]) -> list[str]:
    """Those of a folder's names that its readers see, sorted."""
    return sorted(name for name in names if not re.search(r"(^|/)[._]", name))
