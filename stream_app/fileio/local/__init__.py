"""Files on local disks and mounted file systems. Start with `local_store`."""
