// The tab on embeddings.

import { $, element } from "../parts/elements.js";
import { legend } from "../parts/legend.js";
import { vectors } from "../parts/vector-map.js";
import { current, numbers } from "../state/current.js";
import { state } from "../state/store.js";
import { t } from "../state/words.js";

export const EMBEDDINGS = ["word", "token_type", "position", "sum", "output"];

const embeddingsMap = vectors("embeddings-map", () =>
  EMBEDDINGS.map((name) => [`embeddings.${name}`, `embeddings.${name}`, [state.token]]),
);

export function drawEmbeddings() {
  const token = current.tokens[state.token];
  $("embeddings-sum").textContent =
    `h0[${state.token}] = LayerNorm( ${t("embeddings.word")}\u2060[${token.id}] + ` +
    `${t("embeddings.token_type")}\u2060[${token.segment ?? token.type}] + ` +
    `${t("embeddings.position")}\u2060[${state.token}] ),  ${token.id}\u00a0=\u00a0${token.piece}`;
  embeddingsMap.draw();
  const scales = EMBEDDINGS.map(
    (name) => `${t(`embeddings.${name}`)} ±${numbers(`embeddings.${name}`).typical().toFixed(2)}`,
  );
  legend("embeddings-legend", "diverging", "−", "+");
  $("embeddings-legend").append(element("span", scales.join("   ")));
}
