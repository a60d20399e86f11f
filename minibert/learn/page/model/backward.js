// Backpropagation: how much the loss of a hidden word changes with every number on its way.
//
// The gradient of a number is the change of the loss for a small change of that number, divided by
// it. `bert.run` keeps every step of the way forward, and each function here goes one step back: it
// turns the gradient of what a step gave into the gradient of what the step was given.

import { softmax } from "./softmax.js";
import { tensor } from "./tensor.js";

const NUDGE = 0.01; // of a number, to measure its slope

/**
 * A number on the way back.
 * @typedef {{name: string, at: number[], value: number, gradient: number, measured: number}} Station
 */

/**
 * Returns the gradient of x for y = x W^T + b: every number of x went into every number of y.
 * @param {Tensor} dy
 * @param {Tensor} weight
 */
function throughLinear(dy, weight) {
  const [seq, out] = dy.shape;
  const size = weight.shape[1];
  const dx = tensor([seq, size]);
  for (let s = 0; s < seq; s++) {
    for (let o = 0; o < out; o++) {
      const slope = dy.data[s * out + o];
      for (let i = 0; slope && i < size; i++) {
        dx.data[s * size + i] += slope * weight.data[o * size + i];
      }
    }
  }
  return dx;
}

/**
 * Returns the gradient of x for y = LayerNorm(x). A number also moves the mean and the variance.
 * @param {Tensor} dy
 * @param {Tensor} x
 * @param {Tensor} weight
 * @param {number} epsilon
 */
function throughLayerNorm(dy, x, weight, epsilon) {
  const [seq, size] = x.shape;
  const dx = tensor(x.shape);
  for (let s = 0; s < seq; s++) {
    const row = x.data.subarray(s * size, (s + 1) * size);
    /** @param {(i: number) => number} f */
    const mean = (f) => {
      let sum = 0;
      for (let i = 0; i < size; i++) {
        sum += f(i);
      }
      return sum / size;
    };
    const middle = mean((i) => row[i]);
    const scale = 1 / Math.sqrt(mean((i) => (row[i] - middle) ** 2) + epsilon);
    /** @param {number} i */
    const normal = (i) => (row[i] - middle) * scale;
    /** @param {number} i */
    const slope = (i) => dy.data[s * size + i] * weight.data[i];
    const shift = mean(slope);
    const stretch = mean((i) => slope(i) * normal(i));
    for (let i = 0; i < size; i++) {
      dx.data[s * size + i] = scale * (slope(i) - shift - normal(i) * stretch);
    }
  }
  return dx;
}

/**
 * Returns the gradient of x for y = f(x), number by number. The slope of f is measured.
 * @param {Tensor} dy
 * @param {Tensor} x
 * @param {(value: number) => number} f
 */
function throughActivation(dy, x, f) {
  const dx = tensor(x.shape);
  for (let i = 0; i < dx.data.length; i++) {
    const value = x.data[i];
    dx.data[i] = (dy.data[i] * (f(value + NUDGE) - f(value - NUDGE))) / (2 * NUDGE);
  }
  return dx;
}

/**
 * Returns the gradients of queries, keys and values, each (seq, hidden), for what the heads mixed.
 * @param {Tensor} dContext
 * @param {Map<string, Tensor>} steps
 * @param {string} layer
 */
function throughHeads(dContext, steps, layer) {
  const [query, key, value, probabilities] = ["query", "key", "value", "probabilities"].map(
    (name) => /** @type {Tensor} */ (steps.get(`${layer}.attention.${name}`)),
  );
  const [heads, seq, size] = query.shape;
  const [dQuery, dKey, dValue] = [1, 2, 3].map(() => tensor([seq, heads * size]));
  for (let h = 0; h < heads; h++) {
    for (let q = 0; q < seq; q++) {
      const at = (h * seq + q) * seq;
      const shares = probabilities.data.subarray(at, at + seq);
      const own = (q * heads + h) * size;
      const dShares = Array.from(shares, (share, k) => {
        const other = (k * heads + h) * size;
        let slope = 0;
        for (let i = 0; i < size; i++) {
          slope += dContext.data[own + i] * value.data[(h * seq + k) * size + i];
          dValue.data[other + i] += share * dContext.data[own + i];
        }
        return slope;
      });
      // through softmax: a share grows at the cost of all others
      const common = dShares.reduce((sum, slope, k) => sum + slope * shares[k], 0);
      for (let k = 0; k < seq; k++) {
        const dScore = (shares[k] * (dShares[k] - common)) / Math.sqrt(size);
        const other = (k * heads + h) * size;
        for (let i = 0; i < size; i++) {
          dQuery.data[own + i] += dScore * key.data[(h * seq + k) * size + i];
          dKey.data[other + i] += dScore * query.data[(h * seq + q) * size + i];
        }
      }
    }
  }
  return { query: dQuery, key: dKey, value: dValue };
}

/**
 * Adds gradients: a number that went several ways has the sum of what comes back on them.
 * @param {...Tensor} ways
 */
function together(...ways) {
  const sum = tensor(ways[0].shape);
  for (const { data } of ways) {
    for (let i = 0; i < data.length; i++) {
      sum.data[i] += data[i];
    }
  }
  return sum;
}

/**
 * Returns the gradients of a layer's input, and of the sum before its last LayerNorm.
 * @param {import("./bert.js").Bert} bert
 * @param {Map<string, Tensor>} steps
 * @param {number} number
 * @param {Tensor} dOutput
 */
function throughLayer(bert, steps, number, dOutput) {
  const own = `encoder.layer.${number}`;
  /** @param {string} name */
  const step = (name) => /** @type {Tensor} */ (steps.get(`layer.${number}.${name}`));
  /** @param {string} name */
  const weight = (name) => bert.parameter(`${own}.${name}.weight`);
  const epsilon = bert.config.layer_norm_eps;
  const sum = throughLayerNorm(dOutput, step("sum"), weight("output.LayerNorm"), epsilon);
  const inner = throughLinear(sum, weight("output.dense"));
  const widened = throughActivation(inner, step("widened"), bert.activation);
  const attended = together(sum, throughLinear(widened, weight("intermediate.dense")));
  const norm = weight("attention.output.LayerNorm");
  const mixed = throughLayerNorm(attended, step("attention.sum"), norm, epsilon);
  const dContext = throughLinear(mixed, weight("attention.output.dense"));
  const heads = Object.entries(throughHeads(dContext, steps, `layer.${number}`));
  const ways = heads.map(([name, dy]) => throughLinear(dy, weight(`attention.self.${name}`)));
  return { input: together(mixed, ...ways), sum };
}

/**
 * Returns the loss of a hidden word for the logits of its place, and the probabilities.
 * @param {Float32Array} logits
 * @param {number} word
 */
function lossOf(logits, word) {
  const shares = logits.slice();
  softmax(shares);
  return { loss: -Math.log(shares[word]), shares };
}

/**
 * Goes forward, and back from the loss of a hidden word to the embeddings.
 * @param {import("./bert.js").Bert} bert
 * @param {ModelInput & {place: number, word: number}} input whose token at `place` hides `word`.
 * @returns {{loss: number, states: Tensor[], way: Station[], parts: number[][]}}
 *   `states` has the gradient of the hidden states at every depth. `way` follows one way back, at
 *   each step the number that carries most, with its value, its gradient, and the slope that is
 *   measured by moving it and computing all behind it again. `parts` are the shares of single words
 *   in the gradient of the number "transformed": [word, its gradient, its weight].
 */
export function backward(bert, input) {
  const { place, word } = input;
  const steps = bert.run(input);
  const last = bert.config.num_hidden_layers - 1;
  const own = `layer.${last}`;
  const epsilon = bert.config.layer_norm_eps;
  const head = "cls.predictions.transform";
  /** @param {Tensor} x */
  const rowOf = ({ shape, data }) =>
    tensor([1, shape[1]], data.slice(place * shape[1], (place + 1) * shape[1]));
  const hidden = rowOf(steps.get(`${own}.output`));
  const { dense, bent, transformed } = bert.transform(hidden);
  const logits = bert.decode(transformed);
  const { loss, shares } = lossOf(logits.data, word);

  const dLogits = tensor([1, shares.length], shares.slice());
  dLogits.data[word] -= 1;
  const dTransformed = throughLinear(dLogits, bert.decoder);
  const norm = bert.parameter(`${head}.LayerNorm.weight`);
  const dBent = throughLayerNorm(dTransformed, bent, norm, epsilon);
  const dDense = throughActivation(dBent, dense, bert.activation);
  const matrix = bert.parameter(`${head}.dense.weight`);
  const dHidden = throughLinear(dDense, matrix);

  const [seq, size] = steps.get(`${own}.output`).shape;
  let gradient = tensor([seq, size]);
  gradient.data.set(dHidden.data, place * size);
  const states = [gradient];
  let dSum = gradient; // before the last LayerNorm
  for (let layer = last; layer >= 0; layer--) {
    const found = throughLayer(bert, steps, layer, gradient);
    gradient = found.input;
    dSum = layer === last ? rowOf(found.sum) : dSum;
    states.unshift(gradient);
  }

  const sum = rowOf(steps.get(`${own}.sum`));
  const inner = rowOf(steps.get(`${own}.intermediate`));
  /** @type {((x: Tensor) => number)[]} the loss from each step on */
  const from = [(x) => lossOf(x.data, word).loss];
  from.push((x) => from[0](bert.decode(x)));
  from.push((x) => from[1](bert.layerNorm(x, `${head}.LayerNorm`)));
  from.push((x) => from[2](tensor(x.shape, x.data.map(bert.activation))));
  from.push((x) => from[3](bert.linear(x, `${head}.dense`)));
  from.push((x) => from[4](bert.layerNorm(x, `encoder.${own}.output.LayerNorm`)));
  /**
   * Moves one number up and down.
   * @param {number} step
   * @param {Tensor} x
   * @param {number} i
   * @param {number} [by]
   */
  const measured = (step, x, i, by = 1) => {
    const [up, down] = [NUDGE, -NUDGE].map((nudge) => {
      const data = x.data.slice();
      data[i] += nudge * by;
      return from[step](tensor(x.shape, data));
    });
    return (up - down) / (2 * NUDGE);
  };
  const i = largest(dSum.data);
  const neuron = largest(inner.data);
  const k = largest(
    dDense.data.map(
      (/** @type {number} */ slope, /** @type {number} */ at) => slope * matrix.data[at * size + i],
    ),
  );
  /**
   * @param {string} name
   * @param {number} step
   * @param {Tensor} x
   * @param {Tensor} dx
   * @param {number} at
   */
  const station = (name, step, x, dx, at) => ({
    name,
    at: [at],
    value: x.data[at],
    gradient: dx.data[at],
    measured: measured(step, x, at),
  });
  const way = [
    station("score", 0, logits, dLogits, word),
    station("transformed", 1, transformed, dTransformed, k),
    station("bent", 2, bent, dBent, k),
    station("dense", 3, dense, dDense, k),
    station("output", 4, hidden, dHidden, i),
    station("sum", 5, sum, dSum, i),
    {
      name: "weight",
      at: [i, neuron],
      value: bert.parameter(`encoder.${own}.output.dense.weight`).data[i * inner.shape[1] + neuron],
      gradient: dSum.data[i] * inner.data[neuron],
      measured: measured(5, sum, i, inner.data[neuron]),
    },
  ];
  return { loss, states, way, parts: partsOf(dLogits.data, bert.decoder, k) };
}

/**
 * Returns the index of the largest number, its sign aside.
 * @param {Float32Array} values
 */
function largest(values) {
  return values.reduce(
    (best, value, at) => (Math.abs(value) > Math.abs(values[best]) ? at : best),
    0,
  );
}

/**
 * Returns the words whose scores bring most of the gradient to a number: [word, gradient, weight].
 * @param {Float32Array} dLogits
 * @param {Tensor} decoder
 * @param {number} k
 */
function partsOf(dLogits, decoder, k) {
  const size = decoder.shape[1];
  const parts = Array.from(dLogits, (slope, id) => [id, slope, decoder.data[id * size + k]]);
  return parts.sort((a, b) => Math.abs(b[1] * b[2]) - Math.abs(a[1] * a[2])).slice(0, 3);
}
