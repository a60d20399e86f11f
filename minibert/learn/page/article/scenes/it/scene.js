// What "it" stands for: attention and the answer.

import { computeOnce, crowd, example } from "../../contents.js";
import { Experiment } from "../../experiment.js";
import { hideIt, patchFigure } from "../../patching.js";
import { namedHead, pairAnyway } from "../../rows.js";
import { brief, choiceOf, saidWords, shareOf } from "../../wording.js";
import { average } from "../../../model/statistics.js";
import { answersOf, everyHead, oneRow, placeIn, placeOf } from "../../../state/computed-text.js";
import { current } from "../../../state/current.js";
import { sizes } from "../../../state/page.js";
import { state } from "../../../state/store.js";

/**
 * Returns both sentences of a pair: "it" is the first noun in one, and the second in the other.
 * @param {{text: string, words: string[]}} of
 */
const pronounTexts = ({ text, words: both }) => both.map((word) => text.replace("{}", word));

/**
 * Returns for each head how much more "it" attends to a noun than the tokens do on average.
 * @param {Computed} what
 * @param {string} noun
 */
function leads(what, noun) {
  const [query, key] = [placeOf(what, "it"), placeOf(what, noun)];
  return everyHead().map(([layer, head]) => {
    const values = what.steps.get(`layer.${layer}.attention.probabilities`);
    const everyone = average(what.tokens.map((_, from) => values.at(head, from, key)));
    return values.at(head, query, key) - everyone;
  });
}

/** For each head, how far the attention of "it" moves from the first noun to the second. */
const pronouns = new Experiment(
  "pronouns",
  () => crowd("pronouns"),
  async (pair) => {
    const runs = await Promise.all(
      pronounTexts(pair).map((text) => current.live.compute({ text })),
    );
    const [first, second] = pair.nouns.map((/** @type {any} */ noun) =>
      runs.map((what) => leads(what, noun)),
    );
    /**
     * @param {any} run
     * @param {number} i
     */
    const ahead = (run, i) => first[run][i] - second[run][i];
    return { moved: everyHead().map((_, i) => ahead(0, i) - ahead(1, i)) };
  },
);

/**
 * Returns log p(first noun) - log p(second noun) at the [MASK] in the place of "it".
 * @param {string} text
 * @param {string[]} nouns
 * @param {number[][]} off
 */
async function marginOf(text, nouns, off) {
  const what = await current.live.compute({ text: hideIt(text), off });
  const word = nouns.map((noun) => current.live.tokenizer.ids.get(noun));
  const [[a, b]] = await current.live.ask("shares", {
    word,
    states: oneRow(what, placeOf(what, "[MASK]")),
  });
  return Math.log(a) - Math.log(b);
}

/** How far the answer moves from the first noun to the second: untouched, and without each head. */
const silenced = new Experiment(
  "silenced",
  () => crowd("pronouns"),
  async (pair) => {
    const texts = pronounTexts(pair);
    /** @param {number[][]} off */
    const shift = async (off) => {
      const [a, b] = await Promise.all(texts.map((text) => marginOf(text, pair.nouns, off)));
      return a - b;
    };
    const without = [];
    for (const head of everyHead()) {
      without.push(await shift([head]));
    }
    return { whole: await shift([]), without };
  },
);

/** Returns for each head which part of the answer's shift remains without it, over all pairs. */
function remainingShift() {
  const whole = average(silenced.results.map((own) => own.whole));
  return everyHead().map((_, i) => average(silenced.results.map((own) => own.without[i])) / whole);
}

/** @param {number} i */
const nameOfHead = (i) => everyHead()[i].join(".");

/** @type {Scene} */
export const scene = {
  id: "it",
  concerns: ["layer", "head"],
  set: () => {
    const [text] = pronounTexts(crowd("pronouns")[0]);
    const [token, key] = ["it", "animal"].map((word) => placeIn(text, word));
    return { section: "attention", text, token, key, ...namedHead(example("it")) };
  },
  act: () => ({ text: pronounTexts(crowd("pronouns")[0])[1] }),
  experiments: () => [pronouns, silenced],
  figure: patchFigure,
  picture: "lines",
  measure: async (before, now) => {
    const { layer, head } = state;
    const own = layer * sizes.heads + head;
    /**
     * @param {Computed} what
     * @param {string} noun
     */
    const lead = (what, noun) => leads(what, noun)[own];
    const both = [before, now];
    /**
     * @param {Computed} what
     * @param {string} noun
     */
    const shareOn = (what, noun) =>
      what.steps
        .get(`layer.${layer}.attention.probabilities`)
        .at(head, placeOf(what, "it"), placeOf(what, noun));
    const [animal, street] = ["animal", "street"].map((noun) =>
      both.map((what) => shareOn(what, noun)),
    );
    const leading = ["animal", "street"].map((noun) => both.map((what) => lead(what, noun)));
    const hidden = await Promise.all(both.map((what) => computeOnce(hideIt(what.request.text))));
    const words = await Promise.all(hidden.map((what) => answersOf(what)));
    const followed = pronouns.results.filter(({ moved }) => moved[own] > 0).length;
    const remaining = remainingShift();
    const others = remaining.filter((_, i) => i !== own);
    const least = remaining.indexOf(Math.min(...remaining));
    /** @param {number} value */
    const percent = (value) => `${Math.round(100 * value)}%`;
    /** @param {number} which */
    const movedBy = (which) => average(pronouns.results.map(({ moved }) => moved[which]));
    return {
      rows: [
        ["share.animal", ...animal.map(brief)],
        ["share.street", ...street.map(brief)],
        ["lead.animal", ...leading[0].map(brief)],
        ["lead.street", ...leading[1].map(brief)],
        ["answer", ...words.map(saidWords)],
        ["followed", "", shareOf(followed, pronouns.results.length)],
        ["remains", "", percent(remaining[own])],
        ["remains.others", "", percent(average(others))],
        ["remains.least", "", `${percent(remaining[least])} (${nameOfHead(least)})`],
      ],
      outcome: choiceOf(street[1] > animal[1], animal[1] >= animal[0]),
      values: {
        layer,
        head,
        old: words[0][0][0],
        new: words[1][0][0],
        animal: brief(animal[0]),
        animal_now: brief(animal[1]),
        street: brief(street[0]),
        street_now: brief(street[1]),
        followed: shareOf(followed, pronouns.results.length),
        pairs: pronouns.results.length,
        moved: brief(movedBy(own)),
        remains: percent(remaining[own]),
        others: percent(average(others)),
        other: nameOfHead(least),
        least: percent(remaining[least]),
        other_moved: brief(movedBy(least)),
      },
    };
  },
  own: (before, now) => pairAnyway(scene, before, now),
};
