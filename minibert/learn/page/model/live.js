// The live model, as the page asks it: its tokenizer, and a worker that computes.

import { inflate } from "./inflate.js";
import { Numbers } from "./numbers.js";
import { WordPiece } from "./wordpiece.js";

export class Live {
  /**
   * Returns a model, once its tokenizer is unpacked.
   * @param content {config, parameters, tokenizer, floats, whole}, as live.py embeds it.
   * @param settings {worker: () => a Worker that runs model/worker.js, longest: the number of tokens
   *   of the longest text, best: how many words are predicted, tooLong: (count, most) => what is
   *   said of a longer text}.
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
    live.waiting = new Map();
    live.types = content.parameters.find(([name]) => name.includes("token_type"))[1][0];
    live.predicts = content.parameters.some(([name]) => name === "cls.predictions.bias");
    live.worker.onmessage = ({ data: { id, answer, error } }) => {
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
  /** Returns another model in the same worker, with the same tokenizer. */
  with(content) {
    const other = Object.assign(Object.create(this), { model: (Live.made = (Live.made ?? 0) + 1) });
    other.ask("load", { ...content, tokenizer: null });
    return other;
  }
  ask(kind, input) {
    const id = (Live.asked = (Live.asked ?? 0) + 1);
    return new Promise((resolve, reject) => {
      this.waiting.set(id, { resolve, reject });
      this.worker.postMessage({ id, kind, input, model: this.model });
    });
  }
  /**
   * Returns the tokens of a request {text, pair, masked, padTo, type}. An invalid request throws an
   * error with a message for the reader.
   */
  tokens({ text, pair = null, masked = [], padTo = 0, type = null }) {
    const tokens = this.tokenizer
      .encode(text, pair, padTo)
      .map((token) => ({ ...token, segment: type ?? token.type }));
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
  async compute(request) {
    const tokens = this.tokens(request);
    const { text, pair = null, off = [], sides = "both", from = 0, states = null } = request;
    const { idle = [], sharing = 1, shifted = false } = request;
    const column = (name) => tokens.map((token) => token[name]);
    const found = await this.ask("run", {
      ids: column("id"),
      types: column("segment"),
      mask: column("mask"),
      sides,
      off,
      idle,
      sharing,
      shifted,
      from,
      states,
    });
    const steps = new Map(Array.from(found, ([name, step]) => [name, new Numbers(step)]));
    return {
      request,
      tokens,
      steps,
      texts: pair === null ? [text] : [text, pair],
      lens: [],
      live: true,
    };
  }
  /** Returns the steps of the MLM head for one state, and the best words with their logits. */
  async transform(states) {
    const { vocabulary } = this.tokenizer;
    const { steps, best } = await this.ask("transform", {
      states,
      k: this.best,
      count: vocabulary.length,
    });
    return { steps, best: best.map((word) => ({ ...word, word: vocabulary[word.id] })) };
  }
  /** Returns the best words for states (rows, hidden): [[word, probability], ...] for each row. */
  async words(states) {
    const { vocabulary } = this.tokenizer;
    const best = await this.ask("words", {
      states: { shape: states.shape, data: states.data },
      k: this.best,
      count: vocabulary.length,
    });
    return best && best.map((row) => row.map(([id, share]) => [vocabulary[id], share]));
  }
}
