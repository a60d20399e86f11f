// A piece becomes a row of a table.

import { computeOnce } from "../../contents.js";
import { sameWordRows } from "../../rows.js";
import { brief, choiceOf } from "../../wording.js";
import { cosine } from "../../../model/vectors.js";
import { placeIn, placeOf } from "../../../state/computed-text.js";
import { hiddenState } from "../../../state/current.js";
import { sizes } from "../../../state/page.js";

export const banks = [
  "He walked along the bank of the river.",
  "She works at the bank in the city.",
  "She swam to the bank of the river.",
];

/** @type {Scene} */
export const scene = {
  id: "numbers",
  set: () => ({ section: "embeddings", text: banks[0], token: placeIn(banks[0], "bank") }),
  act: () => ({ text: banks[1], token: placeIn(banks[1], "bank") }),
  measure: async (before, now) => {
    const scale = await computeOnce(banks[2]);
    const [i, j, k] = [before, now, scale].map((what) => placeOf(what, "bank"));
    /** @param {number} depth */
    const first = (depth) => hiddenState(depth, before).row(i);
    /** @param {number} depth */
    const other = (depth) => cosine(first(depth), hiddenState(depth, now).row(j));
    /** @param {number} depth */
    const riverside = (depth) => cosine(first(depth), hiddenState(depth, scale).row(k));
    const last = sizes.layers;
    return {
      rows: [
        ["alike.other", brief(other(0)), brief(other(last))],
        ["alike.same", brief(riverside(0)), brief(riverside(last))],
      ],
      heads: ["h0", `h${last}`],
      outcome: choiceOf(other(0) > 0.9999, other(0) > 0.5),
      values: { last: brief(other(last)), scale: brief(riverside(last)) },
    };
  },
  own: (before, now) => sameWordRows(before, now, "bank"),
};
