"""Reading a sentence-transformers folder: the modules after the BERT, and the limits and prompts of texts.

    modules.json                        the steps, each with a folder: Transformer, Pooling, then Dense or Normalize
    sentence_bert_config.json           max_seq_length, do_lower_case (in the transformer's folder)
    1_Pooling/config.json               which pooling
    2_Dense/config.json + weights       a linear layer and an activation
    config_sentence_transformers.json   prompts, such as "query: "

A folder without modules.json is a plain BERT: mean pooling, nothing after it. The format is described in the
documentation of sentence-transformers ("Creating Custom Models"); nothing named in a file is ever imported.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from minibert.checkpoints.source import Source
from minibert.files import parse_json, prefix_errors, read_json, read_text
from minibert.sentences.rows import named_prompt
from minibert.tokenization.tokenizer import BertTokenizer

if TYPE_CHECKING:
    from torch import nn

    from minibert.sentences.pooling import Dense

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
_KINDS = ("Transformer", "Pooling", "Dense", "Normalize")


@dataclass
class SentenceFolder:
    """How a folder turns texts into vectors.

    Attributes:
        transformer: the folder of the BERT itself, which may be one inside it.
        pooling: one or several poolings, side by side.
        include_prompt: whether the tokens of a prompt are pooled, too.
        modules: those after the pooling, each "Dense" or "Normalize" and its folder; `final_steps` makes them.
        truncate_dim: numbers of a vector that are kept in the end; None: all.
        max_length: the most tokens of a text; None where the folder does not say.
        lower_case: lower-case texts, whatever the tokenizer does.
        prompts: text to put before every text, by name.
        default_prompt_name: the prompt of calls that name none.
        similarity_fn_name: one of `minibert.sentences.search.METRICS`.
    """

    transformer: Source
    pooling: list[str] = field(default_factory=lambda: ["mean"])
    include_prompt: bool = True
    modules: list[tuple[str, Source]] = field(default_factory=list)
    truncate_dim: int | None = None
    max_length: int | None = None
    lower_case: bool = False
    prompts: dict[str, str] = field(default_factory=dict)
    default_prompt_name: str | None = None
    similarity_fn_name: str = "cosine"

    def load_tokenizer(self) -> BertTokenizer:
        """The tokenizer; a cased one lower-cases if the folder asks for it, and keeps accents."""
        tokenizer = BertTokenizer.from_pretrained(self.transformer)
        if self.lower_case and not tokenizer.do_lower_case:
            lower: dict[str, Any] = {"do_lower_case": True, "strip_accents": bool(tokenizer.strip_accents)}
            tokenizer = BertTokenizer.from_pretrained(self.transformer, **lower)
        return tokenizer

    def final_steps(self, normalize: bool | None = None, truncate_dim: int | None = None) -> list[nn.Module]:
        """The modules after the pooling; arguments as in `SentenceEmbedder.from_pretrained`.

        Raises:
            ValueError: a module or activation that minibert does not have, named; or a damaged file.
        """
        from minibert.sentences.pooling import Normalize, Truncate

        modules = list(self.modules)
        while normalize is not None and modules and modules[-1][0] == "Normalize":  # one before a Dense stays
            modules.pop()
        steps: list[nn.Module] = [_read_dense(where) if kind == "Dense" else Normalize() for kind, where in modules]
        truncate_dim = self.truncate_dim if truncate_dim is None else truncate_dim
        if truncate_dim is not None:
            steps.append(Truncate(truncate_dim))
        if normalize:
            steps.append(Normalize())
        return steps


def read_sentence_folder(source: Source) -> SentenceFolder:
    """Reads a sentence-transformers folder; a plain BERT's gives the defaults.

    Raises:
        ValueError: a module, pooling or activation that minibert does not have, named; or a damaged file.
        FileNotFoundError: a file that modules.json promises is not there.
    """
    found = SentenceFolder(transformer=source)
    path = source.file("modules.json")
    if path is None:
        return found
    modules = read_modules(path)
    kinds = [kind for kind, _ in modules]
    if kinds[:2] != ["Transformer", "Pooling"] or {"Transformer", "Pooling"}.intersection(kinds[2:]):
        order = ", ".join(kinds)
        raise ValueError(f"{path} should list a Transformer, a Pooling, then Dense or Normalize, not {order}.")
    for kind, folder in modules:
        if kind == "Transformer":
            _read_transformer(source, folder, found)
        elif kind == "Pooling":
            _read_pooling(source.require(f"{folder}config.json"), found)
        else:
            if config := source.file(f"{folder}config.json") if folder else None:
                content = read_json(config)
                for name in ("module_input_name", "module_output_name"):
                    if content.get(name) not in (None, "sentence_embedding"):
                        what = f"{config} works on {content[name]!r:.80}"
                        raise ValueError(f"{what}; minibert has it on sentence vectors only.")
            found.modules.append((kind, source.inside(folder)))
    if config := source.file("config_sentence_transformers.json"):
        content = read_json(config)
        found.prompts, found.default_prompt_name = read_prompts(config, content)
        found.truncate_dim = _get(config, content, "truncate_dim", int, None)
        found.similarity_fn_name = _get(config, content, "similarity_fn_name", str, "cosine")
    return found


def is_embedder(source: Source) -> bool:
    """Whether a folder is an embedder's: a BERT alone and a cross-encoder have no pooling."""
    path = source.file("modules.json")
    return path is not None and "Pooling" in dict(read_modules(path))


def _get(path: Path, config: Mapping[str, Any], name: str, kind: type, default: Any) -> Any:
    """A value of a file, or the default if it is absent or null; ValueError if it is of another type."""
    value = config.get(name)
    if value is None:
        return default
    fits = type(value) is int and value > 0 if kind is int else isinstance(value, kind)
    if not fits:
        raise ValueError(f"{path}: {name:.80} should be a {kind.__name__}, not {value!r:.80}.")
    return value


def read_prompts(path: Path, content: Mapping[str, Any]) -> tuple[dict[str, str], str | None]:
    """The prompts by name, and the name of the default one, which must be among them."""
    given = {name: text or "" for name, text in _get(path, content, "prompts", dict, {}).items()}
    prompts = {n: _get(path, given, n, str, "") for n in given}
    default: str | None = _get(path, content, "default_prompt_name", str, None)
    with prefix_errors(str(path)):
        named_prompt(prompts, default)
    return prompts, default


def read_modules(path: Path) -> list[tuple[str, str]]:
    """The class name of each module, and its folder with a trailing slash ("" for the model's own folder)."""
    content = parse_json(read_text(path), path, list)
    if not all(isinstance(module, dict) for module in content):
        raise ValueError(f"{path} should hold a list of modules.")
    modules = []
    for module in content:
        # the packages between the first name and the class differ between versions of sentence-transformers
        name = _get(path, module, "type", str, "")
        package, _, kind = name.rpartition(".")
        if kind not in _KINDS or package.split(".")[0] != "sentence_transformers":
            raise ValueError(f"{path} asks for the module {name!r:.80}; minibert has {', '.join(_KINDS)}.")
        folder = _get(path, module, "path", str, "")
        if folder.startswith(("/", "\\")) or ":" in folder or ".." in folder:
            raise ValueError(f"{path} names {folder!r:.80}, which is outside the model's folder.")
        modules.append((kind, f"{folder.rstrip('/')}/" if folder else ""))
    return modules


def _read_transformer(source: Source, folder: str, found: SentenceFolder) -> None:
    found.transformer = source.inside(folder)
    if path := source.file(f"{folder}sentence_bert_config.json"):
        config = read_json(path)
        found.max_length = _get(path, config, "max_seq_length", int, None)
        if found.max_length in (1, 2):
            raise ValueError(f"{path}: max_seq_length {found.max_length} holds [CLS] and [SEP], but no word.")
        found.lower_case = _get(path, config, "do_lower_case", bool, False)


def _read_pooling(path: Path, found: SentenceFolder) -> None:
    config = read_json(path)
    modes = config.get("pooling_mode") or [mode for flag, mode in POOLING_FLAGS.items() if config.get(flag)] or "mean"
    modes = modes if isinstance(modes, list) else [modes]
    for mode in modes:
        if not isinstance(mode, str) or mode not in POOLINGS:
            raise ValueError(f"{path} asks for pooling {mode!r:.80}; minibert has {', '.join(POOLINGS)}.")
    found.pooling = [POOLINGS[mode] for mode in modes]
    found.include_prompt = _get(path, config, "include_prompt", bool, True)


def _read_dense(source: Source) -> Dense:
    import torch

    from minibert.checkpoints.tensors import read_tensors
    from minibert.sentences.pooling import Dense, activation_name

    path = source.require("config.json")
    config = read_json(path)
    if config.get("use_residual"):
        raise ValueError(f"{path} asks for a Dense with use_residual, which minibert does not have.")
    activation = activation_name(path, _get(path, config, "activation_function", str, "torch.nn.Tanh"))
    inputs, outputs = (_get(path, config, size, int, 0) for size in ("in_features", "out_features"))
    bias: bool = _get(path, config, "bias", bool, True)
    weights = read_tensors(source)
    expected = {"linear.weight": (outputs, inputs), **({"linear.bias": (outputs,)} if bias else {})}
    received = {name: tuple(tensor.shape) for name, tensor in weights.items()}
    if received != expected:
        raise ValueError(f"{path.parent} should hold the tensors {expected}, not {received!s:.80}.")
    with torch.device("meta"):  # the numbers come from the file
        dense = Dense(inputs, outputs, bias, activation)
    dense.load_state_dict({name: tensor.float() for name, tensor in weights.items()}, assign=True)
    return dense
