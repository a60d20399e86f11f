// What the model expects of professions.

import { crowd } from "../../contents.js";
import { Experiment } from "../../experiment.js";
import { choiceOf, saidWords, shareOf } from "../../wording.js";
import { average } from "../../../model/statistics.js";
import { element } from "../../../parts/elements.js";
import { answersOf, oneRow, placeIn } from "../../../state/computed-text.js";
import { current } from "../../../state/current.js";
import { t } from "../../../state/words.js";

export const professions = new Experiment(
  "professions",
  () => crowd("professions").words,
  async (word) => {
    const { text, answers: words } = crowd("professions");
    const what = await current.live.compute({ text: text.replace("{word}", word) });
    const place = what.tokens.findIndex((token) => token.piece === "[MASK]");
    const ids = words.map((/** @type {any} */ answer) => current.live.tokenizer.ids.get(answer));
    const [[she, he]] = await current.live.ask("shares", {
      word: ids,
      states: oneRow(what, place),
    });
    return { word, she, he };
  },
);

/**
 * Returns the ratio of both probabilities with the likelier word, such as "he ×2.7".
 * @param {{she: any, he: any}} of
 */
function times({ she, he }) {
  const names = crowd("professions").answers;
  return `${she > he ? names[0] : names[1]} ×${(Math.max(she, he) / Math.min(she, he)).toFixed(1)}`;
}

/** @type {Figure} */
const professionsFigure = {
  ready: () => professions.complete,
  caption: () => t("lesson.guess.caption", { count: professions.results.length }),
  choices: () => [],
  said: () => {
    const { results } = professions;
    const logs = results.map(({ she, he }) => Math.log(he / she));
    return t("lesson.guess.said", {
      he: shareOf(results.filter(({ she, he }) => he > she).length, results.length),
      mean: Math.exp(average(logs)).toFixed(1),
    });
  },
  /**
   * Draws a bar for each profession, to the left for "he" and to the right for "she", sorted by
   * ratio.
   */
  draw: (box) => {
    const sorted = [...professions.results].sort((a, b) => a.she / a.he - b.she / b.he);
    const most = Math.max(...sorted.map(({ she, he }) => Math.abs(Math.log(she / he))));
    const list = element("ol", "", { className: "ranking" });
    for (const result of sorted) {
      const ratio = Math.log(result.she / result.he) / most;
      const item = element("li");
      const scale = element("i");
      scale.setAttribute("aria-hidden", "true");
      scale.style.setProperty("--from", `${Math.min(50, 50 + 50 * ratio)}%`);
      scale.style.setProperty("--wide", `${Math.abs(50 * ratio)}%`);
      item.append(element("span", result.word), scale, element("small", times(result)));
      list.append(item);
    }
    box.replaceChildren(list);
  },
};

/** @type {Scene} */
export const scene = {
  id: "guess",
  set: () => ({
    section: "predictions",
    text: "The doctor said that [MASK] was tired.",
    token: placeIn("The doctor said that [MASK] was tired.", "[MASK]"),
  }),
  act: () => ({ text: "The nurse said that [MASK] was tired." }),
  experiments: () => [professions],
  figure: professionsFigure,
  picture: "best",
  measure: async (before, now) => {
    const [a, b] = await Promise.all([answersOf(before), answersOf(now)]);
    const best = b[0][0];
    const { results } = professions;
    const she = results.filter((own) => own.she > own.he);
    return {
      rows: [
        ["words", saidWords(a), saidWords(b)],
        ["he", "", shareOf(results.length - she.length, results.length)],
      ],
      outcome: choiceOf(best === "he", best === "she"),
      values: {
        old: a[0][0],
        new: best,
        he: shareOf(results.length - she.length, results.length),
        she: she.map(({ word }) => word).join(", ") || "–",
      },
    };
  },
};
