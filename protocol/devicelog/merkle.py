"""The hash tree of a log, as in RFC 9162 section 2.1 (Certificate Transparency), with SHA-256.

    leaf = SHA-256(00 ‖ data)      node = SHA-256(01 ‖ left ‖ right)      the root of no leaves = SHA-256 of nothing

The left half of a tree of n leaves is the largest power of two below n. An inclusion proof shows that a leaf is in a
tree; a consistency proof shows that a tree begins with all leaves of a smaller one. Both are about log2 n hashes.
"""

import hashlib
from collections.abc import Sequence
from typing import Final

HASH_BYTES: Final = 32
EMPTY_ROOT: Final = hashlib.sha256(b"").digest()


def leaf_hash(data: bytes) -> bytes:
    return hashlib.sha256(b"\x00" + data).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\x01" + left + right).digest()


def root(leaves: Sequence[bytes]) -> bytes:
    """The root of the tree over the data of its leaves."""
    return _subtree(leaves, 0, len(leaves)) if leaves else EMPTY_ROOT


def inclusion_proof(leaves: Sequence[bytes], index: int) -> tuple[bytes, ...]:
    """The siblings on the path from the leaf to the root, lowest first. Raises: ValueError if there is no such leaf."""
    if not 0 <= index < len(leaves):
        raise ValueError(f"leaf {index} of a log of {len(leaves)}")
    begin, end, path = 0, len(leaves), list[bytes]()
    while end - begin > 1:
        middle = _middle(begin, end)
        if index < middle:
            path.append(_subtree(leaves, middle, end))
            end = middle
        else:
            path.append(_subtree(leaves, begin, middle))
            begin = middle
    return tuple(reversed(path))


def consistency_proof(leaves: Sequence[bytes], size: int) -> tuple[bytes, ...]:
    """Proves that the first `size` leaves are the smaller tree. Raises: ValueError if there are fewer leaves.

    Nothing needs proof, and the proof is empty, if the smaller tree has no leaves or all of them.
    """
    if not 0 <= size <= len(leaves):
        raise ValueError(f"the first {size} of a log of {len(leaves)}")
    begin, end, path = 0, len(leaves), list[bytes]()
    while 0 < size < end:  # the smaller tree ends within this subtree
        middle = _middle(begin, end)
        if size <= middle:
            path.append(_subtree(leaves, middle, end))
            end = middle
        else:
            path.append(_subtree(leaves, begin, middle))
            begin = middle
    if begin > 0:  # else the rest is the smaller tree itself, whose root the verifier has
        path.append(_subtree(leaves, begin, end))
    return tuple(reversed(path))


def verify_inclusion(*, data: bytes, index: int, size: int, proof: Sequence[bytes], root: bytes) -> bool:
    """Whether the tree of this size and root has this data as the leaf `index` (RFC 9162 section 2.1.3.2)."""
    if not 0 <= index < size:
        return False
    node, last, found = index, size - 1, leaf_hash(data)
    for sibling in proof:
        if last == 0:
            return False
        if node & 1 or node == last:
            found = node_hash(sibling, found)
            node, last = _skip_missing_siblings(node, last)
        else:
            found = node_hash(found, sibling)
        node, last = node >> 1, last >> 1
    return last == 0 and found == root


def verify_consistency(*, size: int, root: bytes, new_size: int, new_root: bytes, proof: Sequence[bytes]) -> bool:
    """Whether the tree of `new_size` begins with all leaves of the tree of `size` (RFC 9162 section 2.1.4.2)."""
    if size in (0, new_size):
        return not proof and root == (new_root if size == new_size else EMPTY_ROOT)
    if not 0 < size < new_size or not proof:
        return False
    path = [root, *proof] if size & (size - 1) == 0 else list(proof)
    node, last = _without_right_edge(size - 1, new_size - 1)
    old = new = path[0]
    for sibling in path[1:]:
        if last == 0:
            return False
        if node & 1 or node == last:
            old, new = node_hash(sibling, old), node_hash(sibling, new)
            node, last = _skip_missing_siblings(node, last)
        else:
            new = node_hash(new, sibling)
        node, last = node >> 1, last >> 1
    return last == 0 and old == root and new == new_root


def _skip_missing_siblings(node: int, last: int) -> tuple[int, int]:
    """A node at the right edge without a sibling moves up unchanged."""
    while node and not node & 1:
        node, last = node >> 1, last >> 1
    return node, last


def _without_right_edge(node: int, last: int) -> tuple[int, int]:
    while node & 1:
        node, last = node >> 1, last >> 1
    return node, last


def _middle(begin: int, end: int) -> int:
    return begin + (1 << (end - begin - 1).bit_length() - 1)


def _subtree(leaves: Sequence[bytes], begin: int, end: int) -> bytes:
    if end - begin == 1:
        return leaf_hash(leaves[begin])
    middle = _middle(begin, end)
    return node_hash(_subtree(leaves, begin, middle), _subtree(leaves, middle, end))
