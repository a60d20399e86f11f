// Changes of the state. Every action of the reader is one of these.

import { current, refresh } from "./current.js";
import { sizes } from "./page.js";
import { announce, draw, state } from "./store.js";

/**
 * Changes the state.
 * @param {Record<string, any>} changes
 */
function set(changes) {
  announce("change", changes);
  // Another tab closes the part that lies over it.
  if (changes.section && !("part" in changes)) {
    state.part = -1;
  }
  // States are shown at the chosen layer.
  if ("layer" in changes) {
    state.depth = changes.layer + 1;
  }
  // Predictions are shown at the model's output.
  if (changes.section === "predictions") {
    state.depth = sizes.layers;
  }
  Object.assign(state, changes);
}

/**
 * Changes the state and draws the page.
 * @param {Record<string, any>} changes
 */
export function change(changes) {
  set(changes);
  draw();
  announce("changed", changes);
}

/**
 * Like `change`, for inputs of the model. A live model draws the page, once, with its results.
 * @param {Record<string, any>} changes
 */
export function ask(changes) {
  if (!current.live) {
    change(changes);
    return;
  }
  set(changes);
  announce("changed", changes);
  refresh();
}

/**
 * Like `ask`, for typing. Text boxes update themselves, so the page is drawn only once, with the
 * results.
 * @param {Record<string, any>} changes
 */
export function type(changes) {
  announce("change", changes);
  Object.assign(state, changes);
  refresh();
}
