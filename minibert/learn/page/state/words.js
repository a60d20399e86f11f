// The words of the page in the reader's language.

import { words } from "./page.js";
import { withParticles } from "./particles.js";
import { state } from "./store.js";

export function t(key, values = {}) {
  const text = words[state.language][key] ?? key;
  const filled = text.replace(/\{(\w+)\}/g, (_, name) => values[name]);
  const said = state.language === "ko" ? withParticles(filled) : filled;
  // A line must not break between Hangul and a bracket, or between a bracket or ## and a particle.
  // U+2060 joins them.
  return said.replace(/\p{Script=Hangul}(?=[([“])|[\])”#](?=\p{Script=Hangul})/gu, "$&\u2060");
}
