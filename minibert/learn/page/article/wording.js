// How results are written, and which choice turned out right.

import { clamp } from "../model/ranges.js";
import { t } from "../state/words.js";

/**
 * Returns "14 of 20 (95%: 48 to 85%)", the share with the interval of Wilson (1927) that contains
 * the true share in 95 of 100 such samples.
 * @param {number} part
 * @param {number} all
 */
export function shareOf(part, all) {
  const z = 1.96;
  const middle = (part + (z * z) / 2) / (all + z * z);
  const wide = (z / (all + z * z)) * Math.sqrt((part * (all - part)) / all + (z * z) / 4);
  /** @param {number} value */
  const percent = (value) => Math.round(100 * clamp(value, 0, 1));
  return t("lesson.share", {
    part,
    all,
    low: percent(middle - wide),
    high: percent(middle + wide),
  });
}

/**
 * Formats a number of a verdict: two digits, or three where only three tell it from 1.
 * @param {number} value
 */
export const brief = (value) => {
  const digits = Math.abs(value) > 0.975 && Math.abs(value) < 0.9995 ? 3 : 2;
  return value.toFixed(digits).replace(/^-(0\.0+)$/, "$1");
};

/** @param {Prediction[]} best */
export const saidWords = (best) =>
  best
    .slice(0, 3)
    .map(([word, share]) => `${word} ${brief(share)}`)
    .join(", ");

/**
 * Returns the index of the first condition that holds, or their number if none does.
 * @param {...any} conditions
 */
export function choiceOf(...conditions) {
  const first = conditions.indexOf(true);
  return first < 0 ? conditions.length : first;
}
