"""Whole files: read as text or JSON, written atomically, locked."""

import codecs
import glob
import json
import os
import platform
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

T = TypeVar("T")


@contextmanager
def prefix_errors(where: str) -> Iterator[None]:
    """Lets a ValueError say which file it is about."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


def read_text(path: str | os.PathLike[str]) -> str:
    """The text of a UTF-8 file, without the byte order mark that some editors put before it.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is not UTF-8; the line is named.
    """
    data = Path(path).read_bytes()
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise not_utf8(path, data.count(b"\n", 0, error.start) + 1) from None


NOT_UTF8 = "is not UTF-8; convert the file (iconv -t utf-8)"


def not_utf8(where: object, line: int) -> ValueError:
    """The error of a line, counted from 1, that is no text."""
    return ValueError(f"line {line} of {where} {NOT_UTF8}.")


def parse_json(text: str | bytes, where: object, kind: type[T]) -> T:
    """The JSON object (a dict) or list in `text`; ValueError naming `where` it stands when it holds none."""
    try:
        content = json.loads(text)
    except (
        ValueError,
        RecursionError,
    ) as error:  # a ValueError too: a number of more than 4,300 digits
        raise ValueError(f"{where} is not JSON ({error}): correct it, or get it again.") from None
    if not isinstance(content, kind):
        wanted = "object" if kind is dict else kind.__name__
        raise ValueError(
            f"{where} should hold a JSON {wanted} but holds a {type(content).__name__}."
        )
    return content


def read_json(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The JSON object in a file; errors as of `read_text` and `parse_json`."""
    return parse_json(read_text(path), path, dict)


def write_json(path: Path, content: Any) -> None:
    """Writes `content` as readable JSON, atomically."""
    with replacing(path) as temporary:
        text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
        # a path that is not UTF-8 has lone surrogates, which JSON can hold as escapes alone
        temporary.write_text(text, encoding="utf-8", errors="backslashreplace")


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Gives a temporary path beside `path`: renamed to it when the block succeeds, removed when it fails.

    A reader therefore sees the old file or the new one, never half of either, whatever kills the
    writer. What a killed writer left behind is removed by the next one. A symbolic link stays, and
    the file that it points to is replaced.

    Args:
        path: the file. A new one has the permissions that the umask says; one that is written again
            keeps its own.

    Raises:
        OSError: as `check_target`, or the file, which is named, cannot be written: the disk is
            full, for instance.
    """
    named, path = Path(path), Path(os.path.realpath(check_target(path)))
    temporary = None
    try:
        earlier = stat.S_IMODE(path.stat().st_mode) if path.exists() else None
        temporary, handle = _locked_temporary(path, 0o666 if earlier is None else 0o600)
        try:
            yield temporary
            if earlier is not None:
                temporary.chmod(earlier)
            with temporary.open("rb+") as file:
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except (
            BaseException
        ):  # only then is it still ours: once it is renamed, another writer may have taken its name
            with suppress(FileNotFoundError):
                temporary.unlink()
            raise
        finally:
            if handle is not None:
                os.close(handle)
    except OSError as error:
        # writing to an open file fails without its name; an error that names another file, or has
        # words of its own, comes from what the block reads
        if error.errno is None or (
            temporary is not None and error.filename not in (None, str(temporary))
        ):
            raise
        raise OSError(f"{named} could not be written ({error.strerror or error}).") from error


def _locked_temporary(path: Path, mode: int) -> tuple[Path, int | None]:
    """A new file beside `path` and its handle, locked: whoever finds it unlocked knows that its writer is dead.

    Windows, which has no such locks, neither renames nor removes a file that is open: there is no
    handle then.
    """
    for leftover in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
        remove_abandoned(leftover)
    for number in count():
        temporary = path.with_name(f".{path.name}.{number}.tmp")
        with suppress(FileExistsError):
            handle = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode)
            if fcntl is None:
                os.close(handle)
                return temporary, None
            if lock(handle) is not False and _is_at(
                handle, temporary
            ):  # not taken for a leftover before it was locked
                return temporary, handle
            os.close(handle)
    raise AssertionError("there is always another number")


def remove_abandoned(path: Path) -> None:
    """Removes a temporary file if a killed writer left it; one that is being written is locked, and stays."""
    with suppress(OSError):
        if (
            fcntl is None
        ):  # a writer that lives has written to it within a day, or has it open, and it stays
            if time.time() - path.stat().st_mtime > 86400:
                path.unlink()
            return
        handle = os.open(path, os.O_RDWR)
        try:
            if lock(handle) is True and _is_at(handle, path):
                path.unlink()
        finally:
            os.close(handle)


def _is_at(handle: int, path: Path) -> bool:
    """Whether an open file is still the one at `path`."""
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


def lock(handle: int) -> bool | None:
    """Locks an open file until it is closed or the process ends, however it ends.

    Returns:
        True; False when another process has locked it; None where there are no locks (some file
        systems).
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
    """Makes a folder, and keeps others from doing the same work in it, such as a rank's, until the block ends.

    Raises:
        OSError: another process works there; both are named.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if fcntl is None:
        yield
        return
    path = folder / f".lock-{work}"
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        if lock(handle) is False:
            time.sleep(0.2)  # it may have locked the file just now, and not said yet who it is
            other = os.pread(handle, 1000, 0).decode(errors="replace") or "another process"
            os.close(handle)
            raise OSError(
                f"{folder} is in use by {other}: wait for it to end, or give another folder."
            )
        if _is_at(handle, path):  # not removed by its last holder just now
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


def check_target(path: str | os.PathLike[str]) -> Path:
    """The path of a file that is going to be written.

    Raises:
        FileNotFoundError: there is no such folder.
        OSError: something other than a file is there, such as a folder, a pipe or a device.
    """
    path = Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(
            f"there is no folder {path.parent} to write {path.name} into; make it first."
        )
    if path.exists() and not path.is_file():
        raise OSError(
            f"{path} is {'a folder' if path.is_dir() else 'no ordinary file'}; name a file to write."
        )
    return path


def read_lines(name: str | os.PathLike[str]) -> Iterator[str]:
    """The lines of a UTF-8 file, or of stdin for "-", one at a time; blank lines count, as empty texts.

    Raises:
        OSError: the file cannot be read.
        ValueError: a line is not UTF-8; its number is named.
    """
    where = "stdin" if name == "-" else os.fspath(name)
    if name == "-" and sys.stdin is None:
        raise ValueError("stdin is closed: pass texts as arguments or in a file.")
    with sys.stdin.buffer if name == "-" else Path(name).open("rb") as file:
        number = 0
        try:
            for block in file:
                for line in block.splitlines():  # an old Macintosh ends lines by \r
                    number += 1
                    if number == 1:
                        # some editors put it before everything
                        line = line.removeprefix(codecs.BOM_UTF8)
                    yield line.decode("utf-8")
        except UnicodeDecodeError:
            raise not_utf8(where, number) from None
        except OSError as error:
            raise OSError(
                f"{where} cannot be read after line {number} ({error.strerror})."
            ) from None
