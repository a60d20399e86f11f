"""Finding a checkpoint's files and writing files atomically: the only module that knows about folders and the Hub.

A *source* is where a checkpoint lives: a folder, a model bundled with this package, or a Hub repository. The
Hub is asked through `huggingface_hub` alone, so its cache, tokens, `HF_ENDPOINT` and `HF_HUB_OFFLINE` all apply.
"""

from __future__ import annotations

import codecs
import copy
import difflib
import glob
import json
import os
import platform
import re
import socket
import stat
import sys
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

BUNDLED_MODELS = Path(__file__).parent / "models"
_HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")
SOURCE_OPTIONS = ("revision", "cache_dir", "local_files_only", "token")


# optional files without which the numbers are others, and what they are then
DEFAULTS = {
    "modules.json": "a plain BERT, with mean pooling and vectors that are not normalised",
    "sentence_bert_config.json": "no limit to the tokens but the tokenizer's",
    "config_sentence_transformers.json": "no prompts",
    "tokenizer_config.json": "lower case, unless tokenizer.json says otherwise",
}


class Source:
    """Where the files of one checkpoint are looked up: made once, handed on to all that read it.

    Args:
        name: a folder, the name of a bundled model (`"minibert-tiny"`), or a Hub id (`"klue/bert-base"`).
        revision: branch, tag or commit of the Hub repository.
        cache_dir: the Hub cache to use instead of the default one.
        local_files_only: never ask the network; only what the cache already holds.
        token: Hub token for private repositories.

    Raises:
        FileNotFoundError: `name` is neither an existing folder, a bundled model nor a possible Hub id.
    """

    def __init__(
        self,
        name: str | os.PathLike[str],
        *,
        revision: str | None = None,
        cache_dir: str | os.PathLike[str] | None = None,
        local_files_only: bool = False,
        token: str | bool | None = None,
    ) -> None:
        self.name = os.fspath(name)
        self.folder: Path | None = None
        self._repository, self._subfolder = self.name, ""  # `inside` changes the name, not the repository
        self.assumed_absent: list[str] = []
        self._answers: bool | None = None
        self._hub = {
            "revision": revision,
            "cache_dir": cache_dir,
            "local_files_only": local_files_only,
            "token": token,
        }
        for folder in (Path(self.name).expanduser(), BUNDLED_MODELS / self.name):
            if self.name and folder.is_dir():
                self.folder = folder
                return
        if not _HUB_NAME.fullmatch(self.name) or self.name.startswith("."):
            kind = "a file; pass the folder that holds it" if Path(self.name).is_file() else "not a folder"
            raise FileNotFoundError(f"Checkpoint {self.name!r} is {kind}, and it cannot be a Hub id.")

    @classmethod
    def of(cls, name: str | os.PathLike[str] | Source, **options: Any) -> Source:
        """The source itself if it already is one, else the source of this name.

        Args:
            name: a name, or a source.
            options: as for making a source.

        Raises:
            FileNotFoundError: as for making a source.
            ValueError: a source together with options, which it has already.
        """
        if not isinstance(name, Source):
            return cls(name, **options)
        if given := [option for option, value in options.items() if value]:
            raise ValueError(f"{given[0]} belongs to the Source: pass it where the Source of {name} is made.")
        return name

    def inside(self, subfolder: str) -> Source:
        """The same source seen from one of its folders, such as "0_Transformer"; "" is the source itself."""
        if not subfolder:
            return self
        inner = copy.copy(self)
        inner._subfolder = f"{self._subfolder}{subfolder.rstrip('/')}/"
        inner.name = f"{self.name}/{subfolder.rstrip('/')}"
        inner.folder = None if self.folder is None else self.folder / subfolder
        return inner

    def __str__(self) -> str:
        return self.name

    def file(self, filename: str) -> Path | None:
        """Path of `filename`, downloaded into the Hub cache when it has to be.

        Returns:
            The path, or None when the folder or repository is there but holds no such file.

        Raises:
            FileNotFoundError: no such repository or revision, or the network cannot be reached (or may not be)
                and the cache does not hold the file.
            ValueError: something else is in place of the file: a Git LFS pointer, or a web page.
        """
        path = self._from_hub(filename) if self.folder is None else self.folder / filename
        if path is None or not path.is_file():
            return None
        _refuse_placeholder(path)
        return path

    def require(self, *filenames: str) -> Path:
        """Path of the first of `filenames` that exists; FileNotFoundError naming all of them when none does."""
        for filename in filenames:
            if path := self.file(filename):
                return path
        raise FileNotFoundError(f"{self.name!r} holds no {' or '.join(filenames)}; is it a BERT checkpoint?")

    def _from_hub(self, filename: str) -> Path | None:
        import huggingface_hub  # here, because it costs a third of what importing torch costs
        from huggingface_hub import errors

        name, filename = self._repository, self._subfolder + filename
        try:
            place: dict[str, Any] = dict(self._hub)
            place["local_files_only"] = place["local_files_only"] or not self._hub_answers()
            return Path(huggingface_hub.hf_hub_download(name, filename, **place))
        except errors.GatedRepoError:
            why = f"The Hub repository {name!r} is gated: accept its terms on its page, then pass token=."
        except errors.RepositoryNotFoundError:
            why = (
                f"{name!r} is neither a local folder nor a repository on the Hub: check the spelling "
                "(and pass token= if it is private)."
            )
        except errors.RevisionNotFoundError:
            why = f"The Hub repository {name!r} has no revision {self._hub['revision']!r}."
        except errors.LocalEntryNotFoundError as error:
            # an offline cache that knows the repository but not this file: like a file that is not there
            if isinstance(self._in_cache("config.json"), str):
                self._assume_absent(filename)
                return None
            offline = self._hub["local_files_only"] or isinstance(error.__cause__, errors.OfflineModeIsEnabled)
            reason = "offline mode is on" if offline else "the Hub cannot be reached"
            why = (
                f"{name!r} is not a local folder, {filename} is not in the cache, and {reason}: "
                "go online once, or pass a folder."
            )
        except errors.EntryNotFoundError:
            return None
        except (errors.HfHubHTTPError, OSError) as error:
            why = f"Could not get {filename} of {name!r} from the Hub: {str(error).splitlines()[0]}"
        near = difflib.get_close_matches(name, [folder.name for folder in BUNDLED_MODELS.iterdir()], n=1, cutoff=0.8)
        raise FileNotFoundError(why + "".join(f" Did you mean {model}?" for model in near))

    def _hub_answers(self) -> bool:
        """Whether it takes a connection; where none is to be had, huggingface_hub tries for half a minute."""
        from urllib.request import getproxies

        from huggingface_hub import constants

        # offline mode has an error of its own, and what lies behind a proxy only the proxy knows
        if self._answers is None and not constants.HF_HUB_OFFLINE and not getproxies():
            url, self._answers = urlsplit(constants.ENDPOINT), False
            port = url.port or (80 if url.scheme == "http" else 443)
            with suppress(OSError), socket.create_connection((url.hostname, port), timeout=5):
                self._answers = True
        return self._answers is not False

    def _assume_absent(self, filename: str) -> None:
        """Says what follows when a file was never looked for, so that nobody knows whether the repository has it."""
        from huggingface_hub import _CACHED_NO_EXIST

        known = self._in_cache(filename) is _CACHED_NO_EXIST
        if known or filename in self.assumed_absent or (default := DEFAULTS.get(Path(filename).name)) is None:
            return
        self.assumed_absent.append(filename)
        warnings.warn(
            f"{filename} of {self._repository} is not in the cache, where nobody has looked for it: taken for absent, "
            f"which means {default}. Go online once to be sure.",
            stacklevel=6,
        )

    def _in_cache(self, filename: str) -> Any:
        from huggingface_hub import try_to_load_from_cache

        place: dict[str, Any] = {name: self._hub[name] for name in ("cache_dir", "revision")}
        return try_to_load_from_cache(self._repository, filename, **place)


def _refuse_placeholder(path: Path) -> None:
    with path.open("rb") as file:
        head = file.read(64).lstrip().lower()
    if head.startswith(b"version https://git-lfs"):
        raise ValueError(f"{path} is a Git LFS pointer, not the file itself: run `git lfs pull` where it was cloned.")
    if head.startswith((b"<!doctype html", b"<html")):
        raise ValueError(f"{path} is a web page, not the file itself: download the file (its raw form) again.")


def preset_file(name: str) -> Path:
    """The config.json of a published size; ValueError naming all presets when there is no such one."""
    package = Path(__file__).parent
    # in the wheel the presets lie inside the package, in a checkout beside it
    folder = next(f for f in (package / "configs", package.parent / "configs") if f.is_dir())
    path = folder / f"{name}.json"
    if not path.is_file():
        known = ", ".join(sorted(file.stem for file in folder.glob("*.json")))
        raise ValueError(f"There is no preset {name!r}; the presets are {known}.")
    return path


def split_source(name: str | os.PathLike[str] | Source, options: Mapping[str, Any]) -> tuple[Source, dict[str, Any]]:
    """The source that a name and keyword arguments describe, and the arguments that are not the source's."""
    own = {option: value for option, value in options.items() if option in SOURCE_OPTIONS}
    return Source.of(name, **own), {option: value for option, value in options.items() if option not in own}


@contextmanager
def naming(where: str) -> Iterator[None]:
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
        line = data.count(b"\n", 0, error.start) + 1
        raise ValueError(f"{path} is not UTF-8 in line {line}; convert it (iconv -t utf-8) or get it again.") from None


def load_json(path: Path) -> Any:
    """The JSON in `path`; ValueError naming the file when it holds none."""
    text = read_text(path)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:  # a ValueError too: a number of more than 4,300 digits
        raise ValueError(f"{path} is not JSON ({error}); get the file again.") from None


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in `path`; ValueError naming the file when it does not hold one."""
    content = load_json(path)
    if not isinstance(content, dict):
        raise ValueError(f"{path} should hold a JSON object but holds a {type(content).__name__}.")
    return content


def write_json(path: Path, content: Any) -> None:
    """Writes `content` as readable JSON, atomically."""
    with replacing(path) as temporary:
        text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
        # a path that is not UTF-8 has lone surrogates, which JSON can hold as escapes alone
        temporary.write_text(text, encoding="utf-8", errors="backslashreplace")


@contextmanager
def replacing(path: str | os.PathLike[str], mode: int = 0o666) -> Iterator[Path]:
    """Gives a temporary path beside `path`: renamed to it when the block succeeds, removed when it fails.

    A reader therefore sees the old file or the new one, never half of either, whatever kills the writer. What a killed
    writer left behind is removed by the next one. A symbolic link stays, and the file that it points to is replaced.

    Args:
        path: the file.
        mode: permissions of a new file, less the umask; one that is written again keeps its own.

    Raises:
        OSError: as `check_target`, or the file, which is named, cannot be written: the disk is full, for instance.
    """
    named, path = Path(path), Path(os.path.realpath(check_target(path)))
    temporary = None
    try:
        earlier = stat.S_IMODE(path.stat().st_mode) if path.exists() else None
        temporary, handle = _locked_temporary(path, mode if earlier is None else 0o600)
        try:
            yield temporary
            if earlier is not None:
                temporary.chmod(earlier)
            with temporary.open("rb+") as file:
                os.fsync(file.fileno())
            if fcntl is None:
                os.close(handle)  # Windows renames no open file
            os.replace(temporary, path)
        except BaseException:  # only then is it still ours: once it is renamed, another writer may have taken its name
            with suppress(FileNotFoundError):
                temporary.unlink()
            raise
        finally:
            with suppress(OSError):
                os.close(handle)
    except OSError as error:
        # writing to an open file fails without its name; an error that names another file, or has words of its own,
        # comes from what the block reads
        if error.errno is None or (temporary is not None and error.filename not in (None, str(temporary))):
            raise
        raise OSError(f"{named} could not be written ({error.strerror or error}).") from error


def _locked_temporary(path: Path, mode: int) -> tuple[Path, int]:
    """A new file beside `path` and its handle, locked: whoever finds it unlocked knows that its writer is dead."""
    for leftover in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
        remove_abandoned(leftover)
    for number in count():
        temporary = path.with_name(f".{path.name}.{number}.tmp")
        with suppress(FileExistsError):
            handle = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode)
            if lock(handle) is not False and _is_at(handle, temporary):  # not taken for a leftover before it was locked
                return temporary, handle
            os.close(handle)
    raise AssertionError("there is always another number")


def remove_abandoned(path: Path) -> None:
    """Removes a temporary file if a killed writer left it; one that is being written is locked, and stays."""
    with suppress(OSError):
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
        True; False when another process has locked it; None where there are no locks (Windows, some file systems).
    """
    if fcntl is None:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


@contextmanager
def only_run_in(folder: Path, rank: int = 0) -> Iterator[None]:
    """Keeps other processes from working in `folder` under the same rank until the block ends.

    Raises:
        OSError: another process works there; both are named.
    """
    path = folder / f".lock-{rank}"
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        if lock(handle) is False:
            time.sleep(0.2)  # it may have locked the file just now, and not said yet who it is
            other = os.pread(handle, 1000, 0).decode(errors="replace") or "another process"
            os.close(handle)
            raise OSError(f"{folder} is in use by {other}: wait for it to end, or give another folder.")
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
        raise FileNotFoundError(f"there is no folder {path.parent} to write {path.name} into; make it first.")
    if path.exists() and not path.is_file():
        raise OSError(f"{path} is {'a folder' if path.is_dir() else 'no ordinary file'}; name a file to write.")
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
            for line in file:
                number += 1
                if number == 1:
                    line = line.removeprefix(codecs.BOM_UTF8)  # which some editors put before everything
                yield line.rstrip(b"\r\n").decode("utf-8")
        except UnicodeDecodeError:
            raise ValueError(f"line {number} of {where} is not UTF-8; convert the file (iconv -t utf-8).") from None
        except OSError as error:
            raise OSError(f"{where} cannot be read after line {number} ({error.strerror}).") from None
