"""Arguments of transformers' `forward` that minibert takes as long as they ask for nothing."""

from __future__ import annotations

from typing import Any, TypedDict

from minibert.compat.keywords import ANYTHING, Keywords


class UnusedArguments(TypedDict, total=False):
    """Arguments that tools for transformers pass, accepted as long as they ask for nothing."""

    use_cache: bool | None
    past_key_values: None
    encoder_hidden_states: None
    encoder_attention_mask: None
    num_items_in_batch: Any
    head_mask: None


MODEL: Keywords = {
    "use_cache": (ANYTHING, "an encoder computes a text once and has nothing to keep"),
    "num_items_in_batch": (
        ANYTHING,
        "the Trainer's count of labels, but BERT's losses are means of a batch",
    ),
    "past_key_values": (None, "it is for decoders, but an encoder computes every text at once."),
    "encoder_hidden_states": (None, "it is for decoders, but minibert is an encoder."),
    "encoder_attention_mask": (None, "it is for decoders, but minibert is an encoder."),
    "head_mask": (
        None,
        "nor is it by transformers since version 5. Trace.switch_off_head switches a head off.",
    ),
}
PARTS: Keywords = {
    **MODEL,
    "past_key_value": MODEL["past_key_values"],
    "layer_head_mask": MODEL["head_mask"],
    "output_attentions": (False, "pass attend=eager_attention, which returns the probabilities."),
    "output_hidden_states": (ANYTHING, "a layer has only its own"),
    "return_dict": (ANYTHING, "what a part returns has one form"),
    "cache_position": (None, "an encoder computes a text once and has nothing to keep."),
    "position_ids": (None, "positions are added by the embeddings."),
}
# Arguments of transformers that follow the mask of a part, by position.
FOR_DECODERS = ("encoder_hidden_states", "encoder_attention_mask", "past_key_values", "use_cache")
# Those with which transformers builds layers and their attention.
LAYERS: Keywords = {
    "is_causal": (False, "minibert is an encoder."),
    "is_cross_attention": (False, "minibert is an encoder."),
}
EMBEDDINGS: Keywords = {
    **MODEL,
    "past_key_values_length": (0, "it is for decoders. Pass position_ids to count from elsewhere."),
}
