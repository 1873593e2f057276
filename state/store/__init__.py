"""Files of the state: RocksDB, SST files, logs, and which files are a shard's state."""
