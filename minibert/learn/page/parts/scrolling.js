// What scrolls, and how much room there is.

import { $ } from "./elements.js";

/**
 * Returns what scrolls a part of the page, and the edges between which the part is seen.
 * @param {any} part
 */
export function scrollerOf(part) {
  if (getComputedStyle(part).overflowY !== "visible") {
    const { top, bottom } = part.getBoundingClientRect();
    return { scroller: part, top, bottom };
  }
  const foot = $("page").querySelector("footer").offsetHeight;
  return {
    scroller: document.scrollingElement,
    top: $("river").offsetHeight,
    bottom: innerHeight - foot,
  };
}

/**
 * Returns the height from the top of an element to the bottom of the window, less `free` pixels, as
 * if nothing were scrolled.
 * @param {string} id
 * @param {any} [free]
 */
export function spaceBelow(id, free = 0) {
  /** @type {any} */
  const main = document.querySelector("main");
  const { scroller, top, bottom } = scrollerOf(main);
  const end = bottom - parseFloat(getComputedStyle(main).paddingBottom);
  const scrolled = scroller === main ? main.scrollTop : top - $("page").getBoundingClientRect().top;
  // In one column, each element may take most of the window.
  const least = $("page").clientWidth > 900 ? 240 : (bottom - top) * 0.6;
  return Math.max(least, end - $(id).getBoundingClientRect().top - scrolled - free);
}
