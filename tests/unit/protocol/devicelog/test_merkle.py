"""The tree against the public test vectors of Certificate Transparency, which has the same hashing."""

import pytest

from protocol.devicelog.merkle import (
    consistency_proof,
    inclusion_proof,
    root,
    verify_consistency,
    verify_inclusion,
)

LEAVES = [
    bytes.fromhex(text)
    for text in ("", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f")
]
ROOTS = [
    bytes.fromhex(text)
    for text in (
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
        "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
        "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
        "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
        "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
        "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
        "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
        "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
    )
]
A = "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7"
B = "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e"
C = "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4"
D = "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b"
E = "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0"
F = "0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a"
INCLUSION = [
    (0, 1, []),
    (0, 8, [A, B, C]),
    (5, 8, [D, E, ROOTS[4].hex()]),
    (2, 3, [ROOTS[2].hex()]),
    (1, 5, [ROOTS[1].hex(), B, D]),
]
CONSISTENCY = [(1, 1, []), (1, 8, [A, B, C]), (6, 8, [F, E, ROOTS[4].hex()]), (2, 5, [B, D])]


def hashes(texts: list[str]) -> tuple[bytes, ...]:
    return tuple(map(bytes.fromhex, texts))


def test_roots() -> None:
    assert [root(LEAVES[:size]) for size in range(9)] == ROOTS


@pytest.mark.parametrize(("index", "size", "path"), INCLUSION)
def test_inclusion_proofs(index: int, size: int, path: list[str]) -> None:
    assert inclusion_proof(LEAVES[:size], index) == hashes(path)
    assert verify_inclusion(data=LEAVES[index], index=index, size=size, proof=hashes(path), root=ROOTS[size])
    assert not verify_inclusion(data=b"other", index=index, size=size, proof=hashes(path), root=ROOTS[size])


@pytest.mark.parametrize(("size", "new_size", "path"), CONSISTENCY)
def test_consistency_proofs(size: int, new_size: int, path: list[str]) -> None:
    assert consistency_proof(LEAVES[:new_size], size) == hashes(path)
    assert verify_consistency(
        size=size, root=ROOTS[size], new_size=new_size, new_root=ROOTS[new_size], proof=hashes(path)
    )


def test_what_is_not_in_the_log_has_no_proof() -> None:
    with pytest.raises(ValueError, match="leaf 8 of a log of 8"):
        inclusion_proof(LEAVES, 8)
    with pytest.raises(ValueError, match="leaf -1"):
        inclusion_proof(LEAVES, -1)
    with pytest.raises(ValueError, match="the first 9 of a log of 8"):
        consistency_proof(LEAVES, 9)
    assert not verify_inclusion(data=LEAVES[0], index=8, size=8, proof=hashes([A, B, C]), root=ROOTS[8])
    assert not verify_inclusion(data=LEAVES[0], index=-1, size=8, proof=hashes([A, B, C]), root=ROOTS[8])


def test_every_log_continues_the_empty_one_and_itself_without_a_proof() -> None:
    assert verify_consistency(size=0, root=ROOTS[0], new_size=8, new_root=ROOTS[8], proof=())
    assert not verify_consistency(size=0, root=ROOTS[1], new_size=8, new_root=ROOTS[8], proof=())
    assert not verify_consistency(size=8, root=ROOTS[8], new_size=8, new_root=ROOTS[8], proof=hashes([A]))
    assert not verify_consistency(size=8, root=ROOTS[8], new_size=8, new_root=ROOTS[7], proof=())
    assert not verify_consistency(size=8, root=ROOTS[8], new_size=7, new_root=ROOTS[7], proof=())
    assert not verify_consistency(size=6, root=ROOTS[6], new_size=8, new_root=ROOTS[8], proof=())


def test_the_proof_of_a_changed_log_fails() -> None:
    forged = [*LEAVES[:3], b"other", *LEAVES[4:]]
    assert not verify_consistency(
        size=6, root=ROOTS[6], new_size=8, new_root=root(forged), proof=consistency_proof(forged, 6)
    )
