"""`from_pretrained` in named steps: from the name of a checkpoint to a model with its weights.

    resolve   the name becomes a `Source`, which finds files
    read      config.json and the tensors, memory-mapped
    build     the model, with own parts that have no values yet (see initialization.py)
    fill      the model:
      match     names of tensors with names in the model
      tie       tensors of several names: one value, or untied
      assign    the tensors become the model's
      draw      what the checkpoint lacks
      report    what was done with each tensor
    move      to a device

A slot is a parameter or buffer of the model, by its name: the place for a tensor of the file.
Names in the model equal the names in the official files, so no mapping table is needed. Two legacy
names change (`checkpoints.tensors.RENAMES`), and the prefix of the base model is added or removed.
"""

import copy
import inspect
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from minibert.checkpoints.configs import USUAL_SIZES, check_attention, count_parameters
from minibert.checkpoints.source import Source, split_source
from minibert.checkpoints.tensors import read_tensors, renamed
from minibert.checkpoints.ties import named_tensors, shared_names, untie
from minibert.compat.config_fields import REFUSED, field_names
from minibert.compat.config_methods import RENAMED, UNUSED
from minibert.compat.keywords import drop_unused, one_device, warn_of_code
from minibert.initialization import WORD_EMBEDDINGS, declared_ties, draw_missing, without_values
from minibert.util.checks import warn
from minibert.util.devices import resolve_device
from minibert.util.files import prefix_errors
from minibert.util.progress import collector_paused

HEAD_TENSORS = re.compile(
    r"(bert\.)?(cls|classifier|qa_outputs|pooler)\.|.*embeddings\.position_ids$"
)
"""Tensors that one class of BERT has and another rightly leaves out."""

BASE_MODEL_PARTS = ("embeddings.", "encoder.", "pooler.")
"""How names start in a checkpoint of `BertModel` alone, where the prefix `bert.` is absent."""

BACKBONE = re.compile(
    r"(bert\.)?("
    r"embeddings\.(word_embeddings|position_embeddings|token_type_embeddings|LayerNorm)|"
    r"encoder\.layer\.\d+\.(attention\.self\.(query|key|value)|intermediate\.dense|"
    r"(attention\.)?output\.(dense|LayerNorm)))\.(weight|bias)"
)
"""Tensors that every BERT has. What a user's class adds to a layer is none of them."""

OWN_MODULES = ("minibert.model", "minibert.heads")
"""The modules of minibert's own model classes."""

MAX_NEW = 50_000_000
"""A checkpoint that lacks more parameters than this, and ten times what it has, is refused."""

Mismatch = tuple[str, tuple[int, ...], tuple[int, ...]]
"""Name of a tensor, its shape in the file and its shape in the model."""


@dataclass
class LoadReport:
    """What loading did with each tensor, by its full name.

    Attributes:
        source: The name that was loaded.
        missing: Parameters and buffers of the model that the checkpoint lacks. They have initial
            values. Those of a model inside that was loaded by itself are not among them.
        mismatched: Tensors whose shape differs. They have initial values, too, because of
            `ignore_mismatched_sizes`.
        unexpected: Tensors of the checkpoint that the model has no place for.
        left_out: Tensors of a head that this class rightly does not have.
        renamed: (name in the file, name in the model) of each tensor whose name differs.
        untied: (name, other name) of tensors that the class ties but that differ in the file. Both
            are kept. If it is the decoder of words, the config of the model then has
            `tie_word_embeddings=False`.
    """

    source: str
    missing: list[str] = field(default_factory=list)
    mismatched: list[Mismatch] = field(default_factory=list)
    unexpected: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    renamed: list[tuple[str, str]] = field(default_factory=list)
    untied: list[tuple[str, str]] = field(default_factory=list)

    def as_loading_info(self) -> dict[str, Any]:
        """Return the report as `output_loading_info` of transformers has it."""
        return {
            "missing_keys": set(self.missing),
            "unexpected_keys": {*self.unexpected, *self.left_out},
            "mismatched_keys": set(self.mismatched),
            "error_msgs": [],
        }

    def problems(self, model_name: str) -> list[str]:
        """Return a sentence for everything that changes results.

        Args:
            model_name: Name of the class, for the sentences.
        """
        sentences = []
        heads = [name for name in self.missing if not BACKBONE.fullmatch(name)]
        if heads:
            sentences.append(
                f"{_listed(heads)} not in {self.source}, newly initialized: train before you use "
                "what depends on it."
            )
        backbone = [name for name in self.missing if BACKBONE.fullmatch(name)]
        if backbone:
            sentences.append(
                f"{_listed(backbone)} not in {self.source}, although part of every BERT, and newly "
                "initialized. The results are not those of the trained model. Is the checkpoint "
                "complete?"
            )
        if self.mismatched:
            shapes = [
                f"{name} (file {in_file}, model {in_model})"
                for name, in_file, in_model in self.mismatched
            ]
            sentences.append(
                f"{_listed(shapes)} of another shape in {self.source}, newly initialized."
            )
        if self.unexpected:
            sentences.append(
                f"{_listed(self.unexpected)} in {self.source}, but not in {model_name}, and not "
                "loaded."
            )
        for name, original in self.untied:
            if not original.endswith(WORD_EMBEDDINGS):
                continue  # no field of the config says whether they are tied
            sentences.append(
                f"{name} differs from {original} in {self.source}, although its config ties them. "
                "Each is kept. Pass tie_word_embeddings=False if that is right, or correct the "
                "file."
            )
        return [f"{model_name}: {sentence}" for sentence in sentences]


def _join(texts: list[str], separator: str = ", ", max_texts: int = 6) -> str:
    joined = separator.join(texts[:max_texts])
    if len(texts) > max_texts:
        joined += f" and {len(texts) - max_texts} more"
    return joined


def _listed(names: list[str]) -> str:
    verb = "is" if len(names) == 1 else "are"
    return f"{_join(names)} {verb}"


def load_model(
    model_class: Any,
    name: str | os.PathLike[str] | Source | None,
    arguments: Sequence[Any],
    config: Any,
    state_dict: Mapping[str, Tensor] | None,
    dtype: torch.dtype | str | None,
    mmap: bool,
    ignore_mismatched_sizes: bool,
    options: Mapping[str, Any],
) -> Any:
    """Return a new model with the tensors of a checkpoint, in eval mode, with a `load_report`.

    Args:
        model_class: A subclass of `PreTrainedModel`.
        name: As in `PreTrainedModel.from_pretrained`, like all that follow, and the errors.
        arguments: See `name`.
        config: See `name`.
        state_dict: See `name`.
        dtype: See `name`.
        mmap: See `name`.
        ignore_mismatched_sizes: See `name`.
        options: Where the checkpoint is, keywords of the class and fields of the config.
    """
    use_safetensors = options.get("use_safetensors")
    options = drop_unused(options)
    source = None
    if name is not None:
        source, options = split_source(name, options)
    elif config is None or state_dict is None:
        raise ValueError(
            f"{model_class.__name__}.from_pretrained without a name takes both config and "
            "state_dict."
        )
    model_options, changes = split_model_options(model_class, arguments, options)
    if dtype not in ("auto", None):
        changes["dtype"] = dtype
    if config is None or isinstance(config, str | os.PathLike):
        place: Any = source if config is None else config
        config = model_class.config_class.from_pretrained(place, **changes)
    else:
        check_attention(config.own_attention, changes)
        config = config.replace(**changes)
    if model_class.__module__ in OWN_MODULES:
        auto_map = config.extra.get("auto_map")
        warn_of_code(config.name_or_path or str(source), auto_map, "AutoModel", "a plain BERT")
    tensors = state_dict
    if tensors is None:
        assert source is not None
        tensors = read_tensors(source, mmap, use_safetensors)
    if config.dtype is None:  # that of the first weight
        dtypes = (tensor.dtype for tensor in tensors.values() if tensor.is_floating_point())
        config.dtype = next(dtypes, torch.float32)
    report = LoadReport("state_dict" if source is None else str(source))
    check_not_quantized(tensors, report.source)
    check_completeness(config, tensors, report.source)

    with collector_paused(), on_cpu():
        with prefix_errors(report.source), without_values() as models:
            model = build(model_class, config, arguments, model_options)
        fill(model, models, tensors, report, ignore_mismatched_sizes)
    for sentence in report.problems(model_class.__name__):
        warn(sentence)
    model.eval()
    model.load_report = report
    return model


def move(model: Any, device: torch.device | str | None, device_map: Any) -> Any:
    """Put a model on a device. None leaves it on the CPU, where its file is mapped."""
    if device is None:
        device = one_device(device_map)
    if device is None:
        return model
    return model.to(resolve_device(device))


def build(
    model_class: Any, config: Any, arguments: Sequence[Any], model_options: Mapping[str, Any]
) -> Any:
    """Build a model whose values come from a checkpoint.

    A subclass is constructed as it is written. For a class of minibert, whose layers are all alike,
    one layer is constructed and cloned, because constructing modules is most of what loading costs.
    """
    is_own = model_class.__module__ in OWN_MODULES
    if not is_own or config.num_hidden_layers < 2:
        return model_class(config, *arguments, **model_options)
    single = copy.copy(config)  # not `replace`, which runs the `__init__` of a user's config
    single.num_hidden_layers = 1
    model = model_class(single, *arguments, **model_options)
    for module in model.modules():
        if "config" in vars(module):
            module.config = config
    layers = model.base_model.encoder.layer
    for _ in range(1, config.num_hidden_layers):
        layers.append(clone(layers[0]))
    return model


def clone(module: nn.Module) -> nn.Module:
    """Return a copy of a module without values, with new parameters in the same memory.

    The memory is replaced before anything writes to it, by the checkpoint's or when it is drawn.
    """
    twin = module.__new__(type(module))
    for name, value in vars(module).items():
        vars(twin)[name] = value.copy() if isinstance(value, dict | set) else value
    for name, parameter in module._parameters.items():
        if parameter is not None:
            twin._parameters[name] = nn.Parameter(parameter.data)
    for name, child in module._modules.items():
        if child is not None:
            twin._modules[name] = clone(child)
    return twin


def on_cpu() -> AbstractContextManager[Any]:
    """Build on the CPU, where the mapped tensors are, whatever torch's default device is."""
    if torch.get_default_device().type == "cpu":
        return nullcontext()  # entering the device would make every operation of torch slower
    return torch.device("cpu")


def split_model_options(
    model_class: Any, arguments: Sequence[Any], options: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the keywords of the class's `__init__`, and other options.

    An `__init__` that takes any keyword gets all that are not fields of the config.

    Args:
        model_class: A subclass of `PreTrainedModel`.
        arguments: What follows the config by position.
        options: Keywords.

    Raises:
        TypeError: More positional arguments than `__init__` has parameters.
    """
    parameters = list(inspect.signature(model_class).parameters.values())
    if parameters[0].kind is not inspect.Parameter.VAR_POSITIONAL:
        del parameters[0]  # the config
    kinds = {parameter.kind for parameter in parameters}
    open_kinds = {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}
    names = {parameter.name for parameter in parameters if parameter.kind not in open_kinds}
    if len(arguments) > len(names) and inspect.Parameter.VAR_POSITIONAL not in kinds:
        raise TypeError(
            f"{model_class.__name__}.from_pretrained received {len(arguments)} arguments after "
            f"the name, but {model_class.__name__}.__init__ has {len(names)} after the config. "
            "Pass options by name, such as num_labels=3."
        )
    if inspect.Parameter.VAR_KEYWORD in kinds:
        config_class = model_class.config_class
        fields = {*field_names(config_class), *config_class.attribute_map}
        names |= options.keys() - fields - RENAMED.keys() - REFUSED.keys() - UNUSED.keys()
    model_options = {name: value for name, value in options.items() if name in names}
    return model_options, {name: value for name, value in options.items() if name not in names}


def check_not_quantized(tensors: Mapping[str, Tensor], source: str) -> None:
    """Refuse weights of 8 bits or fewer, whose scales minibert does not read.

    Raises:
        ValueError: A tensor is quantized.
    """
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and tensor.element_size() < 2:
            raise ValueError(
                f"{source}: tensor {name} is {tensor.dtype}, so the checkpoint is quantized, which "
                "minibert does not read. Get the checkpoint that it was made from, and call "
                "minibert.optimize(model, precision='int8')."
            )


def check_completeness(config: Any, tensors: Mapping[str, Tensor], source: str) -> None:
    """Refuse a config with far more parameters than the checkpoint, before they take up memory.

    Raises:
        ValueError: The config does not belong to these tensors.
    """
    parameters = count_parameters({name: getattr(config, name) for name in USUAL_SIZES})
    present = sum(tensor.numel() for tensor in tensors.values())
    absent = parameters - present
    if absent > max(MAX_NEW, 10 * present):
        raise ValueError(
            f"{source} is missing {absent:,} parameters that its config requires with "
            f"num_hidden_layers {config.num_hidden_layers:,} and num_labels "
            f"{config.num_labels:,}: correct it."
        )


def candidates(name: str, prefix: str) -> list[str]:
    """Return the names that a tensor may have in a model, the most likely first."""
    current = renamed(name)
    names = [current]
    if current.startswith(prefix):
        names.append(current.removeprefix(prefix))
    elif current.startswith(BASE_MODEL_PARTS):
        names.append(prefix + current)
    return names


def fill(
    model: Any,
    models: Sequence[Any],
    tensors: Mapping[str, Tensor],
    report: LoadReport,
    ignore_mismatched_sizes: bool,
) -> None:
    """Give a model the tensors of a checkpoint, and initial values to everything else.

    Args:
        model: The model.
        models: All models that were built without values.
        tensors: By their names in the file.
        report: What is done with each tensor is added to it.
        ignore_mismatched_sizes: As in `from_pretrained`.
    """
    slots = named_tensors(model)
    values = match(model, slots, tensors, report)
    check_shapes(report, ignore_mismatched_sizes)
    check_any_match(type(model).__name__, values, tensors, report)
    resolve_ties(model, slots, values, report)
    dtype = getattr(torch, str(model.config.dtype))
    filled = assign(slots, values, dtype)
    inside = [module for module in model.modules() if hasattr(type(module), "_init_weights")]
    owners = {id(owner): owner for owner in [*models, *inside]}  # `__init__` may copy models, too
    cast_rest(model, filled, dtype)  # first: in another type the same seed draws other numbers
    draw_missing(owners.values(), filled)
    report_missing(model, slots, filled, report)


def match(
    model: Any, slots: Mapping[str, Tensor], tensors: Mapping[str, Tensor], report: LoadReport
) -> dict[str, Tensor]:
    """Return the tensors of a checkpoint by the model's names for them.

    Raises:
        ValueError: A weight is not a floating-point tensor.
    """
    prefix = f"{model.base_model_prefix}."
    values: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        own_name = next((n for n in candidates(name, prefix) if n in slots), None)
        if own_name is None:
            if HEAD_TENSORS.match(name):
                report.left_out.append(name)
            else:
                report.unexpected.append(name)
            continue
        if own_name != name:
            report.renamed.append((name, own_name))
        slot = slots[own_name]
        if tensor.shape != slot.shape:
            report.mismatched.append((own_name, tuple(tensor.shape), tuple(slot.shape)))
        elif slot.is_floating_point() and not tensor.is_floating_point():
            raise ValueError(
                f"{report.source}: tensor {name} is {tensor.dtype}, but weights are "
                "floating-point numbers."
            )
        else:
            values[own_name] = tensor
    return values


def check_shapes(report: LoadReport, ignore_mismatched_sizes: bool) -> None:
    """Refuse tensors of another shape, unless they are to be ignored.

    Raises:
        ValueError: A shape differs.
    """
    if not report.mismatched or ignore_mismatched_sizes:
        return
    details = [
        f"{name} is {in_file} in the file but {in_model} in the model"
        for name, in_file, in_model in report.mismatched
    ]
    raise ValueError(
        f"{report.source} does not fit its config: {_join(details, '; ')}. Correct the config "
        "(num_labels?) or the arguments of the class, or pass ignore_mismatched_sizes=True to "
        "start these from random."
    )


def check_any_match(
    model_name: str, values: Mapping[str, Tensor], tensors: Mapping[str, Tensor], report: LoadReport
) -> None:
    """Refuse a checkpoint of which nothing fits, such as that of another architecture.

    Raises:
        ValueError: The model has no place for any tensor, apart from those of a head.
    """
    fitting = [*values, *(name for name, _, _ in report.mismatched)]
    if not any(not HEAD_TENSORS.match(name) or "pooler." in name for name in fitting):
        first = min(tensors, default="")
        advice = ""
        if first.startswith("base_model.model."):
            advice = (
                " It is an adapter of peft: peft.PeftModel.from_pretrained(model, folder) adds it "
                "to a model."
            )
        raise ValueError(
            f"{report.source} holds no tensor of a BERT that {model_name} has a place for "
            f"({len(tensors)} tensors, such as {first!r}).{advice}"
        )


def resolve_ties(
    model: Any, slots: dict[str, Tensor], values: dict[str, Tensor], report: LoadReport
) -> None:
    """Give each tensor of the model that has several names one value, or untie the names.

    A file may have the value under any of the names. Names with different values in the file become
    tensors of their own, as in transformers.
    """
    for alias, name in declared_ties(model, switched_off=True).items():
        # Files of transformers 4 have the bias of an untied decoder under one of its names.
        if not name.endswith(WORD_EMBEDDINGS):
            for absent, present in ((alias, name), (name, alias)):
                if absent in slots and absent not in values and present in values:
                    values[absent] = values[present].clone()
    for alias, name in shared_names(model, slots).items():
        if alias not in values:
            continue
        value = values.pop(alias)
        kept = values.setdefault(name, value)
        if value.data_ptr() == kept.data_ptr() or torch.equal(value, kept):
            continue
        values[alias] = value
        slots[alias] = untie(model, alias)
        report.untied.append((alias, name))
        if name.endswith(WORD_EMBEDDINGS):
            model.config.tie_word_embeddings = False


def assign(
    slots: Mapping[str, Tensor], values: Mapping[str, Tensor], dtype: torch.dtype
) -> set[int]:
    """Give parameters and buffers their values without copying them.

    The parameter objects stay the same, so that modules still share them.

    Returns:
        The `id` of each parameter and buffer that has its value now.
    """
    filled = set()
    default = torch.get_default_dtype()
    for name, value in values.items():
        slot = slots[name]
        slot.data = value.to(dtype if slot.dtype == default else slot.dtype)
        filled.add(id(slot))
    return filled


def cast_rest(model: nn.Module, filled: set[int], dtype: torch.dtype) -> None:
    """Give floating-point tensors that are not from the checkpoint the type of the others."""
    default = torch.get_default_dtype()
    if dtype == default:
        return
    for tensor in [*model.parameters(), *model.buffers()]:
        if id(tensor) not in filled and tensor.dtype == default:
            tensor.data = tensor.data.to(dtype)


def report_missing(
    model: Any, slots: Mapping[str, Tensor], filled: set[int], report: LoadReport
) -> None:
    """Report what the checkpoint lacks, each tensor by its first name.

    A model inside that has been loaded from a checkpoint of its own, such as a teacher, has values.
    """
    mismatched = {name for name, _, _ in report.mismatched}
    missing = [name for name, slot in slots.items() if id(slot) not in filled]
    if not missing:
        return
    aliases = shared_names(model, slots)
    loaded: set[int] = set()
    for module in model.modules():
        if getattr(module, "load_report", None) is not None:
            loaded.update(map(id, named_tensors(module).values()))
    for name in missing:
        if name not in mismatched and name not in aliases and id(slots[name]) not in loaded:
            report.missing.append(name)
