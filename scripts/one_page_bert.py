"""BERT on one page: loads a checkpoint from a folder and fills a mask.

    python scripts/one_page_bert.py
    python scripts/one_page_bert.py minibert-en "Paris is the [MASK] of France."
    python scripts/one_page_bert.py FOLDER "Paris is the [MASK] of France."

Without arguments, it fills that mask with the bundled model minibert-en. It needs only torch and
safetensors. Its hidden states are bit-identical to those of minibert and of transformers with
`attn_implementation="eager"`.

Each part names the file of the package with the full version, which adds the rest of Unicode,
batches, padding, old file formats and speed.

Shapes: `seq` tokens of one text. In bert-base, `hidden` is 768, `heads` 12 and `vocab` 30,522.
"""

import json
import re
import sys
import unicodedata
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import nn


def tokenize(text, vocab):  # in full: minibert/tokenization/basic.py
    """Returns the ids of `[CLS] text [SEP]`. Words end at spaces and at punctuation."""
    words = re.findall(r"\[MASK\]|[^\W_]+|\S", text)
    return [
        vocab["[CLS]"],
        *(i for word in words for i in word_pieces(word, vocab)),
        vocab["[SEP]"],
    ]


def word_pieces(word, vocab):  # in full: minibert/tokenization/wordpiece.py
    """Splits a word into the longest pieces of the vocabulary: embedding -> em ##bed ##ding."""
    if word == "[MASK]":
        return [vocab[word]]
    parts = unicodedata.normalize("NFD", word.lower())  # é is e and an accent, which is dropped
    ids, rest = [], "".join(c for c in parts if unicodedata.category(c) != "Mn")
    while rest:
        end = len(rest)
        while rest[:end] not in vocab:
            end -= 1
            if rest[:end] in ("", "##"):
                return [vocab["[UNK]"]]
        ids.append(vocab[rest[:end]])
        rest = "##" + rest[end:] if rest[end:] else ""
    return ids


class Embeddings(nn.Module):  # in full: minibert/embeddings.py
    """Adds the vectors of a token's word piece, of its sentence and of its position."""

    def __init__(self, c):
        super().__init__()
        self.word_embeddings = nn.Embedding(c["vocab_size"], c["hidden_size"])
        self.position_embeddings = nn.Embedding(c["max_position_embeddings"], c["hidden_size"])
        self.token_type_embeddings = nn.Embedding(c["type_vocab_size"], c["hidden_size"])
        self.LayerNorm = nn.LayerNorm(c["hidden_size"], eps=c.get("layer_norm_eps", 1e-12))

    def forward(self, ids):  # (1, seq) -> (1, seq, hidden)
        x = self.word_embeddings(ids) + self.token_type_embeddings(torch.zeros_like(ids))
        return self.LayerNorm(x + self.position_embeddings(torch.arange(ids.shape[1])))


class SelfAttention(nn.Module):  # in full: minibert/attention.py
    """Each head averages the values of all tokens, with weights from queries times keys."""

    def __init__(self, c):
        super().__init__()
        self.heads = c["num_attention_heads"]
        self.query, self.key, self.value = (
            nn.Linear(c["hidden_size"], c["hidden_size"]) for _ in range(3)
        )

    def forward(self, x):  # (1, seq, hidden) -> (1, seq, hidden)
        q, k, v = (
            f(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for f in (self.query, self.key, self.value)
        )
        # (1, heads, seq, seq): each row is a token that attends to the tokens of the columns
        scores = q @ k.transpose(2, 3) * q.shape[-1] ** -0.5
        return (scores.softmax(-1) @ v).transpose(1, 2).flatten(-2)


class AddAndNorm(nn.Module):
    """Linear layer, residual connection and LayerNorm, which end both halves of a layer."""

    def __init__(self, c, width):
        super().__init__()
        self.dense = nn.Linear(width, c["hidden_size"])
        self.LayerNorm = nn.LayerNorm(c["hidden_size"], eps=c.get("layer_norm_eps", 1e-12))

    def forward(self, x, residual):
        return self.LayerNorm(self.dense(x) + residual)


class Layer(nn.Module):  # in full: minibert/encoder.py
    """Attention mixes tokens. The feed-forward network transforms each token on its own."""

    def __init__(self, c):
        super().__init__()
        self.attention = nn.ModuleDict(
            {"self": SelfAttention(c), "output": AddAndNorm(c, c["hidden_size"])}
        )
        self.intermediate = nn.ModuleDict(
            {"dense": nn.Linear(c["hidden_size"], c["intermediate_size"])}
        )
        self.output = AddAndNorm(c, c["intermediate_size"])

    def forward(self, x):
        x = self.attention["output"](self.attention["self"](x), x)
        return self.output(F.gelu(self.intermediate["dense"](x)), x)


class Head(nn.Module):  # in full: minibert/model.py, minibert/heads.py
    """Scores the whole vocabulary for every token. The decoder weights are the word embeddings."""

    def __init__(self, c):
        super().__init__()
        norm = nn.LayerNorm(c["hidden_size"], eps=c.get("layer_norm_eps", 1e-12))
        self.transform = nn.ModuleDict(
            {"dense": nn.Linear(c["hidden_size"], c["hidden_size"]), "LayerNorm": norm}
        )
        self.bias = nn.Parameter(torch.zeros(c["vocab_size"]))

    def forward(self, x, words):  # (1, seq, hidden) -> (1, seq, vocab)
        x = self.transform["LayerNorm"](F.gelu(self.transform["dense"](x)))
        return F.linear(x, words.weight, self.bias)


class Bert(nn.Module):
    """The whole model. Modules have the official names, so the tensors of a checkpoint fit."""

    def __init__(self, c):
        super().__init__()
        layers = nn.ModuleList(Layer(c) for _ in range(c["num_hidden_layers"]))
        self.bert = nn.ModuleDict(
            {"embeddings": Embeddings(c), "encoder": nn.ModuleDict({"layer": layers})}
        )
        self.cls = nn.ModuleDict({"predictions": Head(c)})

    def hidden_states(self, ids):  # (1, seq) -> (1, seq, hidden) of embeddings and of each layer
        states = [self.bert["embeddings"](ids)]
        for layer in self.bert["encoder"]["layer"]:
            states.append(layer(states[-1]))
        return states

    def forward(self, ids):  # (1, seq) -> (1, seq, vocab)
        return self.cls["predictions"](
            self.hidden_states(ids)[-1], self.bert["embeddings"].word_embeddings
        )


def load(folder):  # in full: minibert/checkpoints/, minibert/checkpoints/loading.py
    """Loads a model, and its vocabulary as a list of pieces, from a folder."""
    model = Bert(json.loads((folder / "config.json").read_text(encoding="utf-8"))).eval()
    old = {"gamma": "weight", "beta": "bias"}  # TensorFlow's names for the parts of a LayerNorm
    tensors = load_file(folder / "model.safetensors")
    renamed = {}
    for name, tensor in tensors.items():
        renamed[".".join(old.get(part, part) for part in name.split("."))] = tensor
    model.load_state_dict({name: renamed[name] for name in model.state_dict()})
    return model, (folder / "vocab.txt").read_text(encoding="utf-8").split("\n")


def folder_of(name):  # in full: minibert/checkpoints/source.py
    """Returns the folder of a model, given as a path or as the name of a bundled model."""
    bundled = Path(__file__).resolve().parents[1] / "minibert" / "models"
    for folder in (Path(name), bundled / name):
        if (folder / "config.json").exists():
            return folder
    raise SystemExit(f"{name} is not a folder with a config.json, and not a model in {bundled}.")


if __name__ == "__main__":
    arguments = dict(enumerate(sys.argv))
    text = arguments.get(2, "Paris is the [MASK] of France.")
    model, pieces = load(folder_of(arguments.get(1, "minibert-en")))
    ids = tokenize(text, {piece: i for i, piece in enumerate(pieces)})
    with torch.inference_mode():
        logits = model(torch.tensor([ids]))[0, ids.index(pieces.index("[MASK]"))]
    for probability, i in zip(*logits.softmax(-1).topk(5), strict=True):
        print(f"{probability:.4f}  {pieces[i]}")
