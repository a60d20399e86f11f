"""Running a model fast: batches, kernels that suit the processor, threads."""
