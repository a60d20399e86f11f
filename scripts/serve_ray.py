"""The service of `minibert serve` on Ray Serve: several replicas behind one address.

    pip install -c constraints.txt '.[serve]' 'ray[serve]>=2.43'
    python scripts/serve_ray.py minibert-en --replicas 2

Each replica has a model of its own, and gathers the texts that it gets into batches; Ray shares out the requests. The
key of `minibert serve`, MINIBERT_API_KEY, counts here, too.

On a slow machine Ray gives up on its proxy after five seconds: RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S=90 waits longer.
"""

from __future__ import annotations

import argparse
import os
from typing import Any

from ray import serve

from minibert.checkpoints.source import Source


def service(model: str, precision: str, replicas: int, threads: int) -> serve.Application:
    """What Ray runs: so many replicas of the application, each with so many threads."""
    key = os.environ.get("MINIBERT_API_KEY") or None

    def application() -> Any:  # made in each replica, for a model is not pickled
        from minibert.inference.batching import BATCH_TOKENS
        from minibert.serving.app import create_app
        from minibert.serving.models import load

        queue = {"max_wait_ms": 2.0, "max_tokens": BATCH_TOKENS, "max_pending": 4096}
        return create_app([load(model, Source(model), precision=precision, **queue)], key=key)

    memory = {
        "MALLOC_ARENA_MAX": "1",
        "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "8192",
    }  # as in minibert serve
    environment = {"env_vars": {"OMP_NUM_THREADS": str(threads), **memory}}
    actor = {"num_cpus": threads, "runtime_env": environment}

    @serve.deployment(num_replicas=replicas, ray_actor_options=actor, max_ongoing_requests=256)
    @serve.ingress(application)
    class Minibert:
        pass

    return Minibert.bind()


def main() -> None:
    """Serves until it is interrupted."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "model", nargs="?", default="minibert-en", help="folder, bundled model or Hub id"
    )
    parser.add_argument("--precision", default="fp32", choices=["fp32", "bf16", "int8"])
    parser.add_argument("--replicas", type=int, default=2)
    parser.add_argument(
        "--threads", type=int, default=1, help="of each replica (default: %(default)s)"
    )
    parser.add_argument("--port", type=int, default=8000)
    options = parser.parse_args()

    serve.start(http_options={"host": "127.0.0.1", "port": options.port})
    serve.run(
        service(options.model, options.precision, options.replicas, options.threads), blocking=True
    )


if __name__ == "__main__":
    main()
