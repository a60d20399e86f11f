// A question is answered in three sentences, and opens its door: a state of the page that shows the
// answer, with its own address (#ask=...). When the reader leaves a door, everything is as it was
// before.

import { enter, take } from "../article/lesson.js";
import { modelLanguage, questions } from "./entries.js";
import { change } from "../state/change.js";
import { current } from "../state/current.js";
import { page } from "../state/page.js";
import { draw, state } from "../state/store.js";

/** Default state of a door, as on a page that was just opened. */
const FRESH = {
  stage: "probabilities",
  view: "lines",
  compare: "moved",
  unit: "words",
  threshold: 0,
  other: "",
  same: "",
  tour: -1,
  row: 0,
  step: 0,
  key: 0,
  token: 0,
};

export const askedQuestion = () => questions.find(({ id }) => id === state.ask);

/**
 * Fills in the state of a door if the address names only a question.
 * @param {URLSearchParams} said
 */
export function throughDoor(said) {
  const question = questions.find(({ id }) => id === said.get("ask"));
  if (!current.live || !question || said.has("section")) {
    return said;
  }
  const door = { ...FRESH, ...question.door[modelLanguage()], ask: question.id };
  const address = new URLSearchParams(door);
  for (const [name, value] of said) {
    address.set(name, value);
  }
  return address;
}

/** @type {State | null} */
let work = null; // the state in which the reader opened a door

/**
 * Shows the answer through its address, so that the browser's back button works.
 * @param {{id: string}} of
 */
export function openDoor({ id }) {
  if (!state.ask) {
    work = { ...state };
  }
  location.hash = `ask=${id}`;
}

/** Stays where the reader is when the door is left. */
export function forgetWork() {
  work = null;
}

/** Leaves a door. The page returns to what the reader was doing before. */
export async function leaveDoor() {
  if (askedQuestion() && work) {
    Object.assign(state, work, {
      ask: "",
      language: state.language,
      theme: state.theme,
      guesses: state.guesses,
    });
    work = null;
    await take();
    draw();
  } else if (page.lesson && askedQuestion()) {
    await enter(state.scene);
  } else {
    change({ ask: "" });
  }
}
