// The colors of the style sheet, and the palettes of heat maps.

import { clamp } from "../model/ranges.js";
import { root } from "../state/page.js";

/** @type {Map<string, string>} the colors of the theme, because asking makes the browser style */
const colors = new Map();

/**
 * Returns a color of the style sheet in the theme.
 * @param {string} name
 */
export function color(name) {
  let found = colors.get(name);
  if (found === undefined) {
    found = getComputedStyle(root).getPropertyValue(`--${name}`).trim();
    colors.set(name, found);
  }
  return found;
}

/** @type {Record<string, Uint32Array>} */
let palettes;

/**
 * Reads the colors of a new theme. Each palette has 256 colors as pixels, interpolated between the
 * stops in the style sheet.
 */
export function readPalettes() {
  colors.clear();
  /** @param {string} name */
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

/**
 * @param {string} palette
 * @param {number} value
 */
export const pixel = (palette, value) => palettes[palette][Math.round(clamp(value, 0, 1) * 255)];
