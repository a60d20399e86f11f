"""Files of texts to shards of vectors: location, inputs, formats, shards."""
