"""Runs the service of `minibert serve` on Ray Serve: several replicas behind one address.

    pip install -c constraints.txt '.[serve]' 'ray[serve]>=2.43'
    python scripts/serve_ray.py minibert-en --replicas 2

Ray distributes the requests. Each replica has its own model and batches the texts it receives.
MINIBERT_API_KEY sets the key of the clients, as for `minibert serve`.

Ray waits five seconds for its proxy to start. Set RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S=90 on a
slow machine.
"""

from __future__ import annotations

import argparse
from typing import Any

from ray import serve

from minibert.checkpoints.source import Source


def service(model: str, precision: str, replicas: int, threads: int) -> serve.Application:
    """Builds the application that Ray runs.

    Args:
        model: Folder, bundled model or Hub id.
        precision: "fp32", "bf16" or "int8".
        replicas: Number of replicas.
        threads: Number of threads of each replica.
    """
    from minibert.cli.serve import key_of_clients

    key = key_of_clients()

    # called in each replica, because a model cannot be pickled
    def application() -> Any:
        from minibert.inference.batching import BATCH_TOKENS
        from minibert.serving.app import create_app
        from minibert.serving.models import load_served

        queue = {"max_wait_ms": 2.0, "max_tokens": BATCH_TOKENS, "max_pending": 4096}
        return create_app(
            [load_served(model, Source(model), precision=precision, **queue)], key=key
        )

    # as in minibert serve
    memory = {"MALLOC_ARENA_MAX": "1", "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "8192"}
    environment = {"env_vars": {"OMP_NUM_THREADS": str(threads), **memory}}
    actor = {"num_cpus": threads, "runtime_env": environment}

    @serve.deployment(num_replicas=replicas, ray_actor_options=actor, max_ongoing_requests=256)
    @serve.ingress(application)
    class Minibert:
        pass

    return Minibert.bind()


def main() -> None:
    """Serves until interrupted."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "model",
        nargs="?",
        default="minibert-en",
        help="Folder, bundled model or Hub id (default: %(default)s).",
    )
    parser.add_argument(
        "--precision",
        default="fp32",
        choices=["fp32", "bf16", "int8"],
        help="Precision of the model (default: %(default)s).",
    )
    parser.add_argument(
        "--replicas", type=int, default=2, help="Number of replicas (default: %(default)s)."
    )
    parser.add_argument(
        "--threads", type=int, default=1, help="Threads of each replica (default: %(default)s)."
    )
    parser.add_argument("--port", type=int, default=8000, help="Port (default: %(default)s).")
    options = parser.parse_args()

    serve.start(http_options={"host": "127.0.0.1", "port": options.port})
    serve.run(
        service(options.model, options.precision, options.replicas, options.threads), blocking=True
    )


if __name__ == "__main__":
    main()
