// The tab on attention: thumbnails of all heads, one head as a large map or as lines, and one row of
// it step by step.

import { written } from "../model/numbers.js";
import { clamp } from "../model/ranges.js";
import { LOWEST } from "../model/sides.js";
import { fitted, prepare } from "../parts/canvas.js";
import { color, pixel } from "../parts/colors.js";
import { $, bar, element, mark } from "../parts/elements.js";
import { HeatMap } from "../parts/heat-map.js";
import { walk } from "../parts/keys.js";
import { legend, signedLegend } from "../parts/legend.js";
import { python, stepPython } from "../parts/python.js";
import { tell } from "../parts/readout.js";
import { spaceBelow } from "../parts/scrolling.js";
import { pattern, rollout } from "../state/analyses.js";
import { ask, change } from "../state/change.js";
import { attention, current, mayLook, piece, same } from "../state/current.js";
import { root, sizes } from "../state/page.js";
import { state } from "../state/store.js";
import { t } from "../state/words.js";
import { chooseHead, headName, patternPython } from "./heads.js";
import { fillEdits } from "./text.js";

/**
 * @param {number} q
 * @param {number} k
 */
const isHidden = (q, k) => state.stage === "masked" && !mayLook(q, k);

/**
 * Returns the value of a cell in the chosen stage.
 * @param {number} layer
 * @param {number} head
 * @param {number} q
 * @param {number} k
 */
export function stageValue(layer, head, q, k) {
  if (state.stage === "rollout") {
    return rollout(layer).at(q, k);
  }
  if (isHidden(q, k)) {
    return LOWEST;
  }
  return attention(layer, state.stage === "probabilities" ? "probabilities" : "scores").at(
    head,
    q,
    k,
  );
}

const isShare = () => state.stage === "probabilities" || state.stage === "rollout";

/**
 * Returns how strongly a cell is drawn as a line, from 0 to 1. Probabilities are used directly, and
 * scores are scaled to the range of their row.
 * @param {number} layer
 * @param {number} head
 * @param {number} q
 * @param {number} k
 */
function lineWeight(layer, head, q, k) {
  if (!isDrawn(layer, head, q, k)) {
    return 0;
  }
  if (isShare()) {
    return stageValue(layer, head, q, k);
  }
  const row = attention(layer, "scores").row(head, q);
  const low = Math.min(...row);
  return isHidden(q, k)
    ? 0
    : (attention(layer, "scores").at(head, q, k) - low) / (Math.max(...row) - low || 1);
}

/**
 * Returns whether a cell is drawn.
 * @param {number} layer
 * @param {number} head
 * @param {number} q
 * @param {number} k
 */
export function isDrawn(layer, head, q, k) {
  /** @param {number} i */
  const bound = (i) => /^\[(CLS|SEP)\]$/.test(piece(i));
  if (!state.special && (bound(q) || bound(k))) {
    return false;
  }
  return !isShare() || stageValue(layer, head, q, k) >= state.threshold;
}

/**
 * @param {number} layer
 * @param {number} head
 * @param {number} q
 * @param {number} k
 */
function stagePython(layer, head, q, k) {
  if (state.stage === "rollout") {
    return python(`rollout(t)[${layer}, 0, ${q}, ${k}]`, { names: "rollout, run" });
  }
  const name = { scores: "scores", masked: "masked_scores", probabilities: "probabilities" }[
    state.stage
  ];
  const cell = `t['layer.${layer}.attention.${name}'][0, ${head}, ${q}, ${k}]`;
  return python(cell, { format: isHidden(q, k) ? ".1e" : ".4f" });
}

/**
 * @param {number} layer
 * @param {number} head
 * @param {number} q
 * @param {number} k
 */
function stageSays(layer, head, q, k) {
  const value =
    written(stageValue(layer, head, q, k)) + (isHidden(q, k) ? ` (${t("attention.hidden")})` : "");
  const where = state.stage === "rollout" ? "attention.cell.rollout" : "attention.cell";
  return t(where, { layer, head, query: piece(q), key: piece(k), value });
}

const attentionMap = new HeatMap("attention-map", () => {
  const { layer, head } = state;
  const most = attention(layer, "scores").typical();
  return {
    rows: current.count,
    cols: current.count,
    square: true,
    slanted: true,
    top: 78,
    space: spaceBelow("attention-map", 90),
    cursor: [state.token, state.key],
    rowLabel: piece,
    colLabel: piece,
    palette: isShare() ? "sequential" : "diverging",
    /**
     * @param {number} r
     * @param {number} c
     */
    shade: (r, c) => {
      if (!isDrawn(layer, head, r, c) || isHidden(r, c)) {
        return null;
      }
      const value = stageValue(layer, head, r, c);
      // The square root makes small probabilities visible, as the legend explains.
      return isShare() ? Math.sqrt(value) : 0.5 + value / most / 2;
    },
    /**
     * @param {number} r
     * @param {number} c
     */
    describe: (r, c) => stageSays(layer, head, r, c),
    /**
     * @param {number} r
     * @param {number} c
     */
    python: (r, c) => stagePython(layer, head, r, c),
    /**
     * @param {number} r
     * @param {number} c
     */
    move: (r, c) => change({ token: r, key: c }),
  };
});

/** Draws the legend of probabilities. Its ticks are on the same square-root scale as the colors. */
function shareLegend() {
  legend("attention-legend", "sequential", "0", "1");
  $("attention-legend").append(element("span", t("attention.root")));
}

// The thumbnails, which are drawn again for another size, theme or text.
/** @type {Record<string, any>} */
const grid = { key: "", of: null, picture: null };

const SPACE = 22; // room above and to the left of the grid for its numbers

/**
 * Draws every head as a thumbnail on one canvas. A pixel shows the largest probability it covers.
 * @param {number} width
 * @param {number} height
 * @param {number[]} cell
 * @param {number} ratio
 */
function thumbnails(width, height, cell, ratio) {
  const canvas = new OffscreenCanvas(width, height);
  /** @type {any} */
  const context = canvas.getContext("2d");
  const image = context.createImageData(width, height);
  const pixels = new Uint32Array(image.data.buffer);
  const [wide, high] = cell.map((size) => Math.max(1, Math.floor((size - 2) * ratio)));
  /** @param {number} size */
  const starts = (size) =>
    Array.from({ length: size + 1 }, (_, i) => Math.floor((i * current.count) / size));
  const cols = starts(wide);
  const rows = starts(high);
  for (let layer = 0; layer < sizes.layers; layer++) {
    const { data, scale } = attention(layer, "probabilities");
    for (let head = 0; head < sizes.heads; head++) {
      const left = Math.round((SPACE + head * cell[0] + 1) * ratio);
      const top = Math.round((SPACE + layer * cell[1] + 1) * ratio);
      for (let y = 0; y < high; y++) {
        for (let x = 0; x < wide; x++) {
          let most = 0;
          for (let r = rows[y]; r < Math.max(rows[y + 1], rows[y] + 1); r++) {
            const row = (head * current.count + r) * current.count;
            for (let c = cols[x]; c < Math.max(cols[x + 1], cols[x] + 1); c++) {
              most = Math.max(most, data[row + c]);
            }
          }
          pixels[(top + y) * width + left + x] = pixel("sequential", Math.sqrt(most / scale));
        }
      }
    }
  }
  context.putImageData(image, 0, 0);
  return canvas;
}

/**
 * @param {number} layer
 * @param {number} head
 */
const isOff = (layer, head) =>
  state.off.some((at) => at[0] === layer && (at.length === 1 || at[1] === head));

function drawGrid() {
  const canvas = $("grid");
  const { layers, heads } = sizes;
  const width = Math.max(canvas.parentElement.clientWidth, SPACE + heads * 18);
  const height = Math.max(
    Math.min(spaceBelow("grid", 90), SPACE + ((width - SPACE) / heads) * layers),
    SPACE + layers * 18,
  );
  const cell = [(width - SPACE) / heads, (height - SPACE) / layers];
  const context = prepare(canvas, width, height);
  const { theme } = root.dataset;
  const key = [canvas.width, canvas.height, theme].join(" ");
  if (grid.key !== key || grid.of !== current.shown) {
    const picture = thumbnails(canvas.width, canvas.height, cell, canvas.width / width);
    Object.assign(grid, { key, of: current.shown, picture });
  }
  context.drawImage(grid.picture, 0, 0, width, height);
  context.textAlign = "center";
  context.fillStyle = color("soft");
  for (let a = 0; a < heads; a++) {
    context.fillText(a, SPACE + (a + 0.5) * cell[0], 11);
  }
  for (let l = 0; l < layers; l++) {
    context.fillText(l, 10, SPACE + (l + 0.5) * cell[1]);
  }
  /**
   * @param {number} layer
   * @param {number} head
   * @param {number} [inset]
   */
  const frame = (layer, head, inset = 0) =>
    context.strokeRect(
      SPACE + head * cell[0] + inset,
      SPACE + layer * cell[1] + inset,
      cell[0] - 1 - 2 * inset,
      cell[1] - 1 - 2 * inset,
    );
  context.lineWidth = 2;
  for (let layer = 0; layer < layers; layer++) {
    for (let head = 0; head < heads; head++) {
      if (!isOff(layer, head)) {
        continue;
      }
      context.strokeStyle = color("cursor");
      context.beginPath();
      context.moveTo(SPACE + head * cell[0] + 3, SPACE + layer * cell[1] + 3);
      context.lineTo(SPACE + (head + 1) * cell[0] - 4, SPACE + (layer + 1) * cell[1] - 4);
      context.stroke();
    }
  }
  state.pinned.forEach(([layer, head], i) => {
    context.strokeStyle = pinColor(i);
    frame(layer, head, 2);
  });
  context.strokeStyle = color("cursor");
  frame(state.layer, state.head);
  canvas.at = (/** @type {any} */ event) => [
    Math.floor((event.offsetY - SPACE) / cell[1]),
    Math.floor((event.offsetX - SPACE) / cell[0]),
  ];
}

/** @type {() => [number, number]} the chosen layer and head */
export const at = () => [state.layer, state.head];

/**
 * @param {number[][]} list
 * @param {number[]} own
 */
const has = (list, own) => list.some((other) => same(other, own));

/**
 * @param {number[][]} list
 * @param {number[]} own
 */
const toggled = (list, own) =>
  has(list, own) ? list.filter((other) => !same(other, own)) : [...list, own];

/** @param {number} i */
const pinColor = (i) => color("pins").split(",")[i % 5].trim();

export function buildAttention() {
  const canvas = $("grid");
  canvas.tabIndex = 0;
  canvas.setAttribute("role", "application");
  /** @param {number[]} of */
  const inside = ([l, a]) => l >= 0 && a >= 0 && l < sizes.layers && a < sizes.heads;
  canvas.onpointermove = (/** @type {any} */ event) => {
    /** @type {[number, number]} */
    const at = canvas.at(event);
    tell(event.pointerType === "mouse" && inside(at) ? headName(...at) : "", event);
  };
  canvas.onclick = (/** @type {any} */ event) => {
    /** @type {[number, number]} */
    const at = canvas.at(event);
    if (inside(at)) {
      chooseHead(...at);
    }
  };
  canvas.onpointerleave = () => tell("", true);
  canvas.onfocus = () =>
    tell(headName(state.layer, state.head), null, patternPython(state.layer, state.head));
  walk(
    canvas,
    () => [sizes.layers, sizes.heads],
    () => [state.layer, state.head],
    chooseHead,
  );
  for (const [id, name, most] of [
    ["layer", "layer", sizes.layers],
    ["head-choice", "head", sizes.heads],
  ]) {
    $(id).max = most - 1;
    $(id).oninput = () => change({ [name]: Number($(id).value) });
  }
  $("special").onchange = () => change({ special: !$("special").checked });
  $("threshold").oninput = () => change({ threshold: Number($("threshold").value) });
  $("pin").onclick = () => change({ pinned: toggled(state.pinned, at()).slice(-5) });
  $("off-head").onclick = () => ask({ off: toggled(state.off, at()) });
  $("off-layer").onclick = () => ask({ off: toggled(state.off, [state.layer]) });
  $("all-on").onclick = () => {
    ask({ off: [], type: null });
    fillEdits();
  };
  $("off-undo").onclick = () => {
    ask(state.type === null ? { off: state.off.slice(0, -1) } : { type: null });
    fillEdits();
  };

  const lines = $("lines");
  /** @param {MouseEvent} event */
  const row = (event) => clamp(Math.floor(event.offsetY / lineHeight()), 0, current.count - 1);
  const say = () =>
    tell(
      stageSays(...at(), state.token, state.key),
      null,
      stagePython(...at(), state.token, state.key),
    );
  /**
   * @param {number} token
   * @param {number} key
   */
  const go = (token, key) => {
    change({ token, key });
    say();
  };
  Object.assign(lines, { tabIndex: 0, onfocus: say, onpointerleave: () => tell("", true) });
  lines.setAttribute("role", "application");
  /** @param {MouseEvent} event */
  const isLeft = (event) => event.offsetX < lines.clientWidth / 2;
  lines.onpointermove = (/** @type {any} */ event) => {
    if (event.pointerType === "mouse") {
      tell(isLeft(event) ? piece(row(event)) : stageSays(...at(), state.token, row(event)), event);
    }
  };
  lines.onclick = (/** @type {any} */ event) =>
    isLeft(event) ? go(row(event), state.key) : go(state.token, row(event));
  // Up and down choose the query, left and right the key.
  walk(
    lines,
    () => [current.count, current.count],
    () => [state.token, state.key],
    go,
  );
}

const lineHeight = () => clamp(spaceBelow("lines-scroll", 90) / current.count, 20, 30);

function drawLines() {
  const canvas = $("lines");
  const height = lineHeight();
  const width = Math.max($("lines-scroll").clientWidth, 220);
  const context = prepare(canvas, width, height * current.count);
  const left = Math.min(96, width * 0.28);
  const right = width - left - 64;
  /**
   * @param {number} i
   * @param {number} j
   * @param {number} alpha
   * @param {number} weight
   */
  const line = (i, j, alpha, weight) => {
    context.globalAlpha = alpha;
    context.lineWidth = weight;
    context.beginPath();
    context.moveTo(left, (i + 0.5) * height);
    context.lineTo(right, (j + 0.5) * height);
    context.stroke();
  };
  context.strokeStyle = color("soft");
  if (isShare()) {
    for (let i = 0; i < current.count; i++) {
      for (let j = 0; j < current.count; j++) {
        const p = lineWeight(...at(), i, j);
        if (p >= 0.02 && i !== state.token) {
          line(i, j, p * 0.35, 1);
        }
      }
    }
  }
  /** @type {[string, [number, number]][]} */
  const heads = [
    [color("accent"), at()],
    ...state.pinned.map((own, i) => /** @type {[string, any]} */ ([pinColor(i), own])),
  ];
  for (const [stroke, own] of heads) {
    context.strokeStyle = stroke;
    for (let j = 0; j < current.count; j++) {
      const p = lineWeight(...own, state.token, j);
      if (p >= 0.001) {
        line(state.token, j, 0.15 + p * 0.85, 1 + 4 * p);
      }
    }
  }
  for (let i = 0; i < current.count; i++) {
    const y = (i + 0.5) * height;
    const value = stageValue(...at(), state.token, i);
    context.globalAlpha = 1;
    context.fillStyle = color(i === state.token ? "accent" : "ink");
    context.textAlign = "right";
    fitted(context, piece(i), left - 6, y, left - 10);
    context.fillStyle = color(i === state.key ? "cursor" : "ink");
    context.textAlign = "left";
    fitted(context, piece(i), right + 6, y, left - 10);
    context.textAlign = "right";
    context.fillText(written(value), width - 2, y);
  }
  const scroll = $("lines-scroll");
  const y = state.token * height;
  if (y < scroll.scrollTop || y + height > scroll.scrollTop + scroll.clientHeight) {
    scroll.scrollTop = y - scroll.clientHeight / 2;
  }
}

/** Shows one row of the map as a table: score, mask and probability of every key. */
function drawSteps() {
  const head = element("tr");
  const body = element("tbody");
  const { layer, token } = state;
  const own = [state.head, token];
  const scores = attention(layer, "scores");
  const probabilities = attention(layer, "probabilities");
  for (const name of ["key", "scores", "masked", "probabilities"]) {
    head.append(element("th", t(`attention.${name}`)));
  }
  current.tokens.forEach((other, j) => {
    const choose = () => {
      change({ key: j });
      const name = t("attention.cell", {
        layer,
        head: state.head,
        query: piece(token),
        key: other.piece,
        value: probabilities.text(...own, j),
      });
      tell(name, null, stepPython(`layer.${layer}.attention.probabilities`, ...own, j));
    };
    const row = element("tr", "", { onclick: choose });
    const share = element("td", probabilities.text(...own, j));
    share.append(bar(probabilities.at(...own, j)));
    row.append(
      element("td", other.piece, { dir: "auto" }),
      element("td", scores.text(...own, j)),
      element("td", mayLook(token, j) ? "0" : "−3.4e+38"),
      share,
    );
    row.classList.toggle("off", !mayLook(token, j));
    body.append(row);
  });
  const header = element("thead");
  header.append(head);
  $("steps").replaceChildren(header, body);
  mark($("steps"), state.key);
}

/** Lists the heads that follow a pattern on this text, each as a button. */
function drawPatterns() {
  const names = ["previous", "next", "itself", "same", "[CLS]", "[SEP]", "even"];
  const parts = [];
  for (const name of names) {
    /** @type {[number, number][]} */
    const found = [];
    for (let layer = 0; layer < sizes.layers; layer++) {
      for (let head = 0; head < sizes.heads; head++) {
        if (pattern(layer, head).name === name) {
          found.push([layer, head]);
        }
      }
    }
    if (!found.length) {
      continue;
    }
    parts.push(element("b", `${t(`pattern.${name}`)}: `));
    for (const own of found) {
      const button = element("button", own.join("."), {
        type: "button",
        onclick: () => chooseHead(...own),
      });
      button.setAttribute("aria-label", headName(...own));
      parts.push(button);
    }
  }
  $("patterns").replaceChildren(
    element("span", `${t(parts.length ? "pattern.say" : "pattern.none")} `),
    ...parts,
    element("span", ` ${t("pattern.warning")}`),
  );
}

export function drawAttention() {
  for (const [id, name] of [
    ["layer", "layer"],
    ["head-choice", "head"],
  ]) {
    $(id).value = state[name];
    $(`${id}-number`).textContent = state[name];
  }
  $("special").checked = !state.special;
  $("threshold").value = state.threshold;
  $("threshold-number").textContent = state.threshold.toFixed(2);
  $("pin").textContent = t(has(state.pinned, at()) ? "attention.unpin" : "attention.pin");
  $("off-head").textContent = t(has(state.off, at()) ? "attention.on-head" : "attention.off-head");
  $("off-layer").textContent = t(
    has(state.off, [state.layer]) ? "attention.on-layer" : "attention.off-layer",
  );
  const caption =
    state.stage === "rollout"
      ? t("attention.caption.rollout", { layer: state.layer })
      : t("attention.caption", { head: headName(...at()) });
  $("map-caption").textContent = caption;
  const lines = state.view === "lines";
  $("side-caption").textContent = t(lines ? "attention.from" : "attention.row", {
    token: piece(state.token),
  });
  $("lines-scroll").hidden = !lines;
  $("steps-scroll").hidden = lines;
  drawPatterns();
  drawGrid();
  attentionMap.draw();
  if (isShare()) {
    shareLegend();
  } else {
    signedLegend("attention-legend", attention(state.layer, "scores").typical());
  }
  if (lines) {
    drawLines();
  } else {
    drawSteps();
  }
}
