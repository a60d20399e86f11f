"""SentenceEmbedder: texts to vectors, sorted by length and packed, so that no time goes into padding."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, groupby, islice
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from minibert.files import Source, split_source
from minibert.inference.batching import BATCH_TOKENS, Progress, batches, cut, merge_windows, windows
from minibert.inference.optimize import map_batches, optimize
from minibert.layouts import PackedLayout
from minibert.model import BertModel
from minibert.sentences.folder import Dense, Normalize, Truncate, read_sentence_folder
from minibert.sentences.pooling import POOLINGS, Layers, combine_layers, pool, resolve_layers
from minibert.tokenization.rows import Encoding
from minibert.tokenization.tokenizer import BertTokenizer

Vectors = NDArray[np.float32]

# Texts that are tokenised and sorted together; bounds the memory that token lists take
WINDOW = 16384


class WordVectors(NamedTuple):
    """The words of a text, where each lies in it (`[start, end)` in characters), and their vectors (words, D)."""

    words: list[str]
    offsets: list[tuple[int, int]]
    vectors: Vectors


class Encoded(NamedTuple):
    """Vectors of some texts (N, D), how many tokens went through the model, and how many texts did not fit."""

    vectors: Vectors
    tokens: int
    overlong: int


class SentenceEmbedder:
    """A BERT, its tokenizer, and how hidden states become one vector for each text.

    ```python
    embedder = SentenceEmbedder.from_pretrained("sentence-transformers/all-MiniLM-L6-v2")
    vectors = embedder.encode(["I love Korea", "Paris"])     # numpy (2, 384) float32
    ```

    Args:
        model: the BERT; used as it is.
        tokenizer: its tokenizer.
        pooling: one of `minibert.sentences.pooling.POOLINGS`, or several to be put side by side.
        layers: which layers, and
        layer_weights: with what weights; as in `minibert.sentences.pooling.combine_layers`.
        steps: modules that the pooled vectors (batch, hidden) go through: `Dense`, `Normalize`, `Truncate`.
        max_length: tokens of the longest text, [CLS] and [SEP] included; never more than the model has positions.
            None: what the tokenizer says.
        prompts: texts to put before every text, by name.
        default_prompt_name: the prompt that is used when a call names none.
        include_prompt: whether a prompt's tokens take part in pooling.

    Raises:
        ValueError: a pooling, layer or prompt that is not there, or vectors that do not fit the first `Dense`.
    """

    def __init__(
        self,
        model: BertModel,
        tokenizer: BertTokenizer,
        *,
        pooling: str | Sequence[str] = "mean",
        layers: Layers = "last",
        layer_weights: Sequence[float] | None = None,
        steps: Iterable[nn.Module] = (),
        max_length: int | None = None,
        prompts: dict[str, str] | None = None,
        default_prompt_name: str | None = None,
        include_prompt: bool = True,
    ) -> None:
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.pooling = [pooling] if isinstance(pooling, str) else list(pooling)
        if unknown := [name for name in self.pooling if name not in POOLINGS] or not self.pooling:
            raise ValueError(f"pooling should be one or more of {', '.join(POOLINGS)}, not {unknown or pooling!r}.")
        if "pooler" in self.pooling and model.pooler is None:
            raise ValueError('pooling="pooler" needs a model with a pooler: BertModel(config, add_pooling_layer=True).')
        depth = model.config.num_hidden_layers
        self.layers, self.layer_weights = resolve_layers(layers, depth, layer_weights)
        self._keep_all = self.layers != [depth]
        self.steps = nn.Sequential(*steps).to(model.device).eval()
        positions = model.config.max_position_embeddings
        self.max_length = min(positions, tokenizer.model_max_length if max_length is None else max_length)
        self.prompts = dict(prompts or {})
        self.default_prompt_name = default_prompt_name
        self.include_prompt = include_prompt
        self.precision: str | None = None  # what `from_pretrained` made of the model
        self._named_prompt(None)  # the default one must exist
        hidden = model.config.hidden_size
        features = hidden * (len(self.layers) if self.layer_weights is None else 1)
        self._width = sum(hidden if name == "pooler" else features for name in self.pooling)
        self.dimension = self._width
        for step in self.steps:
            if isinstance(step, Truncate):
                self.dimension = min(self.dimension, step.dimension)
            elif isinstance(step, Dense):
                if step.linear.in_features != self.dimension:
                    raise ValueError(
                        f"layers and pooling give vectors of {self.dimension} numbers, but the Dense layer of this "
                        f"model takes {step.linear.in_features}."
                    )
                self.dimension = step.linear.out_features

    @classmethod
    def from_pretrained(
        cls,
        name: str | os.PathLike[str] | Source,
        *,
        pooling: str | Sequence[str] | None = None,
        layers: Layers | None = None,
        layer_weights: Sequence[float] | None = None,
        normalize: bool | None = None,
        truncate_dim: int | None = None,
        precision: str | None = "fp32",
        max_length: int | None = None,
        prompts: dict[str, str] | None = None,
        default_prompt_name: str | None = None,
        device: torch.device | str | None = None,
        **options: Any,
    ) -> SentenceEmbedder:
        """Loads a sentence-transformers folder as it says, or any BERT.

        Args:
            name: folder, bundled model or Hub id.
            pooling: None follows the folder's modules.json; a plain BERT has none and gets `"mean"`.
            layers: one of `minibert.sentences.pooling.LAYER_CHOICES` or layer numbers; None: `"last"`. Layers above
                the highest one that is needed are not kept.
            layer_weights: as in `minibert.sentences.pooling.combine_layers`.
            normalize: make vectors of length 1 at the end, or leave them as they are; None follows the folder, and a
                plain BERT's are left as they are.
            truncate_dim: keep so many numbers of each vector, before it is made of length 1 by `normalize=True`; None
                follows the folder.
            precision: "fp32", "bf16" or "int8" as in `minibert.optimize`; None runs the model unchanged, whose float32
                results equal the reference's bit for bit.
            max_length: as in the class; None: what the folder says.
            prompts: None: the folder's.
            default_prompt_name: None: the folder's.
            device: where to run; None: the CPU.
            options: `revision`, `cache_dir`, `local_files_only` and `token` as in `minibert.files.Source`.

        Raises:
            FileNotFoundError: no such checkpoint, or a file of it is missing.
            ValueError: a damaged file, or something in the folder that minibert does not have, named.
        """
        source, unknown = split_source(name, options)
        if unknown:
            raise TypeError(f"SentenceEmbedder.from_pretrained has no option {min(unknown)!r}.")
        folder = read_sentence_folder(source)
        pooling = folder.pooling if pooling is None else [pooling] if isinstance(pooling, str) else list(pooling)
        # with its pooler only where that is used: sentence models come without one
        model = BertModel.from_pretrained(
            folder.transformer,
            dtype=torch.float32,
            device=device,
            add_pooling_layer="pooler" in pooling,
        )
        numbers, weights = resolve_layers(
            "last" if layers is None else layers, model.config.num_hidden_layers, layer_weights
        )
        if "pooler" not in pooling and max(numbers) < model.config.num_hidden_layers:
            del model.encoder.layer[max(numbers) :]
            model.config = model.config.replace(num_hidden_layers=max(numbers))
        if precision is not None:
            model = optimize(model, precision=precision)
        steps = list(folder.steps)
        while normalize is not None and steps and isinstance(steps[-1], Normalize):  # one before a Dense stays
            steps.pop()
        if truncate_dim := folder.truncate_dim if truncate_dim is None else truncate_dim:
            steps.append(Truncate(truncate_dim))
        if normalize:
            steps.append(Normalize())
        # a tokenizer that keeps capitals is made not to; its accents stay as they are
        tokenizer = BertTokenizer.from_pretrained(folder.transformer)
        if folder.lower_case and not tokenizer.do_lower_case:
            lower: dict[str, Any] = {"do_lower_case": True, "strip_accents": bool(tokenizer.strip_accents)}
            tokenizer = BertTokenizer.from_pretrained(folder.transformer, **lower)
        embedder = cls(
            model,
            tokenizer,
            pooling=pooling,
            layers=numbers,
            layer_weights=weights,
            steps=steps,
            max_length=folder.max_length if max_length is None else max_length,
            prompts=folder.prompts if prompts is None else prompts,
            default_prompt_name=default_prompt_name or folder.default_prompt_name,
            include_prompt=folder.include_prompt,
        )
        embedder.precision = precision
        return embedder

    def encode(self, texts: str | Iterable[str], *, show_progress: bool = False, **options: Any) -> Vectors:
        """Vectors of texts, in the order of the texts.

        Args:
            texts: one text or any number of them.
            show_progress: a tqdm bar with tokens per second.
            options: `prompt`, `prompt_name`, `overflow` and `batch_tokens` as in `window_options`.

        Returns:
            (N, D) float32; (D,) for a single text; (0, D) for none.

        Raises:
            ValueError: something that is not a text, an impossible value of an option, or a vector that is not finite.
            TypeError: an option that does not exist.
        """
        single = isinstance(texts, str)
        texts = [texts] if isinstance(texts, str) else list(texts)
        settings = self.window_options(**options)
        vectors = np.empty((len(texts), self.dimension), dtype=np.float32)
        overlong = 0
        with Progress(show_progress, total=len(texts)) as progress:
            for start in range(0, len(texts), WINDOW):
                encoded = self.encode_window(texts[start : start + WINDOW], **settings, progress=progress)
                vectors[start : start + WINDOW] = encoded.vectors
                overlong += encoded.overlong
        self._report_cut(overlong, len(texts), settings["overflow"])
        return vectors[0] if single else vectors

    def encode_stream(
        self, texts: Iterable[str], *, window: int = WINDOW, **options: Any
    ) -> Iterator[tuple[list[str], Vectors]]:
        """Encodes any number of texts, never holding more than `window` of them.

        Args:
            texts: read as far as the vectors are asked for.
            window: texts that are sorted and encoded together.
            options: as in `encode`.

        Yields:
            The next texts and their vectors (window, D), in the order of the texts.

        Raises:
            ValueError: as `encode`; a single string, or a window below 1.
        """
        if window < 1:
            raise ValueError(f"window should be 1 or more, not {window}.")
        texts = several(texts)
        settings = self.window_options(**options)
        count = overlong = 0
        while batch := list(islice(texts, window)):
            encoded = self.encode_window(batch, **settings)
            count, overlong = count + len(batch), overlong + encoded.overlong
            yield batch, encoded.vectors
        self._report_cut(overlong, count, settings["overflow"])

    def window_options(
        self,
        prompt: str | None = None,
        prompt_name: str | None = None,
        overflow: str = "truncate",
        batch_tokens: int = BATCH_TOKENS,
    ) -> dict[str, Any]:
        """Checks the options of every way to encode, and looks the prompt up: arguments for `encode_window`.

        Args:
            prompt: put before every text.
            prompt_name: the prompt of this name in `prompts`; None: `default_prompt_name`.
            overflow: what to do with a text of more than `max_length` tokens. "truncate" leaves the rest out and says
                for how many texts; "mean" cuts it into windows, each with the prompt, and takes the mean of their
                vectors before normalisation, each window counting as many times as it has tokens.
            batch_tokens: tokens of one pass through the model.

        Raises:
            ValueError: an impossible value, or a prompt that is unknown or leaves no room for a text.
        """
        if prompt is not None and prompt_name is not None:
            raise ValueError("pass prompt or prompt_name, not both.")
        if overflow not in ("truncate", "mean"):
            raise ValueError(f'overflow should be "truncate" or "mean", not {overflow!r}.')
        if not isinstance(batch_tokens, int) or batch_tokens < 1:
            raise ValueError(f"batch_tokens should be a whole number of 1 or more, not {batch_tokens!r}.")
        if prompt is None:
            prompt = self._named_prompt(prompt_name)
        if (head := self._head(prompt)) + 2 > self.max_length:
            raise ValueError(f"max_length is {self.max_length} tokens, but [CLS], prompt and [SEP] take {head + 1}.")
        return {"prompt": prompt, "overflow": overflow, "batch_tokens": batch_tokens}

    def encode_window(
        self, texts: Sequence[str], *, prompt: str, overflow: str, batch_tokens: int, progress: Progress | None = None
    ) -> Encoded:
        """Encodes texts that are sorted together, and counts; what every way to encode is made of.

        The result depends on the texts and the options (see `window_options`) alone, not on what was encoded before.
        """
        if not texts:
            return Encoded(np.empty((0, self.dimension), dtype=np.float32), 0, 0)
        head = self._head(prompt)
        rows, counts, overlong = self._rows(checked(texts), prompt, head, overflow)
        lengths = [len(row) for row in rows]
        skip = 0 if self.include_prompt or not prompt else head
        first = [window == 0 for own in counts for window in range(own)]  # of its text
        pooled = torch.empty(len(rows), self._width)

        def run(batch: list[int]) -> Tensor:
            sizes = [lengths[index] for index in batch]
            with torch.inference_mode():
                features, pooler_output = self._features([rows[index] for index in batch], sizes)
                return pool(features, sizes, self.pooling, skip=skip, pooler_output=pooler_output).cpu()

        todo = list(batches(lengths, batch_tokens))
        for batch, part in zip(todo, map_batches(self.model, run, todo), strict=True):
            pooled[batch] = part
            if progress is not None:
                progress.add(sum(first[index] for index in batch), sum(lengths[index] for index in batch))
        with torch.inference_mode():
            if len(rows) > len(texts):
                pooled = merge_windows(pooled, lengths, counts)
            vectors = self.steps(pooled.to(self.model.device)).cpu().numpy()
        if not (finite := np.isfinite(vectors).all(axis=1)).all():
            text = texts[int(finite.argmin())]
            raise ValueError(f"The vector of {text!r:.60} is not finite: the model's weights are damaged.")
        return Encoded(vectors, sum(lengths), overlong)

    def words(self, texts: str | Sequence[str], *, merge: str = "mean", batch_tokens: int = BATCH_TOKENS) -> Any:
        """Vectors of the words of texts, from the chosen layers, without prompt, pooling and normalisation.

        Words are the tokenizer's: cut at white space and around punctuation. Those past `max_length` tokens are left
        out, and a warning says of how many texts.

        Args:
            texts: one text or several.
            merge: how the WordPieces of a word become one vector: their "mean", or the "first" of them.
            batch_tokens: tokens of one pass through the model.

        Returns:
            `WordVectors` of each text in a list; of a single text, just its own.
        """
        if merge not in ("mean", "first"):
            raise ValueError(f'merge should be "mean" or "first", not {merge!r}.')
        if isinstance(texts, str):
            return self.words([texts], merge=merge)[0]
        if not texts:
            return []
        encodings = self.tokenizer(checked(texts), truncation=True, max_length=self.max_length).encodings
        full = [text for text, e in zip(texts, encodings, strict=True) if len(e.ids) == self.max_length]
        whole = self.tokenizer(full, verbose=False)["input_ids"] if full else []
        overlong = sum(len(ids) > self.max_length for ids in whole)
        self._report_cut(overlong, len(texts), "truncate", advice="words past it have no vector.")
        found: dict[int, WordVectors] = {}
        with torch.inference_mode():
            for batch in batches([len(encoding.ids) for encoding in encodings], batch_tokens):
                lengths = [len(encodings[index].ids) for index in batch]
                features, _ = self._features([encodings[index].ids for index in batch], lengths)
                for index, states in zip(batch, features.split_with_sizes(lengths), strict=True):
                    found[index] = _word_vectors(texts[index], encodings[index], states, merge)
        return [found[index] for index in range(len(texts))]

    def _report_cut(
        self, overlong: int, count: int, overflow: str, advice: str = 'overflow="mean" takes all of them in.'
    ) -> None:
        if overlong and overflow == "truncate":
            warnings.warn(
                f"{overlong} of {count} texts have more than {self.max_length} tokens and were cut there; {advice}",
                stacklevel=3,
            )

    def _named_prompt(self, name: str | None) -> str:
        name = name or self.default_prompt_name
        if name is not None and name not in self.prompts:
            raise ValueError(f"there is no prompt {name!r}; this model has {', '.join(self.prompts) or 'none'}.")
        return "" if name is None else self.prompts[name]

    def _head(self, prompt: str) -> int:
        """Tokens that begin every window: [CLS] and the prompt's."""
        return len(self.tokenizer(prompt, verbose=False)["input_ids"]) - 1

    def _rows(
        self, texts: Sequence[str], prompt: str, head: int, overflow: str
    ) -> tuple[list[list[int]], list[int], int]:
        """Token ids of every window, the windows of each text, and how many texts were too long for one."""
        if prompt:
            texts = [prompt + text for text in texts]
        only_ids: dict[str, Any] = {"return_token_type_ids": False, "return_attention_mask": False, "verbose": False}
        rows: list[list[int]] = self.tokenizer(texts, **only_ids)["input_ids"]
        overlong = [index for index, row in enumerate(rows) if len(row) > self.max_length]
        if overflow == "mean":
            cuts = [windows(row, self.max_length, head) for row in rows]
            return list(chain.from_iterable(cuts)), [len(own) for own in cuts], len(overlong)
        for index in overlong:
            rows[index] = cut(rows[index], self.max_length, self.tokenizer.truncation_side)
        return rows, [1] * len(rows), len(overlong)

    def _features(self, rows: Sequence[list[int]], lengths: list[int]) -> tuple[Tensor, Tensor | None]:
        """Features of the tokens of all rows one after the other, (tokens, D), and the pooler's output."""
        ids = np.fromiter(chain.from_iterable(rows), dtype=np.int64, count=sum(lengths))
        output = self.model(
            torch.from_numpy(ids).to(self.model.device),
            layout=PackedLayout(lengths),
            output_hidden_states=self._keep_all,
            return_dict=True,
        )
        if self._keep_all:
            return combine_layers(output.hidden_states, self.layers, self.layer_weights), output.pooler_output
        return combine_layers([output.last_hidden_state], [0], self.layer_weights), output.pooler_output


def several(texts: Iterable[str]) -> Iterator[str]:
    """Any number of texts, one at a time.

    Raises:
        ValueError: a single string, whose letters would be taken for texts.
    """
    if isinstance(texts, (str, os.PathLike)):
        raise ValueError(f"texts should be several strings, not {texts!r}; minibert.files.read_lines reads a file's.")
    return iter(texts)


def checked(texts: Sequence[str]) -> list[str]:
    """The texts in a list; ValueError for what is not a string."""
    for index, text in enumerate(texts):
        if not isinstance(text, str):
            raise ValueError(f"texts should be strings, but number {index} is {text!r}.")
    return list(texts)


def _word_vectors(text: str, encoding: Encoding, states: Tensor, merge: str) -> WordVectors:
    """Merges the states of a text's tokens, (tokens, D), into those of its words."""
    pieces = [token for token, word in enumerate(encoding.word_ids) if word is not None]
    words = [list(group) for _, group in groupby(pieces, key=lambda token: encoding.word_ids[token])]
    offsets = [(encoding.offsets[word[0]][0], encoding.offsets[word[-1]][1]) for word in words]
    vectors = states[:0]  # for a text without words
    if words:
        vectors = pool(states[pieces], [len(word) for word in words], "mean" if merge == "mean" else "cls")
    return WordVectors([text[start:end] for start, end in offsets], offsets, vectors.cpu().numpy())
