// Unpacks what Python packed into the page.

/**
 * Returns the digit from 0 to 84 of a character. "x" and "y" stand for "<" and the backslash.
 * @param {any} letter
 */
function digitOf(letter) {
  if (letter === 120) {
    return 60 - 35;
  }
  return letter === 121 ? 92 - 35 : letter - 35;
}

/**
 * Decodes zlib data in base 85 to an ArrayBuffer: five characters hold four bytes. Left-out
 * characters at the end count as the largest digit.
 * @param {string} text
 */
export async function inflate(text) {
  const packed = new Uint8Array(Math.ceil(text.length / 5) * 4);
  const view = new DataView(packed.buffer);
  for (let i = 0, at = 0; i < text.length; at += 4) {
    let word = 0;
    for (const end = i + 5; i < end; i++) {
      word = word * 85 + (i < text.length ? digitOf(text.charCodeAt(i)) : 84);
    }
    view.setUint32(at, word);
  }
  const whole = packed.subarray(0, Math.floor((text.length * 4) / 5));
  return new Response(
    new Blob([whole]).stream().pipeThrough(new DecompressionStream("deflate")),
  ).arrayBuffer();
}
