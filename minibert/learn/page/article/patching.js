// The figure of a state that carries a difference from one text to another.

import { saidWords } from "./wording.js";
import { written } from "../model/numbers.js";
import { literal } from "../parts/python.js";
import { change } from "../state/change.js";
import { answersOf } from "../state/computed-text.js";
import { current } from "../state/current.js";
import { page, sizes } from "../state/page.js";
import { announce } from "../state/store.js";
import { t } from "../state/words.js";
import { WirePanel } from "../views/compare/carriers-panel.js";
import { blankMap, fillMap, patchedText } from "../views/compare/carriers.js";

/**
 * Replaces "it" by a noun phrase with [MASK], to see which noun the model predicts.
 * @param {string} text
 */
export const hideIt = (text) => text.replace(/\bit\b/i, "the [MASK]");

/** @type {PatchedMap & {hides: boolean}} */
export const patching = { ...blankMap("", []), hides: false };

const sceneWire = new WirePanel("scene-wire", () => patching);

/**
 * Fills the map of the scene's two texts, with "it" masked. Results of other texts are dropped.
 * @param {Computed} before
 * @param {Computed} now
 * @param {() => boolean} isOpen
 */
async function sweep(before, now, isOpen) {
  const texts = [before, now].map((what) => hideIt(what.request.text));
  const key = texts.join("\n");
  if (patching.key === key) {
    return;
  }
  const requests = texts.map((text) => ({ text }));
  const hides = texts[0] !== before.request.text || texts[1] !== now.request.text;
  Object.assign(patching, blankMap(key, requests), { hides });
  const wanted = () => patching.key === key && isOpen();
  await fillMap(patching, wanted, () => announce("measured"));
  // The sweep was interrupted, so it has to run again.
  if (patching.key === key && patching.texts && patching.cells.length < sizes.layers) {
    patching.key = "";
  }
}

/**
 * Shows the best words with one state replaced.
 * @param {number} layer
 * @param {any} token
 */
export async function patchAt(layer, token) {
  const what = await patchedText(patching, layer, token);
  patching.chosen = { layer, token, words: await answersOf(what) };
  announce("measured");
}

/**
 * Returns where a token of the map is in the text of the page, which has a word instead of "the
 * [MASK]".
 * @param {any} token
 */
function placeOnPage(token) {
  const { place, texts } = patching;
  const more = texts[0].tokens.length - current.count;
  return token < place ? Math.min(token, place - more) : token - more;
}

/** @type {Figure} */
export const patchFigure = {
  begin: sweep,
  drawBeside: () => sceneWire.draw(),
  ready: () => patching.cells.length > 0 && patching.texts !== null,
  caption() {
    const said = t("lesson.it.caption", {
      word: patching.word,
      before: patching.plain[0].toFixed(3),
      after: patching.plain[1].toFixed(3),
    });
    return patching.hides ? `${said} ${t("lesson.it.replaced")}` : said;
  },
  choices: () => [],
  legend: () => ["sequential", "0", Math.max(...patching.plain).toFixed(2)],
  said: () => {
    const { chosen, texts } = patching;
    return chosen
      ? t("lesson.it.patched", {
          token: texts[1].tokens[chosen.token].piece,
          layer: chosen.layer,
          words: saidWords(chosen.words),
        })
      : t("lesson.it.click");
  },
  plan: () => {
    const { texts, cells, plain, place, id } = patching;
    const most = Math.max(...plain);
    const [own, other] = texts.map((what) => what.tokens);
    const at = patching.chosen ?? { layer: 0, token: place };
    /**
     * @param {number} r
     * @param {number} c
     */
    const value = (r, c) => cells[c]?.[r]; // undefined until it is measured
    return {
      rows: own.length,
      cols: sizes.layers,
      palette: "sequential",
      space: 420,
      tallest: 24,
      left: 84,
      smallest: [34, 22],
      cursor: [at.token, at.layer],
      rowLabel: (r) => other[r].piece,
      colLabel: (c) => `${c}`,
      shade: (r, c) => (value(r, c) === undefined ? null : Math.min(value(r, c) / most, 1)),
      write: (r, c) => value(r, c)?.toFixed(2) ?? "",
      describe: (r, c) =>
        t("lesson.it.cell", {
          token: other[r].piece,
          layer: c,
          word: patching.word,
          value: value(r, c) === undefined ? "…" : written(value(r, c)),
        }),
      python: (r, c) => {
        const inputs = literal([texts[1], texts[0]].map((what) => what.request.text));
        const share = `lambda out: out.prediction_logits.softmax(-1)[:, ${place}, ${id}]`;
        return (
          "from minibert.study import patching_sweep, rounded; " +
          "from minibert import BertForPreTraining, BertTokenizer; " +
          `name = ${literal(page.source)}; ` +
          "model, cut = rounded(BertForPreTraining.from_pretrained(name)).eval(), " +
          "BertTokenizer.from_pretrained(name); " +
          `a, b = (cut(text, return_tensors="pt") for text in ${inputs}); ` +
          `print(f"{patching_sweep(model, a, b, ${share})[${c}, ${r}]:.4f}")`
        );
      },
      move: (token, layer) => {
        patching.chosen = { layer, token, words: [] };
        change({ token: placeOnPage(token) });
        patchAt(layer, token);
      },
    };
  },
};
