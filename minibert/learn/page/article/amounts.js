// The values that the texts of scenes mention.

import { SCENES } from "./order.js";
import { page, sizes } from "../state/page.js";
import { state } from "../state/store.js";

/** Returns the values that the texts of scenes mention. */
export function amounts() {
  /** @type {Record<string, any>} */
  const all = {
    count: page.lesson.sentences.length,
    name: page.name,
    maps: sizes.layers * sizes.heads,
    ...SCENES[state.scene]?.amounts?.(),
  };
  for (const [name, size] of Object.entries(sizes)) {
    all[name] = size.toLocaleString("en");
  }
  for (const [i, { id }] of SCENES.entries()) {
    all[`scene_${id}`] = i + 1; // for texts that refer to another scene
  }
  return all;
}
