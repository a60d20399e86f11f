// The one store of the page: what the reader chose, and who hears of a change. It knows no view.

import { page, sizes } from "./page.js";

/** @type {State} */
export const state = {
  section: "text",
  text: page.texts[0],
  pair: page.texts[1] ?? null,
  masked: [], // indices of tokens that are hidden behind [MASK]
  off: [], // heads that are switched off as [layer, head], skipped layers as [layer]
  pad: 0, // number of tokens to pad to with [PAD]
  type: null, // type id of every token, or null for the ids of the two texts
  sides: "both", // which side of itself a token may attend to
  token: 0, // the chosen token, which is the query in attention
  key: 0, // the token it attends to, which is the key
  layer: 0,
  head: 0,
  part: -1, // the part of the strip that is open, or -1
  step: 0, // step of the animated head
  pinned: [], // other heads whose lines are drawn
  depth: sizes.layers, // depth of the hidden states, where 0 is the embeddings
  stage: "probabilities",
  view: "lines",
  threshold: 0, // lines with less attention are not drawn
  special: true, // whether [CLS] and [SEP] are drawn
  compare: "moved",
  rule: "previous", // pattern of attention that the article measures over many sentences
  unit: "words", // whether the section "compare" compares words or whole sentences
  number: 0, // the chosen dimension of a vector
  row: 0, // the chosen vector of the embeddings and the pooler
  turn: 40, // direction of the arrow of the two calculations, in degrees
  reach: 1, // its length
  other: "", // the second sentence of the comparison
  same: "", // a third sentence, in which the word has the same sense as in the first
  snapshot: (page.run?.snapshots.length ?? 1) - 1, // snapshot of the pre-training run
  scene: 0, // scene of the article
  guess: -1, // the reader's prediction in the scene, or -1 before there is one
  guesses: "", // all predictions so far, encoded as in the address
  explore: "", // "yes" if the article shows everything, not only what a scene needs
  ask: "", // id of the question that is answered
  tour: -1, // stop of the guided tour, or -1 outside the tour
  trouble: "", // error message about the text
  language: page.language ?? ((navigator.language || "en").startsWith("ko") ? "ko" : "en"),
  theme: "",
};

/** Functions that hear of events, in the order of their registration. */
const listeners = new Map();

/**
 * Registers a function for an event:
 * - "change" (changes): the state is about to change. "changed" (changes): it has changed.
 * - "draw": the page has to be drawn.
 * - "text": another text is shown, and whatever depends on its tokens has to be built again.
 * - "measured": an experiment has new results.
 * - "film": the reader plays the animated head.
 * @param {string} event
 * @param {(changes: any) => void} hear
 */
export function listen(event, hear) {
  listeners.set(event, [...(listeners.get(event) ?? []), hear]);
}

/**
 * @param {string} event
 * @param {Record<string, any>} [changes]
 */
export function announce(event, changes) {
  for (const hear of listeners.get(event) ?? []) {
    hear(changes);
  }
}

export const draw = () => announce("draw");
