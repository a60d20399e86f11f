"""What tools for transformers call at the decoder of words."""

from typing import Any

from torch import nn


class OutputEmbeddings:
    """The decoder of words in the heads of masked-language modeling."""

    cls: Any

    def get_output_embeddings(self) -> nn.Linear:
        """Return the decoder, (vocab, hidden)."""
        decoder: nn.Linear = self.cls.predictions.decoder
        return decoder

    def set_output_embeddings(self, new_embeddings: nn.Linear) -> None:
        """Replace the decoder and its bias.

        Args:
            new_embeddings: A linear layer with weights (vocab, hidden) and a bias (vocab).
        """
        self.cls.predictions.decoder = new_embeddings
        self.cls.predictions.bias = new_embeddings.bias
