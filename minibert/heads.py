"""Heads: the tasks of pre-training and fine-tuning, each a thin layer on `BertModel`.

Devlin et al. 2019, sections 3.1 (pre-training), 3.2 (fine-tuning) and 4 (tasks). A head is called
like `BertModel`, with `labels` if there are any, and returns the logits, and with labels the loss.
It has nothing to do with the heads of attention. How words are masked and pairs are made for
pre-training is in training/pretraining.py.

Each class can be read alone, and copied to start a head of your own: `__init__` builds the layers,
and `forward` leads from ids to the loss. `with initial_weights(self):` draws the weights of a layer
as for pre-training, unless a checkpoint has them. `self.post_init()` at the end of your own
`__init__` does the same for new layers (docs/own-models.md).

This is the last file of the reading path.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

import torch
from torch import Tensor, nn

from minibert.base import PreTrainedModel
from minibert.compat.model_parts import UnusedArguments
from minibert.config import BertConfig
from minibert.encoder import Activation
from minibert.initialization import initial_weights
from minibert.inputs import check_tensor
from minibert.inputs.labels import check_choices, check_chosen, is_class_index
from minibert.layouts import Layout
from minibert.losses import cross_entropy, multi_label_loss, regression_loss, span_loss
from minibert.model import BertModel
from minibert.outputs import (
    LogitsOutput,
    PreTrainingOutput,
    QuestionAnsweringOutput,
    to_output,
)


class ForwardOptions(UnusedArguments, total=False):
    """Keywords that the `forward` of every head passes on to `BertModel.forward`.

    `**options: Unpack[ForwardOptions]` names them for type checkers (PEP 692).
    """

    output_hidden_states: bool | None
    output_attentions: bool | None
    return_dict: bool | None
    layout: Layout | None


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
        return self.LayerNorm(self.transform_act_fn(self.dense(hidden_states)))


class BertLMPredictionHead(nn.Module):
    """Scores every word of the vocabulary, with the tensor E of the word embeddings.

    scores = E LayerNorm(GELU(W h + b)) + bias
    """

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.transform = BertPredictionHeadTransform(config)
        self.decoder = nn.Linear(config.hidden_size, config.vocab_size)
        # The official name of decoder.bias. TIED_WEIGHTS makes both one tensor, and E as well.
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))

    def forward(self, hidden_states: Tensor) -> Tensor:
        """Score words: (..., hidden) to (..., vocab)."""
        return self.decoder(self.transform(hidden_states))


# The next three are the attribute `cls` of the models of pre-training. It is the official name,
# short for classifier, and is not about the token [CLS].


class BertOnlyMLMHead(nn.Module):
    """The head of masked-language modeling alone."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.predictions = BertLMPredictionHead(config)

    def forward(self, sequence_output: Tensor) -> Tensor:
        """Score words: (..., hidden) to (..., vocab)."""
        return self.predictions(sequence_output)


class BertOnlyNSPHead(nn.Module):
    """The head of next-sentence prediction alone."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.seq_relationship = nn.Linear(config.hidden_size, 2)

    def forward(self, pooled_output: Tensor) -> Tensor:
        """Score pairs of segments: (batch, hidden) to (batch, 2)."""
        return self.seq_relationship(pooled_output)


class BertPreTrainingHeads(nn.Module):
    """The heads of masked-language modeling and of next-sentence prediction."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.predictions = BertLMPredictionHead(config)
        self.seq_relationship = nn.Linear(config.hidden_size, 2)

    def forward(self, sequence_output: Tensor, pooled_output: Tensor) -> tuple[Tensor, Tensor]:
        """Score words, (..., hidden) to (..., vocab), and pairs, (batch, hidden) to (batch, 2)."""
        return self.predictions(sequence_output), self.seq_relationship(pooled_output)


TIED_WEIGHTS = {
    "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
    "cls.predictions.decoder.bias": "cls.predictions.bias",
}
"""Names of a tensor in masked-language modeling, each with its other name."""


class BertForMaskedLM(PreTrainedModel):
    """Predicts the words behind [MASK]: logits (batch, seq, vocab).

    Devlin et al. 2019, section 3.1, task 1. `labels` (batch, seq) are the correct word ids, and
    `IGNORED` (-100) where nothing is predicted.

    Args:
        config: The sizes.
    """

    _tied_weights_keys = TIED_WEIGHTS

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config)
        self.bert = BertModel(self.config, add_pooling_layer=False)
        with initial_weights(self):
            self.cls = BertOnlyMLMHead(self.config)

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
        encoded = self.bert(
            input_ids,
            attention_mask,
            token_type_ids,
            position_ids,
            inputs_embeds,
            **encoder_options(options),
        )
        states, labels = choose_tokens(encoded.last_hidden_state, labels, positions)
        logits = self.cls(states)  # (batch, seq, vocab), or (chosen, vocab)
        loss = None if labels is None else cross_entropy(logits, labels)
        output = LogitsOutput(loss, logits, encoded.hidden_states, encoded.attentions)
        return to_output(output, options.get("return_dict"), self.config)

    if TYPE_CHECKING:  # so that type checkers know the arguments and the output of `model(...)`
        __call__ = forward


class BertForPreTraining(PreTrainedModel):
    """Masked-language modeling and next-sentence prediction together.

    Devlin et al. 2019, section 3.1: logits (batch, seq, vocab) and (batch, 2).

    Args:
        config: The sizes.
    """

    _tied_weights_keys = TIED_WEIGHTS

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config)
        self.bert = BertModel(self.config)
        with initial_weights(self):
            self.cls = BertPreTrainingHeads(self.config)

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
        encoded = self.bert(
            input_ids,
            attention_mask,
            token_type_ids,
            position_ids,
            inputs_embeds,
            **encoder_options(options),
        )
        states, labels = choose_tokens(encoded.last_hidden_state, labels, positions)
        # (batch, seq, vocab) or (chosen, vocab), and (batch, 2)
        word_logits, pair_logits = self.cls(states, encoded.pooler_output)
        loss = None
        if labels is not None and next_sentence_label is not None:
            word_loss = cross_entropy(word_logits, labels)
            loss = word_loss + cross_entropy(pair_logits, next_sentence_label)
        output = PreTrainingOutput(
            loss, word_logits, pair_logits, encoded.hidden_states, encoded.attentions
        )
        return to_output(output, options.get("return_dict"), self.config)

    if TYPE_CHECKING:
        __call__ = forward


class BertForNextSentencePrediction(PreTrainedModel):
    """Predicts whether the second segment follows the first: logits (batch, 2).

    Devlin et al. 2019, section 3.1, task 2. `labels` (batch,) are 0 if it follows and 1 if it is
    random.

    Args:
        config: The sizes.
    """

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config)
        self.bert = BertModel(self.config)
        with initial_weights(self):
            self.cls = BertOnlyNSPHead(self.config)

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
        """Score pairs of segments.

        Args:
            input_ids: (batch, seq). This and the next four as in `BertModel.forward`.
            attention_mask: (batch, seq).
            token_type_ids: (batch, seq).
            position_ids: (batch, seq).
            inputs_embeds: (batch, seq, hidden).
            labels: (batch,), 0 or 1.
            options: Further arguments of `BertModel.forward`.

        Returns:
            A `LogitsOutput`, with the loss if there are labels.

        Raises:
            ValueError: As in `BertModel.forward`, or labels that do not fit the logits.
        """
        encoded = self.bert(
            input_ids,
            attention_mask,
            token_type_ids,
            position_ids,
            inputs_embeds,
            **encoder_options(options),
        )
        logits = self.cls(encoded.pooler_output)  # (batch, 2)
        loss = None if labels is None else cross_entropy(logits, labels)
        output = LogitsOutput(loss, logits, encoded.hidden_states, encoded.attentions)
        return to_output(output, options.get("return_dict"), self.config)

    if TYPE_CHECKING:
        __call__ = forward


class BertForSequenceClassification(PreTrainedModel):
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

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config)
        self.bert = BertModel(self.config)
        self.dropout = nn.Dropout(classifier_dropout(self.config))
        with initial_weights(self):
            self.classifier = nn.Linear(self.config.hidden_size, self.config.num_labels)

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
        """Score texts.

        Args:
            input_ids: (batch, seq). This and the next four as in `BertModel.forward`.
            attention_mask: (batch, seq).
            token_type_ids: (batch, seq).
            position_ids: (batch, seq).
            inputs_embeds: (batch, seq, hidden).
            labels: As `config.problem_type` says.
            options: Further arguments of `BertModel.forward`.

        Returns:
            A `LogitsOutput`, with the loss if there are labels.

        Raises:
            ValueError: As in `BertModel.forward`, or labels that do not fit the logits.
        """
        encoded = self.bert(
            input_ids,
            attention_mask,
            token_type_ids,
            position_ids,
            inputs_embeds,
            **encoder_options(options),
        )
        logits = self.classifier(self.dropout(encoded.pooler_output))  # (batch, num_labels)
        loss = None
        if labels is not None:
            loss = classification_loss(logits, labels, self.config.problem_type, self.num_labels)
        output = LogitsOutput(loss, logits, encoded.hidden_states, encoded.attentions)
        return to_output(output, options.get("return_dict"), self.config)

    if TYPE_CHECKING:
        __call__ = forward


class BertForTokenClassification(PreTrainedModel):
    """Predicts a label for every token: logits (batch, seq, num_labels).

    Devlin et al. 2019, section 5.3, named-entity recognition. `labels` (batch, seq) are the class
    of each token, and `IGNORED` (-100) where there is none.

    Args:
        config: The sizes, with `num_labels`.
    """

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config)
        self.bert = BertModel(self.config, add_pooling_layer=False)
        self.dropout = nn.Dropout(classifier_dropout(self.config))
        with initial_weights(self):
            self.classifier = nn.Linear(self.config.hidden_size, self.config.num_labels)

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
        """Score tokens.

        Args:
            input_ids: (batch, seq). This and the next four as in `BertModel.forward`.
            attention_mask: (batch, seq).
            token_type_ids: (batch, seq).
            position_ids: (batch, seq).
            inputs_embeds: (batch, seq, hidden).
            labels: (batch, seq), `IGNORED` where there is none.
            options: Further arguments of `BertModel.forward`.

        Returns:
            A `LogitsOutput`, with the loss if there are labels.

        Raises:
            ValueError: As in `BertModel.forward`, or labels that do not fit the logits.
        """
        encoded = self.bert(
            input_ids,
            attention_mask,
            token_type_ids,
            position_ids,
            inputs_embeds,
            **encoder_options(options),
        )
        states = self.dropout(encoded.last_hidden_state)  # (batch, seq, hidden)
        logits = self.classifier(states)  # (batch, seq, num_labels)
        loss = None if labels is None else cross_entropy(logits, labels)
        output = LogitsOutput(loss, logits, encoded.hidden_states, encoded.attentions)
        return to_output(output, options.get("return_dict"), self.config)

    if TYPE_CHECKING:
        __call__ = forward


class BertForMultipleChoice(PreTrainedModel):
    """Predicts which of several endings fits a text: logits (batch, choices).

    Devlin et al. 2019, section 4.4. `input_ids` and all that goes with them are
    (batch, choices, seq). `labels` (batch,) are the correct choice.

    Args:
        config: The sizes.
    """

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config)
        self.bert = BertModel(self.config)
        self.dropout = nn.Dropout(classifier_dropout(self.config))
        with initial_weights(self):
            self.classifier = nn.Linear(self.config.hidden_size, 1)

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
        """Score choices. Each is a sequence of its own.

        Args:
            input_ids: (batch, choices, seq). This and the next four as in `BertModel.forward`.
            attention_mask: (batch, choices, seq).
            token_type_ids: (batch, choices, seq).
            position_ids: (batch, choices, seq).
            inputs_embeds: (batch, choices, seq, hidden).
            labels: (batch,), the index of the correct choice.
            options: Further arguments of `BertModel.forward`.

        Returns:
            A `LogitsOutput`, with the loss if there are labels.

        Raises:
            ValueError: As in `BertModel.forward`, or labels that do not fit the logits.
        """
        check_choices(input_ids, inputs_embeds)
        encoded = self.bert(
            join_choices(input_ids),
            join_choices(attention_mask),
            join_choices(token_type_ids),
            join_choices(position_ids),
            join_choices(inputs_embeds),
            **encoder_options(options),
        )
        choices: Any = inputs_embeds if input_ids is None else input_ids
        pooled: Any = encoded.pooler_output  # (batch * choices, hidden)
        pooled = pooled.unflatten(0, choices.shape[:2])  # (batch, choices, hidden)
        logits = self.classifier(self.dropout(pooled)).squeeze(-1)  # (batch, choices)
        loss = None if labels is None else cross_entropy(logits, labels)
        output = LogitsOutput(loss, logits, encoded.hidden_states, encoded.attentions)
        return to_output(output, options.get("return_dict"), self.config)

    if TYPE_CHECKING:
        __call__ = forward


class BertForQuestionAnswering(PreTrainedModel):
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
        super().__init__(config)
        self.bert = BertModel(self.config, add_pooling_layer=False)
        with initial_weights(self):
            self.qa_outputs = nn.Linear(self.config.hidden_size, 2)

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
        encoded = self.bert(
            input_ids,
            attention_mask,
            token_type_ids,
            position_ids,
            inputs_embeds,
            **encoder_options(options),
        )
        logits = self.qa_outputs(encoded.last_hidden_state)  # (batch, seq, 2)
        start_logits, end_logits = logits.unbind(-1)
        # Tensors of their own, as in transformers, and not views of `logits`.
        start_logits = start_logits.contiguous()  # (batch, seq)
        end_logits = end_logits.contiguous()  # (batch, seq)
        loss = None
        if start_positions is not None and end_positions is not None:
            start_loss = span_loss(start_logits, start_positions)
            end_loss = span_loss(end_logits, end_positions)
            loss = (start_loss + end_loss) / 2
        output = QuestionAnsweringOutput(
            loss, start_logits, end_logits, encoded.hidden_states, encoded.attentions
        )
        return to_output(output, options.get("return_dict"), self.config)

    if TYPE_CHECKING:
        __call__ = forward


# --- what several heads need


def encoder_options(options: ForwardOptions) -> ForwardOptions:
    """Return the options for `BertModel`. Heads read its output by name, so it is not a tuple."""
    return {**options, "return_dict": True}


def classifier_dropout(config: BertConfig) -> float:
    """Return the dropout probability before a classifier."""
    dropout = config.classifier_dropout
    return config.hidden_dropout_prob if dropout is None else dropout


def classification_loss(
    logits: Tensor, labels: Tensor, problem_type: str | None, num_labels: int
) -> Tensor:
    """Return the loss of a problem type, as `BertForSequenceClassification` lists them.

    Args:
        logits: (batch, num_labels).
        labels: As the problem type says.
        problem_type: None: chosen from `num_labels` and the labels.
        num_labels: That of the model, which need not be that of its config.
    """
    check_tensor("labels", labels)
    if problem_type is None and num_labels == 1:
        problem_type = "regression"
    if problem_type is None and not is_class_index(labels):
        problem_type = "multi_label_classification"
    if problem_type == "regression":
        return regression_loss(logits, labels)
    if problem_type == "multi_label_classification":
        return multi_label_loss(logits, labels)
    return cross_entropy(logits, labels)


def choose_tokens(
    states: Tensor, labels: Tensor | None, positions: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """Return the hidden states and labels of the tokens whose words are scored.

    The head computes each token alone, so the others are left out before the product with the whole
    vocabulary.

    Args:
        states: (batch, seq, hidden).
        labels: (batch, seq), `IGNORED` where nothing is predicted.
        positions: torch.bool (batch, seq), the tokens that are scored. None: all.

    Returns:
        States and labels as they are, or (chosen, hidden) and (chosen,) with `positions`.
    """
    check_chosen(positions, labels, states.shape[:-1])
    if positions is None:
        return states, labels
    return states[positions], None if labels is None else labels[positions]


def join_choices(x: Tensor | None) -> Tensor | None:
    """Flatten (batch, choices, seq, ...) to (batch * choices, seq, ...), and leave the rest."""
    return x.flatten(0, 1) if isinstance(x, Tensor) and x.dim() > 2 else x
