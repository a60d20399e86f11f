"""Splits Korean nouns from their particles where the vocabulary of kcbert has both as one piece.

밥을, 학교에 and two thousand other words are single pieces. So a text never shows 밥 before 을,
and a model trained on it does not predict 밥 in "[MASK]을 먹었다". Splitting a share of these words
teaches it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from minibert.losses import IGNORED
from minibert.training.data import Epochs, Example

Ids = npt.NDArray[np.int64]

PARTICLES = tuple(
    "을 를 이 가 은 는 에 에서 로 으로 와 과 도 의 만 까지 부터 에게 한테 처럼 보다".split()
    + "이다 입니다 하다 이나 나 하고 이랑 랑 야 에는 에도".split()
)
AFTER_CONSONANTS = set("을 은 과 이 이다 이나 이랑 으로".split())
AFTER_VOWELS = set("를 는 와 가 나 랑 야".split())
SHORT_NOUNS = frozenset(
    "밥물빵꽃눈집책차술옷돈말비잠산강손발문방별개새닭쥐글춤떡배불코입귀목약병칼컵껌꿈땅밤낮봄벽"
    "꿀콩쌀풀잎옆앞뒤밖위곳것길죽국면곰총힘피뼈땀싹숲섬탑왕딸팀골"
)
RIEUL = 8  # this final consonant takes 로, not 으로


def follows(noun: str, particle: str) -> bool:
    """Returns whether the form of the particle fits the last syllable of the noun."""
    final = (ord(noun[-1]) - ord("가")) % 28
    if particle in ("로", "으로"):
        return (final in (0, RIEUL)) == (particle == "로")
    if particle in AFTER_CONSONANTS or particle in AFTER_VOWELS:
        return bool(final) == (particle in AFTER_CONSONANTS)
    return True


def words_with_particles(vocabulary: list[str], texts: Iterable[str]) -> dict[int, tuple[int, int]]:
    """Finds the pieces that are a noun with its particle.

    A piece is a noun if four or more particles follow it in the texts, and none of them in most
    places. So 고양 is not the noun of 고양이, and 가 is not that of 가을. Nouns of one syllable are
    taken from a list.

    Args:
        vocabulary: Pieces by id.
        texts: Texts in which the words are counted.

    Returns:
        The ids of noun and particle, by the id of the piece.
    """
    ids = {piece: i for i, piece in enumerate(vocabulary)}
    particles = [particle for particle in PARTICLES if f"##{particle}" in ids]
    counts = Counter(word for text in texts for word in re.findall("[가-힣]+", text))

    def is_noun(piece: str) -> bool:
        uses = [counts[piece + particle] for particle in particles if follows(piece, particle)]
        uses = [count for count in uses if count]
        if len(piece) == 1:
            return piece in SHORT_NOUNS and sum(uses) >= 10
        return sum(uses) >= 12 and len(uses) >= 4 and max(uses) < 0.62 * sum(uses)

    words = [piece for piece in vocabulary if re.fullmatch("[가-힣]+", piece)]
    nouns = {piece for piece in words if is_noun(piece)}
    table = {}
    for word in words:
        for particle in sorted(particles, key=len, reverse=True):
            noun = word.removesuffix(particle)
            if word not in nouns and noun != word and noun in nouns and follows(noun, particle):
                table[ids[word]] = ids[noun], ids[f"##{particle}"]
                break
    return table


class Particles:
    """Examples that are masked again, with a higher probability for nouns before particles.

    Args:
        dataset: Examples of single texts with masked words.
        tokenizer: Tokenizer of the examples.
        table: What `words_with_particles` returns.
        nouns: Probability of masking a noun before a particle.
        rest: Probability of masking another piece. For a word of one piece, it is halfway between
            the two.
        share: Share of the places in which a word of the table is split.
        seed: Seed of the random choices.
    """

    def __init__(
        self,
        dataset: Epochs,
        tokenizer: Any,
        table: dict[int, tuple[int, int]],
        *,
        nouns: float,
        rest: float,
        share: float = 0.5,
        seed: int = 0,
    ) -> None:
        self.dataset = dataset
        self.nouns = nouns
        self.rest = rest
        self.share = share
        self.seed = seed
        words = tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
        self.inner = np.array([word.startswith("##") for word in words])
        self.particle = np.isin(words, [f"##{particle}" for particle in PARTICLES])
        self.special = np.isin(np.arange(len(words)), tokenizer.all_special_ids)
        self.mask_id = tokenizer.mask_token_id
        self.noun_of = np.arange(len(words))
        self.particle_of = np.full(len(words), -1)
        for word, (noun, particle) in table.items():
            self.noun_of[word], self.particle_of[word] = noun, particle

    def __call__(self, epoch: int) -> list[Example]:
        """Returns the examples of one epoch."""
        rng = np.random.default_rng([self.seed, epoch])
        return [self._mask(self._split(example, rng), rng) for example in self.dataset(epoch)]

    def _split(self, example: Example, rng: np.random.Generator) -> Ids:
        """Undoes the masks of an example, and splits some words of the table."""
        labels = example["labels"]
        ids: Ids = np.where(labels == IGNORED, example["input_ids"], labels)
        whole = np.append(~self.inner[ids[1:]], True)
        split = (self.particle_of[ids] >= 0) & whole & (rng.random(len(ids)) < self.share)
        return np.insert(
            np.where(split, self.noun_of[ids], ids),
            np.flatnonzero(split) + 1,
            self.particle_of[ids[split]],
        )

    def _mask(self, ids: Ids, rng: np.random.Generator) -> Example:
        begins = ~self.inner[ids]
        next_ = np.append(ids[1:], ids[-1])
        noun = begins & self.particle[next_]
        whole = begins & np.append(begins[1:], True)
        probability = np.where(whole, (self.nouns + self.rest) / 2, self.rest)
        probability = np.where(noun, self.nouns, probability)
        masked = rng.random(len(ids)) < np.where(self.special[ids], 0, probability)
        if not masked.any():
            masked[rng.integers(1, len(ids) - 1)] = True
        input_ids = ids.copy()
        draw = rng.random(len(ids))
        input_ids[masked & (draw < 0.9)] = self.mask_id
        random = masked & (draw >= 0.95)
        input_ids[random] = rng.integers(self.mask_id + 1, len(self.inner), int(random.sum()))
        return {"input_ids": input_ids, "labels": np.where(masked, ids, IGNORED)}
