// The verdict: its sentences, its table, and its figure.

import { amounts } from "./amounts.js";
import { saidAgain } from "./experiment.js";
import { $, element } from "../parts/elements.js";
import { HeatMap } from "../parts/heat-map.js";
import { legend } from "../parts/legend.js";
import { rich } from "../parts/rich-text.js";
import { words } from "../state/page.js";
import { state } from "../state/store.js";
import { t } from "../state/words.js";

/**
 * Returns the first sentence of a verdict, those that follow, and the details behind an empty line.
 * Only details are folded: the answer to the question of the scene is always seen.
 * @param {string} whole
 */
function inParts(whole) {
  const [shown, details = ""] = whole.split("\n\n");
  const [first, ...others] = shown.split(/(?<=[.?!])\s+/);
  return [first, others.join(" "), details];
}

/**
 * Whether an element is to say something else than it does. What it says already is not written
 * again, so that what the reader opened there, or what has the focus, stays.
 * @param {HTMLElement} box
 * @param {...any} said
 */
export function saysNew(box, ...said) {
  const all = JSON.stringify([state.language, said]);
  const isNew = saysNew.last.get(box) !== all;
  saysNew.last.set(box, all);
  return isNew;
}
saysNew.last = new WeakMap();

/**
 * Shows what the reader predicted, and the result in brief, its first sentence in bold.
 * @param {Scene} scene
 * @param {Verdict | null} found
 * @param {string} may
 * @param {string[]} changed
 */
export function tellVerdict(scene, found, may, changed) {
  $("scene-guess").textContent = "";
  $("scene-again-said").textContent = found ? saidAgain(scene.experiments?.() ?? []) : "";
  if (!found) {
    if (saysNew($("scene-brief"))) {
      $("scene-brief").replaceChildren();
      $("scene-rest").replaceChildren();
    }
    return;
  }
  const whole =
    may === "verdict"
      ? t(`lesson.${scene.id}.verdict.${found.verdict ?? found.outcome}`, {
          ...amounts(),
          ...found.values,
        })
      : t("lesson.changed", {
          parts: changed.map((name) => t(`lesson.part.${name}`)).join(", "),
        });
  const { rows, heads, values = {} } = found;
  if (saysNew($("scene-brief"), scene.id, rows, heads, values, whole)) {
    const [first, next, rest] = inParts(whole);
    const seen = new Set();
    $("scene-brief").replaceChildren(element("strong", first), " ", ...rich(next, seen));
    $("scene-rest").replaceChildren(...rich(rest, seen));
    linkNumbers($("scene-brief"), Object.values(values));
    linkNumbers($("scene-rest"), Object.values(values));
  }
  if (may !== "verdict") {
    return;
  }
  if (state.guess < 0) {
    $("scene-guess").textContent = t("lesson.unasked");
  } else {
    $("scene-guess").textContent = t(
      found.outcome === state.guess ? "lesson.right" : "lesson.wrong",
      { guess: t(`lesson.${scene.id}.choice.${state.guess}`, amounts()) },
    );
  }
}

// The interval behind a share: its percents are no measured values of their own.
const INTERVAL = /\([^()]*95%[^()]*\)/gu;

/**
 * Whether a text ends inside the interval behind a share.
 * @param {string} text
 */
const endsInInterval = (text) => /\([^()]*95%[^()]*$/u.test(text);

/**
 * Turns each number of a verdict that a cell of the table holds into a button, which opens the
 * table and lights up the cell. The verdict and the table hold the same measured values.
 * @param {HTMLElement} box
 * @param {any[]} values
 */
function linkNumbers(box, values) {
  const cells = [...$("scene-table").querySelectorAll("td")];
  /**
   * @param {any} cell
   * @param {any} value
   */
  const holds = (cell, value) =>
    cell.textContent
      .replace(INTERVAL, "")
      .split(/[^\p{L}\d.%−-]+/u)
      .includes(value);
  const numbers = values
    .filter((value) => /^[−-]?\d+(\.\d+)?%?$/.test(value) && String(value).length > 2)
    .filter((value) => cells.some((cell) => holds(cell, value)));
  if (!numbers.length) {
    return;
  }
  const found = new RegExp(
    `(?<![\\d.−-])(${numbers.map((number) => number.replace(".", "\\.")).join("|")})(?![\\d%]|\\.\\d)`,
    "u",
  );
  const walker = document.createTreeWalker(box, NodeFilter.SHOW_TEXT);
  /** @type {any[]} */
  const texts = [];
  while (walker.nextNode()) {
    texts.push(walker.currentNode);
  }
  let said = ""; // up to the number
  for (const text of texts) {
    const parts = text.textContent.split(found);
    text.replaceWith(
      ...parts.map((/** @type {any} */ part, /** @type {number} */ i) => {
        const isInterval = endsInInterval(said);
        said += part;
        if (i % 2 === 0 || isInterval) {
          return part;
        }
        const lit = cells.filter((cell) => holds(cell, part));
        return numberButton(part, lit);
      }),
    );
  }
}

/**
 * @param {string} text
 * @param {HTMLElement[]} cells
 */
function numberButton(text, cells) {
  /** @param {boolean} isLit */
  const light = (isLit) => cells.forEach((cell) => cell.classList.toggle("lit", isLit));
  const button = element("button", text, { type: "button", className: "number" });
  button.onpointerenter = button.onfocus = () => light(true);
  button.onpointerleave = button.onblur = () => light(false);
  button.onclick = () => {
    $("scene-more").open = true;
    light(true);
    cells[0].scrollIntoView({ block: "nearest" });
  };
  return button;
}

/**
 * Fills the table of a verdict with the measurements before and after.
 * @param {{rows: any[][], heads?: string[]}} of
 * @param {Scene} scene
 */
export function fillVerdict({ rows, heads = ["before", "after"] }, scene) {
  if (!saysNew($("scene-table"), scene.id, rows, heads)) {
    return;
  }
  /** @param {string} key */
  const own = (key) =>
    words[state.language][`lesson.${scene.id}.row.${key}`] ??
    words[state.language][`embeddings.${key}`] ??
    words[state.language][`lesson.${key}`] ??
    key;
  const head = element("tr");
  const body = element("tbody");
  const top = element("thead");
  head.append(element("td"), ...heads.map((name) => element("th", own(name), { scope: "col" })));
  top.append(head);
  for (const [label, ...cells] of rows) {
    const row = element("tr");
    row.append(
      element("th", own(label), { scope: "row" }),
      ...cells.map((cell) => element("td", cell, { dir: "auto" })),
    );
    body.append(row);
  }
  $("scene-table").replaceChildren(top, body);
}

/** @type {any} */
let drawnFigure = null; // the figure whose map is shown, which may belong to an earlier scene

const sceneMap = new HeatMap("scene-map", () => drawnFigure.plan());

/**
 * Draws the figure of a verdict: a map of cells, what the figure draws itself, or both.
 * @param {Figure} figure
 */
export function drawFigure(figure) {
  const caption = figure.caption();
  if (saysNew($("scene-caption"), caption)) {
    $("scene-caption").replaceChildren(...rich(`${caption} `));
  }
  const choices = figure.choices();
  const names = choices.map(([name]) => name);
  if (saysNew($("scene-shown"), names)) {
    const buttons = names.map((name) => element("button", name, { type: "button" }));
    $("scene-shown").replaceChildren(...buttons);
  }
  for (const [i, [, chosen, onclick]] of choices.entries()) {
    const button = $("scene-shown").children[i];
    button.onclick = onclick;
    button.setAttribute("aria-pressed", chosen);
  }
  // on a phone, the figure of the opening comes to the verdict that speaks of it
  const isNarrow = matchMedia("(max-width: 999px)").matches;
  const isJudged = $("scene-verdict").dataset.may === "verdict";
  const isOpening = figure.opening && !(isNarrow && isJudged);
  const above = isOpening ? $("scene-say").firstElementChild : $("scene-verdict");
  if (above.nextElementSibling !== $("scene-figure")) {
    above.after($("scene-figure"));
  }
  const isMap = Boolean(figure.plan && figure.legend);
  $("scene-map").parentElement.hidden = !isMap;
  $("scene-legend").hidden = !isMap;
  $("scene-drawn").hidden = !figure.draw;
  if (figure.plan && figure.legend) {
    drawnFigure = figure;
    sceneMap.draw();
    legend("scene-legend", ...figure.legend());
  }
  if (figure.draw) {
    if (drawFigure.drawn !== figure) {
      $("scene-drawn").replaceChildren();
    }
    drawFigure.drawn = figure;
    figure.draw($("scene-drawn"));
  }
  const said = figure.said?.() ?? "";
  if (saysNew($("scene-said"), said)) {
    $("scene-said").replaceChildren(...rich(said));
  }
  figure.drawBeside?.();
}
/** @type {any} */
drawFigure.drawn = null;
