// Numbers within limits.

/**
 * @param {number} x
 * @param {number} low
 * @param {number} high
 */
export const clamp = (x, low, high) => Math.min(Math.max(x, low), high);

/**
 * @param {number} from
 * @param {number} count
 */
export const range = (from, count) => Array.from({ length: count }, (_, i) => from + i);
