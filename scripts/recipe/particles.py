"""Korean nouns and their particles, where the vocabulary of kcbert has both as one piece.

밥을, 학교에 and two thousand others are pieces of their own. So a text never shows 밥 before 을, and a model that
has read it cannot answer "[MASK]을 먹었다" by the word that everybody expects. Cut in a share of their places, they
teach it.
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
AFTER_CONSONANTS, AFTER_VOWELS = (
    set("을 은 과 이 이다 이나 이랑 으로".split()),
    set("를 는 와 가 나 랑 야".split()),
)
SHORT_NOUNS = frozenset(
    "밥물빵꽃눈집책차술옷돈말비잠산강손발문방별개새닭쥐글춤떡배불코입귀목약병칼컵껌꿈땅밤낮봄벽"
    "꿀콩쌀풀잎옆앞뒤밖위곳것길죽국면곰총힘피뼈땀싹숲섬탑왕딸팀골"
)
RIEUL = 8  # the final consonant after which 로 stands, not 으로


def follows(noun: str, particle: str) -> bool:
    """Whether the form of the particle fits the last letter of the noun, a Hangul syllable."""
    final = (ord(noun[-1]) - ord("가")) % 28
    if particle in ("로", "으로"):
        return (final in (0, RIEUL)) == (particle == "로")
    if particle in AFTER_CONSONANTS or particle in AFTER_VOWELS:
        return bool(final) == (particle in AFTER_CONSONANTS)
    return True


def words_with_particles(vocabulary: list[str], texts: Iterable[str]) -> dict[int, tuple[int, int]]:
    """The pieces that are a noun and its particle: for each the pieces of the two.

    A noun is a piece that stands in the texts before four particles or more, and before none of them in most of its
    places: so 고양 is no noun for 고양이, nor 가 for 가을. Those of one syllable are a list.

    Args:
        vocabulary: the pieces, by id.
        texts: what is counted.
    """
    numbers = {piece: number for number, piece in enumerate(vocabulary)}
    particles = [particle for particle in PARTICLES if f"##{particle}" in numbers]
    counts = Counter(word for text in texts for word in re.findall("[가-힣]+", text))

    def is_noun(piece: str) -> bool:
        found = [n for p in particles if follows(piece, p) and (n := counts[piece + p])]
        if len(piece) == 1:
            return piece in SHORT_NOUNS and sum(found) >= 10
        return sum(found) >= 12 and len(found) >= 4 and max(found) < 0.62 * sum(found)

    words = [piece for piece in vocabulary if re.fullmatch("[가-힣]+", piece)]
    nouns = {piece for piece in words if is_noun(piece)}
    table = {}
    for word in words:
        for particle in sorted(particles, key=len, reverse=True):
            noun = word.removesuffix(particle)
            if word not in nouns and noun != word and noun in nouns and follows(noun, particle):
                table[numbers[word]] = numbers[noun], numbers[f"##{particle}"]
                break
    return table


class Particles:
    """Examples whose words are hidden anew: more of the nouns that stand before a particle than of anything else.

    Args:
        dataset: of single texts with hidden words.
        tokenizer: that of the examples.
        table: see `words_with_particles`.
        nouns: the probability that a noun before a particle is hidden.
        rest: that of the other pieces; a word that is one piece lies half-way.
        share: of the places in which a word of the table is cut.
        seed: of all this.
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
        self.dataset, self.nouns, self.rest, self.share, self.seed = (
            dataset,
            nouns,
            rest,
            share,
            seed,
        )
        words = tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
        self.inner = np.array([word.startswith("##") for word in words])
        self.particle = np.isin(words, [f"##{particle}" for particle in PARTICLES])
        self.special = np.isin(np.arange(len(words)), tokenizer.all_special_ids)
        self.mask_id = tokenizer.mask_token_id
        self.noun_of, self.particle_of = np.arange(len(words)), np.full(len(words), -1)
        for word, (noun, particle) in table.items():
            self.noun_of[word], self.particle_of[word] = noun, particle

    def __call__(self, epoch: int) -> list[Example]:
        """The examples of one epoch."""
        rng = np.random.default_rng([self.seed, epoch])
        return [self._hide(self._cut(example, rng), rng) for example in self.dataset(epoch)]

    def _cut(self, example: Example, rng: np.random.Generator) -> Ids:
        labels = example["labels"]
        ids: Ids = np.where(labels == IGNORED, example["input_ids"], labels)
        whole = np.append(~self.inner[ids[1:]], True)
        cut = (self.particle_of[ids] >= 0) & whole & (rng.random(len(ids)) < self.share)
        return np.insert(
            np.where(cut, self.noun_of[ids], ids),
            np.flatnonzero(cut) + 1,
            self.particle_of[ids[cut]],
        )

    def _hide(self, ids: Ids, rng: np.random.Generator) -> Example:
        begins, next_ = ~self.inner[ids], np.append(ids[1:], ids[-1])
        noun = begins & self.particle[next_]
        whole = begins & np.append(begins[1:], True)
        probability = np.where(
            noun, self.nouns, np.where(whole, (self.nouns + self.rest) / 2, self.rest)
        )
        hidden = rng.random(len(ids)) < np.where(self.special[ids], 0, probability)
        if not hidden.any():
            hidden[rng.integers(1, len(ids) - 1)] = True
        seen, draw = ids.copy(), rng.random(len(ids))
        seen[hidden & (draw < 0.9)] = self.mask_id
        random = hidden & (draw >= 0.95)
        seen[random] = rng.integers(self.mask_id + 1, len(self.inner), int(random.sum()))
        return {"input_ids": seen, "labels": np.where(hidden, ids, IGNORED)}
