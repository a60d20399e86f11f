// The compared texts.

import { clamp } from "../../model/ranges.js";
import { cosine } from "../../model/vectors.js";
import { current, hiddenState } from "../../state/current.js";
import { draw, state } from "../../state/store.js";

/** @type {any} */
export const comparison = {
  texts: null, // the first, the second, and possibly a third with the same sense
  token: 0, // the chosen token of the second
  wish: null, // what was asked for last
  done: null, // the promise of its result
  trouble: "", // why it cannot be computed
};

/** Returns the texts to compare. Without a second sentence, the first is compared with itself. */
export const wished = () => [
  state.text,
  state.other || state.text,
  ...(state.same ? [state.same] : []),
];

/**
 * Returns where a text has the same piece as the first text's chosen token.
 * @param {{tokens: any[]}} of
 */
export function twin({ tokens: others }) {
  const own =
    comparison.texts[0].tokens[clamp(state.token, 0, comparison.texts[0].tokens.length - 1)].piece;
  const place = others.findIndex((other) => other.piece === own);
  return place >= 0 ? place : Math.min(1, others.length - 1);
}

/**
 * Computes the sentences with the page's own weights, and draws the page. Sentences are computed
 * once, also if they cannot be: drawing asks for them again. Only the newest request is shown.
 */
export function compareTexts() {
  const wish = wished().join("\n");
  if (comparison.wish !== wish) {
    comparison.wish = wish;
    comparison.done = computeCompared(wish);
  }
  return comparison.done;
}

/** @param {string} wish */
async function computeCompared(wish) {
  const plain = { pair: null, masked: [], off: [], padTo: 0 };
  let found = null;
  let trouble = "";
  try {
    found = await Promise.all(wished().map((text) => current.live.compute({ ...plain, text })));
  } catch (error) {
    trouble = /** @type {any} */ (error).message;
  }
  if (comparison.wish !== wish) {
    return;
  }
  comparison.trouble = trouble;
  if (found) {
    comparison.texts = Object.assign(found, { wish });
    comparison.token = twin(found[1]);
  }
  if (state.section === "compare") {
    draw();
  }
}

/**
 * @param {number} depth
 * @param {number} i
 * @param {number} j
 * @param {any} [other]
 */
export const compareCosine = (depth, i, j, other = 1) =>
  cosine(
    hiddenState(depth, comparison.texts[0]).row(i),
    hiddenState(depth, comparison.texts[other]).row(j),
  );
