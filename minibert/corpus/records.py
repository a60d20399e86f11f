"""The model and settings behind vectors: recorded beside shards, and checked before these are added to or searched."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from minibert.corpus.formats import open_vector_file
from minibert.corpus.location import Location
from minibert.sentences.encode import TextEncoder
from minibert.sentences.rows import Settings
from minibert.sentences.search import pairwise_similarity
from minibert.tokenization.files import tokenizer_digest

# how many vectors of a file are made again to see whether they are those of its texts, and from
# which cosine on they are: vectors in int8 and float32 of one model have more, those of two
# poolings less
SAMPLES = 8
SAME = 0.95


def metadata(folder: Location, name: str, file_format: str = "parquet") -> Location:
    """Return the place of a file about vectors, such as "index.json", in their folder.

    Beside parquet its name begins with an underscore, so that readers of such folders pass it over
    (`pandas.read_parquet(folder)`). Folders of earlier versions have it without.

    Args:
        folder: The folder of shards.
        name: Name of the file.
        file_format: Format of the shards, where it is known; otherwise what exists is found.
    """
    plain = folder / name
    if file_format != "parquet" or plain.files():
        return plain
    return folder / f"_{name}"


def check_manifest(
    folder: Location, settings: dict[str, Any], model_name: str | None = None
) -> None:
    """Write the settings of a new folder, or compare them with those that it was begun with.

    Args:
        folder: The folder of shards.
        settings: What `describe` returns, and the format and size of the shards.
        model_name: Where the model was loaded from, for the error. It may be another place, as long
            as the weights are the same.

    Raises:
        ValueError: The folder was begun with another model or other settings, or its manifest is
            damaged.
    """
    manifest = metadata(folder, "manifest.json", settings["file_format"])
    try:
        earlier = manifest.read_json()
        missing = settings.keys() - earlier.keys()
        if missing:
            raise ValueError(f"{manifest} does not say {min(missing)}.")
    except FileNotFoundError:
        manifest.write_json({**settings, "model_name": model_name})
        return
    except ValueError as error:
        raise ValueError(
            f"{error} It is damaged: give another folder; or delete it to go on here, with the "
            "same model and settings."
        ) from None
    # weights differ with the precision, too, so the model is named last
    difference = _difference(earlier, settings, [name for name in settings if name != "model"])
    if difference:
        raise ValueError(
            f"{folder} was begun with {difference}: use the same settings to go on, or another "
            "folder."
        )
    if earlier["model"] != settings["model"]:
        begun = earlier.get("model_name") or "another model or tokenizer"
        if begun == model_name:
            begun = f"other weights or another tokenizer than {model_name} has now"
        raise ValueError(f"{folder} was begun with {begun}; give another folder.")


def _difference(made: dict[str, Any], own: dict[str, Any], names: Iterable[str]) -> str:
    """The first of these settings that differs, as it was and as it is; or nothing."""
    differ = (name for name in names if made.get(name) != own[name])
    return next((f"{name} {made.get(name)!r:.80}, not {own[name]!r}" for name in differ), "")


def describe(embedder: TextEncoder, settings: Settings) -> dict[str, Any]:
    """Everything that vectors depend on besides their text."""
    digest = tokenizer_digest(embedder.tokenizer)
    digest.update(embedder.model.config.to_json_string().encode())
    for part in embedder.weights():
        digest.update(part)
    return {
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
    """Refuses vectors that are not those of these texts by this embedder, because a search would answer from them.

    A folder of shards knows what made it. Of a file, the vectors of some texts are made again and
    compared; a text that has changed among others goes unnoticed there.

    Args:
        path: what `minibert.open_vectors` opens.
        embedder: what the queries are encoded with.
        texts: whose vectors they should be, in order.
        prompt: that the embedder puts before them.

    Raises:
        ValueError: they were made by another model, with another pooling or prompt, or from other
            texts.
    """
    path = Path(path)
    if not path.is_dir():
        return _check_samples(path, embedder, texts, prompt)
    own = describe(embedder, embedder.settings(prompt=prompt))
    about = metadata(Location(path), "manifest.json").read_json()
    for made in (about, own):
        made["precision"] = made.get("precision") or "fp32"
        # cosines do not depend on lengths
        made["steps"] = [step for step in made.get("steps", []) if step != "Normalize()"]
    names = ("precision", "pooling", "layers", "layer_weights", "include_prompt", "steps", "prompt")
    other = _difference(about, own, names)
    # a model of another depth has other layers, and one whose pooler is not used has none
    if about.get("model") != own["model"] and not other.startswith("precision"):
        other = f", or with {other}" if other else ""
        raise ValueError(
            f"{path} was made by another model or tokenizer{other}: search it with the one that made it."
        )
    if other:
        raise ValueError(f"{path} was made with {other}: search it with the same, or make it anew.")
    start = 0
    for number in count():
        record = read_record(metadata(Location(path), f"shard-{number:06d}.json"))
        if record is None or start >= len(texts):
            return
        shard = texts[start : start + record["lines"]]
        if digest_of(shard) != record["texts_sha256"]:
            changed = (
                f"of those from {start + 1} to {start + len(shard)} some have been changed since"
            )
            raise ValueError(
                f"{path} was made from other texts: {changed}. Make it anew by minibert embed."
            )
        start += len(shard)


def _check_samples(path: Path, embedder: TextEncoder, texts: Sequence[str], prompt: str) -> None:
    filled = [number for number, text in enumerate(texts) if text.strip()]
    some = filled[:: max(1, len(filled) // SAMPLES)][:SAMPLES]
    vectors, made = (
        open_vector_file(path),
        embedder.encode([texts[number] for number in some], prompt=prompt),
    )
    if vectors.shape[1] != made.shape[1]:
        sizes = f"they have {vectors.shape[1]} numbers, not {made.shape[1]}"
        raise ValueError(f"{path} was made by another model or with another pooling: {sizes}.")
    for number, vector in zip(some, made, strict=True):
        if (cosine := pairwise_similarity(vectors[number], vector).item()) < SAME:
            raise ValueError(
                f"{path} was made by another model, with another pooling or prompt, or from other texts: vector "
                f"{number + 1} has a cosine of {cosine:.2f} with that of its text. Make it anew by minibert embed."
            )


def read_record(path: Location) -> dict[str, Any] | None:
    """The record of a finished shard; None where there is none, or none that is as it was written."""
    try:
        record = path.read_json()
    except (FileNotFoundError, ValueError):
        return None
    return record if record.pop("record_sha256", None) == sha256_of_json(record) else None


def sha256_of_json(content: dict[str, Any]) -> str:
    """The hash of an object, whatever the order of its names."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def sha256_of_file(path: Path) -> str:
    """The hash of a file's bytes."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while part := file.read(1 << 20):
            digest.update(part)
    return digest.hexdigest()


def digest_of(texts: Sequence[str]) -> str:
    """The hash of texts, and of their ids."""
    digest = hashlib.sha256()
    for text in texts:
        data = text.encode("utf-8", "surrogatepass")
        if (own := getattr(text, "id", None)) is not None:
            data += f"\0{own!r}".encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()
