"""Models behind HTTP, in the words of OpenAI's clients (/v1) and of those of Hugging Face's text-embeddings-inference.

    POST /v1/embeddings   /v1/rerank   /v1/classify      GET /v1/models
    POST /embed   /rerank   /predict   /                 GET /info
    GET  /health/live   /health/ready   /metrics

FastAPI reads the requests, `models` answers them, `gate` stands before both. No answer repeats what was sent; of texts
that were cut it gives the numbers, as "truncated" in an object and as the header X-Truncated.
"""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import groupby
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from prometheus_client import generate_latest
from pydantic import BaseModel, Field, StrictInt
from pydantic_core import to_json
from starlette.exceptions import HTTPException

import minibert
from minibert.sentences.batched import BusyError
from minibert.sentences.rows import Vectors
from minibert.sentences.search import unit
from minibert.serving.gate import Gate, Limits, Metrics, path_in_app, problem
from minibert.serving.models import Input, Served

TokenIds = Annotated[list[StrictInt], Field(min_length=1)]
Texts = (
    str
    | Annotated[list[str], Field(min_length=1)]
    | TokenIds
    | Annotated[list[TokenIds], Field(min_length=1)]
)
OneOrTwo = Annotated[list[str], Field(min_length=1, max_length=2)]  # a text, or a pair of texts
PositiveInt = Annotated[int, Field(ge=1)]


class _Request(BaseModel):
    model: str | None = None  # of several; None: the first that can answer
    prompt_name: str | None = None  # ours
    truncate: bool | None = None  # False: a text that is too long is an error


class EmbeddingsRequest(_Request):
    """OpenAI's."""

    input: Texts
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: PositiveInt | None = None


class Document(BaseModel):
    """A document that comes as an object."""

    text: str


class RankRequest(_Request):
    """As Cohere, Jina and vLLM have it."""

    query: str
    documents: Annotated[list[str | Document], Field(min_length=1)]
    top_n: PositiveInt | None = None
    return_documents: bool = False


class ClassifyRequest(_Request):
    """As vLLM has it."""

    input: str | Annotated[list[str], Field(min_length=1)]


class EmbedRequest(_Request):
    """Text-embeddings-inference's, as the next two."""

    inputs: Texts
    normalize: bool | None = None
    truncation_direction: Literal["Right", "right", "Left", "left"] | None = (
        None  # None: the model's
    )
    dimensions: PositiveInt | None = None


class RankTextsRequest(_Request):
    """A query and the texts to rank."""

    query: str
    texts: Annotated[list[str], Field(min_length=1)]
    raw_scores: bool = False
    return_text: bool = False


class PredictRequest(_Request):
    """A text; one or two texts in a list; or several such lists."""

    inputs: str | OneOrTwo | Annotated[list[OneOrTwo], Field(min_length=1)]
    raw_scores: bool = False


class Answer(NamedTuple):
    """To the texts of a request: whose, vectors or logits (N, D), how many tokens they had, and which were cut."""

    model: Served
    values: Vectors
    tokens: int
    truncated: list[int]

    def scores(self, raw: bool = False) -> Vectors:
        """The scores that logits stand for; raw: the logits."""
        return self.values if raw else self.model.activation(self.values)


class Service:
    """The models, and what all routes do with them."""

    def __init__(self, models: Mapping[str, Served], limits: Limits) -> None:
        self.models, self.limits, self.metrics, self.started = (
            models,
            limits,
            Metrics(models),
            int(time.time()),
        )

    async def answer(
        self,
        request: Request,
        body: _Request,
        kind: str,
        inputs: Sequence[Input],
        side: str | None = None,
    ) -> Answer:
        """Vectors or logits of the texts of a request, by the model that it names or the first of the kind.

        Raises:
            HTTPException: there is no such model, or the request asks for too much.
        """
        known = [
            model
            for model in self.models.values()
            if model.kind == kind and body.model in (None, model.name)
        ]
        if not known:
            raise HTTPException(
                404, f"there is no such {kind} model here: GET /v1/models lists all."
            )
        model = known[0]
        if len(inputs) > self.limits.texts:
            raise HTTPException(422, f"a request has at most {self.limits.texts} texts.")
        rows = await model.read(inputs, body.prompt_name, side)
        tokens = sum(own.tokens for own, _ in rows)
        if tokens > self.limits.tokens:
            raise HTTPException(422, f"a request has at most {self.limits.tokens} tokens.")
        if body.truncate is False and any(own.overlong for own, _ in rows):
            raise HTTPException(
                422, f"a text has more than {model.max_length} tokens, and truncate is false."
            )
        try:
            values = await model.run(rows)
        except BusyError as error:
            raise HTTPException(429, str(error), {"Retry-After": "1"}) from None
        self.metrics.texts.labels(model.name).inc(len(inputs))
        self.metrics.tokens.labels(model.name).inc(tokens)
        request.scope["minibert"].update(model=model.name, texts=len(inputs), tokens=tokens)
        return Answer(
            model, values, tokens, [number for number, (own, _) in enumerate(rows) if own.overlong]
        )


def create_app(
    models: Sequence[Served],
    limits: Limits | None = None,
    *,
    key: str | None = None,
    json_log: bool = False,
) -> FastAPI:
    """The application.

    Args:
        models: what is served, by `Served.name`; a request that names none gets the first that can answer it.
        limits: of every request.
        key: what clients send as `Authorization: Bearer KEY`; None: nothing.
        json_log: log lines are JSON.
    """
    service = Service({model.name: model for model in models}, limits or Limits())

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        for model in models:  # what waits is answered first
            await asyncio.to_thread(model.batched.close)

    # the interactive page would come from other computers
    app = FastAPI(
        title="minibert",
        version=minibert.__version__,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
    )
    app.add_middleware(
        Gate, limits=service.limits, key=key, metrics=service.metrics, json_log=json_log
    )

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        # where it is wrong and what should stand there; what stands there is left out
        wrong = error.errors()[:6]
        if any(one["loc"] == ("body",) or one["type"] == "json_invalid" for one in wrong):
            told = ["send an object of JSON, with the header Content-Type: application/json"]
        else:
            places = groupby(wrong, lambda one: one["loc"][1])
            told = [
                f"{place}: {' or '.join(dict.fromkeys(one['msg'] for one in ones))}"
                for place, ones in places
            ]
        return problem(path_in_app(request.scope), 422, "; ".join(told) + ".")

    @app.exception_handler(HTTPException)
    async def refused(request: Request, error: HTTPException) -> Response:
        path = path_in_app(request.scope)
        if (
            error.status_code == 400
        ):  # FastAPI's for bytes that are no text, numbers without an end, and the like
            return problem(path, 422, "the body is not JSON.")
        return problem(path, error.status_code, f"{error.detail}".rstrip(".") + ".", error.headers)

    _add_openai(app, service)
    _add_tei(app, service)

    @app.get("/metrics")
    async def metrics() -> Response:
        return Response(
            generate_latest(service.metrics.registry), media_type="text/plain; version=0.0.4"
        )

    @app.get("/health/live")
    async def live() -> dict[str, str]:
        return {"status": "live"}

    @app.get("/health/ready")
    async def ready() -> dict[str, Any]:
        return {
            "status": "ready",
            "waiting": {model.name: model.batched.pending for model in models},
        }

    return app


def _add_openai(app: FastAPI, service: Service) -> None:
    """The routes below /v1."""

    @app.get("/v1/models")
    async def models() -> dict[str, Any]:
        return {"object": "list", "data": [about(model) for model in service.models.values()]}

    @app.get("/v1/models/{name:path}")
    async def model(name: str) -> dict[str, Any]:
        if name not in service.models:
            raise HTTPException(404, "there is no such model here: GET /v1/models lists all.")
        return about(service.models[name])

    def about(model: Served) -> dict[str, Any]:
        own = {
            "id": model.name,
            "object": "model",
            "created": service.started,
            "owned_by": "minibert",
        }
        return {**own, "kind": model.kind, "max_length": model.max_length, **model.about}

    @app.post("/v1/embeddings")
    async def embeddings(body: EmbeddingsRequest, request: Request) -> Response:
        answer = await service.answer(request, body, "embedding", _inputs(body.input))
        vectors = _shortened(answer, body.dimensions)
        data: list[Any] = vectors.tolist()
        if body.encoding_format == "base64":
            data = [base64.b64encode(vector.astype("<f4").tobytes()).decode() for vector in vectors]
        found = [
            {"object": "embedding", "index": number, "embedding": own}
            for number, own in enumerate(data)
        ]
        return _reply({"object": "list", "data": found, **_usage(answer)}, answer)

    @app.post("/v1/rerank")
    async def rerank(body: RankRequest, request: Request) -> Response:
        documents = [own if isinstance(own, str) else own.text for own in body.documents]
        answer = await service.answer(
            request, body, "reranker", [(body.query, document) for document in documents]
        )
        results: list[dict[str, Any]] = []
        for index, score in _ranked(answer.scores())[: body.top_n]:
            results.append({"index": index, "relevance_score": score})
            if body.return_documents:
                results[-1]["document"] = {"text": documents[index]}
        return _reply({"object": "list", "results": results, **_usage(answer)}, answer)

    @app.post("/v1/classify")
    async def classify(body: ClassifyRequest, request: Request) -> Response:
        answer = await service.answer(request, body, "classifier", _inputs(body.input))
        labels = answer.model.about["labels"]
        data = [
            {
                "index": number,
                "label": labels[int(own.argmax())],
                "probs": own.tolist(),
                "num_classes": len(labels),
            }
            for number, own in enumerate(answer.scores())
        ]
        return _reply({"object": "list", "data": data, **_usage(answer)}, answer)


def _add_tei(app: FastAPI, service: Service) -> None:
    """The routes of text-embeddings-inference, whose clients also post to /, for the first model."""

    @app.post("/embed")
    async def embed(body: EmbedRequest, request: Request) -> Response:
        side = body.truncation_direction and body.truncation_direction.lower()
        answer = await service.answer(request, body, "embedding", _inputs(body.inputs), side)
        vectors = _shortened(answer, body.dimensions)
        return _reply((unit(vectors) if body.normalize else vectors).tolist(), answer)

    @app.post("/rerank")
    async def rerank(body: RankTextsRequest, request: Request) -> Response:
        answer = await service.answer(
            request, body, "reranker", [(body.query, text) for text in body.texts]
        )
        ranked = _ranked(answer.scores(body.raw_scores))
        text = {
            index: {"text": body.texts[index]} if body.return_text else {} for index, _ in ranked
        }
        return _reply(
            [{"index": index, "score": score, **text[index]} for index, score in ranked], answer
        )

    @app.post("/predict")
    async def predict(body: PredictRequest, request: Request) -> Response:
        rows: list[Any] = body.inputs if isinstance(body.inputs, list) else [body.inputs]
        alone = isinstance(rows[0], str)
        inputs: list[Input] = [
            row[0] if len(row) == 1 else tuple(row) for row in ([rows] if alone else rows)
        ]
        answer = await service.answer(request, body, "classifier", inputs)
        labels = answer.model.about["labels"]
        found = [
            [{"label": labels[index], "score": score} for index, score in _ranked(own)]
            for own in answer.scores(body.raw_scores)
        ]
        nested = (
            request.scope["route"].path == "/"
        )  # where pipelines answer: a list for each text, of one text, too
        return _reply(found[0] if alone and not nested else found, answer)

    first = next(iter(service.models.values()))
    routes: dict[str, Any] = {"embedding": embed, "reranker": rerank, "classifier": predict}
    app.post("/")(routes[first.kind])

    @app.get("/info")
    async def info() -> dict[str, Any]:
        own = first.about
        told = (
            {"id2label": dict(enumerate(own["labels"]))}
            if "labels" in own
            else {"pooling": own["pooling"]}
        )
        return {
            "model_id": first.name,
            "model_dtype": first.about["precision"],
            "model_type": {first.kind: told},
            "max_input_length": first.max_length,
            "max_client_batch_size": service.limits.texts,
            "auto_truncate": True,
            "version": minibert.__version__,
        }


def _inputs(given: str | list[Any]) -> list[Input]:
    """The texts of a request: one text, or the ids of one, is a list of one."""
    return [given] if isinstance(given, str) or isinstance(given[0], int) else list(given)


def _shortened(answer: Answer, dimensions: int | None) -> Vectors:
    """The first so many numbers of each vector, of length 1, as OpenAI's are."""
    if dimensions is None:
        return answer.values
    if dimensions > answer.values.shape[1]:
        raise HTTPException(422, f"dimensions is at most {answer.values.shape[1]} for this model.")
    return unit(answer.values[:, :dimensions])


def _ranked(scores: Vectors) -> list[tuple[int, float]]:
    """Numbers and scores, best first."""
    flat = scores.ravel()
    return [(index, float(flat[index])) for index in np.argsort(-flat, kind="stable").tolist()]


def _usage(answer: Answer) -> dict[str, Any]:
    usage = {"prompt_tokens": answer.tokens, "total_tokens": answer.tokens}
    return {"model": answer.model.name, "usage": usage, "truncated": answer.truncated}


def _reply(content: Any, answer: Answer) -> Response:
    cut = {"X-Truncated": ",".join(map(str, answer.truncated))} if answer.truncated else {}
    return Response(to_json(content), headers=cut, media_type="application/json")
