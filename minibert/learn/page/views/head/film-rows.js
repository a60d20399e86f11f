// The rows of the animated head, as they are at a time: the query, a key or value for each token, and
// the output.

import { written } from "../../model/numbers.js";
import { once } from "../../state/analyses.js";
import { current, mayLook, numbers, piece } from "../../state/current.js";
import { state } from "../../state/store.js";
import { t } from "../../state/words.js";
import { between, done, eased, made, within } from "./film-time.js";
import { headOutput, headSize, inLayer, plain, weightedValue } from "./rows.js";

/**
 * Returns all values of the chosen head for the chosen token, and one color scale for its queries,
 * keys and values.
 */
export function filmNumbers() {
  const { layer, head, token } = state;
  return once(`film.${layer}.${head}.${token}`, () => {
    /** @param {string} name */
    const step = (name) => numbers(inLayer(`attention.${name}`));
    /** @param {string} name */
    const rows = (name) => current.tokens.map((_, i) => step(name).row(head, i));
    const [queries, keys, values] = ["query", "key", "value"].map(rows);
    const sizes = [queries, keys, values].flat(2).map(Math.abs);
    return {
      query: queries[token],
      keys,
      values,
      scores: step("scores").row(head, token),
      shares: step("probabilities").row(head, token),
      output: step("context")
        .row(token)
        .slice(head * headSize(), (head + 1) * headSize()),
      // As in `Numbers.typical`.
      most: sizes.sort((a, b) => a - b)[Math.floor(sizes.length * 0.99)] || 1,
    };
  });
}

/**
 * Returns the number beside a token's row: first its score, then its probability. Empty until the
 * score is computed.
 * @param {number} i
 */
export function besideKey(i) {
  if (done("scores", i) < 1) {
    return "";
  }
  const { scores, shares } = filmNumbers();
  if (done("shares") >= 0.5) {
    return written(shares[i]);
  }
  return mayLook(state.token, i) ? written(scores[i]) : t("attention.hidden");
}

/** Returns the sum of all probabilities. */
export const sumOfShares = () => filmNumbers().shares.reduce((sum, share) => sum + share, 0);

/**
 * Returns the row of a token: first its key, then its value, then its weighted value.
 * @param {number} i
 */
function tokenRow(i) {
  const { head } = state;
  if (done("weigh") >= 0.5) {
    return weightedValue(i);
  }
  return done("values") >= 0.5
    ? plain(`v “${piece(i)}”`, inLayer("attention.value"), head, i)
    : plain(`k “${piece(i)}”`, inLayer("attention.key"), head, i);
}

/**
 * Returns the rows: the query, one for each token, and the head's output. A row that is not visible
 * yet is null.
 */
export function filmRows() {
  const { head, token } = state;
  return [
    plain(`q “${piece(token)}”`, inLayer("attention.query"), head, token),
    ...current.tokens.map((_, i) => (done("keys") ? tokenRow(i) : null)),
    done("sum", current.count - 1) === 1 ? headOutput() : null,
  ];
}

/**
 * Returns the value of a cell, interpolated between steps, or null.
 * @param {number} r
 * @param {number} c
 */
export function filmValue(r, c) {
  const { query, keys, values, shares } = filmNumbers();
  if (r === 0) {
    return query[c] * made("query", c);
  }
  if (r <= current.count) {
    const i = r - 1;
    const own = between(keys[i][c] * made("keys", c), values[i][c], made("values", c));
    return done("keys") ? own * between(1, shares[i], eased(done("weigh"))) : null;
  }
  if (!done("sum")) {
    return null;
  }
  return values.reduce(
    (sum, value, /** @type {number} */ i) =>
      sum + shares[i] * value[c] * within(done("sum", i), 0.6, 1),
    0,
  );
}

/**
 * Describes a cell and the number beside its row.
 * @param {number} r
 * @param {number} c
 */
export function describeFilm(r, c) {
  const row = filmRows()[r];
  if (!row) {
    return "";
  }
  const beside = r > 0 && r <= current.count ? besideKey(r - 1) : "";
  const name = done("shares") >= 0.5 ? t("film.share") : `q · k / √${headSize()}`;
  const label = beside ? `${row.label} (${name} = ${beside})` : row.label;
  return t("vector.cell", { row: label, index: c, value: written(row.value(c)) });
}
