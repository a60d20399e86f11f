// The tab that compares two sentences: is "bank" the same by the river and in the city? Shows the
// cosines of their tokens, layer by layer.

import { written } from "../../model/numbers.js";
import { clamp } from "../../model/ranges.js";
import { $, bar, element, mark } from "../../parts/elements.js";
import { HeatMap } from "../../parts/heat-map.js";
import { legend } from "../../parts/legend.js";
import { pythonRun } from "../../parts/python.js";
import { tell } from "../../parts/readout.js";
import { change } from "../../state/change.js";
import { current, refresh, stateName } from "../../state/current.js";
import { sizes } from "../../state/page.js";
import { state } from "../../state/store.js";
import { t } from "../../state/words.js";
import { EXAMPLES, exampleLanguage } from "./examples.js";
import { buildFollowing, drawFollowing } from "./following.js";
import { drawSentences, sentenceCosine, sentencePython } from "./sentences.js";
import { compareCosine, compareTexts, comparison, twin } from "./texts.js";
import { fillEdits } from "../text.js";

export function fillCompared() {
  $("compare-text").value = state.other;
  $("compare-same").value = state.same;
}

export function buildCompare() {
  buildFollowing();
  fillCompared();
  $("compare-example").onclick = tryExample;
  $("compare-text").oninput = () => {
    state.other = $("compare-text").value;
    compareTexts();
  };
  $("compare-same").oninput = () => {
    state.same = $("compare-same").value;
    compareTexts();
  };
}

function tryExample() {
  const [word, text, other, same] = EXAMPLES[exampleLanguage()];
  $("compare-text").value = other;
  $("compare-same").value = same;
  const token = Math.max(
    current.live.tokens({ text }).findIndex((/** @type {any} */ token) => token.piece === word),
    0,
  );
  // Drawn by refresh, when the new tokens exist.
  Object.assign(state, { text, other, same, pair: null, masked: [], token });
  refresh();
  fillEdits();
}

/**
 * @param {number} depth
 * @param {number} i
 * @param {number} j
 * @param {any} [other]
 */
function comparePython(depth, i, j, other = 1) {
  const [a, b] = [comparison.texts[0], comparison.texts[other]].map((text) =>
    pythonRun(text.request, true),
  );
  const name = stateName(depth);
  const cell = `torch.cosine_similarity(a['${name}'][0, ${i}], b['${name}'][0, ${j}], dim=0)`;
  const imports = "import torch; from minibert.study import run;";
  return `${imports} a = ${a}; b = ${b}; print(f"{${cell}:.4f}")`;
}

const compareMap = new HeatMap("compare-map", () => {
  const [first, second] = comparison.texts.map((/** @type {any} */ text) => text.tokens);
  const { depth } = state;
  const values = first.map((/** @type {any} */ _, /** @type {number} */ i) =>
    second.map((/** @type {any} */ _, /** @type {number} */ j) => compareCosine(depth, i, j)),
  );
  return {
    rows: first.length,
    cols: second.length,
    palette: "diverging",
    slanted: true,
    top: 78,
    space: 420,
    tallest: 34,
    smallest: [36, 20],
    cursor: [
      clamp(state.token, 0, first.length - 1),
      clamp(comparison.token, 0, second.length - 1),
    ],
    /** @param {number} r */
    rowLabel: (r) => first[r].piece,
    /** @param {number} c */
    colLabel: (c) => second[c].piece,
    /**
     * @param {number} r
     * @param {number} c
     */
    shade: (r, c) => 0.5 + values[r][c] / 2,
    /**
     * @param {number} r
     * @param {number} c
     */
    write: (r, c) => values[r][c].toFixed(2).replace(/^-(0\.00)$/, "$1"),
    /**
     * @param {number} r
     * @param {number} c
     */
    describe: (r, c) =>
      t("compare.cell", {
        state: `h${depth}`,
        first: first[r].piece,
        second: second[c].piece,
        value: written(values[r][c]),
      }),
    /**
     * @param {number} r
     * @param {number} c
     */
    python: (r, c) => comparePython(depth, r, c),
    /**
     * @param {number} r
     * @param {number} c
     */
    move: (r, c) => {
      comparison.token = c;
      change({ token: r });
    },
  };
});

export function drawCompare() {
  $("compare-say").textContent = t(current.live ? `compare.say.${state.unit}` : "compare.none");
  if (!current.live) {
    return;
  }
  $("compare-first").textContent = state.text;
  $("compare-third").textContent = t(`compare.third.${state.unit}`);
  $("compare-example").hidden = Boolean(state.other);
  $("compare-example").textContent = t(
    exampleLanguage() === "ko" ? "compare.example.ko" : "compare.example.en",
  );
  $("follow-box").hidden = !state.other;
  compareTexts();
  $("compare-trouble").textContent = comparison.trouble;
  if (!comparison.texts) {
    return;
  }
  const i = clamp(state.token, 0, comparison.texts[0].tokens.length - 1);
  const j = clamp(comparison.token, 0, comparison.texts[1].tokens.length - 1);
  const ofWords = state.unit === "words";
  $("compare-words").hidden = !ofWords;
  $("compare-sentences").hidden = ofWords;
  if (ofWords) {
    compareMap.draw();
  } else {
    drawSentences();
  }
  $("compare-map-caption").textContent = t(state.other ? "compare.map" : "compare.map.itself");
  legend("compare-legend", "diverging", "−1", "1");
  const captionOfWords = t("compare.layers", {
    first: comparison.texts[0].tokens[i].piece,
    second: comparison.texts[1].tokens[j].piece,
  });
  $("compare-caption").textContent = ofWords ? captionOfWords : t("compare.layers.sentences");
  const body = element("tbody");
  const pairs = [[1, j], ...(comparison.texts[2] ? [[2, twin(comparison.texts[2])]] : [])];
  for (let depth = 0; depth <= sizes.layers; depth++) {
    const row = element("tr");
    row.append(element("td", `h${depth}`));
    for (const [other, k] of pairs) {
      const value = ofWords
        ? compareCosine(depth, i, k, other)
        : sentenceCosine(comparison.texts, depth, other);
      const said = {
        state: `h${depth}`,
        first: ofWords ? comparison.texts[0].tokens[i].piece : comparison.texts[0].request.text,
        second: ofWords
          ? comparison.texts[other].tokens[k].piece
          : comparison.texts[other].request.text,
      };
      const say = () => {
        change({ depth });
        tell(
          t("compare.cell", { ...said, value: written(value) }),
          null,
          ofWords ? comparePython(depth, i, k, other) : sentencePython(depth, other),
        );
      };
      const share = element("td", written(value), { onclick: say });
      share.append(bar(Math.max(value, 0)));
      row.append(share);
    }
    body.append(row);
  }
  const head = element("thead");
  head.append(
    element("th"),
    ...pairs.map(([other]) =>
      element("th", t(other === 1 ? "compare.column" : "compare.column.same")),
    ),
  );
  $("compare-layers").replaceChildren(...(comparison.texts[2] ? [head] : []), body);
  mark($("compare-layers"), state.depth);
  const [other, same] = pairs.map(([other, k]) => compareCosine(sizes.layers, i, k, other));
  const pieces = new Set(
    [
      comparison.texts[0].tokens[i],
      ...pairs.map(([other, k]) => comparison.texts[other].tokens[k]),
    ].map((token) => token.piece),
  );
  const told = comparison.texts[2] && {
    state: `h${sizes.layers}`,
    other: other.toFixed(4),
    same: same.toFixed(4),
  };
  let verdict = "";
  if (!ofWords || !state.other) {
    verdict = "";
  } else if (!told) {
    verdict = t("compare.alone");
  } else if (pieces.size > 1) {
    verdict = t("compare.pieces");
  } else if (new Set([i, ...pairs.map(([, k]) => k)]).size > 1) {
    verdict = t("compare.places", told); // even h0 differs then
  } else {
    verdict = t(same > other ? "compare.apart" : "compare.together", told);
  }
  $("compare-verdict").textContent = verdict;
  drawFollowing();
}
