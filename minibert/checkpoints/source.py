"""Where the files of a checkpoint are: a folder, a bundled model, or a Hub repository."""

from __future__ import annotations

import atexit
import copy
import difflib
import importlib.resources
import os
import re
import stat
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from minibert.checkpoints.hub import Repository, snapshot_in
from minibert.compat.keywords import CONVERT_TENSORFLOW
from minibert.util.checks import warn
from minibert.util.folders import finish_replacement


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
FIRST = ("config.json", "modules.json")
"""Files without which no library loads a model. They go first and come last."""
WEIGHTS = (".safetensors", ".bin", ".pt", ".pth")
"""Endings of a file of weights that can be named instead of a folder."""


def _local_folder(name: str) -> Path | None:
    """Return the folder of this name, or else the bundled model, or None if there is neither."""
    if not name:
        return None
    folder = os.path.expanduser(name)
    place = os.path.normpath(name)
    is_one_part = place == os.path.basename(place) and place not in (os.curdir, os.pardir)
    bundled = os.path.join(BUNDLED_MODELS, name) if is_one_part else ""
    is_ambiguous = os.path.isdir(bundled) and os.path.isdir(folder)
    if is_ambiguous and folder == os.path.basename(bundled):  # "./minibert-tiny" is clear
        if not os.path.isfile(os.path.join(folder, "config.json")):
            return Path(bundled)  # the folder is not a model, but the output of a run, for instance
        warn(
            f"{folder} is read as the folder of that name here, not as the bundled "
            "model. Rename the folder if you mean the bundled model."
        )
    for candidate in (folder, bundled):
        if os.path.isdir(candidate):
            return snapshot_in(Path(candidate)) or Path(candidate)
    return None


class Source:
    """Where the files of one checkpoint are looked up: made once, handed on to all that read it.

    Args:
        name: A folder, the name of a bundled model (`"minibert-tiny"`), a Hub id
            (`"klue/bert-base"`), or a single file of weights or config, by any name.
        revision: Branch, tag or commit of the Hub repository.
        cache_dir: The Hub cache to use instead of the default one.
        local_files_only: Use only what the cache already holds, without the network.
        token: Hub token for private repositories.

    Attributes:
        folder: The folder. None: a repository of the Hub.
        single_file: The file that was named. The others are those of its folder.

    Raises:
        TypeError: `name` is not a string or a path.
        FileNotFoundError: `name` is neither an existing folder, a bundled model, a possible Hub id,
            nor a file of weights or config.
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
        self.folder = _local_folder(self.name)
        self.single_file: Path | None = None
        self._seen: dict[Path, tuple[int, ...]] = {}  # shared with those of its folders
        self._subfolder = ""
        self._repository: Repository | None = None
        if self.folder is not None:
            finish_replacement(self.folder)
            return
        finish_replacement(Path(self.name).parent)
        # "bert-base-uncased" is a Hub id, whatever lies in the working folder
        if os.path.isfile(self.name) and any(mark in self.name for mark in "/."):
            path = Path(self.name)
            if path.suffix not in (*WEIGHTS, ".json"):
                raise FileNotFoundError(
                    f"Checkpoint {self.name!r:.100} is a file. Pass the folder that holds it, or a "
                    f"file of weights ({', '.join(WEIGHTS)})."
                )
            self.folder, self.single_file = path.parent, path
        elif _HUB_NAME.fullmatch(self.name) and not self.name.startswith("."):
            self._repository = Repository(self.name, revision, cache_dir, local_files_only, token)
        else:
            raise FileNotFoundError(
                f"Checkpoint {self.name!r:.100} is not a folder, and it cannot be a Hub id."
            )

    @classmethod
    def of(
        cls,
        name: str | os.PathLike[str] | Source,
        subfolder: str | os.PathLike[str] | None = None,
        **options: Any,
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

    def inside(self, subfolder: str | os.PathLike[str]) -> Source:
        """Return the source seen from one of its folders, such as "0_Transformer"."""
        if not subfolder:
            return self
        subfolder = os.fspath(subfolder).rstrip("/")
        inner = copy.copy(self)  # of the same repository
        inner._subfolder = f"{self._subfolder}{subfolder}/"
        inner.name = f"{self.name}/{subfolder}"
        if self.folder is not None:
            inner.folder = self.folder / subfolder
            finish_replacement(inner.folder)
        return inner

    def __str__(self) -> str:
        return self.name

    @property
    def assumed_absent(self) -> list[str]:
        """Files that change results, and of which an offline cache does not say whether they exist.

        They were taken for absent. See `minibert.checkpoints.hub.DEFAULTS`.
        """
        return [] if self._repository is None else self._repository.assumed_absent

    def file(self, filename: str) -> Path | None:
        """Path of `filename`, downloaded into the Hub cache when it has to be.

        Returns:
            The path, or None when the folder or repository is there but holds no such file.

        Raises:
            FileNotFoundError: No such repository or revision, or the network cannot be reached (or
                may not be) and the cache does not hold the file. A link to a file that is gone.
            ValueError: Something else is in place of the file: a Git LFS pointer, or a web page.
            PermissionError: Its folder may not be read, so nobody knows whether it is there.
            OSError: The checkpoint has been replaced since its first file was asked for.
        """
        self.check_unchanged()
        if self._repository is not None:
            path = self._in_repository(self._repository, filename)
        else:
            assert self.folder is not None
            path = self.folder / filename
            named = self.single_file
            if named is not None and named.suffix == ".json" and filename == "config.json":
                path = named
        if path is None or not _is_file(path):
            return None
        _refuse_placeholder(path)
        if os.path.basename(filename) in FIRST:
            self._seen.setdefault(path, _identity(path))
        return path

    def filenames(self, subfolder: str) -> list[str]:
        """Return the names of the files in a folder, none if it does not exist."""
        if self._repository is not None:
            return self._repository.filenames(self._subfolder + subfolder)
        assert self.folder is not None
        folder = self.folder / subfolder
        if not folder.is_dir():
            return []
        return sorted(path.name for path in folder.iterdir() if path.is_file())

    def check_unchanged(self) -> None:
        """Check that another process has not replaced the checkpoint while it was read.

        Raises:
            OSError: It has: what was read is partly of the old one and partly of the new one.
        """
        for path, identity in self._seen.items():
            if _identity(path) != identity:
                raise OSError(f"{path} was replaced while {self} was read. Load it again.")

    def _in_repository(self, repository: Repository, filename: str) -> Path | None:
        try:
            return repository.file(self._subfolder + filename)
        except FileNotFoundError as error:
            names = sorted(folder.name for folder in BUNDLED_MODELS.iterdir())
            similar = difflib.get_close_matches(repository.name, names, n=1, cutoff=0.8)
            advice = ""
            if similar:
                advice = f" Did you mean {similar[0]}?"
            elif "/" not in repository.name:
                advice = f" The bundled models are {', '.join(names)}."
            raise FileNotFoundError(f"{error}{advice}") from None

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
            return f"Write one by minibert export -m {self.name} -o FOLDER, and name that folder."
        names: list[str] = []
        if self.folder is not None and os.path.isdir(self.folder):
            names = sorted(path.name for path in self.folder.iterdir() if path.is_file())
        if any(name.endswith(".ckpt.index") for name in names):
            return (
                "It is a TensorFlow checkpoint of google-research/bert, which minibert does not "
                f"read: {CONVERT_TENSORFLOW}"
            )
        if self.file("model.onnx") is not None:
            return (
                "It was written by minibert export: name the model that it was exported from, or "
                "pass --backend onnx to a command that has it."
            )
        if "vocab.txt" in filenames and "config.json" in names:
            return (
                "These are files of the tokenizer. Copy them from the checkpoint that this one was "
                "trained from, or save the tokenizer with the model (save_pretrained)."
            )
        if "adapter_config.json" in names:
            return (
                "It is an adapter of peft: peft.PeftModel.from_pretrained(model, folder) adds it "
                "to the model that it was trained for."
            )
        weights = [name for name in names if name.endswith(WEIGHTS)]
        if weights:
            return (
                f"It has {', '.join(weights):.200}. Files with other names than the official ones "
                "are named by their paths: BertModel.from_pretrained(weights, config=config)."
            )
        return "Is it a BERT checkpoint?"


def _identity(path: Path) -> tuple[int, ...]:
    """What differs for another file of this name."""
    try:
        status = os.stat(path)
    except OSError:
        return ()
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


def _is_file(path: Path) -> bool:
    """Whether there is a file. What cannot be a name, such as a very long one, is none.

    Raises:
        PermissionError: Its folder may not be read.
        FileNotFoundError: A link to a file that is gone, such as one of the Hub's cache.
    """
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except PermissionError:
        raise
    except (OSError, ValueError):
        if os.path.islink(path):
            raise FileNotFoundError(
                f"{path} is a link to {os.readlink(path)}, which does not exist. Get the file "
                "again."
            ) from None
        return False


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
