"""The encoder: L layers, each attention and then a feed-forward network.

Devlin et al. 2019, section 3, "Model Architecture". Vaswani et al. 2017, sections 3.1 and 3.3.

    a      = LayerNorm(h + attention(h))              BertAttention, of all tokens of a sequence
    next h = LayerNorm(a + W2 GELU(W1 a + b1) + b2)   BertIntermediate and BertOutput, of each token

Both halves of a layer compute a change that is added to their input, the residual connection
(He et al. 2016). In training, dropout first sets some numbers of the change to 0. A state is
refined instead of rebuilt, and on the way back to the first layer, gradients pass every LayerNorm,
but can go around every matrix. LayerNorm follows the addition ("post-LN"), where most later models
normalize the input of each half. The layers have equal shapes, and weights of their own.

Next file: model.py.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from minibert import inputs
from minibert.attention import ATTENTION_FUNCTIONS, AttentionFunction, BertAttention
from minibert.compat.model_parts import LayerAttributes
from minibert.config import ACTIVATIONS as ACTIVATIONS, BertConfig
from minibert.layouts import UNMASKED, Layout
from minibert.outputs import BertModelOutput
from minibert.parts import call, own_part


def gelu_new(x: Tensor) -> Tensor:
    """GELU by tanh, as `gelu` in google-research/bert computes it.

    Hendrycks and Gimpel 2016, section 2. It is one expression, as in transformers: autograd adds up
    the gradients of `x` in the order of its operations, on which the last bits depend.
    """
    return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x.pow(3.0))))


# config.py has their names, because a config needs no torch. A function of your own can be added.
ACTIVATIONS.update(
    gelu=F.gelu,  # by erf, which nearly all configs of BERT name
    gelu_new=gelu_new,
    gelu_pytorch_tanh=partial(F.gelu, approximate="tanh"),  # gelu_new by PyTorch's own kernel
    relu=F.relu,
    silu=F.silu,
    swish=F.silu,
    tanh=torch.tanh,
)


class Activation(nn.Module):
    """A function of `ACTIVATIONS` as a module, so that it can have hooks and be replaced.

    Args:
        name: The key of the function.
    """

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def forward(self, x: Tensor) -> Tensor:
        """Apply the function to every number of `x`, of any shape."""
        return ACTIVATIONS[self.name](x)

    def extra_repr(self) -> str:
        """Return the name of the function."""
        return self.name


class BertIntermediate(nn.Module):
    """The first half of the feed-forward network: widen, then the activation.

    Vaswani et al. 2017, equation 2, with GELU for max(0, x): GELU(x) = x P(Z <= x), for Z from the
    standard normal distribution.
    """

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.intermediate_size)
        self.intermediate_act_fn = Activation(config.hidden_act)

    def forward(self, hidden_states: Tensor) -> Tensor:
        """Widen every token: (..., hidden) to (..., intermediate)."""
        hidden_states = self.dense(hidden_states)  # (..., intermediate)
        return self.intermediate_act_fn(hidden_states)


class BertOutput(nn.Module):
    """The second half of the feed-forward network: narrow, add the residual, normalize.

    Compare `BertSelfOutput` in attention.py: only the input of `dense` is wider here.
    """

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.intermediate_size, config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, hidden_states: Tensor, input_tensor: Tensor) -> Tensor:
        """Narrow every token and add what went into the feed-forward network.

        Args:
            hidden_states: (..., intermediate).
            input_tensor: The residual, (..., hidden).

        Returns:
            (..., hidden).
        """
        hidden_states = self.dense(hidden_states)  # (..., hidden)
        hidden_states = self.dropout(hidden_states)
        return self.LayerNorm(hidden_states + input_tensor)


class BertLayer(LayerAttributes):
    """One encoder layer."""

    def __init__(self, config: BertConfig, **unused: Any) -> None:
        super().__init__(**unused)
        self.attention = BertAttention(config)
        self.intermediate = BertIntermediate(config)
        self.output = BertOutput(config)

    @own_part
    def forward(
        self,
        hidden_states: Tensor,
        layout: Layout = UNMASKED,
        *,
        attend: AttentionFunction | None = None,
        attentions: list[Tensor] | None = None,
    ) -> Tensor:
        """Compute the next hidden states.

        Args:
            hidden_states: (batch, seq, hidden), or (tokens, hidden) when packed.
            layout: Where sequences begin and end, or an attention mask.
            attend: The attention function. None: `config.attn_implementation` names it.
            attentions: A list to which the attention probabilities are appended, if `attend`
                returns any: a layer returns hidden states alone, as in transformers.

        Returns:
            Hidden states of the same shape.
        """
        attention_output, probabilities = call(self.attention, hidden_states, layout, attend=attend)
        if attentions is not None and probabilities is not None:
            attentions.append(probabilities)
        return self.feed_forward_chunk(attention_output)

    def feed_forward_chunk(self, attention_output: Tensor) -> Tensor:
        """Compute the second half of the layer, of tokens that need not be neighbors.

        The name is that of transformers, where it can compute the tokens in chunks.

        Args:
            attention_output: (..., hidden).

        Returns:
            (..., hidden).
        """
        intermediate_output = self.intermediate(attention_output)  # (..., intermediate)
        return self.output(intermediate_output, attention_output)


class BertEncoder(nn.Module):
    """The stack of layers."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.config = config
        self.layer = nn.ModuleList([BertLayer(config) for _ in range(config.num_hidden_layers)])
        self.gradient_checkpointing = bool(config.gradient_checkpointing)

    @own_part
    def forward(
        self,
        hidden_states: Tensor,
        layout: Layout = UNMASKED,
        *,
        attend: AttentionFunction | None = None,
        output_hidden_states: bool = False,
        output_attentions: bool = False,
    ) -> BertModelOutput:
        """Run every layer.

        Args:
            hidden_states: The embeddings h0, (batch, seq, hidden), or (tokens, hidden) when packed.
            layout: Where sequences begin and end, or an attention mask.
            attend: The attention function. None: `config.attn_implementation` names it.
            output_hidden_states: Return h0 and the output of every layer.
            output_attentions: Return the attention probabilities of every layer, which
                `eager_attention` has and `sdpa_attention` has not.

        Returns:
            A `BertModelOutput` without `pooler_output`.

        Raises:
            ValueError: Attention probabilities that `attend` or a custom layer does not return.
        """
        attend = attend or ATTENTION_FUNCTIONS[self.config.attn_implementation]
        attentions: list[Tensor] | None = [] if output_attentions else None
        states = [hidden_states]
        run: Callable[..., Tensor] = call
        if self.gradient_checkpointing and self.training:
            # Keep only the input of each layer, and compute the layer again for its gradient
            # (Chen et al. 2016).
            run = partial(checkpoint, call, use_reentrant=False)
        for layer in self.layer:
            hidden_states = run(layer, hidden_states, layout, attend=attend, attentions=attentions)
            if output_hidden_states:
                states.append(hidden_states)
        if attentions is not None:
            inputs.check_attentions(attentions, len(self.layer))
        return BertModelOutput(
            last_hidden_state=hidden_states,
            hidden_states=tuple(states) if output_hidden_states else None,
            attentions=None if attentions is None else tuple(attentions),
        )
