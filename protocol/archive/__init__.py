"""Archives: immutable files of signed messages, named by their SHA-256, signed by the device that wrote them.

    HGARCH ‖ header ‖ block … ‖ manifest ‖ signature

The header says whose it is, blocks hold the messages' exact texts, the manifest accounts for every one of them and
holds the digests of all before it, and the device's Ed25519 key signs the manifest: no byte of a file can change
unnoticed. A file may be encrypted for one collector. The collector answers with a signed receipt.
`docs/wire-formats.md` gives every byte.
"""
