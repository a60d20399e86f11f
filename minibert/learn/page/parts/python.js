// Lines of Python that print what the page shows.

import { current } from "../state/current.js";
import { page } from "../state/page.js";

/** @param {any} value */
export const literal = (value) => (value === null ? "None" : JSON.stringify(value));

/** Returns the Python call that computes what is shown. */
export function pythonRun(request = current.shown.request, fromLive = current.shown.live) {
  const options = [];
  if (request.pair !== null) {
    options.push(`pair=${literal(request.pair)}`);
  }
  if (request.masked.length) {
    options.push(`masked=${literal(request.masked)}`);
  }
  if (request.off.length) {
    options.push(`off=${literal(request.off)}`);
  }
  const bare = current.live ? current.live.tokenizer.encode(request.text, request.pair).length : 0;
  if (request.padTo && request.padTo >= bare) {
    options.push(`pad_to=${request.padTo}`);
  }
  if (request.type !== null && request.type !== undefined) {
    options.push(`token_type=${request.type}`);
  }
  if (request.sides && request.sides !== "both") {
    options.push(`sides=${literal(request.sides)}`);
  }
  // The page's weights have 8 bits.
  if (fromLive || page.rounded) {
    options.push("rounded=True");
  }
  return `run(${[literal(page.source), literal(request.text), ...options].join(", ")})`;
}

/**
 * Returns a line of Python that prints a value. The expression reads the trace `t`.
 * @param {any} expression
 * @param {{names?: any, format?: any, torch?: any, before?: any}} [of1]
 */
export function python(
  expression,
  { names = "run", format = ".4f", torch = false, before = "" } = {},
) {
  const imports = `${torch ? "import torch; " : ""}from minibert.study import ${names};`;
  return `${imports} t = ${pythonRun()}; ${before}print(f"{${expression}:${format}}")`;
}

/**
 * Returns a cell of a step in Python. Traces have a batch axis.
 * @param {string} name
 * @param {...number} at
 */
export const stepCell = (name, ...at) => `t['${name}'][${[0, ...at].join(", ")}]`;

/**
 * @param {string} name
 * @param {...number} at
 */
export const stepPython = (name, ...at) => python(stepCell(name, ...at));
