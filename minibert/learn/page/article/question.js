// Decides for every scene what a verdict may speak about.
//
// A scene asks one question: what happens between its initial state and the state after its act?
// Its verdict speaks only if the page shows exactly the latter. Otherwise the reader has changed the
// question. Then the page names what was changed, and shows what can be measured on any text.

import { BLANK } from "./beginning.js";
import { saidWords } from "./wording.js";
import { answersOf, inner } from "../state/computed-text.js";
import { current, requestOf, same } from "../state/current.js";
import { state } from "../state/store.js";

/** What the model reads. It concerns every scene. */
const INPUTS = ["text", "pair", "masked", "off", "sides", "padTo", "type"];

/**
 * Returns the state that a scene begins with.
 * @param {Scene} scene
 */
export const firstState = (scene) => ({ ...BLANK(), ...scene.set() });

/**
 * Returns the state that a scene asks about.
 * @param {Scene} scene
 */
const askedState = (scene) => ({ ...firstState(scene), ...scene.act() });

/**
 * Returns the values that concern a scene: the inputs, and what else it names.
 * @param {Scene} scene
 * @param {any} from
 * @param {any} request
 */
const concerning = (scene, from, request) => ({
  ...Object.fromEntries(INPUTS.map((name) => [name, request[name]])),
  ...Object.fromEntries((scene.concerns ?? []).map((name) => [name, from[name]])),
});

/**
 * Returns the names of what differs between a state and what the page shows.
 * @param {Scene} scene
 * @param {any} from
 */
function changedFrom(scene, from) {
  const wanted = concerning(scene, from, requestOf(from));
  const present = concerning(scene, state, current.shown.request);
  return Object.keys(wanted).filter((name) => !same(wanted[name], present[name]));
}

export const pressed = new Set(); // ids of the scenes whose button the reader has pressed

/**
 * Returns what the page may say in a scene: "nothing" before the reader has acted, a "verdict" on
 * the question of the scene, or only measurements of a "changed" question. Opening the door of a
 * question is no act.
 * @param {Scene} scene
 */
export function standing(scene) {
  if (state.ask) {
    return { may: "nothing", changed: [] };
  }
  /** @param {string} name */
  const isOther = (name) => !scene.goesOn?.includes(name);
  const changed = changedFrom(scene, askedState(scene)).filter(isOther);
  if (pressed.has(scene.id)) {
    return { may: changed.length ? "changed" : "verdict", changed };
  }
  // Without the act, what the reader changed is what differs from the beginning.
  const own = changedFrom(scene, firstState(scene));
  if (own.length && !changed.length) {
    return { may: "verdict", changed };
  }
  return { may: own.length ? "changed" : "nothing", changed: own };
}

/**
 * Returns what can be measured on any two texts, and what the scene adds for them.
 * @param {Scene} scene
 * @param {Computed} before
 * @param {Computed} now
 */
export async function measuredAnyway(scene, before, now) {
  const answers = await Promise.all([before, now].map((what) => answersOf(what)));
  const rows = [["pieces.any", ...[before, now].map((what) => inner(what).join(" · "))]];
  if (answers.some((best) => best.length)) {
    rows.push(["answer.any", ...answers.map((best) => (best.length ? saidWords(best) : "–"))]);
  }
  const own = (await scene.own?.(before, now)) ?? [];
  // What the model read says nothing where the reader changed something else.
  return { rows: own.length && same(before.request, now.request) ? own : [...rows, ...own] };
}
