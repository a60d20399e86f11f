// Chooses Korean particles. They depend on the word before, which may be known only at run time,
// such as a number or a prediction. Texts contain both forms, as in "{head}이(가)", and the fitting
// one is kept.

const BOTH_FORMS = /은\(는\)|이\(가\)|을\(를\)|과\(와\)|\(으\)로/gu;

const L_ENDINGS = "178lr"; // 일, 칠, 팔, and the letters 엘, 알 end in ㄹ and take 로

const CONSONANT_ENDINGS = "036mn"; // 영, 삼, 육, 엠, 엔

/**
 * Returns the final sound of a text read aloud: "ㄹ", another "consonant", or a "vowel".
 * @param {string} text
 */
function finalSound(text) {
  const word = text.replace(/\([^()]*\)$/u, ""); // ignores a remark in parentheses
  const [last] = /[\p{L}\p{N}](?=[^\p{L}\p{N}]*$)/u.exec(word) ?? [""];
  if (/[가-힣]/u.test(last)) {
    const coda = (last.charCodeAt(0) - 0xac00) % 28;
    if (coda === 8) {
      return "ㄹ";
    }
    return coda > 0 ? "consonant" : "vowel";
  }
  if (last !== "" && L_ENDINGS.includes(last.toLowerCase())) {
    return "ㄹ";
  }
  const isClosed = last !== "" && CONSONANT_ENDINGS.includes(last.toLowerCase());
  return isClosed ? "consonant" : "vowel";
}

/**
 * Replaces both forms of every particle with the one that fits the word before.
 * @param {string} said
 */
export function withParticles(said) {
  return said.replace(BOTH_FORMS, (forms, offset) => {
    const sound = finalSound(said.slice(0, offset));
    if (forms === "(으)로") {
      return sound === "consonant" ? "으로" : "로";
    }
    const [afterConsonant, afterVowel] = forms.replace(")", "").split("(");
    return sound === "vowel" ? afterVowel : afterConsonant;
  });
}
