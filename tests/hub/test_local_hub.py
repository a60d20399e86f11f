"""Loading by the real huggingface_hub client, from a Hub on this machine."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from conftest import ragged_batch
from local_hub import COMMIT, LocalHub
from official import bert_base_uncased, kcbert_base

import minibert


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalHub]:
    """A running local Hub that huggingface_hub connects to."""
    from huggingface_hub import constants

    server = LocalHub()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    # huggingface_hub reads HF_ENDPOINT and HF_HUB_OFFLINE at import, so its constants are patched
    template = server.endpoint + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(constants, "ENDPOINT", server.endpoint)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    yield server
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(
    "name",
    [
        "google-bert/bert-base-uncased",
        pytest.param("beomi/kcbert-base", marks=pytest.mark.slow),
    ],
)
def test_official_checkpoint_over_http(
    name: str, hub: LocalHub, minilm: str, tmp_path: Path
) -> None:
    """A checkpoint is downloaded, cached and loaded offline, with transformers' results.

    It has the tensors and sizes of the official one, and random weights. The default run takes one
    layer of twelve.
    """
    folder = tmp_path / "official"
    if "kcbert" in name:
        official = kcbert_base(folder)
    else:
        official = bert_base_uncased(folder, minilm, num_hidden_layers=1)
    hub.repositories[name] = official
    model = minibert.BertModel.from_pretrained(name, cache_dir=tmp_path)
    tokenizer = minibert.BertTokenizer.from_pretrained(name, cache_dir=tmp_path)
    assert any("model.safetensors" in request for request in hub.requests)

    assert model.load_report.missing == model.load_report.unexpected == []
    heads = {name for name in model.load_report.left_out if "position_ids" not in name}
    assert heads and all(name.startswith("cls.") for name in heads)

    hub.repositories.clear()  # everything below is loaded from the cache
    offline = minibert.BertModel.from_pretrained(name, cache_dir=tmp_path, local_files_only=True)
    again = minibert.BertTokenizer.from_pretrained(name, cache_dir=tmp_path, local_files_only=True)
    reference = transformers.BertModel.from_pretrained(official).eval()
    texts = ["I love Korea", "안녕하세요"]
    batch = tokenizer(texts, padding=True, return_tensors="pt")
    assert torch.equal(
        batch["input_ids"], again(texts, padding=True, return_tensors="pt")["input_ids"]
    )
    with torch.no_grad():
        expected = reference(**{key: value for key, value in batch.items()})
        for ours in (model, offline):
            output = ours(**batch)
            assert torch.equal(output.last_hidden_state, expected.last_hidden_state)
            assert torch.equal(output.pooler_output, expected.pooler_output)


def test_revisions(hub: LocalHub, tmp_path: Path, minilm: str) -> None:
    hub.repositories["a/minilm"] = Path(minilm)
    at_commit = minibert.BertConfig.from_pretrained("a/minilm", revision=COMMIT, cache_dir=tmp_path)
    assert at_commit.hidden_size == 384
    with pytest.raises(FileNotFoundError, match="'a/minilm' has no revision 'v9'"):
        minibert.BertConfig.from_pretrained("a/minilm", revision="v9", cache_dir=tmp_path)


def test_unknown_repository(hub: LocalHub, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="'a/nothing' is neither .*folder nor .*Hub"):
        minibert.BertModel.from_pretrained("a/nothing", cache_dir=tmp_path)


def test_repository_without_weights(hub: LocalHub, tmp_path: Path) -> None:
    (tmp_path / "repo").mkdir()
    minibert.BertConfig.from_preset("tiny").save_pretrained(tmp_path / "repo")
    hub.repositories["a/empty"] = tmp_path / "repo"
    with pytest.raises(FileNotFoundError, match="'a/empty' holds no model.safetensors or"):
        minibert.BertModel.from_pretrained("a/empty", cache_dir=tmp_path / "cache")


def test_sharded_repository(hub: LocalHub, tmp_path: Path) -> None:
    config = transformers.BertConfig(hidden_size=48, num_hidden_layers=2, intermediate_size=99)
    reference = transformers.BertModel(config)
    reference.save_pretrained(tmp_path / "repo", max_shard_size="2MB")
    assert len(list((tmp_path / "repo").glob("*.safetensors"))) > 1
    hub.repositories["a/sharded"] = tmp_path / "repo"
    ours = minibert.BertModel.from_pretrained("a/sharded", cache_dir=tmp_path / "cache")
    batch = ragged_batch(ours.config)
    with torch.no_grad():
        assert torch.equal(ours(**batch).pooler_output, reference.eval()(**batch).pooler_output)


@pytest.mark.parametrize("options", [{"local_files_only": True}, {}])
def test_no_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    """The error says whether the Hub is unreachable or the call asked for local files only."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(
        constants,
        "HUGGINGFACE_CO_URL_TEMPLATE",
        "http://127.0.0.1:9/{repo_id}/resolve/{revision}/{filename}",
    )
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    reason = "offline mode is on" if options else "the Hub cannot be reached"
    waits: list[float] = []
    monkeypatch.setattr("time.sleep", waits.append)  # what huggingface_hub does between tries
    with pytest.raises(
        FileNotFoundError,
        match=f"'klue/bert-base' is not a local folder, .*{reason}: go online once",
    ):
        minibert.BertModel.from_pretrained("klue/bert-base", cache_dir=tmp_path, **options)
    assert sum(waits) < 5  # without a limit, huggingface_hub waits for half a minute


def test_a_page_of_the_network_instead_of_the_hub(
    small: str, hub: LocalHub, tmp_path: Path
) -> None:
    minibert.BertModel.from_pretrained(small, cache_dir=tmp_path / "cache")
    hub.page = b"<html>Log in to use this network.</html>"
    with pytest.raises(FileNotFoundError, match="Could not get config.json .* HF_HUB_OFFLINE=1"):
        minibert.BertModel.from_pretrained(small, cache_dir=tmp_path / "cache")
    minibert.BertModel.from_pretrained(small, cache_dir=tmp_path / "cache", local_files_only=True)


def test_offline_environment(tmp_path: Path) -> None:
    """With HF_HUB_OFFLINE=1, which the tests set, the error says that offline mode is on."""
    with pytest.raises(FileNotFoundError, match="offline mode is on"):
        minibert.BertModel.from_pretrained("klue/bert-base", cache_dir=tmp_path)


@pytest.fixture
def small(hub: LocalHub, tmp_path: Path) -> str:
    """The name of a repository with safetensors, an old .bin and a subfolder."""
    config = minibert.BertConfig(
        vocab_size=40, hidden_size=16, num_hidden_layers=1, num_attention_heads=2
    )
    folder = tmp_path / "repository"
    for place in (folder, folder / "inner"):
        minibert.BertModel(config).save_pretrained(place)
        minibert.BertTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]).save_pretrained(
            place
        )
    torch.save(minibert.BertModel(config).state_dict(), folder / "pytorch_model.bin")
    (folder / "training_data.txt").write_text("large", encoding="utf-8")
    hub.repositories["a/small"] = folder
    return "a/small"


def test_only_needed_files_are_downloaded(small: str, hub: LocalHub, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    minibert.BertTokenizer.from_pretrained(small, cache_dir=cache)
    minibert.BertModel.from_pretrained(small, cache_dir=cache)
    requests = " ".join(hub.requests)
    for name in ("pytorch_model.bin", "training_data.txt", "inner/"):
        assert name not in requests
    minibert.BertModel.from_pretrained(small, cache_dir=cache, use_safetensors=False)
    minibert.BertModel.from_pretrained(small, cache_dir=cache, subfolder="inner")
    for name in ("pytorch_model.bin", "inner/model.safetensors"):
        assert name in " ".join(hub.requests)


def test_a_partial_cache(small: str, hub: LocalHub, tmp_path: Path) -> None:
    """Offline, files that the repository has but the cache has not raise an error."""
    options: dict[str, Any] = {"cache_dir": tmp_path / "cache"}
    minibert.BertTokenizer.from_pretrained(small, **options)
    hub.repositories.clear()
    options["local_files_only"] = True
    minibert.BertTokenizer.from_pretrained(small, **options)
    minibert.BertConfig.from_pretrained(small, **options)
    for further in ({}, {"use_safetensors": False}, {"subfolder": "inner"}):
        with pytest.raises(FileNotFoundError, match="is not in the cache, and offline mode is on"):
            minibert.BertModel.from_pretrained(small, **options, **further)
    (snapshot,) = (tmp_path / "cache" / "models--a--small" / "snapshots").iterdir()
    (snapshot / "vocab.txt").unlink(missing_ok=True)
    (snapshot / "tokenizer.json").unlink(missing_ok=True)
    with pytest.raises(FileNotFoundError, match="is not in the cache, and offline mode is on"):
        minibert.BertTokenizer.from_pretrained(small, **options)


def test_a_folder_of_the_cache(small: str, hub: LocalHub, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    model = minibert.BertModel.from_pretrained(small, cache_dir=cache)
    minibert.BertModel.from_pretrained(small, cache_dir=cache, revision=COMMIT)
    hub.repositories.clear()
    repository = cache / "models--a--small"
    for folder in (repository, repository / "snapshots" / COMMIT):
        again = minibert.BertModel.from_pretrained(folder)
        assert torch.equal(again.pooler.dense.weight, model.pooler.dense.weight)
    again = minibert.BertModel.from_pretrained(
        small, cache_dir=cache, revision=COMMIT, local_files_only=True
    )
    assert torch.equal(again.pooler.dense.weight, model.pooler.dense.weight)
    (repository / "refs" / "main").unlink()
    minibert.BertModel.from_pretrained(repository)
    (repository / "snapshots" / "another").mkdir()
    with pytest.raises(FileNotFoundError, match="with 2 snapshots: name one of the folders"):
        minibert.BertModel.from_pretrained(repository)
