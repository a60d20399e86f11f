"""ONNX Runtime as a backend: `OnnxGraph` runs an exported graph, and `OnnxEmbedder` pools by it.

Nothing here imports torch.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
from numpy.typing import NDArray

from minibert.checkpoints.source import Source
from minibert.config import BertConfig
from minibert.encoders.encoder_options import (
    HubOptions,
    TextModelKeywords,
    TextModelOptions,
    part_of,
    takes,
)
from minibert.encoders.folders.checkpoint import Checkpoint
from minibert.encoders.rows.token_rows import Rows, Settings, Vectors
from minibert.encoders.text_encoder import TextEncoder
from minibert.inference.batching import BATCH_TOKENS, Report, batches
from minibert.util.checks import check_count
from minibert.util.errors import Argument, ArgumentError
from minibert.util.extras import need

if TYPE_CHECKING:
    from minibert.tokenization.tokenizer import BertTokenizer

Array = NDArray[np.float32]

ONNX = Argument("backend", "onnx")  # of messages


class OnnxGraph:
    """A graph as `minibert export` has written it.

    Args:
        source: The folder.
        config: The content of its config.json. None: it is read.

    Raises:
        FileNotFoundError: There is no model.onnx.
        ValueError: A damaged file.
        ImportError: onnxruntime is not installed.
    """

    def __init__(self, source: Source, config: BertConfig | None = None) -> None:
        self.source = source
        self.config = BertConfig.from_pretrained(source) if config is None else config
        self._session = open_session(source.require("model.onnx"))
        self.inputs = [node.name for node in self._session.get_inputs()]
        # the shape of each output, (batch, ...)
        self.outputs = {node.name: node.shape for node in self._session.get_outputs()}
        # What follows the pooling, alone, for texts in windows. None: nothing. Opened now: later
        # the folder may have another name, or another export in it
        steps = source.file("steps.onnx")
        self.steps = None if steps is None else open_session(steps)

    def run(
        self,
        ids: Sequence[Sequence[int]],
        types: Sequence[Sequence[int]] | None = None,
        outputs: Sequence[str] | None = None,
        *,
        batch_tokens: int = BATCH_TOKENS,
        skip: int = 0,
        report: Report | None = None,
    ) -> dict[str, list[Array]]:
        """Runs rows of token ids. Rows of about the same length are padded and run together.

        Args:
            ids: Token ids of each row, with [CLS] and [SEP].
            types: Token types of each row. None: all 0.
            outputs: Names of outputs. None: all.
            batch_tokens: Tokens of a batch.
            skip: Tokens at the start of every row that pooling leaves out.
            report: Progress callback. Receives the indices of finished rows.

        Returns:
            For each output an array for each row: (D,), or (tokens, D) where every token has
            values.
        """
        names = list(outputs or self.outputs)
        lengths = [len(row) for row in ids]
        results: dict[str, list[Any]] = {name: [None] * len(ids) for name in names}
        for batch in batches(lengths, batch_tokens):
            shape = (len(batch), lengths[batch[0]])  # the longest comes first
            inputs = {name: np.zeros(shape, np.int64) for name in self.inputs}
            for place, index in enumerate(batch):
                length = lengths[index]
                inputs["input_ids"][place, :length] = ids[index]
                inputs["attention_mask"][place, :length] = 1
                if types is not None:
                    inputs["token_type_ids"][place, :length] = types[index]
            if "pooling_mask" in inputs:
                inputs["pooling_mask"][:, skip:] = inputs["attention_mask"][:, skip:]
            for name, values in zip(
                names, run_session(self._session, self.source, names, inputs), strict=True
            ):
                has_tokens = len(self.outputs[name]) == 3 or name in ("start_logits", "end_logits")
                for place, index in enumerate(batch):
                    row = values[place]
                    results[name][index] = row[: lengths[index]] if has_tokens else row
            if report is not None:
                report(batch)
        return results

    def weights(self) -> Iterator[Any]:
        """The bytes of the graph, which holds all weights."""
        with self.source.require("model.onnx").open("rb") as file:
            while part := file.read(1 << 20):
                yield part

    def __reduce__(self) -> Any:
        return OnnxGraph, (self.source, self.config)  # sessions cannot be pickled


class OnnxEmbedder(TextEncoder):
    """An exported embedder: the vectors of a `SentenceEmbedder`, on the CPU and without torch.

    ```python
    embedder = OnnxEmbedder.from_pretrained("exported")     # written by `minibert export`
    vectors = embedder.encode(["I love Korea", "Paris"])
    ```

    Layers, pooling and steps are parts of the graph.

    Args:
        model: The graph.
        tokenizer: Its tokenizer.
        pooling: The names of the poolings in the graph.
        max_length: Tokens of the longest row, [CLS] and [SEP] included. None: what the tokenizer
            says, as far as the model has positions.
        prompts: Texts to put before every text, by name.
        default_prompt_name: The prompt that is used when a call names none.
        include_prompt: Whether a prompt's tokens are pooled.

    Raises:
        ValueError: A graph that is not an embedder's, or that pools every prompt though
            `include_prompt` is False, a prompt that does not exist, or a `max_length` beyond the
            positions.
    """

    def __init__(
        self,
        model: OnnxGraph,
        tokenizer: BertTokenizer,
        *,
        pooling: str | Sequence[str] = "mean",
        max_length: int | None = None,
        prompts: dict[str, str] | None = None,
        default_prompt_name: str | None = None,
        include_prompt: bool = True,
    ) -> None:
        if "sentence_embedding" not in model.outputs:
            raise ValueError(
                f"{model.source}/model.onnx has the outputs {', '.join(model.outputs)}. "
                "An embedder's graph has sentence_embedding, as minibert export writes it."
            )
        if not include_prompt and "pooling_mask" not in model.inputs:
            raise ValueError(
                f"{model.source}/model.onnx pools the tokens of every prompt, so include_prompt "
                "should be True: export the model again with include_prompt false in its folder."
            )
        super().__init__(
            tokenizer,
            model.config.max_position_embeddings,
            max_length,
            prompts,
            default_prompt_name,
            include_prompt,
        )
        self.model = model
        self.pooling = [pooling] if isinstance(pooling, str) else list(pooling)
        self.layers = None
        self.layer_weights = None
        self.steps = ()
        self.truncate_dim = None

    def __repr__(self) -> str:
        return (
            f"OnnxEmbedder({str(self.model.source)!r}, pooling={self.pooling}, "
            f"max_length={self.max_length}, dimension={self.dimension})"
        )

    @classmethod
    @takes(TextModelOptions)
    def from_pretrained(
        cls,
        name: str | os.PathLike[str] | Source | Checkpoint,
        **options: Unpack[TextModelKeywords],
    ) -> OnnxEmbedder:
        """Loads a folder that `minibert export` has written.

        Args:
            name: Folder or Hub id, or a checkpoint whose files may have been read.
            options: The fields of `minibert.encoders.encoder_options.TextModelOptions`, which
                describes them.

        Returns:
            The embedder.

        Raises:
            FileNotFoundError: The folder does not exist, or a file of it is missing.
            ValueError: A damaged file, or the export of a model with a head.
            TypeError: An option that does not exist.
            ImportError: onnxruntime is not installed.
        """
        chosen = TextModelOptions(**options)
        checkpoint = Checkpoint.of(name, backend="onnx", **part_of(chosen, HubOptions))
        folder = checkpoint.folder(cross_encoder=False)
        model = OnnxGraph(folder.transformer, checkpoint.config)
        positions = model.config.max_position_embeddings
        embedder = cls(
            model,
            folder.load_tokenizer(),
            pooling=folder.pooling,
            include_prompt=folder.include_prompt,
            **folder.settings(chosen, positions),
        )
        embedder.truncate_dim = folder.truncate_dim
        embedder.similarity_fn_name = folder.similarity_fn_name
        embedder.model_name = str(checkpoint)
        return embedder

    @property
    def truncate_dim(self) -> int | None:
        """Dimensions of each vector that are kept. None: all of the graph's. It may be set."""
        return self._truncate_dim

    @truncate_dim.setter
    def truncate_dim(self, dimension: int | None) -> None:
        if dimension is not None:
            check_count("truncate_dim", dimension)
        self._truncate_dim = dimension
        self.dimension = int(self.model.outputs["sentence_embedding"][-1])
        if dimension is not None:
            self.dimension = min(self.dimension, dimension)

    @property
    def device(self) -> str:
        """Where the graph runs."""
        return "cpu"

    @property
    def threads(self) -> int:
        """Threads at work in one pass through the model, as `open_session` sets them."""
        return openmp_threads() or os.cpu_count() or 1

    def to(self, device: object) -> OnnxEmbedder:
        """The embedder itself.

        Args:
            device: The CPU.

        Raises:
            ValueError: Another device than the CPU.
        """
        if str(device) != "cpu":
            raise ArgumentError(ONNX, f"runs on the CPU, not on {device}.")
        return self

    move_to = to

    def save_pretrained(self, path: str | os.PathLike[str]) -> None:
        """Raise an error that names the exported folder, which can be copied.

        Args:
            path: Where the folder was to be written.

        Raises:
            ValueError: Always.
        """
        raise ValueError(
            f"an exported model cannot be saved to {path}: copy its folder, {self.model.source}."
        )

    def pooled_rows(
        self,
        ids: list[list[int]],
        types: list[list[int]] | None,
        settings: Settings,
        with_steps: bool,
        report: Report | None = None,
    ) -> Vectors:
        """Vectors of rows of token ids, as `TextEncoder` describes it.

        Args:
            ids: Token ids of each row.
            types: Token types of each row.
            settings: How many tokens of a row are not pooled, and of a batch.
            with_steps: Whether the vectors go through the steps.
            report: Progress callback.

        Returns:
            (rows, width), or (rows, D) with the steps.
        """
        output = "sentence_embedding" if with_steps else "pooled"
        arrays = self.model.run(
            ids,
            types,
            [output],
            batch_tokens=settings.batch_tokens,
            skip=settings.skip,
            report=report,
        )[output]
        width = int(self.model.outputs[output][-1])
        if not arrays:
            return np.empty((0, width), np.float32)
        return np.concatenate(arrays).reshape(-1, width)  # faster than np.stack

    def apply_steps(self, pooled: Vectors) -> Vectors:
        """The vectors behind the steps, (N, D).

        Args:
            pooled: Pooled vectors, (N, width).
        """
        if self.model.steps is None:
            return pooled
        vectors: Vectors = run_session(
            self.model.steps, self.model.source, None, {"pooled": pooled}
        )[0]
        return vectors

    def token_states(self, rows: Rows, batch_tokens: int) -> list[Vectors]:
        """Features of the tokens of each row, (tokens, features), before pooling.

        Args:
            rows: The tokenized texts.
            batch_tokens: Tokens of a batch.
        """
        output = "last_hidden_state"
        graph: OnnxGraph = self.model
        return graph.run(rows.ids, rows.token_types, [output], batch_tokens=batch_tokens)[output]


def load_exported(name: str | os.PathLike[str] | Source | Checkpoint, options: Any) -> OnnxEmbedder:
    """Loads an exported embedder by the options of a `SentenceEmbedder`.

    Args:
        name: Folder or Hub id.
        options: Those of `TextModelOptions`. The exported graph settles the others.

    Raises:
        ValueError: One of the others has another value than its default.
    """
    refuse_settled(options, TextModelOptions)
    return OnnxEmbedder.from_pretrained(name, **part_of(options, TextModelOptions))


def refuse_settled(options: Any, left: type) -> None:
    """Refuse options of loading that an export does not have.

    Args:
        options: A dataclass.
        left: Another one, with the options that an export has.

    Raises:
        ValueError: One of the others has another value than its default.
    """
    names = {one.name for one in fields(left)}
    for one in fields(options):
        if one.name not in names and getattr(options, one.name) != one.default:
            raise settled(one.name)


def settled(option: str) -> ArgumentError:
    """The error for an option of loading that an export does not have."""
    return ArgumentError(
        option, "should be left out with ", ONNX, ": the exported graph settles it."
    )


def open_session(path: Path) -> Any:
    """A graph, ready to run on the CPU with as many threads as `openmp_threads` says.

    Raises:
        ImportError: onnxruntime is not installed.
        ValueError: onnxruntime cannot run the file.
    """
    runtime = import_onnxruntime("Running a model without torch")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = openmp_threads()
    try:
        return runtime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its errors have no class in common but this
        reason = str(error).splitlines()[0]
        raise ValueError(
            f"{path} is damaged, or not for this onnxruntime ({reason:.200})."
        ) from None


def run_session(
    session: Any, source: Source, outputs: Sequence[str] | None, inputs: dict[str, Any]
) -> list[Any]:
    """Compute a graph.

    Args:
        session: The session of `open_session`.
        source: Where its graph lies, for the error.
        outputs: Names of outputs. None: all.
        inputs: Arrays by the names of the inputs.

    Raises:
        ValueError: The graph cannot be computed, for instance because it asks for a terabyte. The
            message names its folder.
    """
    try:
        results: list[Any] = session.run(outputs, inputs)
    except Exception as error:  # its errors have no class in common but this
        reason = " ".join(str(error).split())
        raise ValueError(
            f"The graph of {source} cannot be computed ({reason:.300}). Export the model again."
        ) from None
    return results


def import_onnxruntime(purpose: str, module: str = "onnxruntime") -> Any:
    """ONNX Runtime, which then sends no telemetry unless ORT_DISABLE_TELEMETRY=0 asks for it.

    It reads the variable when it is loaded. So every import of it is here.

    Args:
        purpose: What needs it, for the error.
        module: A module of it.

    Raises:
        ImportError: onnxruntime is not installed.
    """
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    return need(module, "onnx", purpose)


def openmp_threads() -> int:
    """The first number of OMP_NUM_THREADS, which may list one for each nested level. 0: not set.

    Raises:
        ValueError: It is not a whole number.
    """
    value = os.environ.get("OMP_NUM_THREADS", "").strip()
    if not value:
        return 0
    first = value.split(",")[0].strip()
    if not first.isdecimal() or int(first) == 0:
        raise ValueError(
            f"OMP_NUM_THREADS should be a whole number of threads, such as 4, not {value!r}."
        )
    return int(first)
