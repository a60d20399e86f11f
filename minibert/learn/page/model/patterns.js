// The patterns of attention heads. minibert.study has the same functions under the same names.

/**
 * Returns the indices of words, and for each pattern the keys that a query at index i would attend
 * to.
 * @param {{piece: string}[]} own
 */
export function patternRules(own) {
  /** @param {any} keep */
  const places = (keep) => own.map((_, i) => i).filter((i) => keep(own[i].piece));
  const real = places((/** @type {any} */ name) => !/^\[(CLS|SEP|PAD)\]$/.test(name));
  /** @param {any} wanted */
  const where = (wanted) => () => places((/** @type {any} */ name) => name === wanted);
  /** @type {Record<string, (i: number) => number[]>} */
  const rules = {
    /** @param {number} i */
    previous: (i) => (i > 0 ? [i - 1] : []),
    /** @param {number} i */
    next: (i) => (i + 1 < own.length ? [i + 1] : []),
    /** @param {number} i */
    itself: (i) => [i],
    "[CLS]": where("[CLS]"),
    "[SEP]": where("[SEP]"),
    /** @param {number} i */
    same: (i) => real.filter((j) => j !== i && own[j].piece === own[i].piece),
  };
  return { real, rules };
}

/**
 * Returns the mean share of attention that a head gives to the keys of a rule. Words without such a
 * key do not count. Without any such word, the share is null.
 * @param {Values} values
 * @param {number} head
 * @param {number[]} real
 * @param {(i: number) => number[]} rule
 */
export function patternShare(values, head, real, rule) {
  const pairs = real
    .map((i) => /** @type {const} */ ([i, rule(i)]))
    .filter(([, keys]) => keys.length);
  const sum = pairs.reduce(
    (sum, [i, keys]) => sum + keys.reduce((own, j) => own + values.at(head, i, j), 0),
    0,
  );
  return pairs.length ? sum / pairs.length : null;
}
