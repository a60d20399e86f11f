"""A repository of the Hub becomes a folder, by `huggingface_hub.snapshot_download`.

Its cache, tokens, `HF_ENDPOINT` and `HF_HUB_OFFLINE` all apply. Small files are downloaded
together, and others when they are first asked for.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from minibert.util.checks import warn

TRANSFORMER_FILES = (
    "sentence_bert_config.json",
    # older names, one for each class that sentence-transformers had
    "sentence_roberta_config.json",
    "sentence_distilbert_config.json",
    "sentence_camembert_config.json",
    "sentence_albert_config.json",
    "sentence_xlm-roberta_config.json",
    "sentence_xlnet_config.json",
)
"""Names of the file of sentence-transformers about a Transformer. The first that exists counts."""

SMALL_FILES = (
    "added_tokens.json",
    "chat_template.jinja",
    "config.json",
    "config_sentence_transformers.json",
    "model.safetensors.index.json",
    "modules.json",
    "pytorch_model.bin.index.json",
    *TRANSFORMER_FILES,
    "special_tokens_map.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.txt",
)

DEFAULTS = {
    "modules.json": "a plain BERT, with mean pooling and vectors that are not L2-normalized",
    "sentence_bert_config.json": "no limit to the tokens but the tokenizer's",
    "config_sentence_transformers.json": "no prompts",
    "tokenizer_config.json": "lower case, unless tokenizer.json says otherwise",
}
"""Optional files without which the numbers are others, and what they are then."""


class Repository:
    """A model of the Hub at one revision.

    Args:
        name: Its id, such as "klue/bert-base".
        revision: Branch, tag or commit. None: the default branch.
        cache_dir: The cache to use instead of the default one.
        local_files_only: Use only what the cache already holds, without the network.
        token: Hub token for private repositories.

    Attributes:
        assumed_absent: Files of `DEFAULTS` of which nobody knows whether the repository has them.
    """

    def __init__(
        self,
        name: str,
        revision: str | None,
        cache_dir: str | os.PathLike[str] | None,
        local_files_only: bool,
        token: str | bool | None,
    ) -> None:
        self.name = name
        self.revision = revision
        self.assumed_absent: list[str] = []
        self._place = {
            "cache_dir": cache_dir,
            "local_files_only": local_files_only,
            "token": token,
        }
        self._revision = revision
        self._folder: Path | None = None
        self._requested: set[str] = set()
        self._listing: set[str] | None = None

    def file(self, path: str) -> Path | None:
        """Return the path of a file in the cache, where it is downloaded if need be.

        Args:
            path: Its path in the repository.

        Returns:
            The path, or None if the repository does not have the file.

        Raises:
            FileNotFoundError: The repository or revision does not exist, or the Hub cannot be
                reached (or may not be) and the cache does not hold the file.
        """
        if self._folder is not None and (self._folder / path).is_file():
            return self._folder / path
        place, _, name = path.rpartition("/")
        start = f"{place}/" if place else ""
        if name in SMALL_FILES:
            paths = [start + small for small in SMALL_FILES]
        else:
            if self._folder is None:  # for the listing, so that an absent file is not asked for
                self._request(list(SMALL_FILES), path)
            if self._listing is not None and path not in self._listing:
                return None
            paths = [path]
        local = self._request(paths, path) / path
        if os.path.lexists(local):  # `Source.file` reports a link to nothing
            return local
        if self._listing is None:
            self._warn_of_default(path)
        elif path in self._listing:
            raise FileNotFoundError(self._not_in_cache(path))
        return None

    def filenames(self, folder: str) -> list[str]:
        """Return the names of the files in a folder, after the first file has been requested."""
        start = f"{folder}/"
        paths = [path for path in self._listing or () if path.startswith(start)]
        return sorted(
            path.removeprefix(start) for path in paths if path.count("/") == start.count("/")
        )

    def _request(self, paths: list[str], needed: str) -> Path:
        """Return the folder of the snapshot, in which all `paths` are that the repository has."""
        import huggingface_hub  # here, because it costs a third of what importing torch costs
        from huggingface_hub import errors

        if self._folder is not None and self._requested.issuperset(paths):
            return self._folder
        options: dict[str, Any] = dict(self._place)
        if paths != [needed]:
            options["tqdm_class"] = _silent_progress()
        try:
            folder = huggingface_hub.snapshot_download(
                self.name, revision=self._revision, allow_patterns=paths, **options
            )
        except errors.LocalEntryNotFoundError as error:
            folder = getattr(error, "snapshot_path", None)  # of an incomplete snapshot
            if folder is None:
                raise FileNotFoundError(self._not_in_cache("the repository")) from None
        except Exception as error:  # also those of the HTTP library, and a web page for JSON
            raise FileNotFoundError(self._why_not_downloaded(needed, error)) from None
        self._requested.update(paths)
        self._folder = Path(folder)
        self._revision = self._folder.name  # the commit, so that all files are of one
        self._listing = self._read_listing()
        return self._folder

    def _read_listing(self) -> set[str] | None:
        """Return the paths of all files, or None if the cache was filled without a listing."""
        try:
            from huggingface_hub import get_cached_repo_tree
            from huggingface_hub.errors import CachedRepoTreeNotFoundError
        except ImportError:  # before version 2
            return None
        cache: Any = self._place["cache_dir"]
        try:
            files = get_cached_repo_tree(self.name, revision=self._revision, cache_dir=cache)
        except CachedRepoTreeNotFoundError:
            return None
        return {file.path for file in files}

    def _warn_of_default(self, path: str) -> None:
        """Warn of a file that was never looked for, so that the repository may have it."""
        from huggingface_hub import _CACHED_NO_EXIST, constants, try_to_load_from_cache

        default = DEFAULTS.get(Path(path).name)
        is_offline = constants.HF_HUB_OFFLINE or self._place["local_files_only"]
        if default is None or not is_offline or path in self.assumed_absent:
            return
        cache: Any = self._place["cache_dir"]
        cached = try_to_load_from_cache(self.name, path, revision=self._revision, cache_dir=cache)
        if cached is _CACHED_NO_EXIST:
            return
        self.assumed_absent.append(path)
        warn(
            f"{path} of {self.name} is not in the cache, which has never been asked for "
            f"it: taken for absent, which means {default}. Go online once to be sure."
        )

    def _not_in_cache(self, path: str) -> str:
        from huggingface_hub import constants

        reason = "the Hub cannot be reached"
        if self._place["local_files_only"] or constants.HF_HUB_OFFLINE:
            reason = "offline mode is on"
        return (
            f"{self.name!r} is not a local folder, {path} is not in the cache, and {reason}: go "
            "online once, or pass a folder."
        )

    def _why_not_downloaded(self, path: str, error: Exception) -> str:
        from huggingface_hub import errors

        if isinstance(error, errors.GatedRepoError):
            return (
                f"The Hub repository {self.name!r} is gated: accept its terms on its page, then "
                "pass token=."
            )
        if isinstance(error, errors.RepositoryNotFoundError):
            return (
                f"{self.name!r} is neither a local folder nor a repository on the Hub: check the "
                "spelling (and pass token= if it is private)."
            )
        if isinstance(error, errors.RevisionNotFoundError):
            return f"The Hub repository {self.name!r} has no revision {self.revision!r}."
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        return (
            f"Could not get {path} of {self.name!r} from the Hub ({reason}). With HF_HUB_OFFLINE=1 "
            "only the cache is read."
        )


def _silent_progress() -> Any:
    """Return a class of progress bars that show nothing, for files that are there in a moment."""
    from huggingface_hub.utils.tqdm import tqdm

    class Silent(tqdm):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            options["disable"] = True
            super().__init__(*arguments, **options)  # type: ignore[no-untyped-call]

    return Silent


def snapshot_in(folder: Path) -> Path | None:
    """Return the snapshot in a repository's folder of the cache ("models--klue--bert-base").

    Returns:
        The snapshot of the default branch, or the only one. None: `folder` is something else.

    Raises:
        FileNotFoundError: There are several snapshots, and none of the default branch.
    """
    if not folder.name.startswith("models--") or not (folder / "snapshots").is_dir():
        return None
    default = folder / "refs" / "main"
    if default.is_file():
        return folder / "snapshots" / default.read_text(encoding="utf-8").strip()
    snapshots = sorted((folder / "snapshots").iterdir())
    if len(snapshots) == 1:
        return snapshots[0]
    raise FileNotFoundError(
        f"{folder} is a repository in the Hub's cache with {len(snapshots)} snapshots: name one of "
        "the folders in snapshots/."
    )
