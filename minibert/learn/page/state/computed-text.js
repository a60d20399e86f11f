// Computed texts: where a piece stands in them, their vectors, and the model's answers.

import { centerOf } from "../model/vectors.js";
import { current, hiddenState } from "./current.js";
import { sizes } from "./page.js";

export const everyHead = () =>
  Array.from({ length: sizes.layers * sizes.heads }, (_, i) => [
    Math.floor(i / sizes.heads),
    i % sizes.heads,
  ]);

/**
 * Returns the index of a piece in a text, or in a computed text, and -1 where it is missing.
 * @param {{tokens: {piece: string}[]}} what
 * @param {string} piece
 */
export const placeOf = (what, piece) => what.tokens.findIndex((token) => token.piece === piece);

/**
 * @param {string} text
 * @param {string} piece
 */
export const placeIn = (text, piece) => placeOf({ tokens: current.live.tokens({ text }) }, piece);

/** @param {{piece: string}[]} tokens */
export const unknownIn = (tokens) => tokens.filter((token) => token.piece === "[UNK]").length;

/** @param {Computed} what */
export const inner = (what) =>
  what.tokens.map((token) => token.piece).filter((piece) => !/^\[(CLS|SEP)\]$/.test(piece));

/**
 * @param {Computed} what
 * @param {number} depth
 */
export const meanState = (what, depth) =>
  centerOf(what.tokens.map((_, i) => hiddenState(depth, what).row(i)));

/**
 * Returns the last state of one token, as input for the MLM head.
 * @param {Computed} what
 * @param {number} place
 */
export const oneRow = (what, place) => ({
  shape: [1, sizes.hidden],
  data: Float32Array.from(hiddenState(sizes.layers, what).row(place)),
});

/**
 * Returns the best words at the first [MASK] of a computed text, and caches them.
 * @param {Computed} what
 */
export async function answersOf(what) {
  const place = what.tokens.findIndex((token) => token.piece === "[MASK]");
  if (place < 0) {
    return [];
  }
  what.answers ??= current.live.words(oneRow(what, place)).then(([best]) => best);
  return what.answers;
}
