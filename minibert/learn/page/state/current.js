// What the page shows. `current.shown` holds the steps of one text. PyTorch computed them when the
// page was written (the photograph), or the model of the page computes them after a change (live).
// Both use the names of minibert.trace.

import { SIDES } from "../model/sides.js";
import { page } from "./page.js";
import { announce, state } from "./store.js";
import { t } from "./words.js";

/** @type {any} what is not there yet, or in a photograph never */
const absent = null;

/**
 * @type {{live: import("../model/live.js").Live, photograph: Computed, shown: Computed,
 *   tokens: Token[], count: number, running: boolean}}
 */
export const current = {
  live: absent, // the model inside the page, if it has one
  // The text that the page was written for. The live model computes it if the page holds no values.
  photograph: absent,
  shown: absent, // the computed text that the page shows
  tokens: [], // its tokens
  count: 0, // their number
  running: false, // whether a text is being computed
};

/**
 * Returns the Numbers of a step of the text that is shown.
 * @param {string} name
 */
export const numbers = (name) => current.shown.steps.get(name);

/**
 * Returns the piece of a token. The chosen one may still be computed, with a text just set.
 * @param {number} i
 */
export const piece = (i) => current.tokens[i]?.piece ?? "…";

/**
 * @param {number} q
 * @param {number} k
 */
export const mayLook = (q, k) =>
  Boolean(current.tokens[k].mask) && SIDES[current.shown.request.sides](q, k);

/** @param {number} depth */
export const stateName = (depth) => (depth ? `layer.${depth - 1}.output` : "embeddings.output");

/**
 * @param {number} depth
 * @param {Computed} [from]
 */
export const hiddenState = (depth, from = current.shown) => from.steps.get(stateName(depth));

/**
 * @param {number} layer
 * @param {string} name
 */
export const attention = (layer, name) => numbers(`layer.${layer}.attention.${name}`);

/** @param {Computed} what */
export function show(what) {
  current.shown = what;
  current.tokens = current.shown.tokens;
  current.count = current.tokens.length;
}

/**
 * Returns what the model has to compute for a state of the page.
 * @param {{text: any, pair: any, masked: any, off: any, pad: any, sides: any, type: any}} of
 */
export const requestOf = ({ text, pair, masked, off, pad, sides, type }) => ({
  text,
  pair,
  masked,
  off,
  padTo: pad || (page.pad_to ?? 0),
  sides,
  type,
});

export const requested = () => requestOf(state);

// Altered models are compared with the whole model.
/** @param {{off?: any, type?: any}} of */
const isAltered = ({ off, type }) => off.length > 0 || type !== null;

/**
 * @param {unknown} a
 * @param {unknown} b
 */
export const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);

/** What the page gives a model: its worker, whose source it holds, and its limits. */
export const settings = {
  worker: () =>
    new Worker(
      URL.createObjectURL(
        new Blob([document.getElementById("worker")?.textContent ?? ""], {
          type: "text/javascript",
        }),
      ),
    ),
  longest: page.max_tokens,
  best: page.top,
  /**
   * @param {number} count
   * @param {number} most
   */
  tooLong: (count, most) => t("text.long", { count, most }),
};

// One computation runs at a time. Changes in the meantime are computed once, afterwards.
let late = false;

export async function refresh() {
  if (current.running) {
    late = true;
    return;
  }
  current.running = true;
  try {
    do {
      late = false;
      await computeShown(requested());
    } while (late);
  } finally {
    current.running = false; // also if drawing fails
  }
}

/**
 * Computes a request, and draws the page unless another one has come in the meantime.
 * @param {ModelRequest} request
 */
async function computeShown(request) {
  try {
    const known = [current.shown, current.photograph].find((what) => same(request, what.request));
    const next = known ?? (await current.live.compute(request));
    if (isAltered(request)) {
      next.whole ??= await current.live.compute({ ...request, off: [], type: null });
    }
    if (!late) {
      show(next);
      state.trouble = "";
    }
  } catch (error) {
    state.trouble = /** @type {any} */ (error).message;
  }
  if (!late) {
    announce("text");
  }
}
