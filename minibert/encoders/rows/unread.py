"""Count the texts of an input that a vocabulary cannot read, over all its parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

MAX_SAMPLE = 20  # of the texts, for what helps


@dataclass
class UnreadTexts:
    """The texts of an input that a vocabulary cannot read.

    Attributes:
        count: How many there are.
        total: The number of all texts.
        sample: The first of them.
        reported: How many a warning has counted.
    """

    count: int = 0
    total: int = 0
    sample: list[str] = field(default_factory=list)
    reported: int = 0

    def add(self, count: int, total: int, sample: Sequence[str]) -> None:
        """Add those of the next part of the input.

        Args:
            count: As the attribute, of this part.
            total: As the attribute, of this part.
            sample: Some of them.
        """
        self.count += count
        self.total += total
        self.sample.extend(sample[: MAX_SAMPLE - len(self.sample)])
