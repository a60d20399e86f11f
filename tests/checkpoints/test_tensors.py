"""Loading and saving checkpoints, including damaged and hostile files."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from conftest import full_disk, ragged_batch, tiny_config, with_reference
from hypothesis import HealthCheck, given, settings, strategies as st
from official import SMALL, pretraining_tensors, write_folder
from safetensors.torch import load, load_file, save_file
from torch import nn

import minibert
from minibert import (
    BertConfig,
    BertForMaskedLM,
    BertForPreTraining,
    BertForSequenceClassification,
    BertModel,
    BertPreTrainedModel,
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A small checkpoint with the same tensors as the official bert-base-uncased."""
    return write_folder(tmp_path / "official", SMALL, pretraining_tensors(SMALL, legacy=True))


def pooled(model: Any) -> torch.Tensor:
    torch.manual_seed(5)
    with torch.no_grad():
        output: torch.Tensor = model.eval()(
            **ragged_batch(BertConfig.from_dict(SMALL))
        ).pooler_output
    return output


@pytest.mark.filterwarnings("error::UserWarning")
@pytest.mark.parametrize("legacy", [True, False])
def test_official_names(tmp_path: Path, legacy: bool) -> None:
    """An official checkpoint loads without warnings, and the report accounts for every tensor."""
    tensors = pretraining_tensors(SMALL, legacy)
    write_folder(tmp_path, SMALL, tensors)
    model = BertModel.from_pretrained(tmp_path)
    assert torch.equal(pooled(model), pooled(transformers.BertModel.from_pretrained(tmp_path)))
    report = model.load_report
    assert report.missing == report.unexpected == report.mismatched == []
    assert sorted([*report.left_out, *(name for name, _ in report.renamed)]) == sorted(tensors)
    renamed = dict(report.renamed)
    old = "gamma" if legacy else "weight"
    assert renamed[f"bert.embeddings.LayerNorm.{old}"] == "embeddings.LayerNorm.weight"
    assert not model.training


@pytest.mark.filterwarnings("error::UserWarning")
def test_only_the_gamma_of_layernorm_is_renamed(folder: Path) -> None:
    """Renaming every `gamma` once broke other tensors in transformers (issue 29554)."""
    tensors = load_file(folder / "model.safetensors")
    write_folder(folder, SMALL, {**tensors, "encoder.gate.gamma": torch.ones(1)})
    with pytest.warns(
        UserWarning,
        match="encoder.gate.gamma .*BertModel.*not loaded",
    ):
        model = BertModel.from_pretrained(folder)
    assert model.load_report.unexpected == ["encoder.gate.gamma"]


def test_headless_folder_without_prefix(tmp_path: Path) -> None:
    official = pretraining_tensors(SMALL, legacy=False)
    tensors = {
        name.removeprefix("bert."): tensor
        for name, tensor in official.items()
        if name.startswith("bert.")
    }
    folder = write_folder(tmp_path / "headless", SMALL, tensors)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = BertModel.from_pretrained(tmp_path / "headless")
    assert model.load_report.renamed == []
    assert torch.equal(pooled(model), pooled(transformers.BertModel.from_pretrained(folder)))


def test_model_without_pooler(folder: Path, tmp_path: Path) -> None:
    """A missing pooler is initialized with a warning, unless the model is built without one."""
    complete = load_file(folder / "model.safetensors")
    tensors = {name: tensor for name, tensor in complete.items() if "pooler" not in name}
    write_folder(tmp_path / "bare", SMALL, tensors)
    with pytest.warns(
        UserWarning,
        match="pooler.dense.weight, pooler.dense.bias are not in .*bare, newly initialized",
    ):
        model = BertModel.from_pretrained(tmp_path / "bare")
    assert model.load_report.missing == ["pooler.dense.weight", "pooler.dense.bias"]
    assert 0.01 < model.pooler.dense.weight.std() < 0.03 and not model.pooler.dense.bias.any()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = BertModel.from_pretrained(tmp_path / "bare", add_pooling_layer=False)
    assert model(**ragged_batch(model.config)).pooler_output is None


def test_a_missing_layer_is_reported(folder: Path) -> None:
    with pytest.warns(
        UserWarning,
        match=r"encoder.layer.2.*although part of every BERT.*Is the checkpoint complete",
    ):
        model = BertModel.from_pretrained(folder, num_hidden_layers=3)
    assert len(model.load_report.missing) == 16


class Lora(nn.Linear):
    """A linear layer with a change of low rank: two names more than it has."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__(linear.in_features, linear.out_features)
        self.down = nn.Linear(linear.in_features, 2, bias=False)
        self.up = nn.Linear(2, linear.out_features, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) + self.up(self.down(x))


class Adapted(BertPreTrainedModel):
    """Parts of a user's own inside the layers: in attention, behind it, and beside the table."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config)
        self.bert = BertModel(config)
        for layer in self.bert.encoder.layer:
            layer.attention.self.query = Lora(layer.attention.self.query)
            layer.output.adapter = nn.Linear(4, 4)
        self.bert.embeddings.scale = nn.Parameter(torch.ones(()))


def test_what_a_class_adds_to_a_layer_is_not_part_of_every_bert(folder: Path) -> None:
    with pytest.warns(UserWarning, match="newly initialized: train before") as messages:
        model = Adapted.from_pretrained(folder)
    assert len(messages) == 1
    added = {"scale", "down.weight", "up.weight", "adapter.weight", "adapter.bias"}
    assert all(any(name.endswith(x) for x in added) for name in model.load_report.missing)
    expected = BertModel.from_pretrained(folder)
    ids = torch.tensor([[1, 2, 3]])
    assert torch.equal(model.bert(ids).last_hidden_state, expected(ids).last_hidden_state)


@pytest.mark.filterwarnings("error::UserWarning")
def test_sharded_checkpoints(folder: Path, tmp_path: Path) -> None:
    whole = transformers.BertForPreTraining.from_pretrained(folder)
    whole.save_pretrained(tmp_path / "shards", max_shard_size="10KB")
    assert (tmp_path / "shards" / "model.safetensors.index.json").exists()
    assert torch.equal(pooled(BertModel.from_pretrained(tmp_path / "shards")), pooled(whole.bert))
    shard = sorted((tmp_path / "shards").glob("*.safetensors"))[0]
    shard.unlink()
    with pytest.raises(
        FileNotFoundError,
        match=f"lacks {shard.name}, a shard that model.safetensors.index.json names",
    ):
        BertModel.from_pretrained(tmp_path / "shards")


@pytest.mark.parametrize("content", ["[]", '{"weight_map": 5}', '{"weight_map": {"a": 5}}'])
def test_bad_shard_index(tmp_path: Path, content: str) -> None:
    tiny_config().save_pretrained(tmp_path)
    (tmp_path / "model.safetensors.index.json").write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match="should (map tensor names to files|hold a JSON object)"):
        BertModel.from_pretrained(tmp_path)


def test_a_shard_outside_the_folder_is_not_read(tmp_path: Path) -> None:
    save_file({"a": torch.ones(1)}, tmp_path / "secret.safetensors")
    (tmp_path / "model").mkdir()
    tiny_config().save_pretrained(tmp_path / "model")
    index = {"weight_map": {"a": "../secret.safetensors"}}
    (tmp_path / "model" / "model.safetensors.index.json").write_text(
        json.dumps(index), encoding="utf-8"
    )
    with pytest.raises(FileNotFoundError, match="lacks ../secret.safetensors"):
        BertModel.from_pretrained(tmp_path / "model")


@pytest.mark.filterwarnings("error::UserWarning")
@pytest.mark.parametrize("zipped", [True, False])
def test_pytorch_bin(folder: Path, zipped: bool) -> None:
    """Both formats of `torch.save` load, including tied tensors."""
    expected = pooled(BertModel.from_pretrained(folder))
    tensors = load((folder / "model.safetensors").read_bytes())
    tensors["cls.predictions.decoder.weight"] = tensors["bert.embeddings.word_embeddings.weight"]
    (folder / "model.safetensors").unlink()
    torch.save(tensors, folder / "pytorch_model.bin", _use_new_zipfile_serialization=zipped)
    assert torch.equal(pooled(BertModel.from_pretrained(folder)), expected)


def test_a_full_disk(folder: Path, tmp_path: Path) -> None:
    """Saving raises a clear error, and reading a pytorch_model.bin needs no disk space."""
    model = BertModel.from_pretrained(folder)
    torch.save(load_file(folder / "model.safetensors"), tmp_path / "pytorch_model.bin")
    with full_disk(10_000):
        with pytest.raises(
            OSError, match=r"model.safetensors could not be written \(File too large\)"
        ):
            model.save_pretrained(tmp_path / "new")
        (folder / "model.safetensors").unlink()
        (tmp_path / "pytorch_model.bin").rename(folder / "pytorch_model.bin")
        assert torch.equal(pooled(BertModel.from_pretrained(folder)), pooled(model))
    assert not list((tmp_path / "new").glob("*model*"))


class _Attack:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("touch attacked",)


@pytest.mark.parametrize("zipped", [True, False])
def test_a_pickle_that_runs_code_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch, zipped: bool
) -> None:
    monkeypatch.chdir(folder)
    (folder / "model.safetensors").unlink()
    torch.save(
        {"bert.pooler": _Attack()}, "pytorch_model.bin", _use_new_zipfile_serialization=zipped
    )
    with pytest.raises(
        ValueError, match="pytorch_model.bin is refused: .* reading it could run code"
    ):
        BertModel.from_pretrained(folder)
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(_Attack()))
    with pytest.raises(
        ValueError, match="pytorch_model.bin is (refused|not a complete PyTorch file)"
    ):
        BertModel.from_pretrained(folder)
    assert not (folder / "attacked").exists()


def test_a_bin_that_holds_no_tensors(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    torch.save([1, 2], folder / "pytorch_model.bin")
    with pytest.raises(ValueError, match="should hold tensors by name"):
        BertModel.from_pretrained(folder)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_damaged_safetensors_file_raises_a_clear_error(folder: Path, data: st.DataObject) -> None:
    """A truncated or corrupt file loads, or raises a ValueError that says it is damaged."""
    good = (folder / "model.safetensors").read_bytes()
    header = 8 + int.from_bytes(good[:8], "little")
    damaged = bytearray(good)
    if data.draw(st.booleans(), label="cut"):
        damaged = damaged[: data.draw(st.integers(0, len(good) - 1), label="length")]
    else:
        for _ in range(data.draw(st.integers(1, 4))):
            damaged[data.draw(st.integers(0, header - 1), label="place")] = data.draw(
                st.integers(0, 255), label="byte"
            )
    other = folder.parent / "damaged"
    other.mkdir(exist_ok=True)
    (other / "config.json").write_bytes((folder / "config.json").read_bytes())
    (other / "model.safetensors").write_bytes(damaged)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            BertModel.from_pretrained(other)
    except ValueError as error:
        assert "damaged" in str(error)


def test_integer_weights_raise_an_error(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    tensors["bert.pooler.dense.bias"] = torch.zeros(24, dtype=torch.int64)
    write_folder(folder, SMALL, tensors)
    with pytest.raises(
        ValueError, match="bert.pooler.dense.bias is torch.int64, but weights are floating-point"
    ):
        BertModel.from_pretrained(folder)


def test_a_file_without_tensors_of_bert_raises_an_error(tmp_path: Path) -> None:
    write_folder(tmp_path, SMALL, {"transformer.h.0.attn.weight": torch.ones(2, 2)})
    with pytest.raises(
        ValueError,
        match=r"BertModel .*such as 'transfo",
    ):
        BertModel.from_pretrained(tmp_path)


def test_shapes_that_differ_from_the_config(folder: Path) -> None:
    name = "embeddings.position_embeddings.weight"
    message = (
        rf"{name} is \(32, 24\) in the file but \(40, 24\) in the model"
        r".*ignore_mismatched_sizes=True"
    )
    with pytest.raises(ValueError, match=message):
        BertModel.from_pretrained(folder, max_position_embeddings=40)
    with pytest.warns(
        UserWarning, match=rf"{name} \(file \(32, 24\), model \(40, 24\)\) is of another shape"
    ):
        model = BertModel.from_pretrained(
            folder, max_position_embeddings=40, ignore_mismatched_sizes=True
        )
    assert (
        model.load_report.mismatched == [(name, (32, 24), (40, 24))]
        and model.load_report.missing == []
    )
    assert model.embeddings.position_embeddings.weight.shape == (40, 24)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_files(folder: Path, dtype: torch.dtype) -> None:
    """The dtype is that of the file, unless config.json or the call overrides it.

    transformers does the same.
    """
    tensors = load_file(folder / "model.safetensors")
    for name, tensor in tensors.items():
        if tensor.is_floating_point():
            tensors[name] = tensor.to(dtype)
    write_folder(folder, SMALL, tensors)
    assert (
        BertModel.from_pretrained(folder).dtype
        == transformers.BertModel.from_pretrained(folder).dtype
        == dtype
    )
    upcast = BertModel.from_pretrained(folder, dtype=torch.float32)
    reference = transformers.BertModel.from_pretrained(folder, dtype=torch.float32)
    assert torch.equal(pooled(upcast), pooled(reference))
    (folder / "config.json").write_text(json.dumps({**SMALL, "dtype": "float32"}), encoding="utf-8")
    assert BertModel.from_pretrained(folder).dtype == torch.float32


@pytest.mark.parametrize(
    "name", ["BertModel", "BertForPreTraining", "BertForMaskedLM", "BertForTokenClassification"]
)
def test_saved_models_load_in_transformers(tmp_path: Path, name: str) -> None:
    import minibert

    ours, _ = with_reference(name, tiny_config(num_labels=3))
    ours.save_pretrained(tmp_path / "new" / "folder")
    assert sorted(os.listdir(tmp_path / "new" / "folder")) == ["config.json", "model.safetensors"]
    theirs, info = getattr(transformers, name).from_pretrained(
        tmp_path / "new" / "folder", output_loading_info=True
    )
    assert not any(info.values()), info
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = getattr(minibert, name).from_pretrained(tmp_path / "new" / "folder")
    batch = ragged_batch(ours.config)
    with torch.no_grad():
        for original, reference, reloaded in zip(
            ours(**batch), theirs.eval()(**batch).to_tuple(), again(**batch), strict=True
        ):
            assert torch.equal(original, reference)
            assert torch.equal(original, reloaded)
    assert again.config.architectures == [name]


def test_saving_over_the_loaded_folder(folder: Path) -> None:
    """The old file stays mapped as long as the model lives, so the new file is never read."""
    model = BertModel.from_pretrained(folder)
    before = pooled(model)
    model.save_pretrained(folder)
    assert torch.equal(pooled(model), before)
    assert torch.equal(pooled(BertModel.from_pretrained(folder)), before)


def test_training_a_mapped_model_leaves_the_file_alone(folder: Path) -> None:
    before = (folder / "model.safetensors").read_bytes()
    model = BertModel.from_pretrained(folder)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(1)
    assert (folder / "model.safetensors").read_bytes() == before


def test_unaligned_data(folder: Path) -> None:
    """Old writers did not pad the header, so tensors may start at odd offsets."""
    raw = (folder / "model.safetensors").read_bytes()
    size = int.from_bytes(raw[:8], "little")
    expected = pooled(BertModel.from_pretrained(folder))
    (folder / "model.safetensors").write_bytes(
        (size + 1).to_bytes(8, "little") + raw[8 : 8 + size] + b" " + raw[8 + size :]
    )
    assert torch.equal(pooled(BertModel.from_pretrained(folder)), expected)


def test_unknown_options_raise_an_error(folder: Path) -> None:
    with pytest.raises(
        TypeError, match="BertConfig has no field 'num_label'. Did you mean 'num_labels'"
    ):
        BertModel.from_pretrained(folder, num_label=3)


def test_config_overrides_become_defaults(folder: Path) -> None:
    model = BertModel.from_pretrained(
        folder, output_hidden_states=True, attn_implementation="eager", return_dict=False
    )
    last_hidden_state, pooler_output, hidden_states = model(**ragged_batch(model.config))
    assert (
        len(hidden_states) == 3
        and hidden_states[-1] is last_hidden_state
        and pooler_output.shape == (3, 24)
    )


def test_all_parts_have_the_config_of_the_model(folder: Path) -> None:
    model = BertForSequenceClassification.from_pretrained(folder)
    configs = [part.config for part in model.modules() if hasattr(part, "config")]
    assert len(configs) > 4 and all(config is model.config for config in configs)


def test_new_weights_have_the_initialization_of_bert_and_are_reproducible(folder: Path) -> None:
    def classifier() -> torch.Tensor:
        torch.manual_seed(3)
        with pytest.warns(
            UserWarning,
            match="classifier.weight, classifier.bias are not in .*: train before you use",
        ):
            model = BertForSequenceClassification.from_pretrained(folder, num_labels=40)
        assert not model.classifier.bias.any()
        return model.classifier.weight

    first = classifier()
    assert torch.equal(first, classifier()) and 0.015 < first.std() < 0.025
    fresh = BertForPreTraining(tiny_config(initializer_range=0.5))
    for name, parameter in fresh.named_parameters():
        if name.endswith("bias"):
            assert not parameter.any(), name
        elif "LayerNorm" in name:
            assert torch.equal(parameter, torch.ones_like(parameter)), name
        else:
            assert 0.3 < parameter.std() < 0.7, name
    assert not fresh.bert.embeddings.word_embeddings.weight[0].any()


def test_tied_decoder(folder: Path) -> None:
    model = BertForMaskedLM.from_pretrained(folder)
    assert model.cls.predictions.decoder.weight is model.bert.embeddings.word_embeddings.weight
    tensors = load_file(folder / "model.safetensors")
    tensors["cls.predictions.decoder.weight"] = (
        tensors["bert.embeddings.word_embeddings.weight"] + 1
    )
    write_folder(folder, SMALL, tensors)
    with pytest.warns(
        UserWarning, match="cls.predictions.decoder.weight differs from .*tie_word_embeddings=False"
    ):
        untied = BertForMaskedLM.from_pretrained(folder)
    assert torch.equal(
        untied.cls.predictions.decoder.weight, untied.bert.embeddings.word_embeddings.weight + 1
    )
    reference = transformers.BertForMaskedLM.from_pretrained(folder)
    batch = ragged_batch(untied.config)
    assert torch.equal(untied(**batch).logits, reference(**batch).logits)
    untied.save_pretrained(folder / "again")  # its config has tie_word_embeddings=False
    for name, options in ((folder, {"tie_word_embeddings": False}), (folder / "again", {})):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert torch.equal(
                BertForMaskedLM.from_pretrained(name, **options)(**batch).logits,
                untied(**batch).logits,
            )


@pytest.mark.slow
def test_loading_adds_little_memory(tmp_path: Path) -> None:
    """A base model (440 MB) adds less than 30 MB of resident memory until it runs."""
    BertModel(BertConfig.from_preset("base")).save_pretrained(tmp_path)
    code = """if True:
        import sys, minibert
        from minibert import BertModel, BertConfig
        def resident():
            return int(open("/proc/self/statm", "rb").read().split()[1]) * 4096 / 1e6
        BertModel(BertConfig.from_preset("tiny"))  # the one-time cost of any first model
        before = resident()
        model = BertModel.from_pretrained(sys.argv[1])
        print(resident() - before)
    """
    run = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    assert float(run.stdout) < 30


def test_a_pickled_tensor_holds_only_its_own_bytes(folder: Path) -> None:
    model = BertModel.from_pretrained(folder)
    weight_bytes = sum(parameter.nbytes for parameter in model.parameters())
    assert len(pickle.dumps(model)) < weight_bytes + 100_000
    assert len(pickle.dumps(model.encoder.layer[0].output.dense.bias)) < 2_000


class TestKeywordsOfTransformers:
    """Keywords of transformers' `from_pretrained` work, have no effect, or raise a clear error."""

    @pytest.fixture(scope="class")
    @classmethod
    def folder(cls, tmp_path_factory: pytest.TempPathFactory) -> Path:
        folder = tmp_path_factory.mktemp("keywords")
        minibert.BertForMaskedLM(tiny_config()).save_pretrained(folder / "inner")
        return folder

    @pytest.mark.parametrize(
        "options",
        [
            {
                "trust_remote_code": True,
                "use_safetensors": True,
                "low_cpu_mem_usage": True,
                "device_map": "cpu",
            },
            {"force_download": False, "proxies": None, "variant": None, "device_map": {"": "cpu"}},
            {"device_map": None, "torch_dtype": "float32"},
        ],
    )
    def test_supported_and_ignored_keywords(self, folder: Path, options: dict[str, Any]) -> None:
        loaded = minibert.BertForMaskedLM.from_pretrained(
            pretrained_model_name_or_path=folder, subfolder="inner", **options
        )
        plain = minibert.BertForMaskedLM.from_pretrained(folder / "inner")
        assert torch.equal(loaded.cls.predictions.bias, plain.cls.predictions.bias)
        assert loaded.name_or_path == loaded.config.name_or_path == str(folder / "inner")
        assert (
            minibert.AutoConfig.from_pretrained(folder, subfolder="inner", trust_remote_code=True)
            == loaded.config
        )

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (
                {"force_download": True},
                "force_download=True is not supported: delete the repository from the Hub's cache",
            ),
            ({"proxies": {"https": "x"}}, "proxies is not supported: set HTTPS_PROXY"),
            ({"variant": "fp16"}, "variant='fp16' is not supported: only files without a variant"),
            (
                {"load_in_8bit": True},
                "load_in_8bit=True is not supported: load the model and call minibert.optimize",
            ),
            ({"device_map": {"bert": 0, "cls": 1}}, "device_map should name one device"),
        ],
    )
    def test_unsupported_keywords_raise_an_error(
        self, folder: Path, options: dict[str, Any], message: str
    ) -> None:
        with pytest.raises(ValueError, match=message):
            minibert.BertForMaskedLM.from_pretrained(folder / "inner", **options)

    def test_from_config_and_state_dict(self, folder: Path) -> None:
        original = minibert.BertForMaskedLM.from_pretrained(folder / "inner")
        model, info = minibert.BertModel.from_pretrained(
            None,
            config=original.config,
            state_dict=original.state_dict(),
            output_loading_info=True,
            add_pooling_layer=False,
        )
        assert torch.equal(
            model.embeddings.word_embeddings.weight, original.get_input_embeddings().weight
        )
        assert (
            info["missing_keys"] == set()
            and info["mismatched_keys"] == set()
            and info["error_msgs"] == []
        )
        assert "cls.predictions.bias" in info["unexpected_keys"]
        with pytest.raises(ValueError, match="without a name takes both config and state_dict"):
            minibert.BertModel.from_pretrained(None, config=original.config)

    def test_saving(self, folder: Path, tmp_path: Path) -> None:
        model = minibert.BertForMaskedLM.from_pretrained(folder / "inner")
        model.save_pretrained(tmp_path / "no", is_main_process=False)
        assert not (tmp_path / "no").exists()
        doubled = {name: 2 * tensor for name, tensor in model.state_dict().items()}
        options = {"save_function": torch.save, "max_shard_size": "5GB", "safe_serialization": True}
        model.save_pretrained(tmp_path / "yes", state_dict=doubled, push_to_hub=False, **options)
        again = minibert.BertForMaskedLM.from_pretrained(tmp_path / "yes")
        assert torch.equal(
            again.get_input_embeddings().weight, 2 * model.get_input_embeddings().weight
        )
        with pytest.raises(
            ValueError,
            match="safe_serialization=False is not supported: safetensors only are written",
        ):
            model.save_pretrained(tmp_path, safe_serialization=False)
        with pytest.raises(ValueError, match="push_to_hub=True is not supported: save_pretrained"):
            model.save_pretrained(tmp_path, push_to_hub=True)
        with pytest.raises(TypeError, match="unexpected keyword argument 'max_shards'"):
            model.save_pretrained(tmp_path, max_shards=1)

    @pytest.mark.parametrize("size", ["1KB", "2 KiB", 1000])
    def test_a_size_of_shards_that_would_split_the_weights(
        self, size: str | int, tmp_path: Path
    ) -> None:
        model = minibert.BertModel(tiny_config())
        with pytest.warns(UserWarning, match="one file of .* bytes"):
            model.save_pretrained(tmp_path, max_shard_size=size)
        assert (tmp_path / "model.safetensors").is_file()
        with pytest.raises(ValueError, match="max_shard_size should be a size"):
            model.save_pretrained(tmp_path, max_shard_size="big")

    @pytest.mark.parametrize("size", ["5GB", "1GiB", 10**9, None])
    def test_a_size_of_shards_that_the_weights_fit_into(
        self, size: str | int | None, tmp_path: Path, recwarn: pytest.WarningsRecorder
    ) -> None:
        minibert.BertModel(tiny_config()).save_pretrained(tmp_path, max_shard_size=size)
        assert not [warned for warned in recwarn if "one file" in str(warned.message)]
