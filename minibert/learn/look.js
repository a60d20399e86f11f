// Analyses of the current text: rollout, the patterns of heads, cosines, and the plane of principal
// components. minibert.study has the same functions under the same names. Results are cached with
// the text.

/** Computes a result once for each text shown. */
function once(name, find) {
  shown.found ??= new Map();
  if (!shown.found.has(name)) {
    shown.found.set(name, find());
  }
  return shown.found.get(name);
}

/**
 * Returns how much of each token reaches each token up to a layer: the product of (A + I) / 2
 * (Abnar and Zuidema 2020).
 */
function rollout(layer) {
  return once(`rollout.${layer}`, () => {
    const before = layer ? rollout(layer - 1) : null;
    const { heads } = sizes;
    const probabilities = attention(layer, "probabilities");
    const mixed = Array.from({ length: count * count }, (_, at) => {
      const q = Math.floor(at / count);
      const k = at % count;
      let sum = 0;
      for (let h = 0; h < heads; h++) {
        sum += probabilities.at(h, q, k);
      }
      return (sum / heads + (q === k ? 1 : 0)) / 2;
    });
    const data = before ? new Float32Array(count * count) : Float32Array.from(mixed);
    if (before) {
      for (let q = 0; q < count; q++) {
        for (let j = 0; j < count; j++) {
          for (let k = 0; k < count; k++) {
            data[q * count + k] += mixed[q * count + j] * before.data[j * count + k];
          }
        }
      }
    }
    return new Numbers({ shape: [count, count], data });
  });
}

const SCRIPTS = { Hangul: "Hangul", Han: "Chinese", Hiragana: "Japanese", Katakana: "Japanese" };
for (const name of ["Cyrillic", "Greek", "Arabic", "Hebrew", "Thai", "Devanagari", "Latin"]) {
  SCRIPTS[name] = name;
}
const MIN_PIECES = 4; // a text of one or two letters says nothing about coverage

/** Returns for every character of a text whether its word has a character beyond ASCII. */
const inForeignWord = (text) =>
  text.split(/(\s+)/u).flatMap((part) => {
    const chars = Array.from(part);
    return chars.map(() => chars.some((char) => char > "\u007f"));
  });

/**
 * Returns a warning if most of a text becomes single letters or unknown pieces, as
 * minibert.tokenization.coverage does.
 */
function coverage(text, which) {
  const isForeign = inForeignWord(text);
  const pieces = tokens.filter(
    (token) =>
      token.type === which &&
      isForeign[token.start] &&
      (token.piece === "[UNK]" || !SPECIAL.test(token.piece)),
  );
  const unknown = pieces.filter((token) => token.piece === "[UNK]").length;
  const letters = pieces.filter((token) => /^\p{L}$/u.test(token.piece.replace(/^##/, ""))).length;
  const foreign = Array.from(text).filter((char) => char > "\u007f");
  if (!foreign.length) {
    return "";
  }
  if (2 * unknown > pieces.length) {
    return t("coverage.unknown", { unknown, count: pieces.length, token: "[UNK]" });
  }
  // Half of the pieces of ordinary Korean are single syllables.
  if (pieces.length < MIN_PIECES || 4 * letters <= 3 * pieces.length) {
    return "";
  }
  const counts = Object.keys(SCRIPTS).map((name) => [
    name,
    foreign.filter((char) => RegExp(`\\p{Script=${name}}`, "u").test(char)).length,
  ]);
  const [script] = counts.reduce((best, next) => (next[1] > best[1] ? next : best));
  const said = t("coverage.letters", {
    letters,
    count: pieces.length,
    script: t(`script.${SCRIPTS[script]}`),
  });
  return script === "Hangul" && page.source !== "minibert-ko"
    ? `${said} ${t("coverage.korean")}`
    : said;
}

/**
 * Returns the indices of words, and for each pattern the keys that a query at index i would attend
 * to.
 */
function patternRules(own) {
  const places = (keep) => own.map((_, i) => i).filter((i) => keep(own[i].piece));
  const real = places((name) => !/^\[(CLS|SEP|PAD)\]$/.test(name));
  const where = (wanted) => () => places((name) => name === wanted);
  const rules = {
    previous: (i) => (i > 0 ? [i - 1] : []),
    next: (i) => (i + 1 < own.length ? [i + 1] : []),
    itself: (i) => [i],
    "[CLS]": where("[CLS]"),
    "[SEP]": where("[SEP]"),
    same: (i) => real.filter((j) => j !== i && own[j].piece === own[i].piece),
  };
  return { real, rules };
}

/**
 * Returns the mean share of attention that a head gives to the keys of a rule. Words without such a
 * key do not count. Without any such word, the share is null.
 */
function patternShare(values, head, real, rule) {
  const pairs = real.map((i) => [i, rule(i)]).filter(([, keys]) => keys.length);
  const sum = pairs.reduce(
    (sum, [i, keys]) => sum + keys.reduce((own, j) => own + values.at(head, i, j), 0),
    0,
  );
  return pairs.length ? sum / pairs.length : null;
}

const wordPlaces = () => patternRules(tokens).real;

/**
 * Returns what a head does on this text (Clark et al. 2019): {name, share}. The name is null if no
 * pattern takes half of its attention.
 */
function pattern(layer, head) {
  return once(`pattern.${layer}.${head}`, () => {
    const { real, rules } = patternRules(tokens);
    const visible = tokens.map((_, i) => i).filter((i) => piece(i) !== "[PAD]");
    if (!real.length) {
      return { name: null, share: 0 };
    }
    const values = attention(layer, "probabilities");
    let best = { name: null, share: -1 };
    let entropy = 0;
    for (const [name, rule] of Object.entries(rules)) {
      const share = patternShare(values, head, real, rule);
      if (share !== null && share > best.share) {
        best = { name, share };
      }
    }
    for (const i of real) {
      for (const p of values.row(head, i)) {
        if (p > 0) {
          entropy -= (p * Math.log(p)) / real.length;
        }
      }
    }
    entropy /= Math.log(visible.length);
    if (entropy > 0.95 && visible.length > 3) {
      return { name: "even", share: entropy };
    }
    return best.share >= 0.5 ? best : { ...best, name: null };
  });
}

/**
 * Returns the head with the sharpest attention between words, preferably one without a fixed
 * pattern. The page opens with it.
 */
function interestingHead() {
  let best = { layer: 0, head: 0, token: Math.min(1, count - 1), key: 0, most: -1 };
  const real = wordPlaces().filter((i) => /[\p{L}\p{N}]/u.test(piece(i)));
  for (let layer = 0; layer < sizes.layers; layer++) {
    for (let head = 0; head < sizes.heads; head++) {
      const values = attention(layer, "probabilities");
      const fixed = pattern(layer, head).name !== null ? 0.5 : 1;
      let sum = 0;
      let top = { p: -1 };
      for (const q of real) {
        let most = 0;
        for (const k of real) {
          const p = values.at(head, q, k);
          if (Math.abs(q - k) < 2) {
            continue;
          }
          most = Math.max(most, p);
          if (p > top.p) {
            top = { p, q, k };
          }
        }
        sum += most / real.length;
      }
      if (top.p >= 0 && sum * fixed > best.most) {
        best = { layer, head, token: top.q, key: top.k, most: sum * fixed };
      }
    }
  }
  return best;
}

function cosine(a, b) {
  let dot = 0;
  let aa = 0;
  let bb = 0;
  for (let i = 0; i < a.length; i++) {
    dot += a[i] * b[i];
    aa += a[i] * a[i];
    bb += b[i] * b[i];
  }
  return dot / Math.sqrt(aa * bb || 1);
}

/**
 * Returns the cosine of each token's state after each layer with the state before that layer
 * ("moved") or with the embeddings ("kept"): (layers, seq).
 */
function cosines(kind) {
  return once(kind, () => {
    const data = new Float32Array(sizes.layers * count);
    for (let layer = 0; layer < sizes.layers; layer++) {
      for (let i = 0; i < count; i++) {
        data[layer * count + i] = cosine(
          hiddenState(layer + 1).row(i),
          hiddenState(kind === "moved" ? layer : 0).row(i),
        );
      }
    }
    return new Numbers({ shape: [sizes.layers, count], data });
  });
}

/** Subtracts the mean from rows. */
function centered(rows) {
  const mean = rows[0].map((_, c) => rows.reduce((sum, row) => sum + row[c], 0) / rows.length);
  return rows.map((row) => row.map((value, c) => value - mean[c]));
}

/** Returns the first two principal components of centered rows, by power iteration. */
function principalAxes(rows) {
  const axes = [];
  for (let a = 0; a < 2; a++) {
    let axis = rows[0].map((_, c) => Math.sin((c + 1) * (a + 1)));
    for (let turn = 0; turn < 40; turn++) {
      const next = new Array(axis.length).fill(0);
      for (const row of rows) {
        let dot = 0;
        for (let c = 0; c < row.length; c++) {
          dot += row[c] * axis[c];
        }
        for (let c = 0; c < row.length; c++) {
          next[c] += dot * row[c];
        }
      }
      for (const other of axes) {
        const along = next.reduce((sum, value, c) => sum + value * other[c], 0);
        for (let c = 0; c < next.length; c++) {
          next[c] -= along * other[c];
        }
      }
      const length = Math.hypot(...next) || 1;
      axis = next.map((value) => value / length);
    }
    axes.push(axis);
  }
  return axes;
}

/**
 * Projects lists of centered rows on two axes and scales them together to fill the plane. Each row
 * becomes [x, y] from -1 to 1.
 */
function onPlane(lists, axes) {
  const points = lists.map((rows) =>
    rows.map((row) => axes.map((axis) => row.reduce((sum, value, c) => sum + value * axis[c], 0))),
  );
  const most = [0, 1].map((a) =>
    points.flat().reduce((most, point) => Math.max(most, Math.abs(point[a])), 1e-9),
  );
  return points.map((list) => list.map((point) => point.map((value, a) => value / most[a])));
}

/**
 * Returns two principal components of all states, with the mean of each layer subtracted:
 * places[depth][token] = [x, y].
 */
function places() {
  return once("places", () => {
    const states = Array.from({ length: sizes.layers + 1 }, (_, depth) =>
      centered(tokens.map((_, i) => hiddenState(depth).row(i))),
    );
    return onPlane(states, principalAxes(states.flat()));
  });
}
