// A heat map of a few vectors.

import { HeatMap } from "./heat-map.js";
import { stepPython } from "./python.js";
import { change } from "../state/change.js";
import { numbers } from "../state/current.js";
import { sizes } from "../state/page.js";
import { state } from "../state/store.js";
import { t } from "../state/words.js";

/**
 * Returns a map of a few vectors.
 * @param {any} rows () => label, name of the step, and index in it for each vector.
 * @param {string} id
 */
export function vectors(id, rows) {
  return new HeatMap(id, () => {
    const all = rows();
    return {
      rows: all.length,
      cols: sizes.hidden,
      palette: "diverging",
      space: 420,
      tallest: 64,
      left: 150,
      smallest: [4, 24],
      cursor: [Math.min(state.row, all.length - 1), state.number],
      /** @param {number} r */
      rowLabel: (r) => t(all[r][0]),
      /**
       * @param {number} r
       * @param {number} c
       */
      shade: (r, c) =>
        0.5 + numbers(all[r][1]).at(...all[r][2], c) / numbers(all[r][1]).typical() / 2,
      /**
       * @param {number} r
       * @param {number} c
       */
      describe: (r, c) =>
        t("vector.cell", {
          row: t(all[r][0]),
          index: c,
          value: numbers(all[r][1]).text(...all[r][2], c),
        }),
      /**
       * @param {number} r
       * @param {number} c
       */
      python: (r, c) => stepPython(all[r][1], ...all[r][2], c),
      /**
       * @param {number} r
       * @param {number} c
       */
      move: (r, c) => change({ row: r, number: c }),
    };
  });
}
