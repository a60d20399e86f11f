// The panel with the heads that carry a difference.

import { $, element } from "../../parts/elements.js";
import { literal } from "../../parts/python.js";
import { tell } from "../../parts/readout.js";
import { answersOf } from "../../state/computed-text.js";
import { page } from "../../state/page.js";
import { t } from "../../state/words.js";
import { DRAWS, cutHeads, cutOthers, wireOf } from "./carriers.js";
import { chooseHead } from "../heads.js";

/** @param {{layer: number, head: number}} of */
const headLabel = ({ layer, head }) => `${layer}.${head}`;

/**
 * A panel with the heads that carry a difference and the results of both experiments. There is one
 * in the article and one in Compare.
 */
export class WirePanel {
  /**
   * @param {any} map () => the map that the panel is about.
   * @param {string} id
   */
  constructor(id, map) {
    this.id = id;
    this.map = map;
    /** @type {any} */
    this.parts = null;
  }
  build() {
    /** @param {any} run */
    const press = (run) => async () => {
      await run(this.map(), () => this.draw());
      this.draw();
      tell(this.map().wire.heads.map(headLabel).join(" · "), null, this.python());
    };
    /** @param {any} run */
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
    const [first, second] = this.map().texts.map((/** @type {any} */ what) =>
      literal(what.request.text),
    );
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
    const changed = wire.changed.map((/** @type {number} */ i) => second[i].piece).join(" ");
    const words = { ...wire, place: second[wire.place].piece, changed, count, draws: DRAWS };
    parts.title.textContent = t("wire.title");
    parts.say.textContent = t("wire.say", words);
    parts.heads.replaceChildren(
      ...wire.heads.map((/** @type {any} */ own) =>
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
   * @param {string} word the answer with all heads.
   * @param {number} share its probability.
   * @param {any} wire
   * @param {string[]} words
   */
  fill(wire, word, share, words) {
    const { cut, draws } = wire;
    const rows = [[t("wire.row.all"), `${word} ${share.toFixed(3)}`, share.toFixed(3)]];
    if (cut) {
      const said = `${cut.word} ${cut.best.toFixed(3)}`;
      rows.push([t("wire.row.cut", words), said, cut.share.toFixed(3)]);
    }
    if (draws.length) {
      const shares = draws.map((/** @type {any} */ one) => one.share);
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
  /**
   * @param {{cut: any, draws: any[]}} of
   * @param {string} word
   * @param {number} share
   * @param {string[]} words
   */
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

/**
 * Formats answers with their counts, the most frequent first.
 * @param {any[]} draws
 */
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
