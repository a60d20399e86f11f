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
REMOVED_METHODS |= {"check_unused"}  # a function of compat/model_parts.py


def parameters(function: object) -> list[str]:
    """Return the names of the parameters, with a star before those that take any number.

    Those that are given by name alone come last, in alphabetical order, with an equals sign.
    """
    try:
        signature = inspect.signature(function)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return []
    names = []
    by_name = []
    for parameter in signature.parameters.values():
        name = str(parameter).split(":")[0].split("=")[0].strip()
        if parameter.kind is parameter.KEYWORD_ONLY:
            by_name.append(f"{name}=")
        else:
            names.append(name)
    return names + sorted(by_name)


def ordered(expected: list[str], now: list[str]) -> list[str]:
    """Return recorded names in the order of `parameters`. The record does not mark keywords."""
    keywords = {name.removesuffix("=") for name in now if name.endswith("=")}
    names = [name for name in expected if name not in keywords]
    return names + sorted(f"{name}=" for name in expected if name in keywords)


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

    What is given by name, such as the fields of a config, is in any order.
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
        assert set(recorded.pop(name)) <= {part.removesuffix("=") for part in now[name]}
    changed = {}
    for name in recorded.keys() & now.keys():
        expected = ordered(recorded[name], now[name])
        if [part for part in now[name] if part in expected] != expected:
            changed[name] = (expected, now[name])
    assert changed == {}


if __name__ == "__main__":
    content = json.dumps(signatures(), indent=1)
    RECORD.write_text(content + "\n", encoding="utf-8")
