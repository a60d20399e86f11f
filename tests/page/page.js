// The modules of the page in Node.js: with the data of a page that Python wrote, a model that
// computes in this process instead of a worker, and a document in which nothing happens.

import { readFileSync } from "node:fs";

export const MODULES = new URL("../../minibert/learn/page/", import.meta.url);

/** An object that has every property, can be called, and gives itself. */
const nothing = new Proxy(function () {}, {
  get: (_, name) => {
    if (name === Symbol.toPrimitive) {
      return () => "";
    }
    if (name === Symbol.iterator) {
      return function* () {};
    }
    return name === "then" ? undefined : nothing;
  },
  set: () => true,
  has: () => true,
  apply: () => nothing,
  construct: () => nothing,
});

/** A worker that answers in this process. */
class SameProcess {
  constructor(answerOf) {
    this.answerOf = answerOf;
  }
  postMessage({ id, ...question }) {
    this.answerOf(question).then(
      (answer) => this.onmessage({ data: { id, answer } }),
      (error) => this.onmessage({ data: { id, error: String(error) } }),
    );
  }
}

/** Returns the data of a page that Python wrote. */
function dataOf(file) {
  const [, data] = /<script type="application\/json" id="data">(.*?)<\/script>/s.exec(
    readFileSync(file, "utf-8"),
  );
  return data;
}

/**
 * Loads the modules of the page, once for a process: they read its data when they are imported.
 * @param {string} language of the article, whose page the environment names.
 * @returns {Promise<Record<string, any>>} what the modules export, by its name alone.
 */
export async function openPage(language) {
  const data = { textContent: dataOf(process.env[`PAGE_${language.toUpperCase()}`]) };
  const address = { hash: "", replaceState: (_state, _title, hash) => (address.hash = hash) };
  const document = new Proxy(nothing, {
    get: (_, name) =>
      name === "getElementById" ? (id) => (id === "data" ? data : nothing) : nothing[name],
  });
  const globals = { document, location: address, history: address, navigator: { language } };
  for (const [name, value] of Object.entries({ ...globals, OffscreenCanvas: nothing })) {
    Object.defineProperty(globalThis, name, { value, configurable: true });
  }
  const load = (module) => import(new URL(module, MODULES).href);
  const { answerOf } = await load("model/answers.js");
  const names = {};
  for (const module of [
    "model/wordpiece.js",
    "model/live.js",
    "model/answers.js",
    "state/page.js",
    "state/store.js",
    "state/current.js",
    "state/computed-text.js",
    "state/particles.js",
    "state/words.js",
    "state/address.js",
    "article/amounts.js",
    "article/contents.js",
    "article/beginning.js",
    "article/order.js",
    "article/question.js",
    "article/verdict.js",
    "ask/entries.js",
    "ask/doors.js",
    "ask/search.js",
    "views/strip/model-parts.js",
  ]) {
    Object.assign(names, await load(module));
  }
  const { page, words, current, state, Live, settings } = names;
  settings.worker = () => new SameProcess(answerOf);
  state.language = "en";
  await names.readLesson();
  for (const [key, said] of Object.entries(page.lesson.texts)) {
    for (const reader of ["en", "ko"]) {
      words[reader][`lesson.${key}`] = said[reader];
    }
  }
  current.live = await Live.start(page.live, settings);
  await names.readEntries();
  return names;
}
