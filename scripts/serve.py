"""Serves the vectors of an embedder over HTTP, with FastAPI.

    pip install fastapi uvicorn
    python scripts/serve.py --model sentence-transformers/all-MiniLM-L6-v2 --port 8000
    curl localhost:8000/embed -H 'content-type: application/json' -d '{"texts": ["I love Korea"]}'

`POST /embed` takes {"texts": [...], "prompt_name": "query"} and answers {"vectors": [[...], ...]}; the texts of all
requests go through the model together. Too many or too long texts are refused (422), and all texts of a request while
too many wait (503, with Retry-After). `GET /health` says whether the model answers, and how many texts wait.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import FastAPI, HTTPException
from pydantic import BaseModel, Field, StringConstraints

from minibert import SentenceEmbedder
from minibert.sentences.batched import BusyError

MAX_TEXTS = 256
MAX_CHARACTERS = 20_000


class EmbedRequest(BaseModel):
    """What `POST /embed` takes."""

    texts: list[Annotated[str, StringConstraints(max_length=MAX_CHARACTERS)]] = Field(max_length=MAX_TEXTS)
    prompt_name: str | None = None


def create_app(embedder: SentenceEmbedder, **options: Any) -> FastAPI:
    """The application.

    Args:
        embedder: what makes the vectors.
        options: `max_wait_ms`, `max_tokens` and `max_pending` as in `SentenceEmbedder.batched`.
    """
    batched = embedder.batched(**options)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(batched.close)  # requests that wait have their answers first

    app = FastAPI(title="minibert", lifespan=lifespan)

    @app.post("/embed")
    async def embed(request: EmbedRequest) -> dict[str, Any]:
        try:
            futures = batched.submit_all(request.texts, prompt_name=request.prompt_name)
            vectors = await asyncio.gather(*map(asyncio.wrap_future, futures))
        except BusyError as error:
            raise HTTPException(503, str(error), {"Retry-After": "1"}) from None
        except ValueError as error:
            raise HTTPException(422, str(error)) from None
        return {"vectors": [vector.tolist() for vector in vectors]}

    @app.get("/health")
    async def health() -> dict[str, Any]:
        start = time.perf_counter()
        try:
            await asyncio.wait_for(batched.aencode("ready?", prompt=""), timeout=5)
        except (BusyError, asyncio.TimeoutError):
            raise HTTPException(503, f"{batched.pending} texts are waiting.", {"Retry-After": "1"}) from None
        milliseconds = round(1000 * (time.perf_counter() - start), 1)
        return {"dimension": embedder.dimension, "pending": batched.pending, "milliseconds": milliseconds}

    return app


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="minibert-en", help="folder, bundled model or Hub id")
    parser.add_argument("--precision", default="fp32", choices=["fp32", "bf16", "int8"])
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--max-pending", type=int, default=1024, help="texts that may wait (default: %(default)s)")
    options = parser.parse_args()
    import uvicorn

    embedder = SentenceEmbedder.from_pretrained(options.model, precision=options.precision)
    uvicorn.run(create_app(embedder, max_pending=options.max_pending), host=options.host, port=options.port)


if __name__ == "__main__":
    main()
