// What the console can ask the model: `await minibert.run("I love Korea")`.

import { nested } from "../model/numbers.js";
import { current, stateName } from "./current.js";
import { sizes } from "./page.js";

/**
 * Runs the model from the console or a test:
 * `await minibert.run("I love Korea", {pair, masked: [2], off: [[0, 1]]})`.
 * @param {string} text
 * @param {{pair?: any, masked?: any, off?: number[][], sides?: any}} [of1]
 */
export async function run(text, { pair = null, masked = [], off = [], sides = "both" } = {}) {
  if (!current.live) {
    throw new Error(
      "This page is a photograph: its model is too large to be put into it, so it cannot compute.",
    );
  }
  const { tokens, steps } = await current.live.compute({ text, pair, masked, off, sides });
  const hidden = Array.from({ length: sizes.layers + 1 }, (_, depth) =>
    steps.get(stateName(depth)),
  );
  return {
    tokens: tokens.map((token) => token.piece),
    ids: tokens.map((token) => token.id),
    hidden_states: hidden.map((step) => nested(step)),
    attentions: hidden
      .slice(1)
      .map((_, layer) => nested(steps.get(`layer.${layer}.attention.probabilities`))),
    predictions: await current.live.words(hidden[sizes.layers]),
  };
}
