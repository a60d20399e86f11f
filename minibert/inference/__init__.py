"""Running a model fast: which texts go together, kernels that suit the processor, threads."""

# Tokens of one pass through the model: enough for the matrix products to run at full speed in every thread, few enough
# for what lies between two of them to stay in the processor's cache
BATCH_TOKENS = 4096
