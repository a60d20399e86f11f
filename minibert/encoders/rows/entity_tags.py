"""Entities from tags such as B-PER, in every scheme that has been used for them."""

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple


class EntitySpan(NamedTuple):
    """Words `[first, end)` of a sentence that form an entity of a kind."""

    kind: str
    first: int
    end: int


# M, L and U are names for I, E and S in the schemes BMES and BILOU
PREFIXES = {"B": "B", "I": "I", "M": "I", "E": "E", "L": "E", "S": "S", "U": "S"}
UNNAMED = "_"  # the kind of an entity whose tags are a prefix alone, such as B


def entity_spans(tags: Iterable[str]) -> list[EntitySpan]:
    """The entities of a sentence, as seqeval and conlleval find them.

    The rules hold for the schemes IOB1, IOB2, IOE, BIOES, BMES and BILOU, and for sequences that
    follow none of them: B- and S- begin an entity, and E- and S- end it. I- and E- continue an
    entity of their kind, and begin one where there is none. A tag without a prefix is a kind
    itself, whose neighboring words form an entity. O is outside.

    Args:
        tags: One for each word.

    Returns:
        The spans, in order.
    """
    spans: list[EntitySpan] = []
    open_kind: str | None = None  # the kind of the span that the next word may continue
    for position, tag in enumerate(tags):
        prefix, kind = split_prefix(tag)
        if kind == "O" and not prefix:
            open_kind = None
            continue
        if kind == open_kind and prefix not in ("B", "S"):
            spans[-1] = spans[-1]._replace(end=position + 1)
        else:
            spans.append(EntitySpan(kind, position, position + 1))
        open_kind = None if prefix in ("E", "S") else kind
    return spans


@lru_cache(maxsize=1024)
def split_prefix(tag: str) -> tuple[str, str]:
    """Split a tag into its prefix (B, I, E, S or nothing) and its kind.

    "B-PER" is ("B", "PER"), "M-PER" is ("I", "PER"), "B" is ("B", "_"), and "PER" is ("", "PER").
    """
    prefix, dash, kind = tag.partition("-")
    if prefix in PREFIXES and (dash or not kind):
        return PREFIXES[prefix], kind or UNNAMED
    return "", tag
