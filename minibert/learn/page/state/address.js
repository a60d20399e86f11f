// The address stores the state.

import { clamp } from "../model/ranges.js";
import { SIDES } from "../model/sides.js";
import { current } from "./current.js";
import { SECTIONS, page, root, sizes } from "./page.js";
import { state } from "./store.js";

/** @type {any[]} */
export const NUMBERS = [
  "token",
  "key",
  "layer",
  "head",
  "step",
  "depth",
  "threshold",
  "row",
  "tour",
  "part",
  ...(page.lesson ? ["scene", "guess"] : []),
  ...(page.run ? ["snapshot"] : []),
];

/** @type {any[]} */
export const WORDS = [
  "ask",
  "section",
  "stage",
  "view",
  "compare",
  "unit",
  "rule",
  "language",
  "theme",
  "other",
  "same",
  "guesses",
  "explore",
];

/** @type {Record<string, any>} */
const CHOICES = {
  section: SECTIONS,
  stage: ["scores", "masked", "probabilities", "rollout"],
  view: ["lines", "steps"],
  compare: ["moved", "kept"],
  unit: ["words", "sentences"],
  rule: ["previous", "next", "itself", "[CLS]", "[SEP]", "same"],
  language: ["en", "ko"],
  theme: ["", "light", "dark"],
  explore: ["", "yes"],
};

/**
 * What the address calls the values of a number, such as the scenes: their places change when one is
 * added. Numbers are read, too, because older addresses have them.
 * @type {Record<string, string[]>}
 */
export const NAMES = {};

/**
 * Returns a number of the state as the address writes it.
 * @param {string} name
 */
const writtenNumber = (name) => NAMES[name]?.[state[name]] ?? String(state[name]);

/**
 * Returns a number as the address wrote it, or NaN.
 * @param {string} name
 * @param {string | null} said
 */
function readNumber(name, said) {
  const place = NAMES[name]?.indexOf(said ?? "") ?? -1;
  return place < 0 ? Number(said ?? NaN) : place;
}

export function remember() {
  if (!root.dataset.ready) {
    return;
  }
  const said = new URLSearchParams();
  for (const name of WORDS) {
    if (state[name]) {
      said.set(name, String(state[name]));
    }
  }
  for (const name of NUMBERS) {
    said.set(name, writtenNumber(name));
  }
  if (!state.special) {
    said.set("special", "no");
  }
  if (current.live) {
    said.set("text", state.text);
    if (state.pair !== null) {
      said.set("pair", state.pair);
    }
    if (state.masked.length) {
      said.set("masked", state.masked.join("."));
    }
    if (state.pad) {
      said.set("pad", String(state.pad));
    }
    if (state.type !== null) {
      said.set("type", String(state.type));
    }
    if (state.sides !== "both") {
      said.set("sides", state.sides);
    }
    if (state.off.length) {
      said.set("off", state.off.map((at) => at.join(".")).join("_"));
    }
  }
  clearTimeout(remember.later);
  remember.later = setTimeout(() => {
    if (remember.address !== undefined && remember.address !== location.hash) {
      return; // The reader has just edited the address, which is about to be read.
    }
    try {
      history[remember.isStep ? "pushState" : "replaceState"](null, "", `#${said}`);
      remember.isStep = false;
      remember.address = location.hash;
    } catch {
      /* An iframe may not be allowed to change its address. */
    }
  }, 150);
}
remember.isStep = false;
/** @type {any} */
remember.later = null;
/** @type {any} */
remember.address = undefined;

/** Lets the next address be a step of its own, which Back in the browser takes back. */
export function stepAddress() {
  remember.isStep = true;
}

/**
 * Sets the state from the address, and returns it. Values that do not fit this page are ignored.
 * @param {(said: URLSearchParams) => URLSearchParams} through (URLSearchParams) => the same with what the address only implies.
 * @param {Record<string, number>} limits the largest value of each number.
 */
export function recall(through, limits) {
  const said = through(new URLSearchParams(location.hash.slice(1)));
  for (const name of WORDS) {
    const value = said.get(name);
    if (value !== null && (CHOICES[name]?.includes(value) ?? true)) {
      state[name] = value;
    }
  }
  for (const name of NUMBERS) {
    const value = readNumber(name, said.get(name));
    if (Number.isFinite(value)) {
      state[name] = clamp(
        name === "threshold" ? value : Math.round(value),
        ["tour", "guess", "part"].includes(name) ? -1 : 0,
        limits[name],
      );
    }
  }
  state.ask = said.get("ask") ?? "";
  state.special = said.get("special") !== "no";
  if (current.live && said.has("text")) {
    /** @param {string} text */
    const whole = (text) => text.match(/\d+/g)?.map(Number) ?? [];
    state.text = said.get("text") ?? "";
    state.pair = said.get("pair");
    state.masked = whole(said.get("masked") ?? "");
    state.pad = clamp(Math.round(Number(said.get("pad")) || 0), 0, current.live.longest);
    state.type = said.get("type") === "1" && current.live.types > 1 ? 1 : null;
    const sides = said.get("sides") ?? "both";
    state.sides = Object.hasOwn(SIDES, sides) ? sides : "both";
    /** @param {any[]} of */
    const inside = ([layer, head = 0]) =>
      layer >= 0 && layer < sizes.layers && head >= 0 && head < sizes.heads;
    state.off = (said.get("off") ?? "")
      .split("_")
      .map(whole)
      .filter((at) => at.length && at.length < 3 && inside(at));
  }
  return said;
}
