// Arrow keys.

import { clamp } from "../model/ranges.js";

/** @type {Record<string, number[]>} */
const ARROWS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

/**
 * Moves a cursor over rows and columns with the arrow keys.
 * @param {() => number[]} size () => [rows, columns].
 * @param {() => number[]} cursor () => the current [row, column].
 * @param {(row: number, col: number) => void} move (row, column) => called with the new position.
 * @param {any} target
 */
export function walk(target, size, cursor, move) {
  target.addEventListener("keydown", (/** @type {any} */ event) => {
    const step = ARROWS[event.key];
    if (!step || event.ctrlKey || event.metaKey || event.altKey) {
      return;
    }
    event.preventDefault();
    const [row, col] = cursor();
    const [rows, cols] = size();
    move(clamp(row + step[0], 0, rows - 1), clamp(col + step[1], 0, cols - 1));
  });
}
