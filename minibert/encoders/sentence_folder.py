"""Reading a sentence-transformers folder: the modules after the BERT, limits and prompts of texts.

    modules.json                        the modules: Transformer, Pooling, then Dense or Normalize
    sentence_bert_config.json           max_seq_length, do_lower_case (in the transformer's folder)
    1_Pooling/config.json               which pooling
    2_Dense/config.json + weights       a linear layer and an activation
    config_sentence_transformers.json   prompts, such as "query: "

A folder without modules.json is a plain BERT: mean pooling, nothing after it. The documentation of
sentence-transformers describes the format ("Creating Custom Models"). No name in a file is ever
imported.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from minibert.checkpoints.source import Source
from minibert.encoders.token_rows import named_prompt
from minibert.files import parse_json, prefix_errors, read_json, read_text
from minibert.tokenization.tokenizer import BertTokenizer

# in the order in which sentence-transformers puts them side by side
POOLING_FLAGS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
POOLINGS = {"cls": "cls", "max": "max", "mean": "mean", "mean_sqrt_len_tokens": "mean_sqrt_len"}
# the package of the modules in the first versions, which every version still finds
MODULES = "sentence_transformers.models"
# where the vectors or scores come from, for each task that minibert has
TASK_OUTPUTS = {
    "feature-extraction": "last_hidden_state",
    "sequence-classification": "logits",
}
# options of a tokenizer that change tokens, with their types
TOKENIZER_OPTIONS = {
    "do_lower_case": bool,
    "strip_accents": bool,
    "tokenize_chinese_chars": bool,
    "model_max_length": int,
    "truncation_side": str,
}
# options of loading and batching that do not change vectors
LOADING_OPTIONS = {
    "cache_dir",
    "local_files_only",
    "revision",
    "subfolder",
    "token",
    "trust_remote_code",
    "use_cache",
}
MODEL_OPTIONS = {
    "add_pooling_layer",
    "attn_implementation",
    "device_map",
    "dtype",  # minibert loads float32
    "low_cpu_mem_usage",
    "torch_dtype",
    "use_safetensors",
}
BATCH_OPTIONS = {"padding", "padding_side", "pad_to_multiple_of", "return_tensors"}
_KINDS = ("Transformer", "Pooling", "Dense", "Normalize")


@dataclass
class SentenceFolder:
    """How a folder turns texts into vectors, or pairs of texts into scores.

    Attributes:
        transformer: The folder of the BERT itself, which may be inside this one.
        pooling: One or several, whose vectors are concatenated.
        include_prompt: Whether the tokens of a prompt are pooled.
        modules: "Dense" or "Normalize" after the pooling, with their folders.
        truncate_dim: Dimensions of a vector that are kept at the end. None: all.
        max_length: Tokens of a text at most. None: the folder does not say.
        lower_case: Whether texts are lower-cased, whatever the tokenizer does.
        tokenizer_options: Options of the tokenizer, which come before its own files'.
        prompts: Texts to put before every text, by name.
        default_prompt_name: The prompt of calls that name none.
        similarity_fn_name: One of `minibert.encoders.search.METRICS`.
        activation_fn: Of a cross-encoder, by the dotted path of its class.
    """

    transformer: Source
    pooling: list[str] = field(default_factory=lambda: ["mean"])
    include_prompt: bool = True
    modules: list[tuple[str, Source]] = field(default_factory=list)
    truncate_dim: int | None = None
    max_length: int | None = None
    lower_case: bool = False
    tokenizer_options: dict[str, Any] = field(default_factory=dict)
    prompts: dict[str, str] = field(default_factory=dict)
    default_prompt_name: str | None = None
    similarity_fn_name: str = "cosine"
    activation_fn: Any = None

    def override_prompts(
        self, prompts: dict[str, str] | None, default_prompt_name: str | None
    ) -> None:
        """Replaces the folder's prompts by a caller's. None, or "" for a name, leaves them."""
        if prompts is not None:
            self.prompts = prompts
        if default_prompt_name:
            self.default_prompt_name = default_prompt_name

    def length_within(self, positions: int) -> int | None:
        """The folder's `max_length`, as far as the model has positions."""
        if self.max_length is None:
            return None
        return min(self.max_length, positions)

    def load_tokenizer(self) -> BertTokenizer:
        """The tokenizer. A cased one lower-cases if the folder asks for it, and keeps accents."""
        options = dict(self.tokenizer_options)
        tokenizer = BertTokenizer.from_pretrained(self.transformer, **options)
        if self.lower_case and not tokenizer.do_lower_case:
            options["do_lower_case"] = True
            options["strip_accents"] = bool(tokenizer.strip_accents)
            tokenizer = BertTokenizer.from_pretrained(self.transformer, **options)
        return tokenizer


def read_sentence_folder(source: Source, cross_encoder: bool = False) -> SentenceFolder:
    """Reads the folder of an embedder or a cross-encoder. That of a plain BERT gives the defaults.

    Args:
        source: The folder.
        cross_encoder: Whether it should be a cross-encoder's.

    Raises:
        ValueError: A module, pooling or setting that minibert does not have, named, or a damaged
            file.
        FileNotFoundError: A file that modules.json needs is missing.
    """
    folder = SentenceFolder(transformer=source)
    path = source.file("modules.json")
    if path is not None:
        modules = read_modules(path)
        check_order(path, [kind for kind, _ in modules], cross_encoder)
    elif cross_encoder:
        modules = [("Transformer", "")]
    else:
        return folder
    for kind, place in modules:
        if kind == "Transformer":
            _read_transformer(source, place, folder)
        elif kind == "Pooling":
            _read_pooling(source.require(f"{place}config.json"), folder)
        else:
            _check_input(source, place)
            folder.modules.append((kind, source.inside(place)))
    settings = source.file("config_sentence_transformers.json")
    if settings is not None:
        _read_settings(settings, folder)
    return folder


def check_order(path: Path, kinds: list[str], cross_encoder: bool) -> None:
    """Check that a folder has the modules of an embedder or a cross-encoder, in their order."""
    if cross_encoder:
        if kinds != ["Transformer"]:
            raise ValueError(
                f"{path} lists {', '.join(kinds)}, which makes an embedder. A cross-encoder has a "
                "Transformer alone: pass one, such as cross-encoder/ms-marco-MiniLM-L6-v2."
            )
        return
    has_both_first = kinds[:2] == ["Transformer", "Pooling"]
    if not has_both_first or "Transformer" in kinds[2:] or "Pooling" in kinds[2:]:
        raise ValueError(
            f"{path} should list a Transformer, a Pooling, then Dense or Normalize, not "
            f"{', '.join(kinds)}."
        )


def _read_settings(path: Path, folder: SentenceFolder) -> None:
    """Reads prompts, dimension, similarity and activation."""
    content = read_json(path)
    prompts = value_of(path, content, "prompts", dict, {})
    folder.prompts = {name: value_of(path, prompts, name, str, "") for name in prompts}
    folder.default_prompt_name = value_of(path, content, "default_prompt_name", str, None)
    with prefix_errors(str(path)):
        named_prompt(folder.prompts, folder.default_prompt_name)  # it must exist
    folder.truncate_dim = value_of(path, content, "truncate_dim", int, None)
    folder.similarity_fn_name = value_of(path, content, "similarity_fn_name", str, "cosine")
    folder.activation_fn = content.get("activation_fn")


def is_embedder(source: Source) -> bool:
    """Whether a folder is an embedder's: a BERT alone and a cross-encoder have no pooling."""
    path = source.file("modules.json")
    return path is not None and "Pooling" in dict(read_modules(path))


def value_of(path: Path, config: Mapping[str, Any], name: str, kind: type, default: Any) -> Any:
    """A value of a file, or the default if it is absent or null.

    Args:
        path: The file, for the error.
        config: What it holds.
        name: Of the value.
        kind: Its type. Whole numbers should be positive.
        default: For a value that is absent.

    Raises:
        ValueError: A value of another type.
    """
    value = config.get(name)
    if value is None:
        return default
    if kind is int:
        fits = type(value) is int and value > 0
    else:
        fits = isinstance(value, kind)
    if not fits:
        raise ValueError(f"{path}: {name:.80} should be a {kind.__name__}, not {value!r:.80}.")
    return value


def read_modules(path: Path) -> list[tuple[str, str]]:
    """The class name of each module and its folder, which ends in a slash or is ""."""
    content = parse_json(read_text(path), path, list)
    if not all(isinstance(module, dict) for module in content):
        raise ValueError(f"{path} should hold a list of modules.")
    modules = []
    for module in content:
        # the packages between the first name and the class differ between versions
        name = value_of(path, module, "type", str, "")
        package, _, kind = name.rpartition(".")
        if kind not in _KINDS or package.split(".")[0] != "sentence_transformers":
            raise ValueError(
                f"{path} asks for the module {name!r:.80}, but minibert has {', '.join(_KINDS)}."
            )
        folder = value_of(path, module, "path", str, "")
        if folder.startswith(("/", "\\")) or ":" in folder or ".." in folder:
            raise ValueError(f"{path} names {folder!r:.80}, which is outside the model's folder.")
        modules.append((kind, f"{folder.rstrip('/')}/" if folder else ""))
    return modules


def _read_transformer(source: Source, path: str, folder: SentenceFolder) -> None:
    """Reads the limits of texts, and the options of tokenizer and model."""
    folder.transformer = source.inside(path)
    settings = source.file(f"{path}sentence_bert_config.json")
    if settings is None:
        return
    config = read_json(settings)
    folder.max_length = value_of(settings, config, "max_seq_length", int, None)
    folder.lower_case = value_of(settings, config, "do_lower_case", bool, False)
    for name in ("query_length", "document_length", "query_expansion"):
        if config.get(name) is not None:
            raise ValueError(
                f"{settings} sets {name} to {config[name]!r:.80}, but minibert has one "
                f"max_seq_length for queries and documents."
            )
    _check_task(settings, config)
    _read_tokenizer_options(settings, config, folder)
    _read_processing_options(settings, config, folder)
    for names, ignored in (
        (("config_args", "config_kwargs"), LOADING_OPTIONS),
        (("model_args", "model_kwargs"), LOADING_OPTIONS | MODEL_OPTIONS),
    ):
        for group in names:
            for name in value_of(settings, config, group, dict, {}):
                if name not in ignored:
                    raise ValueError(
                        f"{settings}: {group} sets {name:.80}, which minibert does not apply: put "
                        "it into the model's config.json."
                    )
    if folder.max_length in (1, 2):
        raise ValueError(
            f"{settings}: max_seq_length {folder.max_length} has room for [CLS] and [SEP], but not "
            "for a word."
        )


def _check_task(path: Path, config: Mapping[str, Any]) -> None:
    """Check that the output of the model is its hidden states or a classifier's logits."""
    task = value_of(path, config, "transformer_task", str, "feature-extraction")
    if task not in TASK_OUTPUTS:
        raise ValueError(
            f"{path} asks for transformer_task {task!r:.80}, but minibert has "
            f"{', '.join(TASK_OUTPUTS)}."
        )
    modalities = value_of(path, config, "modality_config", dict, {})
    text = value_of(path, modalities, "text", dict, {})
    output = text.get("method_output_name")
    if output not in (None, *TASK_OUTPUTS.values()):
        raise ValueError(
            f"{path} asks for the output {output!r:.80}, but minibert has "
            f"{', '.join(TASK_OUTPUTS.values())}."
        )


def _read_tokenizer_options(path: Path, config: Mapping[str, Any], folder: SentenceFolder) -> None:
    """Reads the options of the tokenizer, which come before its own files'."""
    for group in ("processor_kwargs", "tokenizer_args"):  # the second is the earlier name
        options = value_of(path, config, group, dict, {})
        for name in options:
            if name in TOKENIZER_OPTIONS:
                value = value_of(path, options, name, TOKENIZER_OPTIONS[name], None)
                folder.tokenizer_options[name] = value
            elif name not in LOADING_OPTIONS | {"padding_side", "use_fast"}:
                raise ValueError(f"{path}: {group} sets {name:.80}, which minibert does not have.")
    length = folder.tokenizer_options.pop("model_max_length", None)
    if length is not None:
        folder.max_length = length


def _read_processing_options(path: Path, config: Mapping[str, Any], folder: SentenceFolder) -> None:
    """Reads the options of each call of the tokenizer, which come before all others."""
    groups = value_of(path, config, "processing_kwargs", dict, {})
    for group in ("common", "text"):
        options = value_of(path, groups, group, dict, {})
        for name, value in options.items():
            if name == "max_length":
                folder.max_length = value_of(path, options, name, int, folder.max_length)
            elif name == "truncation" and value in (True, "longest_first"):
                continue
            elif name not in BATCH_OPTIONS:
                raise ValueError(
                    f"{path}: processing_kwargs sets {name:.80} to {value!r:.80}, which minibert "
                    "does not apply."
                )


def _read_pooling(path: Path, folder: SentenceFolder) -> None:
    config = read_json(path)
    modes = config.get("pooling_mode")
    if not modes:
        modes = [mode for flag, mode in POOLING_FLAGS.items() if config.get(flag)] or "mean"
    if not isinstance(modes, list):
        modes = [modes]
    for mode in modes:
        if not isinstance(mode, str) or mode not in POOLINGS:
            raise ValueError(
                f"{path} asks for pooling {mode!r:.80}, but minibert has {', '.join(POOLINGS)}."
            )
    folder.pooling = [POOLINGS[mode] for mode in modes]
    folder.include_prompt = value_of(path, config, "include_prompt", bool, True)


def _check_input(source: Source, place: str) -> None:
    """Check that a module works on sentence vectors."""
    if not place:
        return
    path = source.file(f"{place}config.json")
    if path is None:
        return
    content = read_json(path)
    for name in ("module_input_name", "module_output_name"):
        if content.get(name) not in (None, "sentence_embedding"):
            raise ValueError(
                f"{path} works on {content[name]!r:.80}, but minibert has it on sentence vectors "
                f"only."
            )
