"""The tokenizer as a lesson, to be read in this order.

```
basic.py          a text becomes words
wordpiece.py      words become pieces of the vocabulary
added.py          special and added tokens, which are found in the text before that
vocabulary.py     tokens and their ids, both ways
pipeline.py       the steps put together, a chunk of text at a time
rows.py           tokens become rows: [CLS] and [SEP], truncation, padding
encoding.py       what is returned, and where in the text each token came from
files.py          vocab.txt, tokenizer.json and the rest, read and written
tokenizer.py      the whole
```

To be looked up: `unicode.py`, what each character is, with the exceptions of the reference's tables; `learning.py`,
where a vocabulary comes from; `compatibility.py`, what only other libraries' tools ask of a tokenizer.
"""
