// The frame around the tabs: the tokens, the tabs, and what is switched off.

import { cosine } from "../model/vectors.js";
import { $, buttonsOf, element, setText } from "../parts/elements.js";
import { walk } from "../parts/keys.js";
import { copyPython, tell } from "../parts/readout.js";
import { coverage } from "../state/analyses.js";
import { ask, change } from "../state/change.js";
import { current, hiddenState, piece } from "../state/current.js";
import { SECTIONS, SPECIAL, page, root, sizes } from "../state/page.js";
import { draw, state } from "../state/store.js";
import { t } from "../state/words.js";
import { tokenTold } from "./text.js";

// States that buttons with data-... set.
const CHOSEN = ["language", "stage", "view", "compare", "unit"];

export function buildFrame() {
  document.title = page.texts[0].slice(0, 60) || "minibert";
  walk(
    $("tokens"),
    () => [1, current.count],
    () => [0, state.token],
    (_, token) => {
      change({ token });
      tell(...tokenTold(token));
    },
  );
  $("tokens").addEventListener("keydown", (/** @type {any} */ event) => {
    if (event.key === "Enter" && current.live) {
      toggleMask();
    }
  });
  $("mask").onclick = toggleMask;
  SECTIONS.forEach((name, i) => {
    const tab = element("button", "", {
      type: "button",
      id: `tab-${name}`,
      onclick: () => change({ section: name }),
    });
    tab.setAttribute("role", "tab");
    tab.setAttribute("aria-controls", name);
    // The article numbers its scenes instead.
    tab.append(element("small", page.lesson ? "" : i), element("span"));
    tab.lastChild.dataset.t = name === "head" ? "head.tab" : name;
    $("tabs").append(tab);
    $(name).setAttribute("role", "tabpanel");
    $(name).setAttribute("aria-labelledby", tab.id);
  });
  walk(
    $("tabs"),
    () => [1, SECTIONS.length],
    () => [0, SECTIONS.indexOf(state.section)],
    (_, i) => {
      change({ section: SECTIONS[i] });
      $(`tab-${SECTIONS[i]}`).focus();
    },
  );
  for (const name of CHOSEN) {
    for (const button of buttonsOf(name)) {
      button.onclick = () => change({ [name]: button.dataset[name] });
    }
  }
  // On a phone and next to the article, leave the space of rarely used controls to the maps.
  const open = () => {
    $("more").open = !page.lesson && $("page").clientWidth > 640;
  };
  open();
  let width = innerWidth; // a phone's keyboard changes only the height
  window.onresize = () => {
    if (innerWidth !== width) {
      width = innerWidth;
      open();
    }
    draw();
  };
  $("copy").onclick = copyPython;
}

export function buildTokens() {
  $("tokens").replaceChildren(
    ...current.tokens.map((token, i) => {
      const chip = element("span", token.piece, {
        id: `token-${i}`,
        dir: "auto",
        onclick: () => {
          change({ token: i });
          tell(...tokenTold(i));
        },
      });
      chip.setAttribute("role", "option");
      chip.classList.toggle("special", SPECIAL.test(token.piece));
      chip.classList.toggle("second", token.type === 1);
      chip.classList.toggle("off", token.mask === 0);
      return chip;
    }),
  );
}

/** Masks the chosen token, or unmasks it. */
function toggleMask() {
  const { masked, token } = state;
  ask({
    masked: masked.includes(token)
      ? masked.filter((place) => place !== token)
      : [...masked, token].sort((a, b) => a - b),
  });
}

/**
 * Masks the last whole word if nothing is masked yet, once for each text. Without a [MASK] there is
 * nothing to predict.
 */
export function hideOne() {
  if (
    !current.live?.predicts ||
    hideOne.offered === state.text ||
    current.tokens.some((token) => token.piece === "[MASK]")
  ) {
    return;
  }
  hideOne.offered = state.text;
  const whole = current.tokens
    .map((_, i) => i)
    .filter((i) => /^\p{L}{2,}$/u.test(piece(i)) && !current.tokens[i + 1]?.piece.startsWith("##"));
  if (whole.length) {
    ask({ masked: [whole.at(-1)], token: whole.at(-1) });
  }
}
/** @type {any} */
hideOne.offered = null;

/** Shows the parts that are switched off, and their effect on the chosen token. */
function drawOff() {
  const { whole } = current.shown;
  const off = current.shown.request.off.map((at) =>
    t(at.length > 1 ? "attention.chosen" : "off.layer", { layer: at[0], head: at[1] }),
  );
  const altered = off.length ? [t("off.say", { parts: off.join(" · ") })] : [];
  if (current.shown.request.type !== null) {
    altered.push(t("off.types", { type: current.shown.request.type }));
  }
  $("off").hidden = !altered.length;
  if (!altered.length || !whole) {
    return;
  }
  const mask = current.tokens.findIndex((token) => token.piece === "[MASK]");
  const i = mask < 0 || piece(state.token) === "[MASK]" ? state.token : mask;
  const parts = altered;
  const [first, second] = [whole, current.shown].map((own) =>
    hiddenState(sizes.layers, own).row(i),
  );
  parts.push(
    t("off.cosine", {
      token: piece(i),
      state: `h${sizes.layers}`,
      value: cosine(first, second).toFixed(4),
    }),
  );
  const words = (current.shown.words ??= new Map());
  const best = words.get(i);
  if (best) {
    const [before, after] = best.map(
      (/** @type {any[]} */ [word, share]) => `${word} ${share.toFixed(4)}`,
    );
    parts.push(t("off.words", { before, after }));
  } else if (current.live.predicts && best === undefined) {
    words.set(i, null);
    const own = current.shown;
    const rows = { shape: [2, sizes.hidden], data: Float32Array.from([...first, ...second]) };
    current.live.words(rows).then((found) => {
      words.set(
        i,
        found.map((row) => row[0]),
      );
      if (own === current.shown) {
        draw();
      }
    });
  }
  $("off-say").replaceChildren(...parts.map((part) => element("span", part)));
}

/** Shows the name of the model: the page's own, or the small one in the section on training. */
function drawModelLine() {
  root.dataset.section = state.section;
  let name = page.name;
  let shownSizes = sizes;
  if (state.section === "training" && page.run) {
    const { config, parameters, steps } = page.run;
    const rows = new Map(parameters);
    name = t("training.model", { step: steps.at(-1).toLocaleString("en") });
    shownSizes = {
      layers: config.num_hidden_layers,
      heads: config.num_attention_heads,
      hidden: rows.get("embeddings.word_embeddings.weight")[1],
      parameters: parameters.reduce(
        (/** @type {any} */ sum, /** @type {any[]} */ [, shape]) =>
          sum +
          shape.reduce((/** @type {any} */ product, /** @type {any} */ size) => product * size, 1),
        0,
      ),
    };
  }
  const amounts = Object.entries(shownSizes).map(([key, size]) => [key, size.toLocaleString("en")]);
  $("model").replaceChildren(element("b", name), ` · ${t("summary", Object.fromEntries(amounts))}`);
}

export function drawFrame() {
  // Setting the same language again would cause a layout of the whole page.
  if (root.lang !== state.language) {
    root.lang = state.language;
  }
  for (const item of /** @type {NodeListOf<any>} */ (document.querySelectorAll("[data-t]"))) {
    setText(item, t(item.dataset.t));
  }
  for (const item of /** @type {NodeListOf<any>} */ (document.querySelectorAll("[data-label]"))) {
    const said = t(item.dataset.label);
    if (item.getAttribute("aria-label") !== said) {
      item.setAttribute("aria-label", said);
    }
  }
  for (const name of CHOSEN) {
    for (const button of buttonsOf(name)) {
      button.setAttribute("aria-pressed", button.dataset[name] === state[name]);
    }
  }
  setText($("coverage"), current.shown.texts.map(coverage).find(Boolean) ?? "");
  drawModelLine();
  for (const name of SECTIONS) {
    const open = name === state.section;
    const tab = $(`tab-${name}`);
    $(name).hidden = !open;
    tab.setAttribute("aria-selected", open);
    tab.tabIndex = open ? 0 : -1;
  }
  drawOff();
  current.tokens.forEach((_, i) =>
    $(`token-${i}`).setAttribute("aria-selected", i === state.token),
  );
  $("tokens").setAttribute("aria-activedescendant", `token-${state.token}`);
  $("mask").disabled = piece(state.token) === "[MASK]" && !state.masked.includes(state.token);
  setText(
    $("mask"),
    t(state.masked.includes(state.token) ? "unmask" : "mask", { token: piece(state.token) }),
  );
}

/**
 * Scrolls the strips of tabs and tokens to the chosen ones. This needs the layout of the page, so it
 * comes after all that is written.
 */
export function revealChosen() {
  const tab = $(`tab-${state.section}`);
  const tabs = $("tabs");
  if (tab.offsetLeft + tab.offsetWidth > tabs.scrollLeft + tabs.clientWidth) {
    tabs.scrollLeft = tab.offsetLeft;
  }
  if (tab.offsetLeft < tabs.scrollLeft) {
    tabs.scrollLeft = tab.offsetLeft - 8;
  }
  const chip = $(`token-${state.token}`);
  const strip = $("tokens");
  if (
    chip.offsetLeft < strip.scrollLeft ||
    chip.offsetLeft + chip.offsetWidth > strip.scrollLeft + strip.clientWidth
  ) {
    strip.scrollLeft = chip.offsetLeft - strip.clientWidth / 2;
  }
}
