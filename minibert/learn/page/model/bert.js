// BERT in JavaScript: one sequence through the encoder and its two pre-training heads, with every
// step visible.
//
// All results are kept in a Map under the names of minibert.trace, without the batch axis, so that
// every value can be found in Python, too:
//
//   steps.get("layer.3.attention.scores")     here      (heads, seq, seq)
//   t["layer.3.attention.scores"][0]          in Python
//
// Parameters have their names in the official checkpoints. Layers and heads count from 0.

import { LOWEST, visibleKeys } from "./sides.js";
import { softmax } from "./softmax.js";
import { tensor } from "./tensor.js";

/**
 * Computes x W^T + b for every row of x: (seq, in) to (seq, out). W is (out, in), as in PyTorch.
 *
 * Two rows of W are multiplied with four tokens at a time, so that each value is loaded once for
 * several products. If fewer tokens are left, the last one is repeated, which is faster than a
 * separate loop for single tokens.
 * @param {Tensor} x
 * @param {Tensor} weight
 * @param {Tensor | undefined} bias
 */
function linear(x, weight, bias) {
  const [seq, size] = x.shape;
  const out = weight.shape[0];
  const y = tensor([seq, out]);
  const X = x.data;
  const W = weight.data;
  const Y = y.data;
  for (let o = 0; o < out; o += 2) {
    const p = Math.min(o + 1, out - 1);
    const v = o * size;
    const w = p * size;
    const [b, c] = bias ? [bias.data[o], bias.data[p]] : [0, 0];
    for (let s = 0; s < seq; s += 4) {
      const s1 = Math.min(s + 1, seq - 1);
      const s2 = Math.min(s + 2, seq - 1);
      const s3 = Math.min(s + 3, seq - 1);
      const x0 = s * size;
      const x1 = s1 * size;
      const x2 = s2 * size;
      const x3 = s3 * size;
      let b0 = b;
      let b1 = b;
      let b2 = b;
      let b3 = b;
      let c0 = c;
      let c1 = c;
      let c2 = c;
      let c3 = c;
      for (let i = 0; i < size; i++) {
        const vi = W[v + i];
        const wi = W[w + i];
        b0 += X[x0 + i] * vi;
        c0 += X[x0 + i] * wi;
        b1 += X[x1 + i] * vi;
        c1 += X[x1 + i] * wi;
        b2 += X[x2 + i] * vi;
        c2 += X[x2 + i] * wi;
        b3 += X[x3 + i] * vi;
        c3 += X[x3 + i] * wi;
      }
      Y[s * out + o] = b0;
      Y[s * out + p] = c0;
      Y[s1 * out + o] = b1;
      Y[s1 * out + p] = c1;
      Y[s2 * out + o] = b2;
      Y[s2 * out + p] = c2;
      Y[s3 * out + o] = b3;
      Y[s3 * out + p] = c3;
    }
  }
  return y;
}

/**
 * Normalizes every row to mean 0 and variance 1, then applies the learned scale and shift
 * (Ba et al. 2016).
 * @param {Tensor} x
 * @param {Tensor} weight
 * @param {Tensor} bias
 * @param {number} epsilon
 */
function layerNorm(x, weight, bias, epsilon) {
  const [seq, size] = x.shape;
  const y = tensor(x.shape);
  for (let s = 0; s < seq; s++) {
    const row = x.data.subarray(s * size, (s + 1) * size);
    let mean = 0;
    let variance = 0;
    for (const value of row) {
      mean += value / size;
    }
    for (const value of row) {
      variance += (value - mean) ** 2 / size;
    }
    const scale = 1 / Math.sqrt(variance + epsilon);
    for (let i = 0; i < size; i++) {
      y.data[s * size + i] = (row[i] - mean) * scale * weight.data[i] + bias.data[i];
    }
  }
  return y;
}

// Loops, because `map` of a typed array takes several times as long.
/**
 * @param {Tensor} x
 * @param {Tensor} y
 */
function add(x, y) {
  const sum = tensor(x.shape);
  for (let i = 0; i < sum.data.length; i++) {
    sum.data[i] = x.data[i] + y.data[i];
  }
  return sum;
}

/**
 * @param {(value: number) => number} f
 * @param {Tensor} x
 */
function apply(f, x) {
  const y = tensor(x.shape);
  for (let i = 0; i < y.data.length; i++) {
    y.data[i] = f(x.data[i]);
  }
  return y;
}

/**
 * The error function, accurate to 1.5e-7 (Abramowitz and Stegun 1964, 7.1.26).
 * @param {number} x
 */
function erf(x) {
  const t = 1 / (1 + 0.3275911 * Math.abs(x));
  const series =
    ((((1.061405429 * t - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t + 0.254829592) * t;
  return Math.sign(x) * (1 - series * Math.exp(-x * x));
}

/** @param {number} x */
const tanhGelu = (x) => 0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3)));

/** @param {number} x */
const silu = (x) => x / (1 + Math.exp(-x));

/** @type {Record<string, (x: number) => number>} */
const ACTIVATIONS = {
  /** @param {number} x */
  gelu: (x) => 0.5 * x * (1 + erf(x / Math.SQRT2)),
  gelu_new: tanhGelu,
  gelu_pytorch_tanh: tanhGelu,
  /** @param {number} x */
  relu: (x) => Math.max(x, 0),
  silu,
  swish: silu,
  tanh: Math.tanh,
};

/**
 * Reshapes (seq, hidden) to (heads, seq, size). Each head gets its own slice of every row.
 * @param {Tensor} x
 * @param {number} heads
 */
function splitHeads(x, heads) {
  const [seq, hidden] = x.shape;
  const size = hidden / heads;
  const y = tensor([heads, seq, size]);
  for (let h = 0; h < heads; h++) {
    for (let s = 0; s < seq; s++) {
      y.data.set(
        x.data.subarray(s * hidden + h * size, s * hidden + (h + 1) * size),
        (h * seq + s) * size,
      );
    }
  }
  return y;
}

/**
 * Returns the dot product of every query and every key, over the root of the head size:
 * (heads, seq, seq).
 * @param {Tensor} query
 * @param {Tensor} key
 */
function attentionScores(query, key) {
  const [heads, seq, size] = query.shape;
  const scores = tensor([heads, seq, seq]);
  for (let h = 0, at = 0; h < heads; h++) {
    for (let q = 0; q < seq; q++) {
      for (let k = 0; k < seq; k++, at++) {
        let sum = 0;
        for (let i = 0; i < size; i++) {
          sum += query.data[(h * seq + q) * size + i] * key.data[(h * seq + k) * size + i];
        }
        scores.data[at] = sum / Math.sqrt(size);
      }
    }
  }
  return scores;
}

/**
 * Adds the mask to the scores of every head: 0 where a query may attend to a key, else the lowest
 * number. `visible` is (seq, seq).
 * @param {Tensor} scores
 * @param {ArrayLike<unknown>} visible
 */
const maskScores = (scores, visible) =>
  tensor(
    scores.shape,
    scores.data.map((/** @type {number} */ score, /** @type {number} */ at) =>
      visible[at % visible.length] ? score : score + LOWEST,
    ),
  );

/**
 * Replaces the weights of every `sharing` heads in a row by their mean, in place.
 * @param {Tensor} of
 * @param {number} sharing
 */
function shareWeights({ shape: [heads, seq], data }, sharing) {
  const size = seq * seq;
  for (let from = 0; from < heads; from += sharing) {
    const count = Math.min(sharing, heads - from);
    for (let i = 0; i < size; i++) {
      let mean = 0;
      for (let h = 0; h < count; h++) {
        mean += data[(from + h) * size + i] / count;
      }
      for (let h = 0; h < count; h++) {
        data[(from + h) * size + i] = mean;
      }
    }
  }
}

/**
 * Gives each head the weights of the next one, and the last head those of the first, in place.
 * @param {Tensor} of
 */
function shiftWeights({ shape: [, seq], data }) {
  const first = data.slice(0, seq * seq);
  data.copyWithin(0, seq * seq);
  data.set(first, data.length - seq * seq);
}

/**
 * Returns the values weighted by the probabilities, with heads concatenated: (seq, hidden).
 * @param {Tensor} probabilities
 * @param {Tensor} value
 */
function weighValues(probabilities, value) {
  const [heads, seq, size] = value.shape;
  const context = tensor([seq, heads * size]);
  for (let h = 0; h < heads; h++) {
    for (let q = 0; q < seq; q++) {
      for (let k = 0; k < seq; k++) {
        const share = probabilities.data[(h * seq + q) * seq + k];
        for (let i = 0; i < size; i++) {
          context.data[(q * heads + h) * size + i] += share * value.data[(h * seq + k) * size + i];
        }
      }
    }
  }
  return context;
}

export class Bert {
  /**
   * @param {ModelConfig} config as in config.json.
   * @param {Map<string, Tensor>} parameters from official names, without "bert.", to tensors.
   * @param {import("./product.js").Product | null} [product] what holds the parameters, or null.
   */
  constructor(config, parameters, product = null) {
    const activation = ACTIVATIONS[config.hidden_act];
    this.config = config;
    this.parameters = parameters;
    this.product = product;
    this.activation = activation;
  }

  /**
   * Returns a parameter. A name that the model lacks gives undefined.
   * @param {string} name
   */
  parameter(name) {
    return /** @type {Tensor} */ (this.parameters.get(name));
  }
  /**
   * Returns a copy of some rows of a parameter.
   * @param {string} name
   * @param {number[]} rows
   */
  rows(name, rows) {
    const { shape, data } = this.parameter(name);
    const size = shape[1] ?? 1;
    const found = tensor([rows.length, ...shape.slice(1)]);
    rows.forEach((row, r) => found.data.set(data.subarray(row * size, (row + 1) * size), r * size));
    return found;
  }
  /**
   * @param {Tensor} x
   * @param {string} name
   */
  linear(x, name) {
    return this.multiply(x, this.parameter(`${name}.weight`), this.parameter(`${name}.bias`));
  }
  /**
   * @param {Tensor} x
   * @param {Tensor} weight
   * @param {Tensor | undefined} bias
   */
  multiply(x, weight, bias) {
    return this.product?.multiply(x, weight, bias) ?? linear(x, weight, bias);
  }
  /**
   * @param {Tensor} x
   * @param {string} name
   */
  layerNorm(x, name) {
    return layerNorm(
      x,
      this.parameter(`${name}.weight`),
      this.parameter(`${name}.bias`),
      this.config.layer_norm_eps,
    );
  }

  /**
   * Runs the encoder, and the pooler and next-sentence head if the model has them.
   * @param {ModelInput} input an object with these properties:
   * - ids, types, mask: one entry for each token.
   * - sides: which side of itself a token may attend to, a name in SIDES.
   * - off: heads to switch off as [layer, head], and layers to skip as [layer]. A head that is off
   *   mixes zeros. Biases and LayerNorm stay.
   * - idle: layers whose feed-forward network is off in the same way: its inner values are zeros.
   * - sharing: how many heads in a row share one set of weights, the mean of their own.
   * - shifted: whether each head weighs its values with the weights of the next head.
   * - from: the first layer to run.
   * - states: the input of that layer, instead of the embeddings.
   * @returns Map from the names of minibert.trace to tensors, in order of computation.
   */
  run(input) {
    const { ids, types, mask, sides = "both", off = [], from = 0, states = null } = input;
    const { idle = [], sharing = 1, shifted = false } = input;
    const steps = new Map();
    const visible = visibleKeys(mask, sides);
    let hidden = states ?? this.embed(ids, types, steps);
    if (from) {
      steps.set(`layer.${from - 1}.output`, hidden);
    }
    for (let layer = from; layer < this.config.num_hidden_layers; layer++) {
      const own = off.filter(([which]) => which === layer);
      const output = this.layer(layer, hidden, visible, steps, {
        silent: own.filter((at) => at.length > 1).map((at) => at[1]),
        idle: idle.includes(layer),
        sharing,
        shifted,
      });
      if (!own.some((at) => at.length === 1)) {
        hidden = output;
      }
      steps.set(`layer.${layer}.output`, hidden);
    }
    if (this.parameter("pooler.dense.weight")) {
      this.pool(hidden, steps);
    }
    return steps;
  }

  /**
   * Sums word, segment and position embeddings and normalizes them. Order enters the model only
   * here.
   * @param {number[]} ids
   * @param {number[]} types
   * @param {Map<string, Tensor>} steps
   */
  embed(ids, types, steps) {
    /**
     * @param {string} name
     * @param {number[]} rows
     */
    const look = (name, rows) => this.rows(`embeddings.${name}.weight`, rows);
    const word = look("word_embeddings", ids);
    const type = look("token_type_embeddings", types);
    const position = look("position_embeddings", Array.from(ids.keys()));
    const sum = add(add(word, type), position);
    const output = this.layerNorm(sum, "embeddings.LayerNorm");
    const names = { word, token_type: type, position, sum, normalized: output, output };
    for (const [name, value] of Object.entries(names)) {
      steps.set(`embeddings.${name}`, value);
    }
    return output;
  }

  /**
   * Runs one encoder layer: attention between tokens, then a feed-forward network on each token.
   * Both add their output to their input.
   * @param {number} number
   * @param {Tensor} hidden
   * @param {ArrayLike<unknown>} visible
   * @param {Map<string, Tensor>} steps
   * @param {{silent: number[], idle: boolean, sharing: number, shifted: boolean}} changes what is
   *   taken away or mixed up: see `run`.
   */
  layer(number, hidden, visible, steps, { silent, idle, sharing, shifted }) {
    const own = `encoder.layer.${number}`;
    /**
     * @param {string} name
     * @param {Tensor} value
     */
    const keep = (name, value) => {
      steps.set(`layer.${number}.${name}`, value);
      return value;
    };
    const [query, key, value] = ["query", "key", "value"].map((name) =>
      keep(
        `attention.${name}`,
        splitHeads(
          this.linear(hidden, `${own}.attention.self.${name}`),
          this.config.num_attention_heads,
        ),
      ),
    );

    const scores = keep("attention.scores", attentionScores(query, key));
    const masked = keep("attention.masked_scores", maskScores(scores, visible));
    const probabilities = keep(
      "attention.probabilities",
      tensor(masked.shape, masked.data.slice()),
    );
    const seq = hidden.shape[0];
    for (let at = 0; at < probabilities.data.length; at += seq) {
      softmax(probabilities.data.subarray(at, at + seq));
    }
    if (sharing > 1) {
      shareWeights(probabilities, sharing);
    }
    if (shifted) {
      shiftWeights(probabilities);
    }
    for (const head of silent) {
      probabilities.data.fill(0, head * seq * seq, (head + 1) * seq * seq);
    }
    const context = keep("attention.context", weighValues(probabilities, value));

    const projected = keep(
      "attention.projected",
      this.linear(context, `${own}.attention.output.dense`),
    );
    const sum = keep("attention.sum", add(projected, hidden));
    const attended = keep(
      "attention.output",
      this.layerNorm(sum, `${own}.attention.output.LayerNorm`),
    );

    const widened = keep("widened", this.linear(attended, `${own}.intermediate.dense`));
    const activation = idle ? () => 0 : this.activation;
    const intermediate = keep("intermediate", apply(activation, widened));
    const narrowed = keep("narrowed", this.linear(intermediate, `${own}.output.dense`));
    return this.layerNorm(keep("sum", add(narrowed, attended)), `${own}.output.LayerNorm`);
  }

  /**
   * Runs the pooler, a linear layer and tanh on [CLS], and the next-sentence head.
   * @param {Tensor} hidden
   * @param {Map<string, Tensor>} steps
   */
  pool(hidden, steps) {
    const cls = tensor([1, hidden.shape[1]], hidden.data.slice(0, hidden.shape[1]));
    const dense = this.linear(cls, "pooler.dense");
    const output = apply(Math.tanh, dense);
    // The pooler has one token, so its results have no token axis.
    /**
     * @param {string} name
     * @param {Tensor} of
     */
    const keep = (name, { data }) => steps.set(name, tensor([data.length], data));
    for (const [name, value] of Object.entries({ cls, dense, output })) {
      keep(`pooler.${name}`, value);
    }
    if (this.parameter("cls.seq_relationship.weight")) {
      keep("nsp.logits", this.linear(output, "cls.seq_relationship"));
    }
  }

  /**
   * Returns the steps of the MLM head before it compares states with words: each (seq, hidden).
   * @param {Tensor} states
   */
  transform(states) {
    const dense = this.linear(states, "cls.predictions.transform.dense");
    const bent = apply(this.activation, dense);
    return {
      dense,
      bent,
      transformed: this.layerNorm(bent, "cls.predictions.transform.LayerNorm"),
    };
  }

  /** The matrix with a row for every word, which is that of the embeddings unless it has its own. */
  get decoder() {
    return (
      this.parameter("cls.predictions.decoder.weight") ??
      this.parameter("embeddings.word_embeddings.weight")
    );
  }

  /**
   * Compares the last step of `transform` with every word of the vocabulary: (seq, vocab).
   * @param {Tensor} transformed
   */
  decode(transformed) {
    return this.multiply(transformed, this.decoder, this.parameter("cls.predictions.bias"));
  }

  /**
   * Returns the logit of every word of the vocabulary for each row of states: (seq, vocab).
   * @param {Tensor} states
   */
  logits(states) {
    return this.decode(this.transform(states).transformed);
  }

  /**
   * Returns the k best words for every row of states with their probabilities:
   * [[[id, probability], ...], ...]. Null without an MLM head.
   * @param {Tensor} states
   * @param {number} k
   * @param {number} count
   */
  words(states, k, count) {
    if (!this.parameter("cls.predictions.bias")) {
      return null;
    }
    const logits = this.logits(states);
    const size = logits.shape[1];
    return Array.from({ length: states.shape[0] }, (_, s) => {
      const row = logits.data.subarray(s * size, (s + 1) * size);
      /** @type {[number, number][]} */
      const best = [];
      for (let id = 0; id < count; id++) {
        if (best.length === k && row[id] <= best[k - 1][1]) {
          continue;
        }
        best.splice(best.findLastIndex(([, logit]) => logit >= row[id]) + 1, 0, [id, row[id]]);
        best.length = Math.min(best.length, k);
      }
      const largest = best[0][1];
      let sum = 0; // the denominator of the softmax, needed only for the best
      for (let id = 0; id < size; id++) {
        sum += Math.exp(row[id] - largest);
      }
      return best.map(([id, logit]) => [id, Math.exp(logit - largest) / sum]);
    });
  }
}
