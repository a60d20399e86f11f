// A step of a head as a heat map.

import { written } from "../../model/numbers.js";
import { clamp } from "../../model/ranges.js";
import { python } from "../../parts/python.js";
import { change } from "../../state/change.js";
import { piece } from "../../state/current.js";
import { state } from "../../state/store.js";
import { t } from "../../state/words.js";
import { stage } from "../part/opened.js";

/** @type {Record<string, number[]>} */
const headCursor = {}; // the cursor of each step as [row, column]

/**
 * Returns the largest value of a row, except for the lowest number, which masks a token.
 * @param {number[]} row
 */
export const largestOf = (row) =>
  row.reduce(
    (most, value) => (Math.abs(value) < 1e30 ? Math.max(most, Math.abs(value)) : most),
    1e-9,
  );

/**
 * Returns the heat map of a step. Rows on the same scale share their colors, and short rows show
 * their values.
 * @param {any} step
 */
export function headPlan(step) {
  const rows = step.rows();
  const cols = step.cols();
  const [r, c] = headCursor[step.id] ?? [0, 0];
  const values = rows.map((/** @type {any} */ row) =>
    Array.from({ length: cols }, (_, c) => row.value(c)),
  );
  const most = rows.map((/** @type {any} */ row, /** @type {number} */ r) => {
    const together = values.filter(
      (/** @type {any} */ _, /** @type {any} */ other) =>
        row.scale && rows[other].scale === row.scale,
    );
    return Math.max(largestOf(values[r]), ...together.map(largestOf));
  });
  return {
    rows: rows.length,
    cols,
    palette: "diverging",
    space: 26 * rows.length + 24,
    tallest: 26,
    smallest: [cols <= 96 ? 66 : 8, 24],
    left: 150,
    top: 18,
    cursor: [clamp(r, 0, rows.length - 1), clamp(c, 0, cols - 1)],
    /** @param {number} r */
    rowLabel: (r) => rows[r].label,
    /** @param {number} c */
    colLabel: (c) => (step.perToken ? piece(c) : `${c}`),
    /**
     * @param {number} r
     * @param {number} c
     */
    shade: (r, c) => (Math.abs(values[r][c]) > 1e30 ? null : 0.5 + values[r][c] / most[r] / 2),
    /**
     * @param {number} r
     * @param {number} c
     */
    write: (r, c) => written(values[r][c], step.decimals),
    /**
     * @param {number} r
     * @param {number} c
     */
    describe: (r, c) =>
      t(step.perToken ? "head.cell" : "vector.cell", {
        row: rows[r].label,
        index: c,
        token: step.perToken ? piece(c) : "",
        value: written(values[r][c], step.decimals),
      }),
    /**
     * @param {number} r
     * @param {number} c
     */
    python: (r, c) =>
      rows[r].line?.(c) ??
      python(rows[r].python(c), { format: Math.abs(values[r][c]) > 1e30 ? ".1e" : ".4f" }),
    /**
     * @param {number} r
     * @param {number} c
     */
    move: (r, c) => {
      headCursor[step.id] = [r, c];
      if (step.perToken && state.part >= 0) {
        stage.key = c;
      }
      change(step.perToken && state.part < 0 ? { key: c } : { part: state.part });
    },
  };
}
