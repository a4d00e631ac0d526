"""The archive stage: journal → archive files, stored until the collector's receipt.

settings    the settings of archiving and shipping
stage       decides when to archive, what the journal may release, and which losses the collector has
archiver    writes one archive from records and losses
store       the archive directory: whole files under their final names, and the state file
state       how far the journal is archived and released: the bytes of the state file
inspection  opens and checks archive files, for commands
"""
