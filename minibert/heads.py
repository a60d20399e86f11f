"""Heads: what BERT was pre-trained for and what it is fine-tuned to do, each a thin layer on `BertModel`.

Every forward takes the arguments of `BertModel.forward` by keyword, `labels`, and returns an output whose first
values are `loss` (with labels) and the logits.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from minibert.checkpoint import WORD_EMBEDDINGS, PreTrainedModel
from minibert.config import BertConfig
from minibert.encoder import ACTIVATIONS
from minibert.layers import LayerNorm, Linear
from minibert.model import BertModel
from minibert.outputs import BertModelOutput, LogitsOutput, PreTrainingOutput, QuestionAnsweringOutput

IGNORED = -100
"""Labels of this value take no part in a loss (`ignore_index` of torch's cross entropy)."""


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Mean of -log softmax(logits)[label] over the labels that are not `IGNORED`.

    Args:
        logits: (..., classes).
        labels: whole numbers from 0 to classes - 1, or `IGNORED`, shape (...).

    Raises:
        ValueError: labels of another shape, of a floating-point type, or out of range.
    """
    if labels.is_floating_point() or labels.dtype == torch.bool:
        raise ValueError(f"labels should be whole numbers (torch.long), not {labels.dtype}.")
    classes = logits.shape[-1]
    if labels.numel() * classes != logits.numel():
        expected, received = tuple(logits.shape[:-1]), tuple(labels.shape)
        raise ValueError(f"labels should be of shape {expected}, not {received}.")
    try:
        return F.cross_entropy(logits.view(-1, classes), labels.reshape(-1).long())
    except IndexError:
        wrong = labels[((labels < 0) | (labels >= classes)) & (labels != IGNORED)][0].item()
        raise ValueError(
            f"labels hold {wrong}, but there are {classes} classes (0 to {classes - 1}): set num_labels to what your "
            "data has."
        ) from None


def regression_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Mean squared error; both (batch, num_labels), or (batch,) where there is one label."""
    if labels.numel() != logits.numel():
        raise ValueError(f"labels should be of shape {tuple(logits.shape)}, not {tuple(labels.shape)}.")
    return F.mse_loss(logits.squeeze(), labels.to(logits.dtype).view_as(logits).squeeze())


def multi_label_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Binary cross entropy of every label on its own; both (batch, num_labels), labels 0.0 to 1.0."""
    if labels.shape != logits.shape:
        raise ValueError(f"labels should be of shape {tuple(logits.shape)}, not {tuple(labels.shape)}.")
    return F.binary_cross_entropy_with_logits(logits, labels.to(logits.dtype))


class BertPredictionHeadTransform(nn.Module):
    """Linear, activation and LayerNorm before the decoder."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.dense = Linear(config.hidden_size, config.hidden_size)
        self.activation = ACTIVATIONS[config.hidden_act]
        self.LayerNorm = LayerNorm(config.hidden_size, eps=config.layer_norm_eps)

    def forward(self, hidden_states: Tensor) -> Tensor:
        """(..., hidden) to (..., hidden)."""
        transformed: Tensor = self.LayerNorm(self.activation(self.dense(hidden_states)))
        return transformed


class BertLMPredictionHead(nn.Module):
    """Scores every word of the vocabulary; `decoder.weight` is the word embeddings' own tensor."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.transform = BertPredictionHeadTransform(config)
        self.decoder = Linear(config.hidden_size, config.vocab_size)
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))  # the official name of decoder.bias

    def forward(self, hidden_states: Tensor) -> Tensor:
        """(..., hidden) to (..., vocab)."""
        logits: Tensor = self.decoder(self.transform(hidden_states))
        return logits


class BertPreTrainingHeads(nn.Module):
    """The head of masked-language modelling and, where wanted, that of next-sentence prediction."""

    def __init__(self, config: BertConfig, mlm: bool = True, nsp: bool = True) -> None:
        super().__init__()
        if mlm:
            self.predictions = BertLMPredictionHead(config)
        if nsp:
            self.seq_relationship = Linear(config.hidden_size, 2)


class _Head(PreTrainedModel):
    """A model with a `BertModel` inside, called `bert` as in the official checkpoints."""

    def __init__(self, config: BertConfig, add_pooling_layer: bool) -> None:
        super().__init__(config)
        self.bert = BertModel(config, add_pooling_layer)

    def _encode(self, arguments: dict[str, Any]) -> BertModelOutput:
        output: BertModelOutput = self.bert(**{**arguments, "return_dict": True})
        return output


class _MaskedLMHead(_Head):
    """Ties the decoder to the word embeddings, whatever happens to either."""

    cls: BertPreTrainingHeads

    def tied_weights(self) -> dict[str, str]:
        """Aliases of parameters: the decoder's bias always, its weight unless the config unties it."""
        aliases = {"cls.predictions.decoder.bias": "cls.predictions.bias"}
        if self.config.tie_word_embeddings:
            aliases["cls.predictions.decoder.weight"] = WORD_EMBEDDINGS
        return aliases

    def tie_weights(self) -> None:
        """Ties, and fits the bias to the vocabulary when that has been resized."""
        predictions, words = self.cls.predictions, self.get_input_embeddings().num_embeddings
        if self.config.tie_word_embeddings and predictions.bias.shape[0] != words:
            old = predictions.bias.detach()
            predictions.bias = nn.Parameter(F.pad(old, (0, words - old.shape[0])))
            predictions.decoder.out_features = words
        super().tie_weights()

    def get_output_embeddings(self) -> nn.Linear:
        """The decoder, (vocab, hidden)."""
        return self.cls.predictions.decoder

    def _word_logits(self, hidden_states: Tensor, positions: Tensor | None) -> Tensor:
        # row-wise, so rows that nobody asks for are left out before the product with the whole vocabulary
        logits: Tensor = self.cls.predictions(hidden_states if positions is None else hidden_states[positions])
        return logits


def _chosen(labels: Tensor, positions: Tensor | None) -> Tensor:
    return labels if positions is None else labels[positions]


class BertForPreTraining(_MaskedLMHead):
    """Masked-language modelling and next-sentence prediction together (paper, section 3.1)."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config, add_pooling_layer=True)
        self.cls = BertPreTrainingHeads(config)
        self.init_weights()

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        *,
        labels: Tensor | None = None,
        next_sentence_label: Tensor | None = None,
        positions: Tensor | None = None,
        return_dict: bool | None = None,
        **arguments: Any,
    ) -> Any:
        """Scores words and sentence pairs.

        Args:
            input_ids: (batch, seq).
            attention_mask: as in `BertModel.forward`.
            token_type_ids: as in `BertModel.forward`.
            labels: the right word at each place, `IGNORED` where nothing is asked, (batch, seq).
            next_sentence_label: 0 where the second segment follows the first, 1 where it is random, (batch,).
            positions: True where word logits are wanted, (batch, seq). Pass `labels != IGNORED` to save the product
                of all other tokens with the vocabulary: the same loss, and prediction_logits (chosen, vocab).
            return_dict: as in `BertModel.forward`.
            arguments: further arguments of `BertModel.forward`.

        Returns:
            A `PreTrainingOutput`; `loss` is the sum of both losses when both labels are given.
        """
        outputs = self._encode({**_named(input_ids, attention_mask, token_type_ids), **arguments})
        prediction_logits = self._word_logits(_last(outputs), positions)
        seq_relationship_logits = self.cls.seq_relationship(outputs.pooler_output)
        loss = None
        if labels is not None and next_sentence_label is not None:
            masked_lm_loss = cross_entropy(prediction_logits, _chosen(labels, positions))
            loss = masked_lm_loss + cross_entropy(seq_relationship_logits, next_sentence_label)
        output = PreTrainingOutput(
            loss, prediction_logits, seq_relationship_logits, outputs.hidden_states, outputs.attentions
        )
        return self.finish(output, return_dict)


class BertForMaskedLM(_MaskedLMHead):
    """Predicts the words behind [MASK]."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config, add_pooling_layer=False)
        self.cls = BertPreTrainingHeads(config, nsp=False)
        self.init_weights()

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        *,
        labels: Tensor | None = None,
        positions: Tensor | None = None,
        return_dict: bool | None = None,
        **arguments: Any,
    ) -> Any:
        """Scores words; arguments as in `BertForPreTraining.forward`.

        Returns:
            A `LogitsOutput` with logits (batch, seq, vocab), or (chosen, vocab) with `positions`.
        """
        outputs = self._encode({**_named(input_ids, attention_mask, token_type_ids), **arguments})
        logits = self._word_logits(_last(outputs), positions)
        loss = None if labels is None else cross_entropy(logits, _chosen(labels, positions))
        return self.finish(LogitsOutput(loss, logits, outputs.hidden_states, outputs.attentions), return_dict)


class BertForNextSentencePrediction(_Head):
    """Tells whether the second segment follows the first."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config, add_pooling_layer=True)
        self.cls = BertPreTrainingHeads(config, mlm=False)
        self.init_weights()

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        *,
        labels: Tensor | None = None,
        return_dict: bool | None = None,
        **arguments: Any,
    ) -> Any:
        """Scores pairs: logits (batch, 2) in a `LogitsOutput`.

        Args:
            input_ids: (batch, seq).
            attention_mask: as in `BertModel.forward`.
            token_type_ids: as in `BertModel.forward`.
            labels: 0 where the second segment follows, 1 where it is random, (batch,).
            return_dict: as in `BertModel.forward`.
            arguments: further arguments of `BertModel.forward`.
        """
        outputs = self._encode({**_named(input_ids, attention_mask, token_type_ids), **arguments})
        logits = self.cls.seq_relationship(outputs.pooler_output)
        loss = None if labels is None else cross_entropy(logits, labels)
        return self.finish(LogitsOutput(loss, logits, outputs.hidden_states, outputs.attentions), return_dict)


class _Classifier(_Head):
    """Dropout and one linear layer on top."""

    def __init__(self, config: BertConfig, outputs: int, add_pooling_layer: bool) -> None:
        super().__init__(config, add_pooling_layer)
        dropout = config.hidden_dropout_prob if config.classifier_dropout is None else config.classifier_dropout
        self.dropout = nn.Dropout(dropout)
        self.classifier = Linear(config.hidden_size, outputs)
        self.init_weights()

    def _scores(self, hidden_states: Tensor | None) -> Tensor:
        logits: Tensor = self.classifier(self.dropout(hidden_states))
        return logits


class BertForSequenceClassification(_Classifier):
    """A label, several labels, or a number for a whole text, from the pooler's output."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config, config.num_labels, add_pooling_layer=True)

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        *,
        labels: Tensor | None = None,
        return_dict: bool | None = None,
        **arguments: Any,
    ) -> Any:
        """Scores texts: logits (batch, num_labels) in a `LogitsOutput`.

        Args:
            input_ids: (batch, seq).
            attention_mask: as in `BertModel.forward`.
            token_type_ids: as in `BertModel.forward`.
            labels: what is right. By `config.problem_type`, or where that is None by the case: one number for each
                text (regression, `num_labels` 1), one class for each text (whole numbers, (batch,)), or 0.0 and 1.0
                for every label (batch, num_labels).
            return_dict: as in `BertModel.forward`.
            arguments: further arguments of `BertModel.forward`.
        """
        outputs = self._encode({**_named(input_ids, attention_mask, token_type_ids), **arguments})
        logits = self._scores(outputs.pooler_output)
        loss = None if labels is None else self._loss(logits, labels)
        return self.finish(LogitsOutput(loss, logits, outputs.hidden_states, outputs.attentions), return_dict)

    def _loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        problem = self.config.problem_type
        if problem == "regression" or (problem is None and self.config.num_labels == 1):
            return regression_loss(logits, labels)
        if problem == "multi_label_classification" or (problem is None and labels.is_floating_point()):
            return multi_label_loss(logits, labels)
        return cross_entropy(logits, labels)


class BertForTokenClassification(_Classifier):
    """A label for every token, as in named-entity recognition."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config, config.num_labels, add_pooling_layer=False)

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        *,
        labels: Tensor | None = None,
        return_dict: bool | None = None,
        **arguments: Any,
    ) -> Any:
        """Scores tokens: logits (batch, seq, num_labels) in a `LogitsOutput`.

        Args:
            input_ids: (batch, seq).
            attention_mask: as in `BertModel.forward`.
            token_type_ids: as in `BertModel.forward`.
            labels: the label of each token, `IGNORED` where there is none, (batch, seq).
            return_dict: as in `BertModel.forward`.
            arguments: further arguments of `BertModel.forward`.
        """
        outputs = self._encode({**_named(input_ids, attention_mask, token_type_ids), **arguments})
        logits = self._scores(outputs.last_hidden_state)
        loss = None if labels is None else cross_entropy(logits, labels)
        return self.finish(LogitsOutput(loss, logits, outputs.hidden_states, outputs.attentions), return_dict)


class BertForQuestionAnswering(_Head):
    """Where in a text the answer starts and ends (paper, section 4.2)."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config, add_pooling_layer=False)
        self.qa_outputs = Linear(config.hidden_size, 2)
        self.init_weights()

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        *,
        start_positions: Tensor | None = None,
        end_positions: Tensor | None = None,
        return_dict: bool | None = None,
        **arguments: Any,
    ) -> Any:
        """Scores every token as start and as end of the answer: a `QuestionAnsweringOutput`, logits (batch, seq).

        Args:
            input_ids: question and text as a pair, (batch, seq).
            attention_mask: as in `BertModel.forward`.
            token_type_ids: as in `BertModel.forward`.
            start_positions: the right first token, (batch,); one past the end of the sequence is ignored.
            end_positions: the right last token, (batch,).
            return_dict: as in `BertModel.forward`.
            arguments: further arguments of `BertModel.forward`.
        """
        outputs = self._encode({**_named(input_ids, attention_mask, token_type_ids), **arguments})
        start_logits, end_logits = (
            x.squeeze(-1).contiguous() for x in self.qa_outputs(_last(outputs)).split(1, dim=-1)
        )
        loss = None
        if start_positions is not None and end_positions is not None:
            loss = (_span_loss(start_logits, start_positions) + _span_loss(end_logits, end_positions)) / 2
        output = QuestionAnsweringOutput(loss, start_logits, end_logits, outputs.hidden_states, outputs.attentions)
        return self.finish(output, return_dict)


def _span_loss(logits: Tensor, positions: Tensor) -> Tensor:
    """Cross entropy over the places of a sequence; places outside it are ignored, as in the reference."""
    if positions.is_floating_point() or positions.numel() != logits.shape[0]:
        expected, received = (logits.shape[0],), tuple(positions.shape)
        raise ValueError(f"positions should be whole numbers of shape {expected}, not {positions.dtype} of {received}.")
    outside = logits.shape[1]
    return F.cross_entropy(logits, positions.reshape(-1).clamp(0, outside), ignore_index=outside)


class BertForMultipleChoice(_Classifier):
    """Which of several endings fits a text."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config, outputs=1, add_pooling_layer=True)

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        *,
        labels: Tensor | None = None,
        return_dict: bool | None = None,
        **arguments: Any,
    ) -> Any:
        """Scores choices: logits (batch, choices) in a `LogitsOutput`.

        Args:
            input_ids: (batch, choices, seq), and so all other inputs.
            attention_mask: as in `BertModel.forward`.
            token_type_ids: as in `BertModel.forward`.
            labels: the number of the right choice, (batch,).
            return_dict: as in `BertModel.forward`.
            arguments: further arguments of `BertModel.forward`.
        """
        inputs = {**_named(input_ids, attention_mask, token_type_ids), **arguments}
        choices = next(x for x in (input_ids, inputs.get("inputs_embeds")) if x is not None).shape[1]
        # every choice is a sequence of its own: (batch, choices, seq, ...) to (batch x choices, seq, ...)
        rows = {name: x.flatten(0, 1) if isinstance(x, Tensor) else x for name, x in inputs.items()}
        outputs = self._encode(rows)
        logits = self._scores(outputs.pooler_output).view(-1, choices)
        loss = None if labels is None else cross_entropy(logits, labels)
        return self.finish(LogitsOutput(loss, logits, outputs.hidden_states, outputs.attentions), return_dict)


def _named(input_ids: Tensor | None, attention_mask: Tensor | None, token_type_ids: Tensor | None) -> dict[str, Any]:
    return {"input_ids": input_ids, "attention_mask": attention_mask, "token_type_ids": token_type_ids}


def _last(outputs: BertModelOutput) -> Tensor:
    assert outputs.last_hidden_state is not None
    return outputs.last_hidden_state


# There is one architecture, so Auto has nothing to choose; a config.json of another model_type is refused by name.
AutoModel = BertModel
AutoModelForMaskedLM = BertForMaskedLM
AutoModelForSequenceClassification = BertForSequenceClassification
AutoModelForTokenClassification = BertForTokenClassification
AutoModelForQuestionAnswering = BertForQuestionAnswering
