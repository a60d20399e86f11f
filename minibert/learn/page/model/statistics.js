// Means, and how sure they are.

/** @param {number[]} values */
export const average = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

/** @param {number[]} values */
export const spread = (values) => {
  const mean = average(values);
  const squares = values.reduce((sum, value) => sum + (value - mean) ** 2, 0);
  return Math.sqrt(squares / Math.max(values.length - 1, 1));
};

/**
 * Returns the half width of the 95% interval of a mean.
 * @param {number[]} values
 */
export const errorOf = (values) => (1.96 * spread(values)) / Math.sqrt(values.length);
