// What Python wrote into the page for the article, and what is computed once for all scenes.

import { inflate } from "../model/inflate.js";
import { current } from "../state/current.js";
import { page } from "../state/page.js";

/** Unpacks the article, before anything else needs it. */
export async function readLesson() {
  if (page.lesson) {
    const text = new TextDecoder().decode(await inflate(page.lesson.packed));
    Object.assign(page.lesson, JSON.parse(text));
  }
}

/** @type {(name: string) => any} */
export const crowd = (name) => page.lesson.crowds[name];

/** @param {string} name */
export const example = (name) => page.lesson.examples[name]; // what a shared scene takes from its article

/**
 * Returns what was measured in Python about the bundled model, or nothing for another model.
 * @param {string} name
 */
export const studied = (name) => page.lesson?.studied?.[name];

const kept = new Map(); // computed values by name

/**
 * @param {string} name
 * @param {() => any} compute
 */
export function keep(name, compute) {
  if (!kept.has(name)) {
    kept.set(name, compute());
  }
  return kept.get(name);
}

export const computed = new Map(); // sentences by text, each computed once

/** @param {string} text */
export function computeOnce(text) {
  if (!computed.has(text)) {
    computed.set(text, current.live.compute({ text }));
  }
  return computed.get(text);
}

export const labeledTexts = () => [...page.lesson.labeled.train, ...page.lesson.labeled.test];

/** The article's prompts with one [MASK], from the scene on a layer. */
export const prompts = () => example("layer").many ?? [];
