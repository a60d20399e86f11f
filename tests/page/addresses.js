// Writes addresses of the page as this version writes them, each with the state that it holds: for
// tests/artifacts/make.py, which names the page and its language in the environment.

import { isDeepStrictEqual } from "node:util";
import { openPage } from "./page.js";

const page = await openPage(process.env.ARTICLE);
const { BLANK, NAMES, NUMBERS, SCENES, SECTIONS, WORDS, questions, remember, state } = page;

/** What of the state an address holds. */
const HELD = [
  ...WORDS,
  ...NUMBERS,
  ...["text", "pair", "masked", "off", "pad", "type", "sides", "special"],
];
NAMES.scene = [...SCENES.map(({ id }) => id), "end"];

const first = structuredClone({ ...state, ...BLANK() });
const addresses = [];

/** Adds the address of a state. */
async function write(set) {
  Object.assign(state, structuredClone(first), set);
  remember();
  await new Promise((resolve) => setTimeout(resolve, 160)); // it is written later
  const held = Object.fromEntries(
    HELD.filter((name) => name === "text" || !isDeepStrictEqual(state[name], first[name])).map(
      (name) => [name, state[name]],
    ),
  );
  held.scene = NAMES.scene[state.scene];
  addresses.push({ address: location.hash, state: structuredClone(held) });
}

for (const [scene, { set, act }] of SCENES.entries()) {
  await write({ ...set(), scene });
  await write({ ...set(), ...act(), scene, guess: 1 });
}
await write({ scene: SCENES.length });
for (const section of SECTIONS) {
  await write({ section });
}
for (const set of [
  { text: "Paris & Rome?", pair: "#1 = 2", masked: [1, 2], off: [[0, 1], [1]], pad: 20 },
  { section: "attention", layer: 1, head: 1, token: 2, key: 1, stage: "scores", threshold: 0.25 },
  { section: "head", view: "steps", step: 2, special: false },
  { section: "hidden", depth: 1, row: 3, theme: "dark", language: "ko" },
  { section: "compare", other: "the bank", same: "a bank", unit: "sentences", compare: "kept" },
  { guesses: "pieces.1.1.closed", explore: "yes", type: 1, sides: "left", rule: "[SEP]", part: 2 },
]) {
  await write(set);
}
for (const { id } of SCENES) {
  addresses.push({ address: `#scene=${id}`, state: { scene: id } });
}
for (const { id } of questions) {
  addresses.push({ address: `#ask=${id}`, state: { ask: id } });
}
process.stdout.write(`[\n${addresses.map((entry) => JSON.stringify(entry)).join(",\n")}\n]\n`);
