"""BertModel = embeddings + encoder + tanh pooler.

The reading path, one short file each:

    tokenization/ -> embeddings.py -> layouts.py -> attention.py -> encoder.py -> model.py -> losses.py -> heads.py

References: Devlin et al. 2019, "BERT: Pre-training of Deep Bidirectional Transformers" (the paper);
google-research/bert `modeling.py`; the parameter names are those of the official checkpoints. A shape legend for
every file: `batch` sequences of `seq` tokens, or `tokens` of all sequences in a row when packed; `hidden` =
hidden_size = heads x head_size; `intermediate` = intermediate_size; `vocab` = vocab_size.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from minibert.attention import ATTENTION_FUNCTIONS
from minibert.compat.model import UnusedArguments, refuse_arguments
from minibert.config import BertConfig
from minibert.embeddings import BertEmbeddings
from minibert.encoder import BertEncoder
from minibert.layouts import UNMASKED, Layout, PackedLayout, PaddedLayout
from minibert.outputs import BertModelOutput
from minibert.pretrained import PreTrainedModel

if TYPE_CHECKING:
    from typing_extensions import Unpack


class BertPooler(nn.Module):
    """A linear layer and tanh on the [CLS] state, trained with next-sentence prediction.

    Its output is not the [CLS] state: that is `last_hidden_state[:, 0]`, before this layer.
    """

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)

    def forward(self, hidden_states: Tensor, layout: Layout = UNMASKED) -> Tensor:
        """(batch, seq, hidden), or as the layout has them, to (batch, hidden); every number between -1 and 1."""
        return torch.tanh(self.dense(layout.first_tokens(hidden_states)))


class ForwardOptions(UnusedArguments, total=False):
    """Keywords that every `forward` takes beside its tensors, see `BertModel.forward`."""

    output_hidden_states: bool | None
    output_attentions: bool | None
    return_dict: bool | None
    layout: Layout | None


class BertModel(PreTrainedModel):
    """The BERT encoder: token ids in, a hidden state for every token out.

    Args:
        config: sizes; weights start as BERT's pre-training did (normal, `initializer_range`).
        add_pooling_layer: False leaves the pooler out, and `pooler_output` is None.
    """

    def __init__(self, config: BertConfig, add_pooling_layer: bool = True) -> None:
        super().__init__(config)
        self.embeddings = BertEmbeddings(config)
        self.encoder = BertEncoder(config)
        self.pooler = BertPooler(config) if add_pooling_layer else None
        self.init_weights()

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        output_hidden_states: bool | None = None,
        output_attentions: bool | None = None,
        return_dict: bool | None = None,
        layout: Layout | None = None,
        **unused: Unpack[UnusedArguments],
    ) -> BertModelOutput:
        """Encodes a batch.

        Args:
            input_ids: ids of the tokens, (batch, seq); (tokens,) with a `PackedLayout`.
            attention_mask: 1 for tokens to attend to, 0 for padding, (batch, seq); (batch, seq, seq) for every pair
                of query and key. None: attend to everything.
            token_type_ids: segment of each token, like `input_ids`. None: all 0.
            position_ids: position of each token, like `input_ids` or (seq,). None: counted from 0.
            inputs_embeds: word embeddings in place of `input_ids`, (batch, seq, hidden).
            output_hidden_states: return embeddings and every layer's hidden states. None: as the config says.
            output_attentions: return every layer's attention probabilities. They come from the eager attention,
                whatever the config names, so the last bits may differ from a call without. None: as the config says.
            return_dict: False returns a plain tuple. None: as the config says.
            layout: where sequences begin and end, instead of `attention_mask`; `PackedLayout` for sequences in a row
                without padding.
            unused: what the reference's decoders take; without effect, or refused.

        Returns:
            A `BertModelOutput`, or its tuple with `return_dict=False`; with a `PackedLayout` its hidden states are
            (tokens, hidden).

        Raises:
            ValueError: neither or both of `input_ids` and `inputs_embeds`, an id without a row in its embedding, or a
                sequence longer than `max_position_embeddings`.
        """
        if unused:
            refuse_arguments(self, unused)
        keep_states = (
            self.config.output_hidden_states
            if output_hidden_states is None
            else output_hidden_states
        )
        keep_maps = (
            self.config.output_attentions if output_attentions is None else output_attentions
        )
        attend = ATTENTION_FUNCTIONS["eager" if keep_maps else self.config.attn_implementation]
        layout = _checked_layout(self, input_ids, inputs_embeds, attention_mask, layout, keep_maps)
        if isinstance(layout, PackedLayout) and len(layout.lengths) > 1 and position_ids is None:
            position_ids = layout.position_ids(self.device)

        hidden_states = self.embeddings(input_ids, token_type_ids, position_ids, inputs_embeds)
        output: BertModelOutput = self.encoder(
            hidden_states, layout, attend, keep_states, keep_maps
        )
        if self.pooler is not None:
            output.pooler_output = self.pooler(output.last_hidden_state, layout)
        return self.to_output(output, return_dict)

    if TYPE_CHECKING:
        __call__ = forward


def _checked_layout(
    model: BertModel,
    input_ids: Any,
    inputs_embeds: Any,
    mask: Tensor | None,
    layout: Layout | None,
    keep_maps: bool,
) -> Layout:
    """The layout of a batch that can be computed; `BertModel.forward` says what is refused."""
    if (input_ids is None) == (inputs_embeds is None):
        raise ValueError("BertModel takes exactly one of input_ids and inputs_embeds.")
    if layout is not None and mask is not None:
        raise ValueError(
            "BertModel takes attention_mask or layout, not both: a layout says where sequences end."
        )
    layout = PaddedLayout(mask) if layout is None else layout
    if isinstance(layout, PackedLayout) and keep_maps:
        raise ValueError(
            "output_attentions needs a padded batch: packed sequences have maps of different sizes."
        )
    if layout.mask is not None and layout.mask.shape[1] not in (
        1,
        heads := model.config.num_attention_heads,
    ):
        raise ValueError(
            f"attention_mask is for {layout.mask.shape[1]} heads, but the model has {heads}."
        )
    if isinstance(input_ids, Tensor):
        layout.check(input_ids.shape)
    elif input_ids is None:  # if it is something else, the embeddings say so
        wanted = f"{model.dtype} of shape (batch, seq, {model.config.hidden_size})"
        if not isinstance(inputs_embeds, Tensor):
            raise ValueError(
                f"inputs_embeds should be {wanted}, not {type(inputs_embeds).__name__}."
            )
        kind, shape = inputs_embeds.dtype, tuple(inputs_embeds.shape)
        casts = torch.promote_types(kind, model.dtype) == model.dtype or torch.is_autocast_enabled(
            model.device.type
        )
        if shape[-1:] != (model.config.hidden_size,) or not kind.is_floating_point or not casts:
            raise ValueError(f"inputs_embeds should be {wanted}, not {kind} of shape {shape}.")
        layout.check(inputs_embeds.shape[:-1])
    return layout
