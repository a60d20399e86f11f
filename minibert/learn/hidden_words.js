// The scene on the B in BERT: how many masked words the model finds with context from both sides,
// from one side, or with none.

// One piece is masked in each of up to `most` sentences of the article.
const hiding = {
  most: 300,
  count: 0,
  found: { both: 0, left: 0, right: 0, none: 0 },
  still: 0, // found from both sides, and also from the left alone
  hidden: new Map(), // how often each piece was masked
  running: false,
};

/**
 * Returns the places that can be masked: whole words, or word endings that the article lists, such
 * as particles.
 */
function placesToHide(own) {
  const { pieces } = example("sides");
  const fits = pieces ? (piece) => pieces.includes(piece) : (piece) => /^\p{L}{2,}$/u.test(piece);
  return [...own.keys()].filter((i) => fits(own[i].piece) && !own[i + 1]?.piece.startsWith("##"));
}

/** Returns the place to mask, which varies from sentence to sentence. */
function placeToHide(own, number) {
  const places = placesToHide(own);
  return places[(7 * number) % places.length];
}

/**
 * Returns the best word for one place of a text with each choice of sides: {both: [word,
 * probability], ...}.
 */
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

/** Returns the sentences with a place to mask. Each sentence is tokenized once. */
function sentencesToHide() {
  hiding.sentences ??= page.lesson.sentences
    .filter((text) => placesToHide(live.tokens({ text })).length > 0)
    .slice(0, hiding.most);
  return hiding.sentences;
}
const inHidingScene = () => SCENES[state.scene]?.id === "sides";

/** Counts the sides from which the best answer was the masked piece. */
function keepHidden(piece, answers) {
  const isFound = (sides) => answers[sides][0] === piece;
  for (const sides of Object.keys(SIDES)) {
    hiding.found[sides] += Number(isFound(sides));
  }
  hiding.still += Number(isFound("both") && isFound("left"));
  hiding.hidden.set(piece, (hiding.hidden.get(piece) ?? 0) + 1);
  hiding.count += 1;
}

/**
 * Returns the piece that was masked most often, and how often. Always answering it is the baseline.
 */
const mostHidden = () => [...hiding.hidden].reduce((a, b) => (b[1] > a[1] ? b : a));

/** Masks one word of each sentence and counts how often it is found. Resumes where it stopped. */
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
    const place = placeToHide(own, hiding.count);
    const answers = await answersBySides({ text, masked: [place] }, place);
    keepHidden(own[place].piece, answers);
    if (hiding.count % 10 === 0) {
      drawLesson();
    }
  }
  hiding.running = false;
  drawLesson();
}

const SIDES_SCENE = {
  id: "sides",
  set: () => {
    const { text, key } = example("sides");
    return { section: "attention", text, token: placeIn(text, "[MASK]"), key };
  },
  amounts: () => ({ hidden_words: sentencesToHide().length }),
  act: () => {
    hideWords(); // shows its progress while the reader sees the triangle
    return { sides: "left" };
  },
  done: () => hiding.count > 0,
  progress: () => ({ running: hiding.running, part: hiding.count / sentencesToHide().length }),
  then: () => {
    if (hiding.count > 0) {
      hideWords(); // it was interrupted
    }
    return {};
  },
  measure: async (before) => {
    const place = before.tokens.findIndex((token) => token.piece === "[MASK]");
    before.bySides ??= answersBySides({ text: before.request.text }, place);
    const answers = await before.bySides;
    const { count, found } = hiding;
    const percent = (amount) => `${((100 * amount) / count).toFixed(1)}%`;
    const kept = hiding.still / Math.max(found.both, 1);
    const shares = Object.fromEntries(
      Object.keys(SIDES).map((sides) => [sides, percent(found[sides])]),
    );
    const [piece, times] = mostHidden();
    const rows = Object.keys(SIDES).map((sides) => [
      sides,
      `${answers[sides][0]} ${answers[sides][1].toFixed(2)}`,
      shares[sides],
    ]);
    if (example("sides").pieces) {
      rows.push(["always", piece, percent(times)]);
    }
    return {
      rows,
      heads: ["example", "found"],
      open: count < sentencesToHide().length,
      outcome: choiceOf(kept > 0.75, kept > 0.45),
      values: {
        count,
        ...shares,
        kept: hiding.still,
        of: found.both,
        piece,
        always: percent(times),
      },
    };
  },
};
