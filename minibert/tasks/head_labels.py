"""The labels of a classifier, and a head with those of a file: the checkpoint's, or a new one."""

from __future__ import annotations

import math
import os
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch

from minibert.base import PreTrainedModel
from minibert.checkpoints.loading import build, split_model_options
from minibert.checkpoints.source import Source
from minibert.config import BertConfig
from minibert.encoders.arithmetic.scoring import label_names, problem_type
from minibert.encoders.folders.checkpoint import Checkpoint
from minibert.encoders.folders.reading import KEY
from minibert.initialization import without_values
from minibert.util.checks import amount
from minibert.util.progress import tell

OF_FORMER_TRAINING = (KEY, "sentence_transformers", "sbert_ce_default_activation_function")
"""Keys of config.json that are about the task that a checkpoint was trained for before."""
HEADS = ("classifier.", "qa_outputs.")
"""How the names of a fine-tuned head's tensors begin, but for classes of a user's own."""


def load_with_labels(
    model_class: type[PreTrainedModel],
    checkpoint: str | os.PathLike[str] | Source,
    fields: Mapping[str, Any],
) -> PreTrainedModel:
    """Load a checkpoint to train it on the labels of a file.

    A head that has the labels keeps them and their order, so that what it has learned stays.
    Another head is replaced by a new one, which is reported. Of a class of a user's own, only the
    tensors are new whose shape depends on the labels.

    Args:
        model_class: The class with the head of the task.
        checkpoint: Folder, bundled model or Hub id.
        fields: Fields of the config: `id2label` or `num_labels`, `problem_type`, and what the task
            keeps in `extra`.
    """
    source = Source.of(checkpoint)
    files = Checkpoint(source, is_bare=True)
    tensors = files.tensors
    architectures = files.architectures

    def load(**changes: Any) -> PreTrainedModel:
        model = model_class.from_pretrained(source, dtype=torch.float32, **changes)
        for key in OF_FORMER_TRAINING:
            if key not in fields.get("extra", {}):
                model.config.extra.pop(key, None)
        return model

    is_same_class = architectures == [model_class.__name__]  # also a class of a user's own
    head = {name for name in tensors if name.startswith(HEADS)}
    encoder = {name for name in tensors if name.startswith(f"{model_class.base_model_prefix}.")}
    if is_same_class and encoder:
        head = tensors.keys() - encoder
    if not head:
        return load(state_dict=tensors, **fields)
    # a classifier and a tagger have tensors of the same names, so the architecture decides
    if not architectures or is_same_class or files.model_class is model_class:
        kept = kept_labels(files.config, fields)
        if kept is not None:
            return load(state_dict=tensors, **kept)
        extended = _with_added_labels(files.config, fields)
        if extended is not None:
            names = shaped_by_labels(model_class, source, fields) & head
            others = {name: tensor for name, tensor in tensors.items() if name not in names}
            model = load(state_dict=others, **extended)
            _copy_known_rows(model, {name: tensors[name] for name in names})
            count = files.config.num_labels
            added = list(extended["id2label"].values())[count:]
            tell(
                f"the head keeps the {amount(count, 'label')} of {source}, and is new for "
                f"{first_names(added)}"
            )
            return model
    new = head
    if is_same_class:
        new = head & shaped_by_labels(model_class, source, fields) or head
    _report_new_head(source, architectures, files.config, fields, new if new < head else ())
    others = {name: tensor for name, tensor in tensors.items() if name not in new}
    return load(state_dict=others, **fields)


def shaped_by_labels(
    model_class: type[PreTrainedModel], source: Source, fields: Mapping[str, Any]
) -> set[str]:
    """The names of the tensors of a class whose shape depends on the number of labels.

    Args:
        model_class: The class.
        source: Where its config is.
        fields: Fields of the config that differ.
    """
    options, changes = split_model_options(model_class, (), fields)
    config = model_class.config_class.from_pretrained(source, **changes)
    shapes = []
    for count in (config.num_labels, config.num_labels + 1):
        with torch.random.fork_rng(devices=()), without_values():
            model = build(model_class, config.replace(num_labels=count), (), options)
        shapes.append({name: tensor.shape for name, tensor in model.state_dict().items()})
    return {name for name, shape in shapes[0].items() if shape != shapes[1].get(name)}


def kept_labels(config: BertConfig, fields: Mapping[str, Any]) -> dict[str, Any] | None:
    """The config fields with which a head fits the labels of a file, or None if it does not.

    A head fits if it has every label, and as many labels a text. The default names LABEL_0, LABEL_1
    and so on stand for the labels 0, 1 and so on.
    """
    problem = fields.get("problem_type")
    if problem is not None and problem != problem_type(config):
        return None
    if "id2label" not in fields:
        count = fields.get("num_labels", config.num_labels)
        return dict(fields) if count == config.num_labels else None
    names = label_names(config)
    if set(fields["id2label"].values()) <= label_ids(names).keys():
        if not set(fields["id2label"].values()) <= set(names):
            names = [str(index) for index in range(len(names))]
        return {**fields, "id2label": dict(enumerate(names))}
    return None


def sorted_labels(labels: Iterable[str]) -> list[str]:
    """The distinct labels in alphabetical order, or in that of numbers if all are numbers."""
    distinct = sorted(set(labels))
    try:
        numbers = {label: float(label) for label in distinct}
    except ValueError:
        return distinct
    if not all(map(math.isfinite, numbers.values())):
        return distinct
    return sorted(distinct, key=numbers.__getitem__)


def _with_added_labels(config: BertConfig, fields: Mapping[str, Any]) -> dict[str, Any] | None:
    """The config fields with which a head keeps its labels and gets further ones.

    None if the labels are of another kind, or unless more than half of the file's are known.
    """
    problem = fields.get("problem_type")
    if "id2label" not in fields or (problem is not None and problem != problem_type(config)):
        return None
    names = label_names(config)
    wanted = list(fields["id2label"].values())
    added = [label for label in wanted if label not in names]
    if 2 * len(added) >= len(wanted):
        return None
    return {**fields, "id2label": dict(enumerate([*names, *added]))}


@torch.no_grad()
def _copy_known_rows(model: PreTrainedModel, tensors: Mapping[str, torch.Tensor]) -> None:
    """Copy tensors of fewer labels into the first rows of those of a model."""
    parameters = model.state_dict()
    for name, tensor in tensors.items():
        parameters[name][: len(tensor)].copy_(tensor)


def label_ids(names: Sequence[str]) -> dict[str, int]:
    """The index of each label. The default names LABEL_0 and so on are 0 and so on, too."""
    ids = {name: index for index, name in enumerate(names)}
    if list(names) == [f"LABEL_{index}" for index in range(len(names))]:
        ids |= {str(index): index for index in range(len(names))}
    return ids


def unknown_labels(
    labels: Counter[str], known: Iterable[str], data: str, owner: str
) -> tuple[dict[str, int], str]:
    """The labels of data that their owner does not have.

    Args:
        labels: How often each label occurs in the data.
        known: The labels that their owner has.
        data: What the error and the notice call the data.
        owner: What they call a model, or the training data.

    Returns:
        How often each unknown label occurs, and a notice of them, or nothing.

    Raises:
        ValueError: None of the labels is known.
    """
    unknown = {label: labels[label] for label in sorted(labels.keys() - known)}
    if not unknown:
        return {}, ""
    listing = first_names(list(unknown))
    normal_forms = {unicodedata.normalize("NFC", label) for label in known}
    hint = ""
    if any(unicodedata.normalize("NFC", label) in normal_forms for label in unknown):
        hint = " Some differ in their Unicode form alone: normalize both to NFC."
    if len(unknown) == len(labels):
        raise ValueError(
            f"The labels of {data} ({listing}) are not among those of {owner} "
            f"({first_names(list(known))}). Name another column, or write the same names in both. "
            f"Those of a model are in id2label of its config.{hint}"
        )
    count = f"{sum(unknown.values()):,} of {labels.total():,}"
    notice = f"labels of {data} that {owner} lacks count as wrong: {listing}, {count}."
    return unknown, notice + hint


def _report_new_head(
    source: Source,
    architectures: Sequence[str],
    config: BertConfig,
    fields: Mapping[str, Any],
    names: Iterable[str],
) -> None:
    """Say why a head is new. `names` are its tensors, if others of the head are kept."""
    present = f"{', '.join(architectures)} with "
    present += amount(config.num_labels, "label")
    labels = label_names(config)
    if len(labels) > 1:
        present += f" ({first_names(labels)})"
    wanted = f"{fields.get('num_labels', 1)} number"
    if "id2label" in fields:
        wanted = f"the labels {first_names(list(fields['id2label'].values()))}"
    elif "num_labels" not in fields:
        wanted = "this task"
    part = f" ({first_names(sorted(names))})" if names else ""
    tell(f"the head is new{part}: that of {source} is a {present}, and does not fit {wanted}")


def first_names(names: Sequence[str]) -> str:
    """The first five names, with dots for the others."""
    shown = ", ".join(names[:5])
    return f"{shown}, ..." if len(names) > 5 else shown
