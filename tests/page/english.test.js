import { testArticle } from "./article.js";

await testArticle("en");
