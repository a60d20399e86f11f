// The scene on the B in BERT: how many hidden words are found from both sides, from one side, and from nobody.

// one piece each is hidden in `most` of the article's sentences
const hiding = {
  most: 300,
  count: 0,
  found: { both: 0, left: 0, right: 0, none: 0 },
  still: 0, // found from both sides, and from the left alone, too
  hidden: new Map(), // how often each piece was hidden
  running: false,
};

/** Where a sentence has something to hide: a whole word, or the end of a word that the article names, such as a particle. */
function placesToHide(own) {
  const { pieces } = example("sides");
  const fits = pieces ? (piece) => pieces.includes(piece) : (piece) => /^\p{L}{2,}$/u.test(piece);
  return [...own.keys()].filter((i) => fits(own[i].piece) && !own[i + 1]?.piece.startsWith("##"));
}

/** The place that is hidden: another one in each sentence. */
function placeToHide(own, number) {
  const places = placesToHide(own);
  return places[(7 * number) % places.length];
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

/** The sentences that have something to hide; of every sentence the tokenizer is asked once. */
function sentencesToHide() {
  hiding.sentences ??= page.lesson.sentences
    .filter((text) => placesToHide(live.tokens({ text })).length > 0)
    .slice(0, hiding.most);
  return hiding.sentences;
}
const inHidingScene = () => SCENES[state.scene]?.id === "sides";

/** Counts for which sides the best answer was the piece that was hidden. */
function keepHidden(piece, answers) {
  const isFound = (sides) => answers[sides][0] === piece;
  for (const sides of Object.keys(SIDES)) {
    hiding.found[sides] += Number(isFound(sides));
  }
  hiding.still += Number(isFound("both") && isFound("left"));
  hiding.hidden.set(piece, (hiding.hidden.get(piece) ?? 0) + 1);
  hiding.count += 1;
}

/** The piece that was hidden most often, and how often: what one could answer without reading. */
const mostHidden = () => [...hiding.hidden].reduce((a, b) => (b[1] > a[1] ? b : a));

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
