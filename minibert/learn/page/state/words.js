// The words of the page in the reader's language.

import { words } from "./page.js";
import { withParticles } from "./particles.js";
import { state } from "./store.js";

/** @type {Record<string, Map<string, string>>} texts without values, which every drawing needs */
const plain = { en: new Map(), ko: new Map() };

/**
 * @param {string} key
 * @param {any} [values]
 * @returns {any}
 */
export function t(key, values) {
  const text = words[state.language][key] ?? key;
  if (values) {
    return filled(text, values);
  }
  const known = plain[state.language];
  const said = known.get(text) ?? filled(text, {});
  known.set(text, said);
  return said;
}

/**
 * Returns a text with its values, particles that fit them, and joined brackets.
 * @param {string} text
 * @param {any} values
 */
function filled(text, values) {
  const whole = text.replace(
    /\{(\w+)\}/g,
    (/** @type {any} */ _, /** @type {any} */ name) => values[name],
  );
  const said = state.language === "ko" ? withParticles(whole) : whole;
  // A line must not break between Hangul and a bracket, or between a bracket or ## and a particle.
  // U+2060 joins them.
  return said.replace(/\p{Script=Hangul}(?=[([“])|[\])”#](?=\p{Script=Hangul})/gu, "$&\u2060");
}
