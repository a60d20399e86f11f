// The time of the animated head, in frames. Each step takes one frame, except that scores and the
// sum take one frame for each token. Query, keys and values are made one column after another, as
// columns of W_Q, W_K and W_V make them.

import { clamp } from "../../model/ranges.js";
import { current } from "../../state/current.js";
import { headSize } from "./rows.js";

export const FILM_STEPS = ["query", "keys", "scores", "shares", "values", "weigh", "sum"];

export const BY_TOKEN = ["scores", "sum"];

export const film = {
  time: 1, // what is drawn
  /** @type {number | null} */
  held: null, // the frame that the reader chose, until it is reached
  playing: false,
  cursor: [0, 0],
  count: 0, // the tokens of the text that it was fitted to
  door: "", // the question of “Ask” that opened it
  frame: 0, // the request of the next frame
  resting: 0, // the timer of the rest after a step
  matrix: new Float32Array(0), // the columns of W_Q
  of: "", // for the head with this layer and index
};

/** @param {string} step */
const framesOf = (step) => (BY_TOKEN.includes(step) ? current.count : 1);

/** Returns the times at which the steps end. */
export function filmEnds() {
  let end = 0;
  return FILM_STEPS.map((step) => (end += framesOf(step)));
}

export const filmStep = () => filmEnds().findIndex((end) => film.time <= end);

/**
 * Returns the progress of a frame of a step, from 0 to 1.
 * @param {string} step
 * @param {number} [frame]
 */
export function done(step, frame = 0) {
  const start = filmEnds()[FILM_STEPS.indexOf(step)] - framesOf(step) + frame;
  return clamp(film.time - start, 0, 1);
}

/**
 * Returns how much of a column has been made by a step, from 0 to 1.
 * @param {string} step
 * @param {number} column
 */
export const made = (step, column) => within(done(step) * headSize(), column, column + 1);

/** @param {number} part */
export const eased = (part) => part * part * (3 - 2 * part);

/**
 * Returns the eased progress of a part of a frame, such as its second half.
 * @param {number} part
 * @param {number} from
 * @param {number} to
 */
export const within = (part, from, to) => eased(clamp((part - from) / (to - from), 0, 1));

/**
 * @param {number} a
 * @param {number} b
 * @param {number} part
 */
export const between = (a, b, part) => a + (b - a) * part;

/**
 * Returns the token that is being processed while scores are computed or values are added up, else
 * -1.
 */
export function tokenAtHand() {
  const step = FILM_STEPS[filmStep()];
  const over = film.time === filmEnds().at(-1);
  return BY_TOKEN.includes(step) && !over
    ? current.tokens.findLastIndex((_, i) => done(step, i) > 0)
    : -1;
}
