// Color scales.

import { $, element } from "./elements.js";

/**
 * Draws a color scale with labels at both ends.
 * @param {string} id
 * @param {string} palette
 * @param {any} low
 * @param {any} high
 */
export function legend(id, palette, low, high) {
  const scale = element("i");
  scale.setAttribute("aria-hidden", "true");
  $(id).dataset.palette = palette;
  $(id).replaceChildren(element("span", low), scale, element("span", high));
}

/**
 * @param {string} id
 * @param {number} most
 */
export const signedLegend = (id, most) =>
  legend(id, "diverging", `≤ −${most.toFixed(2)}`, `≥ ${most.toFixed(2)}`);
