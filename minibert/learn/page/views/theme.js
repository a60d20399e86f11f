// Light and dark.

import { readPalettes } from "../parts/colors.js";
import { $ } from "../parts/elements.js";
import { root } from "../state/page.js";
import { draw, state } from "../state/store.js";

export function showTheme() {
  const system = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  root.dataset.theme = state.theme || system;
  readPalettes();
}

export function buildTheme() {
  const redraw = () => {
    showTheme();
    draw();
  };
  $("theme").onclick = () => {
    state.theme = root.dataset.theme === "dark" ? "light" : "dark";
    redraw();
  };
  matchMedia("(prefers-color-scheme: dark)").onchange = redraw;
}
