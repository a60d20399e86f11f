"""The base of every model: a config, initial weights, `from_pretrained` and `save_pretrained`.

Parameter paths of the models equal the names in the official files, so loading needs no mapping table: `checkpoint`
reads the tensors, they get the model's names and become its parameters, and a report says what happened to each.
"""

import copy
import inspect
import os
import re
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from minibert.checkpoints.source import Source, split_source
from minibert.checkpoints.tensors import BACKBONE, model_name, read_tensors, write_tensors
from minibert.checks import refuse_unknown
from minibert.compat.keywords import (
    SAVING,
    drop_ignored_keywords,
    one_device,
)
from minibert.compat.model import ModelProtocol
from minibert.compat.tied import TiedWeights
from minibert.config import BertConfig
from minibert.files import prefix_errors
from minibert.progress import collector_paused

# what one BERT class has and another rightly leaves out
HEADS = re.compile(r"(bert\.)?(cls|classifier|qa_outputs|pooler)\.|.*embeddings\.position_ids$")

# more new numbers than this, in a model of over ten times what the file holds, are a mistake or an attack
MAX_NEW = 50_000_000

WORD_EMBEDDINGS = "bert.embeddings.word_embeddings.weight"

Model = TypeVar("Model", bound="PreTrainedModel")

# torch's threads do not live in a forked process, and an operator that waits for them there waits for ever; with one
# thread there is none to wait for. A child whose parent has computed nothing yet may set its number of threads again.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: torch.set_num_threads(1))


@contextmanager
def one_thread() -> Iterator[None]:
    """Computes in the calling thread alone, which starts none of torch's: so processes can be forked after loading."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@dataclass
class LoadReport:
    """The outcome of loading for each tensor, by its full name.

    Attributes:
        source: the name that was loaded.
        missing: parameters of the model that the file does not have; they are newly initialised.
        mismatched: parameters whose shape in the file is another, as (name, shape in the file, shape in the model);
            newly initialised too, because `ignore_mismatched_sizes` asked for it.
        unexpected: tensors of the file that no BERT has a place for.
        left_out: tensors of the file that belong to a head which this class does not have, as is right.
        renamed: (name in the file, name in the model) of every tensor whose name differs.
        untied: (name, other name) of tensors that the config ties but that differ in the file; both are kept, and the
            model's config says `tie_word_embeddings=False`.
    """

    source: str
    missing: list[str] = field(default_factory=list)
    mismatched: list[tuple[str, tuple[int, ...], tuple[int, ...]]] = field(default_factory=list)
    unexpected: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    renamed: list[tuple[str, str]] = field(default_factory=list)
    untied: list[tuple[str, str]] = field(default_factory=list)

    def as_loading_info(self) -> dict[str, Any]:
        """The report in the words of the reference."""
        return {
            "missing_keys": set(self.missing),
            "unexpected_keys": {*self.unexpected, *self.left_out},
            "mismatched_keys": set(self.mismatched),
            "error_msgs": [],
        }

    def problems(self, model_name: str) -> list[str]:
        """Sentences for a person: only what changes the results."""
        heads = [name for name in self.missing if HEADS.match(name)]
        backbone = [name for name in self.missing if not HEADS.match(name)]
        shapes = [f"{name} (file {ours}, model {theirs})" for name, ours, theirs in self.mismatched]
        said = {
            f"not in {self.source}, newly initialised: train before you use what depends on it.": heads,
            f"not in {self.source} although every BERT has it; newly initialised, so the results are not those of the "
            "trained model. Is the checkpoint complete?": backbone,
            f"of another shape in {self.source}, newly initialised.": shapes,
            f"in {self.source} but in no BERT; not loaded.": self.unexpected,
        }
        untied = [
            f"{name} differs from {other} in {self.source}, although its config ties them; each is kept. "
            "Pass tie_word_embeddings=False if that is right, or correct the file."
            for name, other in self.untied
        ]
        found = [
            f"{_listed(names)} {'are' if names[1:] else 'is'} {what}"
            for what, names in said.items()
            if names
        ]
        return [f"{model_name}: {sentence}" for sentence in found + untied]


def _listed(names: list[str], between: str = ", ", max_names: int = 6) -> str:
    rest = f" and {len(names) - max_names} more" if len(names) > max_names else ""
    return between.join(names[:max_names]) + rest


class PreTrainedModel(ModelProtocol, TiedWeights):
    """The base class of every model: a config, initial weights, loading and saving."""

    config_class = BertConfig
    config: BertConfig
    load_report: LoadReport | None

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.config = config
        self.load_report = None

    @classmethod
    def from_pretrained(
        cls: type[Model],
        pretrained_model_name_or_path: str | os.PathLike[str] | Source | None,
        *,
        config: BertConfig | str | os.PathLike[str] | None = None,
        state_dict: dict[str, Tensor] | None = None,
        dtype: torch.dtype | str | None = "auto",
        device: torch.device | str | None = None,
        device_map: Any = None,
        ignore_mismatched_sizes: bool = False,
        mmap: bool = True,
        output_loading_info: bool = False,
        **options: Any,
    ) -> Model:
        """Loads a checkpoint; the model is in eval mode and its `load_report` says what was done.

        Args:
            pretrained_model_name_or_path: folder, bundled model, Hub id, or a `Source`; None where config and
                state_dict say everything.
            config: config to use instead of the checkpoint's own, or what to load it from; checkpoints that
                `transformers.Trainer` writes of these classes have none.
            state_dict: tensors to use instead of the checkpoint's own.
            dtype: type of the parameters, such as `torch.float32`; "auto" takes what config.json names, or else what
                the file holds.
            device: where to put them; None leaves them on the CPU, memory-mapped.
            device_map: the same, in the words of the reference.
            ignore_mismatched_sizes: initialise tensors whose shape differs from the model's instead of refusing.
            mmap: False reads the file into memory, so that the model does not depend on what becomes of the file: for
                servers that run for long; see `minibert.checkpoints.tensors.read_tensors`.
            output_loading_info: return the model and a dict of what was missing, unexpected and mismatched.
            options: `revision`, `cache_dir`, `local_files_only`, `token` and `subfolder` as for `Source.of`;
                `add_pooling_layer` where the class has it; anything else is a config field, such as `num_labels=3` or
                `attn_implementation="eager"`. The reference's other keywords are in `compat.keywords`.

        Raises:
            FileNotFoundError: no such checkpoint, or a file of it is missing and cannot be had.
            ValueError: a file that is damaged, would run code, or does not fit the config.
            TypeError: an option that is neither known nor a config field.
        """
        dtype = options.pop("torch_dtype", dtype)
        options = drop_ignored_keywords(options)
        device = one_device(device_map) if device is None else device
        source: Source | None = None
        if pretrained_model_name_or_path is not None:
            source, options = split_source(pretrained_model_name_or_path, options)
        if isinstance(config, str | os.PathLike):
            config = BertConfig.from_pretrained(config)
        model_options = {
            k: options.pop(k) for k in list(options) if k in inspect.signature(cls).parameters
        }
        if dtype not in ("auto", None):
            options["dtype"] = dtype
        if source is None and (config is None or state_dict is None):
            raise ValueError(
                f"{cls.__name__}.from_pretrained without a name takes both config and state_dict."
            )
        config = (
            BertConfig.from_pretrained(source, **options)  # type: ignore[arg-type]
            if config is None
            else config.replace(**options)
        )
        tensors = read_tensors(source, mmap) if state_dict is None else state_dict  # type: ignore[arg-type]
        if config.dtype is None:
            stored = next(
                (t.dtype for t in tensors.values() if t.is_floating_point()), torch.float32
            )
            config.dtype = str(stored)
        where = "state_dict" if source is None else str(source)
        with collector_paused():
            with prefix_errors(where):
                model = build_on_meta(cls, config, model_options)
            stored_as = getattr(torch, str(config.dtype))
            model.load_report = report = assign(
                model, tensors, where, stored_as, ignore_mismatched_sizes
            )
        for sentence in report.problems(cls.__name__):
            warnings.warn(sentence, stacklevel=2)
        model = model if device is None else model.to(device)
        return (model, report.as_loading_info()) if output_loading_info else model  # type: ignore[return-value]

    @classmethod
    def from_config(cls: type[Model], config: BertConfig, **changes: Any) -> Model:
        """A model with new weights; `changes` are of its config, such as `attn_implementation="eager"`."""
        return cls(config.replace(**changes) if changes else config)

    _from_config = from_config

    def save_pretrained(
        self,
        save_directory: str | os.PathLike[str],
        is_main_process: bool = True,
        state_dict: dict[str, Tensor] | None = None,
        **options: Any,
    ) -> None:
        """Writes config.json and model.safetensors, each atomically, as `transformers` reads them.

        A tensor that is another's alias (the tied MLM decoder) is written once.

        Args:
            save_directory: the folder, made when it does not exist.
            is_main_process: False writes nothing: another process does.
            state_dict: tensors to write instead of the model's own, as gathered from many processes.
            options: the reference's other keywords, in `compat.keywords`.

        Raises:
            ValueError: a keyword that asks for what there is not.
            OSError: the files cannot be written.
        """
        unknown = drop_ignored_keywords(options, SAVING)
        refuse_unknown(f"{type(self).__name__}.save_pretrained", unknown, ("state_dict", *SAVING))
        if not is_main_process:
            return
        folder = Path(save_directory)
        folder.mkdir(parents=True, exist_ok=True)
        self.config.replace(
            architectures=[type(self).__name__], dtype=str(self.dtype)
        ).save_pretrained(folder)
        # the reference does not look for aliases when the config says that there are none
        aliases = self.tied_weights() if self.config.tie_word_embeddings else {}
        state = (
            self.state_dict(keep_vars=True) if state_dict is None else state_dict
        )  # without copies of aliases
        tensors = {
            name: t.detach().contiguous() for name, t in state.items() if name not in aliases
        }
        shared = (
            self.tied_weights().keys() - aliases.keys()
        )  # safetensors refuses tensors that share memory
        write_tensors(
            folder / "model.safetensors",
            {n: t.clone() if n in shared else t for n, t in tensors.items()},
        )

    def tie_weights(self, **unused: Any) -> None:
        """Makes every alias of `tied_weights` the very tensor it stands for."""
        for alias, name in self.tied_weights().items():
            owner, _, attribute = alias.rpartition(".")
            setattr(self.get_submodule(owner), attribute, self.get_parameter(name))

    def init_weights(self, names: Iterable[str] | None = None) -> None:
        """Draws new weights as BERT does: normal with `initializer_range`, biases 0, LayerNorm 1 and 0.

        Args:
            names: only these parameters; None: all of them.
        """
        wanted = None if names is None else set(names)
        on_meta = next(self.parameters()).is_meta  # built for loading: the numbers come from a file
        for prefix, module in () if wanted == set() or on_meta else self.named_modules():
            for name, parameter in module.named_parameters(recurse=False):
                if wanted is not None and f"{prefix}.{name}".lstrip(".") not in wanted:
                    continue
                with torch.no_grad():
                    if isinstance(module, nn.LayerNorm):
                        parameter.fill_(1.0 if name == "weight" else 0.0)
                    elif name == "weight":
                        parameter.normal_(0.0, self.config.initializer_range)
                        if isinstance(module, nn.Embedding) and module.padding_idx is not None:
                            parameter[module.padding_idx].zero_()
                    else:
                        parameter.zero_()
        self.tie_weights()

    def train(self: Model, mode: bool = True) -> Model:
        """As `nn.Module.train`; the encoder first, so that one that refuses leaves everything as it was."""
        self.base_model.encoder.train(mode)
        return super().train(mode)

    @property
    def base_model(self) -> Any:
        """The BertModel inside, or this model if it is one."""
        return getattr(self, "bert", self)

    @property
    def device(self) -> torch.device:
        """Where the parameters are."""
        weight: Tensor = (
            self.base_model.embeddings.LayerNorm.weight
        )  # not the first that a walk finds: every call asks
        return weight.device

    @property
    def dtype(self) -> torch.dtype:
        """Type of the parameters."""
        return next(self.parameters()).dtype


class _NoInitialDraws(TorchFunctionMode):
    """Leaves out `torch.nn.init`: drawing numbers that a file replaces would take most of the loading time."""

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if getattr(function, "__module__", None) == "torch.nn.init":
            return kwargs["tensor"]
        return function(*args, **(kwargs or {}))


def build_on_meta(model_class: type[Model], config: BertConfig, options: dict[str, Any]) -> Model:
    """A model in eval mode with shapes but no memory: its parameters will come from a file.

    One layer is built and copied, because building modules is most of what loading costs.
    """
    few = copy.copy(config)
    vars(few)["num_hidden_layers"] = min(
        1, config.num_hidden_layers
    )  # by assignment it would all be checked again
    with torch.device("meta"), _NoInitialDraws():
        model = model_class(few, **options).eval()
    vars(few)["num_hidden_layers"] = config.num_hidden_layers  # the model's own config from now on
    layers = model.base_model.encoder.layer
    layers.extend(_twin(layers[0]) for _ in range(1, config.num_hidden_layers))
    return model


def _twin(module: nn.Module) -> nn.Module:
    """A module like this one; only the parameters, which are about to be assigned, are the same."""
    twin = module.__new__(type(module))
    vars(twin).update(
        {name: x.copy() if isinstance(x, dict | set) else x for name, x in vars(module).items()}
    )
    vars(twin)["_modules"] = {
        name: None if child is None else _twin(child) for name, child in module._modules.items()
    }
    return twin


@one_thread()
def assign(
    model: PreTrainedModel,
    tensors: dict[str, Tensor],
    source: str,
    dtype: torch.dtype,
    ignore_mismatched_sizes: bool,
) -> LoadReport:
    """Makes the tensors of a file the parameters of a model that was built on the meta device.

    Raises:
        ValueError: a tensor of the wrong shape or type, or no tensor of a BERT at all.
    """
    report = LoadReport(source)
    expected = dict(model.named_parameters(remove_duplicate=False))
    found: dict[str, Tensor] = {}
    is_head, prefixed = hasattr(model, "bert"), any(name.startswith("bert.") for name in tensors)
    for name, tensor in tensors.items():
        own = model_name(name, is_head, prefixed)
        if own not in expected:
            (report.left_out if HEADS.match(name) else report.unexpected).append(name)
            continue
        if own != name:
            report.renamed.append((name, own))
        shapes = (tuple(tensor.shape), tuple(expected[own].shape))
        if shapes[0] != shapes[1]:
            report.mismatched.append((own, *shapes))
        elif not tensor.is_floating_point():
            raise ValueError(
                f"{source}: tensor {name} is {tensor.dtype}, but weights are floating-point numbers."
            )
        else:
            found[own] = tensor.to(dtype)
    mismatched = {name for name, _, _ in report.mismatched}
    if not any(
        name.removeprefix("bert.").startswith(BACKBONE) for name in found.keys() | mismatched
    ):
        raise ValueError(
            f"{source} holds no tensor of a BERT ({len(tensors)} tensors, such as {min(tensors, default='')!r})."
        )
    if report.mismatched and not ignore_mismatched_sizes:
        details = [
            f"{n} is {ours} in the file but {theirs} in the model"
            for n, ours, theirs in report.mismatched
        ]
        raise ValueError(
            f"{source} does not fit its config: {_listed(details, '; ')}. Correct the config (num_labels?), or pass "
            "ignore_mismatched_sizes=True to start these from random."
        )
    for alias, name in model.tied_weights().items():
        # an alias is the same tensor as its original, whichever of the two the file holds; where it holds both and
        # they differ, a decoder stays untied, and a bias is the one that the reference computes with
        if (
            alias in found
            and name == WORD_EMBEDDINGS
            and name in found
            and not torch.equal(found[alias], found[name])
        ):
            report.untied.append((alias, name))
            model.config.tie_word_embeddings = False
        elif alias in found:
            found[name] = found.pop(alias)
    aliases = model.tied_weights()
    new = [name for name in expected if name not in found and name not in aliases]
    report.missing = [name for name in new if name not in mismatched]
    absent = sum(expected[name].numel() for name in new)
    if absent > max(MAX_NEW, 10 * sum(tensor.numel() for tensor in found.values())):
        sizes = " and ".join(
            f"{name} {getattr(model.config, name):,}"
            for name in ("num_hidden_layers", "num_labels")
        )
        raise ValueError(
            f"{source} lacks {absent:,} of the numbers that its config asks for with {sizes}: correct it."
        )
    for name in new:
        found[name] = torch.empty(expected[name].shape, dtype=dtype, device="cpu")
    for prefix, module in model.named_modules():
        # in place of load_state_dict and setattr, which would take as long as all the rest of loading
        for name in module._parameters:
            if (full_name := f"{prefix}.{name}") in found:
                module._parameters[name] = nn.Parameter(found[full_name])
    model.init_weights(new)  # ties the aliases too
    return report
