// Ambiguous Korean words.

import { Experiment } from "../../experiment.js";
import { ownComparison } from "../../rows.js";
import { choiceOf, shareOf } from "../../wording.js";
import { average } from "../../../model/statistics.js";
import { cosine } from "../../../model/vectors.js";
import { placeIn, placeOf } from "../../../state/computed-text.js";
import { current, hiddenState } from "../../../state/current.js";
import { sizes } from "../../../state/page.js";

/** Ambiguous words, each with sentences for both of its senses. */
export const SENSES = [
  [
    "배를",
    [
      "그는 배를 타고 섬으로 갔다.",
      "어부들이 배를 타고 바다로 나갔다.",
      "사람들이 배를 저어 강을 건넜다.",
      "우리는 배를 타고 여행했다.",
      "항구에서 배를 기다렸다.",
      "선장이 배를 몰고 떠났다.",
      "폭풍이 배를 뒤집었다.",
      "부두에 배를 세워 두었다.",
      "낚시꾼이 배를 빌렸다.",
      "멀리 지나가는 배를 보았다.",
    ],
    [
      "그는 배를 깎아서 먹었다.",
      "아이들이 배를 깎아서 먹었다.",
      "할머니가 달콤한 배를 주셨다.",
      "시장에서 배를 세 개 샀다.",
      "사과와 배를 접시에 담았다.",
      "가을에는 배를 따서 판다.",
      "잘 익은 배를 골랐다.",
      "배를 갈아서 고기에 넣었다.",
      "냉장고에서 배를 꺼냈다.",
      "후식으로 배를 먹었다.",
    ],
  ],
  [
    "눈이",
    [
      "밤새 눈이 많이 내렸다.",
      "산에 하얀 눈이 쌓였다.",
      "겨울에는 눈이 자주 온다.",
      "길에 눈이 녹았다.",
      "창밖에 눈이 내린다.",
      "어제 첫 눈이 왔다.",
      "지붕 위의 눈이 얼었다.",
      "내일은 눈이 그친다.",
      "마당에 눈이 가득하다.",
      "바람과 함께 눈이 날렸다.",
    ],
    [
      "오늘은 눈이 많이 아프다.",
      "아이의 맑은 눈이 예쁘다.",
      "어두워서 눈이 잘 안 보인다.",
      "그녀는 눈이 크다.",
      "울어서 눈이 부었다.",
      "졸려서 눈이 감긴다.",
      "책을 오래 봐서 눈이 피곤하다.",
      "고양이는 눈이 파랗다.",
      "안경을 벗으니 눈이 흐리다.",
      "먼지가 들어가서 눈이 따갑다.",
    ],
  ],
  [
    "말을",
    [
      "그는 말을 타고 달렸다.",
      "농부가 말을 돌본다.",
      "목장에서 말을 키운다.",
      "기수가 말을 몰았다.",
      "우리는 제주도에서 말을 탔다.",
      "들판에서 말을 보았다.",
      "마차에 말을 매었다.",
      "아이가 말을 쓰다듬었다.",
      "장군이 말을 세웠다.",
      "하얀 말을 한 마리 샀다.",
    ],
    [
      "그는 말을 하지 않았다.",
      "친구가 말을 걸었다.",
      "회의에서 말을 아꼈다.",
      "아이가 말을 배운다.",
      "우리는 전화로 말을 했다.",
      "선생님의 말을 들었다.",
      "갑자기 말을 멈추었다.",
      "나쁜 말을 하면 안 된다.",
      "그녀는 말을 빨리 한다.",
      "어려운 말을 쉽게 풀었다.",
    ],
  ],
];

/**
 * Returns the states of a word in the sentences of its two senses: [sense][sentence][depth].
 * @param {any[]} of
 */
async function statesOfSenses([word, ...senses]) {
  const found = [];
  for (const texts of senses) {
    const own = [];
    for (const text of texts) {
      const what = await current.live.compute({ text });
      const place = placeOf(what, word);
      own.push(Array.from({ length: sizes.layers + 1 }, (_, d) => hiddenState(d, what).row(place)));
    }
    found.push(own);
  }
  return found;
}

/**
 * Counts the sentences in which a word is closer, on average, to its own sense than to the other.
 * @param {number[][][][]} senses
 * @param {number} depth
 */
function nearerToOwnSense(senses, depth) {
  let nearer = 0;
  senses.forEach((own, s) => {
    own.forEach((states) => {
      /** @param {any[]} others */
      const alike = (others) =>
        average(others.filter((it) => it !== states).map((it) => cosine(it[depth], states[depth])));
      nearer += alike(own) > alike(senses[1 - s]) ? 1 : 0;
    });
  });
  return nearer;
}

/** For each ambiguous word, how many of its sentences are nearer to their own sense, by depth. */
export const ownSenses = new Experiment(
  "own senses",
  () => SENSES,
  async (word) => {
    const states = await statesOfSenses(word);
    return Array.from({ length: sizes.layers + 1 }, (_, depth) => nearerToOwnSense(states, depth));
  },
);

const SIGNIFICANT = 15; // of 20 sentences, which a coin reaches in 2 of 100 tries

/** @type {Scene} */
export const scene = {
  id: "senses",
  concerns: ["other", "same", "depth"],
  set: () => ({
    section: "compare",
    text: SENSES[0][1][0],
    other: SENSES[0][2][0],
    same: SENSES[0][1][3],
    token: placeIn(SENSES[0][1][0], "배를"),
    depth: 0,
  }),
  act: () => ({ depth: sizes.layers }),
  experiments: () => [ownSenses],
  picture: "compare-layers",
  measure: () => {
    const total = 2 * SENSES[0][1].length;
    const last = ownSenses.results.map((depths) => depths.at(-1));
    const nouns = SENSES.map(([word]) => word.slice(0, -1));
    /** @param {any} keepsApart */
    const list = (keepsApart) =>
      nouns
        .map((noun, i) => [noun, last[i]])
        .filter(([, count]) => count >= SIGNIFICANT === keepsApart)
        .map(([noun, count]) => `${noun} ${count}`)
        .join(", ");
    return {
      rows: SENSES.map(([word], i) => [
        word,
        shareOf(ownSenses.results[i][0], total),
        shareOf(last[i], total),
      ]),
      heads: ["h0", `h${sizes.layers}`],
      outcome: choiceOf(
        last.every((count) => count >= SIGNIFICANT),
        last.some((count) => count >= SIGNIFICANT),
      ),
      values: {
        depth: sizes.layers,
        apart: list(true),
        mixed: list(false),
        least: SIGNIFICANT,
        total,
      },
    };
  },
  own: () => ownComparison(scene),
};
