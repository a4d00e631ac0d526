"""Archives and checkpoints → the collector, or a directory such as a USB stick; receipts and answers back.

    HEAD: how much is there? ──► PUT or PATCH, part by part ──► 201 and a receipt ──► checked ──► deleted here
    PUT a checkpoint, each minute ──► 200 and an answer ──► checked ──► does the collector hold the same log?

shipper     the task: what is sent when, and what the responses mean
upload      one archive to a collector, in parts
heartbeat   one checkpoint to a collector
connection  requests to a collector, and its refusals
directory   archives and checkpoints into a directory
log_check   compares the collector's answer with the device log

Each archive is sent until a receipt for it is here; what a broken link costs is one part. Sending again is harmless,
because an archive is named by its SHA-256. Only a receipt that the configured collector signed, for exactly this file
of this device, allows anything to be deleted.
"""
