// Final consonants choose the particle.

import { Experiment } from "../../experiment.js";
import { endsInConsonant, maskedStates, sharesOf } from "../../korean.js";
import { brief, choiceOf, shareOf } from "../../wording.js";
import { oneRow, placeIn, placeOf } from "../../../state/computed-text.js";

/** Common nouns and rarely written syllables. Half of each end in a consonant (받침). */
const NOUNS = [
  ..."책 밥 집 물 빵 꽃 가방 음식 병원 동생 신문 학생".split(" "),
  ..."사과 우유 고기 커피 친구 의사 학교 바다 노래 영화 시계 아버지".split(" "),
];

const RARE = [
  ..."갂 갢 갵 걵 곃 굑 궉 깩 껰 꿱 끤 냦".split(" "),
  ..."놰 뎨 듸 땨 뗘 뙈 뙤 뚀 뜌 뢔 먜 뭬".split(" "),
];

/** Whether the model predicts the right particle after a word: 을 after a consonant, else 를. */
const particlesAfter = new Experiment(
  "particles",
  () => [...NOUNS, ...RARE],
  async (word) => {
    const states = await maskedStates([`나는 ${word}[MASK] 읽었다.`]);
    const [[afterConsonant], [afterVowel]] = await sharesOf(states, ["##을", "##를"]);
    return afterConsonant > afterVowel === endsInConsonant(word);
  },
);

/**
 * Counts the right particles after some words: [after a consonant, after a vowel].
 * @param {string[]} words
 */
function rightParticles(words) {
  const items = particlesAfter.items();
  const right = words.filter((word) => particlesAfter.results[items.indexOf(word)]);
  return [true, false].map((kind) => right.filter((word) => endsInConsonant(word) === kind).length);
}

/**
 * Returns the probabilities of 을 and 를 at the [MASK] of a computed text.
 * @param {Computed} what
 */
async function bothParticles(what) {
  const shares = await sharesOf(oneRow(what, placeOf(what, "[MASK]")), ["##을", "##를"]);
  return shares.map(([share]) => share);
}

/** @type {Scene} */
export const scene = {
  id: "batchim",
  set: () => {
    const text = "나는 책[MASK] 읽었다.";
    return { section: "predictions", text, token: placeIn(text, "[MASK]") };
  },
  act: () => ({ text: "나는 뙤[MASK] 읽었다." }),
  experiments: () => [particlesAfter],
  picture: "best",
  measure: async (before, now) => {
    const [nouns, rare] = [NOUNS, RARE].map(rightParticles);
    const half = NOUNS.length / 2;
    const [old, [consonant, vowel]] = await Promise.all([before, now].map(bothParticles));
    return {
      rows: [
        ["##을", ...[old[0], consonant].map(brief)],
        ["##를", ...[old[1], vowel].map(brief)],
        ["nouns", ...nouns.map((right) => shareOf(right, half))],
        ["rare", ...rare.map((right) => shareOf(right, half))],
      ],
      outcome: choiceOf(vowel > consonant, true),
      values: {
        nouns: shareOf(nouns[0] + nouns[1], NOUNS.length),
        consonant: shareOf(rare[0], half),
        vowel: shareOf(rare[1], half),
      },
    };
  },
  own: async (before, now) => {
    const both = [before, now];
    const shares = await Promise.all(
      both.map(async (what) => (placeOf(what, "[MASK]") < 0 ? null : bothParticles(what))),
    );
    return ["##을", "##를"].map((name, i) => [
      name,
      ...shares.map((own) => (own ? brief(own[i]) : "–")),
    ]);
  },
};
