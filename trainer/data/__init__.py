"""Records on disk and the way from them to batches."""
