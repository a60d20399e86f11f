"""Training: pre-training from scratch, fine-tuning, and the loop that both share.

    data.py         examples, packed and padded batches, an order that can be resumed
    vocab.py        a WordPiece vocabulary from text
    pretraining.py  documents -> sentence pairs -> masked tokens
    corpora.py      documents as memory-mapped ids, several corpora with a weight each
    finetuning.py   tables and SQuAD files -> a fine-tuned model
    entities.py     CoNLL and KLUE files -> tags of words or characters
    pairs.py        pairs of texts -> similar vectors
    processes.py    the processes of a run, and the share of the model that each of them holds
    loop.py         the loop: optimiser, schedule, when to measure and to save
    journal.py      the reports of a run: log, bar, TensorBoard
    state.py        the files that a run leaves in its folder, checked for damage
    speedups.py     operators that are faster on a CPU than torch's own, while a step lasts
    metrics.py      accuracy, F1, correlations, entity F1, exact match

The core never imports this package; what it needs beyond the core comes with the extra `[train]`.
"""
