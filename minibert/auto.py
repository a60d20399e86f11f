"""The names of notebooks that leave the architecture open: here there is one, so there is nothing to choose.

A config.json of another `model_type` is refused by name when it is loaded.
"""

from __future__ import annotations

from minibert.config import BertConfig
from minibert.heads import (
    BertForMaskedLM,
    BertForMultipleChoice,
    BertForNextSentencePrediction,
    BertForPreTraining,
    BertForQuestionAnswering,
    BertForSequenceClassification,
    BertForTokenClassification,
)
from minibert.model import BertModel
from minibert.tokenization.tokenizer import BertTokenizer

AutoConfig = BertConfig
AutoTokenizer = BertTokenizerFast = BertTokenizer
AutoModel = BertModel
AutoModelForPreTraining = BertForPreTraining
AutoModelForMaskedLM = BertForMaskedLM
AutoModelForNextSentencePrediction = BertForNextSentencePrediction
AutoModelForSequenceClassification = BertForSequenceClassification
AutoModelForTokenClassification = BertForTokenClassification
AutoModelForQuestionAnswering = BertForQuestionAnswering
AutoModelForMultipleChoice = BertForMultipleChoice
