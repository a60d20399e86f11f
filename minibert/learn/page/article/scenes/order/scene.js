// Word order and particles.

import { Experiment } from "../../experiment.js";
import { BITES, object, sentenceVector, subject } from "../../korean.js";
import { comparedAnyway, comparedRows } from "../../rows.js";
import { choiceOf, shareOf } from "../../wording.js";
import { cosine } from "../../../model/vectors.js";
import { sizes } from "../../../state/page.js";
import { state } from "../../../state/store.js";
import { sentenceCosine } from "../../../views/compare/sentences.js";

/** Agents, patients and verbs of more sentences like BITES. */
const DEEDS = [
  ["고양이", "쥐", "쫓았다"],
  ["경찰", "기자", "불렀다"],
  ["형", "동생", "때렸다"],
  ["선생님", "학생", "칭찬했다"],
  ["아이", "엄마", "안았다"],
  ["의사", "환자", "기다렸다"],
  ["남자", "여자", "좋아한다"],
  ["배우", "감독", "싫어한다"],
  ["친구", "의사", "만났다"],
  ["토끼", "사자", "보았다"],
  ["할머니", "손자", "찾았다"],
  ["가수", "배우", "사랑한다"],
];

/** Cosines of a sentence with its other word order, and with swapped particles. */
const deeds = new Experiment(
  "deeds",
  () => DEEDS,
  async ([agent, patient, verb]) => {
    const texts = [
      `${subject(agent)} ${object(patient)} ${verb}.`,
      `${object(patient)} ${subject(agent)} ${verb}.`,
      `${subject(patient)} ${object(agent)} ${verb}.`,
    ];
    const [plain, ...others] = await Promise.all(texts.map((text) => sentenceVector(text)));
    return others.map((other) => cosine(plain, other));
  },
);

/** @type {Scene} */
export const scene = {
  id: "order",
  concerns: ["other", "same", "depth"],
  set: () => ({
    section: "compare",
    text: BITES[0],
    other: BITES[1],
    same: BITES[2],
    unit: "sentences",
    token: 1,
    depth: 0,
  }),
  act: () => ({ depth: sizes.layers }),
  experiments: () => [deeds],
  picture: "compare-layers",
  measure: async () => {
    const rows = await comparedRows(sentenceCosine);
    const { results } = deeds;
    const many = results.filter(([order, particles]) => order > particles).length;
    const [order, particles] = rows.map((/** @type {any[]} */ [, , value]) => value);
    return {
      rows: [...rows, ["many", "", shareOf(many, results.length)]],
      heads: ["h0", `h${state.depth}`],
      outcome: choiceOf(Number(order) > Number(particles), Number(particles) > Number(order)),
      values: { order, particles, many: shareOf(many, results.length) },
    };
  },
  own: () => comparedAnyway(scene, sentenceCosine),
};
