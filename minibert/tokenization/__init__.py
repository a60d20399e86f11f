"""The tokenizer as a lesson, to be read in this order.

```
wordpiece.py        words become pieces of the vocabulary: the idea, and the easiest file
added.py            special and added tokens, which are found in the text before that
vocabulary.py       tokens and their ids, both ways
pipeline.py         the steps together, one chunk of text at a time
batch_rows.py       tokens become rows: [CLS] and [SEP], truncation, padding
encoding.py         the result, and where in the text each token came from
tokenizer_json.py   tokenizer.json, whose parts may differ from BERT's
spec.py             vocab.txt, tokenizer.json and the other files, read and written
tokenizer.py        the whole
basic.py            a text becomes words, the step before WordPiece: the details of Unicode, so last
```

For reference: `unicode.py`, the kind of each character, with the exceptions of the library's tables
in `unicode_tables.py`. A vocabulary comes from `learning.py`, and `coverage.py` warns of texts that
it does not cover. `compat/tokenizer_names.py` has the names of transformers that its tools require.
"""
