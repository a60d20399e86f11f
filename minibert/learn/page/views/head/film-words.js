// What the animated head says: a sentence for each step, and where its rows come from.

import { range } from "../../model/ranges.js";
import { $, element } from "../../parts/elements.js";
import { current, hiddenState, piece } from "../../state/current.js";
import { sizes } from "../../state/page.js";
import { state } from "../../state/store.js";
import { t } from "../../state/words.js";
import { filmMap } from "./film-picture.js";
import { besideKey, filmNumbers, sumOfShares } from "./film-rows.js";
import { FILM_STEPS, film, filmStep, tokenAtHand } from "./film-time.js";
import { headSize } from "./rows.js";

/** Returns the values that the sentences mention. */
function filmAmounts() {
  const { shares } = filmNumbers();
  const best = shares.indexOf(Math.max(...shares));
  return {
    token: piece(state.token),
    size: headSize(),
    best: piece(best),
    share: shares[best].toFixed(2),
  };
}

/**
 * Describes the current step in words. Screen readers also get the current number, through the time
 * control.
 */
export function sayFilm() {
  const step = filmStep();
  const name = FILM_STEPS[step];
  const heading = t("film.step", {
    step: step + 1,
    steps: FILM_STEPS.length,
    name: t(`film.${name}`),
  });
  const silent = name === "sum" && sumOfShares() === 0;
  const said = t(silent ? "film.silent" : `film.${name}.say`, filmAmounts());
  if ($("film-say").textContent !== `${heading} ${said}`) {
    $("film-say").replaceChildren(element("b", heading), ` ${said}`);
  }
  const i = tokenAtHand();
  const now = name === "scores" && i >= 0 ? ` · ${piece(i)}: ${besideKey(i)}` : "";
  $("film-time").setAttribute("aria-valuetext", `${heading}${now}`);
}

// The matrix behind the rows of a step, and their letter.
/** @type {Record<string, any>} */
export const ORIGINS = { query: ["query", "q"], keys: ["key", "k"], values: ["value", "v"] };

const PRODUCTS = 3; // shown of the sum that a number is

/**
 * Says where the rows of a step come from: the first number of the chosen token is its state times
 * the first column of W, in numbers.
 */
export async function sayOrigin() {
  const { layer, head, token } = state;
  const [name, letter] = ORIGINS[FILM_STEPS[filmStep()]] ?? [];
  const key = name && current.live ? `${name} ${layer} ${head} ${token} ${state.language}` : "";
  if (sayOrigin.key === key && sayOrigin.of === current.tokens) {
    return;
  }
  Object.assign(sayOrigin, { key, of: current.tokens });
  $("film-origin").textContent = "";
  if (!key) {
    return;
  }
  const own = `encoder.layer.${layer}.attention.self.${name}`;
  const rows = range(head * headSize(), headSize());
  const [weights, bias] = await Promise.all(
    ["weight", "bias"].map((kind) => current.live.ask("rows", { name: `${own}.${kind}`, rows })),
  );
  if (sayOrigin.key !== key) {
    return;
  }
  if (name === "query") {
    Object.assign(film, { matrix: weights.data, of: `${layer} ${head}` });
    filmMap.draw();
  }
  const states = hiddenState(layer).row(token);
  const shown = Array.from({ length: PRODUCTS }, (_, i) =>
    `${states[i].toFixed(2)}·${weights.data[i].toFixed(2)}`.replaceAll("-", "−"),
  );
  const sum = states.reduce((total, value, i) => total + value * weights.data[i], bias.data[0]);
  $("film-origin").textContent = t("film.origin", {
    token: piece(token),
    row: letter,
    matrix: `W_${letter.toUpperCase()}`,
    hidden: sizes.hidden,
    size: headSize(),
    products: shown.join(" + "),
    bias: bias.data[0].toFixed(2).replace("-", "−"),
    sum: sum.toFixed(2).replace("-", "−"),
  });
  if (name === "query") {
    $("film-origin").append(` ${t("film.matrix")}`);
  }
}
/** @type {any} */
sayOrigin.key = "";
/** @type {any} */
sayOrigin.of = null;
