"""`minibert export`: a model as an ONNX graph, which runs without PyTorch."""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile

from minibert.cli.loading import source_of
from minibert.cli.options import add_force, add_json, add_offline
from minibert.cli.parser import Parser
from minibert.cli.results import UsageError, claim_folder, is_same_folder, report

SUMMARY = "Write a model as an ONNX graph, which runs without PyTorch."
EXAMPLE = "minibert-en out/minibert-en-onnx"
# the command that uses a graph, by the class of its model. Other graphs are used from Python
_NEXT = {
    "SentenceEmbedder": "embed --model {folder} --backend onnx TEXT",
    "BertForSequenceClassification": "classify --model {folder} --backend onnx TEXT",
    "BertForTokenClassification": "entities --model {folder} --backend onnx TEXT",
    "BertForQuestionAnswering": "answer --model {folder} --backend onnx --question QUESTION TEXT",
}


def add(parser: Parser) -> None:
    parser.add_argument("src", metavar="SRC", help="Model: a folder, a bundled model or a Hub id.")
    parser.add_argument("dst", metavar="DST", help="Folder to write.")
    add_offline(parser)
    parser.add_argument(
        "--precision",
        default="fp32",
        choices=["fp32", "int8"],
        help="Arithmetic of the graph. int8 quantizes it.",
    )
    parser.add_argument(
        "--heads",
        action="store_true",
        help="Export the heads of a model that could make vectors as well.",
    )
    add_force(parser)
    add_json(parser)


def run(options: argparse.Namespace) -> None:
    if is_same_folder(options.src, options.dst):
        raise UsageError("DST is the folder of the model itself. Name another folder.")
    claim_folder(options.dst, options.force)
    source = source_of(options, options.src)
    from minibert.encoders.export import export

    if os.path.isdir(options.dst):  # empty, or --force: only files of the same names are replaced
        with tempfile.TemporaryDirectory(prefix="minibert-") as temporary:
            target = os.path.join(temporary, "model")
            done = export(source, target, options.precision, options.heads)
            shutil.copytree(target, options.dst, dirs_exist_ok=True)
    else:
        done = export(source, options.dst, options.precision, options.heads)
    sentence = (
        f"{done.kind} written to {options.dst}. Compared with PyTorch, its values differ by at "
        f"most\n{done.difference:.1e} of the largest one, and the smallest cosine is "
        f"{done.cosine:.6f}."
    )
    if done.kind in _NEXT:
        sentence += f"\nUse it: minibert {_NEXT[done.kind].format(folder=options.dst)}"
    content = {"output": options.dst, "precision": options.precision, **done._asdict()}
    report(options, content, sentence)
