"""Compatibility: the names, keywords and protocols by which the tools around a model know it.

One file for each class that inherits from it or asks it. Nothing here computes a number of BERT.
"""

from typing import Any


def register(*_: Any, **__: Any) -> None:
    """Raise a ValueError: an Auto class is a class of BERT here, and has nothing to choose from."""
    raise ValueError(
        "minibert has no registry of architectures: AutoModel is BertModel, AutoConfig is "
        "BertConfig, AutoTokenizer is BertTokenizer. Load your own classes by their names: "
        "MyModel.from_pretrained(folder), with config_class = MyConfig in MyModel."
    )
