// Spaces in Korean.

import { sentenceVector } from "../../korean.js";
import { brief, choiceOf } from "../../wording.js";
import { cosine } from "../../../model/vectors.js";
import { inner, meanState } from "../../../state/computed-text.js";
import { sizes } from "../../../state/page.js";

const FATHERS = ["아버지가 방에 들어가신다.", "아버지 가방에 들어가신다."];

/** @type {Scene} */
export const scene = {
  id: "spaces",
  set: () => ({ section: "text", text: FATHERS[0], token: 1 }),
  act: () => ({ text: FATHERS[0].replaceAll(" ", "") }),
  measure: async (before, now) => {
    const readings = await Promise.all(FATHERS.map((text) => sentenceVector(text)));
    /** @param {Computed} what */
    const alike = (what) =>
      readings.map((reading) => brief(cosine(reading, meanState(what, sizes.layers))));
    const [a, b] = [before, now].map(alike);
    return {
      rows: [
        ["pieces", inner(before).join(" · "), inner(now).join(" · ")],
        ["room", a[0], b[0]],
        ["bag", a[1], b[1]],
      ],
      outcome: choiceOf(Number(b[0]) > Number(b[1]), Number(b[1]) > Number(b[0])),
      values: {
        pieces: inner(now)
          .join(" ")
          .replace(/ \p{P}+$/u, ""),
        room: b[0],
        bag: b[1],
      },
    };
  },
};
