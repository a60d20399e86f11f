"""Files and folders by path or by URI.

URIs go through fsspec: `s3://`, `gs://` and `hdfs://` by the file systems of pyarrow, all others by
what fsspec has (`hf://` comes with huggingface_hub). `file://` is a path. Every file is written
atomically: on this machine first, then copied next to its target, and moved there.
"""

from __future__ import annotations

import bz2
import gzip
import importlib
import io
import lzma
import os
import re
import shutil
import stat
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote

from minibert.util.errors import Argument, Message
from minibert.util.extras import need
from minibert.util.files import check_target, parse_json, replacing, write_json

STDIN = "-"
ARROW_SCHEMES = ("s3", "gs", "gcs", "hdfs", "viewfs", "abfs", "abfss")
_URI = re.compile(r"([a-z][a-z0-9+.-]+://[^?]*)(\?.*)?", re.IGNORECASE)
_PARTS_OF_URI = re.compile(r"([^:]+://[^/?]*)([^?]*)(\?.*)?")  # with the host, path, options


def _unpack_zstd(file: IO[bytes]) -> IO[bytes]:
    """Decompress by Python's own module (3.14), or by pyarrow."""
    raw: Any
    try:
        raw = importlib.import_module("compression.zstd").open(file, "rb")
    except ImportError:
        arrow = need("pyarrow", "parquet", "Reading .zst")
        raw = arrow.CompressedInputStream(arrow.PythonFile(file, "r"), "zstd")
    return io.BufferedReader(raw)


_DECOMPRESS: dict[str, Callable[[Any], Any]] = {
    ".gz": gzip.open,
    ".bz2": bz2.open,
    ".xz": lzma.open,
    ".zst": _unpack_zstd,
}


class Location:
    """A file or a folder, on this machine or elsewhere.

    Args:
        name: A path, "-" for the standard input, or a URI without percent-encoding, with the
            options of pyarrow's file systems after a question mark.

    Attributes:
        name: The name as it was given.
        path: The path on this machine, or on the file system of the URI.
        fs: The file system of fsspec. None: this machine.

    Raises:
        ImportError: A URI, and the package of its file system is not installed.
        ValueError: A URI of an unknown kind.
    """

    def __init__(self, name: str | os.PathLike[str]) -> None:
        self.name = self.path = os.fspath(name)
        self.fs: Any = None
        self._uri: tuple[str | Any, ...] | None = None
        match = _URI.fullmatch(self.name)
        if match is None:
            return
        self._uri = match.groups("")
        try:
            self.fs, self.path = _file_system(self.name)
        except (ValueError, OSError) as error:
            raise ValueError(f"{self.name} cannot be reached: {error}") from None

    def __str__(self) -> str:
        if self.is_stdin:
            return "stdin"
        return self.name

    @property
    def is_stdin(self) -> bool:
        """Whether this is the standard input, which can be read once."""
        return self.name == STDIN

    @property
    def is_pipe(self) -> bool:
        """Whether this is neither a file nor a folder of this computer, as `<(command)` is not."""
        if self.fs is not None or not os.path.exists(self.path):
            return False
        return not os.path.isfile(self.path) and not os.path.isdir(self.path)

    def __truediv__(self, below: str) -> Location:
        if not below:  # the name of a file itself in `files`
            return self
        if self._uri is None:
            return Location(os.path.join(self.name, below))
        start, query = self._uri
        return Location(f"{start.rstrip('/')}/{below}{query}")

    @property
    def suffix(self) -> str:
        """The ending of the format, in lower case: ".jsonl" for "A.JSONL.gz"."""
        path = self._path_of_name
        if self.compressed:
            path = path.with_suffix("")
        return path.suffix.lower()

    @property
    def compressed(self) -> bool:
        """Whether the file has to be read from its beginning."""
        return self._path_of_name.suffix.lower() in _DECOMPRESS

    @property
    def _path_of_name(self) -> Path:
        """The path. That of a web address ends before the question, as in "?download=true"."""
        return Path(self.path.partition("?")[0] if "://" in self.path else self.path)

    def files(self) -> dict[str, tuple[int, float]]:
        """Return size in bytes and time of the last change of each file, sorted by name.

        Both are 0 where a file system does not know them.

        The name is the path below this folder, and "" for a file itself. Names that begin with a
        dot or an underscore are left out, as every reader of such folders does. A path that does
        not exist has no files.

        Raises:
            OSError: A folder cannot be listed.
        """
        if self.fs is None:
            return self._local_files()
        with _reaching(self):
            entries = self.fs.find(self.path, detail=True) if self.fs.exists(self.path) else {}
        above = len(self.path)
        files = {path[above:].strip("/"): entry for path, entry in entries.items()}
        return {
            name: (files[name].get("size") or 0, _changed(files[name])) for name in _shown(files)
        }

    def _local_files(self) -> dict[str, tuple[int, float]]:
        paths: dict[str, str] = {}
        if os.path.exists(self.path) and not os.path.isdir(self.path):  # a pipe or a device, too
            paths[""] = self.path
        for folder, names in _walk(self.path):
            for name in names:
                path = os.path.join(folder, name)
                paths[os.path.relpath(path, self.path).replace(os.sep, "/")] = path
        sizes_and_times = {}
        # hidden names have no stat: a temporary file of another process may be gone by now
        for name in _shown(paths):
            status = os.stat(paths[name])
            if name and not stat.S_ISREG(status.st_mode):  # a pipe would never end
                continue
            sizes_and_times[name] = (status.st_size, status.st_mtime)
        return sizes_and_times

    def open(self) -> IO[bytes]:
        """Open the file to read its bytes, decompressed if it ends in .gz, .bz2, .xz or .zst.

        Raises:
            OSError: The file cannot be opened.
            ValueError: It is the standard input, which is closed.
        """
        if self.is_stdin:
            if sys.stdin is None:
                raise ValueError("stdin is closed: pass texts as arguments or in a file.")
            stdin: Any = sys.stdin.buffer
            if stdin.closed:
                raise ValueError("stdin has been read already: name it once.")
            if not hasattr(stdin, "peek"):  # as where a program has replaced it
                stdin = io.BufferedReader(stdin)
            return stdin  # type: ignore[no-any-return]
        decompress = _DECOMPRESS.get(self._path_of_name.suffix.lower())
        if self.fs is None and decompress not in (None, _unpack_zstd):
            opened: IO[bytes] = decompress(self.path)  # which closes the file, too
            return opened
        file: IO[bytes]
        if self.fs is None:
            file = open(self.path, "rb")
        else:
            with _reaching(self):
                remote: Any = self.fs.open(self.path, "rb")  # which has no `peek`
                file = io.BufferedReader(remote, 1 << 20)
        if decompress is not None:
            file = decompress(file)
        return file

    def open_seekable(self) -> IO[bytes]:
        """Open the file to read its bytes in any order.

        A compressed file is unpacked into a temporary file, so that it does not fill the memory.

        Raises:
            OSError: The file cannot be opened or unpacked.
        """
        if not self.compressed:
            return self.open()
        unpacked = tempfile.TemporaryFile()
        try:
            with self.open() as file:
                shutil.copyfileobj(file, unpacked, 1 << 20)
            unpacked.seek(0)
        except BaseException:
            unpacked.close()
            raise
        return unpacked

    def make_folder(self) -> None:
        """Make this folder. Stores of objects make it with its first file."""
        if self.fs is None:
            Path(self.path).mkdir(parents=True, exist_ok=True)
        elif self.fs.protocol == "hdfs":
            self.fs.makedirs(self.path, exist_ok=True)

    @contextmanager
    def replacing(self) -> Iterator[Path]:
        """Write this file through a path on this machine, atomically.

        See `minibert.util.files.replacing`: the file takes its place when the block succeeds.
        """
        if self.fs is None:
            with replacing(self.path) as temporary:
                yield temporary
            return
        parent, _, name = self.path.rpartition("/")
        beside = f"{parent}/.{name}.{uuid.uuid4().hex}.tmp"
        with tempfile.TemporaryDirectory() as folder:
            temporary = Path(folder, name)
            yield temporary
            # a copy to the target itself that is interrupted would look complete
            with _reaching(self):
                with temporary.open("rb") as file, self.fs.open(beside, "wb") as target:
                    shutil.copyfileobj(file, target, 1 << 20)
                self.fs.mv(beside, self.path)

    def delete(self) -> None:
        """Delete this file, if it exists."""
        if self.fs is None:
            Path(self.path).unlink(missing_ok=True)
        elif self.fs.exists(self.path):
            self.fs.rm_file(self.path)

    def read_json(self) -> dict[str, Any]:
        """Return the JSON object in the file. See `minibert.util.files.parse_json` for errors."""
        with self.open() as file:
            return parse_json(file.read(), self, dict)

    def write_json(self, content: Any) -> None:
        """Write an object as JSON, atomically. See `minibert.util.files.write_json`."""
        with self.replacing() as temporary:
            write_json(temporary, content)


def claim(path: str | os.PathLike[str], force: bool = False, folder: bool = False) -> None:
    """Check that writing to a path replaces nothing and mixes with nothing.

    Args:
        path: The file or the folder to write, a path or a URI.
        force: A file that exists may be replaced, or other files may be in the folder.
        folder: The path is that of a folder.

    Raises:
        FileExistsError: The file exists, or the folder holds files, and `force` is False.
        NotADirectoryError: The folder has no name, or a file has its name.
        OSError: As `minibert.util.files.check_target`, for a file.
        ValueError: The path is "-", which stands for stdin.
    """
    location = Location(path)
    path = os.fspath(path)
    if location.is_stdin:
        raise ValueError("- stands for stdin: name a file or a folder to write.")
    if not folder:
        if location.fs is None:
            exists = check_target(location.path).exists()
        else:
            exists = "" in location.files()
        if exists and not force:
            raise FileExistsError(
                Message(
                    f"{path} exists already: name another file, or replace it with ",
                    Argument("force", True),
                    ".",
                )
            )
        return
    if not path:
        raise NotADirectoryError("the folder to write into has no name.")
    names: list[str] = []
    if location.fs is not None:
        names = list(location.files())
    elif os.path.isdir(location.path):
        with os.scandir(location.path) as entries:
            names = [entry.name for entry in entries if not entry.name.startswith(".")]
    elif os.path.lexists(location.path):
        names = [""]
    if "" in names:  # a file itself
        raise NotADirectoryError(f"{path} is a file. Name a folder to write into.")
    if names and not force:
        shown = ", ".join(sorted(names)[:3]) + (", ..." if len(names) > 3 else "")
        raise FileExistsError(
            Message(
                f"{path} already holds {shown}: name a new or an empty folder, or write into this "
                "one with ",
                Argument("force", True),
                ".",
            )
        )


def _file_system(uri: str) -> tuple[Any, str]:
    """The file system of fsspec for a URI, None for this machine, and the path there.

    Raises:
        ImportError: The package of the file system is not installed.
        ValueError: The URI has an unknown kind.
    """
    scheme = uri.partition("://")[0].lower()
    if scheme in ARROW_SCHEMES:
        arrow = need("pyarrow.fs", "parquet", f"Reaching {uri}")
        wrapper = importlib.import_module("fsspec.implementations.arrow")
        # pyarrow reads URIs in percent-encoding alone, but names are listed as they are
        start, path, query = _PARTS_OF_URI.fullmatch(uri).groups("")  # type: ignore[union-attr]
        fs, path = arrow.FileSystem.from_uri(f"{start}{quote(path)}{query}")
        return wrapper.ArrowFSWrapper(fs), path
    core = importlib.import_module("fsspec.core")
    fs, path = core.url_to_fs(uri)
    return (None if scheme == "file" else fs), path


def _changed(entry: dict[str, Any]) -> float:
    """The time of the last change, where the file system knows one."""
    time = entry.get("mtime") or entry.get("LastModified") or entry.get("last_modified") or 0.0
    return float(time.timestamp() if hasattr(time, "timestamp") else time)


@contextmanager
def _reaching(location: Location) -> Iterator[None]:
    """Name the place where a file system raises errors of its own, as those in Python do."""
    try:
        yield
    except (OSError, ValueError):
        raise
    except Exception as error:
        raise OSError(f"{location} cannot be reached: {error}") from error


def _walk(top: str) -> Iterator[tuple[str, list[str]]]:
    """Each folder below a path that is not hidden, and the names of its files.

    Links to folders are followed, except to a folder that has been listed or is above the link.
    """

    def fail(error: OSError) -> None:
        """Raise what os.walk would leave out in silence, but for a folder that is not there."""
        if not isinstance(error, FileNotFoundError | NotADirectoryError):
            raise error

    listed = {os.path.realpath(top)}
    for folder, folders, names in os.walk(top, onerror=fail, followlinks=True):
        real_folder = os.path.realpath(folder)
        new = []
        for name in _shown(folders):
            target = os.path.realpath(os.path.join(folder, name))
            is_above = f"{real_folder}{os.sep}".startswith(f"{target.rstrip(os.sep)}{os.sep}")
            if target not in listed and not is_above:
                listed.add(target)
                new.append(name)
        folders[:] = new
        yield folder, names


def _shown(names: Iterable[str]) -> list[str]:
    """The names that are not hidden, sorted."""
    return sorted(name for name in names if not re.search(r"(^|/)[._]", name))
