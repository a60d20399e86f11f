// The first scene: the game by which BERT learned, filling a gap, and one word that changes the
// answer.

import { example } from "../../contents.js";
import { Experiment } from "../../experiment.js";
import { brief, choiceOf, saidWords } from "../../wording.js";
import { answersOf, placeIn } from "../../../state/computed-text.js";
import { current } from "../../../state/current.js";

/** The model's answer to sentences that differ in one word, with its probability. */
const gaps = new Experiment(
  "gaps",
  () => example("gap").many,
  async (text) => {
    const [[word, share]] = await answersOf(await current.live.compute({ text }));
    return { word, share };
  },
);

/** @type {Scene} */
export const scene = {
  id: "gap",
  set: () => {
    const [text] = example("gap").texts;
    return { section: "predictions", text, token: placeIn(text, "[MASK]") };
  },
  act: () => {
    const [, text] = example("gap").texts;
    return { text, token: placeIn(text, "[MASK]") };
  },
  amounts: () => ({ many: example("gap").many.length }),
  experiments: () => [gaps],
  picture: "best",
  measure: async (before, now) => {
    const [a, b] = await Promise.all([before, now].map(answersOf));
    const { results } = gaps;
    const words = new Set(results.map(({ word }) => word));
    return {
      rows: [
        ["answer", saidWords(a), saidWords(b)],
        ["different", "", `${words.size} / ${results.length}`],
        ["answers", "", [...words].join(", ")],
      ],
      outcome: choiceOf(a[0][0] === b[0][0], b[0][1] > 2 * b[1][1]),
      values: {
        old: a[0][0],
        new: b[0][0],
        before: brief(a[0][1]),
        after: brief(b[0][1]),
        second: brief(b[1][1]),
        different: words.size,
        all: results.length,
      },
    };
  },
};
