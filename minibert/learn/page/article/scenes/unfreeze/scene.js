// Fine-tuning with all weights: what moves, and what is forgotten.
//
// scripts/figures/whys.py trained all weights of the bundled models. The page itself unfreezes a
// small part: the scale and the shift of the last LayerNorm. Scaling by `scale` and shifting by
// `shift` after it is the same as training both.

import { RATE, SHRINK, STEPS_OF_TASK, breath, labeledMeans, logistic } from "../../classifier.js";
import { crowd, labeledTexts, prompts, studied } from "../../contents.js";
import { Experiment } from "../../experiment.js";
import { nearest } from "../../paraphrases.js";
import { exampleOfWhys, layerNumbers } from "../../rows.js";
import { choiceOf, shareOf } from "../../wording.js";
import { average } from "../../../model/statistics.js";
import { centerOf, lengthOf } from "../../../model/vectors.js";
import { placeOf } from "../../../state/computed-text.js";
import { current, hiddenState } from "../../../state/current.js";
import { page, sizes } from "../../../state/page.js";

const LOOSE_RATE = 3; // of the scale and the shift, beside RATE of the classifier

const ASKED_AGAIN = 20; // prompts whose answers are compared before and after

/**
 * Trains a classifier on the mean states of sentences, together with the scale and the shift of all
 * states, by plain gradient descent.
 * @param {number[][]} rows
 * @param {number[]} labels
 * @returns {Promise<any>} scale, shift, and classify, (row) => probability of label 1.
 */
async function fitLoosely(rows, labels) {
  const middle = centerOf(rows);
  const size = middle.length;
  const length = average(rows.map(lengthOf));
  const [weights, shift] = [new Float64Array(size), new Float64Array(size)];
  const scale = new Float64Array(size).fill(1);
  let bias = 0;
  /**
   * @param {any} row
   * @param {number} c
   */
  const feature = (row, c) => (scale[c] * row[c] + shift[c] - middle[c]) / length;
  /** @param {any} row */
  const classify = (row) =>
    logistic(
      row.reduce(
        (/** @type {any} */ sum, /** @type {any} */ _, /** @type {number} */ c) =>
          sum + weights[c] * feature(row, c),
        bias,
      ),
    );
  for (let step = 0; step < STEPS_OF_TASK; step++) {
    if (step % 20 === 0) {
      await breath();
    }
    const errors = rows.map((row, i) => (classify(row) - labels[i]) / rows.length);
    const error = errors.reduce((sum, own) => sum + own, 0);
    for (let c = 0; c < size; c++) {
      let [slope, stretch] = [0, 0];
      rows.forEach((row, i) => {
        slope += errors[i] * feature(row, c);
        stretch += errors[i] * row[c];
      });
      const pull = weights[c] / length; // of a state on the logit
      weights[c] -= RATE * (slope + SHRINK * weights[c]);
      scale[c] -= LOOSE_RATE * stretch * pull;
      shift[c] -= LOOSE_RATE * error * pull;
    }
    bias -= RATE * error;
  }
  return { scale, shift, classify };
}

/** Returns prompts of the article, spread over the list. */
const promptsToAsk = () => {
  const all = prompts();
  const many = Math.min(ASKED_AGAIN, all.length);
  return Array.from({ length: many }, (_, i) => all[Math.floor((i * all.length) / many)]);
};

/** Unfreezes the last LayerNorm: the accuracy on new sentences, and the answers that remain. */
const loosened = new Experiment(
  "loosened",
  () => ["LayerNorm"],
  async () => {
    const seen = page.lesson.labeled.train.length;
    const rows = (await labeledMeans())[sizes.layers];
    const labels = labeledTexts().map(([, label]) => label);
    const { scale, shift, classify } = await fitLoosely(rows.slice(0, seen), labels);
    const right = rows
      .slice(seen)
      .filter(
        (/** @type {any} */ row, /** @type {number} */ i) =>
          classify(row) > 0.5 === (labels[seen + i] === 1),
      );
    const states = [];
    for (const text of promptsToAsk()) {
      const what = await current.live.compute({ text });
      states.push(hiddenState(sizes.layers, what).row(placeOf(what, "[MASK]")));
    }
    const altered = states.map((row) => row.map((value, c) => scale[c] * value + shift[c]));
    const [before, after] = await Promise.all(
      [states, altered].map(async (some) => {
        const data = Float32Array.from(some.flatMap((row) => [...row]));
        const best = await current.live.words({ shape: [some.length, sizes.hidden], data });
        return best.map(([[word]]) => word);
      }),
    );
    return {
      right: right.length,
      kept: before.filter((word, i) => word === after[i]).length,
    };
  },
);

/** @type {Scene} */
export const scene = {
  id: "unfreeze",
  studies: "fine-tuning",
  set: () => ({ section: "predictions", ...exampleOfWhys() }),
  act: () => ({}),
  experiments: () => [loosened],
  amounts: () => ({
    train: page.lesson.labeled.train.length,
    prompts: prompts().length,
    runs: studied("fine-tuning").length,
    loose: (2 * sizes.hidden).toLocaleString("en"),
  }),
  picture: "best",
  measure: () => {
    const runs = studied("fine-tuning");
    const all = prompts().length;
    /**
     * @param {string} name
     * @param {string} kind
     */
    const mean = (name, kind) => average(runs.map((/** @type {any} */ run) => run[kind][name]));
    /**
     * @param {string} kind
     * @param {string} name
     * @param {any} [times]
     */
    const range = (kind, name, times = 1) => {
      const values = runs.map((/** @type {any} */ run) => Math.round(times * run[kind][name]));
      return `${Math.min(...values)}–${Math.max(...values)}`;
    };
    const [kept, shuffled] = ["true", "shuffled"].map((kind) => mean("kept", kind));
    /** @param {string} kind */
    const moved = (kind) => {
      const parts = runs[0][kind].moved.map((/** @type {any} */ _, /** @type {number} */ i) =>
        average(runs.map((/** @type {any} */ run) => run[kind].moved[i])),
      );
      const names = ["embeddings", ...layerNumbers(), "pooler"];
      /** @param {number} value */
      const percent = (value) => `${(100 * value).toFixed(1)}%`;
      return parts
        .map(
          (/** @type {any} */ value, /** @type {number} */ i) =>
            `${names[i]}:\u00a0${percent(value)}`,
        )
        .join(", ");
    };
    const [own] = loosened.results;
    const test = page.lesson.labeled.test.length;
    /**
     * @param {string} name
     * @param {any} [times]
     */
    const both = (name, times) => ["true", "shuffled"].map((kind) => range(kind, name, times));
    return {
      rows: [
        ["right", ...both("right", 100).map((own) => `${own}%`)],
        ["kept", ...both("kept").map((own) => `${own} / ${all}`)],
        ["nearest", ...both("nearest").map((own) => `${own} / ${crowd("paraphrases").length}`)],
        ["moved", moved("true"), moved("shuffled")],
        ["loose.right", "", shareOf(own.right, test)],
        ["loose.kept", "", shareOf(own.kept, promptsToAsk().length)],
      ],
      heads: ["true", "shuffled"],
      outcome: choiceOf(kept > 0.75 * all, kept > 0.25 * all),
      values: {
        right: Math.round(100 * mean("right", "true")),
        kept: Math.round(kept),
        kept_range: range("true", "kept"),
        shuffled: Math.round(shuffled),
        shuffled_range: range("shuffled", "kept"),
        nearest: mean("nearest", "true").toFixed(1),
        nearest_before: nearest.results.filter(({ last }) => last).length,
        meanings: crowd("paraphrases").length,
        moved: moved("true"),
        loose_right: shareOf(own.right, test),
        loose_kept: shareOf(own.kept, promptsToAsk().length),
      },
    };
  },
};
