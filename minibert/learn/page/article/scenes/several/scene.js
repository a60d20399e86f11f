// Why there are several heads.

import { prompts } from "../../contents.js";
import { Experiment } from "../../experiment.js";
import { exampleOfWhys, keptAnswers, survivors } from "../../rows.js";
import { choiceOf } from "../../wording.js";
import { sizes } from "../../../state/page.js";

const groups = () => [2, sizes.heads / 2, sizes.heads];

/**
 * Whether an answer survives if heads share one set of weights: pairs, halves, and all. The last
 * one is the control: as many sets as before, but each head has that of its neighbor.
 */
const shared = new Experiment("shared", prompts, (text) =>
  keptAnswers(text, [...groups().map((sharing) => ({ sharing })), { shifted: true }]),
);

/** @type {Scene} */
export const scene = {
  id: "several",
  set: () => ({ section: "attention", ...exampleOfWhys() }),
  act: () => ({}),
  experiments: () => [shared],
  measure: () => {
    const [pairs, halves, all, neighbors] = [0, 1, 2, 3].map((i) => survivors(shared, i));
    /** @param {number} index */
    const count = (index) => shared.results.filter((own) => own[index]).length;
    const half = shared.results.length / 2;
    return {
      rows: [
        ["separate", "", `${shared.results.length} / ${shared.results.length}`],
        ["pairs", "", pairs],
        ["halves", "", halves],
        ["all", "", all],
        ["neighbors", "", neighbors],
      ],
      outcome: choiceOf(count(2) > 1.5 * half, count(2) > half / 2),
      values: { pairs, halves, all, neighbors },
    };
  },
};
