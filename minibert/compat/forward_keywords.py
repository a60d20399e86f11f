"""Arguments of transformers' `forward` that minibert takes as long as they ask for nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict

from minibert.compat.keywords import drop_ignored_keywords


class UnusedArguments(TypedDict, total=False):
    """Arguments that tools for transformers pass, accepted as long as they ask for nothing."""

    use_cache: bool | None
    past_key_values: None
    encoder_hidden_states: None
    encoder_attention_mask: None
    num_items_in_batch: Any
    head_mask: None


# With the reason why they have no effect.
WITHOUT_EFFECT = {
    "use_cache": "an encoder computes a text once and has nothing to keep",
    # of the parts of a model: the encoder collects hidden states, and the model makes the output
    "output_hidden_states": "a layer has only its own",
    "return_dict": "what a part returns has one form",
    "num_items_in_batch": "the Trainer's count of labels, but BERT's losses are means of a batch",
}
# They raise an error with any other value than this. The sentence ends the message.
REFUSED: dict[str, tuple[Any, str]] = {
    "past_key_values": (None, "it is for decoders, but an encoder computes every text at once."),
    "encoder_hidden_states": (None, "it is for decoders, but minibert is an encoder."),
    "encoder_attention_mask": (None, "it is for decoders, but minibert is an encoder."),
    "head_mask": (
        None,
        "nor is it by transformers since version 5. Trace.switch_off_head switches a head off.",
    ),
}
# Those of the parts of a model, which the model itself has as arguments.
REFUSED_BY_PARTS: dict[str, tuple[Any, str]] = {
    **REFUSED,
    "past_key_value": REFUSED["past_key_values"],
    "layer_head_mask": REFUSED["head_mask"],
    "output_attentions": (False, "pass attend=eager_attention, which returns the probabilities."),
    "cache_position": (None, "an encoder computes a text once and has nothing to keep."),
    "position_ids": (None, "positions are added by the embeddings."),
}
# Arguments of transformers that follow the mask, by position.
FOR_DECODERS = ("encoder_hidden_states", "encoder_attention_mask", "past_key_values", "use_cache")
# Those with which transformers builds layers and their attention.
REFUSED_BY_LAYERS: dict[str, tuple[Any, str]] = {
    "is_causal": (False, "minibert is an encoder."),
    "is_cross_attention": (False, "minibert is an encoder."),
}
REFUSED_BY_EMBEDDINGS: dict[str, tuple[Any, str]] = {
    "past_key_values_length": (0, "it is for decoders. Pass position_ids to count from elsewhere."),
}


def check_unused(
    owner: str, arguments: Mapping[str, Any], refused: Mapping[str, tuple[Any, str]] = REFUSED
) -> None:
    """Check arguments that have no effect.

    Args:
        owner: What was called, as the error should call it.
        arguments: What was passed, by name.
        refused: The names that are known, with the only value that each takes beside None.

    Raises:
        ValueError: The value of an argument asks for something that minibert does not have.
        TypeError: An unknown argument.
    """
    asked = {name: value for name, value in arguments.items() if not _is_empty(value)}
    drop_ignored_keywords(asked, WITHOUT_EFFECT, refused)
    for name in arguments:
        if name not in refused and name not in WITHOUT_EFFECT:
            raise TypeError(f"{owner}() got an unexpected keyword argument {name!r}")


def _is_empty(value: Any) -> bool:
    """Whether a value is None, or a list of nothing else, such as the old `head_mask`."""
    return value is None or (isinstance(value, list) and all(x is None for x in value))
