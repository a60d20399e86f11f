"""Whole files: read as text or JSON, written atomically, locked."""

import datetime
import errno
import glob
import json
import math
import os
import platform
import shutil
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

from minibert.util.checks import check_kind, type_of

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

T = TypeVar("T")

RECIPES = 'The guide "What minibert does not do" converts such files'

NOT_WRITTEN = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT, errno.EIO, errno.EBADF)


@contextmanager
def prefix_errors(where: str) -> Iterator[None]:
    """Add a place, such as the name of a file, to the message of a ValueError."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


def read_text(path: str | os.PathLike[str]) -> str:
    """Return the text of a UTF-8 file, without a byte order mark.

    Raises:
        OSError: The file cannot be read.
        ValueError: The file is not UTF-8. The message names the line.
    """
    data = Path(path).read_bytes()
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ValueError(
            f"line {line} of {path} is not UTF-8. Convert the file (iconv -t utf-8)."
        ) from None


def parse_json(text: str | bytes, where: object, kind: type[T]) -> T:
    """Return the JSON value in `text`.

    Args:
        text: The text.
        where: Name of the text, for the error.
        kind: Expected type of the value: dict for an object, or list.

    Raises:
        ValueError: The text is not JSON, or its value is of another type.
    """
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:  # such as a number of more than 4,300 digits
        reason = json_fault(error)
        raise ValueError(f"{where} is not JSON ({reason}): correct it, or get it again.") from None
    if not isinstance(content, kind):
        expected = kind.__name__
        if kind is dict:
            expected = "object"
        raise ValueError(f"{where} should hold a JSON {expected} but holds {json_kind(content)}.")
    return content


def json_text(value: Any) -> str:
    """Return a value as JSON on one line.

    Values that JSON does not have are written as what stands for them: numbers that are not finite
    as null, and dates, decimals and the like as strings. Half a character, as a path that is not
    UTF-8 has it, is written as an escape.
    """
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError):
        text = json.dumps(_plain(value), ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        return None
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, bytes):
        return value.decode("utf-8", errors="backslashreplace")
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    return str(value)


def json_fault(error: Exception) -> str:
    """What is wrong with text that is not JSON, and where.

    A text of one line has only columns, since whoever reads it knows its line.
    """
    if not isinstance(error, json.JSONDecodeError):
        return str(error)
    if "\n" in error.doc.strip():
        return f"{error.msg}: line {error.lineno} column {error.colno}"
    return f"{error.msg}: column {error.pos + 1}"


def json_kind(value: Any) -> str:
    """What a JSON value is, with its article."""
    if value is None:
        return "null"
    return type_of(value)


def read_json(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the JSON object in a file. See `read_text` and `parse_json` for errors."""
    return parse_json(read_text(path), path, dict)


def make_folder(path: str | os.PathLike[str]) -> Path:
    """Make the folder to save into, where it does not exist.

    Raises:
        TypeError: Not a path.
        NotADirectoryError: A file has its name.
        OSError: It cannot be made.
    """
    check_kind("The folder to save into", path, str | os.PathLike, "a path")
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        # also where a file has the name of a folder above it
        file = next(place for place in (folder, *folder.parents) if place.exists())
        raise NotADirectoryError(
            f"{file} is a file, so nothing can be saved in {folder}: name a folder."
        ) from None
    return folder


def write_json(path: Path, content: Any) -> None:
    """Write `content` as readable JSON, atomically."""
    with replacing(path) as temporary:
        text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
        # a path that is not UTF-8 has lone surrogates, which JSON can only hold as escapes
        temporary.write_text(text, encoding="utf-8", errors="backslashreplace")


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Replace a file atomically by what the block writes to a temporary path.

    The temporary file is renamed when the block succeeds, and removed when it fails. A reader
    therefore sees the old file or the new one, never a part of either, whatever kills the writer.
    The next writer removes the temporary file of a killed one. A symbolic link stays, and the file
    that it points to is replaced.

    Args:
        path: The file. A new file has the permissions of the umask. An existing file keeps its
            permissions.

    Yields:
        The temporary path, in the folder of the file.

    Raises:
        OSError: As `check_target`, or the file cannot be written, for instance because the disk is
            full. The message names the file.
    """
    target = Path(path)
    path = Path(os.path.realpath(check_target(target)))
    temporary = None
    try:
        permissions = None
        creation_mode = 0o666
        if path.exists():
            permissions = stat.S_IMODE(path.stat().st_mode)
            creation_mode = 0o600  # until the content is complete
        temporary, handle = _locked_temporary(path, creation_mode)
        try:
            yield temporary
            if permissions is not None:
                temporary.chmod(permissions)
            flush(temporary)
            os.replace(temporary, path)
        except BaseException:
            # only here, because after the rename another writer may use the temporary name
            with suppress(FileNotFoundError):
                temporary.unlink()
            raise
        finally:
            if handle is not None:
                os.close(handle)
    except OSError as error:
        # An error of an open file does not name the file. An error that names another file, or has
        # no number, comes from what the block reads.
        if error.errno is None:
            raise
        names = (error.filename, error.filename2)  # of a copy, what it reads and what it writes
        if temporary is not None and any(names) and str(temporary) not in names:
            raise
        raise OSError(f"{target} could not be written ({error.strerror or error}).") from error


def flush(path: Path) -> None:
    """Write a file to the disk: a rename could get there earlier, and survive a loss of power."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def _locked_temporary(path: Path, mode: int) -> tuple[Path, int | None]:
    """Create a locked file next to `path`. One that is not locked has lost its writer.

    Returns:
        Its path and its handle. Windows has no such locks, and neither renames nor removes an open
        file: the handle is None there.
    """
    remove_leftovers(path)
    for number in count():
        temporary = path.with_name(f".{path.name}.{number}.tmp")
        with suppress(FileExistsError):
            handle = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode)
            if fcntl is None:
                os.close(handle)
                return temporary, None
            # another process may have removed it as abandoned before it was locked
            if lock(handle) is not False and is_at(handle, temporary):
                return temporary, handle
            os.close(handle)
    raise AssertionError("there is always another number")


def remove_leftovers(path: Path) -> None:
    """Remove the temporary files and folders that killed writers of `path` have left beside it."""
    for leftover in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
        remove_abandoned(leftover)


def remove_abandoned(path: Path) -> None:
    """Remove a temporary file or folder of a killed writer. That of a live writer is locked."""
    is_folder = path.is_dir() and not path.is_symlink()
    with suppress(OSError):
        if fcntl is None:  # a live writer has written to it within a day, or has it open
            if time.time() - path.stat().st_mtime > 86400:
                _remove(path, is_folder)
            return
        handle = os.open(path, os.O_RDONLY if is_folder else os.O_RDWR)
        try:
            if lock(handle) is True and is_at(handle, path):
                _remove(path, is_folder)
        finally:
            os.close(handle)


def _remove(path: Path, is_folder: bool) -> None:
    if is_folder:
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink()


def is_at(handle: int, path: Path) -> bool:
    """Whether an open file is still the one at `path`."""
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


def has_locks() -> bool:
    """Whether the system has locks that end with their process. Windows has not."""
    return fcntl is not None


def lock(handle: int) -> bool | None:
    """Lock an open file until it is closed or the process ends or is killed.

    Returns:
        True, False if another process has locked it, or None if the file system has no locks.
    """
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


@contextmanager
def only_run_in(folder: Path, work: int | str = 0) -> Iterator[None]:
    """Make a folder, and lock it against other runs of the same work until the block ends.

    A new folder that is empty then is removed: nothing came of the work.

    Args:
        folder: The folder.
        work: Name of the work, such as the rank of a process. Other work does not wait.

    Raises:
        OSError: Another process does this work there. The message names folder and process.
    """
    existed = folder.exists()
    make_folder(folder)
    if fcntl is None:
        yield
        return
    path = folder / f".lock-{work}"
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        if lock(handle) is False:
            time.sleep(0.2)  # a process that has just locked the file still has to write its name
            owner = os.pread(handle, 1000, 0).decode(errors="replace") or "another process"
            os.close(handle)
            raise OSError(
                f"{folder} is in use by {owner}: wait for it to end, or give another folder."
            )
        if is_at(handle, path):  # else its last owner has just removed it
            break
        os.close(handle)
    try:
        with suppress(OSError):  # a full disk can still be locked
            os.ftruncate(handle, 0)
            os.write(handle, f"process {os.getpid()} on {platform.node()}".encode())
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(handle)
        if not existed:
            with suppress(OSError):  # it holds something
                folder.rmdir()


@contextmanager
def named_in_errors(internal: str | os.PathLike[str], target: Path) -> Iterator[None]:
    """Let errors of writing below a path that nobody has named be those of `target`.

    Raises:
        OSError: An error inside `internal`, or one of writing that names no file. Other errors pass
            as they are.
    """
    place = os.fspath(internal)
    is_above = Path(place) in target.parents
    try:
        yield
    except OSError as error:
        name = os.fspath(error.filename or "")
        text = str(error)
        if isinstance(name, bytes):
            raise
        if is_above and place in (name or text):
            text = f"{target} could not be written ({error.strerror or text})."
        elif name.startswith(place):
            text = f"{name} could not be written ({error.strerror})."
        elif not name and error.errno in NOT_WRITTEN:
            text = f"{target} could not be written ({error.strerror or os.strerror(error.errno)})."
        elif name or place not in text:
            raise
        if not is_above:
            text = text.replace(place, os.fspath(target))
        raise OSError(text) from error


def check_target(path: str | os.PathLike[str]) -> Path:
    """Check the path of a file that is going to be written, and return it.

    Raises:
        FileNotFoundError: The folder does not exist.
        OSError: The path is that of a folder, a pipe or a device.
    """
    path = Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(
            f"there is no folder {path.parent} to write {path.name} into. Make it first."
        )
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder. Name a file to write.")
    if path.exists() and not path.is_file():
        raise OSError(f"{path} is not an ordinary file. Name a file to write.")
    return path
