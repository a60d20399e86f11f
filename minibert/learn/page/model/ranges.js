// Numbers within limits.

export const clamp = (x, low, high) => Math.min(Math.max(x, low), high);

export const range = (from, count) => Array.from({ length: count }, (_, i) => from + i);
