"""Archives: immutable files of signed messages, named by their SHA-256, signed by the device that wrote them.

    HGARCH ‖ header ‖ block … ‖ manifest ‖ signature

The header names the device, blocks hold the exact texts of the messages, and the manifest lists every block, chain and
loss with the digests of everything before it. The device's Ed25519 key signs the manifest, so no byte of a file can
change unnoticed. A file may be encrypted for one collector. The collector responds with a signed receipt.
`docs/wire-formats.md` specifies every byte.
"""
