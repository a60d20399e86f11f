// A new task: trains a classifier in the page, on sentence vectors of a model that has never seen
// the labels.

import {
  SEEN_STEPS,
  STEPS_OF_TASK,
  fitClassifier,
  labeledMeans,
  taskwork,
} from "../../classifier.js";
import { example, labeledTexts } from "../../contents.js";
import { Experiment } from "../../experiment.js";
import { brief, choiceOf, shareOf } from "../../wording.js";
import { average } from "../../../model/statistics.js";
import { lengthOf } from "../../../model/vectors.js";
import { drawCurves } from "../../../parts/curves.js";
import { meanState, placeIn } from "../../../state/computed-text.js";
import { page, sizes } from "../../../state/page.js";
import { announce } from "../../../state/store.js";
import { t } from "../../../state/words.js";

/**
 * Returns a vector at length 1.
 * @param {number[]} vector
 */
function unit(vector) {
  const length = lengthOf(vector) || 1;
  return vector.map((value) => value / length);
}

/**
 * Returns the classifiers to train: the number of labeled sentences and the depth of their vectors.
 */
function trialsOfTask() {
  const { last, h0 } = example("task").amounts;
  const most = page.lesson.labeled.train.length;
  return [
    ...last.map((/** @type {any} */ amount) => ({
      amount: Math.min(amount, most),
      depth: sizes.layers,
    })),
    ...h0.map((/** @type {any} */ amount) => ({ amount: Math.min(amount, most), depth: 0 })),
  ];
}

/**
 * Returns the order of the sentences in one of several splits. Praise and complaint about the same
 * thing form a pair, which stays together. Each split starts at another pair and wraps around.
 * @param {number} split
 * @param {number} splits
 * @param {number} count
 */
function orderOfSplit(split, splits, count) {
  const pairs = count / 2;
  const start = Math.floor((split * pairs) / splits);
  return Array.from({ length: count }, (_, i) => (i + 2 * start) % count);
}

/**
 * Returns the mean logistic loss of a classifier over rows.
 * @param {(row: number[]) => number} classify
 * @param {number[][]} rows
 * @param {number[]} labels
 */
const lossOver = (classify, rows, labels) =>
  average(rows.map((row, i) => -Math.log(labels[i] ? classify(row) : 1 - classify(row))));

/**
 * Trains one classifier on one split of the sentences. Returns it with its accuracy on new
 * sentences and its losses on the old and the new ones at each recorded step.
 * @param {{amount: number, depth: number}} of
 * @param {any} means
 * @param {number[]} order
 */
async function learnSplit({ amount, depth }, means, order) {
  const labels = labeledTexts().map(([, label]) => label);
  const seen = page.lesson.labeled.train.length;
  const rows = order.map((i) => unit(means[depth][i]));
  const own = order.map((i) => labels[i]);
  /** @type {[number[][], number[]][]} */
  const parts = [
    [rows.slice(0, amount), own.slice(0, amount)],
    [rows.slice(seen), own.slice(seen)],
  ];
  /** @type {number[][]} */
  const losses = [];
  const classify = await fitClassifier(...parts[0], (step, present) => {
    if (SEEN_STEPS.includes(step)) {
      losses.push(parts.map(([some, theirs]) => lossOver(present, some, theirs)));
    }
  });
  const [test, answers] = parts[1];
  const right = test.filter((row, i) => classify(row) > 0.5 === (answers[i] === 1)).length;
  return { classify, right: right / test.length, losses };
}

/** Accuracy and losses of every classifier on one split of the labeled sentences. */
const splits = new Experiment(
  "splits",
  () => Array.from({ length: example("task").splits }, (_, split) => split),
  async (split, index) => {
    const means = await labeledMeans();
    const count = means[0].length;
    const order = orderOfSplit(index, splits.items().length, count);
    const found = [];
    for (const trial of trialsOfTask()) {
      const { right, losses } = await learnSplit(trial, means, order);
      found.push({ right, losses });
    }
    return found;
  },
);

/** Trains the classifiers of the first split, which has the order of the file. */
async function learnTask() {
  taskwork.learning = true;
  const means = await labeledMeans();
  const order = [...means[0].keys()];
  const found = [];
  for (const trial of trialsOfTask()) {
    found.push({ ...trial, ...(await learnSplit(trial, means, order)) });
  }
  Object.assign(taskwork, { classifiers: found, learning: false });
  announce("measured");
}

/**
 * Returns the index of the classifier trained on the most sentences, with vectors of one depth.
 * @param {number} depth
 */
const mostTaught = (depth) => trialsOfTask().findLastIndex((own) => own.depth === depth);

/**
 * Returns the accuracies of a classifier on all splits.
 * @param {number} trial
 */
const rightsOf = (trial) => splits.results.map((own) => own[trial].right);

/**
 * Returns the mean losses over the splits, on training and on new sentences, at each recorded step.
 */
function lossesOfTask() {
  const trial = mostTaught(sizes.layers);
  return [0, 1].map((part) =>
    SEEN_STEPS.map((_, step) =>
      average(splits.results.map((own) => own[trial].losses[step][part])),
    ),
  );
}

/** @type {Figure} */
const taskFigure = {
  ready: () => splits.complete,
  caption: () =>
    t("lesson.task.caption", {
      amount: trialsOfTask()[mostTaught(sizes.layers)].amount,
      splits: example("task").splits,
    }),
  choices: () => [],
  said: () => {
    const [own, fresh] = lossesOfTask();
    const best = fresh.indexOf(Math.min(...fresh));
    /** @param {any} value */
    const written = (value) => value.toFixed(2);
    return t("lesson.task.said", {
      begin: written(fresh[0]),
      own: written(own.at(-1)),
      fresh: written(fresh.at(-1)),
      least: written(fresh[best]),
      step: SEEN_STEPS[best],
      steps: STEPS_OF_TASK,
    });
  },
  draw: (box) => {
    const [own, fresh] = lossesOfTask();
    drawCurves(box, {
      labels: SEEN_STEPS.map(String),
      curves: [
        { name: t("lesson.task.fresh"), means: fresh },
        { name: t("lesson.task.own"), means: own },
      ],
      label: taskFigure.said?.() ?? "",
    });
  },
};

/** @type {Scene} */
export const scene = {
  id: "task",
  set: () => {
    const { text, word } = example("task");
    return { section: "text", text, token: placeIn(text, word) };
  },
  amounts: () => ({
    train: page.lesson.labeled.train.length,
    test: page.lesson.labeled.test.length,
    asked: example("task").asked,
    splits: example("task").splits,
  }),
  act: () => ({}),
  work: learnTask,
  progress: () => ({
    running: taskwork.running || taskwork.learning,
    part: taskwork.done / taskwork.total,
  }),
  experiments: () => [splits],
  figure: taskFigure,
  measure: (before, now) => {
    const { test, train } = page.lesson.labeled;
    const { asked, bounds } = example("task");
    const trials = trialsOfTask();
    /** @param {number} value */
    const percent = (value) => Math.round(100 * value);
    /** @param {number} depth */
    const ofAsked = (depth) =>
      trials.findIndex(
        (own) => own.depth === depth && own.amount === Math.min(asked, train.length),
      );
    const [few, fewFirst] = [sizes.layers, 0].map((depth) => rightsOf(ofAsked(depth)));
    const best = rightsOf(mostTaught(sizes.layers));
    /** @param {any} rights */
    const range = (rights) => `${percent(Math.min(...rights))}–${percent(Math.max(...rights))}%`;
    const share = percent(average(few));
    return {
      rows: trials.map((own, i) => [
        t(own.depth ? "lesson.task.row.last" : "lesson.task.row.first", { amount: own.amount }),
        `${percent(average(rightsOf(i)))}% (${range(rightsOf(i))})`,
        opinionOf(i, now),
      ]),
      heads: ["right", "yours"],
      outcome: choiceOf(share < bounds[0], share < bounds[1]),
      values: {
        count: train.length,
        test: test.length,
        best: percent(average(best)),
        range: range(best),
        first: percent(average(rightsOf(mostTaught(0)))),
        few: share,
        few_range: range(few),
        few_first: percent(average(fewFirst)),
        better: shareOf(few.filter((right, i) => right > fewFirst[i]).length, few.length),
      },
    };
  },
  own: (before, now) =>
    trialsOfTask().map((own, i) => [
      t(own.depth ? "lesson.task.row.last" : "lesson.task.row.first", { amount: own.amount }),
      opinionOf(i, before),
      opinionOf(i, now),
    ]),
};

/**
 * Returns what a classifier of the first split makes of a text.
 * @param {number} trial
 * @param {Computed} what
 */
function opinionOf(trial, what) {
  if (!taskwork.classifiers) {
    return "–";
  }
  const { classify, depth } = taskwork.classifiers[trial];
  const good = classify(unit(meanState(what, depth)));
  const name = t(good > 0.5 ? "lesson.task.good" : "lesson.task.bad");
  return `${name} ${brief(Math.max(good, 1 - good))}`;
}
