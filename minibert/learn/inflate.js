/** Decodes zlib data in base64 to an ArrayBuffer. */
async function inflate(text) {
  const letters = atob(text);
  const packed = new Uint8Array(letters.length);
  for (let i = 0; i < letters.length; i++) {
    packed[i] = letters.charCodeAt(i); // a loop, because an iterator takes a second for millions
  }
  return new Response(
    new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate")),
  ).arrayBuffer();
}
