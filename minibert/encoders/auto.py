"""Names that leave the architecture open, and loading a checkpoint with all that it holds.

Here there is one architecture, so an Auto class has nothing to choose. A config.json of another
`model_type` raises an error that names it.
"""

from os import PathLike
from typing import Any

from minibert import heads
from minibert.base import PreTrainedModel
from minibert.checkpoints.source import Source, split_source
from minibert.config import BertConfig
from minibert.encoders.folders.checkpoint import Checkpoint
from minibert.model import BertModel
from minibert.tokenization.tokenizer import BertTokenizer

AutoConfig = BertConfig
AutoTokenizer = BertTokenizerFast = BertTokenizer
AutoModel = BertModel
AutoModelForPreTraining = heads.BertForPreTraining
AutoModelForMaskedLM = heads.BertForMaskedLM
AutoModelForNextSentencePrediction = heads.BertForNextSentencePrediction
AutoModelForSequenceClassification = heads.BertForSequenceClassification
AutoModelForTokenClassification = heads.BertForTokenClassification
AutoModelForQuestionAnswering = heads.BertForQuestionAnswering
AutoModelForMultipleChoice = heads.BertForMultipleChoice


def load_with_heads(
    name: str | PathLike[str] | Source, **options: Any
) -> tuple[PreTrainedModel, BertTokenizer]:
    """A checkpoint with every head that its tensors belong to, and its tokenizer.

    Args:
        name: Folder, bundled model, Hub id, or a `Source`.
        options: As in `PreTrainedModel.from_pretrained`.

    Raises:
        FileNotFoundError: The checkpoint does not exist, or a file of it is missing.
        ValueError: A damaged file, or one that is not a BERT's.
    """
    source, options = split_source(name, options)
    checkpoint = Checkpoint(source, mmap=options.pop("mmap", True), is_bare=True)
    return checkpoint.bert(**options), BertTokenizer.from_pretrained(source)
