/** The bytes behind a text of the page: zlib in base64, as an ArrayBuffer. */
async function inflate(text) {
  const packed = Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
  return new Response(
    new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate")),
  ).arrayBuffer();
}
