"""Methods of transformers' base class that tools call, beyond loading, computing and saving."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, ClassVar, NoReturn

import torch
from torch import Tensor, nn

from minibert.compat import register


class ModelCompatibility(nn.Module):
    """The methods and attributes by which tools for transformers handle a model."""

    config: Any
    base_model: Any
    vocab_size: int

    base_model_prefix: ClassVar[str] = "bert"
    # PrefixTuning of peft looks up the forward of this model, and raises an error for it.
    transformer_backbone_name: ClassVar[str] = "bert"
    main_input_name: ClassVar[str] = "input_ids"
    input_modalities: ClassVar[tuple[str, ...]] = ("text",)
    supports_gradient_checkpointing: ClassVar[bool] = True
    _no_split_modules: ClassVar[list[str]] = ["BertEmbeddings", "BertLayer"]
    _tied_weights_keys: Any = None
    # Quantizers, launchers and the Trainer read these: nothing is to be treated differently.
    _keep_in_fp32_modules: ClassVar[frozenset[str]] = frozenset()
    _keep_in_fp32_modules_strict: ClassVar[frozenset[str]] = frozenset()
    _skip_keys_device_placement: ClassVar[None] = None
    _keys_to_ignore_on_save: ClassVar[None] = None
    _keys_to_ignore_on_load_missing: ClassVar[None] = None
    _keys_to_ignore_on_load_unexpected: ClassVar[None] = None
    _tp_plan: ClassVar[None] = None
    _pp_plan: ClassVar[None] = None
    model_tags: ClassVar[None] = None
    # Which attention functions there are, and what a model is able to do beside computing.
    _supports_sdpa: ClassVar[bool] = True
    _supports_flash_attn: ClassVar[bool] = False
    _supports_flex_attn: ClassVar[bool] = False
    _supports_attention_backend: ClassVar[bool] = False
    _can_compile_fullgraph: ClassVar[bool] = True
    _is_stateful: ClassVar[bool] = False
    _hf_peft_config_loaded: ClassVar[bool] = False
    is_parallelizable: ClassVar[bool] = False
    # Which modules return each kind of tensor of an output. model.py adds them.
    _can_record_outputs: ClassVar[dict[str, type[nn.Module]]] = {}

    register = staticmethod(register)
    register_for_auto_class = staticmethod(register)

    @classmethod
    def _can_set_attn_implementation(cls) -> bool:
        """Whether `set_attn_implementation` works."""
        return True

    @property
    def dummy_inputs(self: Any) -> dict[str, Tensor]:
        """A small batch, with which tools try out a model."""
        words = torch.tensor([[7, 6, 0, 0, 1], [1, 2, 3, 0, 0], [0, 0, 0, 4, 5]])
        words = words.clamp(max=self.config.vocab_size - 1).to(self.device)
        return {"input_ids": words[:, : self.config.max_position_embeddings]}

    def tie_weights(self, **unused: Any) -> None:
        """Share the tensors that `_tied_weights_keys` declares."""
        raise NotImplementedError

    @property
    def is_gradient_checkpointing(self) -> bool:
        """Whether each layer is computed again for its gradient."""
        return any(encoder.gradient_checkpointing for encoder in _encoders(self))

    is_activation_checkpointing = is_gradient_checkpointing  # the newer name

    def gradient_checkpointing_enable(
        self,
        gradient_checkpointing_kwargs: dict[str, Any] | None = None,
        every_n_layers: int = 1,
        offload: bool = False,
    ) -> None:
        """Trade time for memory in training: each layer is computed again for its gradient.

        Args:
            gradient_checkpointing_kwargs: Without effect. `use_reentrant=False`, the only way here,
                gives the same gradients as the other.
            every_n_layers: 1.
            offload: False.

        Raises:
            ValueError: Another value of the last two.
        """
        if every_n_layers != 1 or offload:
            raise ValueError("Checkpointing takes every_n_layers=1 and offload=False only.")
        for encoder in _encoders(self):
            encoder.gradient_checkpointing = True

    def activation_checkpointing_enable(
        self, activation_checkpointing_kwargs: dict[str, Any] | None = None, **options: Any
    ) -> None:
        """`gradient_checkpointing_enable` under its newer name, with the same arguments."""
        self.gradient_checkpointing_enable(activation_checkpointing_kwargs, **options)

    def gradient_checkpointing_disable(self) -> None:
        """Keep what every layer computes, as usual."""
        for encoder in _encoders(self):
            encoder.gradient_checkpointing = False

    activation_checkpointing_disable = gradient_checkpointing_disable

    @classmethod
    def _can_set_experts_implementation(cls) -> bool:
        """Whether the model has experts, which BERT has not."""
        return False

    @classmethod
    def can_generate(cls) -> bool:
        """Whether the model generates text, which an encoder does not."""
        return False

    def num_parameters(self, only_trainable: bool = False, exclude_embeddings: bool = False) -> int:
        """Return the number of parameters. Shared tensors count once.

        Args:
            only_trainable: Leave out frozen ones.
            exclude_embeddings: Leave out the embeddings of words, positions and token types.
        """
        excluded = set()
        if exclude_embeddings:
            tables = [
                m for m in self.base_model.embeddings.modules() if isinstance(m, nn.Embedding)
            ]
            excluded = {id(table.weight) for table in tables}
        total = 0
        for parameter in self.parameters():
            is_counted = parameter.requires_grad or not only_trainable
            if is_counted and id(parameter) not in excluded:
                total += parameter.numel()
        return total

    def get_memory_footprint(self, return_buffers: bool = True) -> int:
        """Return the bytes of all parameters, and of all buffers if `return_buffers` is True."""
        tensors = [*self.parameters()]
        size = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
        if return_buffers:
            size += sum(buffer.numel() * buffer.element_size() for buffer in self.buffers())
        return size

    def floating_point_ops(
        self, input_dict: Mapping[str, Any], exclude_embeddings: bool = True
    ) -> int:
        """Estimate the operations of a training step on `input_dict`.

        It is 6 per token and parameter (Kaplan et al. 2020), embeddings counted or not.
        """
        tokens = 0
        if self.main_input_name in input_dict:
            tokens = input_dict[self.main_input_name].numel()
        return 6 * tokens * self.num_parameters(exclude_embeddings=exclude_embeddings)

    def set_attn_implementation(self, attn_implementation: str) -> None:
        """Choose the attention function by its name, a key of `ATTENTION_FUNCTIONS`.

        Raises:
            ValueError: Another name. The model keeps its function.
        """
        changed = copy.copy(self.config)
        changed.attn_implementation = attn_implementation
        changed.validate()  # before the model has it
        self.config.attn_implementation = attn_implementation

    def get_output_embeddings(self) -> nn.Linear | None:
        """Return the decoder of words, (vocab, hidden), or None in models without one."""
        predictions = getattr(getattr(self, "cls", None), "predictions", None)
        return getattr(predictions, "decoder", None)

    def set_output_embeddings(self: Any, new_embeddings: nn.Linear) -> None:
        """Replace the decoder of words and its bias.

        Args:
            new_embeddings: A linear layer with weights (vocab, hidden) and a bias (vocab).
        """
        self.cls.predictions.decoder = new_embeddings
        self.cls.predictions.bias = new_embeddings.bias

    def get_input_embeddings(self) -> nn.Embedding:
        """Return the word embeddings, (vocab, hidden).

        Raises:
            NotImplementedError: The model does not have exactly one table of them.
        """
        embeddings = getattr(self.base_model, "embeddings", None)
        if embeddings is None:
            raise NotImplementedError(
                f"{type(self).__name__} has no attribute {self.base_model_prefix!r} with word "
                "embeddings: define get_input_embeddings() and set_input_embeddings(value) in it."
            )
        return embeddings.word_embeddings

    def set_input_embeddings(self, value: nn.Module) -> None:
        """Replace the word embeddings, and their tensor in a tied decoder.

        Args:
            value: `nn.Embedding` (vocab, hidden), or any module that takes ids.
        """
        from minibert.compat.resizing import fit_decoder

        old = self.get_input_embeddings()
        self.base_model.embeddings.word_embeddings = value
        rows: Any = getattr(value, "num_embeddings", None)
        if rows is not None:
            self.config.vocab_size = self.vocab_size = self.base_model.vocab_size = rows
        fit_decoder(self, old, value)

    def resize_token_embeddings(
        self,
        new_num_tokens: int | None = None,
        pad_to_multiple_of: int | None = None,
        mean_resizing: bool = True,
    ) -> nn.Embedding:
        """Remove words at the end, or add some for a tokenizer with added tokens.

        Args:
            new_num_tokens: Number of rows, `len(tokenizer)`. None: as many as now.
            pad_to_multiple_of: Round it up to a multiple, for processors that are faster then.
            mean_resizing: Draw new words around the mean of the old ones. False: as for
                pre-training.

        Returns:
            The word embeddings.

        Raises:
            ValueError: Not a whole number, or the row of the padding token would be removed.
        """
        from minibert.compat.resizing import fit_decoder, resized_embeddings

        old = self.get_input_embeddings()
        std = None if mean_resizing else self.config.initializer_range
        new = resized_embeddings(old, new_num_tokens, pad_to_multiple_of, std)
        if new is not old:
            fit_decoder(self, old, new, std)
            self.set_input_embeddings(new)
        return self.get_input_embeddings()

    def get_position_embeddings(self) -> NoReturn:
        """Raise a NotImplementedError, as in transformers, that says where the positions are."""
        raise NotImplementedError(
            "The positions of a BERT are model.base_model.embeddings.position_embeddings. A longer "
            "nn.Embedding assigned there, and config.max_position_embeddings, make longer rows."
        )

    def resize_position_embeddings(self, new_num_position_embeddings: int) -> NoReturn:
        """Raise the error of `get_position_embeddings`."""
        self.get_position_embeddings()

    def enable_input_require_grads(self) -> None:
        """Give frozen word embeddings gradients, for adapters under gradient checkpointing."""
        self.disable_input_require_grads()
        hook = self.get_input_embeddings().register_forward_hook(_require_grad)
        vars(self)["_input_require_grads"] = hook

    def disable_input_require_grads(self) -> None:
        """Undo `enable_input_require_grads`."""
        hook = vars(self).pop("_input_require_grads", None)
        if hook is not None:
            hook.remove()

    def add_adapter(self, *_: Any, **__: Any) -> NoReturn:
        """Raise a ValueError that names peft, which has the adapters."""
        raise ValueError(
            "minibert has no adapters of its own: peft.get_peft_model(model, config) adds one, and "
            "peft.PeftModel.from_pretrained(model, folder) loads one."
        )

    load_adapter = set_adapter = enable_adapters = disable_adapters = add_adapter
    active_adapters = delete_adapter = get_adapter_state_dict = add_adapter

    def push_to_hub(self, *_: Any, **__: Any) -> None:
        """Raise a ValueError that names the Hub's own tool for uploads."""
        raise ValueError(
            "minibert uploads nothing: save_pretrained(folder), then `hf upload NAME folder`."
        )


def _encoders(model: nn.Module) -> list[Any]:
    return [module for module in model.modules() if hasattr(module, "gradient_checkpointing")]


def _require_grad(_: nn.Module, __: Any, output: Tensor) -> None:
    """A function instead of a method, so that models can be pickled."""
    output.requires_grad_(True)
