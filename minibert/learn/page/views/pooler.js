// The tab on the pooler and the next sentence.

import { $, bar, element } from "../parts/elements.js";
import { signedLegend } from "../parts/legend.js";
import { python } from "../parts/python.js";
import { numberNode, tell } from "../parts/readout.js";
import { vectors } from "../parts/vector-map.js";
import { change } from "../state/change.js";
import { current, numbers } from "../state/current.js";
import { draw, state } from "../state/store.js";
import { t } from "../state/words.js";

const poolerMap = vectors("pooler-map", () =>
  ["cls", "dense", "output"].map((name) => [`pooler.${name}`, `pooler.${name}`, []]),
);

export function drawPooler() {
  const has = Boolean(numbers("pooler.output"));
  const logits = numbers("nsp.logits");
  $("pooler-map").hidden = $("pooler-legend").hidden = !has;
  $("pooler-say").textContent = t(has ? "pooler.say" : "pooler.none");
  $("next").replaceChildren();
  if (!has) {
    return;
  }
  poolerMap.draw();
  signedLegend("pooler-legend", numbers("pooler.output").typical());
  if (!logits) {
    return;
  }
  const heading = element("h2", t("pooler.next"));
  if (current.shown.texts.length < 2) {
    // A single text has no next sentence.
    const add = element("button", t("pooler.add"), {
      type: "button",
      onclick: () => {
        change({ section: "text" });
        $("edit-pair").focus();
      },
    });
    $("next").replaceChildren(
      heading,
      element("p", t("pooler.single"), { className: "say" }),
      ...(current.live ? [add] : []),
    );
    return;
  }
  const [follows, random] = Array.from(logits.data, (value) => value / logits.scale);
  const share = 1 / (1 + Math.exp(random - follows));
  const list = element("div", "", { className: "words" });
  ["follows", "random"].forEach((name, i) => {
    const value = i ? 1 - share : share;
    const text = value.toFixed(4);
    const say = () =>
      tell(`${t(`pooler.${name}`)}: ${text}`, null, python(`t['nsp.logits'][0].softmax(-1)[${i}]`));
    list.append(element("span", t(`pooler.${name}`)), bar(value), numberNode(text, say));
  });
  $("next").replaceChildren(
    heading,
    list,
    element("p", worthOfNext(), { className: current.shown.worth > 0.5 ? "say trouble" : "say" }),
  );
}

/** Sentences that follow nothing. Their score shows how much the model's "follows" is worth. */
const UNRELATED = {
  en: "The recipe needs two eggs and a cup of flour.",
  ko: "냉장고에 우유가 두 팩 남아 있다.",
};

function worthOfNext() {
  if (!current.live) {
    return "";
  }
  const [first] = current.shown.texts;
  const own = current.shown;
  const other = UNRELATED[/\p{Script=Hangul}/u.test(first) ? "ko" : "en"];
  if (own.worth === undefined) {
    own.worth = null;
    current.live.compute({ text: first, pair: other, off: own.request.off }).then(
      ({ steps }) => {
        const [follows, random] = steps.get("nsp.logits").row();
        own.worth = 1 / (1 + Math.exp(random - follows));
        if (own === current.shown && state.section === "pooler") {
          draw();
        }
      },
      () => {},
    );
  }
  if (own.worth === null) {
    return "";
  }
  return t(own.worth > 0.5 ? "pooler.worthless" : "pooler.worth", {
    other,
    value: own.worth.toFixed(4),
  });
}
