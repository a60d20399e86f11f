// Sentence vectors: same words, or same meaning.

import { nearest, paraphrases, paraphrasesFigure, plainParaphrases } from "../../paraphrases.js";
import { comparedAnyway, comparedRows } from "../../rows.js";
import { choiceOf, shareOf } from "../../wording.js";
import { page, sizes } from "../../../state/page.js";
import { state } from "../../../state/store.js";
import { sentenceCosine } from "../../../views/compare/sentences.js";

const aging = ["How old are you?", "How tall are you?", "What is your age?"];

/** @type {Scene} */
export const scene = {
  id: "sentence",
  concerns: ["other", "same", "depth"],
  set: () => ({
    section: "compare",
    text: aging[0],
    other: aging[1],
    same: aging[2],
    unit: "sentences",
    token: 2,
    depth: 0,
  }),
  act: () => ({ depth: sizes.layers }),
  experiments: () => [paraphrases, plainParaphrases, nearest],
  picture: "compare-layers",
  measure: async () => {
    const { results } = paraphrases;
    /** @param {any[]} pairs */
    const meanings = (pairs) => pairs.filter(([words, meaning]) => meaning > words).length;
    /** @param {string} name */
    const closer = (name) => meanings(results.map((own) => own[name]));
    const wins = closer("last");
    /** @param {string} name */
    const among = (name) => nearest.results.filter((own) => own[name]).length;
    return {
      rows: [
        ...(await comparedRows(sentenceCosine)),
        ["closer", shareOf(closer("first"), results.length), shareOf(wins, results.length)],
        ["nearest", ...["first", "last"].map((name) => shareOf(among(name), results.length))],
      ],
      heads: ["h0", `h${state.depth}`],
      outcome: choiceOf(wins >= 0.7 * results.length, wins >= 0.35 * results.length),
      values: {
        name: page.name,
        first: shareOf(closer("first"), results.length),
        last: shareOf(wins, results.length),
        plain: shareOf(meanings(plainParaphrases.results), results.length),
        nearest: shareOf(among("last"), results.length),
        nearest_first: shareOf(among("first"), results.length),
      },
    };
  },
  own: () => comparedAnyway(scene, sentenceCosine),
  figure: paraphrasesFigure,
};
