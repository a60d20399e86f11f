// Two senses of a word part from layer to layer.

import { crowd } from "../../contents.js";
import { Experiment } from "../../experiment.js";
import { comparedTexts, ownComparison } from "../../rows.js";
import { banks } from "../numbers/scene.js";
import { brief, choiceOf, shareOf } from "../../wording.js";
import { average, spread } from "../../../model/statistics.js";
import { cosine } from "../../../model/vectors.js";
import { drawCurves } from "../../../parts/curves.js";
import { placeIn } from "../../../state/computed-text.js";
import { current, hiddenState } from "../../../state/current.js";
import { sizes } from "../../../state/page.js";
import { state } from "../../../state/store.js";
import { t } from "../../../state/words.js";
import { compareCosine, twin } from "../../../views/compare/texts.js";

/**
 * Returns all comparisons: a sentence, the next one with the same sense of the word, and one with
 * the other sense.
 */
function comparisons() {
  return crowd("senses").flatMap((/** @type {any} */ { word, texts }) =>
    texts.flatMap((/** @type {any} */ own, /** @type {any} */ sense) =>
      own.map((/** @type {any} */ text, /** @type {number} */ i) => ({
        word,
        text,
        same: own[(i + 1) % own.length],
        other: texts[1 - sense][i],
      })),
    ),
  );
}

// States of a word by sentence. A sentence is part of three comparisons, and only these states are
// kept.
const statesKept = new Map();

/**
 * @param {string} text
 * @param {string} word
 */
function statesOfWord(text, word) {
  if (!statesKept.has(text)) {
    const states = current.live.compute({ text }).then((what) => {
      const place = what.tokens.findIndex((token) => token.piece === word);
      return Array.from({ length: sizes.layers + 1 }, (_, depth) =>
        hiddenState(depth, what).row(place),
      );
    });
    statesKept.set(text, states);
  }
  return statesKept.get(text);
}

const senses = new Experiment("senses", comparisons, async ({ word, text, same, other }) => {
  const [own, alike, unlike] = await Promise.all(
    [text, same, other].map((sentence) => statesOfWord(sentence, word)),
  );
  return own.map(
    (/** @type {any} */ state, /** @type {any} */ depth) =>
      cosine(state, alike[depth]) - cosine(state, unlike[depth]),
  );
});

/** @type {Figure} */
const sensesFigure = {
  ready: () => senses.complete,
  caption: () =>
    t("lesson.layers.caption", {
      count: senses.results.length,
      words: crowd("senses")
        .map((/** @type {any} */ { word }) => word)
        .join(", "),
    }),
  choices: () => [],
  said: () => {
    const { results } = senses;
    const means = Array.from({ length: sizes.layers + 1 }, (_, depth) =>
      average(results.map((row) => row[depth])),
    );
    const most = Math.max(...means);
    const from = means.findIndex((mean) => mean >= most / 2);
    return t("lesson.layers.said", {
      from,
      mean: means[from].toFixed(3),
      spread: spread(results.map((row) => row[from])).toFixed(3),
      closer: shareOf(results.filter((row) => row[from] > 0).length, results.length),
      last: sizes.layers,
      most: means[sizes.layers].toFixed(3),
    });
  },
  draw: (box) => {
    const { results } = senses;
    const depths = Array.from({ length: sizes.layers + 1 }, (_, depth) => depth);
    const columns = depths.map((depth) => results.map((row) => row[depth]));
    drawCurves(box, {
      labels: depths.map((depth) => `h${depth}`),
      curves: [{ name: "", means: columns.map(average), spreads: columns.map(spread) }],
      label: sensesFigure.said?.() ?? "",
    });
  },
};

/** Returns the mean difference of the cosines with the same and the other sense, for each depth. */
const sensesApart = () =>
  Array.from({ length: sizes.layers + 1 }, (_, depth) =>
    average(senses.results.map((row) => row[depth])),
  );

/** @type {Scene} */
export const scene = {
  id: "layers",
  concerns: ["other", "same", "depth", "token"],
  set: () => ({
    section: "compare",
    text: banks[0],
    other: banks[1],
    same: banks[2],
    token: placeIn(banks[0], "bank"),
    depth: 0,
  }),
  act: () => ({ depth: sizes.layers }),
  experiments: () => [senses],
  figure: sensesFigure,
  picture: "compare-layers",
  measure: async () => {
    const texts = await comparedTexts();
    /**
     * @param {number} depth
     * @param {any} other
     */
    const alike = (depth, other) => compareCosine(depth, state.token, twin(texts[other]), other);
    const apart = sensesApart();
    const from = apart.findIndex((value) => value >= Math.max(...apart) / 2);
    /** @param {any} f */
    const pair = (f) => [f(0), f(state.depth)].map(brief);
    const half = senses.results.filter((row) => row[from] > 0).length;
    return {
      rows: [
        ["other", ...pair((/** @type {any} */ depth) => alike(depth, 1))],
        ["same", ...pair((/** @type {any} */ depth) => alike(depth, 2))],
        ["many", ...pair((/** @type {any} */ depth) => apart[depth])],
      ],
      heads: ["h0", `h${state.depth}`],
      outcome: choiceOf(from === 0, from <= sizes.layers / 2),
      values: {
        from,
        count: senses.results.length,
        closer: shareOf(half, senses.results.length),
        other: brief(alike(sizes.layers, 1)),
        same: brief(alike(sizes.layers, 2)),
      },
    };
  },
  own: () => ownComparison(scene),
};
