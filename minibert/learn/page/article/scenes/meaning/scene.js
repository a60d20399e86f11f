// Same meaning in other words.

import { nearest, paraphrases } from "../../paraphrases.js";
import { comparedAnyway, comparedRows } from "../../rows.js";
import { choiceOf, shareOf } from "../../wording.js";
import { sizes } from "../../../state/page.js";
import { state } from "../../../state/store.js";
import { sentenceCosine } from "../../../views/compare/sentences.js";

const AGES = ["몇 살이에요?", "몇 시예요?", "나이가 어떻게 되세요?"];

/** @type {Scene} */
export const scene = {
  id: "meaning",
  concerns: ["other", "same", "depth"],
  set: () => ({
    section: "compare",
    text: AGES[0],
    other: AGES[1],
    same: AGES[2],
    unit: "sentences",
    token: 2,
    depth: 0,
  }),
  act: () => ({ depth: sizes.layers }),
  experiments: () => [paraphrases, nearest],
  picture: "compare-layers",
  measure: async () => {
    const { results } = paraphrases;
    /** @param {string} name */
    const closer = (name) =>
      shareOf(results.filter((own) => own[name][1] > own[name][0]).length, results.length);
    /** @param {string} name */
    const among = (name) =>
      shareOf(nearest.results.filter((own) => own[name]).length, results.length);
    const wins = results.filter(({ last }) => last[1] > last[0]).length;
    return {
      rows: [
        ...(await comparedRows(sentenceCosine)),
        ["closer", closer("first"), closer("last")],
        ["nearest", among("first"), among("last")],
      ],
      heads: ["h0", `h${state.depth}`],
      outcome: choiceOf(wins >= 0.7 * results.length, wins >= 0.35 * results.length),
      values: {
        depth: state.depth,
        first: closer("first"),
        last: closer("last"),
        nearest: among("last"),
        nearest_first: among("first"),
      },
    };
  },
  own: () => comparedAnyway(scene, sentenceCosine),
};
