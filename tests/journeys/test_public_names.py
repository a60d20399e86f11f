"""The public names and signatures, compared with those before the rebuild of version 0.2."""

from __future__ import annotations

import inspect
import json
from pathlib import Path

import minibert

RECORD = Path(__file__).with_name("signatures.json")
# second names of encode_to_shards, encode_to_file and open_vectors
REMOVED = {"encode_corpus", "encode_file", "open_corpus"}
REMOVED_ARGUMENTS = {"top"}  # a second name of top_k
# of a model, by which it was built and tied: functions of initialization.py and checkpoints/ties.py
REMOVED_METHODS = {"initial_weights", "own_modules", "tied_weights", "fit_decoder"}
# of the layouts, which moved the axis of the heads: attention.py does
REMOVED_METHODS |= {"blocks", "join"}
REMOVED_METHODS |= {"check_unused"}  # a function of compat/arguments.py


def parameters(function: object) -> list[str]:
    """Return the names of the parameters, with a star before those that take any number."""
    try:
        signature = inspect.signature(function)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return []
    return [str(p).split(":")[0].split("=")[0].strip() for p in signature.parameters.values()]


def signatures() -> dict[str, list[str]]:
    """Return the parameters of each public function, class, and method of a public class."""
    found = {}
    for name in minibert.__all__:
        value = getattr(minibert, name)
        if callable(value):
            found[name] = parameters(value)
        if inspect.isclass(value):
            for method, member in inspect.getmembers(value, callable):
                own = getattr(member, "__module__", "") or ""
                if not method.startswith("_") and own.startswith("minibert"):
                    found[f"{name}.{method}"] = parameters(member)
    return found


def test_public_names_are_those_of_the_record() -> None:
    """Every recorded name exists and takes the recorded arguments, in their order.

    The fields of a config are given by name, so their order is free.
    """
    recorded = json.loads(RECORD.read_text(encoding="utf-8"))
    for name, names in recorded.items():
        recorded[name] = [part for part in names if part not in REMOVED_ARGUMENTS]
        if name.endswith(".save_pretrained") and recorded[name][1] == "folder":
            recorded[name][1] = "save_directory"  # as in transformers
        if name.endswith("Config.update"):
            recorded[name][1] = "config_dict"
    now = signatures()
    gone = {name for name in recorded if name.rpartition(".")[2] in REMOVED_METHODS}
    assert recorded.keys() - now.keys() - gone <= REMOVED
    config = recorded["BertConfig"]
    for name in [name for name, names in recorded.items() if names == config]:
        assert set(recorded.pop(name)) <= set(now[name])
    changed = {
        name: (expected, now[name])
        for name, expected in recorded.items()
        if name in now and [part for part in now[name] if part in expected] != expected
    }
    assert changed == {}


if __name__ == "__main__":
    content = json.dumps(signatures(), indent=1)
    RECORD.write_text(content + "\n", encoding="utf-8")
