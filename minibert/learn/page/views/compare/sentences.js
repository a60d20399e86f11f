// Compares whole sentences. A sentence vector is the mean of all tokens, and curves over the layers
// show which sentence is closer.

import { written } from "../../model/numbers.js";
import { cosine } from "../../model/vectors.js";
import { drawCurves } from "../../parts/curves.js";
import { $ } from "../../parts/elements.js";
import { HeatMap } from "../../parts/heat-map.js";
import { pythonRun } from "../../parts/python.js";
import { change } from "../../state/change.js";
import { meanState } from "../../state/computed-text.js";
import { stateName } from "../../state/current.js";
import { sizes } from "../../state/page.js";
import { state } from "../../state/store.js";
import { t } from "../../state/words.js";
import { comparison } from "./texts.js";

/**
 * @param {number} which
 * @param {number} depth
 */
const meanVector = (which, depth) => meanState(comparison.texts[which], depth);

/**
 * @param {Computed[]} texts
 * @param {number} depth
 * @param {number} which
 */
export const sentenceCosine = (texts, depth, which) =>
  cosine(meanState(texts[0], depth), meanState(texts[which], depth));

/**
 * @param {number} depth
 * @param {number} which
 */
export function sentencePython(depth, which) {
  const [a, b] = [comparison.texts[0], comparison.texts[which]].map((text) =>
    pythonRun(text.request, true),
  );
  const name = stateName(depth);
  const cell = `torch.cosine_similarity(a['${name}'][0].mean(0), b['${name}'][0].mean(0), dim=0)`;
  const imports = "import torch; from minibert.study import run;";
  return `${imports} a = ${a}; b = ${b}; print(f"{${cell}:.4f}")`;
}

export const sentenceMap = new HeatMap("sentence-map", () => {
  const { depth } = state;
  const vectors = comparison.texts.map((/** @type {any} */ _, /** @type {any} */ which) =>
    meanVector(which, depth),
  );
  // Outliers would make all others look alike.
  const most = Math.max(...vectors.flat().map(Math.abs)) / 2;
  const rows = vectors.length;
  return {
    rows,
    cols: sizes.hidden,
    palette: "diverging",
    space: 60 * rows,
    tallest: 60,
    left: 150,
    smallest: [2, 30],
    cursor: [Math.min(state.row, rows - 1), state.number],
    /** @param {number} r */
    rowLabel: (r) => comparison.texts[r].request.text,
    /**
     * @param {number} r
     * @param {number} c
     */
    shade: (r, c) => 0.5 + vectors[r][c] / most / 2,
    /**
     * @param {number} r
     * @param {number} c
     */
    describe: (r, c) =>
      t("vector.cell", {
        row: `h${depth} “${comparison.texts[r].request.text}”`,
        index: c,
        value: written(vectors[r][c]),
      }),
    /**
     * @param {number} r
     * @param {number} c
     */
    python: (r, c) =>
      `from minibert.study import run; t = ${pythonRun(comparison.texts[r].request, true)}; ` +
      `print(f"{t['${stateName(depth)}'][0].mean(0)[${c}]:.4f}")`,
    /**
     * @param {number} r
     * @param {number} c
     */
    move: (r, c) => change({ row: r, number: c }),
  };
});

/**
 * Draws the vectors of the sentences at a depth, and their cosines with the first over the layers.
 */
export function drawSentences() {
  const depths = Array.from({ length: sizes.layers + 1 }, (_, depth) => depth);
  sentenceMap.draw();
  $("sentence-caption").textContent = t("compare.vectors", { state: `h${state.depth}` });
  const curves = comparison.texts
    .slice(1)
    .map((/** @type {any} */ { request }, /** @type {number} */ i) => ({
      name: request.text,
      means: depths.map((depth) => sentenceCosine(comparison.texts, depth, i + 1)),
    }));
  drawCurves($("sentence-curves"), {
    labels: depths.map((depth) => `h${depth}`),
    curves,
    at: state.depth,
    label: curves
      .map(
        (/** @type {any} */ { name, means }) =>
          `${name}: ${means.map((/** @type {any} */ mean) => mean.toFixed(2)).join(", ")}`,
      )
      .join(". "),
  });
}
