// The entries of "Ask": common questions about BERT, and a glossary.

import { inflate } from "../model/inflate.js";
import { current } from "../state/current.js";
import { page } from "../state/page.js";
import { EXAMPLES } from "../views/compare/examples.js";

/** @type {any[]} */
export const questions = [];

/** All entries: the questions, and the terms in the same form. */
/** @type {any[]} */
export const entries = [];

/** Decodes the questions and terms, before anything is built from them. */
export async function readEntries() {
  const text = new TextDecoder().decode(await inflate(page.entries));
  const { questions: all, terms, spellings } = JSON.parse(text);
  Object.assign(page, { terms, spellings });
  questions.push(...all);
  entries.push(...questions, ...Object.entries(terms).map(asEntry));
}

/** @param {any[]} of */
function asEntry([name, term]) {
  const texts = ["en", "ko"].map((language) => {
    const { forms, say, ask: [question, ...also] = [] } = term[language];
    return [language, { question: question ?? forms[0], also: [...also, ...forms], answer: say }];
  });
  const { elsewhere = false } = term; // questions on other subjects, which nothing here answers
  return { id: name, isTerm: true, elsewhere, ...Object.fromEntries(texts) };
}

/** Returns the language of the model. Doors show texts in that language. */
export const modelLanguage = () => (current.live.tokenizer.ids.has(EXAMPLES.ko[0]) ? "ko" : "en");

/** @param {string} text */
export const languageOf = (text) => (/\p{Script=Hangul}/u.test(text) ? "ko" : "en");

/** @param {{question: any, also: string[]}} of */
export const phrasings = ({ question, also }) => [question, ...also];
