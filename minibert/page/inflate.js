/** The bytes behind a text of the page: zlib in base64, as an ArrayBuffer. */
async function inflate(text) {
  const letters = atob(text);
  const packed = new Uint8Array(letters.length);
  for (let i = 0; i < letters.length; i++) {
    packed[i] = letters.charCodeAt(i); // in a loop: of millions, an iterator takes a second
  }
  return new Response(
    new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate")),
  ).arrayBuffer();
}
