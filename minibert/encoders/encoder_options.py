"""The options of encoders: each is declared once, for signatures, type checkers and the help.

`HubKeywords` say where a model is. `LoadKeywords`, `TextModelKeywords`, `EmbedderKeywords`,
`RerankerKeywords` and `HeadKeywords` say how it is loaded, `VectorKeywords` and `EncodeKeywords`
how it encodes, `RankKeywords` and `PredictKeywords` how it scores. Those that commands have, too,
come with the help of their option. `HubOptions` and so on are dataclasses of the same fields, which
hold the values of a call with the defaults of what it leaves out.
"""

import copy
import inspect
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, fields, make_dataclass
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict, TypeVar, cast, get_args

from minibert.encoders.arithmetic.pooling_names import POOLINGS
from minibert.inference.batching import BATCH_TOKENS
from minibert.inference.precisions import PRECISIONS
from minibert.util.checks import check_flag, flags_of, option, refuse_unknown

if TYPE_CHECKING:
    import torch

    from minibert.encoders.arithmetic.pooling import Layers
    from minibert.encoders.arithmetic.pooling_names import Pooling
    from minibert.inference.precisions import Precision

Overflow = Literal["truncate", "mean"]
OutputValue = Literal["sentence_embedding", "token_embeddings"]
VectorPrecision = Literal["float32", "int8", "uint8", "binary", "ubinary"]
VECTOR_PRECISIONS: tuple[VectorPrecision, ...] = get_args(VectorPrecision)

# keywords of sentence-transformers that are no options here, and what to do instead
_ELSEWHERE = {
    "activation_fn": "CrossEncoder(name, activation_fn=...) takes it, and so do predict and rank.",
    "activation_fct": "it is activation_fn=.",
    "activation_function": "it is activation_fn=.",
    "backend": 'SentenceEmbedder.from_pretrained has it. Rerankers: minibert.load(backend="onnx").',
    "cache_folder": "it is cache_dir=.",
    "chunk_size": "encode_stream of an embedder takes it.",
    "config_kwargs": "put the fields into the config.json of the model.",
    "convert_to_numpy": "encode and predict take it. The scores of rank are floats.",
    "convert_to_tensor": "encode and predict take it. The scores of rank are floats.",
    "corpus_chunk_size": "leave it out: memory is bounded in any case.",
    "corpus_embeddings": "pass the vectors second, as corpus.",
    "default_activation_function": "it is activation_fn=.",
    "inputs": "pass the texts first.",
    "model_kwargs": "precision= and device= are options of their own.",
    "model_name_or_path": "pass the name first.",
    "num_labels": "the folder has them: BertForSequenceClassification.from_pretrained takes it.",
    "num_workers": "leave it out: nothing is loaded by other processes.",
    "pool": "encode_to_shards(processes=N) encodes in several processes.",
    "processing_kwargs": "set max_length of the model before the call.",
    "processor_kwargs": "pass a tokenizer to the class itself.",
    "query_chunk_size": "leave it out: memory is bounded in any case.",
    "query_embeddings": "pass the vectors first, as queries.",
    "score_function": 'it is metric=, such as "dot".',
    "sentences": "pass the texts first.",
    "similarity_fn_name": "set it afterwards: embedder.similarity_fn_name = ...",
    "tokenizer_kwargs": "pass a tokenizer to the class itself.",
    "trust_remote_code": "leave it out: no code of a checkpoint is ever run.",
    "use_auth_token": "it is token=.",
}

# what sentence-transformers calls the texts of encode and the pairs of predict, today and before
_NAMES_OF_TEXTS = ("inputs", "sentences")

_IN_PROCESSES = "encode_to_shards(processes=N) encodes in several processes."
_UPLOAD = "save_pretrained writes a folder, and `hf upload NAME FOLDER` uploads it."
_TRAINED = "minibert finetune trains it, or minibert.training.finetuning.finetune."

_PRECISION = "from_pretrained takes precision= and device=."
_MODULE = "modules of PyTorch have it, such as the `model` of a CrossEncoder."

# methods and attributes of sentence-transformers that do not exist here, and what to do instead
METHODS_ELSEWHERE = {
    **dict.fromkeys(
        ("cpu", "cuda", "eval", "forward", "parameters", "register_forward_hook", "to", "train"),
        _MODULE,
    ),
    "bfloat16": _PRECISION,
    "default_activation_function": "it is activation_fn.",
    "encode_multi_process": _IN_PROCESSES,
    "evaluate": "minibert.evaluate(embedder, None, data) does it.",
    "fit": _TRAINED,
    "float": _PRECISION,
    "get_max_seq_length": "it is max_length.",
    "half": _PRECISION,
    "is_singular_input": "encode and predict take a single text or pair, too.",
    "load": "it is from_pretrained.",
    "old_fit": _TRAINED,
    "preprocess": "tokenizer takes texts.",
    "push_to_hub": _UPLOAD,
    "save": "it is save_pretrained.",
    "save_to_hub": _UPLOAD,
    "start_multi_process_pool": _IN_PROCESSES,
    "stop_multi_process_pool": _IN_PROCESSES,
    "truncate_embeddings": "encode takes truncate_dim=.",
    "truncate_sentence_embeddings": "encode takes truncate_dim=.",
}

Method = TypeVar("Method", bound=Callable[..., Any])


class HubKeywords(TypedDict, total=False):
    """Where the files of a model are, besides its name.

    Attributes:
        revision: Branch, tag or commit on the Hub.
        cache_dir: Where the Hub's files are cached.
        local_files_only: Never download.
        token: For private repositories.
        subfolder: A folder inside the repository.
    """

    revision: Annotated["str | None", field(default=None)]
    cache_dir: Annotated["str | os.PathLike[str] | None", field(default=None)]
    local_files_only: Annotated["bool", field(default=False)]
    token: Annotated["str | bool | None", field(default=None)]
    subfolder: Annotated["str | None", field(default=None)]


class TextModelKeywords(HubKeywords, total=False):
    """How an exported embedder is loaded, and what the folder of every model of texts says.

    Attributes:
        max_length: Tokens of the longest row, [CLS] and [SEP] included. None: what the folder says.
        prompts: Texts to put before every text, by name, which come before the folder's of the
            same name.
        default_prompt_name: The prompt of calls that name none. None: the folder's.
    """

    max_length: Annotated["int | None", field(default=None)]
    prompts: Annotated["Mapping[str, str] | None", field(default=None)]
    default_prompt_name: Annotated["str | None", field(default=None)]


class LoadKeywords(HubKeywords, total=False):
    """How a model that computes with torch is loaded.

    Attributes:
        precision: "fp32", "bf16" or "int8" as in `minibert.optimize`. "exact" (or None) runs the
            model unchanged: the vector of a single text equals that of transformers bit for bit.
            Several texts are packed without padding, so products have other shapes and last bits
            may differ.
        device: Where to run. None: the CPU.
        mmap: As in `BertModel.from_pretrained`. An optimized model has its weights in memory in any
            case.
    """

    precision: Annotated[
        "Precision | None",
        option(
            "fp32",
            "Arithmetic: exact is bit-identical to transformers, fp32 fuses operators, bf16 and "
            "int8 trade accuracy for speed.",
            choices=PRECISIONS,
        ),
    ]
    device: Annotated[
        "torch.device | str | None",
        option(None, "Device to compute on: cpu, cuda, cuda:1 or mps.", metavar="DEVICE"),
    ]
    mmap: Annotated["bool", field(default=True)]


class EmbedderKeywords(TextModelKeywords, LoadKeywords, total=False):
    """How an embedder is loaded.

    Attributes:
        pooling: None follows the folder's modules.json. A plain BERT has none and gets "mean".
        layers: As in `minibert.encoders.arithmetic.pooling.resolve_layers`. None: "last". Layers
            above the highest one that is needed are dropped.
        layer_weights: As in `minibert.encoders.arithmetic.pooling.combine_layers`.
        normalize: Whether vectors are L2-normalized at the end. None follows the folder. A plain
            BERT's are not.
        truncate_dim: Truncate each vector to its first N dimensions, before `normalize=True`
            normalizes it. None follows the folder.
    """

    pooling: Annotated[
        "Pooling | Sequence[Pooling] | None",
        option(
            None,
            f"Pooling of the token vectors: {', '.join(POOLINGS)}, or several with commas. "
            "Default: the model's own.",
            metavar="NAME",
        ),
    ]
    layers: Annotated[
        "Layers | None",
        option(
            None,
            "Hidden states to pool: last, second_to_last, concat_last_4, ... or a list such as "
            "11,12, where 0 is the output of the embeddings (h0).",
            metavar="LAYERS",
        ),
    ]
    layer_weights: Annotated[
        "Sequence[float] | None",
        option(
            None,
            "Weight of each of several --layers, which are then summed.",
            metavar="W,W,...",
        ),
    ]
    normalize: Annotated["bool | None", field(default=None)]
    truncate_dim: Annotated[
        "int | None",
        option(
            None,
            "Number of dimensions to keep of each vector.",
            metavar="N",
        ),
    ]


class RerankerKeywords(TextModelKeywords, LoadKeywords, total=False):
    """How a cross-encoder is loaded."""


class HeadKeywords(LoadKeywords, total=False):
    """How a classifier, tagger, answerer or filler is loaded.

    Attributes:
        max_length: Tokens of the longest row, [CLS] and [SEP] included. None: what the folder says.
    """

    max_length: Annotated["int | None", field(default=None)]


class VectorKeywords(TypedDict, total=False):
    """What decides the vectors of texts. `TextEncoder.settings` reads them.

    Attributes:
        prompt: Put before every text.
        prompt_name: The prompt of this name in `prompts`. None: `default_prompt_name`.
        overflow: What happens to a text of more than `max_length` tokens. "truncate" drops the rest
            and warns. "mean" splits the text into windows, each with the prompt, and takes the mean
            of their vectors before normalization, weighted by their tokens.
        batch_tokens: Tokens of one pass through the model.
        truncate_dim: Truncate each vector to its first N dimensions.
        normalize_embeddings: L2-normalize the vectors, after truncating them.
    """

    prompt: Annotated[
        "str | None",
        option(
            None,
            "Text to put before every text. Default: the model's own, if any.",
            metavar="TEXT",
        ),
    ]
    prompt_name: Annotated[
        "str | None",
        option(None, "Name of a prompt of the model, such as query.", metavar="NAME"),
    ]
    overflow: Annotated[
        "Overflow",
        option(
            "truncate",
            "Treatment of texts longer than --max-length: truncate them, or average over windows.",
            choices=get_args(Overflow),
        ),
    ]
    batch_tokens: Annotated["int", option(BATCH_TOKENS, "Maximum number of tokens per batch.")]
    truncate_dim: Annotated["int | None", field(default=None)]
    normalize_embeddings: Annotated["bool", field(default=False)]


class ArrayKeywords(VectorKeywords, total=False):
    """What `encode`, `encode_query` and `encode_document` take, and what leaves an array an array.

    Attributes:
        batch_size: Accepted for code written for sentence-transformers, without effect:
            `batch_tokens` decides which texts go through the model together.
        device: Moves the model there first, and leaves it there.
        show_progress_bar: Show a bar with tokens per second and the time left.
    """

    batch_size: Annotated["int", field(default=32)]
    device: Annotated["torch.device | str | None", field(default=None)]
    show_progress_bar: Annotated["bool | None", field(default=False)]


class EncodeKeywords(ArrayKeywords, total=False):
    """What `encode`, `encode_query` and `encode_document` take besides the texts.

    Attributes:
        precision: Of the components that are returned, as in
            `minibert.encoders.arithmetic.quantization.quantize`, with the ranges of these vectors.
            None means "float32".
        convert_to_tensor: Return one tensor on the model's device.
        convert_to_numpy: False returns a list of tensors on the model's device, one for each text.
        output_value: "sentence_embedding", or "token_embeddings" for a list with the features of
            each text's tokens, (tokens, D), before pooling.
    """

    precision: Annotated["VectorPrecision | None", field(default="float32")]
    convert_to_tensor: Annotated["bool", field(default=False)]
    convert_to_numpy: Annotated["bool", field(default=True)]
    output_value: Annotated["OutputValue", field(default="sentence_embedding")]


class RankKeywords(TypedDict, total=False):
    """What `CrossEncoder.rank` takes besides the texts.

    Attributes:
        prompt: Put before the first text of every pair.
        prompt_name: The prompt of this name in `prompts`. None: `default_prompt_name`.
        batch_size: Accepted for code written for sentence-transformers, without effect:
            `batch_tokens` decides which pairs go through the model together.
        batch_tokens: Tokens of one pass through the model.
        show_progress_bar: Show a bar with tokens per second and the time left.
        activation_fn: Applied to the logits instead of the cross-encoder's own.
        device: Moves the model there first, and leaves it there.
    """

    prompt: Annotated["str | None", field(default=None)]
    prompt_name: Annotated["str | None", field(default=None)]
    batch_size: Annotated["int", field(default=32)]
    batch_tokens: Annotated["int", field(default=BATCH_TOKENS)]
    show_progress_bar: Annotated["bool | None", field(default=False)]
    activation_fn: Annotated["Callable[[torch.Tensor], torch.Tensor] | None", field(default=None)]
    device: Annotated["torch.device | str | None", field(default=None)]


class PredictKeywords(RankKeywords, total=False):
    """What `CrossEncoder.predict` takes besides the pairs.

    Attributes:
        apply_softmax: Apply a softmax over the labels after the activation, if there are several.
        convert_to_numpy: False returns a list of tensors on the model's device, one for each pair.
        convert_to_tensor: Return one tensor on the model's device.
    """

    apply_softmax: Annotated["bool", field(default=False)]
    convert_to_numpy: Annotated["bool", field(default=True)]
    convert_to_tensor: Annotated["bool", field(default=False)]


def options_class(keywords: Any) -> Any:
    """Return the dataclass of options that keywords declare, with their defaults.

    Args:
        keywords: A `TypedDict`. Each of its keys is `Annotated` with its type, as a string, because
            nothing heavy is imported for it, and with the field.
    """
    declared = []
    for name, annotation in keywords.__annotations__.items():
        kind, default = get_args(annotation)
        # a copy, because a dataclass writes into its fields, and a subclass has them, too
        declared.append((name, kind.__forward_arg__, copy.copy(default)))
    name = keywords.__name__.replace("Keywords", "Options")
    # nothing compares them, and each method of a dataclass takes time to be made
    made = make_dataclass(name, declared, frozen=True, eq=False)
    made.__module__, made.__doc__ = __name__, keywords.__doc__
    return made


HubOptions = options_class(HubKeywords)
TextModelOptions = options_class(TextModelKeywords)
LoadOptions = options_class(LoadKeywords)
EmbedderOptions = options_class(EmbedderKeywords)
RerankerOptions = options_class(RerankerKeywords)
HeadOptions = options_class(HeadKeywords)
VectorOptions = options_class(VectorKeywords)
EncodeOptions = options_class(EncodeKeywords)
RankOptions = options_class(RankKeywords)
PredictOptions = options_class(PredictKeywords)


def typed_as(like: Method) -> Callable[[Callable[..., Any]], Method]:
    """Gives a method the types of another one, with all of its overloads.

    Args:
        like: The other method.
    """
    return lambda method: cast(Method, method)


def takes(options: type) -> Callable[[Method], Method]:
    """Makes `**options` of a method the fields of a class: in its signature, and in each call.

    A call raises a TypeError for an option that does not exist, or for a value in the place of an
    option, as `encode(texts, "query")`, and a ValueError for a switch that is neither True nor
    False. `texts` or `pairs` are also accepted under sentence-transformers' names, `inputs` and
    `sentences`.

    Args:
        options: A dataclass.
    """

    def decorate(method: Method) -> Method:
        signature = inspect.signature(method)
        parameters = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        places = len([p for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD])
        owner = method.__name__
        if owner == "__init__" or "cls" in signature.parameters:  # called by the name of the class
            owner = method.__qualname__.removesuffix(".__init__")
        others = [p.name for p in parameters]
        names = [one.name for one in fields(options)]
        flags = flags_of(options)

        @wraps(method)
        def call(*values: Any, **named: Any) -> Any:
            if not named and len(values) <= places:
                return method(*values)  # most calls: nothing to check
            _rename_texts(named, others[len(values) :])
            # None asks for nothing: sentence-transformers passes pool=None, for instance
            unused = [one for one, value in named.items() if value is None and one in _ELSEWHERE]
            for one in unused:
                if one not in names and one not in others:
                    del named[one]
            if len(values) > places:
                examples = ", ".join(f"{name}=" for name in names[:3])
                raise TypeError(
                    f"{owner} takes its options by name ({examples} ...), but "
                    f"{values[places]!r:.80} has none."
                )
            check_names(owner, [name for name in named if name not in others], names)
            for name in flags & named.keys():
                check_flag(name, named[name])
            return method(*values, **named)

        kind = inspect.Parameter.KEYWORD_ONLY
        for one in fields(options):
            parameters.append(
                inspect.Parameter(one.name, kind, default=one.default, annotation=one.type)
            )
        call.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        return call  # type: ignore[return-value]

    return decorate


def _rename_texts(named: dict[str, Any], free: Sequence[str]) -> None:
    """Give the texts or pairs of a call the name that they have here.

    Args:
        named: The keywords of the call.
        free: The parameters of the method that the call does not fill by position.
    """
    for name in ("texts", "pairs"):
        if name in free and name not in named:
            passed = next((one for one in _NAMES_OF_TEXTS if one in named), None)
            if passed is not None:
                named[name] = named.pop(passed)


def check_names(owner: str, names: Iterable[str], options: Sequence[str]) -> None:
    """Check that every keyword of a call is an option.

    Args:
        owner: What was called, as the error should call it.
        names: The keywords.
        options: The names of the options.

    Raises:
        TypeError: A keyword that is none. The error says what to do instead of one of
            sentence-transformers, or suggests the most similar option.
    """
    for name in names:
        if name in _ELSEWHERE and name not in options:
            raise TypeError(f"{owner} has no option {name!r}: {_ELSEWHERE[name]}")
    refuse_unknown(owner, names, options)


def part_of(options: Any, kind: type) -> dict[str, Any]:
    """The fields that a class of options has, of options of that class or a larger one.

    Args:
        options: The options.
        kind: The class, or a base of it.
    """
    return {one.name: getattr(options, one.name) for one in fields(kind)}
