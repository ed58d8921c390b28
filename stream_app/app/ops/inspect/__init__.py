"""What `stream-app inspect` lists: a module a listing."""
