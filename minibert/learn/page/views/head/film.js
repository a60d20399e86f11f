// The animated head: a query is multiplied with every key, softmax turns scores into probabilities,
// and the weighted values are added up. Time is measured in frames. Each step takes one frame,
// except that scores and the sum take one frame for each token. Query, keys and values are made one
// column after another, as columns of W_Q, W_K and W_V make them.

import { written } from "../../model/numbers.js";
import { clamp, range } from "../../model/ranges.js";
import { fitted, picture } from "../../parts/canvas.js";
import { color } from "../../parts/colors.js";
import { $, element } from "../../parts/elements.js";
import { HeatMap } from "../../parts/heat-map.js";
import { signedLegend } from "../../parts/legend.js";
import { isStill } from "../../parts/motion.js";
import { python } from "../../parts/python.js";
import { scrollerOf } from "../../parts/scrolling.js";
import { remember } from "../../state/address.js";
import { once } from "../../state/analyses.js";
import { change } from "../../state/change.js";
import {
  current,
  hiddenState,
  mayLook,
  numbers,
  piece,
  requested,
  same,
} from "../../state/current.js";
import { sizes } from "../../state/page.js";
import { announce, state } from "../../state/store.js";
import { t } from "../../state/words.js";
import { headOutput, headSize, inLayer, plain, weightedValue } from "./rows.js";

export const FILM_STEPS = ["query", "keys", "scores", "shares", "values", "weigh", "sum"];

const BY_TOKEN = ["scores", "sum"];

const FRAME = 400; // milliseconds

const PRODUCT = 2800; // milliseconds for rows that are made column by column

const LONGEST = 6000; // milliseconds for all tokens of a long text together

const REST = 2400; // milliseconds after a step, to read its sentence

/**
 * `time` is what is drawn, `held` the frame that the reader chose, until it is reached, and `matrix`
 * the columns of W_Q for the head in `of`.
 * @type {Record<string, any>}
 */
export const film = { time: 1, held: null, playing: false, cursor: [0, 0] };

/** @param {string} step */
const framesOf = (step) => (BY_TOKEN.includes(step) ? current.count : 1);

/** Returns the times at which the steps end. */
export function filmEnds() {
  let end = 0;
  return FILM_STEPS.map((step) => (end += framesOf(step)));
}

const filmStep = () => filmEnds().findIndex((end) => film.time <= end);

/**
 * Returns the progress of a frame of a step, from 0 to 1.
 * @param {string} step
 * @param {number} [frame]
 */
function done(step, frame = 0) {
  const start = filmEnds()[FILM_STEPS.indexOf(step)] - framesOf(step) + frame;
  return clamp(film.time - start, 0, 1);
}

/**
 * Returns how much of a column has been made by a step, from 0 to 1.
 * @param {string} step
 * @param {number} column
 */
const made = (step, column) => within(done(step) * headSize(), column, column + 1);

/** @param {number} part */
const eased = (part) => part * part * (3 - 2 * part);

/**
 * Returns the eased progress of a part of a frame, such as its second half.
 * @param {number} part
 * @param {number} from
 * @param {number} to
 */
const within = (part, from, to) => eased(clamp((part - from) / (to - from), 0, 1));

/**
 * @param {number} a
 * @param {number} b
 * @param {number} part
 */
const between = (a, b, part) => a + (b - a) * part;

/**
 * Returns all values of the chosen head for the chosen token, and one color scale for its queries,
 * keys and values.
 */
function filmNumbers() {
  const { layer, head, token } = state;
  return once(`film.${layer}.${head}.${token}`, () => {
    /** @param {string} name */
    const step = (name) => numbers(inLayer(`attention.${name}`));
    /** @param {string} name */
    const rows = (name) => current.tokens.map((_, i) => step(name).row(head, i));
    const [queries, keys, values] = ["query", "key", "value"].map(rows);
    const sizes = [queries, keys, values].flat(2).map(Math.abs);
    return {
      query: queries[token],
      keys,
      values,
      scores: step("scores").row(head, token),
      shares: step("probabilities").row(head, token),
      output: step("context")
        .row(token)
        .slice(head * headSize(), (head + 1) * headSize()),
      // As in `Numbers.typical`.
      most: sizes.sort((a, b) => a - b)[Math.floor(sizes.length * 0.99)] || 1,
    };
  });
}

/**
 * Returns the number beside a token's row: first its score, then its probability. Empty until the
 * score is computed.
 * @param {number} i
 */
export function besideKey(i) {
  if (done("scores", i) < 1) {
    return "";
  }
  const { scores, shares } = filmNumbers();
  if (done("shares") >= 0.5) {
    return written(shares[i]);
  }
  return mayLook(state.token, i) ? written(scores[i]) : t("attention.hidden");
}

/** Returns the sum of all probabilities. */
export const sumOfShares = () =>
  filmNumbers().shares.reduce((/** @type {any} */ sum, /** @type {any} */ share) => sum + share, 0);

/**
 * Returns the row of a token: first its key, then its value, then its weighted value.
 * @param {number} i
 */
function tokenRow(i) {
  const { head } = state;
  if (done("weigh") >= 0.5) {
    return weightedValue(i);
  }
  return done("values") >= 0.5
    ? plain(`v “${piece(i)}”`, inLayer("attention.value"), head, i)
    : plain(`k “${piece(i)}”`, inLayer("attention.key"), head, i);
}

/**
 * Returns the rows: the query, one for each token, and the head's output. A row that is not visible
 * yet is null.
 */
function filmRows() {
  const { head, token } = state;
  return [
    plain(`q “${piece(token)}”`, inLayer("attention.query"), head, token),
    ...current.tokens.map((_, i) => (done("keys") ? tokenRow(i) : null)),
    done("sum", current.count - 1) === 1 ? headOutput() : null,
  ];
}

/**
 * Returns the value of a cell, interpolated between steps, or null.
 * @param {number} r
 * @param {number} c
 */
export function filmValue(r, c) {
  const { query, keys, values, shares } = filmNumbers();
  if (r === 0) {
    return query[c] * made("query", c);
  }
  if (r <= current.count) {
    const i = r - 1;
    const own = between(keys[i][c] * made("keys", c), values[i][c], made("values", c));
    return done("keys") ? own * between(1, shares[i], eased(done("weigh"))) : null;
  }
  if (!done("sum")) {
    return null;
  }
  return values.reduce(
    (/** @type {any} */ sum, /** @type {any} */ value, /** @type {number} */ i) =>
      sum + shares[i] * value[c] * within(done("sum", i), 0.6, 1),
    0,
  );
}

const NUMBER_ROOM = 66; // pixels for a number beside a row

const FILM_MARGIN = 16; // pixels around the picture

/**
 * Returns the token that is being processed while scores are computed or values are added up, else
 * -1.
 */
function tokenAtHand() {
  const step = FILM_STEPS[filmStep()];
  const over = film.time === filmEnds().at(-1);
  return BY_TOKEN.includes(step) && !over
    ? current.tokens.findLastIndex((_, i) => done(step, i) > 0)
    : -1;
}

/**
 * Draws bars and numbers on the right. Scores extend to both sides of zero, then become
 * probabilities.
 * @param {CanvasRenderingContext2D} context
 * @param {{left: number, top: number, width: number}} of1
 * @param {any[]} of2
 * @param {number} room
 */
function drawBeside(context, { left, top, width }, [, height], room) {
  const { scores, shares } = filmNumbers();
  // On a phone a bar lies under its number, which leaves the width to the cells.
  const under = room < 2 * NUMBER_ROOM;
  const from = left + width + 10;
  const bars = room - 10 - (under ? 4 : NUMBER_ROOM);
  const [drop, thick] = under ? [height / 2 - 5, 3] : [-5, 10];
  const seen = scores.filter((/** @type {any} */ _, /** @type {number} */ i) =>
    mayLook(state.token, i),
  );
  const low = Math.min(0, ...seen);
  const high = Math.max(0, ...seen);
  /** @param {number} score */
  const place = (score) => from + (bars * (score - low)) / (high - low || 1);
  const part = eased(done("shares"));
  const most = Math.max(...shares) || 1;
  /** @param {number} row */
  const middle = (row) => top + (row + 0.5) * height;
  const [negative, positive] = [0, -1].map((end) =>
    (color("diverging").split(",").at(end) ?? "").trim(),
  );
  context.textAlign = "right";
  current.tokens.forEach((_, i) => {
    const met = within(done("scores", i), 0.5, 1);
    const score = mayLook(state.token, i) ? scores[i] : 0;
    const start = between(place(0), from, part);
    const end = between(place(score * met), from + (bars * shares[i]) / most, met === 1 ? part : 0);
    context.fillStyle = part < 0.5 && score < 0 ? negative : positive;
    if (met > 0) {
      context.fillRect(
        Math.min(start, end),
        middle(i + 1) + drop,
        Math.max(Math.abs(end - start), 1),
        thick,
      );
    }
    context.fillStyle = color("ink");
    fitted(context, besideKey(i), from + room - 10, middle(i + 1) - (under ? 2 : 0), NUMBER_ROOM);
  });
  if (done("scores")) {
    const heading = part < 0.5 ? `q · k / √${headSize()}` : t("film.share");
    context.fillStyle = color("soft");
    fitted(context, heading, from + room - 10, middle(0), room - 10);
  }
  if (part >= 0.5) {
    context.fillStyle = color("ink");
    fitted(
      context,
      `Σ p = ${written(sumOfShares())}`,
      from + room - 10,
      middle(current.count + 1),
      room - 10,
    );
  }
}

/**
 * Returns the place of a value on the color scale, from 0 to 1. Small values get more of the scale
 * than on a linear one, so that a faded row stays readable on a dark page.
 * @param {number} value
 * @param {number} most
 */
const filmShade = (value, most) =>
  0.5 + (Math.sign(value) * Math.min(Math.abs(value) / most, 1) ** 0.6) / 2;

/**
 * Draws a moving row. It is half as high as a row of the map, so that both are visible where it
 * passes.
 * @param {CanvasRenderingContext2D} context
 * @param {{left: number, width: number}} of1
 * @param {any} values
 * @param {number} y
 * @param {number} height
 */
function drawStrip(context, { left, width }, values, y, height) {
  const { most } = filmNumbers();
  context.imageSmoothingEnabled = false;
  context.drawImage(
    picture(1, values.length, "diverging", (_, c) => filmShade(values[c], most)),
    left,
    y,
    width,
    height,
  );
  context.strokeStyle = color("accent");
  context.lineWidth = 2;
  context.strokeRect(left, y, width, height);
}

/**
 * Draws the query moving along the keys, or a value moving into the sum.
 * @param {CanvasRenderingContext2D} context
 * @param {Area} area
 * @param {number} height
 */
function drawMoving(context, area, height) {
  const { query, values, shares } = filmNumbers();
  const step = FILM_STEPS[filmStep()];
  const i = tokenAtHand();
  if (i < 0) {
    return;
  }
  const part = done(step, i);
  if (step === "scores") {
    const y = area.top + (i + within(part, 0, 0.6)) * height;
    drawStrip(context, area, query, y + 1, height / 2 - 1);
  } else if (part < 1) {
    const row = between(i + 1, current.count + 1, within(part, 0, 0.7));
    const own = values[i].map((/** @type {any} */ value) => value * shares[i]);
    drawStrip(context, area, own, area.top + row * height + 3, height - 6);
  }
}

/**
 * Marks the column that W_K or W_V is making: one number of the key or value of every token.
 * @param {CanvasRenderingContext2D} context
 * @param {{left: number, top: number, width: number}} of1
 * @param {number} height
 */
function drawColumn(context, { left, top, width }, height) {
  const step = FILM_STEPS[filmStep()];
  const column = Math.floor(done(step) * headSize());
  if (["keys", "values"].includes(step) && column < headSize()) {
    const wide = width / headSize();
    context.strokeStyle = color("accent");
    context.lineWidth = 2;
    context.strokeRect(left + column * wide, top + height, wide, current.count * height);
  }
}

/** Whether the picture shows W_Q, in the place of the rows to come. */
export const showsMatrix = () => film.time <= 1 && film.of === `${state.layer} ${state.head}`;

/**
 * Draws W_Q, each column below the number of the query that it makes, and on the right the state
 * that is multiplied with it. The column at hand is marked.
 * @param {CanvasRenderingContext2D} context
 * @param {{left: number, top: number, width: number, height: number}} of1
 * @param {any[]} of2
 * @param {number} room
 */
function drawMatrix(context, { left, top, width, height }, [, high], room) {
  const { layer, token } = state;
  const size = headSize();
  const states = hiddenState(layer).row(token);
  const from = top + high + 4;
  const tall = height - high - 4;
  const strip = { left: left + width + 10, width: 10 };
  /** @param {any} values */
  const most = (values) =>
    values.reduce(
      (/** @type {any} */ max, /** @type {any} */ value) => Math.max(max, Math.abs(value)),
      0,
    ) || 1;
  /**
   * @param {number} x
   * @param {number} wide
   * @param {any} cols
   * @param {any} value
   * @param {number} limit
   */
  const draw = (x, wide, cols, value, limit) =>
    context.drawImage(
      picture(states.length, cols, "diverging", (r, c) => filmShade(value(r, c), limit)),
      x,
      from,
      wide,
      tall,
    );
  context.fillStyle = color("paper");
  context.fillRect(left, top + high, width, height - high);
  context.imageSmoothingEnabled = false;
  draw(
    left,
    width,
    size,
    (/** @type {number} */ r, /** @type {number} */ c) => film.matrix[c * states.length + r],
    most(film.matrix),
  );
  draw(strip.left, strip.width, 1, (/** @type {number} */ r) => states[r], most(states));
  const column = Math.floor(done("query") * size);
  context.strokeStyle = color("accent");
  context.lineWidth = 2;
  if (column < size) {
    context.strokeRect(left + (column * width) / size, from, width / size, tall);
    context.strokeRect(strip.left, from, strip.width, tall);
  }
  context.textAlign = "left";
  context.fillStyle = color("soft");
  const x = strip.left + strip.width + 6;
  fitted(context, `h${layer}`, x, from + tall / 2, left + width + room - x);
}

/**
 * Draws everything over the cells: gaps between the rows, frames for rows to come, bars, and moving
 * rows.
 * @param {CanvasRenderingContext2D} context
 * @param {Area} area
 * @param {number[]} cell
 * @param {number} room
 */
function drawOver(context, area, cell, room) {
  const { left, top, width } = area;
  const [, height] = cell;
  context.fillStyle = color("paper");
  for (let r = 0; r <= current.count + 2; r++) {
    const gap = r === 1 || r === current.count + 1 ? 3 : 1.5;
    context.fillRect(left, top + r * height - gap, width, 2 * gap);
  }
  context.strokeStyle = color("line");
  context.lineWidth = 1;
  for (let r = 1; r <= current.count + 1; r++) {
    if (filmValue(r, 0) === null && !showsMatrix()) {
      context.strokeRect(left + 0.5, top + r * height + 4.5, width - 1, height - 9);
    }
  }
  if (showsMatrix()) {
    drawMatrix(context, area, cell, room);
    return;
  }
  drawBeside(context, area, cell, room);
  drawColumn(context, area, height);
  drawMoving(context, area, height);
}

/**
 * Describes a cell and the number beside its row.
 * @param {number} r
 * @param {number} c
 */
function describeFilm(r, c) {
  const row = filmRows()[r];
  if (!row) {
    return "";
  }
  const beside = r > 0 && r <= current.count ? besideKey(r - 1) : "";
  const name = done("shares") >= 0.5 ? t("film.share") : `q · k / √${headSize()}`;
  const label = beside ? `${row.label} (${name} = ${beside})` : row.label;
  return t("vector.cell", { row: label, index: c, value: written(row.value(c)) });
}

/** Scrolls up if the last row, the output, is out of sight. */
function seeFilm() {
  const map = $("film-map").parentElement.getBoundingClientRect();
  if (map.bottom > scrollerOf(document.querySelector("main")).bottom) {
    $("film-play").parentElement.scrollIntoView({ block: "start" });
  }
}

/**
 * Begins what the reader asked of the picture. On a narrow page an answer of “Ask” hears of it and
 * folds, which gives the picture its room.
 */
function beginFilm() {
  stopFilm();
  announce("film");
  fitFilm();
  seeFilm();
}

/**
 * Returns the height of a row at which the output is in sight together with the controls.
 * @param {number} least
 * @param {number} most
 */
function filmRowHeight(least, most) {
  const above = $("film-map").parentElement.offsetTop - $("film").offsetTop;
  const { top, bottom } = scrollerOf(document.querySelector("main"));
  const room = bottom - top - above - FILM_MARGIN;
  return clamp(Math.floor(room / (current.count + 2)), least, most);
}

/** Keeps the row that is being processed in sight if a long text does not fit its frame. */
function followFilm() {
  const i = tokenAtHand();
  if (i < 0) {
    return;
  }
  const box = $("film-map").parentElement;
  const row = FILM_STEPS[filmStep()] === "sum" ? current.count + 1 : i + 1;
  const height = filmMap.area.height / (current.count + 2);
  const top = row * height;
  box.scrollTop = clamp(box.scrollTop, top + height - box.clientHeight, top);
}

export const filmMap = new HeatMap("film-map", () => {
  const { most } = filmNumbers();
  const rows = filmRows();
  const shown = document.activeElement === $("film-map");
  const wide = $("film-map").parentElement.clientWidth > 560;
  const room = wide ? 210 : 72;
  const tall = filmRowHeight(16, wide ? 24 : 19);
  const short = wide ? "p × v" : "pv";
  const [r, c] = film.cursor;
  const toCome = showsMatrix()
    ? current.tokens.map((_, i) => (i === current.count >> 1 ? "W_Q" : ""))
    : current.tokens.map((_, i) => piece(i));
  const names = [t("film.query.label"), ...toCome, showsMatrix() ? "" : t("film.output.label")];
  return {
    rows: current.count + 2,
    cols: headSize(),
    palette: "diverging",
    space: tall * (current.count + 2),
    tallest: tall,
    smallest: [1, 16],
    left: wide ? 132 : 104,
    right: room,
    cursor: [clamp(r, 0, current.count + 1), clamp(c, 0, headSize() - 1)],
    quiet: !shown,
    marked: shown ? r : tokenAtHand() + 1 || -1,
    /** @param {number} r */
    rowLabel: (r) =>
      (r > current.count ? names[r] : (rows[r]?.label ?? names[r])).replace("p × v", short),
    /**
     * @param {number} r
     * @param {number} c
     */
    shade: (r, c) => {
      const value = filmValue(r, c);
      return value === null ? null : filmShade(value, most);
    },
    /**
     * @param {CanvasRenderingContext2D} context
     * @param {Area} area
     * @param {number[]} cell
     */
    over: (context, area, cell) => drawOver(context, area, cell, room),
    describe: describeFilm,
    /**
     * @param {number} r
     * @param {number} c
     */
    python: (r, c) => (rows[r] ? python(rows[r].python(c)) : ""),
    /**
     * @param {number} r
     * @param {number} c
     */
    move: (r, c) => {
      film.cursor = [r, c];
      change(r > 0 && r <= current.count ? { key: r - 1 } : {});
    },
  };
});

/**
 * Animates to a time within some milliseconds, or jumps there if the reader prefers reduced motion.
 * @param {number} time
 * @param {number} duration
 * @param {() => void} [then]
 */
function runTo(time, duration, then = () => {}) {
  cancelAnimationFrame(film.frame);
  const from = film.time;
  const begin = performance.now();
  const finish = () => {
    film.held = null;
    then();
    drawFilm();
    followFilm();
  };
  if (isStill()) {
    film.time = time;
    finish();
    return;
  }
  /** @param {number} now */
  const frame = (now) => {
    if (state.section !== "head" || current.running) {
      stopFilm();
      return;
    }
    const part = clamp((now - begin) / duration, 0, 1);
    film.time = part < 1 ? between(from, time, part) : time;
    if (part < 1) {
      drawFilm();
      followFilm();
      film.frame = requestAnimationFrame(frame);
    } else {
      finish();
    }
  };
  film.frame = requestAnimationFrame(frame);
}

/**
 * Returns the milliseconds from now to a time in the same step.
 * @param {number} time
 * @param {string} step
 */
function durationTo(time, step) {
  const several = BY_TOKEN.includes(step) ? Math.min(FRAME, LONGEST / current.count) : FRAME;
  return (time - film.time) * (step in ORIGINS ? PRODUCT : several);
}

/**
 * Plays the current step to its end, or the next step if it has ended.
 * @param {() => void} [then]
 */
function nextStep(then) {
  const ends = filmEnds();
  const step = ends.findIndex((end) => end > film.time);
  runTo(ends[step], durationTo(ends[step], FILM_STEPS[step]), then);
}

function stopFilm() {
  cancelAnimationFrame(film.frame);
  clearTimeout(film.resting);
  Object.assign(film, { playing: false, held: null });
}

/**
 * Plays to the end, from the beginning if the end was reached or nothing was played yet. Pauses if it
 * is playing.
 */
function playFilm() {
  if (film.playing) {
    stopFilm();
    drawFilm();
    return;
  }
  beginFilm();
  film.playing = true;
  const last = filmEnds().at(-1) ?? 0;
  if (film.time === last || (film.time === 1 && !isStill())) {
    film.time = 0;
  }
  const on = () => {
    film.playing = film.playing && film.time < last && state.section === "head";
    if (film.playing) {
      nextStep(() => {
        film.playing = film.time < last;
        film.resting = setTimeout(on, REST);
      });
    }
  };
  on();
}

export function buildFilm() {
  $("film-play").onclick = playFilm;
  $("film-next").onclick = () => {
    beginFilm();
    nextStep();
  };
  $("film-back").onclick = () => {
    stopFilm();
    runTo(filmEnds().findLast((end) => end < film.time) ?? 1, FRAME);
  };
  $("film-time").oninput = () => {
    stopFilm();
    film.held = Number($("film-time").value);
    runTo(film.held, FRAME);
  };
  $("film-map").addEventListener("focus", () => filmMap.draw());
  $("film-map").addEventListener("blur", () => filmMap.draw());
}

/** Returns the values that the sentences mention. */
function filmAmounts() {
  const { shares } = filmNumbers();
  const best = shares.indexOf(Math.max(...shares));
  return {
    token: piece(state.token),
    size: headSize(),
    best: piece(best),
    share: shares[best].toFixed(2),
  };
}

/**
 * Describes the current step in words. Screen readers also get the current number, through the time
 * control.
 */
function sayFilm() {
  const step = filmStep();
  const name = FILM_STEPS[step];
  const heading = t("film.step", {
    step: step + 1,
    steps: FILM_STEPS.length,
    name: t(`film.${name}`),
  });
  const silent = name === "sum" && sumOfShares() === 0;
  const said = t(silent ? "film.silent" : `film.${name}.say`, filmAmounts());
  if ($("film-say").textContent !== `${heading} ${said}`) {
    $("film-say").replaceChildren(element("b", heading), ` ${said}`);
  }
  const i = tokenAtHand();
  const now = name === "scores" && i >= 0 ? ` · ${piece(i)}: ${besideKey(i)}` : "";
  $("film-time").setAttribute("aria-valuetext", `${heading}${now}`);
}

// The matrix behind the rows of a step, and their letter.
/** @type {Record<string, any>} */
const ORIGINS = { query: ["query", "q"], keys: ["key", "k"], values: ["value", "v"] };

const PRODUCTS = 3; // shown of the sum that a number is

/**
 * Says where the rows of a step come from: the first number of the chosen token is its state times
 * the first column of W, in numbers.
 */
async function sayOrigin() {
  const { layer, head, token } = state;
  const [name, letter] = ORIGINS[FILM_STEPS[filmStep()]] ?? [];
  const key = name && current.live ? `${name} ${layer} ${head} ${token} ${state.language}` : "";
  if (sayOrigin.key === key && sayOrigin.of === current.tokens) {
    return;
  }
  Object.assign(sayOrigin, { key, of: current.tokens });
  $("film-origin").textContent = "";
  if (!key) {
    return;
  }
  const own = `encoder.layer.${layer}.attention.self.${name}`;
  const rows = range(head * headSize(), headSize());
  const [weights, bias] = await Promise.all(
    ["weight", "bias"].map((kind) => current.live.ask("rows", { name: `${own}.${kind}`, rows })),
  );
  if (sayOrigin.key !== key) {
    return;
  }
  if (name === "query") {
    Object.assign(film, { matrix: weights.data, of: `${layer} ${head}` });
    filmMap.draw();
  }
  const states = hiddenState(layer).row(token);
  const shown = Array.from({ length: PRODUCTS }, (_, i) =>
    `${states[i].toFixed(2)}·${weights.data[i].toFixed(2)}`.replaceAll("-", "−"),
  );
  const sum = states.reduce((total, value, i) => total + value * weights.data[i], bias.data[0]);
  $("film-origin").textContent = t("film.origin", {
    token: piece(token),
    row: letter,
    matrix: `W_${letter.toUpperCase()}`,
    hidden: sizes.hidden,
    size: headSize(),
    products: shown.join(" + "),
    bias: bias.data[0].toFixed(2).replace("-", "−"),
    sum: sum.toFixed(2).replace("-", "−"),
  });
  if (name === "query") {
    $("film-origin").append(` ${t("film.matrix")}`);
  }
}
/** @type {any} */
sayOrigin.key = "";
/** @type {any} */
sayOrigin.of = null;

/** Draws the head at the current time. */
export function drawFilm() {
  const ends = filmEnds();
  const step = filmStep();
  if (state.step !== step) {
    state.step = step;
    remember();
  }
  filmMap.draw();
  sayFilm();
  sayOrigin();
  Object.assign($("film-time"), {
    max: ends.at(-1),
    value: film.held ?? Math.max(1, Math.round(film.time)),
  });
  const over = film.time === ends.at(-1);
  let play = over ? "film.again" : "training.play";
  if (film.playing) {
    play = "film.pause";
  }
  $("film-play").textContent = t(play);
  $("film-back").disabled = film.time <= 1;
  $("film-next").disabled = over;
}

/**
 * Draws the head after a choice made elsewhere, such as another step or a text of another length.
 */
export function fitFilm() {
  const ends = filmEnds();
  if (film.count !== current.count || state.step !== filmStep()) {
    stopFilm();
    film.time = ends[state.step];
  }
  film.count = current.count;
  drawFilm();
  signedLegend("film-legend", filmNumbers().most);
  $("film-legend").append(element("span", t("film.scale")));
}

/** Shows the picture to whoever comes through a door of “Ask”, which takes its room from the page. */
export function openFilm() {
  if (film.door === state.ask || !same(current.shown.request, requested())) {
    return; // The numbers of the door are still being computed.
  }
  film.door = state.ask;
  if (state.ask) {
    requestAnimationFrame(() => {
      drawFilm(); // the answer has its place now
      seeFilm();
    });
  }
}
