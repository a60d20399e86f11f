"""BertModel: embeddings, encoder and pooler (Devlin et al. 2019, section 3).

The reading path, one file each:

    tokenization/wordpiece.py -> layouts.py -> embeddings.py -> attention.py -> encoder.py
    -> model.py -> losses.py -> heads.py

config.py has the sizes, inputs the checks of what is passed, parts the calls of parts, and
base.py what all models share. None of them is needed to understand BERT.

`call`, `call_embeddings` and `call_pooler` are the calls of a part. They look at every call whose
`forward` it has, because tools assign one to a module or to its class at any time, also after a
copy.

References in all of them:

    Devlin et al. 2019    "BERT: Pre-training of Deep Bidirectional Transformers ..."
    Vaswani et al. 2017   "Attention Is All You Need"
    google-research/bert  the original code, `modeling.py`

Parameter names are those of checkpoints for PyTorch. Old ones call the weight and the bias of
LayerNorm gamma and beta, which loading renames.

Shapes in all of them: `batch` sequences of `seq` tokens, or all `tokens` of a packed batch in a
row. Further sizes are `hidden` = hidden_size = heads * head_size, `intermediate` =
intermediate_size and `vocab` = vocab_size.

Next file: losses.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from torch import Tensor, nn

from minibert.attention import ATTENTION_FUNCTIONS, BertSelfAttention
from minibert.base import PreTrainedModel, use_one_thread_after_fork
from minibert.config import BertConfig
from minibert.embeddings import BertEmbeddings
from minibert.encoder import BertEncoder, BertLayer
from minibert.initialization import initial_weights
from minibert.inputs import check_batch, check_outputs
from minibert.layouts import UNMASKED, Layout
from minibert.outputs import BertModelOutput, to_output
from minibert.parts import call, call_embeddings, call_pooler, make_layout, own

if TYPE_CHECKING:
    from minibert.compat.model_parts import UnusedArguments


class BertPooler(nn.Module):
    """A linear layer and tanh on the [CLS] state, trained by next-sentence prediction.

    pooler_output = tanh(W h_[CLS] + b)

    Devlin et al. 2019, section 3.1, task 2, and `pooled_output` in google-research/bert. The output
    is not the [CLS] state, which is the input of this layer, `last_hidden_state[:, 0]`.
    """

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.activation = nn.Tanh()

    @own
    def forward(self, hidden_states: Tensor, layout: Layout = UNMASKED) -> Tensor:
        """Pool sequences: (batch, seq, hidden) to (batch, hidden), from -1 to 1."""
        first_tokens = layout.first_tokens(hidden_states)  # (batch, hidden)
        return self.activation(self.dense(first_tokens))


class BertModel(PreTrainedModel):
    """The BERT encoder: token ids in, a hidden state for every token out.

    Args:
        config: The sizes. Weights are initialized as for pre-training (normal,
            `initializer_range`).
        add_pooling_layer: False leaves out the pooler, and `pooler_output` is None.
    """

    def __init__(self, config: BertConfig, add_pooling_layer: bool = True) -> None:
        super().__init__(config)
        with initial_weights(self):  # drawn anew, unless a checkpoint is loaded
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
            attention_mask: 1 for tokens to attend to, 0 for padding, (batch, seq), or another mask
                that `PaddedLayout` takes. None: attend to everything.
            token_type_ids: Segment of each token, like `input_ids`, or (1, seq) or (seq,) for all
                sequences. None: all 0.
            position_ids: Position of each token, in the same shapes. None: 0, 1, 2, ... in each
                sequence.
            inputs_embeds: Word embeddings instead of `input_ids`, (batch, seq, hidden), or
                (tokens, hidden) with a `PackedLayout`.
            output_hidden_states: Return h0 (the embeddings) and the hidden states of every layer.
                None: as the config says.
            output_attentions: Return the attention probabilities of every layer. "sdpa" has none,
                so "eager" takes its place, and the last bits may differ. None: as the config says.
                Not for a `PackedLayout`.
            return_dict: False returns a plain tuple. None: as the config says.
            layout: Where sequences begin and end, instead of `attention_mask`. A `PackedLayout` is
                for sequences one after another without padding.
            unused: Further arguments of transformers. They have no effect, or raise an error.

        Returns:
            A `BertModelOutput`, or its values as a tuple. With a `PackedLayout` its hidden states
            are (tokens, hidden).

        Raises:
            ValueError: Neither or both of `input_ids` and `inputs_embeds` are passed, or both
                `layout` and `attention_mask`. A tensor has the wrong shape or dtype, an id has no
                row in its embedding table, or a sequence without `position_ids` is longer than
                `max_position_embeddings`. `output_hidden_states` is not a boolean. Attention
                probabilities of a packed batch.
            TypeError: An unknown argument.
        """
        use_one_thread_after_fork()  # or workers of a DataLoader would wait forever
        if output_hidden_states is None:
            output_hidden_states = self.config.output_hidden_states
        if output_attentions is None:
            output_attentions = self.config.output_attentions
        # "sdpa" has no probabilities. A function of a user's own may have some.
        takes_eager = output_attentions and self.config.attn_implementation == "sdpa"
        attention = "eager" if takes_eager else self.config.attn_implementation
        layout = make_layout(layout, attention_mask)
        check_batch(self.config, layout, input_ids, inputs_embeds, unused)
        check_outputs(layout, output_hidden_states, output_attentions)

        # Each of the next three is the call of a part: self.embeddings(...), and so on.
        hidden_states = call_embeddings(
            self.embeddings, layout, input_ids, token_type_ids, position_ids, inputs_embeds
        )  # (batch, seq, hidden) or (tokens, hidden)
        output: BertModelOutput = call(
            self.encoder,
            hidden_states,
            layout,
            attend=ATTENTION_FUNCTIONS[attention],
            output_hidden_states=output_hidden_states,
            output_attentions=output_attentions,
        )
        if self.pooler is not None:
            output.pooler_output = call_pooler(self.pooler, output.last_hidden_state, layout)
        return to_output(output, return_dict, self.config)

    if TYPE_CHECKING:  # so that type checkers know the arguments and the output of `model(...)`
        __call__ = forward


PreTrainedModel._can_record_outputs.update(hidden_states=BertLayer, attentions=BertSelfAttention)
