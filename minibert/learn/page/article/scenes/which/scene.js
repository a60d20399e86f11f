// The layer to take vectors from: a table of a textbook, and the same measured with the Korean model
// of the page by scripts/figures/whys.py..

import { studied } from "../../contents.js";
import { SHIP } from "../../korean.js";
import { SENSES, ownSenses } from "../senses/scene.js";
import { placeIn } from "../../../state/computed-text.js";
import { sizes } from "../../../state/page.js";
import { t } from "../../../state/words.js";

// F1 on names in English news, BERT-base with a network of two more layers on its frozen vectors:
// Devlin et al. 2018, table 7, as textbooks quote it.
/** @type {Record<string, any>} */
const TEXTBOOK = {
  h0: 91.0,
  second: 95.6,
  last: 94.9,
  "sum of four": 95.9,
  four: 96.1,
  "sum of all": 95.5,
};

/** Returns the numbers of sentences to learn from and to test. */
const amountsOfLayers = () => studied("layers").sentences;

/** @type {Scene} */
export const scene = {
  id: "which",
  studies: "layers",
  set: () => ({ section: "hidden", text: SHIP, token: placeIn(SHIP, "배를") }),
  act: () => ({}),
  experiments: () => [ownSenses],
  amounts: amountsOfLayers,
  measure: () => {
    const { trained, random } = studied("layers");
    const names = Object.keys(TEXTBOOK);
    /** @param {any[]} of */
    const wide = ([score, error]) => `${score} ± ${(1.96 * error).toFixed(1)}`;
    /** @param {number} depth */
    const senses = (depth) =>
      SENSES.map(([word], i) => `${word.slice(0, -1)} ${ownSenses.results[i][depth]}`).join(", ");
    const best = names.reduce((a, b) => (trained[b][0] > trained[a][0] ? b : a));
    const [second, last] = [trained.second, trained.last];
    const noise = 1.96 * Math.hypot(second[1], last[1]);
    return {
      rows: [
        ...names.map((name) => [name, TEXTBOOK[name].toFixed(1), wide(trained[name])]),
        ["random.last", "", wide(random.last)],
        ...[0, sizes.layers - 1, sizes.layers].map((depth) => [`h${depth}`, "", senses(depth)]),
      ],
      heads: ["book", "here"],
      outcome: ["last", "second", "four"].includes(best)
        ? ["last", "second", "four"].indexOf(best)
        : 3,
      verdict: 0,
      values: {
        ...amountsOfLayers(),
        best: t(`lesson.which.row.${best}`),
        best_score: wide(trained[best]),
        first: wide(trained.h0),
        second: wide(second),
        last: wide(last),
        difference: (last[0] - second[0]).toFixed(1),
        noise: noise.toFixed(1),
        random: wide(random.last),
      },
    };
  },
};
