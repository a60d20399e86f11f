// The heat map.

import { clamp } from "../model/ranges.js";
import {
  LABEL,
  LEAST_PRINT,
  PRINT,
  fitted,
  labelSize,
  picture,
  prepare,
  setSize,
} from "./canvas.js";
import { color, pixel } from "./colors.js";
import { $ } from "./elements.js";
import { walk } from "./keys.js";
import { tell } from "./readout.js";
import { scrollerOf } from "./scrolling.js";
import { root } from "../state/page.js";

/**
 * A heat map on a canvas with labels, a cursor, values on hover, and arrow keys. It scrolls if it
 * does not fit.
 */
export class HeatMap {
  /** @type {Map<string, HeatMap>} All heat maps, by the ids of their canvases. */
  static all = new Map();
  /** @type {any} the Plan that was drawn last */
  now;
  /** @type {any} the Area of the cells */
  area;
  /** @type {string | undefined} the cursor that was last revealed */
  seen;

  /**
   * @param {string} id id of the canvas, whose parent scrolls.
   * @param {() => Plan} plan returns the map for the current state, an object with these properties:
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
    this.canvas.addEventListener("pointermove", (/** @type {any} */ event) => {
      const at = event.pointerType === "mouse" ? this.cell(event) : null;
      tell(at ? this.now.describe(...at) : "", event);
    });
    this.canvas.addEventListener("click", (/** @type {any} */ event) => {
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
  /**
   * @param {number} r
   * @param {number} c
   */
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
  /**
   * @param {any} event
   * @returns {[number, number] | null} the row and the column at the mouse
   */
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
    /** @type {any} */
    const now = (this.now = this.plan());
    const { rows, cols } = now;
    const room = this.canvas.parentElement.clientWidth;
    const top = now.colLabel ? (now.top ?? 16) : 0;
    const right = now.right ?? 0;
    const left = Math.min(now.left ?? 84, Math.max(room * 0.4, 64));
    const [minWidth, minHeight] = now.smallest ?? [16, 16];
    /** @type {any} */
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
      area.height = Math.max(
        Math.min(now.space - top, rows * (now.tallest ?? now.space)),
        rows * minHeight,
      );
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
  /**
   * Frames the cell of the cursor.
   * @param {CanvasRenderingContext2D} context
   * @param {number[]} cell
   */
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
  /**
   * @param {CanvasRenderingContext2D} context
   * @param {number} size
   */
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
  /**
   * @param {CanvasRenderingContext2D} context
   * @param {number} size
   */
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
  /**
   * Returns the width of the widest column label. Long labels may be shortened to `LABEL`.
   * @param {CanvasRenderingContext2D} context
   */
  #roomOfLabels(context) {
    const widths = Array.from(
      { length: this.now.cols },
      (_, c) => context.measureText(this.now.colLabel(c)).width + 4,
    );
    return Math.min(Math.max(...widths), LABEL);
  }
  /**
   * Returns the largest font size, up to `PRINT`, at which every text fits its cell.
   * @param {CanvasRenderingContext2D} context
   * @param {number} room
   */
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
  /**
   * @param {CanvasRenderingContext2D} context
   * @param {any} size
   */
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
