// How one step of training moves a weight.

import { example } from "../../contents.js";
import { brief, choiceOf, saidWords } from "../../wording.js";
import { answersOf, oneRow, placeIn, placeOf } from "../../../state/computed-text.js";
import { current } from "../../../state/current.js";

/**
 * Returns the probability of the hidden word, and its loss, the negative logarithm.
 * @param {Computed} what
 */
export async function lossOfHidden(what) {
  const word = current.live.tokenizer.ids.get(example("step").hidden);
  const states = oneRow(what, placeOf(what, "[MASK]"));
  const [share] = await current.live.ask("shares", { word, states });
  return { share, loss: -Math.log(share) };
}

/**
 * Returns the probability of a word after the bias of its logit has grown.
 * @param {number} share
 * @param {number} growth
 */
const afterStep = (share, growth) => {
  const odds = (share / (1 - share)) * Math.exp(growth);
  return odds / (1 + odds);
};

const STEP_RATE = 1;

const NUDGE = 0.01; // of the bias, to measure the slope of the loss

/** @type {Scene} */
export const scene = {
  id: "step",
  set: () => {
    const { text } = example("step");
    return { section: "predictions", text, token: placeIn(text, "[MASK]") };
  },
  act: () => ({}),
  amounts: () => ({ masked_word: example("step").hidden }),
  picture: "best",
  measure: async (before) => {
    const { share, loss } = await lossOfHidden(before);
    const gradient = share - 1;
    const slope = (-Math.log(afterStep(share, NUDGE)) - loss) / NUDGE;
    const growth = -STEP_RATE * gradient;
    const after = afterStep(share, growth);
    const best = await answersOf(before);
    return {
      rows: [
        ["answer", saidWords(best), "–"],
        ["probability", share.toPrecision(3), after.toPrecision(3)],
        ["loss", brief(loss), brief(-Math.log(after))],
        ["gradient", brief(gradient), "–"],
        ["slope", brief(slope), "–"],
      ],
      outcome: choiceOf(growth > 0, growth < 0),
      values: {
        share: share.toPrecision(3), // so that its logarithm is the loss
        loss: brief(loss),
        gradient: brief(gradient),
        slope: brief(slope),
        growth: brief(growth),
        after: after.toPrecision(3),
        lower: brief(-Math.log(after)),
      },
    };
  },
};
