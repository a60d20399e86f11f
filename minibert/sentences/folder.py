"""Reading a sentence-transformers folder: the modules after the BERT, and the limits and prompts of texts.

    modules.json                        the steps, each with a folder: Transformer, Pooling, then Dense or Normalize
    sentence_bert_config.json           max_seq_length, do_lower_case (in the transformer's folder)
    1_Pooling/config.json               which pooling
    2_Dense/config.json + weights       a linear layer and an activation
    config_sentence_transformers.json   prompts, such as "query: "

A folder without modules.json is a plain BERT: mean pooling, nothing after it. The format is described in the
documentation of sentence-transformers ("Creating Custom Models"); nothing named in a file is ever imported.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from minibert.checkpoints.source import Source
from minibert.files import parse_json, prefix_errors, read_json, read_text
from minibert.sentences.rows import named_prompt
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
MODULES = "sentence_transformers.models"  # where modules lay in the first versions, and every version finds them
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
    """How a folder turns texts into vectors, or pairs of texts into scores."""

    transformer: Source  # the folder of the BERT itself, which may be one inside it
    pooling: list[str] = field(default_factory=lambda: ["mean"])  # one or several, side by side
    include_prompt: bool = True  # whether the tokens of a prompt are pooled, too
    modules: list[tuple[str, Source]] = field(
        default_factory=list
    )  # after the pooling: "Dense" or "Normalize", folder
    truncate_dim: int | None = None  # numbers of a vector that are kept in the end; None: all
    max_length: int | None = None  # the most tokens of a text; None where the folder does not say
    lower_case: bool = False  # whatever the tokenizer does
    tokenizer_options: dict[str, Any] = field(default_factory=dict)  # before its files' own
    prompts: dict[str, str] = field(default_factory=dict)  # put before every text, by name
    default_prompt_name: str | None = None  # the prompt of calls that name none
    similarity_fn_name: str = "cosine"  # one of `minibert.sentences.search.METRICS`
    activation_fn: Any = None  # of a cross-encoder, by the dotted path of its class

    def override_prompts(
        self, prompts: dict[str, str] | None, default_prompt_name: str | None
    ) -> None:
        """Replaces the folder's prompts by a caller's; None, or "" for a name, leaves them."""
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
        """The tokenizer; a cased one lower-cases if the folder asks for it, and keeps accents."""
        options = dict(self.tokenizer_options)
        tokenizer = BertTokenizer.from_pretrained(self.transformer, **options)
        if self.lower_case and not tokenizer.do_lower_case:
            options["do_lower_case"] = True
            options["strip_accents"] = bool(tokenizer.strip_accents)
            tokenizer = BertTokenizer.from_pretrained(self.transformer, **options)
        return tokenizer


def read_sentence_folder(source: Source, cross_encoder: bool = False) -> SentenceFolder:
    """Reads a sentence-transformers folder, of an embedder or a cross-encoder; a plain BERT's gives the defaults.

    Raises:
        ValueError: a module or pooling that minibert does not have, named; or a damaged file.
        FileNotFoundError: a file that modules.json promises is not there.
    """
    found = SentenceFolder(transformer=source)
    path = source.file("modules.json")
    if path is None and not cross_encoder:
        return found
    modules = [("Transformer", "")] if path is None else read_modules(path)
    kinds = [kind for kind, _ in modules]
    if cross_encoder and kinds != ["Transformer"]:
        raise ValueError(
            f"{path} should list a Transformer alone, as cross-encoders have it, not {kinds}."
        )
    if not cross_encoder and (
        kinds[:2] != ["Transformer", "Pooling"] or {*kinds[:2]} & {*kinds[2:]}
    ):
        order = ", ".join(kinds)
        raise ValueError(
            f"{path} should list a Transformer, a Pooling, then Dense or Normalize, not {order}."
        )
    for kind, folder in modules:
        if kind == "Transformer":
            _read_transformer(source, folder, found)
        elif kind == "Pooling":
            _read_pooling(source.require(f"{folder}config.json"), found)
        else:
            _check_input(source, folder)
            found.modules.append((kind, source.inside(folder)))
    if config := source.file("config_sentence_transformers.json"):
        content = read_json(config)
        given = {
            name: text or ""
            for name, text in value_of(config, content, "prompts", dict, {}).items()
        }
        found.prompts = {name: value_of(config, given, name, str, "") for name in given}
        found.default_prompt_name = value_of(config, content, "default_prompt_name", str, None)
        with prefix_errors(str(config)):
            named_prompt(found.prompts, found.default_prompt_name)  # it must exist
        found.truncate_dim = value_of(config, content, "truncate_dim", int, None)
        found.similarity_fn_name = value_of(config, content, "similarity_fn_name", str, "cosine")
        found.activation_fn = content.get("activation_fn")
    return found


def is_embedder(source: Source) -> bool:
    """Whether a folder is an embedder's: a BERT alone and a cross-encoder have no pooling."""
    path = source.file("modules.json")
    return path is not None and "Pooling" in dict(read_modules(path))


def value_of(path: Path, config: Mapping[str, Any], name: str, kind: type, default: Any) -> Any:
    """A value of a file, or the default if it is absent or null; ValueError if it is of another type."""
    value = config.get(name)
    if value is None:
        return default
    fits = type(value) is int and value > 0 if kind is int else isinstance(value, kind)
    if not fits:
        raise ValueError(f"{path}: {name:.80} should be a {kind.__name__}, not {value!r:.80}.")
    return value


def read_modules(path: Path) -> list[tuple[str, str]]:
    """The class name of each module, and its folder with a trailing slash ("" for the model's own folder)."""
    content = parse_json(read_text(path), path, list)
    if not all(isinstance(module, dict) for module in content):
        raise ValueError(f"{path} should hold a list of modules.")
    modules = []
    for module in content:
        # the packages between the first name and the class differ between versions of sentence-transformers
        name = value_of(path, module, "type", str, "")
        package, _, kind = name.rpartition(".")
        if kind not in _KINDS or package.split(".")[0] != "sentence_transformers":
            raise ValueError(
                f"{path} asks for the module {name!r:.80}; minibert has {', '.join(_KINDS)}."
            )
        folder = value_of(path, module, "path", str, "")
        if folder.startswith(("/", "\\")) or ":" in folder or ".." in folder:
            raise ValueError(f"{path} names {folder!r:.80}, which is outside the model's folder.")
        modules.append((kind, f"{folder.rstrip('/')}/" if folder else ""))
    return modules


def _read_transformer(source: Source, path: str, folder: SentenceFolder) -> None:
    """Reads the limits of texts, and what sentence-transformers passes on to tokenizer and model."""
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
                f"{settings} sets {name} to {config[name]!r:.80}; minibert has one max_seq_length "
                "for queries and documents."
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
            f"{path} asks for transformer_task {task!r:.80}; minibert has "
            f"{', '.join(TASK_OUTPUTS)}."
        )
    modalities = value_of(path, config, "modality_config", dict, {})
    text = value_of(path, modalities, "text", dict, {})
    output = text.get("method_output_name")
    if output not in (None, *TASK_OUTPUTS.values()):
        raise ValueError(
            f"{path} asks for the output {output!r:.80}; minibert has "
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


def _read_pooling(path: Path, found: SentenceFolder) -> None:
    config = read_json(path)
    modes = (
        config.get("pooling_mode")
        or [mode for flag, mode in POOLING_FLAGS.items() if config.get(flag)]
        or "mean"
    )
    modes = modes if isinstance(modes, list) else [modes]
    for mode in modes:
        if not isinstance(mode, str) or mode not in POOLINGS:
            raise ValueError(
                f"{path} asks for pooling {mode!r:.80}; minibert has {', '.join(POOLINGS)}."
            )
    found.pooling = [POOLINGS[mode] for mode in modes]
    found.include_prompt = value_of(path, config, "include_prompt", bool, True)


def _check_input(source: Source, folder: str) -> None:
    """ValueError for a module that works on something else than sentence vectors."""
    if config := source.file(f"{folder}config.json") if folder else None:
        content = read_json(config)
        for name in ("module_input_name", "module_output_name"):
            if content.get(name) not in (None, "sentence_embedding"):
                what = f"{config} works on {content[name]!r:.80}"
                raise ValueError(f"{what}; minibert has it on sentence vectors only.")
