"""What a checkpoint is, the files around its BERT, and how it reads its inputs."""
