// The snapshots of a pre-training run, each a model that runs in the page.

import { Live } from "../../model/live.js";
import { Numbers } from "../../model/numbers.js";
import { settings } from "../../state/current.js";
import { page } from "../../state/page.js";

/**
 * Predictions and word vectors of each snapshot, as far as they have been computed.
 * @type {any[]}
 */
let known = [];

/** @type {Record<string, any>} */
const PROMPTS = {
  // The vocabulary shows in which language a model was trained.
  en: [
    "I have a [MASK].",
    "She opened the [MASK].",
    "He is a good [MASK].",
    "We went to [MASK] by train.",
    "I am not [MASK].",
  ],
  ko: [
    "영화가 정말 [MASK].",
    "나는 [MASK]을 먹었다.",
    "배우들의 [MASK]가 좋다.",
    "이 [MASK]는 재미있다.",
    "오늘은 [MASK]에 갔다.",
  ],
};

/** @type {Record<string, any>} */
const FAMILIES = {
  // Words with related meanings. Each family moves together as the model learns.
  en: [
    "he she they we",
    "father mother brother sister",
    "monday sunday morning night",
    "two three five ten",
    "eat drink sleep run",
    "red blue white black",
    "happy sad tired angry",
  ],
  ko: [
    "나 너 우리 저",
    "영화 드라마 작품 연기",
    "정말 너무 아주 매우",
    "배우 감독 작가 주인공",
    "하나 둘 셋 열",
  ],
};

/** @type {Promise<any[]> | undefined} */
let loading;

/** Returns one model for each snapshot. They are loaded once, which takes a moment. */
export const awakePupils = () => (loading ??= wakePupils());

/** Lets every snapshot answer the prompts again. */
export function forgetPrompts() {
  known = known.map((own) => ({ ...own, prompts: null }));
}

async function wakePupils() {
  const { run } = page;
  const [first, ...others] = run.snapshots;
  const own = await Live.start({ ...run, ...first }, settings);
  /** @param {any} sentences */
  const share = (sentences) =>
    sentences
      .join(" ")
      .match(/[\p{L}\p{M}]+/gu)
      .filter((/** @type {any} */ word) => own.tokenizer.ids.has(word.toLowerCase())).length /
    sentences.length;
  const language = Object.keys(FAMILIES).reduce((a, b) =>
    share(FAMILIES[b]) > share(FAMILIES[a]) ? b : a,
  );
  run.prompts ??= PROMPTS[language];
  const families = FAMILIES[language].map((/** @type {any} */ family) =>
    family.split(" ").filter((/** @type {any} */ word) => own.tokenizer.ids.has(word)),
  );
  run.words = families
    .flatMap((/** @type {any} */ family, /** @type {number} */ i) =>
      family.map((/** @type {any} */ word) => [word, i]),
    )
    .slice(0, run.max_tokens);
  const pupils = [
    own,
    ...others.map((/** @type {any} */ weights) => own.with({ ...run, ...weights })),
  ];
  known = pupils.map(() => ({}));
  return pupils;
}

/**
 * Returns a snapshot's predictions for every prompt and its word vectors.
 * @param {number} i
 */
export async function questionPupil(i) {
  const pupil = (await awakePupils())[i];
  const own = known[i];
  const { words, prompts } = page.run;
  own.vectors ??= pupil
    .ask("run", {
      ids: words.map((/** @type {any[]} */ [word]) => pupil.tokenizer.ids.get(word)),
      types: words.map(() => 0),
      mask: words.map(() => 1),
    })
    .then((/** @type {any} */ steps) => new Numbers(steps.get("embeddings.word")));
  own.prompts ??= Promise.all(
    prompts.map(async (/** @type {any} */ text) => {
      try {
        const found = await pupil.compute({ text });
        const place = found.tokens.findIndex(
          (/** @type {any} */ token) => token.piece === "[MASK]",
        );
        const states = found.steps.get(`layer.${page.run.config.num_hidden_layers - 1}.output`);
        const best =
          place < 0
            ? []
            : (
                await pupil.words({
                  shape: [1, states.shape[1]],
                  data: Float32Array.from(states.row(place)),
                })
              )[0];
        return { ...found, best };
      } catch (error) {
        return { error: /** @type {any} */ (error).message };
      }
    }),
  );
  return { of: i, prompts: await own.prompts, vectors: await own.vectors };
}
