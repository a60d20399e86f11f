// The layer to take vectors from: a table of a textbook, and the same choices measured with the
// model of the page by scripts/figures/whys.py.

import { example, studied } from "../../contents.js";
import { SHIP } from "../../korean.js";
import { choiceOf } from "../../wording.js";
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

const CHOICES = Object.keys(TEXTBOOK);

/**
 * Returns a score with the half width of its interval.
 * @param {number[]} of a score and its standard error.
 */
const wide = ([score, error]) => `${score} ± ${(1.96 * error).toFixed(1)}`;

/** Returns the numbers of sentences to learn from and to test. */
const amountsOfLayers = () => studied("layers").sentences;

/** Returns the rows that compare the textbook with what was measured. */
function rowsOfLayers() {
  const { trained, random } = studied("layers");
  return [
    ...CHOICES.map((name) => [name, TEXTBOOK[name].toFixed(1), wide(trained[name])]),
    ["random.last", "", wide(random.last)],
  ];
}

/** Returns the choice of layers with the highest score. */
function bestChoice() {
  const { trained } = studied("layers");
  return CHOICES.reduce((a, b) => (trained[b][0] > trained[a][0] ? b : a));
}

/** @type {Scene} */
export const english = {
  id: "which",
  studies: "layers",
  set: () => {
    const { text } = example("layer");
    return { section: "hidden", text, token: placeIn(text, "[MASK]") };
  },
  act: () => ({}),
  amounts: amountsOfLayers,
  measure: () => {
    const { trained, random, difference } = studied("layers");
    const best = bestChoice();
    /** @param {string} name */
    const isBetter = (name) => difference[name][0] + 1.96 * difference[name][1] < 0;
    return {
      rows: rowsOfLayers(),
      heads: ["book", "here"],
      outcome: choiceOf(isBetter("second"), isBetter("four")),
      verdict: 0,
      values: {
        ...amountsOfLayers(),
        best: t(`lesson.which.row.${best}`),
        best_score: wide(trained[best]),
        last: wide(trained.last),
        ahead: wide(difference[best].map(Math.abs)),
        first: wide(trained.h0),
        gained: wide(difference.h0),
        random: wide(random.last),
      },
    };
  },
};

/** @type {Scene} */
export const korean = {
  id: "which",
  studies: "layers",
  set: () => ({ section: "hidden", text: SHIP, token: placeIn(SHIP, "배를") }),
  act: () => ({}),
  experiments: () => [ownSenses],
  amounts: amountsOfLayers,
  measure: () => {
    const { trained, random } = studied("layers");
    /** @param {number} depth */
    const senses = (depth) =>
      SENSES.map(([word], i) => `${word.slice(0, -1)} ${ownSenses.results[i][depth]}`).join(", ");
    const best = bestChoice();
    const { second, last } = trained;
    const noise = 1.96 * Math.hypot(second[1], last[1]);
    return {
      rows: [
        ...rowsOfLayers(),
        ...[0, sizes.layers - 1, sizes.layers].map((depth) => [`h${depth}`, "", senses(depth)]),
      ],
      heads: ["book", "here"],
      outcome: choiceOf(...["last", "second", "four"].map((name) => name === best)),
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
