"""The fuzz target holds for its seeds and for what random damage makes of them."""

import random

from tests.fuzz.journal_recovery import SEEDS, fuzz_one


def test_recovery_survives_mangled_files() -> None:
    chance = random.Random(5)
    for seed in SEEDS:
        fuzz_one(seed)
        for _ in range(40):
            mangled = bytearray(seed)
            for _ in range(chance.randint(1, 30)):
                mangled[chance.randrange(1, len(mangled))] = chance.randrange(256)
            del mangled[chance.randrange(1, len(mangled)) :]
            fuzz_one(bytes(mangled))
