// Analyses of the current text: rollout, what its heads do, cosines, and the plane of its states.
// minibert.study has the same functions under the same names. Results are cached with the text.

import { Numbers } from "../model/numbers.js";
import { patternRules, patternShare } from "../model/patterns.js";
import { centered, cosine, onPlane, principalAxes } from "../model/vectors.js";
import { MAX_WORD } from "../model/wordpiece.js";
import { attention, current, hiddenState, piece } from "./current.js";
import { SPECIAL, page, sizes } from "./page.js";
import { t } from "./words.js";

/**
 * Computes a result once for each text shown.
 * @template T
 * @param {string} name
 * @param {() => T} find
 * @returns {T}
 */
export function once(name, find) {
  current.shown.found ??= new Map();
  if (!current.shown.found.has(name)) {
    current.shown.found.set(name, find());
  }
  return current.shown.found.get(name);
}

/**
 * Returns how much of each token reaches each token up to a layer: the product of (A + I) / 2
 * (Abnar and Zuidema 2020).
 * @param {number} layer
 * @returns {Numbers}
 */
export function rollout(layer) {
  return once(`rollout.${layer}`, () => {
    const before = layer ? rollout(layer - 1) : null;
    const { heads } = sizes;
    const probabilities = attention(layer, "probabilities");
    const mixed = Array.from({ length: current.count * current.count }, (_, at) => {
      const q = Math.floor(at / current.count);
      const k = at % current.count;
      let sum = 0;
      for (let h = 0; h < heads; h++) {
        sum += probabilities.at(h, q, k);
      }
      return (sum / heads + (q === k ? 1 : 0)) / 2;
    });
    const data = before
      ? new Float32Array(current.count * current.count)
      : Float32Array.from(mixed);
    if (before) {
      for (let q = 0; q < current.count; q++) {
        for (let j = 0; j < current.count; j++) {
          for (let k = 0; k < current.count; k++) {
            data[q * current.count + k] +=
              mixed[q * current.count + j] * before.data[j * current.count + k];
          }
        }
      }
    }
    return new Numbers({ shape: [current.count, current.count], data });
  });
}

/** @type {Record<string, any>} */
const SCRIPTS = { Hangul: "Hangul", Han: "Chinese", Hiragana: "Japanese", Katakana: "Japanese" };
for (const name of ["Cyrillic", "Greek", "Arabic", "Hebrew", "Thai", "Devanagari", "Latin"]) {
  SCRIPTS[name] = name;
}

const MIN_PIECES = 4; // a text of one or two letters says nothing about coverage

/**
 * Returns for every character of a text whether its word has a character beyond ASCII.
 * @param {string} text
 */
const inForeignWord = (text) =>
  text.split(/(\s+)/u).flatMap((part) => {
    const chars = Array.from(part);
    return chars.map(() => chars.some((char) => char > "\u007f"));
  });

/**
 * Returns a warning if most of a text becomes single letters or unknown pieces. Commands know the
 * vocabulary and decide by it (minibert.tokenization.coverage). A page may have its text alone.
 * @param {string} text
 * @param {any} which
 */
export function coverage(text, which) {
  const isForeign = inForeignWord(text);
  const all = current.tokens.filter(
    ({ type, piece }) => type === which && (piece === "[UNK]" || !SPECIAL.test(piece)),
  );
  if (all.some(({ piece, start, end }) => piece === "[UNK]" && end - start > MAX_WORD)) {
    return t("coverage.long", { longest: MAX_WORD, token: "[UNK]" });
  }
  const pieces = all.filter((token) => isForeign[token.start]);
  const unknown = pieces.filter((token) => token.piece === "[UNK]").length;
  const letters = pieces.filter((token) => /^\p{L}$/u.test(token.piece.replace(/^##/, ""))).length;
  const foreign = Array.from(text).filter((char) => char > "\u007f");
  if (!foreign.length) {
    return "";
  }
  if (2 * unknown > pieces.length) {
    return t("coverage.unknown", { unknown, count: all.length, token: "[UNK]" });
  }
  // Half of the pieces of ordinary Korean are single syllables.
  if (pieces.length < MIN_PIECES || 4 * letters <= 3 * pieces.length) {
    return "";
  }
  const counts = Object.keys(SCRIPTS).map((name) => [
    name,
    foreign.filter((char) => RegExp(`\\p{Script=${name}}`, "u").test(char)).length,
  ]);
  const [script] = counts.reduce((best, next) => (next[1] > best[1] ? next : best));
  const said = t("coverage.letters", {
    letters,
    count: pieces.length,
    script: t(`script.${SCRIPTS[script]}`),
  });
  return script === "Hangul" && page.source !== "minibert-ko"
    ? `${said} ${t("coverage.korean")}`
    : said;
}

const wordPlaces = () => patternRules(current.tokens).real;

/**
 * Returns what a head does on this text (Clark et al. 2019): {name, share}. The name is null if no
 * pattern takes half of its attention.
 * @param {number} layer
 * @param {number} head
 */
export function pattern(layer, head) {
  return once(`pattern.${layer}.${head}`, () => {
    const { real, rules } = patternRules(current.tokens);
    const visible = current.tokens.map((_, i) => i).filter((i) => piece(i) !== "[PAD]");
    if (!real.length) {
      return { name: null, share: 0 };
    }
    const values = attention(layer, "probabilities");
    /** @type {{name: string | null, share: number}} */
    let best = { name: null, share: -1 };
    let entropy = 0;
    for (const [name, rule] of Object.entries(rules)) {
      const share = patternShare(values, head, real, rule);
      if (share !== null && share > best.share) {
        best = { name, share };
      }
    }
    for (const i of real) {
      for (const p of values.row(head, i)) {
        if (p > 0) {
          entropy -= (p * Math.log(p)) / real.length;
        }
      }
    }
    entropy /= Math.log(visible.length);
    if (entropy > 0.95 && visible.length > 3) {
      return { name: "even", share: entropy };
    }
    return best.share >= 0.5 ? best : { ...best, name: null };
  });
}

/**
 * Returns the head with the sharpest attention between words, preferably one without a fixed
 * pattern. The page opens with it.
 */
export function interestingHead() {
  let best = { layer: 0, head: 0, token: Math.min(1, current.count - 1), key: 0, most: -1 };
  const real = wordPlaces().filter((i) => /[\p{L}\p{N}]/u.test(piece(i)));
  for (let layer = 0; layer < sizes.layers; layer++) {
    for (let head = 0; head < sizes.heads; head++) {
      const values = attention(layer, "probabilities");
      const fixed = pattern(layer, head).name !== null ? 0.5 : 1;
      let sum = 0;
      let top = { p: -1, q: 0, k: 0 };
      for (const q of real) {
        let most = 0;
        for (const k of real) {
          const p = values.at(head, q, k);
          if (Math.abs(q - k) < 2) {
            continue;
          }
          most = Math.max(most, p);
          if (p > top.p) {
            top = { p, q, k };
          }
        }
        sum += most / real.length;
      }
      if (top.p >= 0 && sum * fixed > best.most) {
        best = { layer, head, token: top.q, key: top.k, most: sum * fixed };
      }
    }
  }
  return best;
}

/**
 * Returns the cosine of each token's state after each layer with the state before that layer
 * ("moved") or with the embeddings ("kept"): (layers, seq).
 * @param {string} kind
 */
export function cosines(kind) {
  return once(kind, () => {
    const data = new Float32Array(sizes.layers * current.count);
    for (let layer = 0; layer < sizes.layers; layer++) {
      for (let i = 0; i < current.count; i++) {
        data[layer * current.count + i] = cosine(
          hiddenState(layer + 1).row(i),
          hiddenState(kind === "moved" ? layer : 0).row(i),
        );
      }
    }
    return new Numbers({ shape: [sizes.layers, current.count], data });
  });
}

/**
 * Returns two principal components of all states, with the mean of each layer subtracted:
 * places[depth][token] = [x, y].
 */
export function places() {
  return once("places", () => {
    const states = Array.from({ length: sizes.layers + 1 }, (_, depth) =>
      centered(current.tokens.map((_, i) => hiddenState(depth).row(i))),
    );
    return onPlane(states, principalAxes(states.flat()));
  });
}
