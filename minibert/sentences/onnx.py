"""Rows of token ids to vectors by ONNX Runtime, without torch: the other engine beside `minibert.sentences.model`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from minibert.extras import need


def open_session(path: Path) -> Any:
    """A graph, ready to run on the CPU, by as many threads as OMP_NUM_THREADS says, or one for each core.

    Raises:
        ImportError: onnxruntime is not installed.
        ValueError: the file is no graph that it can run.
    """
    runtime = need("onnxruntime", "onnx", "Running a model without torch")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = int(os.environ.get("OMP_NUM_THREADS") or 0)
    try:
        return runtime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its errors have no class in common but this
        reason = str(error).splitlines()[0]
        raise ValueError(f"{path} is damaged, or not for this onnxruntime ({reason:.200}).") from None
