// A classifier that the page trains on the mean states of the labeled sentences.

import { keep, labeledTexts } from "./contents.js";
import { centerOf } from "../model/vectors.js";
import { meanState } from "../state/computed-text.js";
import { current } from "../state/current.js";
import { sizes } from "../state/page.js";
import { announce } from "../state/store.js";

export const STEPS_OF_TASK = 300; // steps of gradient descent

export const RATE = 10;

export const SHRINK = 0.001; // weight decay

export const SEEN_STEPS = [0, 1, 3, 10, 30, 100, 300]; // steps at which the loss is recorded

/** @param {any} logit */
export const logistic = (logit) => 1 / (1 + Math.exp(-logit));

/** Lets the browser update the screen. */
export const breath = () => new Promise((resolve) => setTimeout(resolve));

/**
 * Trains logistic regression on rows with label 0 or 1, by plain gradient descent.
 * @param {(step: number, classify: (row: number[]) => number) => void} [watch] (step, classify) => called with the current classifier before each step and at the
 *   end.
 * @param {number[][]} rows
 * @param {number[]} labels
 * @returns (row) => probability of label 1.
 */
export async function fitClassifier(rows, labels, watch = () => {}) {
  const mean = centerOf(rows);
  const centered = rows.map((row) => row.map((value, c) => value - mean[c]));
  const weights = new Float64Array(mean.length);
  let bias = 0;
  /** @param {any} row */
  const classify = (row) =>
    logistic(
      row.reduce(
        (/** @type {any} */ sum, /** @type {any} */ value, /** @type {number} */ c) =>
          sum + (value - mean[c]) * weights[c],
        bias,
      ),
    );
  for (let step = 0; step < STEPS_OF_TASK; step++) {
    if (step % 50 === 0) {
      await breath();
    }
    watch(step, classify);
    const slopes = new Float64Array(mean.length);
    let slope = 0;
    centered.forEach((row, i) => {
      const logit = row.reduce((sum, value, c) => sum + value * weights[c], bias);
      const error = (logistic(logit) - labels[i]) / rows.length;
      row.forEach((value, c) => {
        slopes[c] += error * value;
      });
      slope += error;
    });
    for (let c = 0; c < weights.length; c++) {
      weights[c] -= RATE * (slopes[c] + SHRINK * weights[c]);
    }
    bias -= RATE * slope;
  }
  watch(STEPS_OF_TASK, classify);
  return classify;
}

/** @type {Record<string, any>} */
export const taskwork = { done: 0, total: 1, running: false, learning: false, classifiers: null };

/** Returns the mean states of all labeled sentences: {depth: [vector, ...]}. */
export const labeledMeans = () =>
  keep("labeled means", async () => {
    const texts = labeledTexts();
    /** @type {Record<string, number[][]>} */
    const means = { 0: [], [sizes.layers]: [] };
    Object.assign(taskwork, { running: true, total: texts.length });
    for (const [text] of texts) {
      const what = await current.live.compute({ text });
      for (const depth of Object.keys(means)) {
        means[depth].push(meanState(what, Number(depth)));
      }
      taskwork.done += 1;
      if (taskwork.done % 10 === 0) {
        announce("measured");
        await breath();
      }
    }
    taskwork.running = false;
    return means;
  });
