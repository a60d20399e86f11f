// Experiments over many sentences. One sentence suggests a result, and a scene then tests it on
// dozens.
//
// The results for the bundled models are shipped with the page: scripts/measure_scenes.py wrote
// them, and tests compare them with PyTorch. The page measures some of them again while the reader
// reads, and says how many came out the same. With another model it measures all of them itself. A
// scene concludes only when its experiments are complete.

import { average } from "../model/statistics.js";
import { page } from "../state/page.js";
import { announce } from "../state/store.js";
import { t } from "../state/words.js";

const REPEATED = 20; // items of a shipped experiment that are measured again

const PATIENCE = 5000; // milliseconds that this may take

/**
 * @template [Item=any]
 */
export class Experiment {
  /** @type {Map<string, Experiment>} All experiments, by name. */
  static all = new Map();
  /** @type {any[] | undefined} */
  found;

  /**
   * @param {string} name key of the shipped results.
   * @param {() => Item[]} items returns the items to measure.
   * @param {(item: Item, index: number) => Promise<any>} measure returns a result, ready for JSON.
   * @param {(a: any, b: any) => boolean} alike whether two results of one item agree.
   */
  constructor(name, items, measure, alike = isAlike) {
    const again = { count: 0, alike: 0, tried: false };
    this.name = name;
    this.items = items;
    this.measure = measure;
    this.alike = alike;
    this.again = again;
    this.running = false;
    Experiment.all.set(name, this);
  }

  /** @returns {any[]} */
  get results() {
    return (this.found ??= page.lesson?.measured?.[this.name] ?? []);
  }

  get complete() {
    return this.results.length >= this.items().length;
  }

  /** Returns whether the results came with the page. */
  get isShipped() {
    return Boolean(page.lesson?.measured?.[this.name]);
  }

  /**
   * Measures the missing items while `wanted()`, or repeats some if none is missing.
   * @param {() => boolean} wanted
   */
  async begin(wanted) {
    if (this.running || (this.complete && (this.again.tried || !this.isShipped))) {
      return;
    }
    this.running = true;
    try {
      await (this.complete ? this.repeat(wanted) : this.finish(wanted));
    } finally {
      this.running = false;
    }
    announce("measured");
  }

  /** @param {() => boolean} wanted */
  async finish(wanted) {
    while (!this.complete && wanted()) {
      const index = this.results.length;
      this.results.push(await this.measure(this.items()[index], index));
      if (index % 10 === 0) {
        announce("measured");
      }
    }
  }

  /**
   * Measures items that are spread over the list again, and compares them with the results.
   * @param {() => boolean} wanted
   */
  async repeat(wanted) {
    const items = this.items();
    const many = Math.min(REPEATED, items.length);
    const end = performance.now() + PATIENCE;
    for (let i = this.again.count; i < many && wanted() && performance.now() < end; i++) {
      const index = Math.floor((i * items.length) / many);
      const result = await this.measure(items[index], index);
      this.again.count += 1;
      this.again.alike += Number(this.alike(result, this.results[index]));
    }
    this.again.tried = wanted();
  }
}

/**
 * Returns whether two results agree: numbers within 0.01, everything else exactly.
 * @param {any} a
 * @param {any} b
 * @returns {boolean}
 */
function isAlike(a, b) {
  if (typeof a === "number" && typeof b === "number") {
    return Math.abs(a - b) <= 0.01 * Math.max(1, Math.abs(b));
  }
  if (a && b && typeof a === "object" && typeof b === "object") {
    const names = Object.keys(a);
    return names.length === Object.keys(b).length && names.every((key) => isAlike(a[key], b[key]));
  }
  return a === b;
}

/**
 * Returns the progress of experiments, from 0 to 1.
 * @param {any[]} experiments
 */
export function progressOf(experiments) {
  /** @param {{results: any[], items: any}} of */
  const part = ({ results, items }) => Math.min(results.length / Math.max(items().length, 1), 1);
  return {
    running: experiments.some(({ running, complete }) => running && !complete),
    part: experiments.length ? average(experiments.map(part)) : 1,
  };
}

/**
 * Returns how many results of experiments were measured again, in words.
 * @param {any[]} experiments
 */
export function saidAgain(experiments) {
  const shipped = experiments.filter(({ isShipped, again }) => isShipped && again.count > 0);
  /** @param {any} f */
  const sum = (f) => shipped.reduce((total, own) => total + f(own), 0);
  return shipped.length
    ? t("lesson.again.said", {
        count: sum((/** @type {any} */ { again }) => again.count),
        alike: sum((/** @type {any} */ { again }) => again.alike),
        total: sum((/** @type {any} */ { results }) => results.length),
      })
    : "";
}
