# The public names, grouped by the module that defines them. Type checkers read this file, and so does __init__.py,
# which imports each name when it is first used.

# the model, in reading order
# the names that do not say which architecture
from minibert.auto import (
    AutoConfig as AutoConfig,
    AutoModel as AutoModel,
    AutoModelForMaskedLM as AutoModelForMaskedLM,
    AutoModelForMultipleChoice as AutoModelForMultipleChoice,
    AutoModelForNextSentencePrediction as AutoModelForNextSentencePrediction,
    AutoModelForPreTraining as AutoModelForPreTraining,
    AutoModelForQuestionAnswering as AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification as AutoModelForSequenceClassification,
    AutoModelForTokenClassification as AutoModelForTokenClassification,
    AutoTokenizer as AutoTokenizer,
    BertTokenizerFast as BertTokenizerFast,
)
from minibert.config import BertConfig as BertConfig
from minibert.heads import (
    BertForMaskedLM as BertForMaskedLM,
    BertForMultipleChoice as BertForMultipleChoice,
    BertForNextSentencePrediction as BertForNextSentencePrediction,
    BertForPreTraining as BertForPreTraining,
    BertForQuestionAnswering as BertForQuestionAnswering,
    BertForSequenceClassification as BertForSequenceClassification,
    BertForTokenClassification as BertForTokenClassification,
)

# speed, and a look inside
from minibert.inference.optimize import optimize as optimize, unoptimize as unoptimize
from minibert.layouts import PackedLayout as PackedLayout, PaddedLayout as PaddedLayout
from minibert.model import BertModel as BertModel

# ready-made answers of fine-tuned models
from minibert.predict import (
    answer_question as answer_question,
    classify as classify,
    fill_mask as fill_mask,
    find_entities as find_entities,
)

# texts to vectors
from minibert.sentences.adapters import SentenceVectorizer as SentenceVectorizer
from minibert.sentences.corpus import encode_corpus as encode_corpus, encode_file as encode_file
from minibert.sentences.embedder import SentenceEmbedder as SentenceEmbedder
from minibert.sentences.reading import open_corpus as open_corpus
from minibert.sentences.rerank import CrossEncoder as CrossEncoder, rerank as rerank
from minibert.sentences.search import nearest as nearest, similarity as similarity
from minibert.study.trace import trace as trace

# text to ids and back
from minibert.tokenization.added import AddedToken as AddedToken
from minibert.tokenization.tokenizer import BertTokenizer as BertTokenizer

__version__: str
__all__: list[str]
