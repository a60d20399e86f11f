"""A folder of vectors in shards, on this machine or elsewhere.

    folder/
      shard-000000.npy      vectors of the first `shard_size` texts
      ...
      .manifest             model, settings, totals, and for each shard its counts and the digests
                            of its texts
      .shard-000000         what the manifest will say of a shard, until all are complete

A shard is written atomically, and what is said of it after it. So a shard is there as a whole or
not at all, and a run that was stopped or killed resumes. The manifest is written just before the
first shard: a run that fails earlier decides nothing about the next one. The names of the sidecar
files begin with a dot, so that pandas, pyarrow, datasets and others who read the folder as a table
ignore them.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from minibert.config import BertConfig
from minibert.encoders.arithmetic.search import pairwise_similarity
from minibert.encoders.rows.token_rows import Settings, Vectors
from minibert.encoders.text_encoder import TextEncoder
from minibert.text.formats import SHARD_FORMATS, Entry
from minibert.text.location import Location
from minibert.tokenization.spec import tokenizer_digest
from minibert.util.checks import amount, warn
from minibert.util.errors import Argument, Message
from minibert.util.folders import finish_replacement
from minibert.vectors.file import open_vector_file

MANIFEST = ".manifest"
# shards, what is said of them, locks, and temporary files of all of these
OWN_FILES = re.compile(r"\.{0,2}(shard-\d|manifest|lock-).*")
MAX_OPEN = 64  # shards that stay mapped, because the number of open files is limited
DIGEST_BYTES = 12

# Number of vectors of a file that are computed again for a check, and the cosine and the ratio of
# lengths from which on they are the same. Vectors of one model in int8 and float32 have more, those
# of two poolings less.
SAMPLES = 8
SAME = 0.95

# of a BertConfig: what decides a vector, with the tokenizer and the weights
CONFIG_OF_ENCODER = (
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "hidden_act",
    "layer_norm_eps",
    "max_position_embeddings",
    "type_vocab_size",
)

# the argument of a search that is a setting of its corpus
OPTION_OF_SETTING = {"prompt": "document_prompt", "precision": "precision"}

_RESTORE = "run the same minibert embed again, which makes it anew, or copy the folder again."

ShardRecord = dict[str, Any]
"""What the manifest says of a shard: lines, tokens, overlong, bytes, sha256, texts, ids."""


class VectorFolder:
    """A folder of vectors.

    Args:
        location: The folder, which need not exist.

    Attributes:
        location: The folder.
    """

    def __init__(self, location: Location) -> None:
        self.location = location
        if location.fs is None:
            finish_replacement(location.path)  # of an update that was killed in its last step

    def __str__(self) -> str:
        return str(self.location)

    @cached_property
    def manifest(self) -> dict[str, Any]:
        """What its manifest says: nothing where there is none."""
        return _read_manifest(self.location)

    @property
    def is_finished(self) -> bool:
        """Whether all shards are complete."""
        return "shards" in self.manifest

    @property
    def records(self) -> list[ShardRecord]:
        """What the manifest of a finished folder says of its shards."""
        records: list[ShardRecord] = self.manifest["shards"]
        return records

    def begin(self, settings: dict[str, Any], embedder: TextEncoder) -> None:
        """Take the settings of a new folder, or compare them with those that it was begun with.

        Args:
            settings: `vector_settings`, the format and size of the shards, and `model_name`, where
                the model was loaded from, or None. That is for the error: it may be another place,
                as long as the weights are the same.
            embedder: The embedder that `vector_settings` was given.

        Raises:
            ValueError: The folder was begun with another model or other settings, or has shards but
                no manifest.
        """
        # listed before the manifest is read, which another run writes before its first shard
        has_shards = any(name.startswith("shard-") for name in self.location.files())
        if not self.manifest and has_shards:
            raise ValueError(f"{self} has shards, but no {MANIFEST}: give another folder.")
        self.manifest = _with_current_digest(self.manifest, embedder, settings) or settings
        self._settings = settings
        _check_same_run(self.location, settings, self.manifest)

    def shard(self, number: int) -> Location:
        """The file of a shard."""
        return self.location / f"shard-{number:06d}.{self.manifest['file_format']}"

    def has(
        self,
        number: int,
        entries: Sequence[Entry],
        update: bool = False,
    ) -> bool:
        """Return whether a shard of these entries is complete, and still as it was written.

        Raises:
            ValueError: The shard is that of other texts, and not `update`.
        """
        record = self._record(number)
        if record is None:
            return False
        shard = self.shard(number)
        if {**record, **_digests_of(entries)} != record:
            if update:
                return False
            raise ValueError(
                Message(
                    f"{shard} was made from other texts: pass ",
                    Argument("update", True),
                    " to keep the vectors of those that are still there, or give another folder.",
                )
            )
        return self._is_as_written(number, record)

    def write(
        self,
        number: int,
        entries: Sequence[Entry],
        write_vectors: Callable[[Path], dict[str, int]],
    ) -> None:
        """Write a shard, and then its record.

        Args:
            number: Index of the shard.
            entries: Its texts and their ids.
            write_vectors: Writes the vectors into a file, and returns its counts.

        Raises:
            OSError: The shard cannot be written. The shards before it are complete.
            ValueError: Another run has begun the folder since, with other settings.
        """
        try:
            self.location.make_folder()
            with self.shard(number).replacing() as temporary:
                counts = write_vectors(temporary)
                about = {
                    "bytes": temporary.stat().st_size,
                    "sha256": sha256_of_file(temporary),
                    **_digests_of(entries),
                }
                self._save_settings()
            self._record_file(number).write_json({**counts, **about})
        except OSError as error:
            advice = "The shards before it are complete: correct this, then run the same command."
            raise OSError(f"{error} {advice}") from error

    def finish(self, count: int, lines: int, about: dict[str, Any], update: bool = False) -> None:
        """Write the manifest of all shards, if this run was the last to write its share of them.

        Args:
            count: Number of shards.
            lines: Number of texts.
            about: Further entries of the manifest.
            update: Shards behind these are deleted.

        Raises:
            ValueError: The folder holds other shards than those of this input, and not `update`.
        """
        for name in self.location.files():
            match = re.match(r"shard-(\d+)\.", name)
            if match is None or int(match[1]) < count:
                continue
            if not update:
                raise ValueError(
                    f"{self} holds more than the {count} shards of this input: the input has "
                    "changed."
                )
            self._record_file(int(match[1])).delete()
            (self.location / name).delete()
        records = [record for record in map(self._record, range(count)) if record is not None]
        if len(records) < count:
            return
        totals = {
            name: sum(record[name] for record in records)
            for name in ("lines", "tokens", "overlong")
        }
        if totals["lines"] != lines:
            raise ValueError(
                f"{self} holds {totals['lines']} lines, but the input has {lines}: the input has "
                "changed."
            )
        manifest = {**self.manifest, **about, **totals, "shards": records}
        if manifest != self.manifest:
            self.manifest = manifest
            self.location.make_folder()
            (self.location / MANIFEST).write_json(manifest)
        for number in range(count):
            self._record_file(number).delete()

    def vectors(self) -> ShardedVectors:
        """Open the vectors of a finished folder.

        Raises:
            ValueError: The folder is not one of vectors, or its run has not finished.
        """
        manifest = self.location / MANIFEST
        version = manifest.files()  # before it is read
        if not self.manifest:
            raise ValueError(
                f"{self} is not a folder of vectors, as minibert embed --output DIR/ writes them: "
                f"it has no {MANIFEST}."
            )
        if not self.is_finished:
            raise ValueError(
                f"{self} is not complete: run minibert embed --output DIR/ again, which resumes "
                "where it stopped."
            )
        shards = [self.shard(number) for number in range(len(self.records))]
        lines = [int(record["lines"]) for record in self.records]
        return ShardedVectors(
            shards, lines, self.manifest["dimension"], self.manifest["unit"], (manifest, version)
        )

    def check_files(self) -> None:
        """Check that the shards of a finished folder are there, with the sizes they should have.

        Raises:
            FileNotFoundError: A shard is missing.
            ValueError: A shard has another size.
        """
        files = self.location.files()
        for number, record in enumerate(self.records):
            shard = self.shard(number)
            size, _ = files.get(Path(shard.path).name, (None, None))
            if size is None:
                raise FileNotFoundError(f"{shard} is missing: {_RESTORE}")
            if size != record["bytes"]:
                raise ValueError(
                    f"{shard} has {size:,} bytes, not {record['bytes']:,} as it was written: "
                    f"{_RESTORE}"
                )

    def digests(self) -> NDArray[Any]:
        """The digests of the texts of a finished folder, (N,)."""
        packed = b"".join(base64.b64decode(record["texts"]) for record in self.records)
        return np.frombuffer(packed, dtype=f"S{DIGEST_BYTES}")

    def check(self, embedder: TextEncoder, texts: Sequence[str], prompt: str) -> None:
        """Check what the manifest says of the vectors: see `open_checked_vectors`.

        Args:
            embedder: The embedder that encodes the queries.
            texts: As many texts as the folder has vectors.
            prompt: Prompt of the texts.

        Raises:
            ValueError: As `open_checked_vectors`.
        """
        current = vector_settings(embedder, embedder.settings(prompt=prompt))
        recorded_settings = _with_current_digest(self.manifest, embedder, current)
        if embedder.similarity_fn_name == "cosine":
            recorded_settings = _without_normalization(recorded_settings)
            current = _without_normalization(current)
        dimensions = (self.manifest["dimension"], embedder.dimension)
        _check_settings(self.location, recorded_settings, current, *dimensions)
        recorded = self.digests()
        current_digests = np.array([text_digest(text) for text in texts], dtype=recorded.dtype)
        changed = np.flatnonzero(recorded != current_digests)
        if changed.size:
            raise ValueError(
                f"{self} was made from other texts: text {changed[0] + 1} has been changed since. "
                "Bring it up to date by minibert embed --update."
            )

    def undamaged(self) -> NDArray[np.bool_]:
        """Which texts of a finished folder are in shards that are still as they were written, (N,).

        A warning names the others.
        """
        whole = [self._is_as_written(number, record) for number, record in enumerate(self.records)]
        return np.repeat(np.array(whole, dtype=bool), [record["lines"] for record in self.records])

    def _is_as_written(self, number: int, record: ShardRecord) -> bool:
        shard = self.shard(number)
        size, _ = shard.files().get("", (None, None))
        # object stores check their files themselves, and reading all would take too long
        if size == record["bytes"] and (
            shard.fs is not None or sha256_of_file(Path(shard.path)) == record["sha256"]
        ):
            return True
        warn(f"{shard} has been damaged or deleted since it was written: it is made again.")
        return False

    def _save_settings(self) -> None:
        """Write the manifest of a new folder, unless it is there. Another run may have begun it."""
        manifest = _read_manifest(self.location)
        if manifest:
            _check_same_run(self.location, self._settings, manifest)
        else:
            (self.location / MANIFEST).write_json(self._settings)

    def _record_file(self, number: int) -> Location:
        return self.location / f".shard-{number:06d}"

    def _record(self, number: int) -> ShardRecord | None:
        """What is known of a complete shard, from the manifest or the file of a run."""
        try:
            record = self._record_file(number).read_json()
            _check_record(record)
            return record
        except FileNotFoundError:
            pass
        except ValueError:  # damaged, so the shard is made again
            return None
        if self.is_finished and number < len(self.records):
            return self.records[number]
        return None


class ShardedVectors:
    """The vectors of a folder of shards, read by rows: a number, several numbers or a slice.

    Shards in .npy and .safetensors are memory-mapped. Shards are opened when their rows are read,
    which is an error after an update of the folder: those of other texts may be in their place.

    Attributes:
        shape: (N, D).
        unit: All vectors are L2-normalized (or zero), so that cosines are dot products.
    """

    ndim = 2
    dtype = np.dtype(np.float32)

    def __init__(
        self,
        shards: list[Location],
        lines: list[int],
        dimension: int,
        unit: bool = False,
        manifest: tuple[Location, dict[str, Any]] | None = None,
    ) -> None:
        self._shards = shards
        self._manifest = manifest  # and its size and time, by which a later one is noticed
        self._starts = np.cumsum([0, *lines])
        self.shape = (int(self._starts[-1]), dimension)
        self.unit = unit
        self._open: dict[int, Vectors] = {}

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice | SupportsIndex | Sequence[int] | NDArray[Any]) -> Vectors:
        if isinstance(rows, slice):
            return self._neighbors(rows)
        numbers = np.asarray(rows)
        if numbers.size == 0:  # an empty list has no type
            numbers = numbers.astype(np.int64)
        # a tuple would choose rows and columns in an array
        if isinstance(rows, tuple) or numbers.ndim > 1 or numbers.dtype.kind not in "iu":
            raise IndexError("rows are chosen by a number, a list of numbers, or a slice.")
        count = len(self)
        outside = (numbers < -count) | (numbers >= count)
        if outside.any():
            first = numbers[outside].flat[0]
            raise IndexError(f"there is no row {first}: the folder has {count} vectors.")
        vectors = self.take(np.atleast_1d(numbers).astype(np.int64) % count)
        if numbers.ndim == 0:
            row: Vectors = vectors[0]
            return row
        return vectors

    def _neighbors(self, rows: slice) -> Vectors:
        """The vectors of neighboring rows."""
        start, stop, step = rows.indices(len(self))
        if step != 1:
            raise ValueError("shards are read by neighboring rows: vectors[start:stop].")
        first = int(np.searchsorted(self._starts, start, "right")) - 1
        last = int(np.searchsorted(self._starts, stop))
        parts = [
            self._shard(number)[max(start - begin, 0) : stop - begin]
            for number, begin in enumerate(self._starts[first:last].tolist(), first)
        ]
        if len(parts) == 1:
            return parts[0]
        return np.concatenate([np.empty((0, self.shape[1]), np.float32), *parts])

    def take(self, rows: NDArray[np.int64]) -> Vectors:
        """Return the vectors of rows in any order, (len(rows), D). Each shard is opened once."""
        result = np.empty((len(rows), self.shape[1]), np.float32)
        shards = np.searchsorted(self._starts, rows, "right") - 1
        for number in np.unique(shards).tolist():
            places = np.flatnonzero(shards == number)
            result[places] = self._shard(number)[rows[places] - self._starts[number]]
        return result

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Vectors:
        """All of them in memory."""
        return self[:].astype(dtype or np.float32)

    def _shard(self, number: int) -> Vectors:
        if number not in self._open:
            if self._manifest is not None and self._manifest[0].files() != self._manifest[1]:
                raise ValueError(
                    f"{self._shards[number]} has been updated or removed since its folder was "
                    "opened: open the folder again."
                )
            vectors = open_vector_file(self._shards[number])
            rows = int(self._starts[number + 1] - self._starts[number])
            if vectors.shape != (rows, self.shape[1]):
                raise ValueError(
                    f"{self._shards[number]} should hold {rows} vectors: run minibert embed again."
                )
            is_in_memory = not isinstance(vectors, np.memmap)
            if is_in_memory or len(self._open) == MAX_OPEN:
                self._open.clear()
            self._open[number] = vectors
        return self._open[number]


def open_vectors(path: str | os.PathLike[str]) -> Vectors | ShardedVectors:
    """Open the vectors of a file or folder that `minibert embed` wrote.

    The shards of a folder are compared with its manifest by their sizes alone, because hashing them
    would read all of them. `minibert embed` compares their hashes when it resumes or updates.

    Args:
        path: Path or URI of a file in one of `minibert.text.formats.VECTOR_FORMATS` (.npy,
            .safetensors, .jsonl, .parquet, .arrow), or of the folder of `--output DIR/` or
            `encode_to_shards`.

    Returns:
        The vectors (N, D), in the order of the texts. Those of a URI are read into memory.

    Raises:
        FileNotFoundError: The file does not exist, or a shard is missing.
        ValueError: The run of a folder has not finished, a shard has another size than it was
            written with, or a file does not hold vectors.
    """
    vectors, _ = _opened(Location(path))
    return vectors


def _opened(location: Location) -> tuple[Vectors | ShardedVectors, VectorFolder | None]:
    """The vectors, and their folder if they lie in one."""
    if not _is_folder(location):
        return open_vector_file(location), None
    folder = VectorFolder(location)
    vectors = folder.vectors()
    folder.check_files()
    return vectors, folder


def open_checked_vectors(
    path: str | os.PathLike[str], embedder: TextEncoder, texts: Sequence[str], prompt: str = ""
) -> Vectors | ShardedVectors:
    """Open vectors and check that they are those of these texts by this embedder.

    The manifest of a folder is compared with all texts and with the embedder: its model, tokenizer,
    precision, pooling, layers, steps after pooling, prompt, and, unless similarities are cosines,
    L2 normalization. `max_length` and `overflow` are not compared, because they may differ between
    documents and queries. Nor is `truncate_dim`: a search refuses vectors of another dimension.

    A file has no manifest: the vectors of some texts are computed again, and a change of other
    texts is not noticed. Texts that are too long for the embedder are passed over, as far as there
    are others.

    Args:
        path: File or folder, as in `minibert.open_vectors`.
        embedder: The embedder that encodes the queries.
        texts: The texts of the vectors, in order.
        prompt: Prompt of the texts.

    Returns:
        The vectors, as `minibert.open_vectors` returns them.

    Raises:
        FileNotFoundError: As `minibert.open_vectors`.
        ValueError: The vectors are those of another model, pooling or prompt, or of other texts, or
            their number is not that of the texts.
    """
    location = Location(path)
    vectors, folder = _opened(location)
    if len(vectors) != len(texts):
        advice = "make the vectors again by minibert embed"
        if folder is not None:
            advice = "bring the folder up to date by minibert embed --update"
        raise ValueError(
            f"{location} has {amount(len(vectors), 'vector')}, but the corpus has "
            f"{amount(len(texts), 'text')}: {advice}."
        )
    if folder is not None:
        folder.check(embedder, texts, prompt)
    else:
        _check_samples(location, vectors, embedder, texts, prompt)
    return vectors


def _read_manifest(folder: Location) -> dict[str, Any]:
    """The manifest of a folder: nothing where there is none.

    Raises:
        ValueError: It is damaged.
    """
    try:
        manifest = (folder / MANIFEST).read_json()
        try:
            _check_manifest(manifest)
        except ValueError as error:
            raise ValueError(f"{folder / MANIFEST} {error}.") from None
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except ValueError as error:
        raise ValueError(f"{error} It is damaged: give another folder.") from None
    return manifest


def _check_manifest(manifest: dict[str, Any]) -> None:
    """Raise a ValueError for a manifest that cannot be one, because it was damaged or made up."""
    _check_entry(manifest, "model", str)
    if _check_entry(manifest, "file_format", str) not in SHARD_FORMATS:
        raise ValueError(f"has the file_format {manifest['file_format']!r:.80}")
    if "shard_size" in manifest:
        _check_entry(manifest, "shard_size", int)
    if "shards" not in manifest:  # of a run that has not finished
        return
    _check_entry(manifest, "dimension", int)
    _check_entry(manifest, "unit", bool)
    for record in _check_entry(manifest, "shards", list):
        if not isinstance(record, dict):
            raise ValueError(f"has {record!r:.80} for a shard")
        _check_record(record)
    if manifest.get("lines") != sum(record["lines"] for record in manifest["shards"]):
        raise ValueError(f"has {manifest.get('lines')!r:.80} lines, but its shards have others")


def _check_record(record: ShardRecord) -> None:
    """Raise a ValueError for a record that cannot be that of a shard."""
    lines = _check_entry(record, "lines", int)
    for name in ("tokens", "overlong", "bytes"):
        _check_entry(record, name, int, minimum=0)
    _check_entry(record, "sha256", str)
    try:
        digests = base64.b64decode(_check_entry(record, "texts", str), validate=True)
    except binascii.Error:
        digests = b""
    if len(digests) != lines * DIGEST_BYTES:
        raise ValueError(f"has a shard of {lines} lines without the digests of as many texts")


def _check_entry(entries: dict[str, Any], name: str, kind: type, minimum: int = 1) -> Any:
    """Return an entry of a manifest. One of another type, or out of range, is a ValueError."""
    if name not in entries:
        raise ValueError(f"does not have {name}")
    value = entries[name]
    is_valid = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
    if is_valid and kind is int:
        is_valid = minimum <= value < 2**63
    if not is_valid:
        raise ValueError(f"has {name} {value!r:.80}")
    return value


def _is_folder(location: Location) -> bool:
    if location.fs is None:
        return os.path.isdir(location.path)
    files = location.files()
    return "" not in files and bool(files)


def _check_same_run(folder: Location, settings: dict[str, Any], earlier: dict[str, Any]) -> None:
    """Raise ValueError if a folder was begun with other settings or another model."""
    begun, model_name = earlier.get("model_name"), settings["model_name"]
    is_other_model = earlier["model"] != settings["model"]
    if is_other_model and begun and model_name and begun != model_name:
        # a model of another depth has other layers: its name explains more than they do
        raise ValueError(
            f"{folder} was begun with {begun}, not {model_name}: use the same model to resume, or "
            "another folder."
        )
    names = [name for name in settings if name not in ("model", "model_name")]
    # weights differ with the precision, too, so settings are named before the model
    difference = _difference(earlier, settings, names)
    if difference:
        raise ValueError(
            f"{folder} was begun with {difference}: use the same settings to resume, give another "
            "folder, or delete this one."
        )
    if is_other_model:
        begun = begun or "another model or tokenizer"
        if begun == model_name:
            begun = f"other weights or another tokenizer than {model_name} has now"
        raise ValueError(f"{folder} was begun with {begun}. Give another folder.")


def _difference(recorded: dict[str, Any], current: dict[str, Any], names: Iterable[str]) -> str:
    """The first of these settings that differs, with both values, or "" if all are equal."""
    for name in names:
        if recorded.get(name) != current[name]:
            return f"{name} {recorded.get(name)!r:.80}, not {current[name]!r}"
    return ""


def _model_digest(embedder: TextEncoder, config: str) -> str:
    digest = tokenizer_digest(embedder.tokenizer)
    digest.update(config.encode())
    for part in embedder.weights():
        digest.update(part)
    return digest.hexdigest()


def _config_of_encoder(config: BertConfig) -> str:
    """The fields of a config that the encoder computes with, and not those that describe it.

    A class or an attention function of one's own may use any field.
    """
    if type(config) is not BertConfig or config.own_attention is not None:
        return config.to_json_string()
    return json.dumps({name: getattr(config, name) for name in CONFIG_OF_ENCODER})


def _with_current_digest(
    manifest: dict[str, Any], embedder: TextEncoder, current: dict[str, Any]
) -> dict[str, Any]:
    """A manifest whose model is this embedder's by the digest of earlier versions, with today's.

    That was of the whole config, with the fields that no vector depends on.
    """
    model = manifest.get("model")
    if model in (None, current["model"]):
        return manifest
    if model == _model_digest(embedder, embedder.model.config.to_json_string()):
        return {**manifest, "model": current["model"]}
    return manifest


def vector_settings(embedder: TextEncoder, settings: Settings) -> dict[str, Any]:
    """Return everything that vectors depend on besides their text."""
    return {
        "normalize_embeddings": settings.normalize,
        "truncate_dim": settings.truncate_dim,
        "prompt": settings.prompt,
        "overflow": settings.overflow,
        "batch_tokens": settings.batch_tokens,
        "model": _model_digest(embedder, _config_of_encoder(embedder.model.config)),
        "precision": embedder.precision,
        "pooling": embedder.pooling,
        "layers": embedder.layers,
        "layer_weights": embedder.layer_weights,
        "steps": [str(step) for step in embedder.steps],
        "max_length": embedder.max_length,
        "include_prompt": embedder.include_prompt,
        "truncation_side": embedder.tokenizer.truncation_side,
    }


def _without_normalization(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings without the L2 normalization, which does not change a cosine.

    One before a Dense does, but the names of its weights, and so "model", differ then, too.
    """
    steps = [step for step in settings.get("steps", []) if step != "Normalize()"]
    return {**settings, "normalize_embeddings": False, "steps": steps}


def _check_settings(
    folder: Location,
    recorded: dict[str, Any],
    current: dict[str, Any],
    recorded_dimension: int,
    dimension: int,
) -> None:
    names = ("precision", "pooling", "layers", "layer_weights", "include_prompt", "steps", "prompt")
    # the operators of fp32 differ from those of transformers in the last bits alone
    recorded, current = (
        {
            **settings,
            "precision": settings.get("precision") or "fp32",
            # it shows in the dimension, and a call can truncate, too
            "steps": [step for step in settings.get("steps", []) if step != "Truncate()"],
        }
        for settings in (recorded, current)
    )
    difference = _difference(recorded, current, (*names, "normalize_embeddings"))
    # weights also differ with the precision, which is then the better explanation
    if recorded.get("model") != current["model"] and not difference.startswith("precision"):
        # a model of another depth has other layers, and one whose pooler is not used has none
        details = ""
        if difference:
            details = f", or with {difference}"
        raise ValueError(
            f"{folder} was made by another model or tokenizer{details}: search it with the one "
            "that made it."
        )
    if recorded_dimension != dimension and not difference:
        raise ValueError(
            Message(
                f"{folder} has vectors of {recorded_dimension} dimensions, not {dimension}: pass ",
                Argument("truncate_dim", recorded_dimension),
                ", or make it again.",
            )
        )
    if difference:
        name, _, _ = difference.partition(" ")
        same = Message("search it with the same")
        if name in OPTION_OF_SETTING and recorded.get(name) is not None:
            same = Message("pass ", Argument(OPTION_OF_SETTING[name], recorded[name]))
        raise ValueError(
            Message(f"{folder} was made with {difference}: ", same, ", or make it again.")
        )


def _check_samples(
    location: Location,
    vectors: Vectors | ShardedVectors,
    embedder: TextEncoder,
    texts: Sequence[str],
    prompt: str,
) -> None:
    not_blank = [number for number, text in enumerate(texts) if text.strip()]
    samples = not_blank[:: max(1, len(not_blank) // SAMPLES)][:SAMPLES]
    settings = embedder.settings(prompt=prompt)
    rows = embedder.rows([texts[number] for number in samples], settings)
    expected = embedder.encode_rows(rows, settings)
    if vectors.shape[1] != expected.shape[1]:
        truncated: str | Message = ""
        if vectors.shape[1] < expected.shape[1]:
            truncate_dim = Argument("truncate_dim", vectors.shape[1])
            truncated = Message(" If they were truncated, pass ", truncate_dim, ".")
        raise ValueError(
            Message(
                f"{location} was made by another model or with another pooling: its vectors have "
                f"{vectors.shape[1]} dimensions, not {expected.shape[1]}.",
                truncated,
            )
        )
    names = Message("pooling or prompt (", Argument("document_prompt", ...), ")")
    # long texts may have been truncated elsewhere, or averaged over windows
    passed_over = rows.truncated
    if len(passed_over) == len(samples):
        passed_over = []
        names = Message("pooling, prompt, ", Argument("max_length"), " or ", Argument("overflow"))
    for index, (number, vector) in enumerate(zip(samples, expected, strict=True)):
        if index in passed_over:
            continue
        cosine = pairwise_similarity(vectors[number], vector).item()
        if not cosine >= SAME:  # a vector that is not finite has no cosine
            raise ValueError(
                Message(
                    f"{location} was made by another model, with another ",
                    names,
                    f", or from other texts: vector {number + 1} has a cosine of {cosine:.2f} with "
                    "that of its text. Make it anew by minibert embed.",
                )
            )
        lengths = [float(np.linalg.norm(one)) for one in (vectors[number], vector)]
        if embedder.similarity_fn_name != "cosine" and min(lengths) < SAME * max(lengths):
            raise ValueError(
                f"{location} was made with another L2 normalization: vector {number + 1} has a "
                f"length of {lengths[0]:.2f}, not {lengths[1]:.2f}. Make it anew by minibert embed."
            )


def sha256_of_file(path: Path) -> str:
    """Return the hash of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def text_digest(text: str) -> bytes:
    """Return a digest of a text."""
    data = text.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(data, digest_size=DIGEST_BYTES).digest()


def _digests_of(entries: Sequence[Entry]) -> dict[str, str | None]:
    """The digests of texts, and one of all ids if there are any, as a manifest keeps them."""
    digests = b"".join(text_digest(entry.text) for entry in entries)
    ids = [entry.id for entry in entries]
    digest = None
    if any(text_id is not None for text_id in ids):
        digest = hashlib.sha256(json.dumps(ids).encode("utf-8", "surrogatepass")).hexdigest()
    return {"texts": base64.b64encode(digests).decode("ascii"), "ids": digest}
