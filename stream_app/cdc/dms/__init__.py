"""Messages of AWS Database Migration Service. Start with `dms_json`."""
