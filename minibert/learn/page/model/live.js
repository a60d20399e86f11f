// The live model, as the page asks it: its tokenizer, and a worker that computes.

import { inflate } from "./inflate.js";
import { Numbers } from "./numbers.js";
import { WordPiece } from "./wordpiece.js";

/**
 * Returns what the model reads of tokens.
 * @param {Token[]} tokens
 */
const columnsOf = (tokens) => ({
  ids: tokens.map(({ id }) => id),
  types: tokens.map(({ segment }) => segment ?? 0),
  mask: tokens.map(({ mask }) => mask),
});

export class Live {
  /** @type {any} a WordPiece */
  tokenizer;
  /** @type {any} a Worker */
  worker;
  /** @type {Map<number, any>} the promises of its answers, by the number of the question */
  waiting = new Map();
  longest = 0;
  best = 0;
  types = 0; // rows of the table of segments
  predicts = false; // whether it has an MLM head
  /** @type {any} (count, most) => what is said of a longer text */
  tooLong;
  static made = 0;
  static asked = 0;
  model = 0; // its number in the worker

  /**
   * Returns a model, once its tokenizer is unpacked.
   * @param {any} content config, parameters, tokenizer, floats and whole, as live.py embeds them.
   * @param {{worker: () => any, longest: number, best: number,
   *   tooLong: (count: number, most: number) => string}} settings
   *   its worker, the number of tokens of the longest text, how many words are predicted, and what
   *   is said of a longer text.
   */
  static async start(content, { worker, longest, best, tooLong }) {
    const live = new Live();
    const vocabulary = new TextDecoder()
      .decode(await inflate(content.tokenizer.vocabulary))
      .split("\n");
    live.tokenizer = new WordPiece({ ...content.tokenizer, vocabulary });
    live.longest = Math.min(longest, content.max_tokens);
    live.best = best;
    live.tooLong = tooLong;
    live.worker = worker();
    live.types = content.parameters.find((/** @type {any[]} */ [name]) =>
      name.includes("token_type"),
    )[1][0];
    live.predicts = content.parameters.some(
      (/** @type {any[]} */ [name]) => name === "cls.predictions.bias",
    );
    live.worker.onmessage = (/** @type {any} */ { data: { id, answer, error } }) => {
      const { resolve, reject } = live.waiting.get(id);
      live.waiting.delete(id);
      if (error) {
        reject(new Error(error));
      } else {
        resolve(answer);
      }
    };
    return live.with(content);
  }
  /**
   * Returns another model in the same worker, with the same tokenizer.
   * @param {any} content
   */
  with(content) {
    const other = Object.assign(Object.create(this), { model: (Live.made += 1) });
    other.ask("load", { ...content, tokenizer: null });
    return other;
  }
  /**
   * @returns {Promise<any>} what model/answers.js answers
   * @param {string} kind
   * @param {any} input
   */
  ask(kind, input) {
    const id = (Live.asked += 1);
    return new Promise((resolve, reject) => {
      this.waiting.set(id, { resolve, reject });
      this.worker.postMessage({ id, kind, input, model: this.model });
    });
  }
  /**
   * Returns the tokens of a request {text, pair, masked, padTo, type}. An invalid request throws an
   * error with a message for the reader.
   * @param {ModelRequest} of
   * @returns {Token[]}
   */
  tokens({ text, pair = null, masked = [], padTo = 0, type = null }) {
    const tokens = this.tokenizer
      .encode(text, pair, padTo)
      .map((/** @type {any} */ token) => ({ ...token, segment: type ?? token.type }));
    const { special, ids } = this.tokenizer;
    if (tokens.length > this.longest) {
      throw new Error(this.tooLong(tokens.length, this.longest));
    }
    for (const place of masked) {
      if (!tokens[place]) {
        throw new Error(
          `There is no token ${place} to mask: the text has ${tokens.length}, counted from 0.`,
        );
      }
      Object.assign(tokens[place], { id: ids.get(special.mask), piece: special.mask });
    }
    return tokens;
  }
  /**
   * @returns {Promise<Computed>}
   * @param {ModelRequest} request
   */
  async compute(request) {
    const tokens = this.tokens(request);
    const { text, pair = null, off = [], sides = "both", from = 0, states = null } = request;
    const { idle = [], sharing = 1, shifted = false } = request;
    const found = await this.ask("run", {
      ...columnsOf(tokens),
      sides,
      off,
      idle,
      sharing,
      shifted,
      from,
      states,
    });
    /** @type {any} */
    const steps = new Map(Array.from(found, ([name, step]) => [name, new Numbers(step)]));
    return {
      request: /** @type {PageRequest} */ (request),
      tokens,
      steps,
      texts: pair === null ? [text] : [text, pair],
      lens: [],
      live: true,
    };
  }
  /**
   * Returns what backpropagation finds for a word that one token hides: see model/backward.js.
   * @param {ModelRequest} request
   * @param {number} place
   * @param {number} word
   * @returns {Promise<ReturnType<typeof import("./backward.js").backward>>}
   */
  backward(request, place, word) {
    return this.ask("backward", { ...columnsOf(this.tokens(request)), place, word });
  }
  /**
   * Returns the steps of the MLM head for one state, and the best words with their logits.
   * @param {Tensor} states
   */
  async transform(states) {
    const { vocabulary } = this.tokenizer;
    const { steps, best } = await this.ask("transform", {
      states,
      k: this.best,
      count: vocabulary.length,
    });
    return {
      steps,
      best: best.map((/** @type {any} */ word) => ({ ...word, word: vocabulary[word.id] })),
    };
  }
  /**
   * Returns the best words for states (rows, hidden): [[word, probability], ...] for each row.
   * @param {Tensor} states
   * @returns {Promise<Prediction[][]>}
   */
  async words(states) {
    const { vocabulary } = this.tokenizer;
    const best = await this.ask("words", {
      states: { shape: states.shape, data: states.data },
      k: this.best,
      count: vocabulary.length,
    });
    return (
      best &&
      best.map((/** @type {any} */ row) =>
        row.map((/** @type {any[]} */ [id, share]) => [vocabulary[id], share]),
      )
    );
  }
}
