import { testArticle } from "./article.js";

const { page, test, assert } = await testArticle("ko");

test("a particle follows the last sound before it, also of a number", () => {
  const { withParticles } = page;
  for (const [text, said] of Object.entries({
    "헤드 {x}이(가)": { 1: "헤드 1이", 2: "헤드 2가", 0: "헤드 0이" },
    "{x}(으)로": { "0.40": "0.40으로", 0.07: "0.07로", 0.15: "0.15로", "“먹고”": "“먹고”로" },
    "{x}을(를)": { 책: "책을", "“배”": "“배”를", "[MASK]": "[MASK]를", "책(0.2)": "책(0.2)을" },
    "{x}과(와) {x}은(는)": { 물: "물과 물은", 시: "시와 시는" },
  })) {
    for (const [value, sentence] of Object.entries(said)) {
      assert.equal(withParticles(text.replaceAll("{x}", value)), sentence);
    }
  }
});
