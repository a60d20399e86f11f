"""Assembles the matrix product of the page's model, into minibert/learn/page/model/kernel.js.

    python scripts/make_kernel.py

The product is WebAssembly with SIMD: for two outputs and four tokens at a time, it adds up four
products in each step. The module is 500 bytes, so it is assembled here and not by a compiler.
"""

from __future__ import annotations

import base64
import struct
import textwrap
from pathlib import Path

import minibert

TARGET = Path(minibert.__file__).parent / "learn" / "page" / "model" / "kernel.js"
TEXT = """// The matrix product of the model as WebAssembly with SIMD. scripts/make_kernel.py
// wrote this file, and its source shows the steps.

/** The module: `multiply(x, weight, bias, y, seq, size, out)`, with the addresses of float32. */
export const KERNEL =
{code};
"""
NAMES = (
    "x weight bias y seq size out o p s s1 s2 s3 w v x0 x1 x2 x3 i end "
    "a0 a1 a2 a3 b0 b1 b2 b3 vw vv vx"
).split()
INTEGERS = 14  # local integers after the seven arguments


def number(value: int) -> bytes:
    """Return a number in LEB128."""
    found = []
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def constant(value: int) -> bytes:
    """Return the instruction that pushes a small number."""
    assert 0 <= value < 64
    return bytes([0x41, value])


def get(name: str) -> bytes:
    return b"\x20" + number(NAMES.index(name))


def put(name: str) -> bytes:
    return b"\x21" + number(NAMES.index(name))


ADD, SUBTRACT, MULTIPLY, LESS = b"\x6a", b"\x6b", b"\x6c", b"\x49"
FLOAT_LOAD, FLOAT_STORE, FLOAT_ADD = b"\x2a\x02\x00", b"\x38\x02\x00", b"\x92"
VECTOR_LOAD, VECTOR_ADD, VECTOR_MULTIPLY = b"\xfd\x00\x02\x00", b"\xfd\xe4\x01", b"\xfd\xe6\x01"
ZEROS = b"\xfd\x0c" + bytes(16)


def loop(body: bytes, condition: bytes) -> bytes:
    """Return a loop that repeats its body while the condition holds, at least once."""
    return b"\x03\x40" + body + condition + b"\x0d\x00\x0b"


def row(start: str, index: str, width: str) -> bytes:
    """Push the address of a row of float32."""
    return get(start) + get(index) + get(width) + MULTIPLY + constant(4) + MULTIPLY + ADD


def next_index(target: str, source: str, count: str, step: int) -> bytes:
    """Set target = min(source + step, count - 1)."""
    value = get(source) + constant(step) + ADD
    last = get(count) + constant(1) + SUBTRACT
    return value + last + value + get(count) + LESS + b"\x1b" + put(target)


def advance(name: str, step: int) -> bytes:
    return get(name) + constant(step) + ADD + put(name)


def load(pointer: str) -> bytes:
    return get(pointer) + get("i") + ADD + VECTOR_LOAD


def store(total: str, token: str, output: str) -> bytes:
    """Store the sum of a vector's four numbers and the bias in one place of the result."""
    place = get(token) + get("out") + MULTIPLY + get(output) + ADD
    address = get("y") + place + constant(4) + MULTIPLY + ADD
    lanes = b"".join(
        get(total) + b"\xfd\x1f" + bytes([lane]) + (FLOAT_ADD if lane else b"") for lane in range(4)
    )
    bias = get("bias") + get(output) + constant(4) + MULTIPLY + ADD + FLOAT_LOAD
    return address + lanes + bias + FLOAT_ADD + FLOAT_STORE


def multiply() -> bytes:
    """Return the body of the function."""
    tokens = ("s", "s1", "s2", "s3")
    products = load("w") + put("vw") + load("v") + put("vv")
    for t in range(4):
        products += load(f"x{t}") + put("vx")
        for total, weights in ((f"a{t}", "vw"), (f"b{t}", "vv")):
            products += get(total) + get("vx") + get(weights) + VECTOR_MULTIPLY + VECTOR_ADD
            products += put(total)
    products += advance("i", 16)
    four_tokens = b"".join(next_index(f"s{t}", "s", "seq", t) for t in (1, 2, 3))
    four_tokens += b"".join(
        row("x", token, "size") + put(f"x{t}") for t, token in enumerate(tokens)
    )
    four_tokens += b"".join(ZEROS + put(f"{name}{t}") for name in "ab" for t in range(4))
    four_tokens += constant(0) + put("i") + loop(products, get("i") + get("end") + LESS)
    for t, token in enumerate(tokens):
        four_tokens += store(f"a{t}", token, "o") + store(f"b{t}", token, "p")
    four_tokens += advance("s", 4)
    two_outputs = next_index("p", "o", "out", 1)
    two_outputs += row("weight", "o", "size") + put("w") + row("weight", "p", "size") + put("v")
    two_outputs += constant(0) + put("s") + loop(four_tokens, get("s") + get("seq") + LESS)
    two_outputs += advance("o", 2)
    end = get("size") + constant(4) + MULTIPLY + put("end")
    return end + constant(0) + put("o") + loop(two_outputs, get("o") + get("out") + LESS)


def module() -> bytes:
    """Return the module, which imports its memory and exports one function."""

    def section(kind: int, content: bytes) -> bytes:
        return bytes([kind]) + number(len(content)) + content

    def text(value: str) -> bytes:
        return number(len(value)) + value.encode()

    vectors = len(NAMES) - 7 - INTEGERS
    code = b"\x02" + number(INTEGERS) + b"\x7f" + number(vectors) + b"\x7b" + multiply() + b"\x0b"
    return (
        b"\0asm"
        + struct.pack("<I", 1)
        + section(1, b"\x01\x60\x07" + b"\x7f" * 7 + b"\x00")
        + section(2, b"\x01" + text("page") + text("memory") + b"\x02\x00\x01")
        + section(3, b"\x01\x00")
        + section(7, b"\x01" + text("multiply") + b"\x00\x00")
        + section(10, b"\x01" + number(len(code)) + code)
    )


def main() -> None:
    """Write the file."""
    code = base64.b64encode(module()).decode()
    lines = " +\n".join(f'  "{line}"' for line in textwrap.wrap(code, 94))
    TARGET.write_text(TEXT.format(code=lines), encoding="utf-8")
    print(f"{TARGET}: a module of {len(module())} bytes")


if __name__ == "__main__":
    main()
