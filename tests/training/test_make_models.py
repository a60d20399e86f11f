"""The recipe of the bundled models, part by part, with small inputs."""

from __future__ import annotations

import lzma
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import tiny_config
from make_models import Recipe
from recipe import measures, student, table, texts
from recipe.e5 import E5, E5File, E5Tokenizer
from recipe.further import graded_loss
from recipe.mixtures import AsAsked
from recipe.models import MODELS
from recipe.particles import Particles, follows, words_with_particles
from recipe.space import Space, principal_components, unit
from recipe.teachers import aligned_to
from recipe.words import WordTeacher, states_of_tokens
from safetensors.torch import load_file

from minibert import BertForMaskedLM, BertForPreTraining, BertModel, BertTokenizer, SentenceEmbedder
from minibert.layouts import PackedLayout
from minibert.training.data import pack
from minibert.training.pretraining import single_texts

pytestmark = pytest.mark.usefixtures("one_thread")


def test_vectors_of_a_teacher_are_rotated_to_those_of_the_student() -> None:
    """The teacher's vectors are the student's after a rotation and a shift, in more dimensions."""
    rng = np.random.default_rng(0)
    student = rng.normal(size=(500, 6)).astype(np.float32)
    student -= student.mean(0)
    directions = np.linalg.qr(rng.normal(size=(9, 9)))[0][:6]
    teacher = (student @ directions + rng.normal(size=9)).astype(np.float32)
    np.testing.assert_allclose(aligned_to(student, teacher), unit(student), atol=1e-3)


def test_a_piece_is_split_into_a_noun_and_its_particle() -> None:
    """밥을 is one piece in kcbert, so 밥 would never occur before 을. 가을 and 고양이 are nouns."""
    pieces = [
        "[MASK]",
        "밥",
        "밥을",
        "가을",
        "고양",
        "고양이",
        "먹었다",
        "##을",
        "##은",
        "##이",
        "##에",
        "##도",
        "영화",
        "영화도",
    ]
    corpus = (
        ["밥을 밥은 밥이 밥에 밥도"] * 3
        + ["영화를 영화는 영화에 영화도", "가을 가은 가이"] * 4
        + ["고양이"] * 20
    )
    splits = {
        pieces[whole]: [pieces[part] for part in parts]
        for whole, parts in words_with_particles(pieces, corpus).items()
    }
    # A noun occurs before four particles or more. 를 and 는 are not pieces here, so 영화 is none.
    assert splits == {"밥을": ["밥", "##을"]}
    assert follows("서울", "로")
    assert follows("밥", "으로")
    assert not follows("바다", "을")
    assert follows("바다", "에서")


def test_masked_nouns_before_particles() -> None:
    """The noun of a split piece is masked, and the labels restore the sentence."""
    tokenizer = BertTokenizer.from_pretrained("minibert-ko")
    names = ["밥을", "밥", "##을", "있다"]
    whole, noun, particle, verb = tokenizer.convert_tokens_to_ids(names)
    cls, sep = tokenizer.cls_token_id, tokenizer.sep_token_id
    ids = np.array([cls, whole, verb, sep])
    example = {"input_ids": ids, "labels": np.full_like(ids, -100)}
    data = Particles(
        lambda _: [example] * 50,
        tokenizer,
        {whole: (noun, particle)},
        nouns=1.0,
        rest=0.0,
        share=1.0,
    )
    for row in data(0):
        labels = row["labels"]
        assert labels.tolist() == [-100, noun, -100, -100, -100] or labels[3] == verb
        restored = np.where(labels == -100, row["input_ids"], labels)
        assert restored.tolist() == [cls, noun, particle, verb, sep]
    unsplit = Particles(
        lambda _: [example], tokenizer, {whole: (noun, particle)}, nouns=1.0, rest=1.0, share=0.0
    )(0)[0]
    assert unsplit["labels"].tolist() == [-100, whole, verb, -100]


def test_the_graded_loss_is_small_if_cosines_have_the_order_of_the_scores() -> None:
    scores = torch.tensor([0.0, 0.5, 1.0])
    assert graded_loss(torch.tensor([-1.0, 0.0, 1.0]), scores) < 1e-6
    assert graded_loss(torch.tensor([1.0, 0.0, -1.0]), scores) > 20
    # Equal scores have no order.
    assert graded_loss(torch.tensor([0.3, -0.2]), torch.tensor([1.0, 1.0])) == 0


def test_whole_documents_are_held_back_and_sentences_are_split(tmp_path: Path) -> None:
    with lzma.open(tmp_path / "text.xz", "wt", encoding="utf-8") as file:
        file.write("\n".join(f"Document {n}.\nIts end.\n" for n in range(2000)))
    documents = list(texts.documents(tmp_path / "text.xz"))
    assert documents[7] == ["Document 7.", "Its end."]
    held_back = sum(map(texts.is_held_back, documents))
    assert 0 < held_back < 30
    english = ['He came at 3.30 p.m. to us. "Why?" she asked. It rained.']
    assert texts.sentences(english, "en") == [
        "He came at 3.30 p.m. to us.",
        '"Why?" she asked.',
        "It rained.",
    ]
    assert texts.sentences(["비가 온다. 3.5도이다. 춥다!"], "ko") == [
        "비가 온다. 3.5도이다.",
        "춥다!",
    ]


def test_a_prompt_matches_with_any_word_in_place_of_the_mask() -> None:
    prompts = texts.Prompts(["The cat sat on the [MASK].", "[MASK] is blue."])
    assert "The cat sat on the moon!" in prompts
    assert "sky is blue" in prompts
    assert "The cat sat on the old moon." not in prompts
    assert "The dog sat on the mat." not in prompts


@pytest.mark.parametrize(
    ("language", "name", "answerable"), [("en", "minibert-tiny", 100), ("ko", "minibert-ko", 97)]
)
def test_the_hundred_prompts_can_be_answered(language: str, name: str, answerable: int) -> None:
    """kcbert's vocabulary lacks the words for "umbrella", "Tuesday" and "give up"."""
    prompts = measures.read_prompts(table.PROMPTS[language])
    vocabulary = BertTokenizer.from_pretrained(name).get_vocab().keys()
    assert len({text for text, _ in prompts}) == 100
    assert all(text.count("[MASK]") == 1 for text, _ in prompts)
    assert sum(bool(vocabulary & set(words)) for _, words in prompts) == answerable


def test_a_mask_is_separated_from_its_particle_as_in_texts_of_users() -> None:
    tokenizer = BertTokenizer.from_pretrained("minibert-ko")

    def ids(*pieces: str) -> np.ndarray[Any, Any]:
        return np.array(tokenizer.convert_tokens_to_ids(list(pieces)))

    masked = ids("나는", "[MASK]", "##를", "[MASK]", ".", "##를")
    expected = ids("나는", "[MASK]", "를", "[MASK]", ".", "##를").tolist()
    row = AsAsked(lambda _: [{"input_ids": masked, "labels": masked}], tokenizer, share=1.0)(0)[0]
    assert row["input_ids"].tolist() == expected
    of_user = tokenizer("나는 [MASK]를 [MASK].", add_special_tokens=False)["input_ids"]
    assert row["input_ids"].tolist()[: len(of_user)] == of_user
    assert row["labels"] is masked
    untouched = AsAsked(lambda _: [{"input_ids": masked}], tokenizer, share=0.0)(0)[0]
    assert untouched["input_ids"].tolist() == masked.tolist()


def test_the_accuracy_of_masked_words_equals_a_count_one_by_one() -> None:
    config = tiny_config(max_position_embeddings=128)
    model = BertForPreTraining(config).eval()
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *[f"word{n}" for n in range(94)]]

    class Tokenizer:
        all_special_ids = (0, 1, 2, 3, 4)
        cls_token_id, sep_token_id, mask_token_id = 2, 3, 4

    rng = np.random.default_rng(1)
    documents = [[rng.integers(1, len(words), 50) for _ in range(8)] for _ in range(3)]
    scores = measures.masked_words(model, Tokenizer(), documents)

    rng = np.random.default_rng(7)
    windows = [text for text, _, _ in single_texts(documents, 126, rng)]
    correct = 0
    targets: list[int] = []
    for number in rng.permutation(len(windows)):
        ids = np.concatenate([[2], windows[number], [3]])
        is_masked = (rng.random(len(ids)) < 0.15) & (ids > 4)
        input_ids = torch.from_numpy(np.where(is_masked, 4, ids))[None]
        with torch.no_grad():
            predicted = model(input_ids=input_ids).prediction_logits[0].argmax(-1).numpy()
        correct += int((predicted == ids)[is_masked].sum())
        targets += ids[is_masked].tolist()
    assert scores["pieces"] == len(targets)
    assert scores["accuracy"] == pytest.approx(correct / len(targets))
    assert scores["most_frequent"] == pytest.approx(np.bincount(targets).max() / len(targets))


def test_a_sentence_finds_the_translation_in_its_row() -> None:
    vectors = torch.eye(4)
    assert measures.retrieval_accuracy(vectors, vectors, ["a", "b", "c", "d"]) == 1.0
    assert measures.retrieval_accuracy(vectors, vectors[[1, 0, 2, 3]], ["a", "b", "c", "d"]) == 0.5
    # Two equal sentences are interchangeable.
    assert measures.retrieval_accuracy(vectors, vectors[[1, 0, 2, 3]], ["a", "a", "c", "d"]) == 1.0


def test_the_space_is_half_way_between_two_teachers(tmp_path: Path) -> None:
    """Teachers whose vectors differ by an orthogonal map have the same vectors in this space."""
    rng = np.random.default_rng(0)
    meanings = rng.normal(size=(600, 4)).astype(np.float32) * [4, 3, 2, 1]
    first, second = (
        meanings @ np.linalg.qr(rng.normal(size=(9, 4)))[0].T + rng.normal(size=9) for _ in range(2)
    )
    mean, directions, variance = principal_components(first, 4)
    assert variance == pytest.approx(1.0)
    Space.fit(first, second, mean, directions).save(tmp_path / "space.npz")

    space = Space.read(tmp_path / "space.npz")
    both = space.of_both(first, second)
    # The mean of two nearly equal unit vectors has nearly unit length.
    np.testing.assert_allclose(np.linalg.norm(both, axis=1), 1, atol=0.02)
    np.testing.assert_allclose(both, unit((first - mean) @ directions), atol=0.05)
    for alone in (space.of_e5(first), second @ space.minilm_weight + space.minilm_bias):
        assert (unit(alone) * unit(both)).sum(-1).mean() > 0.9


def batch_of(count: int = 60) -> Any:
    rng = np.random.default_rng(0)
    rows = [rng.integers(5, 99, 20) for _ in range(count)]
    return pack([{"input_ids": row, "token_type_ids": np.zeros_like(row)} for row in rows])


def test_a_projected_student_predicts_like_its_teacher() -> None:
    """The teacher's states vary in few dimensions. A random student does not predict like it."""
    torch.manual_seed(0)
    teacher = BertForMaskedLM(
        tiny_config(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    ).eval()
    with torch.no_grad():
        teacher.bert.embeddings.word_embeddings.weight.mul_(20)
        teacher.bert.embeddings.word_embeddings.weight[:, 16:] *= 0.1
    config = tiny_config(hidden_size=24, num_attention_heads=3, intermediate_size=48)
    batch = batch_of()
    small, directions, variance = student.project(teacher, config, batch)
    assert 0.9 < variance <= 1.0
    torch.testing.assert_close(directions.T @ directions, torch.eye(24), atol=1e-5, rtol=0)

    def agreement(model: BertForPreTraining) -> float:
        inputs = {name: batch[name] for name in ("input_ids", "layout")}
        positions = torch.ones(len(batch["input_ids"]), dtype=torch.bool)
        with torch.no_grad():
            logits = model.eval()(**inputs, positions=positions).prediction_logits.flatten()
            teacher_logits = teacher(**inputs, positions=positions).logits.flatten()
        return float(torch.corrcoef(torch.stack([logits, teacher_logits]))[0, 1])

    assert agreement(small) > 0.8
    assert abs(agreement(BertForPreTraining(config))) < 0.3


def test_an_open_gelu_is_nearly_the_identity() -> None:
    torch.manual_seed(0)
    head = BertForMaskedLM(tiny_config()).cls.predictions.transform
    states = torch.randn(500, 32)
    student.open_gelu(head, states)
    with torch.no_grad():
        output = head(states)
    assert float(torch.corrcoef(torch.stack([output.flatten(), states.flatten()]))[0, 1]) > 0.95


def e5_file(path: Path) -> dict[str, torch.Tensor]:
    """Write a small model in the format of e5-small-q4.bin, and return its quantized weights."""
    config = tiny_config(vocab_size=12, pad_token_id=1)
    tensors = dict(BertModel(config, add_pooling_layer=False).state_dict())
    short = {"attention.self.query": "q", "attention.self.key": "k", "attention.self.value": "v"}
    short |= {"attention.output.dense": "ao", "attention.output.LayerNorm": "aln"}
    short |= {"intermediate.dense": "fi", "output.dense": "fo", "output.LayerNorm": "oln"}
    embeddings = {"word_embeddings.weight": "word", "position_embeddings.weight": "pos"}
    embeddings |= {
        "token_type_embeddings.weight": "type",
        "LayerNorm.weight": "ln.w",
        "LayerNorm.bias": "ln.b",
    }
    entries, data = [], b""
    for name, tensor in tensors.items():
        if name.startswith("embeddings."):
            code = f"emb.{embeddings[name.removeprefix('embeddings.')]}"
        else:
            _, _, layer, rest = name.split(".", 3)
            part, kind = rest.rsplit(".", 1)
            code = f"l{layer}.{short[part]}.{kind[0]}"
        if tensor.dim() == 2:
            blocks = torch.randint(0, 16, (tensor.numel() // 32, 32))
            scales = torch.rand(len(blocks), 1).half()
            tensors[name] = ((blocks - 8) * scales.float()).view(tensor.shape)
            halves = (blocks[:, :16] | blocks[:, 16:] << 4).to(torch.uint8).numpy()
            raw = b"".join(
                scale.tobytes() + half.tobytes()
                for scale, half in zip(scales.numpy(), halves, strict=True)
            )
        else:
            raw = tensor.numpy().tobytes()
        directory = struct.pack("<BIQQ", tensor.dim() == 2, tensor.numel(), len(data), len(raw))
        entries.append((struct.pack("<H", len(code)) + code.encode(), directory, raw))
        data += raw
    pieces = [
        "<s>",
        "<pad>",
        "</s>",
        "<unk>",
        "▁",
        "▁query",
        ":",
        "▁the",
        "▁cat",
        "cat",
        "s",
        "▁한국",
    ]
    blob = "".join(pieces).encode()
    offsets = np.cumsum([0, *[len(piece.encode()) for piece in pieces]]).astype("<u4")
    head = b"E5S1" + struct.pack("<I7ifi", 1, 32, 2, 4, 64, 12, 64, 2, 1e-12, 32)
    head += struct.pack("<5iQ", len(pieces), 0, 2, 1, 3, len(blob)) + offsets.tobytes()
    head += np.array([0.0] * 4 + [-9.0] + [-2.0] * 7, "<f4").tobytes() + blob
    # The normalizer maps a wide C to c.
    head += struct.pack("<iI", 1, 9) + struct.pack("<IBI", ord("Ｃ"), 1, ord("c"))
    size = len(head) + 4 + sum(len(code) + len(directory) for code, directory, _ in entries)
    head += struct.pack("<i", len(entries))
    for code, directory, _ in entries:
        kind, count, offset, length = struct.unpack("<BIQQ", directory)
        head += code + struct.pack("<BIQQ", kind, count, size + offset, length)
    path.write_bytes(head + data)
    return tensors


def test_reading_e5_restores_the_written_weights(tmp_path: Path) -> None:
    tensors = e5_file(tmp_path / "e5.bin")
    file = E5File.read(tmp_path / "e5.bin")
    assert file.tensors.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert torch.equal(file.tensors[name], tensor), name
    file.save(tmp_path / "e5")
    model = BertModel.from_pretrained(tmp_path / "e5", add_pooling_layer=False)
    assert torch.equal(
        model.encoder.layer[1].output.dense.weight, tensors["encoder.layer.1.output.dense.weight"]
    )

    tokenizer = E5Tokenizer(file)
    assert tokenizer(["the  Ｃats", "한국"]) == [[0, 5, 6, 7, 8, 10, 2], [0, 5, 6, 11, 2]]
    assert tokenizer.pieces(["cats"], inside_word=True) == [[9, 10]]
    (tmp_path / "other.bin").write_bytes(b"GGUF" + bytes(100))
    with pytest.raises(ValueError, match="is not the file e5-small"):
        E5File.read(tmp_path / "other.bin")


def test_every_piece_learns_from_the_state_of_its_word(tmp_path: Path) -> None:
    e5_file(tmp_path / "e5.bin")
    file = E5File.read(tmp_path / "e5.bin")
    file.save(tmp_path / "e5")
    lines = ["the cats 한국", "the", "cat cats"]
    vectors, words = E5(tmp_path / "e5", E5Tokenizer(file), precision="fp32").encode_words(lines)
    model = BertModel.from_pretrained(tmp_path / "e5", add_pooling_layer=False)
    with torch.no_grad():  # <s> ▁query : ▁the ▁cat s ▁한국 </s>
        states = model(input_ids=torch.tensor([[0, 5, 6, 7, 8, 10, 11, 2]])).last_hidden_state[0]
    norm = states.mean(0).norm()
    torch.testing.assert_close(vectors[0], states.mean(0) / norm, atol=1e-5, rtol=0)
    expected = torch.stack([states[3], states[4:6].mean(0), states[6]]) / norm
    torch.testing.assert_close(words[0], expected, atol=1e-5, rtol=0)

    class Letters:
        """Tokenizes words into letters."""

        def __call__(
            self, texts: list[str], add_special_tokens: bool
        ) -> dict[str, list[list[int]]]:
            return {"input_ids": [[ord(letter) for letter in text] for text in texts]}

    words[2] = words[2][:1]  # the teacher has one word where the student has two
    targets = states_of_tokens(words, lines, Letters())
    torch.testing.assert_close(targets[:9], words[0].repeat_interleave(torch.tensor([3, 4, 2]), 0))
    assert not targets[12:].any()

    identity = np.eye(32, dtype=np.float32)
    zeros = np.zeros(32, np.float32)
    space = Space(zeros, identity, zeros, identity, identity, zeros + 1, identity, zeros)
    teacher = WordTeacher(
        [targets[:12].numpy(), targets[12:].numpy()], np.array([0, 9, 12, 19]), 2, space
    )
    batch_targets = teacher(torch.zeros(14), PackedLayout([5, 9]), torch.tensor([1, 2]))
    # The bias of the space is 1.
    torch.testing.assert_close(batch_targets[1:4], words[1].repeat(3, 1) + 1)
    torch.testing.assert_close(batch_targets[[0, 4]], batch_targets[1:4].mean(0).repeat(2, 1))
    assert not batch_targets[5:].any()


def test_the_released_folder_gives_l2_normalized_vectors(tmp_path: Path) -> None:
    """It is in bf16 and the official format, and sentence-transformers gives the same vectors."""
    from sentence_transformers import SentenceTransformer

    recipe = Recipe(tmp_path, tmp_path, tmp_path)
    trained = BertForPreTraining(tiny_config(vocab_size=30522, max_position_embeddings=512))
    trained.save_pretrained(tmp_path / "en-decayed" / "model")
    recipe.save(MODELS["en"], tmp_path / "minibert-en")

    tensors = load_file(tmp_path / "minibert-en" / "model.safetensors")
    assert {tensor.dtype for tensor in tensors.values()} == {torch.bfloat16}
    model = BertForPreTraining.from_pretrained(tmp_path / "minibert-en")
    assert model.dtype == torch.float32
    assert model.load_report is not None
    assert model.load_report.problems("BertForPreTraining") == []
    sentences = ["A man is eating.", "누가 점심을 먹는다."]
    ours = np.asarray(SentenceEmbedder.from_pretrained(tmp_path / "minibert-en").encode(sentences))
    theirs = SentenceTransformer(str(tmp_path / "minibert-en"), device="cpu").encode(sentences)
    np.testing.assert_allclose(np.linalg.norm(ours, axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(ours, theirs, atol=1e-5)
