// What a model learned from film reviews.

import { Experiment } from "../../experiment.js";
import { maskedStates, topic } from "../../korean.js";
import { choiceOf, saidWords, shareOf } from "../../wording.js";
import { answersOf, placeIn } from "../../../state/computed-text.js";
import { current } from "../../../state/current.js";

/** Subjects of a sentence about being good at something. Film reviews suggest acting. */
const PEOPLE = [
  "선생님",
  "의사",
  "학생",
  "친구",
  "동생",
  "엄마",
  "아빠",
  "할머니",
  "누나",
  "기자",
  "가수",
  "요리사",
  "경찰",
  "간호사",
  "화가",
  "농부",
  "운전사",
  "회사원",
  "아이",
  "아저씨",
];

/** The best prediction of what a person is good at. */
const talents = new Experiment(
  "talents",
  () => PEOPLE,
  async (person) => {
    const states = await maskedStates([`${topic(person)} [MASK]를 잘한다.`]);
    const [[[word]]] = await current.live.words(states);
    return word;
  },
);

/** @type {Scene} */
export const scene = {
  id: "reviews",
  set: () => {
    const text = "그 배우는 [MASK]를 잘한다.";
    return { section: "predictions", text, token: placeIn(text, "[MASK]") };
  },
  act: () => {
    const text = "선생님은 [MASK]를 잘한다.";
    return { text, token: placeIn(text, "[MASK]") };
  },
  experiments: () => [talents],
  picture: "best",
  measure: async (before, now) => {
    const acting = talents.results.filter((word) => word === "연기").length;
    const [a, b] = await Promise.all([answersOf(before), answersOf(now)]);
    return {
      rows: [
        ["words", saidWords(a), saidWords(b)],
        ["acting", "", shareOf(acting, PEOPLE.length)],
      ],
      outcome: choiceOf(b[0][0] === "영어", b[0][0] === "연기"),
      values: { said: b[0][0], acting: shareOf(acting, PEOPLE.length) },
    };
  },
};
