"""The model and settings behind vectors, recorded with shards and checked before these are used."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from minibert.corpus.formats import open_vector_file
from minibert.corpus.location import Location
from minibert.encoders.encode import TextEncoder
from minibert.encoders.search import pairwise_similarity
from minibert.encoders.token_rows import Settings
from minibert.tokenization.files import tokenizer_digest

# Number of vectors of a file that are computed again for a check, and the cosine from which on they
# are the same. Vectors of one model in int8 and float32 have more, those of two poolings less.
SAMPLES = 8
SAME = 0.95

DIGEST_BYTES = 12

# settings of a folder that stand in its manifest only where they are set
SHAPES = frozenset(("normalize_embeddings", "truncate_dim"))


def metadata(folder: Location, name: str, file_format: str = "parquet") -> Location:
    """Return the place of a file about vectors, such as "index.json", in their folder.

    In folders of parquet its name begins with an underscore, so that readers of such folders ignore
    it (`pandas.read_parquet(folder)`). Folders of earlier versions have it without the underscore.

    Args:
        folder: The folder of shards.
        name: Name of the file.
        file_format: Format of the shards. The default also finds the file of another format.
    """
    plain = folder / name
    if file_format != "parquet" or plain.files():
        return plain
    return folder / f"_{name}"


def check_manifest(
    folder: Location, settings: dict[str, Any], model_name: str | None = None
) -> None:
    """Write the settings of a new folder, or compare them with those of its first run.

    Args:
        folder: The folder of shards.
        settings: The settings of `describe`, and the format and size of the shards.
        model_name: Where the model was loaded from, for the error. It may be another place, as long
            as the weights are the same.

    Raises:
        ValueError: The folder was begun with another model or other settings, or its manifest is
            damaged.
    """
    manifest = metadata(folder, "manifest.json", settings["file_format"])
    try:
        earlier = manifest.read_json()
        missing = settings.keys() - earlier.keys() - SHAPES
        if missing:
            raise ValueError(f"{manifest} does not say {min(missing)}.")
    except FileNotFoundError:
        manifest.write_json({**settings, "model_name": model_name})
        return
    except ValueError as error:
        raise ValueError(
            f"{error} It is damaged: give another folder, or delete it to resume here with the "
            "same model and settings."
        ) from None
    _check_same_run(folder, settings, earlier, model_name)


def _check_same_run(
    folder: Location, settings: dict[str, Any], earlier: dict[str, Any], model_name: str | None
) -> None:
    """Raise ValueError if a folder was begun with other settings or another model."""
    begun = earlier.get("model_name")
    is_other_model = earlier["model"] != settings["model"]
    if is_other_model and begun and model_name and begun != model_name:
        # a model of another depth has other layers: its name explains more than they do
        raise ValueError(
            f"{folder} was begun with {begun}, not {model_name}: use the same model to resume, or "
            "another folder."
        )
    # weights differ with the precision, too, so settings are named before the model
    absent = {name: None for name in SHAPES if name not in settings}
    current = {**settings, **absent}
    difference = _difference(earlier, current, [name for name in current if name != "model"])
    if difference:
        raise ValueError(
            f"{folder} was begun with {difference}: use the same settings to resume, or another "
            "folder."
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


def describe(embedder: TextEncoder, settings: Settings) -> dict[str, Any]:
    """Return everything that vectors depend on besides their text."""
    digest = tokenizer_digest(embedder.tokenizer)
    digest.update(embedder.model.config.to_json_string().encode())
    for part in embedder.weights():
        digest.update(part)
    # only where they are set: the folders of 0.1 do not have them
    shapes: dict[str, Any] = {}
    if settings.normalize:
        shapes["normalize_embeddings"] = True
    if settings.truncate_dim is not None:
        shapes["truncate_dim"] = settings.truncate_dim
    return {
        **shapes,
        "prompt": settings.prompt,
        "overflow": settings.overflow,
        "batch_tokens": settings.batch_tokens,
        "model": digest.hexdigest(),
        "precision": embedder.precision,
        "pooling": embedder.pooling,
        "layers": embedder.layers,
        "layer_weights": embedder.layer_weights,
        "steps": [str(step) for step in embedder.steps],
        "max_length": embedder.max_length,
        "include_prompt": embedder.include_prompt,
        "truncation_side": embedder.tokenizer.truncation_side,
    }


def check_corpus(
    path: str | Path, embedder: TextEncoder, texts: Sequence[str], prompt: str = ""
) -> None:
    """Check that vectors are those of these texts by this embedder, before a search uses them.

    The manifest of a folder of shards is compared with the embedder. A file has no manifest: the
    vectors of some texts are computed again, and a change of other texts is not noticed.

    Args:
        path: File or folder, as in `minibert.open_vectors`.
        embedder: The embedder that encodes the queries.
        texts: The texts of the vectors, in order.
        prompt: Prompt of the texts.

    Raises:
        ValueError: The vectors are those of another model, pooling or prompt, or of other texts.
    """
    path = Path(path)
    if not path.is_dir():
        return _check_samples(path, embedder, texts, prompt)
    recorded = metadata(Location(path), "manifest.json").read_json()
    current = describe(embedder, embedder.settings(prompt=prompt))
    _check_settings(path, _comparable(recorded), _comparable(current))
    _check_texts(path, texts)


def _comparable(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings without the L2 normalization, which does not change a cosine."""
    steps = [step for step in settings.get("steps", []) if step != "Normalize()"]
    return {**settings, "precision": settings.get("precision") or "fp32", "steps": steps}


def _check_settings(path: Path, recorded: dict[str, Any], current: dict[str, Any]) -> None:
    names = ("precision", "pooling", "layers", "layer_weights", "include_prompt", "steps", "prompt")
    difference = _difference(recorded, current, names)
    # weights also differ with the precision, which is then the better explanation
    if recorded.get("model") != current["model"] and not difference.startswith("precision"):
        # a model of another depth has other layers, and one whose pooler is not used has none
        details = ""
        if difference:
            details = f", or with {difference}"
        raise ValueError(
            f"{path} was made by another model or tokenizer{details}: search it with the one that "
            "made it."
        )
    if difference:
        raise ValueError(
            f"{path} was made with {difference}: search it with the same, or make it again."
        )


def _check_texts(path: Path, texts: Sequence[str]) -> None:
    start = 0
    for number in count():
        record = read_record(metadata(Location(path), f"shard-{number:06d}.json"))
        if record is None or start >= len(texts):
            return
        shard = texts[start : start + record["lines"]]
        changed = _changed_text(record, shard)
        if changed is not None:
            raise ValueError(
                f"{path} was made from other texts: text {start + changed + 1} has been changed "
                "since. Bring it up to date by minibert embed --update."
            )
        start += len(shard)


def _changed_text(record: dict[str, Any], texts: Sequence[str]) -> int | None:
    """The index of the first text of a shard that is another than in its record.

    Ids do not count: vectors do not depend on them.
    """
    if "texts" not in record:  # a folder of an earlier version
        return None if digest_of(texts) == record["texts_sha256"] else 0
    recorded = base64.b64decode(record["texts"])
    for index, text in enumerate(texts):
        start = index * DIGEST_BYTES
        if text_digest(text) != recorded[start : start + DIGEST_BYTES]:
            return index
    return None


def _check_samples(path: Path, embedder: TextEncoder, texts: Sequence[str], prompt: str) -> None:
    not_blank = [number for number, text in enumerate(texts) if text.strip()]
    samples = not_blank[:: max(1, len(not_blank) // SAMPLES)][:SAMPLES]
    vectors = open_vector_file(path)
    expected = embedder.encode([texts[number] for number in samples], prompt=prompt)
    if vectors.shape[1] != expected.shape[1]:
        raise ValueError(
            f"{path} was made by another model or with another pooling: its vectors have "
            f"{vectors.shape[1]} dimensions, not {expected.shape[1]}."
        )
    for number, vector in zip(samples, expected, strict=True):
        cosine = pairwise_similarity(vectors[number], vector).item()
        if cosine < SAME:
            raise ValueError(
                f"{path} was made by another model, with another pooling or prompt, or from other "
                f"texts: vector {number + 1} has a cosine of {cosine:.2f} with that of its text. "
                "Make it anew by minibert embed."
            )


def read_record(path: Location) -> dict[str, Any] | None:
    """Return the record of a finished shard, or None where it is missing or damaged."""
    try:
        record = path.read_json()
    except (FileNotFoundError, ValueError):
        return None
    if record.pop("record_sha256", None) != sha256_of_json(record):
        return None
    return record


def sha256_of_json(content: dict[str, Any]) -> str:
    """Return the hash of an object, which does not depend on the order of its names."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def sha256_of_file(path: Path) -> str:
    """Return the hash of a file's bytes."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while part := file.read(1 << 20):
            digest.update(part)
    return digest.hexdigest()


def digest_of(texts: Sequence[str]) -> str:
    """Return the hash of texts and of their ids."""
    digest = hashlib.sha256()
    for text in texts:
        data = text.encode("utf-8", "surrogatepass")
        text_id = getattr(text, "id", None)
        if text_id is not None:
            data += f"\0{text_id!r}".encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()


def text_digest(text: str) -> bytes:
    """Return a digest of a text, without its id."""
    data = text.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(data, digest_size=DIGEST_BYTES).digest()


def pack_digests(texts: Sequence[str]) -> str:
    """Return the digests of texts as the record of a shard keeps them."""
    return base64.b64encode(b"".join(map(text_digest, texts))).decode("ascii")
