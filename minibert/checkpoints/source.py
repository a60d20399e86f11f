"""Where the files of a checkpoint are: a folder, a bundled model, or a Hub repository.

The Hub is asked through `huggingface_hub` alone, so its cache, tokens, `HF_ENDPOINT` and
`HF_HUB_OFFLINE` all apply.
"""

from __future__ import annotations

import atexit
import copy
import difflib
import importlib.resources
import os
import re
import socket
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit


def packaged(name: str) -> Path:
    """Return a folder of the package.

    If the package is in a zip archive, this is a copy that lasts as long as the process.
    """
    folder = importlib.resources.files("minibert") / name
    return folder if isinstance(folder, Path) else _unpacked(name)


@cache
def _unpacked(name: str) -> Path:
    copy = tempfile.TemporaryDirectory(
        prefix="minibert-", ignore_cleanup_errors=True
    )  # Windows keeps what is mapped
    atexit.register(copy.cleanup)
    todo = [(importlib.resources.files("minibert") / name, Path(copy.name, name))]
    for entry, place in todo:
        if entry.is_dir():
            place.mkdir()
            todo += [(inner, place / inner.name) for inner in entry.iterdir()]
        else:
            place.write_bytes(entry.read_bytes())
    return Path(copy.name, name)


BUNDLED_MODELS = packaged("models")
_HUB_NAME = re.compile(r"(?=.{1,96}$)[\w.-]+(/[\w.-]+)?")  # of at most 96 characters
SOURCE_OPTIONS = ("revision", "cache_dir", "local_files_only", "token", "subfolder")

# optional files without which the numbers are others, and what they are then
DEFAULTS = {
    "modules.json": "a plain BERT, with mean pooling and vectors that are not L2-normalized",
    "sentence_bert_config.json": "no limit to the tokens but the tokenizer's",
    "config_sentence_transformers.json": "no prompts",
    "tokenizer_config.json": "lower case, unless tokenizer.json says otherwise",
}


def _local_folder(name: str) -> Path | None:
    """Return the folder of this name, or else the bundled model, or None if there is neither."""
    if not name:
        return None
    folder = os.path.expanduser(name)
    bundled = os.path.join(BUNDLED_MODELS, name)
    is_ambiguous = os.path.isdir(bundled) and os.path.isdir(folder)
    if is_ambiguous and folder == os.path.basename(bundled):  # "./minibert-tiny" is clear
        if not os.path.isfile(os.path.join(folder, "config.json")):
            return Path(bundled)  # the folder is not a model, but the output of a run, for instance
        warnings.warn(
            f"{folder} is read as the folder of that name here, not as the bundled "
            "model. Rename the folder if you mean the bundled model.",
            stacklevel=4,
        )
    for candidate in (folder, bundled):
        if os.path.isdir(candidate):
            return Path(candidate)
    return None


class Source:
    """Where the files of one checkpoint are looked up: made once, handed on to all that read it.

    Args:
        name: A folder, the name of a bundled model (`"minibert-tiny"`), or a Hub id
            (`"klue/bert-base"`).
        revision: Branch, tag or commit of the Hub repository.
        cache_dir: The Hub cache to use instead of the default one.
        local_files_only: Use only what the cache already holds, without the network.
        token: Hub token for private repositories.

    Raises:
        TypeError: `name` is not a string or a path.
        FileNotFoundError: `name` is neither an existing folder, a bundled model nor a possible Hub
            id.
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
        if not isinstance(name, str | os.PathLike):
            raise TypeError(
                "The name of a checkpoint should be a folder, a bundled model or a Hub id, not "
                f"{type(name).__name__}."
            )
        self.name = os.fspath(name)
        self.folder: Path | None = None
        # `inside` changes the name, but not the repository
        self._repository = self.name
        self._subfolder = ""
        self.assumed_absent: list[str] = []
        self._answers: bool | None = None
        self._hub = {
            "revision": revision,
            "cache_dir": cache_dir,
            "local_files_only": local_files_only,
            "token": token,
        }
        self.folder = _local_folder(self.name)
        if self.folder is None:
            self._check_hub_name()

    def _check_hub_name(self) -> None:
        # "bert-base-uncased" is a Hub id, whatever lies in the working folder
        is_path = os.path.isfile(self.name) and any(mark in self.name for mark in "/.")
        if _HUB_NAME.fullmatch(self.name) and not self.name.startswith(".") and not is_path:
            return
        reason = "not a folder, and it cannot be a Hub id"
        if os.path.isfile(self.name):
            reason = "a file. Pass the folder that holds it"
        raise FileNotFoundError(f"Checkpoint {self.name!r:.100} is {reason}.")

    @classmethod
    def of(
        cls, name: str | os.PathLike[str] | Source, subfolder: str | None = None, **options: Any
    ) -> Source:
        """Return the source of a name, or the source itself if it is one, seen from `subfolder`.

        Raises:
            FileNotFoundError: As for making a source.
            ValueError: A source together with options, which it has already.
        """
        if not isinstance(name, Source):
            return cls(name, **options).inside(subfolder or "")
        options_of_source = [option for option, value in options.items() if value]
        if options_of_source:
            raise ValueError(
                f"{options_of_source[0]} belongs to the Source: pass it where the Source of {name} "
                "is made."
            )
        return name.inside(subfolder or "")

    def inside(self, subfolder: str) -> Source:
        """Return the source seen from one of its folders, such as "0_Transformer"."""
        if not subfolder:
            return self
        inner = copy.copy(self)
        inner._subfolder = f"{self._subfolder}{subfolder.rstrip('/')}/"
        inner.name = f"{self.name}/{subfolder.rstrip('/')}"
        if self.folder is not None:
            inner.folder = self.folder / subfolder
        return inner

    def __str__(self) -> str:
        return self.name

    def file(self, filename: str) -> Path | None:
        """Path of `filename`, downloaded into the Hub cache when it has to be.

        Returns:
            The path, or None when the folder or repository is there but holds no such file.

        Raises:
            FileNotFoundError: No such repository or revision, or the network cannot be reached (or
                may not be) and the cache does not hold the file.
            ValueError: Something else is in place of the file: a Git LFS pointer, or a web page.
        """
        if self.folder is None:
            path = self._from_hub(filename)
        else:
            path = self.folder / filename
        if path is None or not os.path.isfile(
            path
        ):  # False, too, for what can be no name, such as a very long one
            return None
        _refuse_placeholder(path)
        return path

    def require(self, *filenames: str) -> Path:
        """Return the path of the first of `filenames` that exists.

        Raises:
            FileNotFoundError: None exists.
        """
        for filename in filenames:
            path = self.file(filename)
            if path is not None:
                return path
        missing = f"{self.name!r:.300} holds no {' or '.join(filenames):.300}."
        raise FileNotFoundError(f"{missing} {self._advice(filenames)}")

    def _advice(self, filenames: Sequence[str]) -> str:
        """A sentence on what to do where all these files are missing."""
        if "model.onnx" in filenames:
            return f"Write one by minibert export {self.name} FOLDER, and name that folder."
        if self.file("model.onnx") is not None:
            return (
                "It was written by minibert export: name the model that it was exported from, or "
                "pass --backend onnx to a command that has it."
            )
        return "Is it a BERT checkpoint?"

    def _from_hub(self, filename: str) -> Path | None:
        import huggingface_hub  # here, because it costs a third of what importing torch costs
        from huggingface_hub import errors

        path_in_repository = self._subfolder + filename
        try:
            place: dict[str, Any] = dict(self._hub)
            place["local_files_only"] = place["local_files_only"] or not self._hub_answers()
            path = huggingface_hub.hf_hub_download(self._repository, path_in_repository, **place)
            return Path(path)
        except errors.LocalEntryNotFoundError as error:
            # an offline cache that knows the repository but not this file: the file is absent
            if isinstance(self._in_cache("config.json"), str):
                self._assume_absent(path_in_repository)
                return None
            reason = self._why_not_in_cache(path_in_repository, error)
        except errors.EntryNotFoundError:
            return None
        except (errors.HfHubHTTPError, OSError) as error:
            reason = self._why_not_downloaded(path_in_repository, error)
        names = [folder.name for folder in BUNDLED_MODELS.iterdir()]
        for model in difflib.get_close_matches(self._repository, names, n=1, cutoff=0.8):
            reason += f" Did you mean {model}?"
        raise FileNotFoundError(reason)

    def _why_not_in_cache(self, filename: str, error: Exception) -> str:
        from huggingface_hub import errors

        is_offline = isinstance(error.__cause__, errors.OfflineModeIsEnabled)
        if self._hub["local_files_only"] or is_offline:
            reason = "offline mode is on"
        else:
            reason = "the Hub cannot be reached"
        return (
            f"{self._repository!r} is not a local folder, {filename} is not in the cache, and "
            f"{reason}: go online once, or pass a folder."
        )

    def _why_not_downloaded(self, filename: str, error: Exception) -> str:
        from huggingface_hub import errors

        name = self._repository
        if isinstance(error, errors.GatedRepoError):
            return (
                f"The Hub repository {name!r} is gated: accept its terms on its page, then pass "
                "token=."
            )
        if isinstance(error, errors.RepositoryNotFoundError):
            return (
                f"{name!r} is neither a local folder nor a repository on the Hub: check the "
                "spelling (and pass token= if it is private)."
            )
        if isinstance(error, errors.RevisionNotFoundError):
            return f"The Hub repository {name!r} has no revision {self._hub['revision']!r}."
        return f"Could not get {filename} of {name!r} from the Hub: {str(error).splitlines()[0]}"

    def _hub_answers(self) -> bool:
        """Whether the Hub accepts a connection.

        Without one, huggingface_hub itself tries for half a minute.
        """
        from urllib.request import getproxies

        from huggingface_hub import constants

        # offline mode has an error of its own, and what lies behind a proxy only the proxy knows
        if self._answers is None and not constants.HF_HUB_OFFLINE and not getproxies():
            self._answers = False
            url = urlsplit(constants.ENDPOINT)
            default_port = 80 if url.scheme == "http" else 443
            port = url.port or default_port
            with suppress(OSError), socket.create_connection((url.hostname, port), timeout=5):
                self._answers = True
        return self._answers is not False

    def _assume_absent(self, filename: str) -> None:
        """Warn about a file that was never looked for, so that the repository may have it."""
        from huggingface_hub import _CACHED_NO_EXIST

        default = DEFAULTS.get(Path(filename).name)
        is_absent = self._in_cache(filename) is _CACHED_NO_EXIST
        if is_absent or default is None or filename in self.assumed_absent:
            return
        self.assumed_absent.append(filename)
        warnings.warn(
            f"{filename} of {self._repository} is not in the cache, which has never been asked for "
            f"it: taken for absent, which means {default}. Go online once to be sure.",
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
        raise ValueError(
            f"{path} is a Git LFS pointer, not the file itself: run `git lfs pull` where it was "
            "cloned."
        )
    if head.startswith((b"<!doctype html", b"<html")):
        raise ValueError(
            f"{path} is a web page, not the file itself: download the file (its raw form) again."
        )


def preset_file(name: str) -> Path:
    """Return the path of the config.json of a published size.

    Raises:
        ValueError: There is no such preset.
    """
    # in the wheel the presets lie inside the package, in a checkout beside it
    folder = packaged("configs")
    if not folder.is_dir():
        folder = folder.parents[1] / "configs"
    path = folder / f"{name}.json"
    if not path.is_file():
        known = ", ".join(sorted(file.stem for file in folder.glob("*.json")))
        raise ValueError(f"{name!r} is not a preset. The presets are {known}.")
    return path


def split_source(
    name: str | os.PathLike[str] | Source, options: Mapping[str, Any]
) -> tuple[Source, dict[str, Any]]:
    """Return the source that a name and keyword arguments describe, and the other arguments."""
    source_options = {}
    rest = {}
    for option, value in options.items():
        if option in SOURCE_OPTIONS:
            source_options[option] = value
        else:
            rest[option] = value
    return Source.of(name, **source_options), rest
