// The patterns of attention heads. minibert.study has the same functions under the same names.

/**
 * Returns the indices of words, and for each pattern the keys that a query at index i would attend
 * to.
 */
export function patternRules(own) {
  const places = (keep) => own.map((_, i) => i).filter((i) => keep(own[i].piece));
  const real = places((name) => !/^\[(CLS|SEP|PAD)\]$/.test(name));
  const where = (wanted) => () => places((name) => name === wanted);
  const rules = {
    previous: (i) => (i > 0 ? [i - 1] : []),
    next: (i) => (i + 1 < own.length ? [i + 1] : []),
    itself: (i) => [i],
    "[CLS]": where("[CLS]"),
    "[SEP]": where("[SEP]"),
    same: (i) => real.filter((j) => j !== i && own[j].piece === own[i].piece),
  };
  return { real, rules };
}

/**
 * Returns the mean share of attention that a head gives to the keys of a rule. Words without such a
 * key do not count. Without any such word, the share is null.
 */
export function patternShare(values, head, real, rule) {
  const pairs = real.map((i) => [i, rule(i)]).filter(([, keys]) => keys.length);
  const sum = pairs.reduce(
    (sum, [i, keys]) => sum + keys.reduce((own, j) => own + values.at(head, i, j), 0),
    0,
  );
  return pairs.length ? sum / pairs.length : null;
}
