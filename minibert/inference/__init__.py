"""Running a model fast: which texts go together, kernels that suit the processor, threads."""
