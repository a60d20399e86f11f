// The state that every scene starts from.

import { page, sizes } from "../state/page.js";

export const TURN = 40; // degrees at which the scene begins

/** Returns the state that every scene starts from. */
export const BLANK = () => ({
  text: page.texts[0],
  pair: null,
  masked: [],
  off: [],
  sides: "both",
  pad: 0,
  type: null,
  ask: "",
  part: -1,
  pinned: [],
  other: "",
  same: "",
  unit: "words",
  rule: "previous",
  special: true,
  threshold: 0,
  stage: "probabilities",
  view: "lines",
  tour: -1,
  depth: sizes.layers,
  layer: 0,
  head: 0,
  token: 0,
  key: 0,
  row: 0,
  step: 0,
  number: 0,
  snapshot: 0,
  turn: TURN,
  reach: 1,
});
