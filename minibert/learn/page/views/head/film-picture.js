// The picture of the animated head: a heat map of its rows, and what is drawn over and beside them.

import { written } from "../../model/numbers.js";
import { clamp } from "../../model/ranges.js";
import { fitted, picture } from "../../parts/canvas.js";
import { color } from "../../parts/colors.js";
import { $ } from "../../parts/elements.js";
import { HeatMap } from "../../parts/heat-map.js";
import { python } from "../../parts/python.js";
import { scrollerOf } from "../../parts/scrolling.js";
import { change } from "../../state/change.js";
import { current, hiddenState, mayLook, piece } from "../../state/current.js";
import { state } from "../../state/store.js";
import { t } from "../../state/words.js";
import {
  besideKey,
  describeFilm,
  filmNumbers,
  filmRows,
  filmValue,
  sumOfShares,
} from "./film-rows.js";
import {
  FILM_STEPS,
  between,
  done,
  eased,
  film,
  filmStep,
  tokenAtHand,
  within,
} from "./film-time.js";
import { headSize } from "./rows.js";

/** Whether the picture shows W_Q, in the place of the rows to come. */
export const showsMatrix = () => film.time <= 1 && film.of === `${state.layer} ${state.head}`;

const NUMBER_ROOM = 66; // pixels for a number beside a row

const FILM_MARGIN = 16; // pixels around the picture

/**
 * Draws bars and numbers on the right. Scores extend to both sides of zero, then become
 * probabilities.
 * @param {CanvasRenderingContext2D} context
 * @param {{left: number, top: number, width: number}} of1
 * @param {number[]} of2
 * @param {number} room
 */
function drawBeside(context, { left, top, width }, [, height], room) {
  const { scores, shares } = filmNumbers();
  // On a phone a bar lies under its number, which leaves the width to the cells.
  const under = room < 2 * NUMBER_ROOM;
  const from = left + width + 10;
  const bars = room - 10 - (under ? 4 : NUMBER_ROOM);
  const [drop, thick] = under ? [height / 2 - 5, 3] : [-5, 10];
  const seen = scores.filter((_, /** @type {number} */ i) => mayLook(state.token, i));
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
 * @param {number[]} values
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
    const own = values[i].map((value) => value * shares[i]);
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

/**
 * Draws W_Q, each column below the number of the query that it makes, and on the right the state
 * that is multiplied with it. The column at hand is marked.
 * @param {CanvasRenderingContext2D} context
 * @param {{left: number, top: number, width: number, height: number}} of1
 * @param {number[]} of2
 * @param {number} room
 */
function drawMatrix(context, { left, top, width, height }, [, high], room) {
  const { layer, token } = state;
  const size = headSize();
  const states = hiddenState(layer).row(token);
  const from = top + high + 4;
  const tall = height - high - 4;
  const strip = { left: left + width + 10, width: 10 };
  /** @param {number[]} values */
  const most = (values) => values.reduce((max, value) => Math.max(max, Math.abs(value)), 0) || 1;
  /**
   * @param {number} x
   * @param {number} wide
   * @param {number} cols
   * @param {(r: number, c: number) => number} value
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
    most([...film.matrix]),
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

/** Scrolls up if the last row, the output, is out of sight. */
export function seeFilm() {
  const map = $("film-map").parentElement.getBoundingClientRect();
  if (map.bottom > scrollerOf(document.querySelector("main")).bottom) {
    $("film-play").parentElement.scrollIntoView({ block: "start" });
  }
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
export function followFilm() {
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
