// The tab on predictions.

import { clamp } from "../model/ranges.js";
import { $, bar, element, setText } from "../parts/elements.js";
import { walk } from "../parts/keys.js";
import { python } from "../parts/python.js";
import { numberNode, tell } from "../parts/readout.js";
import { change } from "../state/change.js";
import { current, hiddenState, piece } from "../state/current.js";
import { sizes } from "../state/page.js";
import { draw, state } from "../state/store.js";
import { t } from "../state/words.js";

/**
 * Fetches the predictions of the open section, from the last layer down, and draws each as it
 * arrives.
 */
async function fetchLens(own = /** @type {any} */ (current.shown)) {
  const wanted = () => own === current.shown || own === current.shown.whole;
  if (!own.live || own.fetching || own.lens === null) {
    return;
  }
  own.fetching = true;
  for (let depth = sizes.layers; depth >= 0 && wanted(); depth--) {
    const words = await current.live.words(hiddenState(depth, own));
    if (words === null) {
      own.lens = null;
      break;
    }
    own.lens[depth] = words;
    if (!wanted() || state.section !== "predictions") {
      continue;
    }
    if (depth === sizes.layers) {
      draw(); // the strip shows the word of the last layer, too
    } else {
      drawPredictions();
    }
  }
  own.fetching = false;
}

/** Builds the table for the tokens that are shown. */
function buildLens() {
  const table = element("table", "", { id: "lens", tabIndex: 0 });
  const head = table.createTHead().insertRow();
  const body = table.createTBody();
  table.setAttribute("role", "grid");
  table.dataset.label = "predictions.label";
  table.setAttribute("aria-label", t(table.dataset.label));
  head.append(element("th"));
  for (let depth = 0; depth <= sizes.layers; depth++) {
    head.append(element("th", `h${depth}`));
  }
  current.tokens.forEach((token, i) => {
    const row = body.insertRow();
    row.append(element("th", token.piece, { dir: "auto" }));
    for (let depth = 0; depth <= sizes.layers; depth++) {
      const cell = element("td", "", {
        id: `lens-${i}-${depth}`,
        dir: "auto",
        onclick: () => {
          change({ token: i, depth });
          tellWord();
        },
      });
      cell.setAttribute("role", "gridcell");
      row.append(cell);
    }
  });
  walk(
    table,
    () => [current.count, sizes.layers + 1],
    () => [state.token, state.depth],
    (token, depth) => {
      change({ token, depth });
      tellWord();
    },
  );
  $("lens").replaceWith(table);
  buildLens.of = current.shown;
}
/** @type {Computed | null} */
buildLens.of = null;

function tellWord(rank = 0) {
  const best = current.shown.lens?.[state.depth]?.[state.token]?.[rank];
  if (!best) {
    return;
  }
  const line = python(`logit_lens(t)[0][${state.depth}, 0, ${state.token}, ${rank}]`, {
    names: "logit_lens, run",
  });
  tell(`h${state.depth} “${piece(state.token)}”: ${best[0]} ${best[1].toFixed(4)}`, null, line);
}

/**
 * Scrolls a table sideways to a cell. On a phone the answer would be out of view on the right.
 * @param {any} cell
 */
function revealColumn(cell) {
  const box = cell.closest(".scroll");
  const head = cell.parentElement.firstChild.offsetWidth;
  const least = cell.offsetLeft + cell.offsetWidth - box.clientWidth;
  box.scrollLeft = clamp(box.scrollLeft, least, cell.offsetLeft - head);
}

export function drawPredictions() {
  const { lens } = current.shown;
  $("predictions-say").textContent = t(lens ? "predictions.say" : "predictions.none");
  $("predictions").querySelector(".side").hidden = !lens;
  if (!lens) {
    return;
  }
  if (buildLens.of !== current.shown) {
    buildLens();
  }
  if (current.shown.live && !lens[0]) {
    fetchLens();
  }
  current.tokens.forEach((_, i) => {
    for (let depth = 0; depth <= sizes.layers; depth++) {
      const cell = $(`lens-${i}-${depth}`);
      const best = lens[depth]?.[i][0];
      setText(cell, best ? best[0] : "…");
      cell.style.setProperty("--p", best ? best[1] : 0);
      cell.classList.toggle("on", i === state.token && depth === state.depth);
    }
  });
  const id = `lens-${state.token}-${state.depth}`;
  $("lens").setAttribute("aria-activedescendant", id);
  /**
   * @param {any} best
   * @param {any} [say]
   */
  const list = (best, say) => {
    const words = element("div", "", { className: "words" });
    (best ?? []).forEach((/** @type {any[]} */ [word, share], /** @type {any} */ rank) => {
      const number = say
        ? numberNode(share.toFixed(4), () => say(rank))
        : element("span", share.toFixed(4));
      words.append(element("b", word, { dir: "auto" }), bar(share), number);
    });
    return words;
  };
  const parts = [
    element("h2", t("predictions.best", { token: piece(state.token), state: `h${state.depth}` })),
  ];
  if (current.shown.request.masked.includes(state.token)) {
    const token = current.live.tokens({ ...current.shown.request, masked: [] })[state.token].piece;
    parts.push(element("p", t("predictions.hidden", { token }), { className: "say" }));
  }
  if (current.shown.whole) {
    // Show the words before and after.
    if (!current.shown.whole.lens?.[0]) {
      fetchLens(current.shown.whole);
    }
    parts.push(
      element("h3", t("off.before")),
      list(current.shown.whole.lens?.[state.depth]?.[state.token]),
      element("h3", t("off.after")),
    );
  }
  $("best").replaceChildren(...parts, list(lens[state.depth]?.[state.token], tellWord));
  if (document.activeElement === $("lens")) {
    $(id).scrollIntoView({ block: "nearest", inline: "nearest" });
  }
  revealColumn($(id));
}
