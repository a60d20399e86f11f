// Vectors as rows of numbers: lengths, cosines, centers, and the plane of principal components.

/** @param {ArrayLike<number> & Iterable<number>} row */
export const lengthOf = (row) => Math.hypot(...row);

/**
 * @param {number[]} a
 * @param {number[]} b
 */
export function cosine(a, b) {
  let dot = 0;
  let aa = 0;
  let bb = 0;
  for (let i = 0; i < a.length; i++) {
    dot += a[i] * b[i];
    aa += a[i] * a[i];
    bb += b[i] * b[i];
  }
  return dot / Math.sqrt(aa * bb || 1);
}

/** @param {number[][]} rows */
export const centerOf = (rows) =>
  rows[0].map((_, c) => rows.reduce((sum, row) => sum + row[c], 0) / rows.length);

/**
 * Subtracts the mean from rows.
 * @param {number[][]} rows
 */
export function centered(rows) {
  const mean = rows[0].map((_, c) => rows.reduce((sum, row) => sum + row[c], 0) / rows.length);
  return rows.map((row) => row.map((value, c) => value - mean[c]));
}

/**
 * Returns the first two principal components of centered rows, by power iteration.
 * @param {number[][]} rows
 */
export function principalAxes(rows) {
  const axes = [];
  for (let a = 0; a < 2; a++) {
    let axis = rows[0].map((_, c) => Math.sin((c + 1) * (a + 1)));
    for (let turn = 0; turn < 40; turn++) {
      const next = new Array(axis.length).fill(0);
      for (const row of rows) {
        let dot = 0;
        for (let c = 0; c < row.length; c++) {
          dot += row[c] * axis[c];
        }
        for (let c = 0; c < row.length; c++) {
          next[c] += dot * row[c];
        }
      }
      for (const other of axes) {
        const along = next.reduce((sum, value, c) => sum + value * other[c], 0);
        for (let c = 0; c < next.length; c++) {
          next[c] -= along * other[c];
        }
      }
      const length = Math.hypot(...next) || 1;
      axis = next.map((value) => value / length);
    }
    axes.push(axis);
  }
  return axes;
}

/**
 * Projects lists of centered rows on two axes and scales them together to fill the plane. Each row
 * becomes [x, y] from -1 to 1.
 * @param {number[][][]} lists
 * @param {number[][]} axes
 */
export function onPlane(lists, axes) {
  const points = lists.map((rows) =>
    rows.map((row) => axes.map((axis) => row.reduce((sum, value, c) => sum + value * axis[c], 0))),
  );
  const most = [0, 1].map((a) =>
    points.flat().reduce((most, point) => Math.max(most, Math.abs(point[a])), 1e-9),
  );
  return points.map((list) => list.map((point) => point.map((value, a) => value / most[a])));
}
