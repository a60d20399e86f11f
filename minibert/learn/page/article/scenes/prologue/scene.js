// The two calculations that BERT repeats. A vector of two numbers is an arrow, a dot product compares
// two arrows, and softmax turns scores into shares.

import { BLANK, TURN } from "../../beginning.js";
import { brief, choiceOf } from "../../wording.js";
import { softmax } from "../../../model/softmax.js";
import { $, bar, element } from "../../../parts/elements.js";
import { svg } from "../../../parts/svg.js";
import { change } from "../../../state/change.js";
import { placeIn } from "../../../state/computed-text.js";
import { page, sizes } from "../../../state/page.js";
import { state } from "../../../state/store.js";
import { t } from "../../../state/words.js";

/** @type {[string, number[]][]} */
const KEYS = [
  ["a", arrow(20, 1)],
  ["b", arrow(100, 1)],
  ["c", arrow(190, 1)],
];

/**
 * Returns the two numbers of an arrow.
 * @param {number} degrees
 * @param {number} length
 */
function arrow(degrees, length) {
  const angle = (degrees * Math.PI) / 180;
  return [length * Math.cos(angle), length * Math.sin(angle)];
}

/**
 * Returns the dot product of an arrow with every key, and the shares that softmax makes of them.
 * @param {number[]} query
 */
function compareWithKeys(query) {
  const scores = KEYS.map(([, key]) => query.reduce((sum, value, i) => sum + value * key[i], 0));
  const shares = Float32Array.from(scores);
  softmax(shares);
  return { scores, shares: Array.from(shares) };
}

/**
 * Draws an arrow from the middle of the picture.
 * @param {any} picture
 * @param {string} name
 * @param {any[]} of2
 * @param {string} kind
 */
function drawArrow(picture, name, [x, y], kind) {
  const [toX, toY] = [150 + 60 * x, 135 - 60 * y];
  const angle = Math.atan2(-y, x);
  /** @param {number} turn */
  const side = (turn) =>
    `${toX - 10 * Math.cos(angle + turn)} ${toY - 10 * Math.sin(angle + turn)}`;
  const label = svg("text", {
    x: toX + 12 * Math.cos(angle),
    y: toY + 12 * Math.sin(angle) + 5,
    "text-anchor": "middle",
    class: kind,
  });
  label.textContent = name;
  picture.append(
    svg("path", {
      d: `M150 135L${toX} ${toY}M${side(0.4)}L${toX} ${toY}L${side(-0.4)}`,
      class: kind,
    }),
    label,
  );
}

/** @type {Figure} */
const arrowsFigure = {
  opening: true,
  ready: () => true,
  caption: () => t("lesson.prologue.caption"),
  choices: () => [],
  draw(box) {
    if (!box.querySelector("#turn")) {
      const slider = element("input", "", {
        type: "range",
        id: "turn",
        className: "own",
        min: 0,
        max: 359,
        oninput: () => change({ turn: Number(slider.value) }),
      });
      const label = element("label");
      label.append(element("span"), slider);
      box.replaceChildren(
        svg("svg", { viewBox: "0 0 300 270", class: "arrows", "aria-hidden": "true" }),
        element("div", "", { className: "words" }),
        label,
      );
    }
    const query = arrow(state.turn, state.reach);
    const { scores, shares } = compareWithKeys(query);
    const [picture, list, label] = box.children;
    picture.replaceChildren();
    for (const [name, key] of KEYS) {
      drawArrow(picture, name, key, "key");
    }
    drawArrow(picture, "q", query, "query");
    list.replaceChildren(
      ...KEYS.flatMap(([name], i) => [
        element("b", `q · ${name} = ${scores[i].toFixed(2)}`),
        bar(shares[i]),
        element("span", shares[i].toFixed(2)),
      ]),
    );
    label.firstChild.textContent = t("lesson.prologue.turn");
    $("turn").value = state.turn;
  },
};

/**
 * Rows on the dot products and shares of two arrows.
 * @param {ReturnType<typeof compareWithKeys>[]} arrows
 */
const rowsOf = (arrows) =>
  KEYS.map(([name], i) => [
    `q · ${name}`,
    ...arrows.map(({ scores, shares }) => `${brief(scores[i])} → ${brief(shares[i])}`),
  ]);

/**
 * It shows the model's answer to the [MASK] in the page's text. What holds of a longer arrow holds
 * in every direction, so the reader may go on turning it: the verdict is about the one that is seen.
 */
export const scene = {
  id: "prologue",
  concerns: ["reach"],
  set: () => ({ section: "predictions", token: placeIn(page.texts[0], "[MASK]") }),
  act: () => ({ reach: 2 * BLANK().reach, turn: TURN }),
  measure: () => {
    const arrows = [1, 2].map((times) => compareWithKeys(arrow(state.turn, times * BLANK().reach)));
    const [before, after] = arrows;
    const most = before.shares.indexOf(Math.max(...before.shares));
    const [a, b] = [before, after].map(({ shares }) => shares[most]);
    return {
      rows: rowsOf(arrows),
      outcome: choiceOf(b > a, b === a),
      values: {
        key: KEYS[most][0],
        before: brief(a),
        after: brief(b),
        size: sizes.hidden / sizes.heads,
      },
    };
  },
  own: () =>
    rowsOf([
      compareWithKeys(arrow(TURN, BLANK().reach)),
      compareWithKeys(arrow(state.turn, state.reach)),
    ]),
  figure: arrowsFigure,
};
