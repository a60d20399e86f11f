"""Outputs of the models: named tensors that can also be indexed and unpacked.

```python
out.last_hidden_state                     # by name
out["last_hidden_state"], out[0]          # by key or number
out.keys()                                # the names of what is there
last_hidden_state, pooler_output = out    # by unpacking what is there: iterating gives values, not names
```
"""

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from minibert.compat.outputs import ModelOutput

# every model gives it; None, like all that is absent, only until it is set
ALWAYS_THERE: Any = None


@dataclass
class BertModelOutput(ModelOutput):
    """Output of `BertModel`.

    Attributes:
        last_hidden_state: the last layer's hidden states, (batch, seq, hidden).
        pooler_output: the [CLS] state after the pooler's linear layer and tanh, (batch, hidden). Not the [CLS]
            state itself: that is `last_hidden_state[:, 0]`.
        hidden_states: embeddings and every layer's result, `num_hidden_layers + 1` times (batch, seq, hidden).
        attentions: every layer's attention probabilities, (batch, heads, seq, seq) each.
    """

    last_hidden_state: Tensor = ALWAYS_THERE
    pooler_output: Tensor | None = None
    hidden_states: tuple[Tensor, ...] | None = None
    attentions: tuple[Tensor, ...] | None = None


@dataclass
class PreTrainingOutput(ModelOutput):
    """Output of `BertForPreTraining`: MLM logits (batch, seq, vocab) and NSP logits (batch, 2)."""

    loss: Tensor | None = None
    prediction_logits: Tensor = ALWAYS_THERE
    seq_relationship_logits: Tensor = ALWAYS_THERE
    hidden_states: tuple[Tensor, ...] | None = None
    attentions: tuple[Tensor, ...] | None = None


@dataclass
class LogitsOutput(ModelOutput):
    """Output of the heads with one kind of logits; their shape is in the head's docstring."""

    loss: Tensor | None = None
    logits: Tensor = ALWAYS_THERE
    hidden_states: tuple[Tensor, ...] | None = None
    attentions: tuple[Tensor, ...] | None = None


@dataclass
class QuestionAnsweringOutput(ModelOutput):
    """Output of `BertForQuestionAnswering`: logits of each token starting and ending the answer, (batch, seq)."""

    loss: Tensor | None = None
    start_logits: Tensor = ALWAYS_THERE
    end_logits: Tensor = ALWAYS_THERE
    hidden_states: tuple[Tensor, ...] | None = None
    attentions: tuple[Tensor, ...] | None = None
