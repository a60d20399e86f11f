"""The folder of sentence-transformers, read and written for embedders, rerankers and exports.

    modules.json                        the modules: Transformer, Pooling, then Dense or Normalize
    sentence_bert_config.json           max_seq_length, do_lower_case (in the transformer's folder)
    1_Pooling/config.json               which pooling
    2_Dense/config.json + weights       a linear layer and an activation
    config_sentence_transformers.json   prompts, such as "query: "

A folder without modules.json is a plain BERT: mean pooling, nothing after it. The documentation of
sentence-transformers describes the format ("Creating Custom Models"). No name in a file is ever
imported. Nothing here imports torch: `steps` reads and writes the weights of a Dense layer.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, get_args

from minibert.checkpoints.hub import TRANSFORMER_FILES
from minibert.checkpoints.source import Source
from minibert.config import BertConfig
from minibert.encoders.arithmetic.pooling_names import MODES, UNSUPPORTED_MODES
from minibert.encoders.arithmetic.search import Metric
from minibert.encoders.text_encoder import check_prompts
from minibert.tokenization.basic import SURROGATE
from minibert.tokenization.tokenizer import BertTokenizer
from minibert.util.files import parse_json, read_json, read_text, replacing, write_json

# the package of the modules in the first versions, which every version still finds
MODULES = "sentence_transformers.models"
# the classes of torch.nn that files of sentence-transformers may name
ACTIVATION_CLASSES = ("Identity", "Tanh", "ReLU", "GELU", "SiLU", "Sigmoid")
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
# options that do not change vectors: of loading, of the tokenizer, of the model and of batches
LOADING_OPTIONS = {
    "cache_dir",
    "local_files_only",
    "revision",
    "subfolder",
    "token",
    "trust_remote_code",
    "use_cache",
}
TOKENIZER_IGNORED = LOADING_OPTIONS | {"padding_side", "use_fast"}
MODEL_OPTIONS = LOADING_OPTIONS | {
    "add_pooling_layer",
    "attn_implementation",
    "device_map",
    "dtype",  # minibert loads float32
    "low_cpu_mem_usage",
    "torch_dtype",
    "use_safetensors",
}
BATCH_OPTIONS = {"padding", "padding_side", "pad_to_multiple_of", "return_tensors"}
CONFIG_ADVICE = ": put it into the model's config.json"
_KINDS = ("Transformer", "Pooling", "Dense", "Normalize")
_FILES_OF_A_MODULE = ("config.json", "model.safetensors", "pytorch_model.bin")


class Field(NamedTuple):
    """A field of a file, and the attribute of `SentenceFolder` that holds it."""

    name: str
    attribute: str
    kind: type
    choices: Sequence[str] = ()


TRANSFORMER_FIELDS = (
    Field("max_seq_length", "max_length", int),
    Field("do_lower_case", "lower_case", bool),
)
POOLING_FIELDS = (Field("include_prompt", "include_prompt", bool),)
SETTINGS_FIELDS = (
    Field("prompts", "prompts", dict),
    Field("default_prompt_name", "default_prompt_name", str),
    Field("similarity_fn_name", "similarity_fn_name", str, get_args(Metric)),
    Field("truncate_dim", "truncate_dim", int),
    Field("activation_fn", "activation_fn", str),
)


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
        similarity_fn_name: One of `minibert.encoders.arithmetic.search.METRICS`.
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
    activation_fn: str | None = None

    def settings(self, options: Any, positions: int) -> dict[str, Any]:
        """The arguments of every model of texts that the folder decides, unless an option does.

        Args:
            options: Of loading.
            positions: How many the model has.
        """
        max_length = options.max_length
        if max_length is None and self.max_length is not None:
            max_length = min(self.max_length, positions)
        prompts = {**self.prompts, **check_prompts(options.prompts)}
        default = options.default_prompt_name or self.default_prompt_name
        if default is not None and default == self.default_prompt_name and default not in prompts:
            available = ", ".join(prompts) or "none"
            raise ValueError(
                f"{self.transformer}, default_prompt_name of config_sentence_transformers.json: "
                f"there is no prompt {default!r:.80}. This model has {available:.200}."
            )
        return {"max_length": max_length, "prompts": prompts, "default_prompt_name": default}

    def load_tokenizer(self) -> BertTokenizer:
        """The tokenizer. A cased one lower-cases if the folder asks for it, and keeps accents."""
        options = dict(self.tokenizer_options)
        tokenizer = BertTokenizer.from_pretrained(self.transformer, **options)
        if self.lower_case and not tokenizer.do_lower_case:
            options["do_lower_case"] = True
            options["strip_accents"] = bool(tokenizer.strip_accents)
            tokenizer = BertTokenizer.from_pretrained(self.transformer, **options)
        return tokenizer

    def activation(self, config: BertConfig) -> str | None:
        """The activation of a cross-encoder, one of `ACTIVATION_CLASSES`.

        Args:
            config: The model's, which names it in folders of older versions.

        Raises:
            ValueError: One that minibert does not have.
        """
        section: Mapping[str, Any] = config.extra.get("sentence_transformers") or {}
        for file, name in (
            ("config_sentence_transformers.json", self.activation_fn),
            ("config.json", section.get("activation_fn")),
            ("config.json", config.extra.get("sbert_ce_default_activation_function")),
        ):
            if name is not None:
                where = f"{self.transformer}/{file}"
                return class_named(where, "activation", name, "torch", ACTIVATION_CLASSES)
        return None


def sentence_folder_of(
    source: Source, modules: list[tuple[str, str]] | None, cross_encoder: bool
) -> SentenceFolder:
    """Reads the folder of an embedder or a cross-encoder. That of a plain BERT gives the defaults.

    Args:
        source: The folder.
        modules: As `read_modules` returns them.
        cross_encoder: Whether it should be a cross-encoder's.

    Raises:
        ValueError: A module, pooling or setting that minibert does not have, named, or a damaged
            file.
        FileNotFoundError: A file that modules.json needs is missing.
    """
    folder = SentenceFolder(transformer=source)
    if modules is not None:
        check_order(f"{source}/modules.json", [kind for kind, _ in modules], cross_encoder)
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
        _read_fields(settings, SETTINGS_FIELDS, folder)
        prompts = folder.prompts
        folder.prompts = {name: value_of(settings, prompts, name, str, "") for name in prompts}
        for name, prompt in folder.prompts.items():
            if SURROGATE.search(prompt):
                raise ValueError(
                    f"{settings}: prompts[{name!r:.80}] contains a lone surrogate (half of a "
                    "character). Remove it."
                )
    return folder


def check_order(path: str, kinds: list[str], cross_encoder: bool) -> None:
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


def _read_fields(path: Path, fields: Sequence[Field], folder: SentenceFolder) -> dict[str, Any]:
    """Reads the fields of a file that has them, and returns all that it holds."""
    content = read_json(path)
    for name, attribute, kind, choices in fields:
        value = value_of(path, content, name, kind, None)
        if value is not None:
            if choices and value not in choices:
                raise unsupported(path, name, value, choices)
            setattr(folder, attribute, value)
    return content


def has_pooling(modules: list[tuple[str, str]] | None) -> bool:
    """Whether modules are an embedder's: a BERT alone and a cross-encoder have no pooling.

    Args:
        modules: As `read_modules` returns them.
    """
    return "Pooling" in dict(modules or ())


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


def unsupported(path: Path | str, what: str, value: object, choices: Iterable[str]) -> ValueError:
    """The error for a file that asks for what minibert does not have.

    Args:
        path: The file.
        what: The name of the value.
        value: What it asks for.
        choices: What minibert has.
    """
    return ValueError(
        f"{path} asks for {what} {value!r:.80}, but minibert has {', '.join(choices)}."
    )


def class_named(
    path: Path | str, what: str, name: object, package: str, classes: Sequence[str]
) -> str:
    """The class that a file means by a dotted path.

    The packages between the first name and the class differ between versions.

    Raises:
        ValueError: The class is not one of these, or of another package.
    """
    parts = name.split(".") if isinstance(name, str) else [""]
    if parts[0] != package or parts[-1] not in classes:
        raise unsupported(path, what, name, classes)
    return parts[-1]


def read_modules(source: Source) -> list[tuple[str, str]] | None:
    """The class name of each module and its folder, which ends in a slash or is "".

    None: a plain BERT, or a cross-encoder of an older version, which have no modules.
    """
    path = source.file("modules.json")
    if path is None:
        return None
    content = parse_json(read_text(path), path, list)
    if not all(isinstance(module, dict) for module in content):
        raise ValueError(f"{path} should hold a list of modules.")
    modules = []
    for module in content:
        kind = class_named(path, "the module", module.get("type"), MODULES.split(".")[0], _KINDS)
        folder = value_of(path, module, "path", str, "")
        if folder.startswith(("/", "\\")) or ":" in folder or ".." in folder:
            raise ValueError(f"{path} names {folder!r:.80}, which is outside the model's folder.")
        modules.append((kind, f"{folder.rstrip('/')}/" if folder else ""))
    return modules


def _read_transformer(source: Source, path: str, folder: SentenceFolder) -> None:
    """Reads the limits of texts, and the options of tokenizer and model."""
    folder.transformer = source.inside(path)
    files = (source.file(f"{path}{name}") for name in TRANSFORMER_FILES)
    settings = next((file for file in files if file is not None), None)
    if settings is None:
        return
    config = _read_fields(settings, TRANSFORMER_FIELDS, folder)
    for name in ("query_length", "document_length", "query_expansion"):
        if config.get(name) is not None:
            raise ValueError(
                f"{settings} sets {name} to {config[name]!r:.80}, but minibert has one "
                f"max_seq_length for queries and documents."
            )
    _check_task(settings, config)
    _read_options(settings, config, folder)
    if folder.max_length in (1, 2):
        raise ValueError(
            f"{settings}: max_seq_length {folder.max_length} has room for [CLS] and [SEP], but not "
            "for a word."
        )


def _check_task(path: Path, config: Mapping[str, Any]) -> None:
    """Check that the output of the model is its hidden states or a classifier's logits."""
    task = value_of(path, config, "transformer_task", str, "feature-extraction")
    if task not in TASK_OUTPUTS:
        raise unsupported(path, "transformer_task", task, TASK_OUTPUTS)
    modalities = value_of(path, config, "modality_config", dict, {})
    text = value_of(path, modalities, "text", dict, {})
    output = text.get("method_output_name")
    if output not in (None, *TASK_OUTPUTS.values()):
        raise unsupported(path, "the output", output, TASK_OUTPUTS.values())


def _read_options(path: Path, config: Mapping[str, Any], folder: SentenceFolder) -> None:
    """Reads the groups of options of tokenizer, model and batches. Later groups come first.

    Raises:
        ValueError: An option that changes vectors, and that minibert does not apply.
    """
    calls = value_of(path, config, "processing_kwargs", dict, {})
    applied: dict[str, Any] = {}
    for groups, names, kinds, ignored, advice in (
        (config, ("processor_kwargs", "tokenizer_args"), TOKENIZER_OPTIONS, TOKENIZER_IGNORED, ""),
        (config, ("config_args", "config_kwargs"), {}, LOADING_OPTIONS, CONFIG_ADVICE),
        (config, ("model_args", "model_kwargs"), {}, MODEL_OPTIONS, CONFIG_ADVICE),
        (calls, ("common", "text"), {"max_length": int}, BATCH_OPTIONS, ""),
    ):
        for group in names:
            options = value_of(path, groups, group, dict, {})
            for name, value in options.items():
                if name in kinds:
                    applied[name] = value_of(path, options, name, kinds[name], None)
                elif name == "truncation" and value in (True, "longest_first"):
                    continue  # as here
                elif name not in ignored:
                    raise ValueError(
                        f"{path}: {group} sets {name:.80} to {value!r:.80}, which minibert does "
                        f"not apply{advice}."
                    )
    for name in ("model_max_length", "max_length"):
        folder.max_length = applied.pop(name, None) or folder.max_length
    folder.tokenizer_options = applied


def _read_pooling(path: Path, folder: SentenceFolder) -> None:
    config = _read_fields(path, POOLING_FIELDS, folder)
    modes = config.get("pooling_mode")
    if not modes:
        known = [*MODES.values(), *UNSUPPORTED_MODES]
        modes = [mode.name for mode in known if config.get(mode.flag)] or "mean"
    if not isinstance(modes, list):
        modes = [modes]
    poolings = {mode.name: pooling for pooling, mode in MODES.items()}
    for name in modes:
        if name not in tuple(poolings):
            raise unsupported(path, "pooling", name, poolings)
    folder.pooling = [poolings[name] for name in modes]


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


def write_sentence_folder(
    folder: SentenceFolder, path: Path, modules: Sequence[str] = (), hidden_size: int = 0
) -> list[Path]:
    """Writes the files of an embedder or a cross-encoder, without weights.

    `sentence_folder_of` reads them.

    Args:
        folder: What they say. Its tokenizer is saved beside them with its options applied.
        path: Where to write. It is created.
        modules: What follows the Transformer: "Pooling" of an embedder, then "Dense" or
            "Normalize". A cross-encoder has nothing.
        hidden_size: Dimensions of the BERT's hidden states.

    Returns:
        The folders of the modules after the pooling.
    """
    kinds = ["Transformer", *modules]
    places = [f"{index}_{kind}" if index else "" for index, kind in enumerate(kinds)]
    for place in places:
        (path / place).mkdir(parents=True, exist_ok=True)
    content = []
    for index, (kind, place) in enumerate(zip(kinds, places, strict=True)):
        module = {"idx": index, "name": str(index), "path": place, "type": f"{MODULES}.{kind}"}
        content.append(module)
    # This file first: without it, an interrupted save would be loaded as a plain BERT. With it, the
    # folder is refused
    write_json(path / "modules.json", content)
    task: dict[str, Any] = {}
    settings = {}
    unused = ["activation_fn"]
    if not modules:
        task = {
            "transformer_task": "sequence-classification",
            "modality_config": {"text": {"method": "forward", "method_output_name": "logits"}},
            "module_output_name": "scores",
        }
        settings = {"model_type": "CrossEncoder"}
        unused = ["similarity_fn_name", "truncate_dim"]
    _write_fields(path / "sentence_bert_config.json", TRANSFORMER_FIELDS, folder, task)
    fields = [one for one in SETTINGS_FIELDS if one.name not in unused]
    _write_fields(path / "config_sentence_transformers.json", fields, folder, settings)
    if modules:
        pooling = _pooling_config(folder.pooling, hidden_size)
        _write_fields(path / places[1] / "config.json", POOLING_FIELDS, folder, pooling)
    return [path / place for place in places[2:]]


def _write_fields(
    path: Path,
    fields: Sequence[Field],
    folder: SentenceFolder,
    more: Mapping[str, Any],
) -> None:
    values = {one.name: getattr(folder, one.attribute) for one in fields}
    write_json(path, {**more, **values})


def _pooling_config(pooling: Sequence[str], hidden: int) -> dict[str, Any]:
    modes_by_name: dict[str, Any] = dict(MODES.items())
    if [name for name in MODES if name in pooling] == list(pooling):  # every version reads this
        flags = {mode.flag: name in pooling for name, mode in MODES.items()}
        flags |= {mode.flag: False for mode in UNSUPPORTED_MODES}
        return {"word_embedding_dimension": hidden, **flags}
    modes = [modes_by_name[name].name for name in pooling]
    return {"embedding_dimension": hidden, "pooling_mode": modes}


def transformer_folder(source: Source) -> str:
    """The folder of the BERT inside a sentence-transformers folder, such as "0_Transformer/".

    It is "" for a plain one.
    """
    return dict(read_modules(source) or ()).get("Transformer", "")


def copy_modules(source: Source, folder: str | os.PathLike[str]) -> None:
    """Copies everything around the BERT of a sentence-transformers folder, as it stands.

    Args:
        source: Where the modules are. Around a plain checkpoint there is nothing.
        folder: Where the BERT has been written, in the same place as in `source`.

    Raises:
        ValueError: A module that minibert does not have.
        OSError: A file cannot be written.
    """
    files = ["config_sentence_transformers.json"]
    modules = read_modules(source)
    if modules is None:
        files += TRANSFORMER_FILES  # cross-encoders may have one of them alone
    else:
        for kind, place in modules:
            if kind == "Transformer":
                files += [f"{place}{name}" for name in TRANSFORMER_FILES]
            elif place:
                files += [f"{place}{name}" for name in _FILES_OF_A_MODULE]
        files.append("modules.json")  # last: it promises the others
    for name in files:
        original = source.file(name)
        copy = Path(folder, name)
        if original is None or (copy.exists() and copy.samefile(original)):
            continue
        copy.parent.mkdir(parents=True, exist_ok=True)
        with replacing(copy) as temporary:
            temporary.write_bytes(original.read_bytes())
