"""What code copied from transformers passes to and reads of a layer and its attention."""

from typing import Any

from torch import nn


class LayerAttributes(nn.Module):
    """The attributes by which a `forward` copied from transformers tells encoders from decoders.

    Args:
        layer_idx: The number of the layer, which decoders need.
        unused: `is_causal` and `is_cross_attention`, which are False in an encoder.

    Raises:
        ValueError: An argument asks for a decoder.
        TypeError: An unknown argument.
    """

    is_decoder = False
    is_causal = False
    is_cross_attention = False
    add_cross_attention = False
    chunk_size_feed_forward = 0
    seq_len_dim = 1

    def __init__(self, layer_idx: int | None = None, **unused: Any) -> None:
        super().__init__()
        self.layer_idx = layer_idx
        if unused:
            from minibert.compat.forward_keywords import LAYERS
            from minibert.compat.keywords import check_unused

            check_unused(type(self).__name__, unused, LAYERS)
