// Which sides of its own token a query may attend to, and the mask that hides the others.

/**
 * Functions (query, key) => whether the query may attend to the key, by name. The same as `SIDES`
 * in minibert/learn/live.py.
 */
export const SIDES = {
  both: () => true, // an encoder, as BERT was trained
  left: (q, k) => k <= q, // a decoder, such as GPT
  right: (q, k) => k >= q,
  none: (q, k) => q === k,
};

/**
 * Returns a (seq, seq) matrix from a mask of the keys: 1 where a query may attend to a key, else 0.
 */
export const visibleKeys = (mask, sides) =>
  mask.flatMap((_, q) => mask.map((kept, k) => (kept && SIDES[sides](q, k) ? 1 : 0)));

/**
 * What is added to the score of a masked key: the lowest float32 instead of -Infinity, so that a row
 * with all keys masked stays finite.
 */
export const LOWEST = -3.4028234663852886e38;
