// The tab on one head.

import { $, element } from "../../parts/elements.js";
import { HeatMap } from "../../parts/heat-map.js";
import { change } from "../../state/change.js";
import { current, numbers } from "../../state/current.js";
import { sizes } from "../../state/page.js";
import { state } from "../../state/store.js";
import { t } from "../../state/words.js";
import { buildFilm, fitFilm } from "./film.js";
import { HEAD_STEPS, inLayer } from "./rows.js";
import { headPlan } from "./steps.js";

export function buildHead() {
  buildFilm();
  for (const step of HEAD_STEPS) {
    const canvas = element("canvas", "", { id: `head-${step.id}` });
    const box = element("div", "", { className: "scroll" });
    canvas.dataset.label = `head.${step.id}`;
    const file = element("code", step.file);
    const figure = element("figure", "", { className: "step" });
    const names = element("code", "", { id: `head-${step.id}-names` });
    const heading = element("h2");
    const formula = element("p", "", { className: "formula" });
    const where = element("p", "", { className: "say" });
    heading.dataset.t = `head.${step.id}`;
    formula.dataset.t = `head.${step.id}.formula`;
    where.append(names, element("span", " · "), file);
    box.append(canvas);
    figure.append(heading, formula, where, box);
    $("head-steps").append(figure);
    step.map = new HeatMap(canvas.id, () => headPlan(step));
  }
  /** @param {string} name */
  const choose = (name) => (/** @type {any} */ event) =>
    change({ [name]: Number(event.target.value) });
  for (const [id, name] of [
    ["layer", "layer"],
    ["head", "head"],
    ["token", "token"],
    ["key", "key"],
  ]) {
    $(`head-${id}`).onchange = choose(name);
  }
  for (const [id, most] of [
    ["layer", sizes.layers],
    ["head", sizes.heads],
  ]) {
    $(`head-${id}`).replaceChildren(
      ...Array.from({ length: most }, (_, i) => element("option", i, { value: i })),
    );
  }
}

export function buildHeadChoices() {
  for (const id of ["head-token", "head-key"]) {
    $(id).replaceChildren(
      ...current.tokens.map((token, i) => element("option", `${i} ${token.piece}`, { value: i })),
    );
  }
}

export function drawHead() {
  const whole = Boolean(numbers(inLayer("attention.query")));
  $("head-say").textContent = t(whole ? "head.say" : "head.none");
  $("head-steps").hidden = $("film").hidden = !whole;
  for (const name of ["layer", "head", "token", "key"]) {
    $(`head-${name}`).value = state[name];
  }
  if (!whole) {
    return;
  }
  fitFilm();
  for (const step of HEAD_STEPS) {
    $(`head-${step.id}-names`).textContent = step.names.map(inLayer).join(", ");
    step.map.draw();
  }
}
