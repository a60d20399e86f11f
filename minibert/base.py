"""PreTrainedModel: what all models share, a config, a device, a dtype, and initial weights.

Loading and saving are in checkpoints/. Methods that tools such as peft and the Trainer call are in
compat/model_methods.py. A first reader can skip all of them: BERT is computed in model.py.
"""

from __future__ import annotations

import os
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor, nn

from minibert.compat.model_methods import ModelCompatibility
from minibert.config import BertConfig
from minibert.initialization import NewTensors, declared_ties, draw_uninitialized, tie

if TYPE_CHECKING:
    from minibert.checkpoints.source import Source

Model = TypeVar("Model", bound="PreTrainedModel")

_process: int | None = None
"""The process in which the first model was built."""


class PreTrainedModel(ModelCompatibility, nn.Module):
    """The base class of every model: a config, initial weights, loading and saving.

    Args:
        config: The sizes. A config of transformers is converted.

    Attributes:
        base_model_prefix: Name of the attribute that holds the `BertModel`, so that a checkpoint
            of `BertModel` alone can be loaded, and the other way round.
        config: The sizes and switches.
        load_report: What loading did with each tensor, a
            `minibert.checkpoints.loading.LoadReport`. None: built from a config.

    Raises:
        ValueError: A field of the config that no BERT can have.
    """

    config_class = BertConfig  # a subclass whose config has fields of its own names that class
    base_model_prefix = "bert"
    config: BertConfig
    load_report: Any

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.register_state_dict_post_hook(_copy_aliases)  # type: ignore[no-untyped-call]
        use_one_thread_after_fork()
        self.config = as_bert_config(config, self.config_class)
        self.config.validate()
        self.load_report = None
        # Attributes of the model and not views of its config, as a subclass may use these names for
        # something else, such as a layer.
        self.num_labels = self.config.num_labels
        self.vocab_size = self.config.vocab_size
        self.name_or_path = self.config.name_or_path

    @classmethod
    def from_pretrained(
        cls: type[Model],
        pretrained_model_name_or_path: str | os.PathLike[str] | Source | None,
        *model_args: Any,
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
        """Load a checkpoint. The model is in eval mode and has a `load_report`.

        Args:
            pretrained_model_name_or_path: Folder, bundled model, Hub id, a file of weights, or a
                `Source`. None: the whole checkpoint is passed as `config=` and `state_dict=`.
            model_args: Arguments of the class's `__init__` after the config, in its order.
            config: Config to use instead of the checkpoint's own, or where to load it from.
                Checkpoints that `transformers.Trainer` writes of subclasses have none.
            state_dict: Tensors to use instead of the checkpoint's own.
            dtype: Type of the parameters, such as `torch.float32`. "auto": the type that
                config.json names, or else that of the file.
            device: Where to put the parameters. None: on the CPU, memory-mapped.
            device_map: The same for code written for transformers. It names one device.
            ignore_mismatched_sizes: Initialize tensors whose shape differs from the model's,
                instead of raising.
            mmap: False reads the file into memory, so that a server can run for long while the
                file is changed or deleted.
            output_loading_info: Return the model and a dict of missing, unexpected and mismatched
                names.
            options: `revision`, `cache_dir`, `local_files_only`, `token` and `subfolder` as for
                `Source.of`. `use_safetensors=False` reads pytorch_model.bin also where there are
                safetensors. Keywords of the class's `__init__`, such as `add_pooling_layer`, are
                passed to it. Everything else is a field of the config, such as `num_labels=3` or
                `attn_implementation="eager"`. An `__init__` with `**kwargs` gets all keywords that
                are not fields.

        Returns:
            The model in eval mode, or with `output_loading_info` the model and a dict of names.

        Raises:
            FileNotFoundError: There is no such checkpoint, or it lacks a file.
            ValueError: A file is damaged, would run code, is quantized, or does not fit the config.
            TypeError: An option is neither known nor a field of the config.
        """
        from minibert.checkpoints import loading

        if config is not None and not isinstance(config, str | os.PathLike):
            config = as_bert_config(config, cls.config_class)
        older_name = options.pop("torch_dtype", None)
        if dtype == "auto" and older_name is not None:
            dtype = older_name
        model: Model = loading.load_model(
            cls,
            pretrained_model_name_or_path,
            model_args,
            config,
            state_dict,
            dtype,
            mmap,
            ignore_mismatched_sizes,
            options,
        )
        model = loading.move(model, device, device_map)
        if output_loading_info:
            return model, model.load_report.as_loading_info()  # type: ignore[return-value]
        return model

    @classmethod
    def from_config(cls: type[Model], config: BertConfig, **changes: Any) -> Model:
        """Return a model with new weights, of the type that the config names as `dtype`.

        Args:
            config: The sizes.
            changes: As in `from_pretrained`: keywords of the class's `__init__`, such as
                `add_pooling_layer`, and fields that replace those of the config, such as
                `attn_implementation="eager"` or `dtype=torch.float16`.
        """
        from minibert.checkpoints.loading import split_model_options
        from minibert.compat.keywords import drop_unused

        config = as_bert_config(config, cls.config_class)
        model_options, fields = split_model_options(cls, (), drop_unused(changes))
        config = config.replace(**fields) if fields else config
        dtype = config.torch_dtype
        with nullcontext() if dtype is None else NewTensors(dtype):
            return cls(config, **model_options)

    _from_config = from_config  # the name in transformers

    def save_pretrained(
        self,
        save_directory: str | os.PathLike[str],
        is_main_process: bool = True,
        state_dict: dict[str, Tensor] | None = None,
        **options: Any,
    ) -> None:
        """Write config.json and model.safetensors, each atomically, as transformers reads them.

        A tensor that has several names, such as the tied MLM decoder, is written once.

        Args:
            save_directory: The folder. It is created if it does not exist.
            is_main_process: False writes nothing, because another process does.
            state_dict: Tensors to write instead of the model's own, as gathered from many
                processes.
            options: Keywords of transformers that have no effect here.

        Raises:
            ValueError: A keyword asks for something that minibert does not have.
            OSError: The files cannot be written.
        """
        from minibert.checkpoints.saving import save_model

        save_model(self, save_directory, is_main_process, state_dict, options)

    def init_weights(self) -> None:
        """Draw the weights of modules that have not been initialized, by `_init_weights`.

        The `__init__` of a subclass may call it last, to initialize its new layers as BERT's. A
        parameter of the model itself, such as `self.scale`, stays as it is.
        """
        draw_uninitialized(self)
        self.tie_weights()

    post_init = init_weights  # the newer name in transformers

    def _init_weights(self, module: nn.Module) -> None:
        """Draw the initial weights of one module, without its children.

        As `create_initializer` in google-research/bert:

            embeddings      normal with the standard deviation `initializer_range`, the row of
                            [PAD] 0
            linear layers   weights the same, biases 0
            LayerNorm       weights 1, biases 0
            anything else   as its constructor makes it

        Subclasses may override this method. It is called for each module once: when the module is
        built, when `post_init` finds it new, or after loading, if the checkpoint lacks its tensors.
        """
        with torch.no_grad():
            if isinstance(module, nn.LayerNorm):
                if module.weight is not None:
                    module.weight.fill_(1.0)
                if module.bias is not None:
                    module.bias.zero_()
            elif isinstance(module, nn.Linear | nn.Embedding):
                module.weight.normal_(0.0, self.config.initializer_range)
                padding = getattr(module, "padding_idx", None)
                if padding is not None:
                    module.weight[padding].zero_()
                bias = getattr(module, "bias", None)
                if bias is not None:
                    bias.zero_()

    def tie_weights(self, **unused: Any) -> None:
        """Share every tensor that `_tied_weights_keys` of the class declares.

        It is called when parts of the model are built, and afterwards only by users: loading,
        saving and resizing leave what is not shared as it is.

        Args:
            unused: Keywords of transformers, which have no effect.
        """
        for alias, name in declared_ties(self).items():
            tie(self, alias, name)

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, local_metadata: Any, *arguments: Any
    ) -> None:
        """Keep tied names tied: those of one tensor are those of one tensor afterwards."""
        from minibert.checkpoints.ties import share_values

        assigns = local_metadata.get("assign_to_params_buffers", False)
        share_values(self, state_dict, prefix, assigns)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *arguments)

    def train(self: Model, mode: bool = True) -> Model:
        """As `nn.Module.train`, but a model stays as it was if one of its modules raises.

        The modules of an optimized model raise a ValueError for `mode=True`.
        """
        before = self.training
        try:
            return super().train(mode)
        except ValueError:
            super().train(before)
            raise

    @property
    def all_tied_weights_keys(self) -> dict[str, str]:
        """The names of tied tensors, each with the name that is saved."""
        return declared_ties(self)

    @property
    def base_model(self) -> Any:
        """The model called `base_model_prefix` inside, or this model if there is none."""
        return getattr(self, self.base_model_prefix, self)

    @property
    def device(self) -> torch.device:
        """Device of the parameters."""
        return _first_tensor(self).device

    @property
    def dtype(self) -> torch.dtype:
        """Type of the parameters."""
        return _first_tensor(self).dtype


BertPreTrainedModel = PreTrainedModel
"""The name of the base class in transformers."""


def as_bert_config(config: Any, config_class: type[BertConfig] = BertConfig) -> BertConfig:
    """Return a config as a `BertConfig`, converted to `config_class` if it is one of transformers.

    Raises:
        TypeError: Not a config.
        ValueError: The config of another kind of model.
    """
    if isinstance(config, BertConfig):
        return config
    from minibert.compat.config_fields import fields_of

    return config_class.from_dict(fields_of(config))


def _first_tensor(model: nn.Module) -> Tensor:
    """Return the first parameter. The weights of a replica of `DataParallel` are plain tensors."""
    for parameter in model.parameters():
        return parameter
    for module in model.modules():
        for value in vars(module).values():
            if isinstance(value, Tensor):
                return value
    raise ValueError(f"{type(model).__name__} has no parameters.")


def _copy_aliases(model: Any, state: dict[str, Any], prefix: str, _metadata: Any) -> None:
    """Copy tensors of several names in a state dict. A function, so that models can be pickled."""
    from minibert.checkpoints.ties import copy_aliases

    copy_aliases(model, state, prefix)


def use_one_thread_after_fork() -> None:
    """Let a forked process compute in one thread, if its parent had built a model before.

    The threads of torch do not exist in a forked process, such as a worker of a `DataLoader`. An
    operator that needs them would wait forever. So the first model that is built or optimized in
    such a process, or its first forward, sets the number of threads to 1. The caller may change it
    afterwards.
    """
    global _process
    if torch.compiler.is_compiling():
        return  # a graph would record the id of the process
    process = os.getpid()
    if _process is not None and process != _process:
        torch.set_num_threads(1)
    _process = process
