"""BertModel: embeddings, encoder and pooler (Devlin et al. 2019, section 3).

The reading path, one short file each, starts with config.py and the tokenizer:

    config.py -> tokenization/ -> layouts.py -> embeddings.py -> attention.py -> encoder.py
    -> model.py -> losses.py -> heads.py -> outputs.py

References in all of them:

    Devlin et al. 2019    "BERT: Pre-training of Deep Bidirectional Transformers ..."
    Vaswani et al. 2017   "Attention Is All You Need"
    google-research/bert  the original code, `modeling.py`

Parameter names are those of the official checkpoints.

Shapes in all of them: `batch` sequences of `seq` tokens, or all `tokens` of a packed batch in a
row. Further sizes are `hidden` = hidden_size = heads * head_size, `intermediate` =
intermediate_size and `vocab` = vocab_size.

Next file: losses.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import torch
from torch import Tensor, nn

from minibert.attention import ATTENTION_FUNCTIONS
from minibert.base import PreTrainedModel, use_one_thread_after_fork
from minibert.config import BertConfig
from minibert.embeddings import BertEmbeddings
from minibert.encoder import BertEncoder
from minibert.initialization import initial_weights
from minibert.layouts import Layout, PackedLayout, PaddedLayout
from minibert.outputs import BertModelOutput, to_output


class BertPooler(nn.Module):
    """A linear layer and tanh on the [CLS] state, trained by next-sentence prediction.

    Devlin et al. 2019, section 3.1, task 2, and `pooled_output` in google-research/bert. The output
    is not the [CLS] state, which is the input of this layer, `last_hidden_state[:, 0]`.
    """

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.activation = nn.Tanh()

    def forward(self, hidden_states: Tensor) -> Tensor:
        """Pool sequences: (batch, seq, hidden) to (batch, hidden), from -1 to 1."""
        first_token = hidden_states[:, 0]  # (batch, hidden)
        pooled_output: Tensor = self.activation(self.dense(first_token))
        return pooled_output


class UnusedArguments(TypedDict, total=False):
    """Arguments that tools for transformers pass, accepted as long as they ask for nothing."""

    use_cache: bool | None
    past_key_values: None
    encoder_hidden_states: None
    encoder_attention_mask: None
    num_items_in_batch: Any
    head_mask: None


class ForwardOptions(UnusedArguments, total=False):
    """Keywords that the `forward` of every head passes on to `BertModel.forward`."""

    output_hidden_states: bool | None
    output_attentions: bool | None
    return_dict: bool | None
    layout: Layout | None


class BertModel(PreTrainedModel):
    """The BERT encoder: token ids in, a hidden state for every token out.

    Args:
        config: The sizes. Weights are initialized as for pre-training (normal,
            `initializer_range`).
        add_pooling_layer: False leaves out the pooler, and `pooler_output` is None.
    """

    def __init__(self, config: BertConfig, add_pooling_layer: bool = True) -> None:
        super().__init__(config)
        with initial_weights(self):
            self.embeddings = BertEmbeddings(self.config)
            self.encoder = BertEncoder(self.config)
            self.pooler = BertPooler(self.config) if add_pooling_layer else None

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
        """Encode a batch.

        Args:
            input_ids: Ids of the tokens, (batch, seq), or (tokens,) with a `PackedLayout`.
            attention_mask: 1 for tokens to attend to, 0 for padding, (batch, seq), or
                (batch, seq, seq) for every pair of query and key. None: attend to everything.
            token_type_ids: Segment of each token, like `input_ids`. None: all 0.
            position_ids: Position of each token, like `input_ids` or (seq,). None: 0, 1, 2, ... in
                each sequence.
            inputs_embeds: Word embeddings instead of `input_ids`, (batch, seq, hidden).
            output_hidden_states: Return h0 (the embeddings) and the hidden states of every layer.
                None: as the config says.
            output_attentions: Return the attention probabilities of every layer. This uses eager
                attention, whatever the config names, so the last bits may differ. None: as the
                config says.
            return_dict: False returns a plain tuple. None: as the config says.
            layout: Where sequences begin and end, instead of `attention_mask`. A `PackedLayout` is
                for sequences one after another without padding.
            unused: Further arguments of transformers. They have no effect, or raise an error.

        Returns:
            A `BertModelOutput`, or its values as a tuple. With a `PackedLayout` its hidden states
            are (tokens, hidden).

        Raises:
            ValueError: Neither or both of `input_ids` and `inputs_embeds` are passed, a tensor has
                the wrong shape or dtype, an id has no row in its embedding table, or a sequence is
                longer than `max_position_embeddings`.
            TypeError: An unknown argument.
        """
        if unused:
            self.check_unused(unused)
        if not torch.compiler.is_compiling():
            use_one_thread_after_fork()
        if output_hidden_states is None:
            output_hidden_states = self.config.output_hidden_states
        if output_attentions is None:
            output_attentions = self.config.output_attentions
        attention = "eager" if output_attentions else self.config.attn_implementation

        layout = make_layout(layout, attention_mask, self.config, output_attentions)
        check_inputs(input_ids, inputs_embeds, layout)
        if inputs_embeds is not None:
            check_embeddings(inputs_embeds, self)
        # The positions of a single sequence are those that the embeddings use anyway.
        if isinstance(layout, PackedLayout) and len(layout.lengths) > 1 and position_ids is None:
            position_ids = layout.position_ids(self.device)  # (tokens,)

        hidden_states = self.embeddings(
            input_ids=input_ids,
            token_type_ids=token_type_ids,
            position_ids=position_ids,
            inputs_embeds=inputs_embeds,
        )  # (batch, seq, hidden) or (tokens, hidden)
        output: BertModelOutput = self.encoder(
            hidden_states,
            layout,
            ATTENTION_FUNCTIONS[attention],
            output_hidden_states=output_hidden_states,
            output_attentions=output_attentions,
        )
        if self.pooler is not None:
            output.pooler_output = self._pool(output.last_hidden_state, layout)
        return to_output(output, return_dict, self.config)

    if TYPE_CHECKING:  # so that type checkers know the arguments and the output of `model(...)`
        __call__ = forward

    def _pool(self, hidden_states: Tensor, layout: Layout) -> Tensor:
        """Run the pooler, whose input is (batch, seq, hidden) whatever the layout."""
        if isinstance(layout, PackedLayout):
            if type(self.pooler) is BertPooler:
                # It uses only the first token of each sequence, so the others need no padding.
                hidden_states = layout.first_tokens(hidden_states)[:, None]  # (batch, 1, hidden)
            else:
                hidden_states = layout.pad(hidden_states)  # (batch, seq, hidden)
        pooled_output: Tensor = self.pooler(hidden_states)  # type: ignore[misc]
        return pooled_output


def make_layout(
    layout: Layout | None,
    attention_mask: Tensor | None,
    config: BertConfig,
    output_attentions: bool,
) -> Layout:
    """Return the layout of a batch.

    Args:
        layout: The layout that was passed to the model.
        attention_mask: The mask that was passed to the model.
        config: Config of the model.
        output_attentions: Whether the attention probabilities are returned.

    Raises:
        ValueError: Both a layout and a mask, a mask for another number of heads, or attention
            probabilities of a packed batch.
    """
    if layout is None:
        layout = PaddedLayout(attention_mask)
    elif attention_mask is not None:
        raise ValueError(
            "BertModel takes attention_mask or layout, not both. Pass "
            "PaddedLayout(attention_mask) or a PackedLayout."
        )
    if isinstance(layout, PackedLayout) and output_attentions:
        raise ValueError(
            "output_attentions needs a padded batch, because the attention probabilities of "
            "packed sequences have different shapes. Pass input_ids (batch, seq) and "
            "attention_mask."
        )
    if layout.mask is not None:
        mask_heads = layout.mask.shape[1]
        heads = config.num_attention_heads
        if mask_heads not in (1, heads):
            raise ValueError(
                f"attention_mask is for {mask_heads} heads, but the model has {heads}."
            )
    return layout


def check_inputs(input_ids: Any, inputs_embeds: Any, layout: Layout) -> None:
    """Check that there is one kind of input, and that its shape fits the layout.

    Raises:
        ValueError: Neither or both kinds of input, or a shape that does not fit.
    """
    if (input_ids is None) == (inputs_embeds is None):
        raise ValueError("BertModel takes exactly one of input_ids and inputs_embeds.")
    # Inputs that are not tensors raise an error later, where they are used.
    if isinstance(input_ids, Tensor):
        layout.check(input_ids.shape, "input_ids")
    if isinstance(inputs_embeds, Tensor):
        layout.check(inputs_embeds.shape[:-1], "inputs_embeds")


def check_embeddings(inputs_embeds: Any, model: BertModel) -> None:
    """Check that `inputs_embeds` can take the place of word embeddings.

    Raises:
        ValueError: Not a tensor, another number of dimensions than `hidden_size`, or a dtype that
            would change that of the results.
    """
    expected = f"{model.dtype} of shape (batch, seq, {model.config.hidden_size})"
    if not isinstance(inputs_embeds, Tensor):
        raise ValueError(
            f"inputs_embeds should be a tensor, {expected}, not {type(inputs_embeds).__name__}."
        )
    dtype = inputs_embeds.dtype
    keeps_dtype = torch.promote_types(dtype, model.dtype) == model.dtype
    has_dtype = keeps_dtype or torch.is_autocast_enabled(model.device.type)
    has_size = inputs_embeds.shape[-1:] == (model.config.hidden_size,)
    if not has_size or not dtype.is_floating_point or not has_dtype:
        raise ValueError(
            f"inputs_embeds should be {expected}, not {dtype} of shape "
            f"{tuple(inputs_embeds.shape)}."
        )
