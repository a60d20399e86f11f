// Korean words with their particles, and what scenes on Korean measure.

import { meanState, placeOf } from "../state/computed-text.js";
import { current, hiddenState } from "../state/current.js";
import { sizes } from "../state/page.js";

export const SHIP = "어부들이 배를 타고 바다로 나갔다.";

export const BITES = ["개가 사람을 물었다.", "사람을 개가 물었다.", "사람이 개를 물었다."];

/**
 * Returns whether a word ends in a consonant (받침), from the code of its last Hangul syllable.
 * @param {string} word
 */
export const endsInConsonant = (word) => (word.charCodeAt(word.length - 1) - 0xac00) % 28 > 0;

/**
 * @param {string} word
 * @param {any[]} of1
 */
const withParticle = (word, [afterConsonant, afterVowel]) =>
  word + (endsInConsonant(word) ? afterConsonant : afterVowel);

/** @param {string} word */
export const subject = (word) => withParticle(word, ["이", "가"]);

/** @param {string} word */
export const object = (word) => withParticle(word, ["을", "를"]);

/** @param {string} word */
export const topic = (word) => withParticle(word, ["은", "는"]);

/**
 * Returns the sentence vector of a text, the mean of its last states.
 * @param {string} text
 * @param {number} [depth]
 */
export async function sentenceVector(text, depth = sizes.layers) {
  return meanState(await current.live.compute({ text }), depth);
}

/**
 * Returns the last states at the [MASK] of many texts, one row each.
 * @param {string[]} texts
 */
export async function maskedStates(texts) {
  const rows = [];
  for (const text of texts) {
    const what = await current.live.compute({ text });
    rows.push(hiddenState(sizes.layers, what).row(placeOf(what, "[MASK]")));
  }
  return { shape: [rows.length, sizes.hidden], data: Float32Array.from(rows.flat()) };
}

/**
 * Returns the probability of each piece in every row of states.
 * @param {any} states
 * @param {string[]} pieces
 */
export const sharesOf = (states, pieces) =>
  Promise.all(
    pieces.map((piece) =>
      current.live.ask("shares", { word: current.live.tokenizer.ids.get(piece), states }),
    ),
  );
