// The strip: the whole model, above every scene and every tab. The stream, or river, is the vector of
// the chosen token. The contribution of each part flows into it, drawn as thick as its vector is
// long. A deeper color of the stream shows a larger change of direction.

import { clamp } from "../../model/ranges.js";
import { cosine, lengthOf } from "../../model/vectors.js";
import { $, buttonsOf, element } from "../../parts/elements.js";
import { walk } from "../../parts/keys.js";
import { isStill } from "../../parts/motion.js";
import { python } from "../../parts/python.js";
import { tell } from "../../parts/readout.js";
import { moveTo, svg } from "../../parts/svg.js";
import { ask, change } from "../../state/change.js";
import { attention, current, hiddenState, numbers, piece, same } from "../../state/current.js";
import { page, root, sizes } from "../../state/page.js";
import { state } from "../../state/store.js";
import { t } from "../../state/words.js";
import { openStage } from "../part/part.js";
import { LAYER_PARTS, RIVER_PARTS, partIndex } from "./model-parts.js";

const STREAM = 10; // width in pixels of a vector of average length

const WIDEST = 16; // maximum width in pixels

const TURNED = 0.25; // 1 - cosine at which the stream has its deepest color

const MOVING = 400; // duration of an animation in milliseconds

const NARROW = 560; // width in pixels below which the strip uses its phone layout

const EXPANDED = 116; // width in pixels of a layer with labels

const FOLDED = 60; // width in pixels below which a layer is a single button

const TARGET = 24; // pixels that a finger can hit

/**
 * Makes a part of a layer the place where the reader is, and scrolls its tab to it.
 * @param {string} name
 * @param {number} layer
 */
export function goToPart(name, layer) {
  /** @type {any} */
  const main = document.querySelector("main");
  river.opened = partIndex(name, layer);
  const { target } = RIVER_PARTS[river.opened];
  main.scrollTop = $(target).closest("figure").offsetTop - main.offsetTop;
}

/** @type {Record<string, any>} */
export const river = {
  layout: "",
  shown: null,
  goal: null,
  opened: -1,
  focus: -1,
  told: -1,
  frame: 0,
  width: 0,
};

/** Returns the width of the strip, which is read once for a size of the window. */
const roomOfRiver = () => (river.width ||= $("river-scroll").clientWidth);

/**
 * Returns what one layer does to the vector of one token. Lengths are null if the page does not
 * have the values.
 * @param {number} layer
 * @param {any} token
 */
function layerFlow(layer, token) {
  /** @param {string} name */
  const step = (name) => numbers(`layer.${layer}.${name}`)?.row(token) ?? null;
  const before = hiddenState(layer).row(token);
  const after = hiddenState(layer + 1).row(token);
  const skipped = current.shown.request.off.some((at) => at.length === 1 && at[0] === layer);
  const sides = { left: 0, self: 0, right: 0 };
  const shares = attention(layer, "probabilities");
  for (let head = 0; head < sizes.heads; head++) {
    shares.row(head, token).forEach((share, key) => {
      const side = key < token ? "left" : "right";
      sides[key === token ? "self" : side] += share / sizes.heads;
    });
  }
  const flow = { ...sides, before: lengthOf(before), after: lengthOf(after) };
  const attended = step("attention.output");
  if (skipped || !attended) {
    const nothing = skipped ? 0 : null;
    const cosines = { cosine: skipped ? 1 : null, cosine2: cosine(before, after) };
    return { ...flow, ...cosines, skipped, attention: nothing, ff: nothing, middle: flow.before };
  }
  return {
    ...flow,
    skipped,
    attention: lengthOf(step("attention.projected")),
    middle: lengthOf(attended),
    ff: lengthOf(step("narrowed")),
    cosine: cosine(before, attended),
    cosine2: cosine(attended, after),
  };
}

/** Returns what is drawn for the chosen token of the current text. */
function riverFlow() {
  const { token } = state;
  const layers = Array.from({ length: sizes.layers }, (_, layer) => layerFlow(layer, token));
  const embeddings = ["word", "token_type", "position"].map((name) =>
    lengthOf(numbers(`embeddings.${name}`).row(token)),
  );
  return { embeddings, layers };
}

/**
 * Returns the width in pixels of a vector. The vectors between the layers are `STREAM` wide on
 * average.
 * @param {number} length
 */
function thickness(length) {
  river.unit ??=
    STREAM /
    (river.goal.layers.reduce(
      (/** @type {any} */ sum, /** @type {any} */ own) => sum + own.before,
      0,
    ) /
      sizes.layers);
  return clamp((length ?? 2 / river.unit) * river.unit, 0, WIDEST);
}

/**
 * Returns the best word for the chosen token as [word, probability], or undefined until it is
 * computed.
 */
function riverWord() {
  const { token } = state;
  const known = current.shown.lens?.at(-1)?.[token]?.[0];
  if (known || !current.live?.predicts) {
    return known;
  }
  const words = (current.shown.best ??= new Map());
  if (!words.has(token)) {
    clearTimeout(riverWord.later);
    riverWord.later = setTimeout(async () => {
      const own = current.shown;
      words.set(token, null);
      const row = Float32Array.from(hiddenState(sizes.layers, own).row(token));
      const best = await current.live.words({ shape: [1, sizes.hidden], data: row });
      words.set(token, best[0][0]);
      if (own === current.shown) {
        drawRiver();
      }
    }, 200); // typing has priority
  }
  return words.get(token) ?? undefined;
}
/** @type {any} */
riverWord.later = null;

/**
 * Returns the index of the part that the open tab shows, or -1 in the training tab, which shows all
 * of them.
 */
function riverHere() {
  const { section, layer, depth } = state;
  if (state.part >= 0) {
    return state.part;
  }
  const opened = RIVER_PARTS[river.opened];
  if (opened?.section === section && (opened.layer === undefined || opened.layer === layer)) {
    return river.opened;
  }
  if (section === "text") {
    return partIndex("pieces");
  }
  if (section === "attention" || section === "head") {
    return partIndex("attention", layer);
  }
  if (section === "hidden" || section === "compare") {
    return depth ? partIndex("add2", depth - 1) : partIndex("embeddings");
  }
  return partIndex(section);
}

/**
 * Opens a part in place, or its tab if the page holds no weights. While a scene shows only its own
 * controls, the part lies over what the scene asks about, and changes none of it.
 * @param {number} index
 */
export function openPart(index) {
  const { section, layer, target } = RIVER_PARTS[index];
  river.opened = index;
  river.told = index;
  const changes = layer === undefined ? { section } : { section, layer };
  if (current.live) {
    openStage(index, root.hasAttribute("data-calm") ? {} : changes);
  } else {
    change(changes);
  }
  if (!current.live && target) {
    $(target).closest("figure").scrollIntoView({ block: "start" });
  } else if ($("page").getBoundingClientRect().top > innerHeight / 2) {
    $("page").scrollIntoView();
  }
  tell(partSays(index), null, partPython(index));
}

/** @param {number} share */
const percent = (share) => Math.round(100 * share);

/**
 * Describes a part: what it is, and what it does to the chosen token.
 * @param {number} index
 */
function partSays(index) {
  const { name, layer } = RIVER_PARTS[index];
  const values = { layer, token: piece(state.token), ...sizes };
  /** @param {number} length */
  const long = (length) => (length === null ? "?" : length.toFixed(2));
  if (name === "embeddings") {
    const [word, type, position] = river.goal.embeddings.map(long);
    Object.assign(values, { word, type, position });
  }
  if (layer !== undefined) {
    const own = river.goal.layers[layer];
    if (own.skipped) {
      return t("river.skipped", values);
    }
    const second = name === "add2";
    Object.assign(values, {
      left: percent(own.left),
      self: percent(own.self),
      right: percent(own.right),
      length: long(second || name === "ff" ? own.ff : own.attention),
      before: long(second ? own.middle : own.before),
      cosine: (second ? own.cosine2 : own.cosine)?.toFixed(3) ?? "?",
    });
  }
  const best = name === "predictions" ? riverWord() : null;
  if (best) {
    return t("river.predictions.word", { ...values, word: best[0], share: best[1].toFixed(3) });
  }
  return t(`river.${name}.say`, values);
}

/**
 * Returns the Python that prints the length of a part's vector.
 * @param {number} index
 */
function partPython(index) {
  const { name, layer } = RIVER_PARTS[index];
  /** @type {Record<string, string>} */
  const steps = {
    embeddings: "embeddings.sum",
    attention: `layer.${layer}.attention.projected`,
    add: `layer.${layer}.attention.output`,
    ff: `layer.${layer}.narrowed`,
    add2: `layer.${layer}.output`,
  };
  return steps[name] ? python(`t['${steps[name]}'][0, ${state.token}].norm()`) : "";
}

/**
 * Returns the file and the lines of a part's code.
 * @param {number} index
 */
function partCode(index) {
  const code = page.code?.[RIVER_PARTS[index].name];
  return code ? t("river.code", { file: code[0], from: code[1], to: code[2] }) : "";
}

/**
 * Writes the line under the strip, on the part that is hovered or focused, otherwise on the current
 * one.
 */
function writeRiver() {
  const here = riverHere();
  const index = river.told < 0 ? here : river.told;
  if (index < 0) {
    $("river-say").replaceChildren(t("river.all"));
    return;
  }
  // A scene needs no lines of code. An open part names them.
  const code = element("code", root.hasAttribute("data-calm") ? "" : partCode(index));
  const said = element("span", partSays(index));
  const parts = [said, " ", code];
  if (index === here) {
    parts.unshift(element("b", t("river.here")), " ");
  }
  $("river-say").replaceChildren(...parts);
  $("river-say").title = `${said.textContent} ${code.textContent}`;
}

export function buildRiver() {
  $("river-parts").replaceChildren(
    ...RIVER_PARTS.map(({ name, layer }, index) => {
      const button = element("button", "", { type: "button", id: `river-${index}`, tabIndex: -1 });
      button.append(element("span"));
      button.setAttribute("aria-describedby", "river-say");
      button.dataset.part = name;
      button.setAttribute("aria-controls", "part");
      button.onclick = () => openPart(index);
      button.onpointerenter = () => tellPart(index);
      button.onpointerleave = () => tellPart(-1);
      button.onfocus = () => {
        river.focus = index;
        tellPart(index);
      };
      button.onblur = () => tellPart(-1);
      if (layer !== undefined) {
        button.dataset.layer = layer;
      }
      return button;
    }),
  );
  walk(
    $("river-parts"),
    () => [1, RIVER_PARTS.length],
    () => [0, Math.max(river.focus, 0)],
    (_, next) => {
      const step = Math.sign(next - river.focus);
      let index = next;
      while ($(`river-${index}`).hidden) {
        index += step; // into the next layer, since this one is folded
      }
      focusable(index);
      $(`river-${index}`).focus();
    },
  );
  for (const button of buttonsOf("sides")) {
    button.onclick = () => ask({ sides: button.dataset.sides });
  }
  const forget = () => {
    river.width = 0;
  };
  addEventListener("resize", forget, true); // before the page is drawn for its new size
  new ResizeObserver(() => {
    if (river.layout && river.width !== $("river-scroll").clientWidth) {
      forget(); // a scroll bar has come or gone
      drawRiver();
    }
  }).observe($("river-scroll"));
}

/** @param {number} index */
function tellPart(index) {
  river.told = index;
  writeRiver();
}

/**
 * Makes one button of the strip a tab stop. Arrow keys move to the others.
 * @param {number} index
 */
function focusable(index) {
  RIVER_PARTS.forEach((_, i) => {
    $(`river-${i}`).tabIndex = i === index ? 0 : -1;
  });
}

/**
 * Returns the position of every part. A layer has labels if there is room, or if the reader is in
 * it. A layer without room for its four parts is folded: one button opens it.
 * @param {number} width
 * @param {any} open
 */
function riverPlaces(width, open) {
  const narrow = width < NARROW;
  const [first, second, last] = narrow ? [46, 40, 78] : [88, 104, 136];
  const room = width - first - second - last;
  const most = narrow ? 88 : EXPANDED;
  const even = room / sizes.layers;
  const others = Math.max((room - most) / Math.max(sizes.layers - 1, 1), TARGET);
  const layers = [];
  let x = first + second;
  for (let layer = 0; layer < sizes.layers; layer++) {
    const full = even >= most || layer === open;
    let size = even >= most ? even : others;
    if (full && even < most) {
      size = most;
    }
    layers.push({ x, size, full, folded: size < FOLDED });
    x += size;
  }
  const middle = narrow ? 37 : 40;
  return { narrow, first, second, layers, end: x, width: x + last, height: 2 * middle, middle };
}

/**
 * Draws the static frames, rings and boxes, and creates the threads that move.
 * @param {any} places
 */
function layRiver(places) {
  const { first, second, layers, end, width, height, middle } = places;
  const picture = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}` });
  picture.setAttribute("aria-hidden", "true");
  /** @type {any} */
  const threads = { embeddings: [], layers: [], ends: [] };
  let group = picture; // what is drawn into
  /**
   * @param {string} kind
   * @param {any} d
   */
  const path = (kind, d) => {
    const node = svg("path", { d, class: kind, "stroke-width": 1 });
    group.append(node);
    return node;
  };
  /**
   * @param {number} x
   * @param {number} size
   */
  const ring = (x, size) => {
    const large = size >= 60;
    const r = large ? 5.5 : 2.6;
    const norm = { x: x + r + 1.5, y: middle - 9, width: large ? 2 : 1, height: 18 };
    group.append(svg("rect", { class: "norm", ...norm }));
    group.append(svg("circle", { class: "ring", cx: x, cy: middle, r }));
    if (large) {
      const d = `M${x - 3} ${middle}h6M${x} ${middle - 3}v6`;
      group.append(svg("path", { class: "plus", d }));
    }
  };
  const start = first + second * 0.75;
  for (const dy of [-17, 0, 17]) {
    const from = first + 2;
    const bend = (from + start) / 2;
    threads.embeddings.push(
      path(
        "thread",
        `M${from} ${middle + dy}C${bend} ${middle + dy} ${bend} ${middle} ${start} ${middle}`,
      ),
    );
  }
  let from = start;
  layers.forEach((/** @type {any} */ { x, size, full, folded }, /** @type {any} */ layer) => {
    picture.append(
      svg("rect", {
        class: "frame",
        x: x + 1,
        y: 1,
        width: size - 2,
        height: height - 2,
        rx: 7,
        "data-layer": layer,
      }),
    );
    group = svg("g", folded ? { display: "none" } : {});
    picture.append(group);
    const [join, leave, back] = [0.27, 0.5, 0.84].map((part) => x + part * size);
    const spread = full ? 20 : Math.min(size * 0.26, 16);
    const top = full ? 17 : 13;
    const stream = path("stream", `M${from} ${middle}H${join}`);
    const between = path("stream", `M${join} ${middle}H${back}`);
    const sides = [-spread, 0, spread].map((dx) =>
      path(
        "thread",
        `M${join + dx} ${top}C${join + dx} ${middle - 8} ${join} ${middle - 16} ${join} ${middle}`,
      ),
    );
    const low = middle + 15;
    const half = full ? 15 : Math.min(size * 0.14, 10);
    const center = (leave + back) / 2;
    const out = path(
      "thread thin",
      `M${leave} ${middle}C${leave} ${low} ${leave} ${low} ${center - half} ${low}`,
    );
    const into = path(
      "thread",
      `M${center + half} ${low}C${back} ${low} ${back} ${low} ${back} ${middle}`,
    );
    const bow = [
      [-half, -2],
      [-half / 3, -6],
      [half / 3, -6],
      [half, -2],
      [half, 2],
      [half / 3, 6],
      [-half / 3, 6],
      [-half, 2],
    ];
    group.append(
      svg("polygon", {
        class: "bow",
        points: bow.map(([dx, dy]) => `${center + dx},${low + dy}`).join(" "),
      }),
    );
    threads.layers.push({ stream, between, sides, out, into });
    from = back;
    ring(join, size);
    ring(back, size);
  });
  group = picture;
  threads.last = path("stream", `M${from} ${middle}H${end + 6}`);
  for (const dy of [-19, 19]) {
    threads.ends.push(
      path(
        "thread",
        `M${end + 4} ${middle}C${end + 16} ${middle} ` +
          `${end + 8} ${middle + dy} ${end + 24} ${middle + dy}`,
      ),
    );
  }
  for (const layer of threads.layers) {
    picture.prepend(layer.stream, layer.between);
  }
  picture.prepend(threads.last, ...picture.querySelectorAll(".frame"));
  $("river-picture").replaceChildren(picture);
  river.threads = threads;
}

/**
 * Places the buttons over the picture.
 * @param {any} places
 */
function placeButtons(places) {
  const { narrow, first, second, layers, end, width, height, middle } = places;
  /**
   * @param {number} index
   * @param {number} left
   * @param {number} top
   * @param {number} size
   * @param {any} tall
   */
  const put = (index, left, top, size, tall) =>
    Object.assign($(`river-${index}`).style, {
      left: `${left}px`,
      top: `${top}px`,
      width: `${size}px`,
      height: `${tall}px`,
    });
  $("river-parts").style.width = `${width}px`;
  $("river-parts").style.height = `${height}px`;
  put(partIndex("pieces"), 0, 0, first, height);
  put(partIndex("embeddings"), first, 0, second, height);
  layers.forEach((/** @type {any} */ { x, size, full, folded }, /** @type {any} */ layer) => {
    const reach = TARGET / 2;
    const half = middle - reach - 1;
    const [attention, add, ff, add2] = LAYER_PARTS.map((name) => partIndex(name, layer));
    for (const index of [add, ff, add2]) {
      $(`river-${index}`).hidden = folded;
    }
    if (folded) {
      put(attention, x, 1, size, height - 2);
    } else {
      put(attention, x + 2, 1, size - 4, half);
      put(ff, x + 2, middle + reach, size - 4, half);
      put(add, x + 0.27 * size - reach, middle - reach, TARGET, TARGET);
      put(add2, x + 0.84 * size - reach, middle - reach, TARGET, TARGET);
    }
    for (const index of [attention, ff]) {
      $(`river-${index}`).classList.toggle("full", full);
    }
  });
  const left = end + (narrow ? 14 : 24);
  put(partIndex("pooler"), left, 2, width - left, middle - 4);
  put(partIndex("predictions"), left, middle + 2, width - left, middle - 4);
}

/**
 * Draws the threads with the widths and colors of a flow.
 * @param {{embeddings: number[], layers: any[]}} of
 */
function paintRiver({ embeddings, layers }) {
  const { threads } = river;
  const whole = lengthOf(embeddings) || 1;
  embeddings.forEach((length, i) =>
    moveTo(threads.embeddings[i], { "stroke-width": Math.max((STREAM * length) / whole, 0.5) }),
  );
  /**
   * @param {any} node
   * @param {any} before
   */
  const deep = (node, before) =>
    node.style.setProperty("--deep", clamp((1 - (before ?? 1)) / TURNED, 0, 1).toFixed(3));
  layers.forEach((own, layer) => {
    const { stream, between, sides, into, out } = threads.layers[layer];
    moveTo(stream, { "stroke-width": thickness(own.before) });
    moveTo(between, { "stroke-width": thickness(own.middle) });
    deep(between, own.cosine);
    ["left", "self", "right"].forEach((side, i) =>
      moveTo(sides[i], { "stroke-width": thickness(own.attention) * own[side] }),
    );
    moveTo(into, { "stroke-width": thickness(own.ff) });
    moveTo(out, { "stroke-width": own.ff === 0 ? 0 : 2 });
    deep(layer + 1 < layers.length ? threads.layers[layer + 1].stream : threads.last, own.cosine2);
  });
  const end = layers.at(-1);
  moveTo(threads.last, { "stroke-width": thickness(end.after) });
  threads.ends.forEach((/** @type {any} */ node) => moveTo(node, { "stroke-width": 3 }));
}

/**
 * Interpolates between two flows or other nested objects of numbers.
 * @param {any} a
 * @param {any} b
 * @param {number} part
 * @returns {any}
 */
export function mixed(a, b, part) {
  if (Array.isArray(b)) {
    return b.map((value, i) => mixed(a[i], value, part));
  }
  if (b !== null && typeof b === "object") {
    return Object.fromEntries(
      Object.entries(b).map(([name, value]) => [name, mixed(a[name], value, part)]),
    );
  }
  return typeof a === "number" && typeof b === "number" ? a + (b - a) * part : b;
}

/** Animates the river from what it shows to its goal. */
function moveRiver() {
  const from = river.shown;
  const to = river.goal;
  cancelAnimationFrame(river.frame);
  if (same(from, to)) {
    river.shown = to;
    return;
  }
  if (!from || isStill()) {
    river.shown = to;
    paintRiver(to);
    return;
  }
  const begin = performance.now();
  /** @param {any} now */
  const frame = (now) => {
    const part = clamp((now - begin) / MOVING, 0, 1);
    river.shown = part < 1 ? mixed(from, to, 1 - (1 - part) ** 3) : to;
    paintRiver(river.shown);
    if (part < 1) {
      river.frame = requestAnimationFrame(frame);
    }
  };
  river.frame = requestAnimationFrame(frame);
}

/** Labels the strip in the reader's language. */
function labelRiver() {
  const best = riverWord();
  const narrow = roomOfRiver() < NARROW;
  RIVER_PARTS.forEach(({ name, layer }, index) => {
    const button = $(`river-${index}`);
    const full = button.classList.contains("full");
    let text = layer === undefined || full ? t(`river.${name}`) : "";
    if (name === "attention") {
      text = full ? `${layer} · ${text}` : `${layer}`;
    }
    if (name === "embeddings" && narrow) {
      text = "h0"; // the vectors that the embeddings make
    }
    if (name === "predictions" && best) {
      text = narrow ? best[0] : `${best[0]} ${best[1].toFixed(2)}`;
    }
    if (name === "pieces") {
      button.dataset.piece = piece(state.token);
    }
    if (button.firstChild.textContent !== text) {
      button.firstChild.textContent = text;
    }
    const label =
      layer === undefined
        ? t(`river.${name}`)
        : t("river.part", { layer, part: t(`river.${name}`) });
    button.setAttribute("aria-label", label);
  });
}

export function drawRiver() {
  if (state.token >= current.count) {
    return; // The token is still being computed.
  }
  river.goal = riverFlow();
  const here = riverHere();
  const open = RIVER_PARTS[here]?.layer ?? Math.min(state.layer, sizes.layers - 1);
  const width = roomOfRiver();
  const layout = `${width}.${open}`;
  const isShown = width > 0; // not while other things are printed
  if (layout !== river.layout && (isShown || !river.layout)) {
    const places = riverPlaces(width, open);
    river.layout = layout;
    layRiver(places);
    placeButtons(places);
    paintRiver(river.shown ?? river.goal);
    root.style.setProperty("--river", `${$("river").offsetHeight}px`);
  }
  labelRiver();
  RIVER_PARTS.forEach((_, index) => {
    const button = $(`river-${index}`);
    button.setAttribute("aria-expanded", index === state.part);
    if (index === here) {
      button.setAttribute("aria-current", "location");
    } else {
      button.removeAttribute("aria-current");
    }
  });
  for (const frame of $("river-picture").querySelectorAll(".frame")) {
    const layer = RIVER_PARTS[here]?.layer;
    frame.classList.toggle("on", layer !== undefined && Number(frame.dataset.layer) === layer);
  }
  if (!$("river-parts").contains(document.activeElement)) {
    river.focus = Math.max(here, 0);
    focusable(river.focus);
  }
  for (const button of buttonsOf("sides")) {
    button.setAttribute("aria-pressed", button.dataset.sides === state.sides);
  }
  moveRiver();
  writeRiver();
}
