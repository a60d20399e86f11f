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
from collections.abc import Mapping
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
    "modules.json": "a plain BERT, with mean pooling and vectors that are not normalised",
    "sentence_bert_config.json": "no limit to the tokens but the tokenizer's",
    "config_sentence_transformers.json": "no prompts",
    "tokenizer_config.json": "lower case, unless tokenizer.json says otherwise",
}


class Source:
    """Where the files of one checkpoint are looked up: made once, handed on to all that read it.

    Args:
        name: a folder, the name of a bundled model (`"minibert-tiny"`), or a Hub id
            (`"klue/bert-base"`).
        revision: branch, tag or commit of the Hub repository.
        cache_dir: the Hub cache to use instead of the default one.
        local_files_only: never ask the network; only what the cache already holds.
        token: Hub token for private repositories.

    Raises:
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
        self.name = os.fspath(name)
        self.folder: Path | None = None
        self._repository, self._subfolder = (
            self.name,
            "",
        )  # `inside` changes the name, not the repository
        self.assumed_absent: list[str] = []
        self._answers: bool | None = None
        self._hub = {
            "revision": revision,
            "cache_dir": cache_dir,
            "local_files_only": local_files_only,
            "token": token,
        }
        bundled = os.path.join(BUNDLED_MODELS, self.name)
        for folder in (os.path.expanduser(self.name), bundled):
            if self.name and os.path.isdir(folder):
                if folder == os.path.basename(bundled) and os.path.isdir(bundled):
                    if not os.path.isfile(os.path.join(folder, "config.json")):
                        continue  # no model, but the output of a run, for instance
                    warnings.warn(
                        f"{folder} is read as the folder of that name here, not as the bundled "
                        "model. Rename the folder if you mean the bundled model.",
                        stacklevel=3,
                    )
                self.folder = Path(folder)
                return
        if not _HUB_NAME.fullmatch(self.name) or self.name.startswith("."):
            kind = (
                "a file; pass the folder that holds it"
                if os.path.isfile(self.name)
                else "not a folder"
            )
            raise FileNotFoundError(
                f"Checkpoint {self.name!r:.100} is {kind}, and it cannot be a Hub id."
            )

    @classmethod
    def of(
        cls, name: str | os.PathLike[str] | Source, subfolder: str | None = None, **options: Any
    ) -> Source:
        """Return the source of a name, or the source itself if it is one, seen from `subfolder`.

        Raises:
            FileNotFoundError: as for making a source.
            ValueError: a source together with options, which it has already.
        """
        if not isinstance(name, Source):
            return cls(name, **options).inside(subfolder or "")
        if given := [option for option, value in options.items() if value]:
            raise ValueError(
                f"{given[0]} belongs to the Source: pass it where the Source of {name} is made."
            )
        return name.inside(subfolder or "")

    def inside(self, subfolder: str) -> Source:
        """Return the source seen from one of its folders, such as "0_Transformer"."""
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
            FileNotFoundError: no such repository or revision, or the network cannot be reached (or
                may not be) and the cache does not hold the file.
            ValueError: something else is in place of the file: a Git LFS pointer, or a web page.
        """
        path = self._from_hub(filename) if self.folder is None else self.folder / filename
        if path is None or not os.path.isfile(
            path
        ):  # False, too, for what can be no name, such as a very long one
            return None
        _refuse_placeholder(path)
        return path

    def require(self, *filenames: str) -> Path:
        """Return the path of the first of `filenames` that exists.

        Raises:
            FileNotFoundError: none exists.
        """
        for filename in filenames:
            if path := self.file(filename):
                return path
        raise FileNotFoundError(
            f"{self.name!r:.300} holds no {' or '.join(filenames):.300}; is it a BERT checkpoint?"
        )

    def _from_hub(self, filename: str) -> Path | None:
        import huggingface_hub  # here, because it costs a third of what importing torch costs
        from huggingface_hub import errors

        name, filename = self._repository, self._subfolder + filename
        try:
            place: dict[str, Any] = dict(self._hub)
            place["local_files_only"] = place["local_files_only"] or not self._hub_answers()
            return Path(huggingface_hub.hf_hub_download(name, filename, **place))
        except errors.GatedRepoError:
            why = (
                f"The Hub repository {name!r} is gated: accept its terms on its page, "
                "then pass token=."
            )
        except errors.RepositoryNotFoundError:
            why = (
                f"{name!r} is neither a local folder nor a repository on the Hub: check the "
                "spelling (and pass token= if it is private)."
            )
        except errors.RevisionNotFoundError:
            why = f"The Hub repository {name!r} has no revision {self._hub['revision']!r}."
        except errors.LocalEntryNotFoundError as error:
            # an offline cache that knows the repository but not this file: like a file that is not
            # there
            if isinstance(self._in_cache("config.json"), str):
                self._assume_absent(filename)
                return None
            offline = self._hub["local_files_only"] or isinstance(
                error.__cause__, errors.OfflineModeIsEnabled
            )
            reason = "offline mode is on" if offline else "the Hub cannot be reached"
            why = (
                f"{name!r} is not a local folder, {filename} is not in the cache, and {reason}: "
                "go online once, or pass a folder."
            )
        except errors.EntryNotFoundError:
            return None
        except (errors.HfHubHTTPError, OSError) as error:
            why = f"Could not get {filename} of {name!r} from the Hub: {str(error).splitlines()[0]}"
        near = difflib.get_close_matches(
            name, [folder.name for folder in BUNDLED_MODELS.iterdir()], n=1, cutoff=0.8
        )
        raise FileNotFoundError(why + "".join(f" Did you mean {model}?" for model in near))

    def _hub_answers(self) -> bool:
        """Whether the Hub accepts a connection.

        Without one, huggingface_hub itself tries for half a minute.
        """
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
        """Warn about a file that was never looked for, so that the repository may have it."""
        from huggingface_hub import _CACHED_NO_EXIST

        known = self._in_cache(filename) is _CACHED_NO_EXIST
        if (
            known
            or filename in self.assumed_absent
            or (default := DEFAULTS.get(Path(filename).name)) is None
        ):
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
        ValueError: there is no such preset.
    """
    # in the wheel the presets lie inside the package, in a checkout beside it
    folder = packaged("configs")
    folder = folder if folder.is_dir() else folder.parents[1] / "configs"
    path = folder / f"{name}.json"
    if not path.is_file():
        known = ", ".join(sorted(file.stem for file in folder.glob("*.json")))
        raise ValueError(f"There is no preset {name!r}; the presets are {known}.")
    return path


def split_source(
    name: str | os.PathLike[str] | Source, options: Mapping[str, Any]
) -> tuple[Source, dict[str, Any]]:
    """Return the source that a name and keyword arguments describe, and the other arguments."""
    own = {option: value for option, value in options.items() if option in SOURCE_OPTIONS}
    return Source.of(name, **own), {
        option: value for option, value in options.items() if option not in own
    }
