"""Heads: the tasks of pre-training and fine-tuning, each a thin layer on `BertModel`.

Devlin et al. 2019, sections 3.1 (pre-training), 3.2 (fine-tuning) and 4 (tasks). A head is called
like `BertModel`, with `labels` if there are any, and returns the logits, and with labels the loss.
The docstring of its class has the shapes.

Next file: outputs.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Unpack

import torch
from torch import Tensor, nn

from minibert.base import PreTrainedModel
from minibert.config import BertConfig
from minibert.encoder import Activation
from minibert.initialization import initial_weights
from minibert.inputs import check_labels, is_class_index
from minibert.losses import cross_entropy, multi_label_loss, regression_loss, span_loss
from minibert.model import BertModel, ForwardOptions
from minibert.outputs import (
    BertModelOutput,
    LogitsOutput,
    PreTrainingOutput,
    QuestionAnsweringOutput,
    to_output,
)


class _Head(PreTrainedModel):
    """A `BertModel`, called `bert` as in the official checkpoints, and a layer on top."""

    def __init__(self, config: BertConfig, add_pooling_layer: bool) -> None:
        super().__init__(config)
        self.bert = BertModel(self.config, add_pooling_layer)

    def _encode(
        self,
        input_ids: Tensor | None,
        attention_mask: Tensor | None,
        token_type_ids: Tensor | None,
        position_ids: Tensor | None,
        inputs_embeds: Tensor | None,
        options: ForwardOptions,
    ) -> BertModelOutput:
        """Run `BertModel`. `return_dict` is for the output of the head."""
        encoder_options: ForwardOptions = {**options, "return_dict": True}
        return self.bert(
            input_ids=input_ids,
            attention_mask=attention_mask,
            token_type_ids=token_type_ids,
            position_ids=position_ids,
            inputs_embeds=inputs_embeds,
            **encoder_options,
        )


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
        """Score a batch.

        Args:
            input_ids: (batch, seq). This and the next four as in `BertModel.forward`.
            attention_mask: (batch, seq).
            token_type_ids: (batch, seq).
            position_ids: (batch, seq).
            inputs_embeds: (batch, seq, hidden).
            labels: The correct answers, in the shape that the docstring of the class has.
            options: Further arguments of `BertModel.forward`.

        Returns:
            A `LogitsOutput` with logits in the shape that the docstring of the class has, and the
            loss if there are labels.

        Raises:
            ValueError: As in `BertModel.forward`, or labels that do not fit the logits.
        """
        outputs = self._encode(
            input_ids, attention_mask, token_type_ids, position_ids, inputs_embeds, options
        )
        logits = self._logits(outputs)
        loss = None
        if labels is not None:
            check_labels("labels", labels)
            loss = self._loss(logits, labels)
        output = LogitsOutput(
            loss=loss,
            logits=logits,
            hidden_states=outputs.hidden_states,
            attentions=outputs.attentions,
        )
        return to_output(output, options.get("return_dict"), self.config)

    if TYPE_CHECKING:
        __call__ = forward

    def _logits(self, outputs: BertModelOutput) -> Tensor:
        raise NotImplementedError

    def _loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        return cross_entropy(logits, labels)


class BertPredictionHeadTransform(nn.Module):
    """Linear layer, activation and LayerNorm before the decoder.

    The paper does not mention it. See `get_masked_lm_output` in google-research/bert.
    """

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.transform_act_fn = Activation(config.hidden_act)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)

    def forward(self, hidden_states: Tensor) -> Tensor:
        """Transform every token: (..., hidden) to (..., hidden)."""
        hidden_states = self.transform_act_fn(self.dense(hidden_states))
        transformed: Tensor = self.LayerNorm(hidden_states)
        return transformed


class BertLMPredictionHead(nn.Module):
    """Scores every word of the vocabulary, with the tensor of the word embeddings."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.transform = BertPredictionHeadTransform(config)
        self.decoder = nn.Linear(config.hidden_size, config.vocab_size)
        # The official name of decoder.bias; both are one tensor.
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))

    def forward(self, hidden_states: Tensor) -> Tensor:
        """Score words: (..., hidden) to (..., vocab)."""
        logits: Tensor = self.decoder(self.transform(hidden_states))
        return logits


class BertPreTrainingHeads(nn.Module):
    """The heads of masked-language modeling and of next-sentence prediction.

    Args:
        config: The sizes and the activation.
        mlm: False leaves out the head of masked-language modeling.
        nsp: False leaves out the head of next-sentence prediction.
    """

    def __init__(self, config: BertConfig, mlm: bool = True, nsp: bool = True) -> None:
        super().__init__()
        if mlm:
            self.predictions = BertLMPredictionHead(config)
        if nsp:
            self.seq_relationship = nn.Linear(config.hidden_size, 2)


class _MaskedLMHead(_Head):
    """A head with a decoder of words, which is tied to the word embeddings."""

    _tied_weights_keys: ClassVar[dict[str, str]] = {
        "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
        "cls.predictions.decoder.bias": "cls.predictions.bias",
    }

    def __init__(self, config: BertConfig, nsp: bool) -> None:
        super().__init__(config, add_pooling_layer=nsp)
        with initial_weights(self):
            self.cls = BertPreTrainingHeads(config, nsp=nsp)

    def get_output_embeddings(self) -> nn.Linear:
        """Return the decoder, (vocab, hidden)."""
        return self.cls.predictions.decoder

    def set_output_embeddings(self, new_embeddings: nn.Linear) -> None:
        """Replace the decoder and its bias.

        Args:
            new_embeddings: A linear layer with weights (vocab, hidden) and a bias (vocab).
        """
        self.cls.predictions.decoder = new_embeddings
        self.cls.predictions.bias = new_embeddings.bias

    def _score_words(
        self, outputs: BertModelOutput, labels: Tensor | None, positions: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """Return logits of the words at `positions`, and their loss if there are labels."""
        states = outputs.last_hidden_state  # (batch, seq, hidden)
        if labels is not None:
            check_labels("labels", labels)
        if positions is not None:
            _check_positions(positions, labels, states.shape[:-1])
            # The head is row-wise, so other rows are left out before the product with the whole
            # vocabulary.
            states = states[positions]  # (chosen, hidden)
            if labels is not None:
                labels = labels[positions]  # (chosen,)
        logits: Tensor = self.cls.predictions(states)  # (batch, seq, vocab) or (chosen, vocab)
        if labels is None:
            return logits, None
        return logits, cross_entropy(logits, labels)


def _check_positions(positions: Tensor, labels: Tensor | None, tokens: torch.Size) -> None:
    check_labels("positions", positions)
    if positions.dtype != torch.bool or positions.shape != tokens:
        raise ValueError(
            f"positions should be torch.bool of shape {tuple(tokens)}, not {positions.dtype} of "
            f"{tuple(positions.shape)}."
        )
    if labels is not None and labels.shape != tokens:
        raise ValueError(f"labels should be of shape {tuple(tokens)}, not {tuple(labels.shape)}.")


class BertForMaskedLM(_MaskedLMHead):
    """Predicts the words behind [MASK]: logits (batch, seq, vocab).

    Devlin et al. 2019, section 3.1, task 1. `labels` (batch, seq) are the correct word ids, and
    `IGNORED` (-100) where nothing is predicted.

    Args:
        config: The sizes.
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
        """Score words.

        Args:
            input_ids: (batch, seq). This and the next four as in `BertModel.forward`.
            attention_mask: (batch, seq).
            token_type_ids: (batch, seq).
            position_ids: (batch, seq).
            inputs_embeds: (batch, seq, hidden).
            labels: (batch, seq), `IGNORED` where nothing is predicted.
            positions: torch.bool (batch, seq), True where logits are computed. Pass
                `labels != IGNORED` in training to save the product of all other tokens with the
                vocabulary: the loss is the same but for rounding.
            options: Further arguments of `BertModel.forward`.

        Returns:
            A `LogitsOutput` with logits (batch, seq, vocab), or (chosen, vocab) with `positions`,
            and the loss if there are labels.

        Raises:
            ValueError: As in `BertModel.forward`, or labels or positions that do not fit.
        """
        outputs = self._encode(
            input_ids, attention_mask, token_type_ids, position_ids, inputs_embeds, options
        )
        logits, loss = self._score_words(outputs, labels, positions)
        output = LogitsOutput(
            loss=loss,
            logits=logits,
            hidden_states=outputs.hidden_states,
            attentions=outputs.attentions,
        )
        return to_output(output, options.get("return_dict"), self.config)

    if TYPE_CHECKING:
        __call__ = forward


class BertForPreTraining(_MaskedLMHead):
    """Masked-language modeling and next-sentence prediction together.

    Devlin et al. 2019, section 3.1: logits (batch, seq, vocab) and (batch, 2).

    Args:
        config: The sizes.
    """

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
        """Score words and sentence pairs.

        Args:
            input_ids: (batch, seq). This and the next four as in `BertModel.forward`.
            attention_mask: (batch, seq).
            token_type_ids: (batch, seq).
            position_ids: (batch, seq).
            inputs_embeds: (batch, seq, hidden).
            labels: (batch, seq), as in `BertForMaskedLM.forward`.
            next_sentence_label: (batch,), 0 if the second segment follows the first and 1 if it is
                random.
            positions: torch.bool (batch, seq), as in `BertForMaskedLM.forward`.
            options: Further arguments of `BertModel.forward`.

        Returns:
            A `PreTrainingOutput`. Its loss is the sum of both losses, and needs both kinds of
            labels.

        Raises:
            ValueError: As in `BertModel.forward`, or labels or positions that do not fit.
        """
        outputs = self._encode(
            input_ids, attention_mask, token_type_ids, position_ids, inputs_embeds, options
        )
        word_logits, word_loss = self._score_words(outputs, labels, positions)
        pair_logits = self.cls.seq_relationship(outputs.pooler_output)  # (batch, 2)
        loss = None
        if word_loss is not None and next_sentence_label is not None:
            loss = word_loss + cross_entropy(pair_logits, next_sentence_label)
        output = PreTrainingOutput(
            loss=loss,
            prediction_logits=word_logits,
            seq_relationship_logits=pair_logits,
            hidden_states=outputs.hidden_states,
            attentions=outputs.attentions,
        )
        return to_output(output, options.get("return_dict"), self.config)

    if TYPE_CHECKING:
        __call__ = forward


class BertForNextSentencePrediction(_LogitsHead):
    """Predicts whether the second segment follows the first: logits (batch, 2).

    Devlin et al. 2019, section 3.1, task 2. `labels` (batch,) are 0 if it follows and 1 if it is
    random.

    Args:
        config: The sizes.
    """

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config, add_pooling_layer=True)
        with initial_weights(self):
            self.cls = BertPreTrainingHeads(config, mlm=False)

    def _logits(self, outputs: BertModelOutput) -> Tensor:
        logits: Tensor = self.cls.seq_relationship(outputs.pooler_output)  # (batch, 2)
        return logits


class _Classifier(_LogitsHead):
    """Dropout and a linear layer, on the pooler's output or, without a pooler, on every token."""

    has_pooler: ClassVar[bool] = True
    num_outputs: ClassVar[int | None] = None
    """Outputs of the linear layer. None: `config.num_labels`."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config, add_pooling_layer=self.has_pooler)
        dropout = config.classifier_dropout
        if dropout is None:
            dropout = config.hidden_dropout_prob
        num_outputs = self.num_outputs
        if num_outputs is None:
            num_outputs = config.num_labels
        self.dropout = nn.Dropout(dropout)
        with initial_weights(self):
            self.classifier = nn.Linear(config.hidden_size, num_outputs)

    def _logits(self, outputs: BertModelOutput) -> Tensor:
        if self.has_pooler:
            states = outputs.pooler_output  # (batch, hidden)
        else:
            states = outputs.last_hidden_state  # (batch, seq, hidden)
        logits: Tensor = self.classifier(self.dropout(states))
        return logits


class BertForSequenceClassification(_Classifier):
    """Predicts labels or a number for a text, from the pooler's output: logits (batch, num_labels).

    Devlin et al. 2019, section 4.1. `config.problem_type` decides about `labels`:

        "regression"                   numbers, (batch, num_labels)
        "single_label_classification"  the correct class, (batch,)
        "multi_label_classification"   0.0 or 1.0 for every label, (batch, num_labels)
        None                           regression if `num_labels` is 1, otherwise a single label
                                       if `labels` are integers, otherwise multi-label

    Args:
        config: The sizes, with `num_labels`.
    """

    def _loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        problem_type = self.config.problem_type
        if problem_type is None:
            if self.config.num_labels == 1:
                problem_type = "regression"
            elif not is_class_index(labels):
                problem_type = "multi_label_classification"
        if problem_type == "regression":
            return regression_loss(logits, labels)
        if problem_type == "multi_label_classification":
            return multi_label_loss(logits, labels)
        return cross_entropy(logits, labels)


class BertForTokenClassification(_Classifier):
    """Predicts a label for every token: logits (batch, seq, num_labels).

    Devlin et al. 2019, section 5.3, named-entity recognition. `labels` (batch, seq) are the class
    of each token, and `IGNORED` (-100) where there is none.

    Args:
        config: The sizes, with `num_labels`.
    """

    has_pooler = False


class BertForMultipleChoice(_Classifier):
    """Predicts which of several endings fits a text: logits (batch, choices).

    Devlin et al. 2019, section 4.4. `input_ids` and all that goes with them are
    (batch, choices, seq). `labels` (batch,) are the correct choice.

    Args:
        config: The sizes.
    """

    num_outputs = 1

    def _encode(
        self,
        input_ids: Tensor | None,
        attention_mask: Tensor | None,
        token_type_ids: Tensor | None,
        position_ids: Tensor | None,
        inputs_embeds: Tensor | None,
        options: ForwardOptions,
    ) -> BertModelOutput:
        """Run `BertModel` on every choice as a sequence of its own."""
        if isinstance(input_ids, Tensor) and input_ids.dim() < 3:
            raise ValueError(
                f"input_ids should be of shape (batch, choices, seq), not {tuple(input_ids.shape)}."
            )
        if isinstance(inputs_embeds, Tensor) and inputs_embeds.dim() < 4:
            raise ValueError(
                "inputs_embeds should be of shape (batch, choices, seq, hidden), not "
                f"{tuple(inputs_embeds.shape)}."
            )
        outputs = super()._encode(
            input_ids=_join_choices(input_ids),
            attention_mask=_join_choices(attention_mask),
            token_type_ids=_join_choices(token_type_ids),
            position_ids=_join_choices(position_ids),
            inputs_embeds=_join_choices(inputs_embeds),
            options=options,
        )
        inputs = inputs_embeds if input_ids is None else input_ids
        assert inputs is not None
        assert outputs.pooler_output is not None
        outputs.pooler_output = torch.unflatten(outputs.pooler_output, 0, inputs.shape[:2])
        return outputs  # its pooler_output is (batch, choices, hidden)

    def _logits(self, outputs: BertModelOutput) -> Tensor:
        logits = super()._logits(outputs)  # (batch, choices, 1)
        return logits.squeeze(-1)  # (batch, choices)


def _join_choices(x: Tensor | None) -> Tensor | None:
    """(batch, choices, seq, ...) to (batch * choices, seq, ...). Anything else stays as it is."""
    if isinstance(x, Tensor) and x.dim() > 2:
        return x.flatten(0, 1)
    return x


class BertForQuestionAnswering(_Head):
    """Predicts where the answer to a question starts and ends in a text: two logits (batch, seq).

    Devlin et al. 2019, section 4.2.

    Args:
        config: The sizes, with `num_labels` 2.

    Raises:
        ValueError: `num_labels` is not 2.
    """

    def __init__(self, config: BertConfig) -> None:
        # The reference implementation takes the width of the head from num_labels.
        if config.num_labels != 2:
            raise ValueError(
                "BertForQuestionAnswering scores start and end: num_labels should be 2, not "
                f"{config.num_labels}."
            )
        super().__init__(config, add_pooling_layer=False)
        with initial_weights(self):
            self.qa_outputs = nn.Linear(config.hidden_size, 2)

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
        """Score every token as the first and as the last of the answer.

        Args:
            input_ids: (batch, seq). This and the next four as in `BertModel.forward`.
            attention_mask: (batch, seq).
            token_type_ids: (batch, seq).
            position_ids: (batch, seq).
            inputs_embeds: (batch, seq, hidden).
            start_positions: Position of the first token of the correct answer, (batch,). Positions
                from seq on are ignored.
            end_positions: Position of its last token, (batch,).
            options: Further arguments of `BertModel.forward`.

        Returns:
            A `QuestionAnsweringOutput`. Its loss needs both kinds of positions.

        Raises:
            ValueError: As in `BertModel.forward`, or positions that do not fit the logits.
        """
        outputs = self._encode(
            input_ids, attention_mask, token_type_ids, position_ids, inputs_embeds, options
        )
        logits = self.qa_outputs(outputs.last_hidden_state)  # (batch, seq, 2)
        start_logits, end_logits = logits.unbind(-1)
        start_logits = start_logits.contiguous()  # (batch, seq)
        end_logits = end_logits.contiguous()  # (batch, seq)
        loss = None
        if start_positions is not None and end_positions is not None:
            start_loss = span_loss(start_logits, start_positions)
            end_loss = span_loss(end_logits, end_positions)
            loss = (start_loss + end_loss) / 2
        output = QuestionAnsweringOutput(
            loss=loss,
            start_logits=start_logits,
            end_logits=end_logits,
            hidden_states=outputs.hidden_states,
            attentions=outputs.attentions,
        )
        return to_output(output, options.get("return_dict"), self.config)

    if TYPE_CHECKING:
        __call__ = forward
