// Finds what carries the difference between two texts. Patching shows where it crosses from one
// token to another. Attention suggests which heads bring it there. Switching these off, compared
// with random heads, tests that. minibert.study.carriers does the same in Python.

import { answersOf, everyHead } from "../../state/computed-text.js";
import { current, hiddenState } from "../../state/current.js";
import { sizes } from "../../state/page.js";

const CUT = 5; // number of heads that are switched off together

const REACH = 3; // number of layers whose heads are ranked

export const DRAWS = 20; // random sets of heads for one press of the button

/**
 * Returns an empty map of two texts. `cells[layer][token]` will hold the results of patching.
 * @param {string} key
 * @param {ModelRequest[]} requests
 */
export const blankMap = (key, requests) =>
  /** @type {any} */ ({
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
 * @param {{texts: Computed[]}} of
 * @param {number} layer
 * @param {number} token
 */
export async function patchedText({ texts: [first, second] }, layer, token) {
  const { shape, data } = hiddenState(layer + 1, first);
  const states = { shape, data: data.slice() };
  states.data.set(hiddenState(layer + 1, second).row(token), token * shape[1]);
  return current.live.compute({ ...first.request, from: layer + 1, states });
}

/**
 * Returns the probability of the map's word at its place in each of several runs.
 * @param {PatchedMap} map
 * @param {Computed[]} all
 */
const likely = (map, all) =>
  current.live.ask("shares", {
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
 * @param {PatchedMap} map
 * @param {() => boolean} wanted
 * @param {() => void} draw
 */
export async function fillMap(map, wanted, draw) {
  const texts = await Promise.all(map.requests.map((request) => current.live.compute(request)));
  if (texts[0].tokens.length !== texts[1].tokens.length) {
    return;
  }
  const place = texts[0].tokens.findIndex((token) => token.piece === "[MASK]");
  const [[word]] = await answersOf(texts[0]);
  Object.assign(map, { texts, word, place, id: current.live.tokenizer.ids.get(word) });
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

/**
 * Returns where the difference crosses, and the heads that attend from there to the changed tokens.
 * Null until the map is complete.
 * @param {PatchedMap} map
 */
export function wireOf(map) {
  if (!map.texts || !map.plain || map.cells.length < sizes.layers) {
    return null;
  }
  map.wire ??= findWire(map);
  return map.wire;
}

/** @param {PatchedMap} of */
function findWire({ texts, cells, plain }) {
  const [first, second] = texts.map((what) => what.tokens);
  const changed = second
    .map((_, /** @type {number} */ i) => i)
    .filter((/** @type {number} */ i) => first[i].piece !== second[i].piece);
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
 * @param {number} seed
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

/**
 * Draws the same number of other heads from the same layers at random.
 * @param {{heads: HeadPlace[], others: HeadPlace[]}} of
 * @param {number} seed
 */
function drawOthers({ heads, others }, seed) {
  const random = randomNumbers(seed);
  const left = others.slice();
  return heads.map(() => left.splice(Math.floor(random() * left.length), 1)[0]);
}

/**
 * Returns the second text's answer without some heads, and the remaining probability of its
 * original answer.
 * @param {PatchedMap} map
 * @param {HeadPlace[]} heads
 */
async function withoutHeads(map, heads) {
  const off = heads.map(({ layer, head }) => [layer, head]);
  const what = await current.live.compute({ ...map.texts[1].request, off });
  const [[whole]] = await answersOf(map.texts[1]);
  const id = current.live.tokenizer.ids.get(whole);
  const [share] = await likely({ ...map, id }, [what]);
  const [[word, best]] = await answersOf(what);
  return { heads: off, word, best, share };
}

/** @param {PatchedMap} map */
export async function cutHeads(map) {
  map.wire.cut = await withoutHeads(map, map.wire.heads);
}

/**
 * @param {PatchedMap} map
 * @param {() => void} draw
 */
export async function cutOthers(map, draw) {
  const { wire } = map;
  wire.running = true;
  for (let i = 0; i < DRAWS && map.wire === wire; i++) {
    const heads = drawOthers(wire, wire.draws.length + 1);
    wire.draws.push(await withoutHeads(map, heads));
    draw();
  }
  wire.running = false;
}
