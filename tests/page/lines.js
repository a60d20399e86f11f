// Answers questions to the model of the page, one JSON line each, for tests/node_page.py:
// - model: content of a page, from which the model and its tokenizer are loaded first
// - request: what is computed; words: whether the best words of each token are wanted, too
// - encode: texts that are tokenized, as [id, start, end] for each token

import { createInterface } from "node:readline";

const MODULES = new URL("../../minibert/learn/page/model/", import.meta.url);
const { Live } = await import(new URL("live.js", MODULES).href);
const { answerOf } = await import(new URL("answers.js", MODULES).href);

/** A worker that answers in this process. */
class SameProcess {
  postMessage({ id, ...question }) {
    answerOf(question).then(
      (answer) => this.onmessage({ data: { id, answer } }),
      (error) => this.onmessage({ data: { id, error: String(error) } }),
    );
  }
}

const settings = {
  worker: () => new SameProcess(),
  longest: 512,
  best: 5,
  tooLong: (count, most) => `${count} tokens, but at most ${most}`,
};

/** Returns what a request computes. */
async function computed(live, request, wantsWords) {
  const { tokens, steps } = await live.compute(request);
  const values = [...steps].map(([name, { shape, data }]) => [name, { shape, data: [...data] }]);
  const last = [...steps].findLast(([name]) => /^layer\.\d+\.output$/.test(name));
  return {
    tokens: tokens.map(({ id }) => id),
    pieces: tokens.map(({ piece }) => piece),
    steps: Object.fromEntries(values),
    words: wantsWords ? await live.words(last[1]) : null,
  };
}

let live;
for await (const line of createInterface({ input: process.stdin })) {
  const { model, request, words, encode } = JSON.parse(line);
  let answer;
  try {
    if (model) {
      live = await Live.start(model, settings);
    }
    answer = encode
      ? {
          tokens: encode.map((text) =>
            live.tokenizer.encode(text).map(({ id, start, end }) => [id, start, end]),
          ),
        }
      : await computed(live, request, words);
  } catch (error) {
    answer = { error: String(error) };
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
