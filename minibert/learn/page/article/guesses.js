// The reader's prediction in each scene. It can be changed until the reader acts, and is kept from
// then on.
//
// `state.guesses` encodes all predictions for the address, such as
// "pieces.1.1.closed_numbers.none.0.open". An entry holds the scene, the choice, the outcome, and
// whether the outcome is final. It is final once the scene's button was pressed. While the reader
// types another sentence, it may still change.

import { $ } from "../parts/elements.js";
import { remember } from "../state/address.js";
import { state } from "../state/store.js";
import { t } from "../state/words.js";

export function keptGuesses() {
  const kept = new Map();
  for (const entry of state.guesses.split("_").filter(Boolean)) {
    const [id, guess, outcome, how] = entry.split(".");
    if (how === undefined) {
      continue;
    }
    kept.set(id, {
      guess: guess === "none" ? -1 : Number(guess),
      outcome: Number(outcome),
      final: how === "closed",
    });
  }
  return kept;
}

/** @param {string} id */
export const keptGuess = (id) => keptGuesses().get(id);

/**
 * Keeps the prediction of a scene with its outcome. Only an outcome that is not final can change.
 * @param {string} id
 * @param {{outcome: any, open?: any}} of1
 * @param {boolean} isPressed
 */
export function keepGuess(id, { outcome, open = false }, isPressed) {
  const all = keptGuesses();
  const before = all.get(id);
  if (before?.final) {
    return;
  }
  const guess = before?.guess ?? state.guess;
  all.set(id, { guess, outcome, final: isPressed && !open });
  state.guesses = Array.from(all, ([scene, kept]) =>
    [
      scene,
      kept.guess < 0 ? "none" : kept.guess,
      kept.outcome,
      kept.final ? "closed" : "open",
    ].join("."),
  ).join("_");
  remember();
}

/**
 * Marks the predicted choice, and the outcome once it is known. A kept prediction cannot be
 * changed.
 * @param {Scene} scene
 * @param {any} [found]
 */
export function drawChoices(scene, found = null) {
  const locked = Boolean(keptGuess(scene.id));
  for (const input of $("scene-choices").querySelectorAll("input")) {
    const choice = Number(input.value);
    const isGuess = choice === state.guess;
    const isOutcome = found !== null && choice === found.outcome;
    input.checked = isGuess;
    input.disabled = locked;
    let mark = "";
    if (isOutcome) {
      mark = isGuess ? "right" : "happened";
    } else if (found !== null && isGuess) {
      mark = "missed";
    }
    const label = input.closest("label");
    label.dataset.mark = mark;
    label.querySelector("small").textContent = mark ? ` ${t(`lesson.mark.${mark}`)}` : "";
  }
}
