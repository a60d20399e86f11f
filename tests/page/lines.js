// Answers requests to models of the page, one JSON line each, for tests/laboratory.

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

let live;
for await (const line of createInterface({ input: process.stdin })) {
  const { model, request } = JSON.parse(line);
  let answer;
  try {
    if (model) {
      live = await Live.start(model, settings);
    }
    const { tokens, steps } = await live.compute(request);
    const values = [...steps].map(([name, { shape, data }]) => [name, { shape, data: [...data] }]);
    answer = { tokens: tokens.map(({ id }) => id), steps: Object.fromEntries(values) };
  } catch (error) {
    answer = { error: String(error) };
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
