// Softmax, as the model computes it.

/**
 * Computes exp(x) / sum of exp(x) in place. Subtracting the maximum first prevents overflow.
 * @param {Float32Array | number[]} row
 */
export function softmax(row) {
  let largest = -Infinity;
  let sum = 0;
  for (const value of row) {
    largest = Math.max(largest, value);
  }
  for (let i = 0; i < row.length; i++) {
    sum += row[i] = Math.exp(row[i] - largest);
  }
  for (let i = 0; i < row.length; i++) {
    row[i] /= sum;
  }
}
