// Rules for the JavaScript in minibert/learn/page, and for its tests here.
const names = (text) => Object.fromEntries(text.split(/\s+/).map((name) => [name, "readonly"]));

export default [
  {
    languageOptions: {
      sourceType: "module",
      ecmaVersion: 2024,
      globals: names(
        "Blob CSS WebAssembly DecompressionStream ImageData NodeFilter OffscreenCanvas ResizeObserver " +
          "Response TextDecoder URL URLSearchParams Worker addEventListener atob btoa " +
          "cancelAnimationFrame clearTimeout " +
          "console document getComputedStyle history innerHeight innerWidth localStorage location " +
          "matchMedia navigator performance requestAnimationFrame sessionStorage setTimeout " +
          "structuredClone window",
      ),
    },
    rules: {
      curly: ["error", "all"],
      eqeqeq: "error",
      "no-nested-ternary": "error",
      "no-redeclare": "error",
      "no-sequences": "error",
      "no-shadow-restricted-names": "error",
      "no-undef": "error",
      "no-unused-vars": "error",
      "no-var": "error",
      "one-var": ["error", "never"],
    },
  },
  {
    files: ["**/tests/page/*.js"],
    languageOptions: { globals: { process: "readonly" } },
  },
  {
    files: ["**/model/worker.js"],
    languageOptions: { globals: { onmessage: "writable", postMessage: "readonly" } },
  },
];
