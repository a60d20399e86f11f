// The models of the worker, and what they answer. A model decodes its weights once.

import { backward } from "./backward.js";
import { Bert } from "./bert.js";
import { inflate } from "./inflate.js";
import { Product } from "./product.js";
import { softmax } from "./softmax.js";
import { tensor } from "./tensor.js";

/**
 * Returns a model. Each row of a matrix is stored as 8-bit integers and one scale.
 * @param {{config: any, parameters: any, floats: any, whole: any}} of
 */
async function load({ config, parameters, floats, whole }) {
  const scales = new Float32Array(await inflate(floats));
  const numbers = new Int8Array(await inflate(whole));
  const found = new Map();
  const product = Product.for(parameters);
  /** @param {number[]} shape */
  const place = (shape) => {
    const length = shape.reduce((/** @type {any} */ a, /** @type {any} */ b) => a * b, 1);
    return tensor(shape, product?.allocate(length) ?? new Float32Array(length));
  };
  let f = 0;
  let w = 0;
  for (const [name, shape] of parameters) {
    if (shape.length === 1) {
      const vector = place(shape);
      vector.data.set(scales.subarray(f, (f += shape[0])));
      found.set(name, vector);
      continue;
    }
    const [rows, columns] = shape;
    const matrix = place(shape);
    for (let r = 0; r < rows; r++) {
      const scale = scales[f++];
      for (let end = w + columns; w < end; w++) {
        matrix.data[w - end + (r + 1) * columns] = numbers[w] * scale;
      }
    }
    found.set(name, matrix);
  }
  return new Bert(config, found, product);
}

const models = new Map(); // by id: the page's model, or the snapshots of a run

/**
 * The answers of a model, by the kind of question. Steps are {shape, data}.
 * @type {Record<string, any>}
 */
const ANSWERS = {
  load: () => null,
  /**
   * @param {any} bert
   * @param {any} input
   */
  run: (bert, input) => bert.run(input),
  /**
   * Returns the mean of the last states of a text without padding, weighted by token.
   * @param {any} bert
   * @param {any} input
   */
  vector: (bert, input) => {
    const { shape, data } = [...bert.run(input)].findLast(([name]) => /^layer/.test(name))[1];
    const weights = input.weights ?? input.ids.map(() => 1);
    const total = weights.reduce(
      (/** @type {any} */ sum, /** @type {any} */ weight) => sum + weight,
      0,
    );
    return Array.from({ length: shape[1] }, (_, c) => {
      let sum = 0;
      weights.forEach((/** @type {any} */ weight, /** @type {any} */ row) => {
        sum += weight * data[row * shape[1] + c];
      });
      return sum / total;
    });
  },
  backward,
  /**
   * @param {any} bert
   * @param {any} input
   */
  rows: (bert, input) => bert.rows(input.name, input.rows),
  /**
   * @param {any} bert
   * @param {any} input
   */
  transform: (bert, input) => {
    const { data } = bert.logits(input.states);
    const [words] = bert.words(input.states, input.k, input.count);
    return {
      steps: bert.transform(input.states),
      best: words.map((/** @type {any[]} */ [id]) => ({ id, logit: data[id] })),
    };
  },
  /**
   * @param {any} bert
   * @param {any} input
   */
  words: (bert, input) => bert.words(input.states, input.k, input.count),
  /**
   * Returns the probability of one word, or of several, in every row of states.
   * @param {any} bert
   * @param {any} input
   */
  shares: (bert, input) => {
    const { shape, data } = bert.logits(input.states);
    /** @param {number} s */
    const row = (s) => data.subarray(s * shape[1], (s + 1) * shape[1]);
    return Array.from({ length: shape[0] }, (_, s) => {
      softmax(row(s));
      return Array.isArray(input.word)
        ? input.word.map((/** @type {any} */ word) => row(s)[word])
        : row(s)[input.word];
    });
  },
};

/**
 * Answers a question of the page.
 * @param {{kind: string, input: any, model: number}} question whose kind is a name in ANSWERS.
 *   "load" brings a model.
 */
export async function answerOf({ kind, input, model }) {
  if (kind === "load") {
    models.set(model, load(input));
  }
  return ANSWERS[kind](await models.get(model), input);
}
