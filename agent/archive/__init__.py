"""The archive stage: journal → archive files, kept until the collector's receipt.

settings    what an operator may choose, for archiving and for shipping
stage       when to archive, what the journal may release, which losses the collector knows
archiver    writes one archive from records and losses
store       the archive directory: whole files under their final names, and the state file
state       how far the journal is archived and released: the bytes of the state file
inspection  opens and checks archive files, for commands
"""
