"""How a fine-tuned model reads its inputs, as decided in training.

    reading = Reading.of(model.config)
    reading.by_piece  # True for a tagger whose training data have a tag for each character

`finetune` decides it from the training rows and writes it into config.json, under the key
"minibert". Evaluation, the commands, the Python functions, the service and exports follow it unless
an argument says otherwise. Without the key, arguments and their defaults decide. transformers keeps
the key when it saves a model. The maximum number of tokens is not part of it, because the tokenizer
has it as `model_max_length`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from numbers import Real
from typing import Any

from minibert.config import BertConfig
from minibert.util.checks import check_count, check_flag, check_kind
from minibert.util.errors import ArgumentError

KEY = "minibert"
"""The key in config.json."""


@dataclass(frozen=True)
class Reading:
    """How a model reads its inputs. None: not decided in training.

    Attributes:
        task: The task that it was trained for, by its name in `evaluate`, such as "tokens".
        pairs: Whether each input is a pair of texts.
        by_piece: Whether each piece of a word has a tag of its own, because the words of the
            training data are single characters.
        no_answer: Whether a text may lack the answer to a question.
        no_answer_threshold: How much higher the score of "no answer" has to be than that of the
            best answer.
        max_answer_length: Maximum number of tokens of an answer.
        options: The options of the task that it was trained with.
    """

    task: str | None = None
    pairs: bool | None = None
    by_piece: bool | None = None
    no_answer: bool | None = None
    no_answer_threshold: float | None = None
    max_answer_length: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, config: BertConfig) -> Reading:
        """Return the reading in a config. Nothing is decided if the config lacks the key.

        Raises:
            ValueError: A value under the key has the wrong type, or is out of range.
        """
        content = config.extra.get(KEY)
        if content is None:
            return cls()
        try:
            check_kind(KEY, content, Mapping, "an object")
            values = {one.name: content.get(one.name) for one in _DECIDED}
            return cls(**values, options=content.get("options") or {})
        except (TypeError, ValueError) as error:
            raise ValueError(f"config.json is damaged in {KEY!r}: {error}") from None

    def accepts(self, has_pairs: bool) -> bool:
        """Whether inputs are what the model was trained on, as far as that is known.

        Args:
            has_pairs: Whether they are pairs of texts.
        """
        return self.pairs in (None, has_pairs)

    def check_pairs(self, has_pairs: bool) -> None:
        """Check that inputs are what the model was trained on, as `accepts`.

        Raises:
            ValueError: Pairs are missing, or are passed to a model of single texts.
        """
        if not self.accepts(has_pairs):
            if self.pairs:
                raise ArgumentError(
                    "pairs",
                    "is missing: this model was trained on pairs of texts. Pass the second.",
                )
            raise ArgumentError(
                "pairs",
                "has second texts, but this model was trained on single texts. Leave pairs out.",
            )

    def __post_init__(self) -> None:
        """ValueError for a value of the wrong type, or out of range."""
        for name in ("pairs", "by_piece", "no_answer"):
            check_flag(name, getattr(self, name))
        if self.task is not None:
            check_kind("task", self.task, str, "a string")
        if self.max_answer_length is not None:
            check_count("max_answer_length", self.max_answer_length)
        if self.no_answer_threshold is not None:
            check_kind("no_answer_threshold", self.no_answer_threshold, Real, "a number")
        check_kind("options", self.options, Mapping, "an object of options by name")

    @property
    def decided(self) -> dict[str, Any]:
        """The values that training decided, by name, without `options`."""
        values = {one.name: getattr(self, one.name) for one in _DECIDED}
        return {name: value for name, value in values.items() if value is not None}

    def as_fields(self) -> dict[str, Any]:
        """Keyword arguments of `BertConfig` that store this reading in a config."""
        content = self.decided
        if self.options:
            content["options"] = dict(self.options)
        return {"extra": {KEY: content}}


_DECIDED = [one for one in fields(Reading) if one.name != "options"]
