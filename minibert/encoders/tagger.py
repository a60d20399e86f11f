"""Labeled spans of texts, such as names: `Tagger`, and `find_entities`."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any, TypedDict, overload

import numpy as np

from minibert.encoders.head_models import HeadModel, TextOrTexts, as_text_list, outputs_of
from minibert.encoders.rows.entity_tags import entity_spans
from minibert.encoders.rows.token_rows import Rows, Settings, token_types_of
from minibert.encoders.rows.windows import encode_windows, words_of_texts
from minibert.tokenization.tokenizer import BertTokenizer

if TYPE_CHECKING:
    from minibert.encoders.onnx.onnx_heads import OnnxModel
    from minibert.heads import BertForTokenClassification


class Entity(TypedDict):
    """A labeled span of a text.

    It has its kind, the mean probability of its words, its text, and `[start, end)` in characters.
    """

    entity_group: str
    score: float
    word: str
    start: int
    end: int


class Tagger(HeadModel):
    """A token classifier with its tokenizer.

    ```python
    tagger = Tagger.from_pretrained("OUT")
    tagger.find_entities("Ada Lovelace lived in London.")
    ```

    Args, attributes and errors are those of `HeadModel`.
    """

    kind = "tagger"
    heads = ("BertForTokenClassification",)

    @overload
    def find_entities(  # type: ignore[overload-overlap]
        self, texts: str, stride: int | None = None, by_piece: bool | None = None
    ) -> list[Entity]: ...
    @overload
    def find_entities(
        self, texts: Sequence[str], stride: int | None = None, by_piece: bool | None = None
    ) -> list[list[Entity]]: ...
    def find_entities(
        self, texts: TextOrTexts, stride: int | None = None, by_piece: bool | None = None
    ) -> Any:
        """As the function `find_entities`, without model and tokenizer.

        Args:
            texts: A text or several.
            stride: Tokens that neighboring windows share. None: a quarter of a window.
            by_piece: Each piece has a label of its own. None: as the model was trained.
        """
        if by_piece is None:
            by_piece = bool(self.reading.by_piece)
        rows = as_text_list(texts)
        limit = self.max_length
        batch = encode_windows(
            self.tokenizer, rows, None, limit, limit // 4 if stride is None else stride
        )
        first_windows: dict[int, list[int]] = {}
        for index, ids in zip(batch["overflow_to_sample_mapping"], batch["input_ids"], strict=True):
            first_windows.setdefault(index, ids)
        self.warn_of_unread_ids(rows, map(first_windows.__getitem__, range(len(rows))))
        examples = [
            {"input_ids": np.array(ids), "token_type_ids": np.array(types)}
            for ids, types in zip(batch["input_ids"], token_types_of(batch), strict=True)
        ]
        outputs = outputs_of(self.model, examples, lambda output: output.logits)
        labels = [logits.argmax(-1).tolist() for logits in outputs]
        scores = [logits.softmax(-1).amax(-1).tolist() for logits in outputs]
        results: list[list[Entity]] = []
        for text, views in zip(rows, words_of_texts(batch, len(rows), by_piece), strict=True):
            words = [views[number] for number in sorted(views)]
            tags = [self.config.id2label[labels[word.window][word.position]] for word in words]
            entities = []
            for kind, first, stop in entity_spans(tags):
                start, end = words[first].start, words[stop - 1].end
                score = fmean(scores[word.window][word.position] for word in words[first:stop])
                entity = Entity(
                    entity_group=kind, score=score, word=text[start:end], start=start, end=end
                )
                entities.append(entity)
            results.append(entities)
        return results[0] if isinstance(texts, str) else results

    def encode_rows(self, rows: Rows, settings: Settings) -> list[list[Entity]]:
        """The entities of each text, in their order, as a service asks for them.

        Args:
            rows: Of all texts. Long ones are split into windows.
            settings: Without effect.
        """
        return self.find_entities([str(rows.rows[index].text) for index in rows.indices])


@overload
def find_entities(  # type: ignore[overload-overlap]
    model: BertForTokenClassification | OnnxModel,
    tokenizer: BertTokenizer,
    texts: str,
    stride: int | None = None,
    by_piece: bool | None = None,
) -> list[Entity]: ...


@overload
def find_entities(
    model: BertForTokenClassification | OnnxModel,
    tokenizer: BertTokenizer,
    texts: Sequence[str],
    stride: int | None = None,
    by_piece: bool | None = None,
) -> list[list[Entity]]: ...


def find_entities(
    model: BertForTokenClassification | OnnxModel,
    tokenizer: BertTokenizer,
    texts: TextOrTexts,
    stride: int | None = None,
    by_piece: bool | None = None,
) -> list[Entity] | list[list[Entity]]:
    """Labeled spans of texts, such as names.

    A word has the label of its first piece. Neighboring words of one kind form a span. B- begins a
    new one. I- and M- continue it, even if no B- came before. E- and L- end it, and S- and U- are
    spans alone. B and I without a kind are entities of the kind "_". A label without such a prefix
    is a kind itself, and O is not an entity.

    Words are the tokenizer's: split at white space and around punctuation. CoNLL splits
    differently: a model that was trained on `U.S.` as one word has never seen labels of its parts.

    Args:
        model: A token classifier, or one that `minibert export` has written.
        tokenizer: Its tokenizer.
        texts: A text or several. A text that is too long for the model is split into windows. If
            two windows show a word, the one with more around it decides.
        stride: Tokens that neighboring windows share. None: a quarter of a window.
        by_piece: Each piece has a label of its own, as in a model trained on labels of characters.
            A name may then end inside a word, as before a Korean particle. None: as the model was
            trained. A model that does not say is read by words.

    Returns:
        For each text a list of `{"entity_group", "score", "word", "start", "end"}` in the order of
        the text: the kind, the mean probability of its words' labels, the text, and `[start, end)`
        in characters.

    Raises:
        TypeError: `model` is not a token classifier.
        ValueError: The export has another head, `texts` is a mapping, `stride` does not fit, or
            the logits are not finite.
    """
    return Tagger(model, tokenizer).find_entities(texts, stride, by_piece)
