"""Encodes JSON texts as VARIANTs by machine code, with the same bytes as `json_documents`.

Start with `encoded_documents`. Each document takes three steps: `document_nodes` lists its values,
`member_numbers` numbers its names, and `value_bytes` writes it.
"""
