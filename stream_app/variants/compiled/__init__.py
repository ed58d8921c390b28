"""Encodes texts of JSON as VARIANTs by machine code; gives the bytes that `json_documents` gives.

Start with `encoded_documents`. Each document is done in three steps, a module each:
`document_nodes` lists its values, `member_numbers` its names, and `value_bytes` writes it.
"""
