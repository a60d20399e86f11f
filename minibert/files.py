"""Finding a checkpoint's files and writing files whole: the only module that knows about folders and the Hub.

A *source* is where a checkpoint lives: a folder, a model bundled with this package, or a Hub repository. The
Hub is asked through `huggingface_hub` alone, so its cache, tokens, `HF_ENDPOINT` and `HF_HUB_OFFLINE` all apply.
"""

from __future__ import annotations

import codecs
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

BUNDLED_MODELS = Path(__file__).parent / "models"
_HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")


class Source:
    """Where the files of one checkpoint are looked up.

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

    def __str__(self) -> str:
        return self.name

    def file(self, filename: str) -> Path | None:
        """Path of `filename`, downloaded into the Hub cache when it has to be.

        Returns:
            The path, or None when the folder or repository is there but holds no such file.

        Raises:
            FileNotFoundError: no such repository or revision, or the network cannot be reached (or may not be)
                and the cache does not hold the file.
        """
        if self.folder is not None:
            path = self.folder / filename
            return path if path.is_file() else None
        return self._from_hub(filename)

    def require(self, *filenames: str) -> Path:
        """Path of the first of `filenames` that exists; FileNotFoundError naming all of them when none does."""
        for filename in filenames:
            if path := self.file(filename):
                return path
        raise FileNotFoundError(f"{self.name!r} holds no {' or '.join(filenames)}; is it a BERT checkpoint?")

    def _from_hub(self, filename: str) -> Path | None:
        import huggingface_hub  # here, because it costs a third of what importing torch costs
        from huggingface_hub import errors

        name = self.name
        try:
            return Path(huggingface_hub.hf_hub_download(name, filename, **self._hub))  # type: ignore[arg-type]
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
            # An offline cache that knows the repository but not this file: like a file that is not there.
            if self._cached():
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
        raise FileNotFoundError(why)

    def _cached(self) -> bool:
        """Whether the cache already holds this repository's config.json at the wanted revision."""
        from huggingface_hub import try_to_load_from_cache

        found = try_to_load_from_cache(
            self.name,
            "config.json",
            cache_dir=self._hub["cache_dir"],  # type: ignore[arg-type]
            revision=self._hub["revision"],  # type: ignore[arg-type]
        )
        return isinstance(found, str)


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in `path`; ValueError naming the file when it does not hold one in UTF-8."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"{path} is not JSON in UTF-8 ({error}); get the file again.") from None
    if not isinstance(content, dict):
        raise ValueError(f"{path} should hold a JSON object but holds a {type(content).__name__}.")
    return content


def write_json(path: Path, content: Any) -> None:
    """Writes `content` as readable JSON, whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Gives a temporary path beside `path`, renamed to it when the block ends well and removed when it does not.

    A reader therefore sees the old file or the new one, never half of either, whatever kills the writer.

    Raises:
        OSError: as `check_target`, or the disk is full.
    """
    path = check_target(path)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        # mkstemp makes private files; give the permissions that an ordinary open() would have given
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        with suppress(FileNotFoundError):
            temporary.unlink()


def check_target(path: str | os.PathLike[str]) -> Path:
    """The path of a file that is going to be written.

    Raises:
        FileNotFoundError: there is no such folder.
        OSError: something else than a file is there, such as a folder, a pipe or a device.
    """
    path = Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {path.parent} to write {path.name} into; make it first.")
    if path.exists() and not path.is_file():
        raise OSError(f"{path} is {'a folder' if path.is_dir() else 'no ordinary file'}; name a file to write.")
    return path


def remove_leftovers(folder: Path, name: str) -> None:
    """Removes the temporary files that `replacing` left of a file when its writer was killed."""
    for leftover in folder.glob(f".{name}.*.tmp"):
        leftover.unlink(missing_ok=True)


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
