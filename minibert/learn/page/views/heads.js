// The choice of an attention head, and its name.

import { literal, python } from "../parts/python.js";
import { tell } from "../parts/readout.js";
import { pattern } from "../state/analyses.js";
import { change } from "../state/change.js";
import { current } from "../state/current.js";
import { t } from "../state/words.js";

/**
 * @param {number} layer
 * @param {number} head
 */
export function headName(layer, head) {
  const { name, share } = pattern(layer, head);
  const chosen = t("attention.chosen", { layer, head });
  return name ? `${chosen} · ${t(`pattern.${name}`)} ${share.toFixed(2)}` : chosen;
}

/**
 * @param {number} layer
 * @param {number} head
 */
export const chooseHead = (layer, head) => {
  change({ layer, head });
  tell(headName(layer, head), null, patternPython(layer, head));
};

/**
 * @param {number} layer
 * @param {number} head
 */
export const patternPython = (layer, head) =>
  python(`attention_patterns(tokens, t['layer.${layer}.attention.probabilities'])[${head}].share`, {
    names: "attention_patterns, run",
    format: ".2f",
    before: `tokens = ${literal(current.tokens.map((token) => token.piece))}; `,
  });
