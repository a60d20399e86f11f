// The tab on hidden states.

import { color } from "../parts/colors.js";
import { $ } from "../parts/elements.js";
import { HeatMap } from "../parts/heat-map.js";
import { legend, signedLegend } from "../parts/legend.js";
import { drawPlane } from "../parts/plane.js";
import { python, stepPython } from "../parts/python.js";
import { spaceBelow } from "../parts/scrolling.js";
import { cosines, places } from "../state/analyses.js";
import { change } from "../state/change.js";
import { current, hiddenState, piece, stateName } from "../state/current.js";
import { SPECIAL, sizes } from "../state/page.js";
import { state } from "../state/store.js";
import { t } from "../state/words.js";

const hiddenMap = new HeatMap("hidden-map", () => {
  const { depth } = state;
  const values = hiddenState(depth);
  const most = values.typical();
  return {
    rows: current.count,
    cols: sizes.hidden,
    palette: "diverging",
    space: spaceBelow("hidden-map", 240),
    tallest: 40,
    smallest: [4, 16],
    cursor: [state.token, state.number],
    rowLabel: piece,
    /**
     * @param {number} r
     * @param {number} c
     */
    shade: (r, c) => 0.5 + values.at(r, c) / most / 2,
    /**
     * @param {number} r
     * @param {number} c
     */
    describe: (r, c) =>
      t("hidden.cell", { state: `h${depth}`, token: piece(r), index: c, value: values.text(r, c) }),
    /**
     * @param {number} r
     * @param {number} c
     */
    python: (r, c) => stepPython(stateName(depth), r, c),
    /**
     * @param {number} r
     * @param {number} c
     */
    move: (r, c) => change({ token: r, number: c }),
  };
});

/** @param {any} values */
const lowest = (values) =>
  values.data.reduce((/** @type {any} */ low, /** @type {any} */ value) => Math.min(low, value), 1);

const movedMap = new HeatMap("moved-map", () => {
  const values = cosines(state.compare);
  const low = Math.min(lowest(values), 0.99);
  return {
    rows: current.count,
    cols: sizes.layers,
    palette: "sequential",
    space: spaceBelow("moved-map", 240),
    tallest: 40,
    cursor: [state.token, Math.max(state.depth - 1, 0)],
    rowLabel: piece,
    /** @param {number} c */
    colLabel: (c) => `${c}`,
    /**
     * @param {number} r
     * @param {number} c
     */
    shade: (r, c) => (values.at(c, r) - low) / (1 - low),
    /**
     * @param {number} r
     * @param {number} c
     */
    write: (r, c) => values.at(c, r).toFixed(2),
    /**
     * @param {number} r
     * @param {number} c
     */
    describe: (r, c) => t("hidden.cosine", { token: piece(r), layer: c, value: values.text(c, r) }),
    /**
     * @param {number} r
     * @param {number} c
     */
    python: (r, c) => {
      const names = [stateName(c + 1), stateName(state.compare === "moved" ? c : 0)].map(
        (name) => `t['${name}'][0, ${r}]`,
      );
      return python(`torch.cosine_similarity(${names.join(", ")}, dim=0)`, { torch: true });
    },
    /**
     * @param {number} r
     * @param {number} c
     */
    move: (r, c) => change({ token: r, depth: c + 1 }),
  };
});

export function buildHidden() {
  $("depth").max = sizes.layers;
  $("depth").oninput = () => change({ depth: Number($("depth").value) });
  $("places").onclick = (/** @type {any} */ event) => {
    const near = drawPlaces().map(([x, y]) => Math.hypot(event.offsetX - x, event.offsetY - y));
    change({ token: near.indexOf(Math.min(...near)) });
  };
}

const drawPlaces = () =>
  drawPlane(
    $("places"),
    places()[state.depth],
    places()[Math.max(state.depth - 1, 0)],
    current.tokens.map((token) => token.piece),
    state.token,
    (i) => color(SPECIAL.test(piece(i)) ? "soft" : "ink"),
  );

export function drawHidden() {
  $("depth").value = state.depth;
  $("depth-number").textContent = `${state.depth} (h${state.depth})`;
  $("moved-caption").textContent = t(`hidden.${state.compare}.caption`);
  $("places-caption").textContent = t("hidden.places.caption", { depth: `h${state.depth}` });
  hiddenMap.draw();
  movedMap.draw();
  drawPlaces();
  signedLegend("hidden-legend", hiddenState(state.depth).typical());
  legend("moved-legend", "sequential", lowest(cosines(state.compare)).toFixed(2), "1.00");
}
