// The tab on the text: its tokens, and the fields that edit it.

import { clamp } from "../model/ranges.js";
import { color } from "../parts/colors.js";
import { $, element, mark } from "../parts/elements.js";
import { literal } from "../parts/python.js";
import { tell } from "../parts/readout.js";
import { ask, change, type } from "../state/change.js";
import { current, piece } from "../state/current.js";
import { page } from "../state/page.js";
import { state } from "../state/store.js";
import { t } from "../state/words.js";

export const fillEdits = () => {
  $("pad").value = state.pad || "";
  $("types").checked = state.type !== null;
  $("edit").value = state.text;
  $("edit-pair").value = state.pair ?? "";
};

/**
 * Returns the description of a token and the Python that prints its id.
 * @param {number} i
 * @returns {[string, null, string]}
 */
export function tokenTold(i) {
  const options = [
    literal(current.shown.request.text),
    ...(current.shown.request.pair === null ? [] : [literal(current.shown.request.pair)]),
  ].join(", ");
  const plain = !current.shown.request.masked.includes(i) && current.tokens[i].mask;
  const line =
    "from minibert import BertTokenizer; " +
    `print(BertTokenizer.from_pretrained(${literal(page.source)})(${options})["input_ids"][${i}])`;
  return [`${t("token")} ${i}: ${piece(i)} · ${current.tokens[i].id}`, null, plain ? line : ""];
}

export function buildText() {
  if (!$("edit").oninput) {
    fillEdits();
    const typed = () =>
      type({ text: $("edit").value, pair: $("edit-pair").value || null, masked: [] });
    for (const id of ["edit", "edit-pair"]) {
      $(id).oninput = typed;
    }
    $("pad").max = page.max_tokens;
    $("pad").oninput = () =>
      ask({ pad: clamp(Math.round(Number($("pad").value)), 0, page.max_tokens) });
    $("types").onchange = () => ask({ type: $("types").checked ? 1 : null });
    $("types").parentElement.hidden = !(current.live?.types > 1);
  }
  $("texts").replaceChildren(
    ...current.shown.texts.map((text, which) => {
      const line = element("p", "", { dir: "auto" });
      const letters = Array.from(text); // offsets count code points
      let end = 0;
      current.tokens.forEach((token, i) => {
        // The pieces of a decomposed Korean syllable share its offsets.
        const start = Math.max(token.start, end);
        if (token.type !== which || token.end <= start) {
          return;
        }
        line.append(letters.slice(end, start).join(""));
        const span = element("span", letters.slice(start, token.end).join(""), {
          onclick: () => change({ token: i }),
        });
        span.dataset.token = i;
        line.append(span);
        end = token.end;
      });
      line.append(letters.slice(end).join(""));
      return line;
    }),
  );
  const body = element("tbody");
  current.tokens.forEach((token, i) => {
    const row = element("tr", "", {
      onclick: () => {
        change({ token: i });
        tell(...tokenTold(i));
      },
    });
    const letters = Array.from(current.shown.texts[token.type] ?? "")
      .slice(token.start, token.end)
      .join("");
    row.append(
      element("td", i),
      element("td", letters, { dir: "auto" }),
      element("td", token.piece, { dir: "auto" }),
    );
    row.append(
      element("td", token.id),
      element("td", token.segment ?? token.type),
      element("td", token.mask),
    );
    row.classList.toggle("off", token.mask === 0);
    body.append(row);
  });
  $("pieces").replaceChildren(element("thead"), body);
}

export function drawText() {
  const hues = color("hues").split(",");
  for (const span of $("texts").querySelectorAll("span")) {
    span.style.background = hues[span.dataset.token % hues.length];
    span.classList.toggle("on", Number(span.dataset.token) === state.token);
  }
  const row = element("tr");
  for (const name of ["place", "characters", "piece", "id", "type", "mask"]) {
    row.append(element("th", t(`text.${name}`)));
  }
  $("pieces").tHead.replaceChildren(row);
  mark($("pieces"), state.token);
  $("trouble").textContent = state.trouble;
  let source = "source.photograph";
  if (current.live) {
    source = current.shown.live || page.rounded ? "source.live" : "source.exact";
  }
  $("source-say").textContent = t(source);
}
