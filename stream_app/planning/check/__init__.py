"""The rules that a sound table keeps."""
