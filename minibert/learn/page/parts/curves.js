// Curves over the layers.

import { prepare } from "./canvas.js";
import { color } from "./colors.js";
import { element } from "./elements.js";

const NAME_ASIDE = 8; // pixels from its curve that a name accepts to stand one place nearer the end

/**
 * Draws curves over the layers, with a band of one standard deviation if `spreads` is given.
 * @param {any} box the element that holds the canvas.
 * @param {{labels: string[], curves: {name: string, means: number[], spreads?: number[]}[], at?: number, label: string}} plot {labels, curves: [{name, means, spreads?}, ...], at?, label}. `at` is the current
 *   layer, and `label` describes the plot in words.
 */
export function drawCurves(box, { labels, curves, at = -1, label }) {
  let canvas = box.querySelector("canvas");
  if (!canvas) {
    canvas = element("canvas");
    canvas.setAttribute("role", "img");
    box.replaceChildren(canvas);
  }
  canvas.setAttribute("aria-label", label);
  const width = Math.max(box.clientWidth, 240);
  const height = 190;
  const context = prepare(canvas, width, height);
  const ends = curves.flatMap(({ means, spreads }) =>
    means.flatMap((mean, i) => [mean - (spreads?.[i] ?? 0), mean + (spreads?.[i] ?? 0)]),
  );
  const high = Math.max(...ends);
  // Differences are drawn from 0. Cosines, which are all large, are drawn from the smallest one.
  const low = Math.min(...ends) > 0.3 ? Math.min(...ends) - 0.05 : Math.min(0, ...ends);
  /**
   * @param {number} i
   * @param {number} value
   */
  const place = (i, value) => [
    54 + (i / (labels.length - 1)) * (width - 76),
    12 + ((high - value) / (high - low || 1)) * (height - 44),
  ];
  /** @param {number[][]} points */
  const trace = (points) => {
    context.beginPath();
    points.forEach((point) => context.lineTo(...point));
  };
  for (const value of low < 0 ? [low, 0, high] : [low, (low + high) / 2, high]) {
    const [, y] = place(0, value);
    context.fillStyle = color("soft");
    context.textAlign = "right";
    context.fillText(value.toFixed(2), 46, y);
    context.strokeStyle = color("line");
    trace([place(0, value), place(labels.length - 1, value)]);
    context.stroke();
  }
  if (at >= 0) {
    context.strokeStyle = color("cursor");
    trace([place(at, low), place(at, high)]);
    context.stroke();
  }
  context.fillStyle = color("soft");
  context.textAlign = "center";
  labels.forEach((name, i) => context.fillText(name, place(i, low)[0], height - 10));
  curves.forEach(({ means, spreads }, which) => {
    const stroke = color(which ? "soft" : "accent");
    if (spreads) {
      context.globalAlpha = 0.16;
      context.fillStyle = stroke;
      const above = means.map((mean, i) => place(i, mean + spreads[i]));
      const below = means.map((mean, i) => place(i, mean - spreads[i]));
      trace([...above, ...below.reverse()]);
      context.fill();
      context.globalAlpha = 1;
    }
    context.strokeStyle = stroke;
    context.lineWidth = 2;
    context.setLineDash(which ? [5, 4] : []);
    trace(means.map((mean, i) => place(i, mean)));
    context.stroke();
    context.setLineDash([]);
  });
  nameCurves(
    context,
    curves.map(({ name, means }) => ({ name, points: means.map((mean, i) => place(i, mean)) })),
    height - 34,
  );
}

/**
 * Writes the name of each curve where it covers no curve and no other name: near the curve, and
 * rather at its end.
 * @param {CanvasRenderingContext2D} context
 * @param {{name: string, points: number[][]}[]} curves
 * @param {any} lowest
 */
function nameCurves(context, curves, lowest) {
  /** @type {any[]} */
  const taken = [];
  context.textAlign = "right";
  curves.forEach(({ name, points }, which) => {
    if (!name) {
      return;
    }
    const width = context.measureText(name).width + 4;
    /** @param {{left: number, right: number, y: number, heights: any}} of */
    const isFree = ({ left, right, y, heights }) =>
      heights.every((/** @type {any} */ height) => Math.abs(height - y) > 11) &&
      taken.every((one) => one.right < left || right < one.left || Math.abs(one.y - y) > 16);
    const places = points
      .filter(([right]) => right - width > points[0][0])
      .flatMap(([right, own], i, all) => {
        const left = right - width;
        const heights = curves.flatMap((one) => heightsOf(one.points, left, right));
        const aside = NAME_ASIDE * (all.length - 1 - i);
        return Array.from({ length: lowest - 8 }, (_, k) => k + 8).map((y) => {
          return { left, right, y, heights, cost: Math.abs(y - own) + aside };
        });
      })
      .sort((a, b) => a.cost - b.cost);
    const [right, end] = points[points.length - 1];
    const place = places.find(isFree) ?? { left: right - width, right, y: end - 12 };
    taken.push(place);
    context.fillStyle = color(which ? "soft" : "accent");
    context.fillText(name, place.right, place.y);
  });
}

/**
 * Returns the heights of a curve at every third pixel between two places.
 * @param {number[][]} points
 * @param {number} left
 * @param {number} right
 */
function heightsOf(points, left, right) {
  return points.slice(1).flatMap(([x, y], i) => {
    const [fromX, fromY] = points[i];
    const steps = Array.from({ length: Math.ceil((x - fromX) / 3) + 1 }, (_, k) =>
      Math.min(fromX + 3 * k, x),
    );
    return steps
      .filter((at) => left <= at && at <= right)
      .map((at) => fromY + ((at - fromX) / (x - fromX)) * (y - fromY));
  });
}
