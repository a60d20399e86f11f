// Drawing on a canvas.

import { clamp } from "../model/ranges.js";
import { pixel } from "./colors.js";

export const PRINT = 15; // font size of canvas text in pixels, the same as other text

export const LEAST_PRINT = 12; // where there is less room

export const LABEL = 34; // width in pixels to which a column label may be shortened

/**
 * Sizes a canvas in device pixels and returns its context, scaled to CSS pixels.
 * @param {any} canvas
 * @param {number} width
 * @param {number} height
 */
export function prepare(canvas, width, height) {
  // Phones draw nothing on a canvas with more than 16 million pixels or a side above 16,384.
  const ratio = Math.min(
    window.devicePixelRatio || 1,
    Math.sqrt(12e6 / (width * height)),
    16384 / Math.max(width, height),
  );
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  /** @type {any} */
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  setSize(context, PRINT); // before the style, which the browser would have to apply first
  context.textBaseline = "middle";
  Object.assign(canvas.style, { width: `${width}px`, height: `${height}px` });
  return context;
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {number} size
 */
export function setSize(context, size) {
  // asked once, because asking makes the browser style what was written before
  setSize.family ??= getComputedStyle(document.body).fontFamily;
  context.font = `${size}px ${setSize.family}`;
}
/** @type {any} */
setSize.family = undefined;

const easel = new OffscreenCanvas(1, 1);

/**
 * Returns a picture with one pixel for each cell. The next call overwrites it.
 * @param {(row: number, col: number) => number | null} shade (row, col) => a value from 0 to 1, or null for a transparent pixel.
 * @param {any} rows
 * @param {any} cols
 * @param {string} palette
 */
export function picture(rows, cols, palette, shade) {
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
  /** @type {any} */
  const context = easel.getContext("2d");
  context.putImageData(new ImageData(new Uint8ClampedArray(pixels.buffer), cols, rows), 0, 0);
  return easel;
}

/**
 * Returns the font size in pixels of the label of a row or column `room` pixels large.
 * @param {number} room
 */
export const labelSize = (room) => clamp(Math.floor(room) - 1, LEAST_PRINT, PRINT);

/**
 * Draws a text, shortened with an ellipsis if it is wider than `room`.
 * @param {CanvasRenderingContext2D} context
 * @param {string} text
 * @param {number} x
 * @param {number} y
 * @param {number} room
 */
export function fitted(context, text, x, y, room) {
  const letters = Array.from(text);
  if (context.measureText(text).width > room) {
    while (letters.length > 1 && context.measureText(`${letters.join("")}…`).width > room) {
      letters.pop();
    }
    text = `${letters.join("")}…`;
  }
  context.fillText(text, x, y);
}
