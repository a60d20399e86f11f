// Which sides of its own token a query may attend to, and the mask that hides the others.

/**
 * Functions (query, key) => whether the query may attend to the key, by name. The same as `SIDES`
 * in minibert/learn/live.py.
 * @type {Record<string, any>}
 */
export const SIDES = {
  both: () => true, // an encoder, as BERT was trained
  /**
   * @param {number} q
   * @param {number} k
   */
  left: (q, k) => k <= q, // a decoder, such as GPT
  /**
   * @param {number} q
   * @param {number} k
   */
  right: (q, k) => k >= q,
  /**
   * @param {number} q
   * @param {number} k
   */
  none: (q, k) => q === k,
};

/**
 * Returns a (seq, seq) matrix from a mask of the keys: 1 where a query may attend to a key, else 0.
 * @param {number[]} mask
 * @param {string} sides
 */
export const visibleKeys = (mask, sides) =>
  mask.flatMap((_, /** @type {number} */ q) =>
    mask.map((kept, /** @type {number} */ k) => (kept && SIDES[sides](q, k) ? 1 : 0)),
  );

/**
 * What is added to the score of a masked key: the lowest float32 instead of -Infinity, so that a row
 * with all keys masked stays finite.
 */
export const LOWEST = -3.4028234663852886e38;
