// A whole layer: what it adds to a vector, and what is lost if it is skipped.

import { example } from "../../contents.js";
import { Experiment } from "../../experiment.js";
import { brief, choiceOf, saidWords, shareOf } from "../../wording.js";
import { average } from "../../../model/statistics.js";
import { cosine, lengthOf } from "../../../model/vectors.js";
import { answersOf, placeIn } from "../../../state/computed-text.js";
import { current, hiddenState } from "../../../state/current.js";
import { sizes } from "../../../state/page.js";
import { goToPart } from "../../../views/strip/strip.js";

export const MIDDLE = Math.floor(sizes.layers / 2);

/**
 * Returns for each layer whether the best word for [MASK] stays the same if only that layer is
 * skipped.
 * @param {ModelRequest} request
 * @param {string} word
 */
async function sparingLayers(request, word) {
  const spared = [];
  for (let layer = 0; layer < sizes.layers; layer++) {
    const [best] = await answersOf(await current.live.compute({ ...request, off: [[layer]] }));
    spared.push(best?.[0] === word);
  }
  return spared;
}

/**
 * Returns the cosine between the input and the output of a layer for one token.
 * @param {number} layer
 * @param {Computed} what
 * @param {number} place
 */
const cosineThrough = (layer, what, place) =>
  cosine(hiddenState(layer, what).row(place), hiddenState(layer + 1, what).row(place));

/**
 * Effect of each layer in the article's other sentences: whether the answer survives skipping it,
 * and the cosine between its input and output.
 */
const skipping = new Experiment(
  "skipping",
  () => example("layer").many ?? [],
  async (text) => {
    const what = await current.live.compute({ text });
    const place = what.tokens.findIndex((token) => token.piece === "[MASK]");
    const [[word]] = await answersOf(what);
    const layers = [...Array(sizes.layers).keys()];
    return {
      spared: await sparingLayers({ text }, word),
      turn: layers.map((layer) => cosineThrough(layer, what, place)),
    };
  },
);

/**
 * Returns the rows and values of the other sentences.
 * @param {number} layer
 */
function skippedInMany(layer) {
  const { results } = skipping;
  const layers = [...Array(sizes.layers).keys()];
  const survivors = layers.map((own) => results.filter(({ spared }) => spared[own]).length);
  const turn = layers.map((own) => average(results.map((result) => result.turn[own])));
  const [least, most] = [Math.min, Math.max].map((choose) =>
    survivors.indexOf(choose(...survivors)),
  );
  /** @param {any[]} values */
  const each = (values) => values.map((value, own) => `${own}:\u00a0${value}`).join(", ");
  return {
    rows: [
      ["kept", "", each(survivors)],
      ["turn", "", each(turn.map(brief))],
    ],
    values: {
      kept: shareOf(survivors[layer], results.length),
      all: results.length,
      least,
      most,
      few: survivors[least],
      lots: survivors[most],
      turning: turn.indexOf(Math.min(...turn)),
      turned: brief(Math.min(...turn)),
    },
  };
}

/**
 * Returns the length of what attention and feed-forward add, relative to the vector they add it to.
 * @param {Computed} what
 * @param {number} layer
 * @param {any} token
 */
function addedBy(what, layer, token) {
  /** @param {string} name */
  const long = (name) => lengthOf(what.steps.get(`layer.${layer}.${name}`).row(token));
  const skipped = what.request.off.some((at) => at.length === 1 && at[0] === layer);
  if (skipped) {
    return [0, 0];
  }
  const before = lengthOf(hiddenState(layer, what).row(token));
  return [long("attention.projected") / before, long("narrowed") / long("attention.output")];
}

/** @type {Scene} */
export const scene = {
  id: "layer",
  set: () => {
    const { text } = example("layer");
    return { section: "head", text, layer: MIDDLE, head: 0, token: placeIn(text, "[MASK]") };
  },
  then: () => goToPart("add", MIDDLE), // where the heads are mixed and added
  act: () => ({ off: [[MIDDLE]] }),
  experiments: () => [skipping],
  picture: "head-steps",
  measure: async (before, now) => {
    const [a, b] = await Promise.all([answersOf(before), answersOf(now)]);
    const word = a[0][0];
    before.spared ??= sparingLayers(before.request, word);
    const spared = (await before.spared).filter(Boolean).length;
    const many = skippedInMany(MIDDLE);
    const place = before.tokens.findIndex((own) => own.piece === "[MASK]");
    const added = [before, now].map((what) => addedBy(what, MIDDLE, place));
    const turned = [before, now].map((what) => brief(cosineThrough(MIDDLE, what, place)));
    /** @param {number} part */
    const percents = (part) => added.map((own) => `${Math.round(100 * own[part])}%`);
    const best = b[0][0];
    return {
      rows: [
        ["answer", saidWords(a), saidWords(b)],
        ["attention", ...percents(0)],
        ["ff", ...percents(1)],
        ["cosine", ...turned],
        ...many.rows,
      ],
      outcome: choiceOf(best !== word, brief(a[0][1]) !== brief(b[0][1])),
      values: { layer: MIDDLE, word, best, spared, layers: sizes.layers, ...many.values },
    };
  },
};
