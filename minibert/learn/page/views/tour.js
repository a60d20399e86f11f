// The guided tour: a dozen stops through the sections, by mouse or keyboard.

import { $ } from "../parts/elements.js";
import { change } from "../state/change.js";
import { root } from "../state/page.js";
import { state } from "../state/store.js";
import { t } from "../state/words.js";

export const STOPS = [
  { section: "text", target: "texts" },
  { section: "text", target: "pieces" },
  { section: "embeddings", target: "embeddings-map" },
  { section: "attention", target: "grid" },
  { section: "attention", target: "attention-map", set: { stage: "scores" } },
  { section: "attention", target: "attention-map", set: { stage: "probabilities" } },
  { section: "head", target: "head-steps" },
  { section: "hidden", target: "hidden-map" },
  { section: "hidden", target: "places" },
  { section: "predictions", target: "predictions" },
  { section: "attention", target: "patterns" },
];

export function buildTour() {
  $("tour-start").onclick = () => goTo(0);
  $("tour-back").onclick = () => goTo(state.tour - 1);
  $("tour-next").onclick = () => goTo(state.tour + 1);
  $("tour-end").onclick = endTour;
  $("tour").addEventListener("keydown", (/** @type {any} */ event) => {
    if (event.key === "ArrowRight") {
      goTo(state.tour + 1);
    }
    if (event.key === "ArrowLeft") {
      goTo(state.tour - 1);
    }
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && state.tour >= 0) {
      endTour();
    }
  });
}

/** @param {any} stop */
export function goTo(stop) {
  if (stop >= STOPS.length) {
    endTour();
    return;
  }
  const tour = Math.max(stop, 0);
  const { section, set = {}, target } = STOPS[tour];
  change({ tour, section, ...set });
  $("tour").focus({ preventScroll: true });
  $(target).scrollIntoView({ block: "nearest" });
}

function endTour() {
  change({ tour: -1 });
  $("tour-start").focus();
}

export function drawTour() {
  const { tour } = state;
  const open = tour >= 0;
  for (const marked of document.querySelectorAll(".here")) {
    marked.classList.remove("here");
  }
  $("tour").hidden = !open;
  root.classList.toggle("touring", open);
  if (!open) {
    return;
  }
  $(STOPS[tour].target).classList.add("here");
  $("tour-title").textContent = t(`tour.${tour}`);
  $("tour-text").textContent = t(`tour.${tour}.say`);
  $("tour-number").textContent = `${tour + 1} / ${STOPS.length}`;
  $("tour-back").disabled = tour === 0;
  $("tour-next").textContent = t(tour === STOPS.length - 1 ? "tour.end" : "tour.next");
  $("tour-end").hidden = tour === STOPS.length - 1;
}
