"""Chat templates: read, written and rendered as transformers does it."""

import json
import pickle
from enum import StrEnum

import numpy as np
import pytest
import torch
import transformers

from minibert import AutoTokenizer, BertTokenizer

TOKENS = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    *"hi bye user assistant : ! ? how are you".split(),
]
PLAIN = "{% for m in messages %}{{ m['role'] + ': ' + m['content'] + ' [SEP] ' }}{% endfor %}"
MARKED = """{{ cls_token }}
{%- for m in messages %}
    {%- if m.role == 'assistant' %}
        {{- ' assistant: ' }}{% generation %}{{ m.content }}{% endgeneration %}{{ sep_token }}
    {%- else %}
        {{- ' ' + m.role + ': ' + m.content + sep_token }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ ' assistant:' }}{% endif %}"""
TRIMMED = "{% for m in messages %}{{ m.role + ':' + m.content | trim + '!\\n' }}{% endfor %}"
CHAT = [
    {"role": "user", "content": "hi! how are you?"},
    {"role": "assistant", "content": "hi you", "tool_calls": None},
]
LONG = [*CHAT, {"role": "user", "content": "bye"}, {"role": "assistant", "content": "bye bye!"}]


@pytest.fixture
def vocabulary(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join(TOKENS), encoding="utf-8")
    return path


@pytest.fixture
def both(vocabulary):
    folder = vocabulary.parent
    return BertTokenizer.from_pretrained(folder), transformers.BertTokenizer.from_pretrained(folder)


@pytest.mark.parametrize(
    "options",
    [
        {"chat_template": PLAIN},
        {"chat_template": MARKED},
        {"chat_template": MARKED, "add_generation_prompt": True},
        {"chat_template": MARKED, "return_assistant_tokens_mask": True},
        {"chat_template": PLAIN, "continue_final_message": True},
        {"chat_template": TRIMMED, "continue_final_message": True},
        {"chat_template": "{{ messages | length }}{{ tools | tojson }}", "tools": [{"name": "é<"}]},
        {"chat_template": "{{ documents[0].title }}", "documents": [{"title": "hi"}]},
        {"chat_template": "{{ topic }} {{ n + 1 }}", "topic": "bye", "n": np.int64(2)},
        {"chat_template": "{% for m in messages %}{{ m.role }}{% break %}{% endfor %}"},
        {"chat_template": "{{ messages[1].tool_calls is defined }}"},
        {"chat_template": PLAIN, "tokenizer_kwargs": {"return_token_type_ids": False}},
    ],
)
def test_rendered_and_encoded_as_transformers_does(both, options):
    ours, theirs = both
    many = {"padding": True, "return_tensors": "pt"}
    for chat, form in ((CHAT, {}), ([CHAT, LONG], many), ([CHAT, LONG], {}), (LONG, many)):
        expected = theirs.apply_chat_template(chat, **form, **options)
        batch = ours.apply_chat_template(chat, **form, **options)
        assert {name: to_list(batch[name]) for name in batch} == {
            name: to_list(expected[name]) for name in expected
        }
        if "return_assistant_tokens_mask" not in options:
            texts = [
                tokenizer.apply_chat_template(chat, tokenize=False, **options) for tokenizer in both
            ]
            assert texts[0] == texts[1]


@pytest.mark.parametrize("template", [PLAIN, TRIMMED])
def test_a_continued_message_that_ends_with_white_space(both, template):
    chat = [*CHAT, {"role": "assistant", "content": "bye "}]
    options = {"chat_template": template, "continue_final_message": True, "tokenize": False}
    texts = [tokenizer.apply_chat_template(chat, **options) for tokenizer in both]
    assert texts[0] == texts[1]
    assert texts[0].endswith("bye" if template == TRIMMED else "bye ")


def test_the_mask_ends_with_the_message_that_ends_with_white_space():
    """That of transformers goes on to the end of the row, because no token has that character."""
    tokenizer = BertTokenizer(TOKENS, chat_template=MARKED)
    chat = [{"role": "assistant", "content": "hi you "}, {"role": "user", "content": "bye"}]
    batch = tokenizer.apply_chat_template(chat, return_assistant_tokens_mask=True)
    tokens = tokenizer.convert_ids_to_tokens(batch["input_ids"])
    generated = [x for x, mask in zip(tokens, batch["assistant_masks"], strict=True) if mask]
    assert generated == ["hi", "you"]


def to_list(values):
    return values.tolist() if torch.is_tensor(values) else list(values)


def test_a_mask_of_a_truncated_row(both):
    ours, _ = both
    options = {"chat_template": MARKED, "return_assistant_tokens_mask": True}
    whole = ours.apply_chat_template(LONG, **options)
    short = ours.apply_chat_template(LONG, truncation=True, max_length=13, **options)
    assert sum(whole["assistant_masks"]) == 5
    assert short["assistant_masks"] == whole["assistant_masks"][:13]
    assert sum(short["assistant_masks"]) == 1


@pytest.mark.parametrize(
    "templates", [PLAIN, {"default": PLAIN, "tool_use": "tools"}, {"a": "1", "b.c": "2\r\n"}]
)
@pytest.mark.parametrize("files", [True, False])
def test_templates_survive_both_libraries(tmp_path, both, templates, files):
    for tokenizer, folder in zip(both, ("ours", "theirs"), strict=True):
        tokenizer.chat_template = templates
        tokenizer.save_pretrained(tmp_path / folder, save_jinja_files=files)
        stored = json.loads((tmp_path / folder / "tokenizer_config.json").read_bytes())
        assert ("chat_template" in stored) is not files
        loaded = AutoTokenizer.from_pretrained(tmp_path / folder)
        assert loaded.chat_template == templates
        # transformers reads files with the newlines of the system
        theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / folder).chat_template
        assert str(theirs).replace("\\r", "") == str(templates).replace("\\r", "")
        assert pickle.loads(pickle.dumps(loaded)).chat_template == templates
    names = ["ours", "theirs"]
    written = [sorted(p.name for p in (tmp_path / name).rglob("*.jinja")) for name in names]
    assert written[0] == written[1]


def test_saving_replaces_the_templates_of_before(tmp_path):
    tokenizer = BertTokenizer(TOKENS, chat_template={"default": "1", "other": "2"})
    paths = tokenizer.save_pretrained(tmp_path)
    assert all((tmp_path / path).is_file() for path in paths)
    tokenizer.chat_template = {"other": "3"}
    tokenizer.save_pretrained(tmp_path)
    assert BertTokenizer.from_pretrained(tmp_path).chat_template == {"other": "3"}
    tokenizer.chat_template = None
    tokenizer.save_pretrained(tmp_path)
    assert BertTokenizer.from_pretrained(tmp_path).chat_template is None
    assert not list(tmp_path.rglob("*.jinja"))


def test_which_template_is_used():
    tokenizer = BertTokenizer(TOKENS, chat_template={"default": "hi", "tool_use": "bye"})
    assert tokenizer.get_chat_template() == "hi"
    assert tokenizer.get_chat_template(tools=[{}]) == "bye"
    assert tokenizer.get_chat_template("tool_use") == "bye"
    assert tokenizer.get_chat_template("{{ 1 }}") == "{{ 1 }}"
    tokenizer.chat_template = {"a": "1", "b": "2"}
    with pytest.raises(ValueError, match="one of a, b"):
        tokenizer.get_chat_template()


class Role(StrEnum):
    USER = "user"


def test_a_template_sees_plain_values_only():
    tokenizer = BertTokenizer(TOKENS, chat_template="{{ messages[0].role }} {{ x }}")
    chat = [{"role": Role.USER, "content": "hi"}]
    assert tokenizer.apply_chat_template(chat, tokenize=False, x=torch.tensor(1)) == "user 1"
    with pytest.raises(TypeError, match="not a function"):
        tokenizer.apply_chat_template(chat, tools=[to_list])
    tokenizer.chat_template = "{{ messages.__class__.__mro__ }}"
    with pytest.raises(ValueError, match="unsafe"):
        tokenizer.apply_chat_template(chat)


@pytest.mark.parametrize(
    ("template", "options", "message"),
    [
        (None, {}, "has no chat template"),
        ("{{ raise_exception('no system') }}", {}, "fails: no system"),
        ("a\n{% for %}", {}, "fails in line 2"),
        ("{{ missing.role }}", {}, "fails: 'missing' is undefined"),
        ("hi", {"continue_final_message": True}, "leaves out"),
        (PLAIN, {"continue_final_message": "thinking"}, "needs a text in 'thinking'"),
        (PLAIN, {"continue_final_message": True, "add_generation_prompt": True}, "excludes"),
        (PLAIN, {"return_assistant_tokens_mask": True, "tokenize": False}, "needs tokenize=True"),
        (PLAIN, {"sanitize_control_tokens": True}, "not supported"),
        (PLAIN, {"conversation": []}, "at least one message"),
    ],
)
def test_errors(template, options, message):
    tokenizer = BertTokenizer(TOKENS, chat_template=template)
    with pytest.raises(ValueError, match=message):
        tokenizer.apply_chat_template(**{"conversation": CHAT, **options})


def test_what_is_no_conversation():
    tokenizer = BertTokenizer(TOKENS, chat_template=PLAIN)
    for value in ("hi", ["hi"], {"role": "user"}):
        with pytest.raises(TypeError, match="list of messages"):
            tokenizer.apply_chat_template(value)


def test_what_is_no_template(tmp_path):
    tokenizer = BertTokenizer(TOKENS)
    with pytest.raises(ValueError, match="chat_template should be"):
        tokenizer.chat_template = {"a": 1}
    tokenizer.chat_template = {"default": "a", "../../out": "b"}
    with pytest.raises(ValueError, match="called '../../out'"):
        tokenizer.save_pretrained(tmp_path / "folder")
    assert not list(tmp_path.rglob("*"))


def test_tokens_of_the_tokenizers_library_have_their_ids():
    library = pytest.importorskip("tokenizers")
    added = {len(TOKENS): library.AddedToken("<x>", special=True)}
    tokenizer = BertTokenizer(TOKENS, added_tokens_decoder=added, merges=[])
    assert tokenizer("<x>")["input_ids"] == [2, len(TOKENS), 3]
