"""Outputs of the models: named tensors that can also be indexed and unpacked.

```python
out.last_hidden_state                     # by name
out["last_hidden_state"], out[0]          # by key or index
out.keys()                                # the names of all values that are not None
last_hidden_state, pooler_output = out    # by unpacking: iterating gives values, not names
```
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

from torch import Tensor

from minibert.compat.output_mapping import ModelOutput as ModelOutput
from minibert.config import BertConfig

Output = TypeVar("Output", bound=ModelOutput)


def to_output(output: Output, return_dict: bool | None, config: BertConfig) -> Output:
    """Return an output in the form that the caller asks for.

    Args:
        output: The output of a model.
        return_dict: False for a plain tuple. None: as the config says.
        config: Config of the model.

    Returns:
        The output itself, or its values as a tuple.
    """
    if return_dict is None:
        return_dict = config.use_return_dict
    if return_dict:
        return output
    return output.to_tuple()  # type: ignore[return-value]


# The default of fields that every model fills in. Typed as Any, so that users need not check for
# None.
ALWAYS_THERE: Any = None


@dataclass
class BertModelOutput(ModelOutput):
    """Output of `BertModel`.

    Attributes:
        last_hidden_state: Hidden states of the last layer, (batch, seq, hidden).
        pooler_output: The [CLS] state after the linear layer and tanh of the pooler,
            (batch, hidden). The [CLS] state itself is `last_hidden_state[:, 0]`.
        hidden_states: h0 (the embeddings) to hL, `num_hidden_layers + 1` tensors
            (batch, seq, hidden).
        attentions: Attention probabilities of each layer, (batch, heads, seq, seq).
    """

    last_hidden_state: Tensor = ALWAYS_THERE
    pooler_output: Tensor | None = None
    hidden_states: tuple[Tensor, ...] | None = None
    attentions: tuple[Tensor, ...] | None = None


@dataclass
class PreTrainingOutput(ModelOutput):
    """Output of `BertForPreTraining`.

    Attributes:
        loss: Sum of both losses, if both kinds of labels are passed.
        prediction_logits: Scores of the words, (batch, seq, vocab).
        seq_relationship_logits: Scores of next-sentence prediction, (batch, 2).
        hidden_states: As in `BertModelOutput`.
        attentions: As in `BertModelOutput`.
    """

    loss: Tensor | None = None
    prediction_logits: Tensor = ALWAYS_THERE
    seq_relationship_logits: Tensor = ALWAYS_THERE
    hidden_states: tuple[Tensor, ...] | None = None
    attentions: tuple[Tensor, ...] | None = None


@dataclass
class LogitsOutput(ModelOutput):
    """Output of the heads with one kind of logits.

    Attributes:
        loss: A single number, if labels are passed.
        logits: Scores, in the shape that the docstring of the head names.
        hidden_states: As in `BertModelOutput`.
        attentions: As in `BertModelOutput`.
    """

    loss: Tensor | None = None
    logits: Tensor = ALWAYS_THERE
    hidden_states: tuple[Tensor, ...] | None = None
    attentions: tuple[Tensor, ...] | None = None


@dataclass
class QuestionAnsweringOutput(ModelOutput):
    """Output of `BertForQuestionAnswering`.

    Attributes:
        loss: A single number, if both kinds of positions are passed.
        start_logits: Score of each token as the first of the answer, (batch, seq).
        end_logits: Score of each token as the last of the answer, (batch, seq).
        hidden_states: As in `BertModelOutput`.
        attentions: As in `BertModelOutput`.
    """

    loss: Tensor | None = None
    start_logits: Tensor = ALWAYS_THERE
    end_logits: Tensor = ALWAYS_THERE
    hidden_states: tuple[Tensor, ...] | None = None
    attentions: tuple[Tensor, ...] | None = None
