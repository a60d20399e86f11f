// The end of the article: predictions and outcomes, what to remember, and where to go next.

import { amounts } from "./amounts.js";
import { keptGuesses } from "./guesses.js";
import { SCENES, SCENE_COUNT } from "./order.js";
import { $, element } from "../parts/elements.js";
import { rich } from "../parts/rich-text.js";
import { words } from "../state/page.js";
import { state } from "../state/store.js";
import { t } from "../state/words.js";

const TAKEN_HOME = 5;

const DOORS = 5;

/**
 * Returns a list of texts of the article, such as "lesson.end.home.0" and the following ones.
 * @param {string} kind
 * @param {string} key
 * @param {number} count
 */
function endingList(kind, key, count) {
  const list = element(kind);
  for (let i = 0; i < count; i++) {
    const item = element("li");
    item.append(...rich(t(`lesson.end.${key}.${i}`, amounts())));
    list.append(item);
  }
  return list;
}

/**
 * Returns a table of all scenes with their outcome and whether it was predicted.
 * @param {any} kept
 * @param {(scene: number) => Promise<void>} enter
 */
function guessTable(kept, enter) {
  const table = element("table", "", { id: "ending-guesses" });
  const body = table.createTBody();
  for (const [i, { id }] of SCENES.entries()) {
    const own = kept.get(id);
    /** @param {number} which */
    const choice = (which) => t(`lesson.${id}.choice.${which}`, amounts());
    const row = body.insertRow();
    let mark = "–";
    let said = t("lesson.end.open");
    if (own) {
      const happened = `lesson.${id}.choice.${own.outcome}`;
      mark = own.guess === own.outcome ? "✓" : "✗";
      said = words.en[happened] ? choice(own.outcome) : t("lesson.end.else");
    }
    if (own && own.guess < 0) {
      mark = "–";
    }
    const back = element("button", `${i + 1}. ${t(`lesson.${id}.title`)}`, {
      type: "button",
      onclick: () => enter(i),
    });
    const head = element("th", "", { scope: "row" });
    head.append(back);
    row.append(element("td", mark), head, element("td", said));
  }
  return table;
}

/**
 * @param {(scene: number) => Promise<void>} enter (scene) => opens a scene.
 */
export function drawEnding(enter) {
  const kept = keptGuesses();
  const guessed = SCENES.filter(({ id }) => (kept.get(id)?.guess ?? -1) >= 0);
  const right = guessed.filter(({ id }) => kept.get(id).guess === kept.get(id).outcome).length;
  const title = element("h2", t("lesson.end.title"), { id: "ending-title", tabIndex: -1 });
  const score = element(
    "p",
    t(guessed.length ? "lesson.end.score" : "lesson.end.none", {
      right,
      guessed: guessed.length,
      scenes: SCENE_COUNT,
    }),
    { id: "ending-score" },
  );
  // Drawing it again would lose the focus.
  if ($("ending").dataset.drawn === `${state.language} ${state.guesses}`) {
    return;
  }
  $("ending").dataset.drawn = `${state.language} ${state.guesses}`;
  $("ending").replaceChildren(
    title,
    score,
    guessTable(kept, enter),
    element("h3", t("lesson.end.home")),
    endingList("ol", "home", TAKEN_HOME),
    element("h3", t("lesson.end.doors")),
    endingList("ul", "door", DOORS),
  );
}
