"""Prints the resident memory in MB after 1, 10, 75, 150, 300 and all batches (Linux).

    python scripts/bench/memory_of_batches.py model bf16 FOLDER

WORK is one of

    model                   BertModel on padded batches
    embedder                SentenceEmbedder.encode, which packs batches
    training                forward and backward pass of BertModel on packed batches
    sentence-transformers   SentenceTransformer.encode, plain or bf16
    fastembed               TextEmbedding.embed (FOLDER has a model.onnx of hidden states)
    onnx                    the graph of `minibert export` in ONNX Runtime

PRECISION is plain (the model as loaded), fp32, bf16 or int8. Training supports plain and bf16
(autocast). A batch has 1 to 4 texts of 3 to 64 words.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Callable
from typing import Any

TEXTS, WORDS = 4, 64


def resident() -> float:
    """Returns the resident memory of this process in MB."""
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[1]) * 4096 / 1e6


def work_of(name: str, precision: str, folder: str) -> Callable[[list[str]], Any]:
    """Returns a function that processes a batch of texts."""
    import torch

    from minibert import BertModel, BertTokenizer, PackedLayout, SentenceEmbedder, optimize

    if name == "sentence-transformers":
        from sentence_transformers import SentenceTransformer

        dtype = {"plain": torch.float32, "bf16": torch.bfloat16}[precision]
        return SentenceTransformer(folder, device="cpu", model_kwargs={"dtype": dtype}).encode
    if name == "fastembed":
        from fastembed import TextEmbedding

        peer = TextEmbedding(
            "sentence-transformers/all-MiniLM-L6-v2", specific_model_path=folder, threads=1
        )
        return lambda texts: list(peer.embed(texts))
    tokenizer = BertTokenizer.from_pretrained(folder)
    if name == "embedder":
        embedder = SentenceEmbedder.from_pretrained(
            folder, precision=None if precision == "plain" else precision
        )
        return embedder.encode
    if name == "onnx":
        import onnxruntime

        session = onnxruntime.InferenceSession(
            f"{folder}/model.onnx", providers=["CPUExecutionProvider"]
        )
        input_names = [graph_input.name for graph_input in session.get_inputs()]

        def run(texts: list[str]) -> Any:
            batch = tokenizer(texts, padding=True, truncation=True, return_tensors="np")
            return session.run(None, {name: batch[name] for name in input_names})

        return run
    model = BertModel.from_pretrained(folder)
    if name == "training":
        model.train()

        def step(texts: list[str]) -> None:
            rows = tokenizer(texts, truncation=True)["input_ids"]
            ids = torch.tensor([token_id for row in rows for token_id in row])
            layout = PackedLayout([len(row) for row in rows])
            with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
                loss = model(ids, layout=layout).last_hidden_state.float().square().mean()
            loss.backward()
            model.zero_grad()

        return step
    if precision != "plain":
        model = optimize(model, precision=precision)

    def forward(texts: list[str]) -> None:
        with torch.inference_mode():
            model(**tokenizer(texts, padding=True, truncation=True, return_tensors="pt"))

    return forward


def main() -> None:
    """Runs the batches and prints the memory after some of them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "work",
        choices=["model", "embedder", "training", "sentence-transformers", "fastembed", "onnx"],
    )
    parser.add_argument("precision", choices=["plain", "fp32", "bf16", "int8"])
    parser.add_argument("folder", help="a model with its tokenizer")
    parser.add_argument("--batches", type=int, default=600)
    options = parser.parse_args()
    run = work_of(options.work, options.precision, options.folder)
    words = (
        "the a of to and in is was for on that with as by at from it an be this which or".split()
    )
    chance = random.Random(0)
    curve = {}
    for number in range(1, options.batches + 1):
        lengths = [chance.randint(3, WORDS) for _ in range(chance.randint(1, TEXTS))]
        run([" ".join(chance.choices(words, k=length)) for length in lengths])
        if number in (1, 10, 75, 150, 300) or number == options.batches:
            curve[number] = round(resident())
    print(json.dumps({"work": f"{options.work}, {options.precision}", "MB": curve}))


if __name__ == "__main__":
    main()
