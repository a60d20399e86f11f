// "What carries this?": the difference of the two compared texts.

import { $ } from "../../parts/elements.js";
import { current } from "../../state/current.js";
import { sizes } from "../../state/page.js";
import { state } from "../../state/store.js";
import { t } from "../../state/words.js";
import { WirePanel } from "./carriers-panel.js";
import { blankMap, fillMap } from "./carriers.js";
import { comparison } from "./texts.js";

let following = blankMap("", []);

export const compareWire = new WirePanel("compare-wire", () => following);

/**
 * Returns a text with one of its tokens replaced by [MASK].
 * @param {string} text
 * @param {{start: any, end: any}} of1
 */
function hiddenAt(text, { start, end }) {
  const letters = Array.from(text); // offsets count code points
  return `${letters.slice(0, start).join("")}[MASK]${letters.slice(end).join("")}`;
}

/**
 * Returns the two compared texts with a [MASK] at the same place, or null if they do not match. If
 * they have no [MASK], one token is masked.
 */
function followed() {
  const [first, second] = comparison.texts.map((/** @type {any} */ what) => what.tokens);
  if (
    first.length !== second.length ||
    comparison.texts.slice(0, 2).some((/** @type {any} */ what) => what.request.pair)
  ) {
    return null;
  }
  const texts = comparison.texts.slice(0, 2).map((/** @type {any} */ what) => what.request.text);
  const alike = first
    .map((/** @type {any} */ _, /** @type {number} */ i) => i)
    .filter((/** @type {number} */ i) => first[i].piece === second[i].piece);
  if (alike.length === first.length) {
    return null;
  }
  if (alike.some((/** @type {number} */ i) => first[i].piece === "[MASK]")) {
    return texts;
  }
  /** @param {number} i */
  const whole = (i) =>
    /^\p{L}+$/u.test(first[i].piece) && !(first[i + 1]?.piece ?? "").startsWith("##");
  const places = alike.filter(whole);
  if (!places.length) {
    return null;
  }
  const place = places.includes(state.token) ? state.token : places.at(-1);
  return [hiddenAt(texts[0], first[place]), hiddenAt(texts[1], second[place])];
}

/** Starts to trace the difference between the two compared texts. */
async function followTexts() {
  const texts = followed() ?? [];
  const map = blankMap(
    texts.join("\n"),
    texts.map((/** @type {any} */ text) => ({ text })),
  );
  following = map;
  const wanted = () => following === map;
  drawFollowing();
  await fillMap(map, wanted, () => {
    if (wanted() && state.section === "compare") {
      drawFollowing();
    }
  });
}

export function drawFollowing() {
  const able = Boolean(current.live?.predicts && comparison.texts && followed());
  const own = able && following.key === followed().join("\n");
  const done = own && following.cells.length === sizes.layers;
  $("follow").disabled = !able || own;
  $("follow").textContent = t("wire.ask");
  $("follow-bar").hidden = !own || done;
  $("follow-bar").value = following.cells.length / sizes.layers;
  let said = able ? "wire.ask.say" : "wire.ask.not";
  if (own) {
    said = "wire.texts";
  }
  const [first = "", second = ""] = following.requests.map(
    (/** @type {any} */ request) => request.text,
  );
  $("follow-say").textContent = t(said, { first, second });
  if (own) {
    compareWire.draw();
  } else {
    $("compare-wire").hidden = true;
  }
}

export function buildFollowing() {
  $("follow").onclick = followTexts;
}
