"""Heads: what BERT was pre-trained for and what it is fine-tuned to do, each a thin layer on `BertModel`.

A head is called like `BertModel`, with `labels` where there are any, and returns the loss (with labels) and the
logits. Its class says what shape they have.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from minibert.compat.model import resize_decoder
from minibert.compat.tied import TiedWeights
from minibert.config import BertConfig
from minibert.encoder import ACTIVATIONS
from minibert.losses import (
    cross_entropy,
    is_class_index,
    multi_label_loss,
    regression_loss,
    span_loss,
)
from minibert.model import BertModel, ForwardOptions
from minibert.outputs import (
    BertModelOutput,
    LogitsOutput,
    PreTrainingOutput,
    QuestionAnsweringOutput,
)
from minibert.pretrained import WORD_EMBEDDINGS, PreTrainedModel

if TYPE_CHECKING:
    from typing_extensions import Unpack


class _Head(PreTrainedModel):
    """A `BertModel`, called `bert` as in the official checkpoints, and a layer on top."""

    def __init__(self, config: BertConfig, add_pooling_layer: bool) -> None:
        super().__init__(config)
        self.bert = BertModel(config, add_pooling_layer)

    def init_head(self) -> None:
        """Draws the weights on top; `BertModel` has drawn its own."""
        own = {name for name, _ in self.named_parameters() if not name.startswith("bert.")}
        self.init_weights(own - self.tied_weights().keys())

    def _encode(self, *inputs: Any, **options: Unpack[ForwardOptions]) -> BertModelOutput:
        options["return_dict"] = True
        return self.bert(*inputs, **options)


class _LogitsHead(_Head):
    """A head with one kind of logits and labels."""

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        **options: Unpack[ForwardOptions],
    ) -> LogitsOutput:
        """Scores a batch.

        Args:
            input_ids: (batch, seq); this and what follows as in `BertModel.forward`.
            attention_mask: (batch, seq).
            token_type_ids: (batch, seq).
            position_ids: (batch, seq).
            inputs_embeds: (batch, seq, hidden).
            labels: what is right, in the shape that the class names.
            options: further arguments of `BertModel.forward`.

        Returns:
            A `LogitsOutput` with logits in the shape that the class names, and with the loss if there are labels.

        Raises:
            ValueError: as in `BertModel.forward`, and labels that do not fit the logits.
        """
        outputs = self._encode(
            input_ids, attention_mask, token_type_ids, position_ids, inputs_embeds, **options
        )
        logits = self._logits(outputs)
        loss = None if labels is None else self._loss(logits, labels)
        output = LogitsOutput(loss, logits, outputs.hidden_states, outputs.attentions)
        return self.to_output(output, options.get("return_dict"))

    if TYPE_CHECKING:
        __call__ = forward

    def _logits(self, outputs: BertModelOutput) -> Tensor:
        raise NotImplementedError

    def _loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        return cross_entropy(logits, labels)


class BertPredictionHeadTransform(nn.Module):
    """Linear, activation and LayerNorm before the decoder."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.transform_act_fn = ACTIVATIONS[config.hidden_act]
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)

    def forward(self, hidden_states: Tensor) -> Tensor:
        """(..., hidden) to (..., hidden)."""
        transformed: Tensor = self.LayerNorm(self.transform_act_fn(self.dense(hidden_states)))
        return transformed


class BertLMPredictionHead(nn.Module):
    """Scores every word of the vocabulary; `decoder.weight` is the word embeddings' own tensor."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.transform = BertPredictionHeadTransform(config)
        self.decoder = nn.Linear(config.hidden_size, config.vocab_size)
        self.bias = nn.Parameter(
            torch.zeros(config.vocab_size)
        )  # the official name of decoder.bias

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
            self.seq_relationship = nn.Linear(config.hidden_size, 2)


class _MaskedLMHead(TiedWeights, _Head):
    """Ties the decoder to the word embeddings, whatever happens to either."""

    def __init__(self, config: BertConfig, nsp: bool) -> None:
        super().__init__(config, nsp)
        self.cls = BertPreTrainingHeads(config, nsp=nsp)
        self.init_head()

    def tied_weights(self) -> dict[str, str]:
        """Aliases of parameters: the decoder's bias always, its weight unless the config unties it."""
        aliases = {"cls.predictions.decoder.bias": "cls.predictions.bias"}
        if self.config.tie_word_embeddings:
            aliases["cls.predictions.decoder.weight"] = WORD_EMBEDDINGS
        return aliases

    def tie_weights(self, **unused: Any) -> None:
        """Ties, and fits the decoder to the vocabulary when that has been resized."""
        resize_decoder(self.cls.predictions, self.get_input_embeddings().num_embeddings)
        super().tie_weights()

    def get_output_embeddings(self) -> nn.Linear:
        """The decoder, (vocab, hidden)."""
        return self.cls.predictions.decoder

    def set_output_embeddings(self, new_embeddings: nn.Linear) -> None:
        """Replaces the decoder and its bias."""
        self.cls.predictions.decoder, self.cls.predictions.bias = (
            new_embeddings,
            new_embeddings.bias,
        )

    def _words(
        self, outputs: BertModelOutput, labels: Tensor | None, positions: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """Logits of the words at `positions`, and their loss if there are labels."""
        states = outputs.last_hidden_state
        if positions is not None:
            if positions.dtype != torch.bool or positions.shape != states.shape[:-1]:
                wanted, given = tuple(states.shape[:-1]), tuple(positions.shape)
                raise ValueError(
                    f"positions should be torch.bool of shape {wanted}, not {positions.dtype} of {given}."
                )
            if labels is not None and labels.shape != positions.shape:
                raise ValueError(
                    f"labels should be of shape {tuple(positions.shape)}, not {tuple(labels.shape)}."
                )
            # row-wise, so rows that are not asked for are left out before the product with the whole vocabulary
            states, labels = states[positions], None if labels is None else labels[positions]
        logits: Tensor = self.cls.predictions(states)
        return logits, None if labels is None else cross_entropy(logits, labels)


class BertForMaskedLM(_MaskedLMHead):
    """Predicts the words behind [MASK]: logits (batch, seq, vocab).

    `labels` (batch, seq) hold the right word at each place, and `IGNORED` where nothing is asked.
    """

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config, nsp=False)

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        positions: Tensor | None = None,
        **options: Unpack[ForwardOptions],
    ) -> LogitsOutput:
        """Scores words; the same arguments as every head, and `positions`.

        `positions`, torch.bool (batch, seq), is True where logits are wanted; they are (chosen, vocab) then. Pass
        `labels != IGNORED` in training to save the product of all other tokens with the vocabulary: the loss is the
        same but for rounding.
        """
        outputs = self._encode(
            input_ids, attention_mask, token_type_ids, position_ids, inputs_embeds, **options
        )
        logits, loss = self._words(outputs, labels, positions)
        output = LogitsOutput(loss, logits, outputs.hidden_states, outputs.attentions)
        return self.to_output(output, options.get("return_dict"))

    if TYPE_CHECKING:
        __call__ = forward


class BertForPreTraining(_MaskedLMHead):
    """Masked-language modelling and next-sentence prediction together (paper, section 3.1)."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config, nsp=True)

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        next_sentence_label: Tensor | None = None,
        positions: Tensor | None = None,
        **options: Unpack[ForwardOptions],
    ) -> PreTrainingOutput:
        """Scores words and sentence pairs; arguments as in `BertForMaskedLM.forward`, and `next_sentence_label`.

        `next_sentence_label` (batch,) is 0 where the second segment follows the first and 1 where it is random.
        Returns a `PreTrainingOutput`; its `loss` is the sum of both, and needs both kinds of labels.
        """
        outputs = self._encode(
            input_ids, attention_mask, token_type_ids, position_ids, inputs_embeds, **options
        )
        word_logits, word_loss = self._words(outputs, labels, positions)
        pair_logits, loss = self.cls.seq_relationship(outputs.pooler_output), None
        if word_loss is not None and next_sentence_label is not None:
            loss = word_loss + cross_entropy(pair_logits, next_sentence_label)
        output = PreTrainingOutput(
            loss, word_logits, pair_logits, outputs.hidden_states, outputs.attentions
        )
        return self.to_output(output, options.get("return_dict"))

    if TYPE_CHECKING:
        __call__ = forward


class BertForNextSentencePrediction(_LogitsHead):
    """Tells whether the second segment follows the first: logits (batch, 2).

    `labels` (batch,) are 0 where it follows and 1 where it is random.
    """

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config, add_pooling_layer=True)
        self.cls = BertPreTrainingHeads(config, mlm=False)
        self.init_head()

    def _logits(self, outputs: BertModelOutput) -> Tensor:
        logits: Tensor = self.cls.seq_relationship(outputs.pooler_output)
        return logits


class _Classifier(_LogitsHead):
    """Dropout and one linear layer on the pooler's output or, without a pooler, on the state of every token."""

    has_pooler, classes = True, 0  # 0: as many as the config has labels

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config, self.has_pooler)
        dropout = (
            config.hidden_dropout_prob
            if config.classifier_dropout is None
            else config.classifier_dropout
        )
        self.dropout = nn.Dropout(dropout)
        self.classifier = nn.Linear(config.hidden_size, self.classes or config.num_labels)
        self.init_head()

    def _logits(self, outputs: BertModelOutput) -> Tensor:
        states = outputs.pooler_output if self.has_pooler else outputs.last_hidden_state
        logits: Tensor = self.classifier(self.dropout(states))
        return logits


class BertForSequenceClassification(_Classifier):
    """A label, several labels, or a number for a whole text, from the pooler's output: logits (batch, num_labels).

    `config.problem_type` says what `labels` are: numbers (batch, num_labels) for "regression", the right class (batch,)
    for "single_label_classification", 0.0 or 1.0 for every label (batch, num_labels) for "multi_label_classification".
    None: regression where `num_labels` is 1, else a single label where `labels` are whole numbers, else multi-label.
    """

    def _loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        problem_type = self.config.problem_type
        if problem_type == "regression" or (problem_type is None and self.config.num_labels == 1):
            return regression_loss(logits, labels)
        if problem_type == "multi_label_classification" or (
            problem_type is None and not is_class_index(labels)
        ):
            return multi_label_loss(logits, labels)
        return cross_entropy(logits, labels)


class BertForTokenClassification(_Classifier):
    """A label for every token, as in named-entity recognition: logits (batch, seq, num_labels).

    `labels` (batch, seq) hold the class of each token, and `IGNORED` where there is none.
    """

    has_pooler = False


class BertForMultipleChoice(_Classifier):
    """Which of several endings fits a text: logits (batch, choices).

    `input_ids` and all that goes with them are (batch, choices, seq); `labels` (batch,) hold the right choice.
    """

    classes = 1

    def _encode(self, *inputs: Any, **options: Unpack[ForwardOptions]) -> BertModelOutput:
        shape = next((tuple(x.shape) for x in (inputs[0], inputs[-1]) if x is not None), ())
        if len(shape) < 3:
            raise ValueError(f"input_ids should be of shape (batch, choices, seq), not {shape}.")
        # every choice is a sequence of its own: (batch, choices, seq, ...) to (batch x choices, seq, ...)
        rows = [x.flatten(0, 1) if isinstance(x, Tensor) and x.dim() > 2 else x for x in inputs]
        outputs = super()._encode(*rows, **options)
        assert outputs.pooler_output is not None
        outputs.pooler_output = outputs.pooler_output.view(
            *shape[:2], -1
        )  # (batch, choices, hidden)
        return outputs

    def _logits(self, outputs: BertModelOutput) -> Tensor:
        return super()._logits(outputs).squeeze(-1)


class BertForQuestionAnswering(_Head):
    """Where in a text the answer to a question starts and ends (paper, section 4.2): two logits (batch, seq)."""

    def __init__(self, config: BertConfig) -> None:
        if config.num_labels != 2:  # the reference reads the head's width from there
            raise ValueError(
                f"BertForQuestionAnswering scores start and end: num_labels=2, not {config.num_labels}."
            )
        super().__init__(config, add_pooling_layer=False)
        self.qa_outputs = nn.Linear(config.hidden_size, 2)
        self.init_head()

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        start_positions: Tensor | None = None,
        end_positions: Tensor | None = None,
        **options: Unpack[ForwardOptions],
    ) -> QuestionAnsweringOutput:
        """Scores every token as the answer's first and as its last; the arguments of every head but for labels.

        `start_positions` and `end_positions`, (batch,), are the places of the right first and last token; one past
        the end of the sequence is ignored. Returns a `QuestionAnsweringOutput`; its `loss` needs both of them.
        """
        outputs = self._encode(
            input_ids, attention_mask, token_type_ids, position_ids, inputs_embeds, **options
        )
        start_logits, end_logits = (
            x.contiguous() for x in self.qa_outputs(outputs.last_hidden_state).unbind(-1)
        )
        loss = None
        if start_positions is not None and end_positions is not None:
            loss = (
                span_loss(start_logits, start_positions) + span_loss(end_logits, end_positions)
            ) / 2
        output = QuestionAnsweringOutput(
            loss, start_logits, end_logits, outputs.hidden_states, outputs.attentions
        )
        return self.to_output(output, options.get("return_dict"))

    if TYPE_CHECKING:
        __call__ = forward
