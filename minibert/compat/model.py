"""The interface that the tools around a model expect of it beyond loading, computing and saving.

A keyword of the reference either does here what it says, is without effect for the reason given beside it, or is
refused in a sentence when its value asks for what is not there.
"""

import copy
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from minibert.checks import check_count
from minibert.compat.keywords import Refused, drop_ignored_keywords

_WITHOUT_EFFECT = {
    "use_cache": "an encoder computes a text once and has nothing to keep, there and here",
    "num_items_in_batch": "the Trainer's count of labels: BERT's losses are means over the batch, there and here",
}
_REFUSED: Refused = {
    "past_key_values": (
        None,
        "it is for decoders, which add words to a text; an encoder computes every text at once.",
    ),
    "encoder_hidden_states": (
        None,
        "it is for decoders with cross-attention; minibert is an encoder.",
    ),
    "encoder_attention_mask": (
        None,
        "it is for decoders with cross-attention; minibert is an encoder.",
    ),
    "head_mask": (
        None,
        "nor is it by the reference since version 5; Trace.switch_off_head switches a head off.",
    ),
}


class ModelProtocol:
    """The reference's `PreTrainedModel` in all that is not loading, computing or saving."""

    config: Any
    base_model: Any
    parameters: Callable[..., Iterator[nn.Parameter]]
    tie_weights: Callable[..., None]

    base_model_prefix: ClassVar[str] = "bert"
    transformer_backbone_name: ClassVar[str] = (
        "bert"  # by which peft's PrefixTuning finds a forward that it refuses
    )
    main_input_name: ClassVar[str] = "input_ids"
    input_modalities: ClassVar[tuple[str, ...]] = ("text",)
    supports_gradient_checkpointing: ClassVar[bool] = True
    _no_split_modules: ClassVar[list[str]] = ["BertEmbeddings", "BertLayer"]
    # looked up by tools that choose attention, types of numbers or files for a model
    _supports_sdpa: ClassVar[bool] = True
    _supports_flash_attn = _supports_flex_attn = _is_stateful = False
    _keep_in_fp32_modules = _keep_in_fp32_modules_strict = frozenset[str]()
    _keys_to_ignore_on_save = _keys_to_ignore_on_load_missing = (
        _keys_to_ignore_on_load_unexpected
    ) = None

    @property
    def name_or_path(self) -> str:
        """The name that was passed to `from_pretrained`."""
        name: str = self.config.name_or_path
        return name

    @property
    def _tied_weights_keys(self) -> dict[str, str]:
        """As tools ask for it, see `tied_weights`."""
        return self.tied_weights()

    def tied_weights(self) -> dict[str, str]:
        """Names of parameters that are the same tensor as another: alias to the name it is saved under."""
        return {}

    @property
    def vocab_size(self) -> int:
        """Words of the vocabulary."""
        return self.get_input_embeddings().num_embeddings

    @property
    def is_gradient_checkpointing(self) -> bool:
        """Whether each layer is computed again for its gradient."""
        enabled: bool = self.base_model.encoder.gradient_checkpointing
        return enabled

    is_activation_checkpointing = (
        is_gradient_checkpointing  # the name that replaces it in transformers
    )

    def gradient_checkpointing_enable(
        self,
        gradient_checkpointing_kwargs: dict[str, Any] | None = None,
        every_n_layers: int = 1,
        offload: bool = False,
    ) -> None:
        """Trades time for memory in training: each layer is computed again for its gradient.

        The arguments of `torch.utils.checkpoint` are without effect, as the one way that is used here,
        `use_reentrant=False`, gives the same gradients as the other.

        Raises:
            ValueError: `every_n_layers` other than 1, or `offload=True`.
        """
        if every_n_layers != 1 or offload:
            raise ValueError("Checkpointing takes every_n_layers=1 and offload=False only.")
        self.base_model.encoder.gradient_checkpointing = True

    def activation_checkpointing_enable(
        self, activation_checkpointing_kwargs: dict[str, Any] | None = None, **options: Any
    ) -> None:
        """`gradient_checkpointing_enable` under the name that replaces it in transformers."""
        self.gradient_checkpointing_enable(activation_checkpointing_kwargs, **options)

    def gradient_checkpointing_disable(self) -> None:
        """Keeps what every layer computed, as is usual."""
        self.base_model.encoder.gradient_checkpointing = False

    activation_checkpointing_disable = gradient_checkpointing_disable

    @classmethod
    def can_generate(cls) -> bool:
        """Whether it generates text; an encoder does not."""
        return False

    @classmethod
    def _can_set_attn_implementation(cls) -> bool:
        return True

    def check_unused(self, arguments: Mapping[str, Any]) -> None:
        """Check the arguments of a forward that have no effect here.

        Raises:
            ValueError: the value of an argument asks for something that minibert does not have.
            TypeError: no `forward` has this argument.
        """
        for name in drop_ignored_keywords(arguments, _WITHOUT_EFFECT, _REFUSED):
            raise TypeError(
                f"{type(self).__name__}.forward() got an unexpected keyword argument {name!r}"
            )

    def fit_decoder(self, predictions: Any) -> None:
        """Resize the decoder of a `BertLMPredictionHead` to a vocabulary that has been resized."""
        words = self.get_input_embeddings().num_embeddings
        decoder = predictions.decoder
        if decoder.out_features == words:
            return
        predictions.bias = resized(predictions.bias, words)
        decoder.weight = resized(decoder.weight, words)
        decoder.bias = predictions.bias
        decoder.out_features = words

    def post_init(self) -> None:
        """Does nothing: each part has drawn its weights already; `init_weights(names)` draws those of other layers."""

    def num_parameters(self, only_trainable: bool = False, exclude_embeddings: bool = False) -> int:
        """Number of parameters (single numbers), shared tensors counted once.

        Embeddings, which can be excluded, are those of words, positions and token types.
        """
        tables = [m for m in self.base_model.embeddings.modules() if isinstance(m, nn.Embedding)]
        left_out = {id(table.weight) for table in tables if exclude_embeddings}
        return sum(
            p.numel()
            for p in self.parameters()
            if id(p) not in left_out and (p.requires_grad or not only_trainable)
        )

    def get_memory_footprint(self, return_buffers: bool = True) -> int:
        """Bytes of all parameters; there are no buffers."""
        return sum(p.numel() * p.element_size() for p in self.parameters())

    def floating_point_ops(
        self, input_dict: Mapping[str, Any], exclude_embeddings: bool = True
    ) -> int:
        """A rough number of operations of a training step: 6 for each token and parameter (Kaplan et al. 2020)."""
        tokens = (
            input_dict[self.main_input_name].numel() if self.main_input_name in input_dict else 0
        )
        return 6 * tokens * self.num_parameters(exclude_embeddings=exclude_embeddings)

    def set_attn_implementation(self, attn_implementation: str) -> None:
        """Chooses the attention function, `"sdpa"` or `"eager"`."""
        self.config.attn_implementation = attn_implementation

    def get_output_embeddings(self) -> nn.Linear | None:
        """The decoder of words, (vocab, hidden); None in models without one."""
        return None

    def get_input_embeddings(self) -> nn.Embedding:
        """The word embeddings, (vocab, hidden)."""
        embeddings: nn.Embedding = self.base_model.embeddings.word_embeddings
        return embeddings

    def set_input_embeddings(self, value: nn.Embedding) -> None:
        """Replaces the word embeddings; a tied decoder follows."""
        self.base_model.embeddings.word_embeddings = value
        self.config.vocab_size = value.num_embeddings
        self.tie_weights()

    def resize_token_embeddings(
        self,
        new_num_tokens: int | None = None,
        pad_to_multiple_of: int | None = None,
        mean_resizing: bool = True,
    ) -> nn.Embedding:
        """Cuts words off the end or adds some, for a tokenizer with added tokens.

        Args:
            new_num_tokens: how many words to have, `len(tokenizer)`. None: as many as now.
            pad_to_multiple_of: round this up to a multiple, which some processors like.
            mean_resizing: draw new words around the mean of the old ones. False: as at the start of pre-training.

        Raises:
            ValueError: too few words, as the padding word would be cut off.
        """
        old = self.get_input_embeddings()
        words = old.num_embeddings if new_num_tokens is None else new_num_tokens
        if pad_to_multiple_of is not None:
            check_count("pad_to_multiple_of", pad_to_multiple_of)
            words = -(-words // pad_to_multiple_of) * pad_to_multiple_of
        if words <= (last := old.padding_idx or 0):
            raise ValueError(
                f"vocab_size should be {last + 1} or more, not {words}: number {last} is padding."
            )
        if words != old.num_embeddings:
            new = copy.copy(old)  # the same class and padding
            std = None if mean_resizing else self.config.initializer_range
            vars(new)["_parameters"] = {"weight": resized(old.weight, words, std)}
            new.num_embeddings = words
            self.set_input_embeddings(new)
        return self.get_input_embeddings()

    def enable_input_require_grads(self) -> None:
        """Gives word embeddings gradients although they are frozen, for adapters under gradient checkpointing."""
        self.disable_input_require_grads()
        hook = self.get_input_embeddings().register_forward_hook(_require_grad)
        vars(self)["_input_require_grads"] = hook

    def disable_input_require_grads(self) -> None:
        """Takes back `enable_input_require_grads`."""
        if hook := vars(self).pop("_input_require_grads", None):
            hook.remove()

    def push_to_hub(self, *_: Any, **__: Any) -> None:
        """Refuses: what is saved is uploaded by the Hub's own tool."""
        raise ValueError(
            "minibert uploads nothing: save_pretrained(folder), then `hf upload NAME folder`."
        )


def _require_grad(_: nn.Module, __: Any, output: Tensor) -> None:
    output.requires_grad_(True)


# as in the reference: the covariance of the old rows, scaled by 1e-9
SPREAD = 1e-9**0.5


def resized(rows: Tensor, size: int, std: float | None = None) -> nn.Parameter:
    """A parameter of the first `size` rows, (size, ...); further ones are drawn around the mean.

    So none of the new words stands out before it is trained (Hewitt 2021, "Initializing New Word Embeddings for
    Pretrained Language Models").

    Args:
        rows: (words, ...).
        size: how many rows to have.
        std: draw them with this standard deviation around 0 instead.
    """
    old = rows.detach()
    new = F.pad(old, (0, 0) * (old.dim() - 1) + (0, size - len(old)))  # a negative number cuts
    if (added := new[len(old) :]).numel():
        if std is None and len(old) > 1:
            exact = old.float()
            added.copy_(
                exact.mean(0) + SPREAD * exact.std(0) * torch.randn(added.shape, device=old.device)
            )
        else:
            added.normal_(0.0, std or 0.0)
    return nn.Parameter(new, requires_grad=rows.requires_grad)
