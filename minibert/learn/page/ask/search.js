// Finds the nearest entries, by letters and terms at once, and by the page's own sentence vectors.

import { entries, languageOf, modelLanguage, phrasings } from "./entries.js";
import { inflate } from "../model/inflate.js";
import { centerOf, cosine } from "../model/vectors.js";
import { current } from "../state/current.js";
import { page } from "../state/page.js";

export const NEAREST = 3;

// Where no vectors are shipped, each takes some 40 ms. Then only the entries with the highest scores
// by letters and terms are ranked by vectors, those on other subjects apart, and of each only the
// phrasings nearest by letters.
const CANDIDATES = page.asked ? Infinity : 8;

const CANDIDATES_ELSEWHERE = page.asked ? Infinity : 2;

const CANDIDATE_PHRASINGS = page.asked ? Infinity : 3;

const TERMS_WEIGHT = 0.4;

const UNKNOWN_WEIGHT = 0.3;

// What an entry loses for a question that asks why if none of its phrasings does.
const WHY_WEIGHT = 0.25;

const WHY = /\bwhy\b|왜|까닭|이유/iu;

const BEGINNING = 6; // letters, those of about two Hangul syllables

// Of the best score of an entry on another subject, the part that counts against an answer.
const ELSEWHERE_WEIGHT = 0.75;

// What remains of a score must reach these values. Of the phrasings in Ask, each left out in turn,
// 4 to 7 in 100 about BERT remain below, and 82 to 90 in 100 about other subjects. A test holds
// them against questions in other words.
/** @type {Record<string, any>} */
const FLOORS = { letters: 0.35, vectors: 0.75 };

/**
 * Whether the best entry answers the question: it has to fit clearly better than any entry on
 * another subject, because "head" and "mask" are everyday words, too.
 * @param {[any, number][]} found
 * @param {string} by
 */
export function isAnswer(found, by) {
  /** @param {boolean} elsewhere */
  const best = (elsewhere) => found.find(([one]) => Boolean(one.elsewhere) === elsewhere)?.[1] ?? 0;
  return best(false) - ELSEWHERE_WEIGHT * best(true) >= FLOORS[by];
}

/**
 * Returns how much something found in `count` of the entries tells about an entry.
 * @param {number} count
 */
export const rarity = (count) => Math.log(entries.length / (count || 1)) + 0.1;

/**
 * Counts in how many of the sets each member occurs.
 * @param {Set<any>[]} sets
 */
function countSets(sets) {
  const counts = new Map();
  for (const member of sets.flatMap((set) => [...set])) {
    counts.set(member, (counts.get(member) ?? 0) + 1);
  }
  return counts;
}

/**
 * Returns a function of one argument that computes each value once. A rejected promise is not kept,
 * so that the next call tries again.
 * @param {(key: any) => any} compute
 */
function memoized(compute) {
  const known = new Map();
  return (/** @type {any} */ key = undefined) => {
    if (!known.has(key)) {
      const value = compute(key);
      known.set(key, value);
      value?.catch?.(() => known.delete(key));
    }
    return known.get(key);
  };
}

/** @param {string} text */
const tokensOf = (text) => current.live.tokens({ text: inUsualForms(text) });

/** The ids of the pieces in an entry, in the language of the model. */
const piecesOf = memoized(
  (one) =>
    new Set(
      phrasings(one[modelLanguage()]).flatMap((text) =>
        tokensOf(text).map((/** @type {any} */ { id }) => id),
      ),
    ),
);

/** Returns in how many entries each piece occurs, by its id. */
export const pieceCounts = memoized(() => countSets(entries.map(piecesOf)));

/**
 * Returns the shipped vectors of all phrasings by their texts, or an empty map for a model that has
 * none. scripts/measure_scenes.py computed them with `computedVector`.
 */
export const shippedVectors = memoized(async () => {
  if (!page.asked) {
    return new Map();
  }
  const { middle, scale, whole } = page.asked;
  const numbers = new Int8Array(await inflate(whole));
  const texts = entries.flatMap((one) => phrasings(one[modelLanguage()]));
  /** @param {number} i */
  const row = (i) =>
    middle.map(
      (/** @type {any} */ value, /** @type {number} */ c) =>
        value + scale * numbers[i * middle.length + c],
    );
  return new Map(texts.map((text, i) => [text, row(i)]));
});

export const vectorOf = memoized(
  async (text) => (await shippedVectors()).get(text) ?? computedVector(text),
);

/**
 * Returns the sentence vector of a text: the mean of its last states, in which rare pieces weigh
 * more. "What", "does" and [CLS] stand in most questions and tell them apart least.
 * @param {string} text
 */
export function computedVector(text) {
  const tokens = tokensOf(text);
  /** @param {string} name */
  const column = (name) => tokens.map((/** @type {any} */ token) => token[name]);
  return current.live.ask("vector", {
    ids: column("id"),
    types: column("type"),
    mask: column("mask"),
    weights: column("id").map((/** @type {any} */ id) => rarity(pieceCounts().get(id))),
  });
}

/**
 * @param {number[]} vector
 * @param {number[]} middle
 */
const apart = (vector, middle) => vector.map((value, c) => value - middle[c]);

/**
 * Returns the mean of the vectors of every fourth question, which is close to that of all. Vectors
 * are centered on it, because what all questions have in common does not tell them apart.
 */
export const middleOf = memoized(async () => {
  const vectors = [];
  for (const one of entries.filter((_, i) => i % 4 === 0)) {
    // One at a time, so that other computations can run in between.
    vectors.push(await vectorOf(one[modelLanguage()].question));
  }
  return centerOf(vectors);
});

/**
 * Returns the words of a text. Hangul is decomposed into its letters, so that the forms of a Korean
 * verb have most letters in common. [CLS] and CLS are one word.
 * @param {string} text
 */
const wordsIn = (text) =>
  inUsualForms(text)
    .toLowerCase()
    .split(/[^\p{L}\p{N}#]+/u)
    .filter(Boolean)
    .map((/** @type {any} */ word) => word.normalize("NFD"));

/**
 * Returns the beginnings of the words of a text, which the forms of a word have in common. A Latin
 * name and its Korean particle are two words.
 * @param {string} text
 */
const beginnings = (text) =>
  new Set(
    wordsIn(text)
      .flatMap((/** @type {any} */ word) => word.match(/\p{Script=Hangul}+|\P{Script=Hangul}+/gu))
      .map((/** @type {any} */ word) => word.slice(0, BEGINNING)),
  );

/**
 * Returns the trigrams of the words of a text, including word boundaries.
 * @param {string} text
 */
function trigrams(text) {
  const found = new Set();
  for (const word of wordsIn(text)) {
    const letters = Array.from(` ${word} `);
    for (let i = 0; i + 2 < letters.length; i++) {
      found.add(letters.slice(i, i + 3).join(""));
    }
  }
  return found;
}

/**
 * Returns the terms of the glossary that a text names.
 * @param {string} text
 */
function termsIn(text) {
  const { terms, pattern } = glossary();
  const found = inUsualForms(text).toLowerCase().match(pattern) ?? [];
  return new Set(found.map((/** @type {any} */ form) => terms.get(joined(form))));
}

/**
 * Returns a form as one word, as some write it: "fine tuning" and "fine-tuning" are one term.
 * @param {string} form
 */
const joined = (form) => form.toLowerCase().replace(/[ -]/g, "");

/**
 * Returns a pattern that finds forms in a text in lower case, the longest first.
 * @param {string[]} forms
 */
function finder(forms) {
  const some = [...forms]
    .sort((a, b) => b.length - a.length)
    .map((form) => form.replace(/[[\]]/g, "\\$&").replace(/[ -]/g, "[ -]?"));
  return new RegExp(`(?<![a-z])(${some.join("|")})(?![a-z])`, "g");
}

/** The terms by their forms in both languages: Korean texts name many in Latin letters. */
const glossary = memoized(() => {
  const named = Object.entries(page.terms).flatMap(([name, { en, ko }]) =>
    [...en.forms, ...ko.forms].map((form) => [form.toLowerCase(), name]),
  );
  return {
    terms: new Map(named.map(([form, name]) => [joined(form), name])),
    pattern: finder(named.map(([form]) => form)),
  };
});

/**
 * The usual Korean form of each term by its English forms, and of other words by their spellings.
 * What Korean texts usually write in Latin letters, such as "[CLS]" or "GELU", stays.
 */
const usualForms = memoized(() => {
  const terms = Object.values(page.terms).map(({ en, ko }) => [
    ko.forms[0],
    en.forms.filter((/** @type {any} */ form) => !ko.forms.includes(form)),
  ]);
  const forms = [...terms, ...Object.entries(page.spellings)].flatMap(([usual, others]) =>
    others.map((/** @type {any} */ form) => [form.toLowerCase(), usual]),
  );
  return {
    usual: new Map(forms.map(([form, usual]) => [joined(form), usual])),
    pattern: finder(forms.map(([form]) => form)),
  };
});

/**
 * Returns a Korean text with every term in one form. Some write "loss" or "label", some "손실" or
 * "레이블": neither letters nor vectors would show that these are the same.
 */
export const inUsualForms = memoized((text) => {
  if (languageOf(text) !== "ko") {
    return text;
  }
  const { usual, pattern } = usualForms();
  return text.toLowerCase().replace(pattern, (/** @type {any} */ form) => usual.get(joined(form)));
});

/** What is compared of an entry, for every phrasing or for its whole text. */
const wordsOf = memoized((texts) => {
  const some = phrasings(texts);
  const whole = [...some, texts.answer].join(" ");
  return {
    some: some.map(trigrams),
    whole: trigrams(whole),
    beginnings: beginnings(whole),
    terms: some.map(termsIn),
  };
});

/**
 * Returns two functions that weigh trigrams by their rarity in a language: those of any text, and
 * those of an entry, which are weighed once.
 */
const weigher = memoized((language) => {
  const counts = countSets(entries.map((one) => wordsOf(one[language]).whole));
  const rarities = new Map([...counts].map(([gram, count]) => [gram, rarity(count)]));
  const unknown = rarity(0);
  /** @param {Iterable<string>} grams */
  const weigh = (grams) => {
    let sum = 0;
    for (const gram of grams) {
      sum += rarities.get(gram) ?? unknown;
    }
    return sum;
  };
  return { weigh, weighOnce: memoized(weigh) };
});

/**
 * Returns two functions of a set of trigrams that compare it with those of a text, from 0 to 1. Rare
 * ones weigh more. `both`: of what the two have together, the part that both have. `covered`: of the
 * text, the part that the set has.
 * @param {string} text
 * @param {string} language
 */
function comparerOf(text, language) {
  const { weigh, weighOnce } = weigher(language);
  const grams = trigrams(text);
  const total = weigh(grams) || 1;
  /** @param {Set<string>} own */
  const common = (own) => weigh([...grams].filter((gram) => own.has(gram)));
  return {
    /** @param {Set<string>} own */
    both: (own) => (2 * common(own)) / (total + weighOnce(own)),
    /** @param {Set<string>} own */
    covered: (own) => common(own) / total,
  };
}

/**
 * Returns for each entry how much its trigrams agree with those of a text: how much of the text the
 * entry covers, and, with half the weight, what its nearest phrasing has in common with the text.
 * @param {string} text
 * @param {string} language
 */
function sharedLetters(text, language) {
  const { both, covered } = comparerOf(text, language);
  return entries.map((one) => {
    const { some, whole } = wordsOf(one[language]);
    return covered(whole) + Math.max(...some.map(both)) / 2;
  });
}

/**
 * Returns for each entry which share of the terms of a text its phrasings name on average. A term
 * such as "head" occurs in many entries, so its trigrams weigh little, but it says what a question
 * is about.
 * @param {string} text
 * @param {string} language
 */
function sharedTerms(text, language) {
  const wanted = [...termsIn(text)];
  return entries.map((one) => {
    const { terms } = wordsOf(one[language]);
    const named = terms.flatMap((/** @type {any} */ own) => wanted.filter((term) => own.has(term)));
    return named.length / (terms.length * wanted.length || 1);
  });
}

/** Returns in how many entries each beginning of a word occurs. */
const beginningCounts = memoized((language) =>
  countSets(entries.map((one) => wordsOf(one[language]).beginnings)),
);

/**
 * Returns the share of words in a text that no entry has, where rare words weigh more. A question
 * about another subject has many, even if a word such as "head" leads it to an entry.
 * @param {string} text
 * @param {string} language
 */
function unknownShare(text, language) {
  const counts = beginningCounts(language);
  /** @param {string[]} some */
  const weigh = (some) => some.reduce((sum, one) => sum + rarity(counts.get(one)), 0);
  const all = [...beginnings(text)];
  return weigh(all.filter((one) => !counts.has(one))) / (weigh(all) || 1);
}

/** Whether a phrasing of an entry asks why: a definition alone does not answer that. */
const answersWhy = memoized((texts) => phrasings(texts).some((text) => WHY.test(text)));

/**
 * Returns entries and scores as pairs, the highest score first.
 * @param {[any, number][]} pairs
 */
const ranked = (pairs) => pairs.sort((a, b) => b[1] - a[1]);

/**
 * Ranks all entries by the trigrams and the terms that they share with a text. Unknown words lower
 * all scores alike.
 * @param {string} text
 */
export function rankByLetters(text) {
  const language = languageOf(text);
  const letters = sharedLetters(text, language);
  const terms = sharedTerms(text, language);
  const unknown = UNKNOWN_WEIGHT * unknownShare(text, language);
  const asksWhy = WHY.test(text);
  /** @param {any} one */
  const missed = (one) => (asksWhy && !answersWhy(one[language]) ? WHY_WEIGHT : 0);
  return ranked(
    entries.map((one, i) => [one, letters[i] + TERMS_WEIGHT * terms[i] - unknown - missed(one)]),
  );
}

/**
 * Returns the first of the ranked entries, and the first of those on other subjects.
 * @param {[any, number][]} found
 */
const candidates = (found) => [
  ...found.filter(([{ elsewhere }]) => !elsewhere).slice(0, CANDIDATES),
  ...found.filter(([{ elsewhere }]) => elsewhere).slice(0, CANDIDATES_ELSEWHERE),
];

/**
 * Returns the phrasings of an entry that have most letters in common with a text.
 * @param {any} one
 * @param {string} text
 */
function candidatePhrasings(one, text) {
  const language = modelLanguage();
  const { both } = comparerOf(text, language);
  const { some } = wordsOf(one[language]);
  return ranked(phrasings(one[language]).map((phrasing, i) => [phrasing, both(some[i])]))
    .slice(0, CANDIDATE_PHRASINGS)
    .map(([phrasing]) => phrasing);
}

/**
 * Ranks the best entries by letters anew: to each score come the cosine of the entry's nearest
 * phrasing, and that of the mean of its phrasings. Returns null as soon as `stop` says that the
 * text is no longer wanted.
 * @param {string} text
 * @param {() => boolean} [stop]
 */
export async function rankByVectors(text, stop = () => false) {
  const middle = await middleOf();
  const wanted = apart(await vectorOf(text), middle);
  /** @type {[any, number][]} */
  const pairs = [];
  for (const [one, score] of candidates(rankByLetters(text))) {
    const vectors = [];
    for (const phrasing of candidatePhrasings(one, text)) {
      if (stop()) {
        return null;
      }
      vectors.push(apart(await vectorOf(phrasing), middle));
    }
    const nearest = Math.max(...vectors.map((vector) => cosine(wanted, vector)));
    pairs.push([one, score + nearest + cosine(wanted, centerOf(vectors))]);
  }
  return ranked(pairs);
}

/** Prepares the search in a language, with pauses, because all at once takes half a second. */
export const prepareSearch = memoized(async (language) => {
  for (const one of entries) {
    wordsOf(one[language]);
    if (language === modelLanguage()) {
      piecesOf(one);
    }
    await new Promise((go) => setTimeout(go));
  }
});
