# The public names, as __init__.py has them (a test compares the two): type checkers read this file.

# The model, in reading order
from minibert.config import BertConfig as BertConfig
from minibert.layouts import PackedLayout as PackedLayout, PaddedLayout as PaddedLayout
from minibert.base import (
    BertPreTrainedModel as BertPreTrainedModel,
    PreTrainedModel as PreTrainedModel,
)
from minibert.model import BertModel as BertModel
from minibert.heads import (
    BertForPreTraining as BertForPreTraining,
    BertForMaskedLM as BertForMaskedLM,
    BertForNextSentencePrediction as BertForNextSentencePrediction,
    BertForSequenceClassification as BertForSequenceClassification,
    BertForTokenClassification as BertForTokenClassification,
    BertForMultipleChoice as BertForMultipleChoice,
    BertForQuestionAnswering as BertForQuestionAnswering,
)

# Text to ids and back
from minibert.tokenization.added import AddedToken as AddedToken
from minibert.tokenization.tokenizer import BertTokenizer as BertTokenizer

# Names that leave the architecture open
from minibert.encoders.auto import (
    AutoConfig as AutoConfig,
    AutoTokenizer as AutoTokenizer,
    BertTokenizerFast as BertTokenizerFast,
    AutoModel as AutoModel,
    AutoModelForPreTraining as AutoModelForPreTraining,
    AutoModelForMaskedLM as AutoModelForMaskedLM,
    AutoModelForNextSentencePrediction as AutoModelForNextSentencePrediction,
    AutoModelForSequenceClassification as AutoModelForSequenceClassification,
    AutoModelForTokenClassification as AutoModelForTokenClassification,
    AutoModelForMultipleChoice as AutoModelForMultipleChoice,
    AutoModelForQuestionAnswering as AutoModelForQuestionAnswering,
)

# Any checkpoint, as what it is
from minibert.encoders.text_models import load as load

# Texts to vectors
from minibert.encoders.embedder import SentenceEmbedder as SentenceEmbedder
from minibert.encoders.onnx.onnx_embedder import OnnxEmbedder as OnnxEmbedder
from minibert.vectors.shards import (
    encode_to_shards as encode_to_shards,
    encode_to_file as encode_to_file,
)
from minibert.encoders.arithmetic.search import (
    nearest as nearest,
    semantic_search as semantic_search,
    similarity as similarity,
)
from minibert.vectors.folder import open_vectors as open_vectors
from minibert.encoders.rerank import CrossEncoder as CrossEncoder, rerank as rerank
from minibert.encoders.sklearn import SentenceVectorizer as SentenceVectorizer

# Answers of fine-tuned models
from minibert.encoders.answerer import Answerer as Answerer, answer_question as answer_question
from minibert.encoders.classifier import Classifier as Classifier, classify as classify
from minibert.encoders.filler import Filler as Filler, fill_mask as fill_mask
from minibert.encoders.tagger import Tagger as Tagger, find_entities as find_entities
from minibert.tasks.evaluation import evaluate as evaluate

# Speed, and a look inside
from minibert.inference.optimize import optimize as optimize, unoptimize as unoptimize
from minibert.study.trace import trace as trace

__version__: str
__all__: list[str]
