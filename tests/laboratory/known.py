"""All differences from the references that the laboratory knows of, each with its reason."""

from __future__ import annotations

import functools
import importlib
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from conftest import tiny_config, with_reference
from programs import Failure, Known, outcome
from tiny_folder import sentence_folder

import minibert
from minibert import SentenceEmbedder
from minibert.tokenization.added import AddedToken

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
SMALL: dict[str, Any] = {
    "vocab_size": 8,
    "hidden_size": 4,
    "num_attention_heads": 2,
    "num_hidden_layers": 1,
    "intermediate_size": 6,
    "max_position_embeddings": 6,
}


def libraries() -> tuple[Any, Any]:
    return minibert, importlib.import_module("transformers")


def small(library: Any, head: str = "BertModel", **fields: Any) -> Any:
    """A small model of a library, the same one of both."""
    torch.manual_seed(0)
    return getattr(library, head)(library.BertConfig(**SMALL, **fields)).eval()


def outcomes(program: Callable[[Any], Any]) -> tuple[Any, Any]:
    """What a program on a library does with both: its result, or the type `Failure`."""
    found, expected = (outcome(lambda library=library: program(library)) for library in libraries())
    return tuple(Failure if isinstance(x, Failure) else x for x in (found, expected))


def only_here(program: Callable[[Any], Any], fails: bool = True) -> bool:
    """Whether a program raises an error only here, or only in transformers."""
    found, expected = outcomes(program)
    failed, worked = (found, expected) if fails else (expected, found)
    return failed is Failure and worked is not Failure


def masks_are_added() -> bool:
    """Whether transformers still adds a mask of four dimensions under eager attention."""
    importlib.import_module("transformers")
    pair = with_reference("BertModel", tiny_config(attn_implementation="eager"))
    ids, mask = torch.tensor([[1, 7, 2]]), torch.tensor([[[[True, True, False]]]])
    return not any(
        torch.equal(*(model(ids, attention_mask=values).last_hidden_state for model in pair))
        for values in (mask, mask.long())
    )


def masks_of_any_values_are_refused() -> bool:
    ids = torch.tensor([[1, 7, 2]])
    masks = (torch.tensor([[[[0.0, 0.0, -1.5]]]]), torch.tensor([[1, 1, -1]]))
    return all(
        only_here(lambda library, mask=mask: small(library)(ids, attention_mask=mask))
        for mask in masks
    )


def labels_of_other_kinds_are_refused() -> bool:
    ids, choices = torch.tensor([[1, 7]]), torch.tensor([[[1, 7], [2, 3]]])
    programs: tuple[tuple[str, Any, Any], ...] = (
        ("BertForMaskedLM", ids, torch.tensor([[1], [7]])),
        ("BertForMultipleChoice", choices, torch.tensor([[0.5, 0.5]])),
    )
    return all(
        only_here(lambda library, p=program: small(library, p[0])(p[1], labels=p[2]))
        for program in programs
    )


def more_is_accepted() -> bool:
    ids = torch.tensor([[1, 7, 2]])
    calls: tuple[tuple[str, dict[str, Any]], ...] = (
        ("BertModel", {"input_ids": ids[:0]}),
        ("BertModel", {"input_ids": ids, "attention_mask": torch.ones(1, 3, 3).tril()}),
        ("BertModel", {"input_ids": ids, "position_ids": torch.arange(3)}),
        ("BertForMaskedLM", {"input_ids": ids, "labels": ids.int()}),
    )
    # transformers leaves out a mask of ones before it looks at the others
    return all(only_here(lambda lib, c=c: small(lib, c[0])(**c[1]), fails=False) for c in calls)


def outputs_of(*names: str, **options: Any) -> Callable[[Any], list[str]]:
    """A program that names the outputs of a model with eager attention."""

    def program(library: Any) -> list[str]:
        model = small(library, attn_implementation="eager", **dict.fromkeys(names, True))
        return list(model(torch.tensor([[1]]), **options).keys())

    return program


def labels_contradict(library: Any) -> int:
    names = {0: "a", 1: "b"}
    count: int = library.BertConfig(**SMALL, num_labels=4, id2label=names).num_labels
    return count


def labels_contradict_a_folder(library: Any) -> int:
    with tempfile.TemporaryDirectory() as folder:
        small(library, "BertForSequenceClassification", num_labels=3).save_pretrained(folder)
        model = library.BertForSequenceClassification.from_pretrained(
            folder, num_labels=4, id2label={0: "a", 1: "b"}, ignore_mismatched_sizes=True
        )
    count: int = model.config.num_labels
    return count


def keeps_a_bias(library: Any) -> bool:
    """Whether an untied model computes the same when it is resized, saved and loaded."""
    model = small(library, "BertForMaskedLM", tie_word_embeddings=False)
    with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
        model.get_output_embeddings().bias.fill_(1.0)
        model.cls.predictions.bias.fill_(1.0)
        model.resize_token_embeddings(6)
        model.save_pretrained(folder)
        loaded = type(model).from_pretrained(folder).eval()
        return torch.equal(*(each(torch.tensor([[1, 2]])).logits for each in (model, loaded)))


def keeps_a_decoder(library: Any) -> bool:
    """Whether a model whose tie was switched off computes the same when it is saved and loaded."""
    model = small(library, "BertForMaskedLM")
    model.config.tie_word_embeddings = False
    with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        loaded = type(model).from_pretrained(folder).eval()
        return torch.equal(*(each(torch.tensor([[1, 2]])).logits for each in (model, loaded)))


def dtype_of_a_file(library: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        small(library).save_pretrained(folder)
        return library.BertConfig.from_pretrained(folder).dtype


def vocabulary_of_new_embeddings(library: Any) -> tuple[int, int]:
    model = small(library, "BertForMaskedLM")
    model.set_input_embeddings(torch.nn.Embedding(9, 4))
    return model.config.vocab_size, len(model.get_output_embeddings().weight)


def tokenizer(library: Any, **options: Any) -> Any:
    return library.BertTokenizer(
        vocab={token: number for number, token in enumerate([*SPECIAL, "a"])}, **options
    )


def white_space_is_shown(library: Any) -> list[str]:
    added = {minibert: AddedToken}.get(library) or library.AddedToken
    new = tokenizer(library)
    new.add_tokens(added("<new>", rstrip=True))
    tokens: list[str] = new.tokenize("<new> a")
    return tokens


def tokens_of_one_lower_case(library: Any) -> set[int]:
    """The ids of a text that is two added tokens, in forty tokenizers."""
    found = set()
    for _ in range(40):
        new = tokenizer(library, do_lower_case=True)
        new.add_tokens(["ab", "AB"])
        found.add(new("ab")["input_ids"][1])
    return found


def arrays_of_objects(library: Any) -> Any:
    return tokenizer(library)(["a", "a a"], return_tensors="np")


def padded_without_masks(library: Any) -> list[int]:
    new = tokenizer(library)
    rows = new.pad([dict(new(text).items()) for text in ("a", "a a")], return_attention_mask=False)
    return [len(row) for row in rows["attention_mask"]]


def padding_of_null(library: Any) -> str | None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "vocab.txt").write_text("\n".join([*SPECIAL, "a"]), encoding="utf-8")
        settings = '{"pad_token": null, "tokenizer_class": "BertTokenizer"}'
        Path(folder, "tokenizer_config.json").write_text(settings, encoding="utf-8")
        token: str | None = library.BertTokenizer.from_pretrained(folder).pad_token
        return token


@functools.cache
def embedders() -> tuple[SentenceEmbedder, Any]:
    """A model of both libraries that keeps two dimensions, and has a prompt for passages."""
    library = importlib.import_module("sentence_transformers")
    pooling = ("Pooling", {"embedding_dimension": 32, "pooling_mode": "mean"})
    with tempfile.TemporaryDirectory() as folder:
        settings = {"truncate_dim": 2, "prompts": {"passage": "how tall "}}
        sentence_folder(Path(folder), pooling, layers=1, config_sentence_transformers=settings)
        ours = SentenceEmbedder.from_pretrained(folder, precision=None)
        theirs = library.SentenceTransformer(folder, device="cpu", truncate_dim=2)
    return ours, theirs


def raises_only_here(**options: Any) -> bool:
    """Whether a call of `encode` raises an error only here."""
    found, expected = (outcome(lambda m=m: m.encode("hello", **options)) for m in embedders())
    return isinstance(found, Failure) and not isinstance(expected, Failure)


def passages_have_no_prompt() -> bool:
    """Whether sentence-transformers encodes a document without the prompt for passages."""
    ours, theirs = (model.encode_document("hello") for model in embedders())
    plain = embedders()[0].encode("hello")
    return not np.allclose(ours, plain) and np.allclose(theirs, plain, atol=1e-6)


def rows_keep_a_former_token() -> bool:
    """Whether a new [SEP] is in the rows of transformers only after saving and loading."""
    vocabulary = {token: number for number, token in enumerate([*SPECIAL, "a", "b"])}
    rows = []
    for library in (minibert, importlib.import_module("transformers")):
        tokenizer = library.BertTokenizer(vocab=vocabulary)
        tokenizer.sep_token = "b"
        rows.append(tokenizer("a")["input_ids"])
    return rows == [[2, 5, 6], [2, 5, 3]]


def lower_case_is_kept() -> bool:
    """Whether transformers decodes a special token that it has in lower case."""
    vocabulary = {token: number for number, token in enumerate([*SPECIAL, "a"])}
    transformers = importlib.import_module("transformers")
    texts = []
    for library, added in ((minibert, AddedToken), (transformers, transformers.AddedToken)):
        tokenizer = library.BertTokenizer(vocab=vocabulary)
        tokenizer.add_tokens(added("[MASK]", normalized=True), special_tokens=True)
        texts.append(tokenizer.decode([4, 5], skip_special_tokens=True))
    return texts == ["a", "[mask] a"]


def added_again_is_left_out() -> bool:
    """Whether transformers leaves out a special token that has become an ordinary one."""
    vocabulary = {token: number for number, token in enumerate([*SPECIAL, "a"])}
    texts = []
    for library in (minibert, importlib.import_module("transformers")):
        tokenizer = library.BertTokenizer(vocab=vocabulary)
        tokenizer.add_tokens("<new>", special_tokens=True)
        tokenizer.add_tokens("<new>")
        texts.append(tokenizer.decode([5, 6], skip_special_tokens=True))
    return texts == ["a <new>", "a"]


def former_mask_is_ordinary() -> bool:
    """Whether transformers saves a former [MASK] as an ordinary token, and minibert does not."""
    vocabulary = {token: number for number, token in enumerate([*SPECIAL, "a", "b"])}
    texts = []
    for library in (minibert, importlib.import_module("transformers")):
        tokenizer = library.BertTokenizer(vocab=vocabulary, do_lower_case=False)
        tokenizer.add_tokens("[MASK]")
        tokenizer.mask_token = "b"
        with tempfile.TemporaryDirectory() as folder:
            tokenizer.save_pretrained(folder)
            tokenizer = library.BertTokenizer.from_pretrained(folder)
        texts.append(tokenizer.decode([4, 5], skip_special_tokens=True))
    return texts == ["a", "[MASK] a"]


def masks_of_another_length_are_refused() -> bool:
    ids = torch.tensor([[1, 7, 2]])
    masks = (torch.ones(1, 2).long(), torch.ones(1, 4).long())
    return all(
        only_here(lambda library, mask=mask: small(library)(ids, attention_mask=mask * 1))
        for mask in masks
    )


def tensors_beside_a_folder(library: Any) -> torch.dtype:
    model = small(library)
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        state = {name: value.half() for name, value in model.state_dict().items()}
        dtype: torch.dtype = type(model).from_pretrained(folder, state_dict=state).dtype
    return dtype


def assigned_tensors_are_tied(library: Any) -> bool:
    model = small(library, "BertForMaskedLM")
    model.load_state_dict(model.state_dict(), assign=True)
    return model.get_output_embeddings().weight is model.get_input_embeddings().weight


def tied_tensors_are_named_twice() -> bool:
    """Whether transformers names a tied tensor that a folder lacks twice."""
    missing = []
    with tempfile.TemporaryDirectory() as folder:
        minibert.BertModel(tiny_config()).save_pretrained(folder)
        for library in (minibert, importlib.import_module("transformers")):
            load = library.BertForMaskedLM.from_pretrained
            missing.append(set(load(folder, output_loading_info=True)[1]["missing_keys"]))
    return missing[1] - missing[0] == {"cls.predictions.decoder.bias"}


KNOWN: list[Known] = [
    Known(
        "masks of four dimensions under eager attention",
        "transformers adds them to the scores",
        "docs/parity.md",
        "A mask of four dimensions, of booleans or whole numbers, hides keys under eager",
        masks_are_added,
    ),
    Known(
        "masks of other values",
        "1 - mask, or a mask added by mistake, would be computed with in silence",
        "docs/parity.md",
        "Others, and negative values of other masks, raise an error.",
        masks_of_any_values_are_refused,
    ),
    Known(
        "masks of another length",
        "it belongs to other texts",
        "docs/parity.md",
        "A mask longer or shorter than the texts raises an error.",
        masks_of_another_length_are_refused,
    ),
    Known(
        "labels of other kinds",
        "a wrong shape that happens to have as many numbers would be learned",
        "docs/parity.md",
        "transformers also takes lists for some heads, flattened labels, and probabilities",
        labels_of_other_kinds_are_refused,
    ),
    Known(
        "what only minibert takes",
        "each has one meaning",
        "docs/parity.md",
        "An empty batch, a mask (batch, seq, seq), `position_ids` (seq,) and labels of int32 work.",
        more_is_accepted,
    ),
    Known(
        "cross attentions",
        "an encoder has none",
        "docs/parity.md",
        "`BertModel` has no `cross_attentions`.",
        lambda: (
            outcomes(outputs_of(output_attentions=True))[1][-1] == "cross_attentions"
            and outcomes(outputs_of(output_attentions=True))[0][-1] == "attentions"
        ),
    ),
    Known(
        "an output that is asked for by None",
        "transformers 4 read it so, and wrappers pass it on",
        "docs/parity.md",
        "`output_hidden_states=None` means what the configuration says.",
        lambda: (
            len(
                {*map(len, outcomes(outputs_of("output_hidden_states", output_hidden_states=None)))}
            )
            == 2
        ),
    ),
    Known(
        "numbers and names of labels that contradict each other",
        "either may be the mistake",
        "docs/parity.md",
        "`num_labels` that contradicts `id2label` raises an error.",
        lambda: (
            outcomes(labels_contradict) == (Failure, 4)
            and outcomes(labels_contradict_a_folder) == (Failure, 2)
        ),
    ),
    Known(
        "a resized model that is untied",
        "transformers ties its two biases, saves one, and draws the one that computes",
        "docs/parity.md",
        "An untied masked language model that was resized keeps its bias",
        lambda: outcomes(keeps_a_bias) == (True, False),
    ),
    Known(
        "a tie that is switched off",
        "transformers saves the shared tensor once, and draws the decoder when it loads",
        "docs/parity.md",
        "A model whose tie was switched off after it was built keeps its decoder",
        lambda: outcomes(keeps_a_decoder) == (True, False),
    ),
    Known(
        "weights of zeros",
        "transformers reads `initializer_range or 0.02`",
        "docs/parity.md",
        "`initializer_range=0` makes weights of zeros.",
        lambda: (
            [
                bool(small(library, initializer_range=0.0).pooler.dense.weight.any())
                for library in libraries()
            ]
            == [False, True]
        ),
    ),
    Known(
        "new embeddings of a tied model",
        "transformers ties them later",
        "docs/parity.md",
        "`set_input_embeddings` of a tied model also changes the output embeddings",
        lambda: outcomes(vocabulary_of_new_embeddings) == ((9, 9), (8, 8)),
    ),
    Known(
        "the dtype of a configuration",
        "a configuration is read without torch",
        "docs/parity.md",
        "`config.dtype` is a name as in the file",
        lambda: outcomes(dtype_of_a_file) == ("float32", torch.float32),
    ),
    Known(
        "two added tokens that are the same in lower case",
        "tokenizers looks them up in a table whose order is drawn",
        "docs/parity.md",
        "| one of them, by chance | the first one |",
        lambda: outcomes(tokens_of_one_lower_case) == ({6}, {6, 7}),
    ),
    Known(
        "white space beside an added token",
        "transformers shows what the token has taken from the text",
        "docs/parity.md",
        "`tokens()` and `tokenize` show the white space as well | show the token",
        lambda: outcomes(white_space_is_shown) == (["<new>", "a"], ["<new> ", "a"]),
    ),
    Known(
        "arrays of objects",
        "no model takes them",
        "docs/parity.md",
        '`return_tensors="np"` | an array of objects | raises an error',
        lambda: only_here(arrays_of_objects),
    ),
    Known(
        "rows that are padded without their mask",
        "transformers leaves a mask of another length than the ids",
        "docs/parity.md",
        "and rows with a mask | pads the ids alone | pads both",
        lambda: outcomes(padded_without_masks) == ([4, 4], [3, 4]),
    ),
    Known(
        "names of extra special tokens",
        "minibert has no attributes but those of BERT",
        "docs/parity.md",
        "is also `tokenizer.x_token` | is a special token without that name",
        lambda: (
            [
                getattr(tokenizer(library, extra_special_tokens={"x_token": "a"}), "x_token", None)
                for library in libraries()
            ]
            == [None, "a"]
        ),
    ),
    Known(
        "a padding token of null",
        "a batch needs one",
        "docs/parity.md",
        '`"pad_token": null` in `tokenizer_config.json` | no padding token | [PAD]',
        lambda: outcomes(padding_of_null) == ("[PAD]", None),
    ),
    Known(
        "more dimensions than the model keeps",
        "in sentence-transformers the call decides, and here the rest of a vector is not computed",
        "docs/migrating.md",
        "A `truncate_dim` of a call above the model's raises an error",
        lambda: raises_only_here(truncate_dim=3),
    ),
    Known(
        "all features of a model",
        "a dict of the tensors of sentence-transformers has no place here",
        "docs/migrating.md",
        "so does `output_value=None`.",
        lambda: raises_only_here(output_value=None),
    ),
    Known(
        "a document of a model with a prompt for passages",
        "the guide of sentence-transformers says so, but there every model has an empty document",
        "docs/migrating.md",
        "`encode_document` the prompt `passage` or `corpus`, then the default one.",
        passages_have_no_prompt,
    ),
    Known(
        "another [CLS] or [SEP]",
        "transformers makes its template when it loads",
        "docs/parity.md",
        "rows keep the former one until the tokenizer is saved and loaded | rows have the new one",
        rows_keep_a_former_token,
    ),
    Known(
        "a special token that is normalized",
        "transformers looks for its former name among the special tokens",
        "docs/parity.md",
        "`decode(skip_special_tokens=True)` keeps it in lower case | leaves it out",
        lower_case_is_kept,
    ),
    Known(
        "a special token that becomes an ordinary one",
        "tokenizers never takes a token from its set of special tokens",
        "docs/parity.md",
        "leaves it out until the tokenizer is saved and loaded | keeps it",
        added_again_is_left_out,
    ),
    Known(
        "a former [MASK] that became an ordinary token",
        "transformers keeps what a token was added as, also while it has a role",
        "docs/parity.md",
        "`[MASK]` is an ordinary token once the tokenizer is saved and loaded",
        former_mask_is_ordinary,
    ),
    Known(
        "a tied tensor that a folder lacks",
        "transformers looks for each name, and a file has each tensor once",
        "docs/parity.md",
        "transformers also names `cls.predictions.decoder.bias`.",
        tied_tensors_are_named_twice,
    ),
    Known(
        "tensors beside a folder",
        "transformers 4 took them, and tools that gather weights pass them",
        "docs/parity.md",
        "`from_pretrained(folder, state_dict=tensors)` reads the config of the folder alone.",
        lambda: only_here(tensors_beside_a_folder, fails=False),
    ),
    Known(
        "tied tensors that are assigned",
        "PyTorch makes a parameter for each name, which training would set apart",
        "docs/parity.md",
        "Tied tensors stay tied after `load_state_dict(tensors, assign=True)`.",
        lambda: outcomes(assigned_tensors_are_tied) == (True, False),
    ),
]
