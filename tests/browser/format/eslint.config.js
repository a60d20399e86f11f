// The rules for the JavaScript of minibert/page. The page joins its files into one script, so that names are
// checked over all of them at once (no-undef) by the test beside this file.
export default [
  {
    languageOptions: { sourceType: "script", ecmaVersion: 2024 },
    rules: {
      curly: ["error", "all"],
      eqeqeq: "error",
      "no-nested-ternary": "error",
      "no-sequences": "error",
      "no-shadow-restricted-names": "error",
      "no-var": "error",
      "one-var": ["error", "never"],
    },
  },
];
