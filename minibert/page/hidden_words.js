// The scene on the B in BERT: how many hidden words are found from both sides, from one side, and from nobody.

// one word each is hidden in `most` of the article's sentences
const hiding = {
  most: 300,
  count: 0,
  found: { both: 0, left: 0, right: 0, none: 0 },
  running: false,
};

/** A whole word to hide in a sentence, another place in each sentence; -1 where there is none. */
function wordToHide(own, number) {
  const whole = own
    .map((_, i) => i)
    .filter((i) => /^\p{L}{2,}$/u.test(own[i].piece) && !own[i + 1]?.piece.startsWith("##"));
  return whole.length ? whole[(7 * number) % whole.length] : -1;
}

/** The best words for one place of a text, for each choice of sides: {both: [word, probability], ...}. */
async function answersBySides(request, place) {
  const names = Object.keys(SIDES);
  const states = new Float32Array(names.length * sizes.hidden);
  for (const [row, sides] of names.entries()) {
    const what = await live.compute({ ...request, sides });
    states.set(hiddenState(sizes.layers, what).row(place), row * sizes.hidden);
  }
  const best = await live.words({ shape: [names.length, sizes.hidden], data: states });
  return Object.fromEntries(names.map((sides, row) => [sides, best[row][0]]));
}

const sentencesToHide = () => page.lesson.sentences.slice(0, hiding.most);
const inHidingScene = () => SCENES[state.scene]?.id === "sides";

/** Hides one word of each sentence and counts how often it is found; goes on where it was left. */
async function hideWords() {
  if (hiding.running) {
    return;
  }
  hiding.running = true;
  for (const text of sentencesToHide().slice(hiding.count)) {
    if (!inHidingScene()) {
      break;
    }
    const own = live.tokens({ text });
    const place = wordToHide(own, hiding.count);
    if (place >= 0) {
      const answers = await answersBySides({ text, masked: [place] }, place);
      for (const [sides, [word]] of Object.entries(answers)) {
        hiding.found[sides] += Number(word === own[place].piece);
      }
    }
    hiding.count += 1;
    if (hiding.count % 10 === 0) {
      drawLesson();
    }
  }
  hiding.running = false;
  drawLesson();
}

const SHINING = "The [MASK] is shining in the sky today.";

const SIDES_SCENE = {
  id: "sides",
  set: () => ({ section: "attention", text: SHINING, token: placeIn(SHINING, "[MASK]"), key: 3 }),
  amounts: () => ({ hidden_words: sentencesToHide().length }),
  act: () => {
    hideWords(); // its progress is shown while the reader sees the triangle
    return { sides: "left" };
  },
  done: () => hiding.count > 0,
  progress: () => ({ running: hiding.running, part: hiding.count / sentencesToHide().length }),
  then: () => {
    if (hiding.count > 0) {
      hideWords(); // it was left before its end
    }
    return {};
  },
  measure: async (before) => {
    const place = before.tokens.findIndex((token) => token.piece === "[MASK]");
    before.bySides ??= answersBySides({ text: before.request.text }, place);
    const example = await before.bySides;
    const { count, found } = hiding;
    const share = (sides) => `${((100 * found[sides]) / count).toFixed(1)}%`;
    const kept = found.left / Math.max(found.both, 1);
    const shares = Object.fromEntries(Object.keys(SIDES).map((sides) => [sides, share(sides)]));
    return {
      rows: Object.keys(SIDES).map((sides) => [
        sides,
        `${example[sides][0]} ${example[sides][1].toFixed(2)}`,
        shares[sides],
      ]),
      heads: ["example", "found"],
      open: count < sentencesToHide().length,
      outcome: choiceOf(kept > 0.75, kept > 0.45),
      values: { count, ...shares },
    };
  },
};
