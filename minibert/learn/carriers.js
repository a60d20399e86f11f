// Finds what carries the difference between two texts. Patching shows where it crosses from one
// token to another. Attention suggests which heads bring it there. Switching these off, compared
// with random heads, tests that. minibert.study.carriers does the same in Python.

const CUT = 5; // number of heads that are switched off together
const REACH = 3; // number of layers whose heads are ranked
const DRAWS = 20; // random sets of heads for one press of the button

// ---------------------------------------------------------------- the map of states

/** Returns an empty map of two texts. `cells[layer][token]` will hold the results of patching. */
const blankMap = (key, requests) => ({
  key,
  requests,
  texts: null,
  word: "",
  cells: [],
  chosen: null,
  wire: null,
});

/**
 * Runs the first text from a layer on, with one state replaced by that of the second text. Both
 * texts have the same length.
 */
async function patchedText({ texts: [first, second] }, layer, token) {
  const { shape, data } = hiddenState(layer + 1, first);
  const states = { shape, data: data.slice() };
  states.data.set(hiddenState(layer + 1, second).row(token), token * shape[1]);
  return live.compute({ ...first.request, from: layer + 1, states });
}

/** Returns the probability of the map's word at its place in each of several runs. */
const likely = (map, all) =>
  live.ask("shares", {
    word: map.id,
    states: {
      shape: [all.length, sizes.hidden],
      data: Float32Array.from(
        all.flatMap((what) => hiddenState(sizes.layers, what).row(map.place)),
      ),
    },
  });

/**
 * Measures the probability of the first answer with each state of the second text, while
 * `wanted()`.
 */
async function fillMap(map, wanted, draw) {
  const texts = await Promise.all(map.requests.map((request) => live.compute(request)));
  if (texts[0].tokens.length !== texts[1].tokens.length) {
    return;
  }
  const place = texts[0].tokens.findIndex((token) => token.piece === "[MASK]");
  const [[word]] = await answersOf(texts[0]);
  Object.assign(map, { texts, word, place, id: live.tokenizer.ids.get(word) });
  map.plain = await likely(map, texts);
  for (let layer = 0; layer < sizes.layers && wanted(); layer++) {
    const row = [];
    for (let token = 0; token < texts[0].tokens.length && wanted(); token++) {
      row.push(await patchedText(map, layer, token));
    }
    if (wanted()) {
      map.cells[layer] = await likely(map, row);
    }
    draw();
  }
}

// ---------------------------------------------------------------- the heads

/**
 * Returns where the difference crosses, and the heads that attend from there to the changed tokens.
 * Null until the map is complete.
 */
function wireOf(map) {
  if (!map.texts || !map.plain || map.cells.length < sizes.layers) {
    return null;
  }
  map.wire ??= findWire(map);
  return map.wire;
}

function findWire({ texts, cells, plain }) {
  const [first, second] = texts.map((what) => what.tokens);
  const changed = second.map((_, i) => i).filter((i) => first[i].piece !== second[i].piece);
  const toward = Math.sign(plain[1] - plain[0]);
  let best = { most: -Infinity, layer: 0, place: 0 };
  for (let layer = 0; layer < sizes.layers; layer++) {
    for (let place = 0; place < second.length; place++) {
      const before = layer ? cells[layer - 1][place] : plain[0];
      const most = toward * (cells[layer][place] - before);
      if (!changed.includes(place) && most > best.most) {
        best = { most, layer, place };
      }
    }
  }
  const from = Math.max(0, Math.min(best.layer, sizes.layers - REACH));
  const ranked = everyHead()
    .filter(([layer]) => layer >= from && layer < from + REACH)
    .map(([layer, head]) => {
      const values = texts[1].steps.get(`layer.${layer}.attention.probabilities`);
      const weight = changed.reduce((sum, key) => sum + values.at(head, best.place, key), 0);
      return { layer, head, weight };
    })
    .sort((a, b) => b.weight - a.weight);
  const count = Math.min(CUT, Math.floor(ranked.length / 2));
  return {
    changed,
    place: best.place,
    layer: best.layer,
    from,
    to: Math.min(from + REACH, sizes.layers) - 1,
    heads: ranked.slice(0, count),
    others: ranked.slice(count),
    cut: null,
    draws: [],
    running: false,
  };
}

/**
 * Returns a random number generator from 0 to 1 with the same sequence in every browser
 * (mulberry32).
 */
function randomNumbers(seed) {
  let at = seed;
  return () => {
    at = (at + 0x6d2b79f5) | 0;
    let mixed = Math.imul(at ^ (at >>> 15), 1 | at);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Draws the same number of other heads from the same layers at random. */
function drawOthers({ heads, others }, seed) {
  const random = randomNumbers(seed);
  const left = others.slice();
  return heads.map(() => left.splice(Math.floor(random() * left.length), 1)[0]);
}

/**
 * Returns the second text's answer without some heads, and the remaining probability of its
 * original answer.
 */
async function withoutHeads(map, heads) {
  const off = heads.map(({ layer, head }) => [layer, head]);
  const what = await live.compute({ ...map.texts[1].request, off });
  const [[whole]] = await answersOf(map.texts[1]);
  const id = live.tokenizer.ids.get(whole);
  const [share] = await likely({ ...map, id }, [what]);
  const [[word, best]] = await answersOf(what);
  return { heads: off, word, best, share };
}

async function cutHeads(map) {
  map.wire.cut = await withoutHeads(map, map.wire.heads);
}

async function cutOthers(map, draw) {
  const { wire } = map;
  wire.running = true;
  for (let i = 0; i < DRAWS && map.wire === wire; i++) {
    const heads = drawOthers(wire, wire.draws.length + 1);
    wire.draws.push(await withoutHeads(map, heads));
    draw();
  }
  wire.running = false;
}

// ---------------------------------------------------------------- the panel

const headLabel = ({ layer, head }) => `${layer}.${head}`;

/**
 * A panel with the heads that carry a difference and the results of both experiments. There is one
 * in the article and one in Compare.
 */
class WirePanel {
  /**
   * @param map () => the map that the panel is about.
   */
  constructor(id, map) {
    Object.assign(this, { id, map });
  }
  build() {
    const press = (run) => async () => {
      await run(this.map(), () => this.draw());
      this.draw();
      tell(this.map().wire.heads.map(headLabel).join(" · "), null, this.python());
    };
    const button = (run) => element("button", "", { type: "button", onclick: press(run) });
    this.parts = {
      title: element("h4"),
      say: element("p"),
      heads: element("p", "", { className: "heads" }),
      cut: button(cutHeads),
      others: button(cutOthers),
      table: element("table"),
      verdict: element("p"),
      source: element("p", "", { className: "say" }),
    };
    const { title, say, heads, cut, others, table, verdict, source } = this.parts;
    const acts = element("p", "", { className: "acts" });
    acts.append(cut, others);
    verdict.setAttribute("aria-live", "polite");
    $(this.id).replaceChildren(title, say, heads, acts, table, verdict, source);
  }
  /** Returns the line of Python that does the same. */
  python() {
    const [first, second] = this.map().texts.map((what) => literal(what.request.text));
    return (
      "from minibert import BertForMaskedLM, BertTokenizer; " +
      "from minibert.study import carriers, rounded; " +
      `name = ${literal(page.source)}; ` +
      "model = rounded(BertForMaskedLM.from_pretrained(name)).eval(); " +
      `print(carriers(model, BertTokenizer.from_pretrained(name), ${first}, ${second}))`
    );
  }
  draw() {
    const map = this.map();
    const wire = wireOf(map);
    $(this.id).hidden = !wire;
    if (!wire) {
      return;
    }
    if (!this.parts) {
      this.build();
    }
    const { parts } = this;
    const second = map.texts[1].tokens;
    const count = wire.heads.length;
    const changed = wire.changed.map((i) => second[i].piece).join(" ");
    const words = { ...wire, place: second[wire.place].piece, changed, count, draws: DRAWS };
    parts.title.textContent = t("wire.title");
    parts.say.textContent = t("wire.say", words);
    parts.heads.replaceChildren(
      ...wire.heads.map((own) =>
        element("button", `${headLabel(own)}  ${own.weight.toFixed(2)}`, {
          type: "button",
          onclick: () => chooseHead(own.layer, own.head),
        }),
      ),
    );
    parts.cut.textContent = t("wire.cut", words);
    parts.others.textContent = t("wire.others", words);
    parts.others.disabled = wire.running;
    parts.source.textContent = t("wire.source");
    answersOf(map.texts[1]).then(([[word, share]]) => this.fill(wire, word, share, words));
  }
  /**
   * Shows the results of both experiments and the verdict.
   * @param word the answer with all heads.
   * @param share its probability.
   */
  fill(wire, word, share, words) {
    const { cut, draws } = wire;
    const rows = [[t("wire.row.all"), `${word} ${share.toFixed(3)}`, share.toFixed(3)]];
    if (cut) {
      const said = `${cut.word} ${cut.best.toFixed(3)}`;
      rows.push([t("wire.row.cut", words), said, cut.share.toFixed(3)]);
    }
    if (draws.length) {
      const shares = draws.map((one) => one.share);
      const range = [Math.min(...shares), Math.max(...shares)].map((value) => value.toFixed(3));
      const label = t("wire.row.others", { ...words, draws: draws.length });
      rows.push([label, tallied(draws), range.join(" – ")]);
    }
    const head = element("tr");
    const names = ["", t("wire.answer"), t("wire.share", { word })];
    head.append(...names.map((name) => element("th", name, { scope: "col" })));
    const top = element("thead");
    top.append(head);
    const body = element("tbody");
    for (const [label, ...cells] of rows) {
      const row = element("tr");
      row.append(element("th", label, { scope: "row" }));
      row.append(...cells.map((cell) => element("td", cell, { dir: "auto" })));
      body.append(row);
    }
    this.parts.table.replaceChildren(top, body);
    const said = this.verdict(wire, word, share, words);
    if (this.parts.verdict.textContent !== said) {
      this.parts.verdict.textContent = said;
    }
  }
  verdict({ cut, draws }, word, share, words) {
    if (!cut || !draws.length) {
      return t(cut ? "wire.control" : "wire.wait", words);
    }
    const flips = draws.filter((one) => one.word !== word).length;
    const lower = draws.filter((one) => one.share <= cut.share).length;
    const first = this.map().word;
    const values = {
      ...words,
      word,
      flips,
      lower,
      first,
      draws: draws.length,
      new: cut.word,
      share: share.toFixed(3),
      left: cut.share.toFixed(3),
      best: cut.best.toFixed(3),
    };
    if (cut.word === word) {
      return t(lower > draws.length / 10 ? "wire.verdict.3" : "wire.verdict.2", values);
    }
    if (flips > draws.length / 10) {
      return t("wire.verdict.1", values);
    }
    const blind = cut.word === first ? "" : ` ${t("wire.blind", values)}`;
    return t("wire.verdict.0", values) + blind;
  }
}

/** Formats answers with their counts, the most frequent first. */
function tallied(draws) {
  const counts = new Map();
  for (const { word } of draws) {
    counts.set(word, (counts.get(word) ?? 0) + 1);
  }
  return [...counts]
    .sort((a, b) => b[1] - a[1])
    .map(([word, times]) => `${word} ×${times}`)
    .join(", ");
}

const sceneWire = new WirePanel("scene-wire", () => patching);

// ---------------------------------------------------------------- “What carries this?”

let following = blankMap("", []);
const compareWire = new WirePanel("compare-wire", () => following);

/** Returns a text with one of its tokens replaced by [MASK]. */
function hiddenAt(text, { start, end }) {
  const letters = Array.from(text); // offsets count code points
  return `${letters.slice(0, start).join("")}[MASK]${letters.slice(end).join("")}`;
}

/**
 * Returns the two compared texts with a [MASK] at the same place, or null if they do not match. If
 * they have no [MASK], one token is masked.
 */
function followed() {
  const [first, second] = compared.map((what) => what.tokens);
  if (first.length !== second.length || compared.slice(0, 2).some((what) => what.request.pair)) {
    return null;
  }
  const texts = compared.slice(0, 2).map((what) => what.request.text);
  const alike = first.map((_, i) => i).filter((i) => first[i].piece === second[i].piece);
  if (alike.length === first.length) {
    return null;
  }
  if (alike.some((i) => first[i].piece === "[MASK]")) {
    return texts;
  }
  const whole = (i) =>
    /^\p{L}+$/u.test(first[i].piece) && !(first[i + 1]?.piece ?? "").startsWith("##");
  const places = alike.filter(whole);
  if (!places.length) {
    return null;
  }
  const place = places.includes(state.token) ? state.token : places.at(-1);
  return [hiddenAt(texts[0], first[place]), hiddenAt(texts[1], second[place])];
}

/** Starts to trace the difference between the two compared texts. */
async function followTexts() {
  const texts = followed() ?? [];
  const map = blankMap(
    texts.join("\n"),
    texts.map((text) => ({ text })),
  );
  following = map;
  const wanted = () => following === map;
  drawFollowing();
  await fillMap(map, wanted, () => {
    if (wanted() && state.section === "compare") {
      drawFollowing();
    }
  });
}

function drawFollowing() {
  const able = Boolean(live?.predicts && compared && followed());
  const own = able && following.key === followed().join("\n");
  const done = own && following.cells.length === sizes.layers;
  $("follow").disabled = !able || own;
  $("follow").textContent = t("wire.ask");
  $("follow-bar").hidden = !own || done;
  $("follow-bar").value = following.cells.length / sizes.layers;
  let said = able ? "wire.ask.say" : "wire.ask.not";
  if (own) {
    said = "wire.texts";
  }
  const [first = "", second = ""] = following.requests.map((request) => request.text);
  $("follow-say").textContent = t(said, { first, second });
  if (own) {
    compareWire.draw();
  } else {
    $("compare-wire").hidden = true;
  }
}

function buildFollowing() {
  $("follow").onclick = followTexts;
}
