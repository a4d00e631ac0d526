"""Takes archives from devices over HTTP, keeps them by the SHA-256 of their bytes, and answers with signed receipts.

    claim ──► allow-list ──► upload, resumable ──► check every byte ──► landing area ──► receipt
    signed     devices/       uploads, hidden       verify               <sha256>.hga     receipts/

Nothing is under its final name before it was checked and is durable, and no receipt exists before that.
"""
