"""Mutations of bytes and numbers, all drawn from a given random.Random."""

from __future__ import annotations

import random
import struct

INTERESTING = (0, 1, 2, 7, 8, 15, 16, 63, 64, 127, 128, 255, 256, 4095, 4096, 65535, 65536, (1 << 31) - 1, 1 << 31,
               (1 << 32) - 1, 1 << 32, (1 << 48) - 1, 1 << 48, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)  # fmt: skip


def number(random: random.Random, near: int | None = None) -> int:
    """A 64-bit number: an interesting one, one near `near`, or any."""
    draw = random.random()
    if near is not None and draw < 0.4:
        return (near + random.randint(-64, 64)) % (1 << 64)
    if draw < 0.8:
        return random.choice(INTERESTING)
    return random.getrandbits(64)


def _flip(random: random.Random, data: bytearray) -> None:
    if data:
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)


def _set_byte(random: random.Random, data: bytearray) -> None:
    if data:
        data[random.randrange(len(data))] = random.choice((0, 1, 127, 128, 255))


def _set_number(random: random.Random, data: bytearray) -> None:
    width = random.choice((2, 4, 8))
    if len(data) >= width:
        at = random.randrange(len(data) - width + 1) // width * width
        value = number(random, int.from_bytes(data[at : at + width], "little"))
        data[at : at + width] = struct.pack("<Q", value)[:width]


def _cut(random: random.Random, data: bytearray) -> None:
    del data[random.randrange(len(data) + 1) :]


def _remove(random: random.Random, data: bytearray) -> None:
    at = random.randrange(len(data) + 1)
    del data[at : at + random.randint(1, 16)]


def _insert(random: random.Random, data: bytearray) -> None:
    at = random.randrange(len(data) + 1)
    data[at:at] = random.randbytes(random.randint(1, 16))


def _repeat(random: random.Random, data: bytearray) -> None:
    at = random.randrange(len(data) + 1)
    part = data[at : at + random.randint(1, 64)]
    data[at:at] = part


_MUTATIONS = (_flip, _flip, _set_byte, _set_byte, _set_number, _set_number, _cut, _remove, _insert, _repeat)
_IN_PLACE = (_flip, _set_byte, _set_number, _set_number)


def some_bytes(random: random.Random, data: bytes, *, in_place: bool = False) -> bytes:
    """`data` with one to four mutations, as long as it was if `in_place`."""
    changed = bytearray(data)
    for _ in range(random.choice((1, 1, 1, 2, 2, 4))):
        random.choice(_IN_PLACE if in_place else _MUTATIONS)(random, changed)
    return bytes(changed)
