// A model while it learns.

import { choiceOf } from "../../wording.js";
import { page } from "../../../state/page.js";
import { state } from "../../../state/store.js";
import { t } from "../../../state/words.js";
import { questionPupil } from "../../../views/training/snapshots.js";
import { lossAt, snapshotName } from "../../../views/training/training.js";

// The most frequent English words.
const COMMON = /^(the|a|to|of|and|is|in|i|you|it|he|was|that|\p{P})$/iu;

/**
 * Returns the best words of two snapshots for the five prompts.
 * @param {any} snapshots
 */
async function answersOfPupils(snapshots) {
  const found = [];
  for (const i of snapshots) {
    found.push(
      (await questionPupil(i)).prompts.map((/** @type {any} */ { best }) => best?.[0]?.[0] ?? "–"),
    );
  }
  return found;
}

const EARLY = 2; // the snapshot that the scene asks about

/** @param {string[]} answers */
const areCommon = (answers) => answers.every((word) => COMMON.test(word));

/**
 * Returns the choice that describes a snapshot's answers.
 * @param {number} snapshot
 * @param {string[]} answers
 */
const choiceFor = (snapshot, answers) =>
  choiceOf(
    Number(lossAt(snapshot)) > 0.95 * Number(lossAt(0)),
    new Set(answers).size <= 2 || areCommon(answers),
  );

/**
 * Returns the index of the verdict on a snapshot. It says of the answers only what holds for every
 * one of them.
 * @param {number} snapshot
 * @param {string[]} answers
 */
function verdictOn(snapshot, answers) {
  const isOne = new Set(answers).size === 1;
  const isCommon = areCommon(answers);
  return choiceOf(snapshot === 0, isOne && isCommon, isOne, isCommon);
}

/** @type {Scene} */
export const scene = {
  id: "training",
  concerns: ["snapshot"],
  set: () => ({ section: "training", snapshot: 0 }),
  act: () => ({ snapshot: EARLY }),
  goesOn: ["snapshot"],
  picture: "prompts",
  measure: async () => {
    const [first, now, early] = await answersOfPupils([0, state.snapshot, EARLY]);
    const answered = [first, now];
    const different = answered.map((words) => new Set(words).size);
    return {
      rows: [
        ...page.run.prompts.map((/** @type {any} */ prompt, /** @type {number} */ i) => [
          prompt,
          answered[0][i],
          answered[1][i],
        ]),
        ["different", ...different],
        ["loss", lossAt(0), lossAt(state.snapshot)],
      ],
      heads: [0, state.snapshot].map(snapshotName),
      outcome: choiceFor(EARLY, early),
      verdict: verdictOn(state.snapshot, now),
      values: {
        step: snapshotName(state.snapshot),
        answers: t(`lesson.training.answers.${different[1] === 1 ? "one" : "some"}`, {
          different: different[1],
        }),
      },
    };
  },
  own: async () => {
    const [first, now] = await answersOfPupils([0, state.snapshot]);
    return [
      ["step", ...[0, state.snapshot].map(snapshotName)],
      ...page.run.prompts.map((/** @type {any} */ prompt, /** @type {number} */ i) => [
        prompt,
        first[i],
        now[i],
      ]),
      ["loss", lossAt(0), lossAt(state.snapshot)],
    ];
  },
};
