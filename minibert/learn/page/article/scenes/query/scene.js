// What query, key and value are for, in a head whose question has a name: what stands before me?

import { computeOnce } from "../../contents.js";
import { Experiment } from "../../experiment.js";
import { namedHead, pairAnyway } from "../../rows.js";
import { brief, choiceOf } from "../../wording.js";
import { average } from "../../../model/statistics.js";
import { cosine } from "../../../model/vectors.js";
import { SPECIAL, page } from "../../../state/page.js";
import { state } from "../../../state/store.js";

const PAIRS = 60; // of sentences that follow each other in the article

const PREVIOUS = { layer: 0, head: 1 }; // the head that looks at the token before, in both models

/**
 * Returns the cosines of two tokens' keys, and of their values, in one head.
 * @param {{layer: number, head: number}} of
 * @param {[Computed, number]} one a text with a place in it.
 * @param {[Computed, number]} other
 */
function cosinesIn({ layer, head }, one, other) {
  /** @param {string} name */
  const alike = (name) => {
    const [a, b] = [one, other].map(([what, place]) =>
      what.steps.get(`layer.${layer}.attention.${name}`).row(head, place),
    );
    return cosine(a, b);
  };
  return { key: alike("key"), value: alike("value") };
}

/**
 * Returns the places of a piece that a text has twice, or null.
 * @param {Computed} what
 */
function twice({ tokens }) {
  const pieces = tokens.map(({ piece }) => piece);
  const first = pieces.findIndex(
    (piece, i) => !SPECIAL.test(piece) && pieces.indexOf(piece, i + 1) > 0,
  );
  return first < 0 ? null : [first, pieces.indexOf(pieces[first], first + 1)];
}

/**
 * In the head of the scene: the share that tokens of a sentence give to the one before, and the
 * cosines of keys and values, of two words at one place in two sentences (`place`), and of one word
 * at two places in a sentence (`word`).
 */
const telling = new Experiment(
  "telling",
  () => page.lesson.sentences.slice(0, PAIRS),
  async (text, number) => {
    const own = namedHead(PREVIOUS);
    const [what, next] = await Promise.all(
      [text, page.lesson.sentences[number + 1]].map(computeOnce),
    );
    const shares = what.steps.get(`layer.${own.layer}.attention.probabilities`);
    const inside = [...what.tokens.keys()].slice(2, -1); // those with a word before them
    const different = [...what.tokens.keys()].filter(
      (i) =>
        [what, next].every(({ tokens }) => tokens[i] && !SPECIAL.test(tokens[i].piece)) &&
        what.tokens[i].piece !== next.tokens[i].piece,
    );
    const place = different[Math.floor(different.length / 2)];
    const places = twice(what);
    return {
      share: average(inside.map((i) => shares.at(own.head, i, i - 1))),
      place: place ? cosinesIn(own, [what, place], [next, place]) : null,
      word: places && cosinesIn(own, [what, places[0]], [what, places[1]]),
    };
  },
);

/**
 * Returns the scene on a head's query of one token and key of another, before and after that one is
 * another word.
 * @param {{text: string, other: string, query: number}} of
 */
const queryScene = ({ text, other, query }) => {
  /** @type {Scene} */
  const scene = {
    id: "query",
    concerns: ["layer", "head", "token", "key"],
    set: () => ({
      section: "head",
      text,
      token: query,
      key: query - 1,
      ...namedHead(PREVIOUS),
    }),
    act: () => ({ text: other }),
    experiments: () => [telling],
    amounts: () => ({ count_pairs: PAIRS }),
    picture: "film",
    measure: (before, now) => {
      const { layer, head, token, key } = state;
      const [a, b] = [before, now].map((what) =>
        what.steps.get(`layer.${layer}.attention.probabilities`).at(head, token, key),
      );
      const here = cosinesIn(state, [before, key], [now, key]);
      const { results } = telling;
      /**
       * @param {string} kind
       * @param {string} name
       */
      const mean = (kind, name) =>
        brief(average(results.filter((own) => own[kind]).map((own) => own[kind][name])));
      const share = average(results.map((own) => own.share));
      return {
        rows: [
          ["share", brief(a), brief(b)],
          ["shares", "", share.toFixed(3)],
          ["key.here", "", brief(here.key)],
          ["value.here", "", brief(here.value)],
          ["key.place", "", mean("place", "key")],
          ["value.place", "", mean("place", "value")],
          ["key.word", "", mean("word", "key")],
          ["value.word", "", mean("word", "value")],
        ],
        outcome: choiceOf(b < a / 2, here.value < 0.95),
        values: {
          old: before.tokens[key].piece,
          new: now.tokens[key].piece,
          token: now.tokens[token].piece,
          before: brief(a),
          after: brief(b),
          share: share.toFixed(3),
          pairs: results.length,
          twice: results.filter((own) => own.word).length,
          key: brief(here.key),
          value: brief(here.value),
          place_key: mean("place", "key"),
          place_value: mean("place", "value"),
          word_key: mean("word", "key"),
          word_value: mean("word", "value"),
        },
      };
    },
    own: (before, now) => pairAnyway(scene, before, now),
  };
  return scene;
};

export const english = queryScene({
  text: "The cat sat on the mat.",
  other: "The king sat on the mat.",
  query: 3,
});

export const korean = queryScene({
  text: "그는 배를 타고 섬에 갔다.",
  other: "그는 차를 타고 섬에 갔다.",
  query: 3,
});
