// The words of the page in the reader's language.

import { words } from "./page.js";
import { withParticles } from "./particles.js";
import { state } from "./store.js";

/**
 * @param {string} key
 * @param {any} [values]
 */
export function t(key, values = {}) {
  const text = words[state.language][key] ?? key;
  const filled = text.replace(
    /\{(\w+)\}/g,
    (/** @type {any} */ _, /** @type {any} */ name) => values[name],
  );
  const said = state.language === "ko" ? withParticles(filled) : filled;
  // A line must not break between Hangul and a bracket, or between a bracket or ## and a particle.
  // U+2060 joins them.
  return said.replace(/\p{Script=Hangul}(?=[([“])|[\])”#](?=\p{Script=Hangul})/gu, "$&\u2060");
}
