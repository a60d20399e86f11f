// Rules for the JavaScript in minibert/learn. The page joins its files into one script, so
// test_format.py checks undefined names (no-undef) in all files together.
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
