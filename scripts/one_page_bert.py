"""BERT on one page: reads an official folder such as bert-base-uncased, and fills a mask.

    python scripts/one_page_bert.py
    python scripts/one_page_bert.py minibert-en "Paris is the [MASK] of France."
    python scripts/one_page_bert.py FOLDER "Paris is the [MASK] of France."

Without arguments it fills that mask with minibert-en, which comes with the package. It needs torch and safetensors alone, and its hidden states are those of the package and of the reference with
`attn_implementation="eager"`, bit for bit. Each part names the file of the package that does it in full: all of
Unicode, batches, padding, old files, speed.
Shapes: `seq` tokens of one text, `hidden` = 768, `heads` = 12, `vocab` = 30,522 in bert-base.
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
    """The ids of `[CLS] text [SEP]`: words end at blanks and punctuation, and WordPiece cuts them into pieces."""
    words = re.findall(r"\[MASK\]|[^\W_]+|\S", text)
    return [
        vocab["[CLS]"],
        *(i for word in words for i in word_pieces(word, vocab)),
        vocab["[SEP]"],
    ]


def word_pieces(word, vocab):  # in full: minibert/tokenization/wordpiece.py
    """The ids of a word's pieces, "embedding" -> em ##bed ##ding: always the longest that the vocabulary knows."""
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
    """A token's vector is the sum of three: what word it is, which sentence it belongs to, where it stands."""

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
    """Each head gives every token a weighted mean of all tokens' values; the weights come from query times key."""

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
        scores = (
            q @ k.transpose(2, 3) * q.shape[-1] ** -0.5
        )  # (1, heads, seq, seq), row: who looks, column: at whom
        return (scores.softmax(-1) @ v).transpose(1, 2).flatten(-2)


class AddAndNorm(nn.Module):
    """A linear layer, the residual (what stood there before) and LayerNorm: the end of both halves of a layer."""

    def __init__(self, c, width):
        super().__init__()
        self.dense = nn.Linear(width, c["hidden_size"])
        self.LayerNorm = nn.LayerNorm(c["hidden_size"], eps=c.get("layer_norm_eps", 1e-12))

    def forward(self, x, residual):
        return self.LayerNorm(self.dense(x) + residual)


class Layer(nn.Module):  # in full: minibert/encoder.py
    """Attention mixes tokens; the feed-forward network, four times as wide, works on each token alone."""

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
    """Scores every word of the vocabulary for every token; its decoder is the word embeddings themselves."""

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
    """All of it, under the official names, so that a checkpoint's tensors find their places by themselves."""

    def __init__(self, c):
        super().__init__()
        layers = nn.ModuleList(Layer(c) for _ in range(c["num_hidden_layers"]))
        self.bert = nn.ModuleDict(
            {"embeddings": Embeddings(c), "encoder": nn.ModuleDict({"layer": layers})}
        )
        self.cls = nn.ModuleDict({"predictions": Head(c)})

    def hidden_states(
        self, ids
    ):  # (1, seq) -> the embeddings and the output of each layer, (1, seq, hidden) each
        states = [self.bert["embeddings"](ids)]
        for layer in self.bert["encoder"]["layer"]:
            states.append(layer(states[-1]))
        return states

    def forward(self, ids):  # (1, seq) -> (1, seq, vocab)
        return self.cls["predictions"](
            self.hidden_states(ids)[-1], self.bert["embeddings"].word_embeddings
        )


def load(folder):  # in full: minibert/checkpoints/, minibert/loading.py
    """The model, and the vocabulary as a list of pieces, from config.json, model.safetensors and vocab.txt."""
    model = Bert(json.loads((folder / "config.json").read_text(encoding="utf-8"))).eval()
    old = {"gamma": "weight", "beta": "bias"}  # TensorFlow's names for the parts of a LayerNorm
    tensors = load_file(folder / "model.safetensors")
    renamed = {
        ".".join(old.get(part, part) for part in name.split(".")): t for name, t in tensors.items()
    }
    model.load_state_dict({name: renamed[name] for name in model.state_dict()})
    return model, (folder / "vocab.txt").read_text(encoding="utf-8").split("\n")


def folder_of(name):  # in full: minibert/checkpoints/source.py
    """The folder of a model: a folder as it is, or the name of one of those that come with the package."""
    bundled = Path(__file__).resolve().parents[1] / "minibert" / "models"
    for folder in (Path(name), bundled / name):
        if (folder / "config.json").exists():
            return folder
    raise SystemExit(f"{name} is not a folder with a config.json, nor one in {bundled}.")


if __name__ == "__main__":
    arguments = dict(enumerate(sys.argv))
    text = arguments.get(2, "Paris is the [MASK] of France.")
    model, pieces = load(folder_of(arguments.get(1, "minibert-en")))
    ids = tokenize(text, {piece: i for i, piece in enumerate(pieces)})
    with torch.inference_mode():
        logits = model(torch.tensor([ids]))[0, ids.index(pieces.index("[MASK]"))]
    for probability, i in zip(*logits.softmax(-1).topk(5), strict=True):
        print(f"{probability:.4f}  {pieces[i]}")
