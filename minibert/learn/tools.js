"use strict";
// Shared tools of the page: its words and colors, small helpers, and heat maps. The files that
// follow build the sections from them.
// Text from outside enters the page only as textContent or as text drawn on a canvas.

const page = JSON.parse(document.getElementById("data").textContent);
const { sizes, words } = page;
const SECTIONS = [
  "text",
  "embeddings",
  "attention",
  "head",
  "hidden",
  "compare",
  "pooler",
  "predictions",
  ...(page.run ? ["training"] : []),
];
const SPECIAL = /^\[(CLS|SEP|PAD|UNK|MASK)\]$/;
const $ = (id) => document.getElementById(id);
const root = document.documentElement;

const state = {
  section: "text",
  text: page.texts[0],
  pair: page.texts[1] ?? null,
  masked: [], // indices of tokens that are hidden behind [MASK]
  off: [], // heads that are switched off as [layer, head], skipped layers as [layer]
  pad: 0, // number of tokens to pad to with [PAD]
  type: null, // type id of every token, or null for the ids of the two texts
  sides: "both", // which side of itself a token may attend to
  token: 0, // the chosen token, which is the query in attention
  key: 0, // the token it attends to, which is the key
  layer: 0,
  head: 0,
  part: -1, // the part of the strip that is open, or -1
  step: 0, // step of the animated head
  pinned: [], // other heads whose lines are drawn
  depth: sizes.layers, // depth of the hidden states, where 0 is the embeddings
  stage: "probabilities",
  view: "lines",
  threshold: 0, // lines with less attention are not drawn
  special: true, // whether [CLS] and [SEP] are drawn
  compare: "moved",
  rule: "previous", // pattern of attention that the article measures over many sentences
  unit: "words", // whether the section "compare" compares words or whole sentences
  number: 0, // the chosen dimension of a vector
  row: 0, // the chosen vector of the embeddings and the pooler
  turn: 40, // direction of the arrow in the prologue, in degrees
  reach: 1, // its length
  other: "", // the second sentence of the comparison
  same: "", // a third sentence, in which the word has the same sense as in the first
  snapshot: (page.run?.snapshots.length ?? 1) - 1, // snapshot of the pre-training run
  scene: 0, // scene of the article
  guess: -1, // the reader's prediction in the scene, or -1 before there is one
  guesses: "", // all predictions so far, encoded as in the address
  explore: "", // "yes" if the article shows everything, not only what a scene needs
  ask: "", // id of the question that is answered
  tour: -1, // stop of the guided tour, or -1 outside the tour
  trouble: "", // error message about the text
  language: page.language ?? ((navigator.language || "en").startsWith("ko") ? "ko" : "en"),
  theme: "",
};

// ---------------------------------------------------------------- words, theme, small helpers

function t(key, values = {}) {
  const text = words[state.language][key] ?? key;
  const filled = text.replace(/\{(\w+)\}/g, (_, name) => values[name]);
  const said = state.language === "ko" ? withParticles(filled) : filled;
  // A line must not break between Hangul and a bracket, or between a bracket or ## and a particle.
  // U+2060 joins them.
  return said.replace(/\p{Script=Hangul}(?=[([“])|[\])”#](?=\p{Script=Hangul})/gu, "$&\u2060");
}

function element(kind, text = "", properties = {}) {
  return Object.assign(document.createElement(kind), { textContent: text, ...properties });
}

function bar(share) {
  const span = element("span", "", { className: "bar" });
  span.style.setProperty("--p", share);
  return span;
}

const color = (name) => getComputedStyle(root).getPropertyValue(`--${name}`).trim();
/** Returns whether the reader prefers reduced motion. */
const isStill = () => matchMedia("(prefers-reduced-motion: reduce)").matches;
const clamp = (x, low, high) => Math.min(Math.max(x, low), high);

let palettes;
/**
 * Fills each palette with 256 colors as pixels, interpolated between the stops in the style sheet.
 */
function readPalettes() {
  const read = (name) => {
    const stops = color(name)
      .split(",")
      .map((hex) => [1, 3, 5].map((i) => parseInt(hex.trim().slice(i, i + 2), 16)));
    return Uint32Array.from({ length: 256 }, (_, i) => {
      const place = (i / 255) * (stops.length - 1);
      const low = Math.min(Math.floor(place), stops.length - 2);
      const [r, g, b] = stops[low].map((from, c) =>
        Math.round(from + (stops[low + 1][c] - from) * (place - low)),
      );
      // Little-endian: red, green, blue, opaque alpha
      return r | (g << 8) | (b << 16) | (255 << 24);
    });
  };
  palettes = { sequential: read("sequential"), diverging: read("diverging") };
}

const pixel = (palette, value) => palettes[palette][Math.round(clamp(value, 0, 1) * 255)];

// What the readout shows, and the line of Python that prints it
let told = { text: "", python: "" };

/** Describes a number: in the tooltip while the mouse hovers, in the footer when it is selected. */
function tell(text, event = null, python = "") {
  $("tip").hidden = !event || !text;
  if (!event) {
    told = { text, python };
    $("readout").textContent = text;
    $("copy").hidden = !python;
    $("copy").textContent = t("copy");
    return;
  }
  $("tip").textContent = text;
  const box = $("tip").getBoundingClientRect();
  $("tip").style.left =
    `${Math.max(4, Math.min(event.clientX + 14, innerWidth - box.width - 8))}px`;
  const isBelow = event.clientY + box.height + 24 <= innerHeight;
  $("tip").style.top = `${event.clientY + (isBelow ? 18 : -box.height - 8)}px`;
}

/**
 * Returns a number that tells its line of Python when it is selected, or its text alone while a
 * scene shows only its own controls.
 */
function numberNode(text, say) {
  return root.hasAttribute("data-calm")
    ? element("span", text)
    : element("button", text, { type: "button", onclick: say, onfocus: say });
}

async function copyPython() {
  if (told.python) {
    await copyText(told.python);
    $("copy").textContent = t("copied");
  }
}

async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // The clipboard API is not permitted in some frames, so use the older method.
    const area = element("textarea", "", { value: text });
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
}

const PRINT = 15; // font size of canvas text in pixels, the same as other text
const LEAST_PRINT = 12; // where there is less room
const LABEL = 34; // width in pixels to which a column label may be shortened

/** Sizes a canvas in device pixels and returns its context, scaled to CSS pixels. */
function prepare(canvas, width, height) {
  // Phones draw nothing on a canvas with more than 16 million pixels or a side above 16,384.
  const ratio = Math.min(
    window.devicePixelRatio || 1,
    Math.sqrt(12e6 / (width * height)),
    16384 / Math.max(width, height),
  );
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  Object.assign(canvas.style, { width: `${width}px`, height: `${height}px` });
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  setSize(context, PRINT);
  context.textBaseline = "middle";
  return context;
}

function setSize(context, size) {
  // asked once, because asking makes the browser style what was written before
  setSize.family ??= getComputedStyle(document.body).fontFamily;
  context.font = `${size}px ${setSize.family}`;
}

const easel = new OffscreenCanvas(1, 1);

/**
 * Returns a picture with one pixel for each cell. The next call overwrites it.
 * @param shade (row, col) => a value from 0 to 1, or null for a transparent pixel.
 */
function picture(rows, cols, palette, shade) {
  Object.assign(easel, { width: cols, height: rows });
  const pixels = new Uint32Array(rows * cols);
  for (let r = 0, at = 0; r < rows; r++) {
    for (let c = 0; c < cols; c++, at++) {
      const value = shade(r, c);
      if (value !== null) {
        pixels[at] = pixel(palette, value);
      }
    }
  }
  easel
    .getContext("2d")
    .putImageData(new ImageData(new Uint8ClampedArray(pixels.buffer), cols, rows), 0, 0);
  return easel;
}

const ARROWS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

/**
 * Moves a cursor over rows and columns with the arrow keys.
 * @param size () => [rows, columns].
 * @param cursor () => the current [row, column].
 * @param move (row, column) => called with the new position.
 */
function walk(target, size, cursor, move) {
  target.addEventListener("keydown", (event) => {
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

/**
 * A heat map on a canvas with labels, a cursor, values on hover, and arrow keys. It scrolls if it
 * does not fit.
 */
class HeatMap {
  /**
   * @param id id of the canvas, whose parent scrolls.
   * @param plan () => the map for the current state, an object with these properties:
   * - rows, cols, palette: the number of cells and their colors.
   * - shade(r, c), describe(r, c), python(r, c): color, readout and Python of a cell.
   * - cursor, move(r, c): the selected cell as [r, c], and what selects another one.
   * - rowLabel(r), colLabel(c), slanted: the labels. Column labels are optional.
   * - write(r, c): optional text inside a cell.
   * - space: height available to the whole canvas.
   * - tallest or square: the maximum height of a row, or whether cells are square.
   * - smallest: optional minimum [width, height] of a cell.
   * - left, top: the room that labels take.
   * - right: the room beside the cells, for what `over` draws.
   * - over(context, area, cell): optional drawing on top of everything else.
   * - quiet: true for a map without a cursor.
   * - marked: the row whose label is highlighted instead of the cursor's.
   */
  constructor(id, plan) {
    HeatMap.all.set(id, this);
    this.canvas = $(id);
    this.plan = plan;
    Object.assign(this.canvas, { tabIndex: 0, onpointerleave: () => tell("", true) });
    this.canvas.setAttribute("role", "application");
    this.canvas.addEventListener("pointermove", (event) => {
      const at = event.pointerType === "mouse" ? this.cell(event) : null;
      tell(at ? this.now.describe(...at) : "", event);
    });
    this.canvas.addEventListener("click", (event) => {
      const at = this.cell(event);
      if (at) {
        this.go(...at);
      }
    });
    this.canvas.addEventListener("focus", () => this.say());
    walk(
      this.canvas,
      () => [this.now.rows, this.now.cols],
      () => this.now.cursor,
      (r, c) => this.go(r, c),
    );
  }
  go(r, c) {
    this.now.move(r, c);
    this.say();
    this.reveal();
    const seen = scrollerOf(this.canvas.closest("main, article, #part"));
    const top = this.canvas.getBoundingClientRect().top;
    const { area, now } = this;
    const from = top + area.top + (now.cursor[0] / now.rows) * area.height;
    const end = from + area.height / now.rows;
    if (from < seen.top) {
      seen.scroller.scrollTop += from - seen.top - 12;
    } else if (end > seen.bottom) {
      seen.scroller.scrollTop += end - seen.bottom + 12;
    }
  }
  say() {
    tell(this.now.describe(...this.now.cursor), null, this.now.python(...this.now.cursor));
  }
  cell(event) {
    const { left, top, width, height } = this.area;
    const { rows, cols } = this.now;
    const r = Math.floor(((event.offsetY - top) / height) * rows);
    const c = Math.floor(((event.offsetX - left) / width) * cols);
    return r >= 0 && r < rows && c >= 0 && c < cols ? [r, c] : null;
  }
  /** Scrolls the cursor into view inside its frame. */
  reveal() {
    const box = this.canvas.parentElement;
    const { left, top, width, height } = this.area;
    const [r, c] = this.now.cursor;
    const across = [left + (c / this.now.cols) * width, width / this.now.cols];
    const down = [top + (r / this.now.rows) * height, height / this.now.rows];
    for (const [[from, size], scroll, room] of [
      [across, "scrollLeft", box.clientWidth],
      [down, "scrollTop", box.clientHeight],
    ]) {
      if (from < box[scroll] || from + size > box[scroll] + room) {
        box[scroll] = from - room / 2;
      }
    }
  }
  draw() {
    const now = (this.now = this.plan());
    const { rows, cols } = now;
    const room = this.canvas.parentElement.clientWidth;
    const top = now.colLabel ? (now.top ?? 16) : 0;
    const right = now.right ?? 0;
    const left = Math.min(now.left ?? 84, Math.max(room * 0.4, 64));
    const [minWidth, minHeight] = now.smallest ?? [16, 16];
    const area = { left, top };
    // Beside a scene, all columns fit the width, because only the window scrolls.
    const leastWidth = root.hasAttribute("data-calm") ? 1 : cols * minWidth;
    if (now.square) {
      area.width = area.height = Math.max(
        Math.min(room - left, now.space - top, cols * 64),
        cols * minWidth,
      );
    } else {
      area.width = Math.max(room - left - right, leastWidth);
      area.height = Math.max(Math.min(now.space - top, rows * now.tallest), rows * minHeight);
    }
    this.area = area;
    const full = left + area.width;
    const context = prepare(this.canvas, full + right, top + area.height);
    const cell = [area.width / cols, area.height / rows];
    context.imageSmoothingEnabled = Math.min(...cell) < 1;
    context.drawImage(
      picture(rows, cols, now.palette, now.shade),
      left,
      top,
      area.width,
      area.height,
    );
    this.#rowLabels(context, cell[1]);
    if (top) {
      this.#colLabels(context, cell[0]);
    }
    if (now.write && cell[0] >= 30 && cell[1] >= 12) {
      this.#write(context, cell);
    }
    now.over?.(context, area, cell);
    if (!now.quiet) {
      this.#frame(context, cell);
    }
    if (document.activeElement === this.canvas) {
      this.say();
    }
    // Reveal a cell that was selected elsewhere.
    if (String(now.cursor) !== this.seen) {
      this.seen = String(now.cursor);
      this.reveal();
    }
  }
  /** Frames the cell of the cursor. */
  #frame(context, cell) {
    const [width, height] = cell.map((size) => Math.max(size, 5));
    const { left, top } = this.area;
    const [r, c] = this.now.cursor;
    context.strokeStyle = color("cursor");
    context.lineWidth = 2;
    context.strokeRect(
      clamp(left + c * cell[0], left + 1, left + this.area.width - width - 1),
      clamp(top + r * cell[1], 1, top + this.area.height - height - 1),
      width,
      height,
    );
  }
  // If there is no room for all labels, only the label of the cursor is drawn.
  #rowLabels(context, size) {
    setSize(context, labelSize(size));
    context.textAlign = "right";
    for (let r = 0; r < this.now.rows; r++) {
      const chosen = r === (this.now.marked ?? this.now.cursor[0]);
      if (size < LEAST_PRINT && !chosen) {
        continue;
      }
      context.fillStyle = color(chosen ? "cursor" : "ink");
      const y = clamp(this.area.top + (r + 0.5) * size, 7, this.area.top + this.area.height - 6);
      fitted(context, this.now.rowLabel(r), this.area.left - 6, y, this.area.left - 8);
    }
  }
  // Where labels have no room side by side, every second or third is drawn.
  #colLabels(context, size) {
    setSize(context, labelSize(size));
    const { cols, slanted, cursor } = this.now;
    const every = slanted ? 1 : Math.ceil(this.#roomOfLabels(context) / size);
    const room = every === 1 ? size : size * every - 4;
    for (let c = 0; c < cols; c++) {
      const chosen = c === cursor[1];
      const isNearChosen = Math.abs(c - cursor[1]) < every;
      if (!chosen && (size < LEAST_PRINT || c % every || isNearChosen)) {
        continue;
      }
      context.save();
      context.fillStyle = color(chosen ? "cursor" : "ink");
      context.translate(
        clamp(this.area.left + (c + 0.5) * size, 6, this.area.left + this.area.width - 6),
        this.area.top - 5,
      );
      if (slanted) {
        context.rotate(-Math.PI / 2);
      } else {
        context.translate(0, -3);
      }
      context.textAlign = slanted ? "left" : "center";
      fitted(context, this.now.colLabel(c), 0, 0, slanted ? this.area.top - 8 : Math.max(room, 20));
      context.restore();
    }
  }
  /** Returns the width of the widest column label. Long labels may be shortened to `LABEL`. */
  #roomOfLabels(context) {
    const widths = Array.from(
      { length: this.now.cols },
      (_, c) => context.measureText(this.now.colLabel(c)).width + 4,
    );
    return Math.min(Math.max(...widths), LABEL);
  }
  /** Returns the largest font size, up to `PRINT`, at which every text fits its cell. */
  #printSize(context, room) {
    setSize(context, PRINT);
    let widest = 1;
    for (let r = 0; r < this.now.rows; r++) {
      for (let c = 0; c < this.now.cols; c++) {
        widest = Math.max(widest, context.measureText(this.now.write(r, c)).width);
      }
    }
    return Math.min(Math.floor((PRINT * (room - 2)) / widest), PRINT);
  }
  #write(context, size) {
    const print = this.#printSize(context, size[0]);
    if (print < LEAST_PRINT) {
      return; // The readout has the values.
    }
    context.textAlign = "center";
    setSize(context, print);
    for (let r = 0; r < this.now.rows; r++) {
      for (let c = 0; c < this.now.cols; c++) {
        const back = pixel(this.now.palette, this.now.shade(r, c) ?? 0.5);
        const light = (back & 255) * 0.3 + ((back >> 8) & 255) * 0.6 + ((back >> 16) & 255) * 0.1;
        context.fillStyle = light > 140 ? "#17181b" : "#f4f5f8";
        context.fillText(
          this.now.write(r, c),
          this.area.left + (c + 0.5) * size[0],
          this.area.top + (r + 0.5) * size[1],
        );
      }
    }
  }
}

HeatMap.all = new Map();

/** Returns the font size in pixels of the label of a row or column `room` pixels large. */
const labelSize = (room) => clamp(Math.floor(room) - 1, LEAST_PRINT, PRINT);

/** Draws a text, shortened with an ellipsis if it is wider than `room`. */
function fitted(context, text, x, y, room) {
  const letters = Array.from(text);
  if (context.measureText(text).width > room) {
    while (letters.length > 1 && context.measureText(`${letters.join("")}…`).width > room) {
      letters.pop();
    }
    text = `${letters.join("")}…`;
  }
  context.fillText(text, x, y);
}

/** Returns what scrolls a part of the page, and the edges between which the part is seen. */
function scrollerOf(part) {
  if (getComputedStyle(part).overflowY !== "visible") {
    const { top, bottom } = part.getBoundingClientRect();
    return { scroller: part, top, bottom };
  }
  const foot = document.querySelector("footer").offsetHeight;
  return {
    scroller: document.scrollingElement,
    top: $("river").offsetHeight,
    bottom: innerHeight - foot,
  };
}

/**
 * Returns the height from the top of an element to the bottom of the window, less `free` pixels, as
 * if nothing were scrolled.
 */
function spaceBelow(id, free = 0) {
  const main = document.querySelector("main");
  const { scroller, top, bottom } = scrollerOf(main);
  const end = bottom - parseFloat(getComputedStyle(main).paddingBottom);
  const scrolled = scroller === main ? main.scrollTop : top - $("page").getBoundingClientRect().top;
  // In one column, each element may take most of the window.
  const least = $("page").clientWidth > 900 ? 240 : (bottom - top) * 0.6;
  return Math.max(least, end - $(id).getBoundingClientRect().top - scrolled - free);
}

/** Draws a color scale with labels at both ends. */
function legend(id, palette, low, high) {
  const scale = element("i");
  scale.setAttribute("aria-hidden", "true");
  $(id).dataset.palette = palette;
  $(id).replaceChildren(element("span", low), scale, element("span", high));
}

const signedLegend = (id, most) =>
  legend(id, "diverging", `≤ −${most.toFixed(2)}`, `≥ ${most.toFixed(2)}`);

/** Highlights one row of a table. */
function mark(table, chosen) {
  const rows = table.tBodies[0].rows;
  for (let i = 0; i < rows.length; i++) {
    rows[i].classList.toggle("on", i === chosen);
  }
}
