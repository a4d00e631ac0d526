"""Coverage-guided fuzzing of every decoder: `make fuzz TARGET=iomessage SECONDS=600`.

A target is a module here with `SEEDS` to begin from and `fuzz_one(data)`, which raises only where a decoder breaks its
promise. What a run finds worth keeping stays in `.fuzz/`, where the next one begins. CI runs each target briefly.
"""
