// A well-known ambiguous word in each language.

import { current } from "../../state/current.js";
import { state } from "../../state/store.js";

/** @type {Record<string, any>} */
export const EXAMPLES = {
  // A well-known ambiguous word: in one sense, in another, and again in the first. It stands in the
  // same place of texts of the same length, so that its h0 is the same in all of them.
  en: [
    "bank",
    "he walked along the bank of the river",
    "he worked for the bank in the city",
    "they stood on the bank of the river",
  ],
  ko: [
    "배를",
    "사람들이 배를 타고 바다로 나갔다",
    "아이들이 배를 접시에 담아 먹었다",
    "아이들이 배를 타고 바다로 나갔다",
  ],
};

/** Returns the language of the example: the reader's, if the model has a piece for its word. */
export const exampleLanguage = () =>
  [state.language, "en", "ko"].find((name) => current.live.tokenizer.ids.has(EXAMPLES[name][0])) ??
  "en";
