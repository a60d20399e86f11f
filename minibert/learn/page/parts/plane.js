// Points on a plane.

import { fitted, prepare } from "./canvas.js";
import { color } from "./colors.js";

/**
 * Draws labeled points on a plane, each with a line from its earlier place. The chosen one stands
 * out.
 * @param {(i: number) => string} hue (i) => the color of a point and its label.
 * @param {any} canvas
 * @param {number[][]} points
 * @param {number[][]} origins
 * @param {string[]} names
 * @param {any} chosenOne
 * @returns the points on the canvas.
 */
export function drawPlane(canvas, points, origins, names, chosenOne, hue) {
  const width = canvas.parentElement.clientWidth;
  const height = Math.min(360, Math.max(300, width / 2));
  const context = prepare(canvas, width, height);
  /** @param {any[]} of */
  const place = ([x, y]) => [width / 2 + x * (width / 2 - 60), height / 2 - y * (height / 2 - 18)];
  const now = points.map(place);
  const before = origins.map(place);
  context.strokeStyle = color("line");
  context.strokeRect(0.5, 0.5, width - 1, height - 1);
  /** @type {any[]} */
  const taken = []; // places of labels, which are left out if no side is free
  const order = [...now.keys()].sort((a, b) => Number(b === chosenOne) - Number(a === chosenOne));
  for (const i of order) {
    const [x, y] = now[i];
    const chosen = i === chosenOne;
    context.globalAlpha = chosen ? 0.9 : 0.3;
    context.strokeStyle = color(chosen ? "cursor" : "accent");
    context.beginPath();
    context.moveTo(...before[i]);
    context.lineTo(x, y);
    context.stroke();
    context.globalAlpha = 1;
    context.fillStyle = chosen ? color("cursor") : hue(i);
    context.beginPath();
    context.arc(x, y, 3, 0, 2 * Math.PI);
    context.fill();
    const wide = Math.min(context.measureText(names[i]).width, 100);
    const free = [
      [x + 6, y],
      [x - 6 - wide, y],
      [x - wide / 2, y - 14],
      [x - wide / 2, y + 14],
    ].find(
      ([left, middle]) =>
        left > 0 &&
        left + wide < width &&
        taken.every(([l, m, w]) => left > l + w || l > left + wide || Math.abs(middle - m) > 15),
    );
    if (!free) {
      continue;
    }
    context.textAlign = "left";
    fitted(context, names[i], free[0], free[1], 100);
    taken.push([...free, wide]);
  }
  return now;
}
