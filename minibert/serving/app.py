"""Models behind HTTP, with the APIs of OpenAI (/v1) and Hugging Face text-embeddings-inference.

    POST /v1/embeddings   /v1/rerank (/v2/rerank)   /v1/classify   /v1/score   GET /v1/models
         (also without /v1)
    POST /v2/embed (/v1/embed), as in Cohere's API   /v1/reranking, as in Mixedbread's
    POST /pooling, as in vLLM's API
    POST /embed   /rerank   /predict   /similarity   /tokenize                   GET /info
    POST /question-answering, as in Hugging Face's pipelines
    POST / (/invocations)   for the first model
    GET  /   /ping   /health   /health/live   /health/ready   /metrics

FastAPI validates the requests, `models` computes the responses, and `limits` is the middleware
around both. No error repeats the content of its request. Texts that were truncated are reported
by their indices: "truncated" in an object has all of them, the header X-Truncated the first ten,
and X-Truncated-Count their number.

A reranker's score is the sigmoid of its logit, from 0 to 1, whatever activation its folder names:
so do text-embeddings-inference, Cohere and Jina, and so thresholds mean the same everywhere.

In all requests null stands for the default. Vectors are L2-normalized unless the request says
`"normalize": false` or the application was created with `normalize=False`.
"""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from itertools import groupby
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from prometheus_client import generate_latest
from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import to_json
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect
from starlette.responses import PlainTextResponse
from starlette.routing import Match, Route
from typing_extensions import TypedDict  # pydantic takes that of typing from Python 3.12 on

import minibert
from minibert.encoders.arithmetic.quantization import quantize
from minibert.encoders.arithmetic.scoring import activate, best_first, ranked_labels
from minibert.encoders.arithmetic.search import unit
from minibert.encoders.rows.batched import BusyError
from minibert.encoders.rows.token_rows import Rows, Vectors
from minibert.encoders.text_encoder import PROMPT_NAMES
from minibert.serving.limits import (
    PROBES,
    Ending,
    Gate,
    Metrics,
    path_in_app,
    problem,
    unless_disconnected,
)
from minibert.serving.models import Input, Served
from minibert.serving.options import Limits
from minibert.serving.schema import REASONS, problem_in_schema, schema_of
from minibert.util.errors import ArgumentError

# A list stops at its first invalid item: the errors of all items would take gigabytes
Items = Field(min_length=1, fail_fast=True)
TextList = Annotated[list[str], Items]
# in JSON 3.0 is a whole number
whole_number = BeforeValidator(lambda n: int(n) if isinstance(n, float) and n.is_integer() else n)
TokenIds = Annotated[list[Annotated[StrictInt, Field(ge=0), whole_number]], Items]
# a text, or a pair of texts
OneOrTwo = Annotated[list[str], Field(min_length=1, max_length=2, fail_fast=True)]
PositiveInt = Annotated[StrictInt, Field(ge=1), whole_number]
# 8-bit numbers are left out: they need ranges of many vectors, not those of one request
VectorEncoding = Literal["float", "base64", "binary", "ubinary"]
PRECISION_OF_ENCODING = {"float": "float32", "binary": "binary", "ubinary": "ubinary"}
Direction = Annotated[Literal["Right", "right", "Left", "left"], AfterValidator(str.lower)]

MAX_INDICES = 10  # in the header X-Truncated: clients and proxies limit the size of headers

# kinds of models that answer a route, the preferred kind first
EMBEDDERS = ("embedding",)
RERANKERS = ("reranker",)
CLASSIFIERS = ("classifier", "tagger", "reranker")
ANSWERERS = ("answerer",)
SCORERS = ("reranker", "embedding")  # by their scores, or by the cosine of their vectors

OF_ANSWERS = ("max_answer_length", "no_answer", "no_answer_threshold")  # in /info

FOR_THE_FIRST_MODEL = ("/", "/invocations")  # the second as SageMaker calls it

# what other APIs call the two sides of a search, as input_type and as task
QUERY_TYPES = ("query", "search_query", "retrieval.query", "code.query", "nl2code.query")
DOCUMENT_TYPES = (
    *("document", "passage", "search_document", "retrieval.passage"),
    *("code.passage", "nl2code.passage"),
)
# and what needs no prompt
OTHER_TYPES = ("classification", "clustering", "separation", "text-matching")
TYPES = (*QUERY_TYPES, *DOCUMENT_TYPES, *OTHER_TYPES)

# the side of a long text that Cohere's `truncate` discards. Without it, it is the model's
COHERE_SIDES: dict[str | None, Literal["left", "right"]] = {"START": "left", "END": "right"}


class TextObject(TypedDict):
    """A text that is sent as an object, which a model of pydantic would make four times as big."""

    text: str


class TextPart(TypedDict):
    """A part of what Cohere's clients send as one input. Others, such as images, are refused."""

    type: Literal["text"]
    text: str


class TextInput(TypedDict):
    """An input of version 2 of Cohere's API: a list of parts, of which one text is served."""

    content: Annotated[list[TextPart], Field(min_length=1, max_length=1, fail_fast=True)]


TextObjects = Annotated[list[str | TextObject], Items]
Texts = str | TextObject | TextList | TextObjects | TokenIds | Annotated[list[TokenIds], Items]


def _as_sent(schema: dict[str, Any], model: type[_Body]) -> None:
    """Say that null stands for the default of each field, as `_Body` reads it."""
    properties = schema["properties"]
    for name, field in model.model_fields.items():
        if not field.is_required() and {"type": "null"} not in properties[name].get("anyOf", []):
            properties[name] = {"anyOf": [properties[name], {"type": "null"}]}
            properties[name]["title"] = name
    schema["x-kinds"] = model.kinds  # what `schema_of` says about models


def _one_of(*names: str) -> Callable[[dict[str, Any], type[_Body]], None]:
    """As `_as_sent`, for a body that needs one of these fields."""

    def add(schema: dict[str, Any], model: type[_Body]) -> None:
        _as_sent(schema, model)
        schema["oneOf"] = [
            {"required": [name], "properties": {name: {"not": {"type": "null"}}}} for name in names
        ]

    return add


class _Body(BaseModel):
    model_config = ConfigDict(json_schema_extra=_as_sent)

    kinds: ClassVar[Sequence[str | None]] = EMBEDDERS  # of models that answer, the preferred first

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, values: Any) -> Any:
        """Clients send null for a default, as openai-python does."""
        if isinstance(values, dict):
            return {name: value for name, value in values.items() if value is not None}
        return values


class _Options(_Body):
    prompt_name: str | None = None  # not in the original APIs
    truncate: StrictBool | None = None  # False: a text that is too long is an error
    truncation: StrictBool | None = None  # the same, as Voyage calls it
    truncation_direction: Direction | None = None  # None: the model's


class _Request(_Options):
    model: str | None = None  # None: the first model of a suitable kind


class EmbeddingsRequest(_Request):
    """Body of `/v1/embeddings`, as in OpenAI's API, and what Jina and Voyage call otherwise."""

    input: Texts
    encoding_format: Literal["float", "base64"] | None = None  # None: float
    embedding_type: VectorEncoding | None = None  # the same, as Jina calls it
    output_dtype: Literal["float", "binary", "ubinary"] | None = None  # the same, as Voyage does
    dimensions: PositiveInt | None = None
    output_dimension: PositiveInt | None = None  # the same, as Voyage calls it
    normalize: StrictBool | None = None  # not OpenAI's. None: the default of the service
    normalized: StrictBool | None = None  # the same, as Jina calls it
    input_type: str | None = None  # as Cohere, Voyage and vLLM say what a text is
    task: str | None = None  # as Jina says it


class PoolingRequest(_Request):
    """Body of `/pooling`, as in vLLM's API, for vectors."""

    input: Texts
    task: Literal["embed"] | None = None
    encoding_format: Literal["float", "base64"] | None = None  # None: float
    dimensions: PositiveInt | None = None
    normalize: StrictBool | None = None  # None: the default of the service


class EmbedTextsRequest(_Body):
    """Body of `/v1/embed` and `/v2/embed`, as in Cohere's API: `texts`, or version 2's `inputs`."""

    model_config = ConfigDict(json_schema_extra=_one_of("texts", "inputs"))

    texts: TextList | None = None
    inputs: Annotated[list[TextInput], Items] | None = None
    model: str | None = None
    input_type: str | None = None
    embedding_types: Annotated[list[VectorEncoding], Items] | None = None
    output_dimension: PositiveInt | None = None
    truncate: Literal["NONE", "START", "END"] | None = None


class RankRequest(_Request):
    """Body of `/v1/rerank`, `/v2/rerank` and `/rerank`: a query, and the texts to rank.

    They are `documents` in the APIs of Cohere, Jina, vLLM and Voyage, and `texts` in that of
    text-embeddings-inference, which decides the form of the response. Voyage calls `top_n` `top_k`
    and `truncate` `truncation`, by which its clients are known. Options of one API are also options
    of the others.
    """

    kinds = RERANKERS

    model_config = ConfigDict(json_schema_extra=_one_of("documents", "texts"))

    query: str | TextObject
    documents: TextObjects | None = None
    texts: TextList | None = None
    top_n: PositiveInt | None = None
    top_k: PositiveInt | None = None
    return_documents: StrictBool = False
    return_text: StrictBool = False
    raw_scores: StrictBool = False
    # of documents that are objects, as Cohere's
    rank_fields: Annotated[list[Literal["text"]], Items] | None = None


class RerankingRequest(_Request):
    """Body of `/v1/reranking`, as in Mixedbread's API."""

    kinds = RERANKERS

    query: str | TextObject
    input: TextObjects
    top_k: PositiveInt | None = None
    return_input: StrictBool = False
    # of inputs that are objects
    rank_fields: Annotated[list[Literal["text"]], Items] | None = None


class ClassifyRequest(_Request):
    """Body of `/v1/classify`, as in vLLM's API."""

    kinds = ("classifier",)

    input: str | TextList


ONE_TEXT = {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 1}


class ScoreRequest(_Request):
    """Body of `/v1/score` and `/score`, as in vLLM's API: texts to compare with others.

    A single `text_1` is compared with each `text_2`, and else the first with the first. vLLM also
    calls them `queries` and `documents` (or `items`), or `data_1` and `data_2`.
    """

    kinds = SCORERS

    # several: as many as there are of text_2
    text_1: str | Annotated[TextList, WithJsonSchema(ONE_TEXT)] = Field(
        validation_alias=AliasChoices("text_1", "queries", "data_1")
    )
    text_2: str | TextList = Field(
        validation_alias=AliasChoices("text_2", "documents", "items", "data_2")
    )


class EmbedRequest(_Request):
    """Body of `/embed`, as in text-embeddings-inference."""

    inputs: Texts
    normalize: StrictBool | None = None  # None: the default of the service
    dimensions: PositiveInt | None = None


class PredictRequest(_Request):
    """Body of `/predict`: a text, a list of one or two texts, or several such lists."""

    kinds = CLASSIFIERS

    inputs: str | OneOrTwo | Annotated[list[OneOrTwo], Items]
    raw_scores: StrictBool = False


# which words a context has is up to the vocabulary: no pattern says it
TEXT_WITH_WORD = {"type": "string", "pattern": r"\S", "format": "text with a word"}


class Question(TypedDict):
    """A question, and the text that holds its answer."""

    question: str
    context: Annotated[str, WithJsonSchema(TEXT_WITH_WORD)]


class QuestionRequest(_Body):
    """Body of `/question-answering`, as in Hugging Face's pipelines: a question, or several."""

    kinds = ANSWERERS

    inputs: Question | Annotated[list[Question], Items]
    model: str | None = None


class SimilarityInputs(BaseModel):
    """A text, and the texts to compare it with."""

    source_sentence: str
    sentences: TextList


class SimilarityRequest(_Body):
    """Body of `/similarity`, as in text-embeddings-inference."""

    inputs: SimilarityInputs
    parameters: _Options = _Options()
    model: str | None = None


class TokenizeRequest(_Body):
    """Body of `/tokenize`: one text or several, `inputs` as in text-embeddings-inference.

    vLLM calls a single text `prompt`, which decides the form of the response.
    """

    kinds = (None,)

    model_config = ConfigDict(json_schema_extra=_one_of("inputs", "prompt"))

    inputs: str | TextList | None = None
    prompt: str | None = None
    return_token_strs: StrictBool = False  # in the form of vLLM
    add_special_tokens: StrictBool = True
    prompt_name: str | None = None  # None: no prompt
    model: str | None = None


class ModelOutputs(NamedTuple):
    """What a model computed for the texts of a request.

    Attributes:
        model: The model.
        values: Vectors or logits (N, D), or the list of spans of each text from a tagger, or the
            answer to each question from an answerer.
        tokens: Number of tokens of all texts.
        truncated: Indices of the texts that were truncated.
    """

    model: Served
    values: Any
    tokens: int
    truncated: list[int]

    @property
    def scores(self) -> Vectors:
        """The scores of logits, as the activation of the model gives them, (N, labels)."""
        scores: Vectors = activate(self.values, self.model.activation)
        return scores


class Service:
    """The models, and the steps that the routes share."""

    def __init__(self, models: Mapping[str, Served], limits: Limits, normalize: bool) -> None:
        self.models = models
        self.limits = limits
        self.normalize = normalize
        self.metrics = Metrics(models)
        self.ending = Ending()
        self.started = int(time.time())

    def choose(self, name: str | None = None, kinds: Sequence[str | None] = (None,)) -> Served:
        """Return the model of this name.

        Args:
            name: Name of the model. None: the first model of the first kind that is served.
            kinds: Suitable kinds, the preferred kind first. None: any kind.

        Raises:
            HTTPException: No model of these kinds has the name.
        """
        for kind in kinds:
            for model in self.models.values():
                if kind in (None, model.kind) and name in (None, model.name):
                    return model
        kind = f"{kinds[0]} " if kinds[0] else ""
        raise HTTPException(404, f"the {kind}model does not exist here: GET /v1/models lists all.")

    def most_texts(self, model: Served) -> int:
        """How many texts a request may have, for which the queue of its model has to have room."""
        return min(self.limits.texts, model.batched.max_pending)

    def check_size(self, model: Served, inputs: Sequence[Input], prompt_name: str | None) -> None:
        """Check that a request has no more texts and characters than it may have.

        Args:
            model: The model of the request.
            inputs: The texts of the request.
            prompt_name: Name of the prompt that is put before them. None: the default prompt.

        Raises:
            HTTPException: It has more.
        """
        most = self.most_texts(model)
        if len(inputs) > most:
            raise HTTPException(422, f"a request has at most {most} texts, not {len(inputs)}.")
        characters = model.characters(inputs, prompt_name)
        if characters > self.limits.characters:
            raise HTTPException(
                422,
                f"a request has at most {self.limits.characters} characters, not {characters}, "
                "where one outside ASCII counts as six: send it in parts.",
            )

    async def answer(
        self,
        request: Request,
        body: _Request,
        kinds: Sequence[str],
        inputs: Sequence[Input],
    ) -> ModelOutputs:
        """Compute the texts of a request by the model that it names, or the first of these kinds.

        Args:
            request: The request, whose log line gets the counts.
            body: Its body.
            kinds: Kinds of models that can answer it, the preferred kind first.
            inputs: Its texts.

        Raises:
            HTTPException: The model does not exist, or the request exceeds a limit.
        """
        name = body.model
        if name is None and _is_for_first_model(request):
            name = self.choose().name
        model = self.choose(name, kinds)
        self.check_size(model, inputs, body.prompt_name)

        async def compute() -> tuple[list[Rows], Any]:
            requests = await model.read(
                inputs, body.prompt_name, body.truncation_direction, self.limits.tokens
            )
            rows = [row for row, _ in requests]
            for index, row in enumerate(rows):
                if row.overlong and False in (body.truncate, body.truncation):
                    raise HTTPException(
                        422,
                        f"the text at index {index} has more than {model.max_length} tokens, and "
                        "truncate is false.",
                    )
            return rows, await model.run(requests)

        try:
            rows, values = await unless_disconnected(request.receive, compute())
        except BusyError as error:
            raise HTTPException(429, str(error), {"Retry-After": "1"}) from None
        tokens = sum(row.tokens for row in rows)
        truncated = [index for index, row in enumerate(rows) if row.overlong]
        self.metrics.texts.labels(model.name).inc(len(inputs))
        self.metrics.tokens.labels(model.name).inc(tokens)
        request.scope["minibert"].update(model=model.name, texts=len(inputs), tokens=tokens)
        return ModelOutputs(model, values, tokens, truncated)

    def vectors(
        self, answer: ModelOutputs, sizes: Sequence[int], normalize: bool | None
    ) -> Vectors:
        """Return the vectors of an answer.

        Args:
            answer: The answer of an embedder.
            sizes: Number of leading dimensions to return. Of several, the smallest counts.
            normalize: L2-normalize the vectors. None: the default of the service.

        Raises:
            HTTPException: The model's vectors have fewer dimensions.
        """
        vectors: Vectors = answer.values
        if sizes:
            if max(sizes) > vectors.shape[1]:
                message = f"dimensions is at most {vectors.shape[1]} for this model."
                raise HTTPException(422, message)
            vectors = vectors[:, : min(sizes)]
        if normalize is None:
            normalize = self.normalize
        if normalize:
            return unit(vectors)
        return vectors


def create_app(
    models: Sequence[Served],
    limits: Limits | None = None,
    *,
    key: str | None = None,
    normalize: StrictBool = True,
    metrics_open: bool = False,
    cors: Sequence[str] = (),
    allowed_hosts: Sequence[str] | None = None,
) -> FastAPI:
    """Create the application.

    Args:
        models: The models, at least one, each with its own name. A request without a model name
            gets the first model of a suitable kind.
        limits: Limits of each request. None: the defaults.
        key: Key that clients send as `Authorization: Bearer KEY`. None: no key is required.
        normalize: L2-normalize the vectors of requests without `normalize`.
        metrics_open: Serve `GET /metrics` without the key.
        cors: Origins of web pages that may call the service, or "*" for all.
        allowed_hosts: Hosts that requests may name in their header `Host`. `*.example.org` stands
            for all names below, "addresses" for all IP addresses, and "*" for all hosts, as None.

    Returns:
        The application. Its `state.service` has the metrics and the `Ending`.

    Raises:
        ValueError: There are no models, two have the same name, or the key is blank.
    """
    if key is not None and not key.strip():
        raise ArgumentError(
            "key", "is blank, which every client has: pass a key, or None for no key."
        )
    if not models:
        raise ArgumentError(
            "models", "is empty: pass at least one, as minibert.serving.models.load_served."
        )
    names = [model.name for model in models]
    if len(set(names)) < len(names):
        raise ArgumentError("models", f"should have a name each, not {', '.join(names)}.")
    service = Service(dict(zip(names, models, strict=True)), limits or Limits(), normalize)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        # the requests have been answered: `close` waits for what is computed for nobody
        for model in models:
            await asyncio.to_thread(model.batched.close, 0.1 * service.limits.seconds)

    app = FastAPI(
        title="minibert",
        version=minibert.__version__,
        lifespan=lifespan,
        responses={status: problem_in_schema(status, reason) for status, reason in REASONS.items()},
        docs_url=None,  # the interactive page would load scripts from other servers
        redoc_url=None,
        redirect_slashes=False,  # a redirect names the host of this process, not the proxy's
    )
    app.add_middleware(
        Gate,
        limits=service.limits,
        key=key,
        metrics=service.metrics,
        ending=service.ending,
        allowed_hosts=allowed_hosts,
        without_key=("/metrics",) if metrics_open else (),
    )
    if cors:  # around the gate, because browsers ask for permission without the key
        app.add_middleware(
            CORSMiddleware,
            # browsers send an origin without the slash that their address bar shows
            allow_origins=[origin.rstrip("/") for origin in cors],
            allow_methods=["*"],
            allow_headers=["*"],
            expose_headers=["X-Request-ID", "X-Truncated", "X-Truncated-Count"],
            # a page of the internet asks before it calls a service of a private network
            allow_private_network=True,
        )

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        path = path_in_app(request.scope)
        return problem(path, 422, _validation_message(error.body, error.errors()[:8]))

    @app.exception_handler(HTTPException)
    async def refused(request: Request, error: HTTPException) -> Response:
        path = path_in_app(request.scope)
        # FastAPI's status for bytes that are not UTF-8, endless numbers, and the like
        if error.status_code == 400:
            if isinstance(error.__cause__, ClientDisconnect):  # in the middle of the body
                raise error.__cause__
            return problem(path, 422, "the body is not JSON.")
        headers = dict(error.headers or {})
        if error.status_code == 405:  # of all routes of the path, which Starlette does not look at
            headers["Allow"] = ", ".join(_methods_of(app, path))
        return problem(path, error.status_code, f"{error.detail}".rstrip(".") + ".", headers)

    app.state.service = service
    _add_openai(app, service)
    _add_scores(app, service)
    _add_tei(app, service)
    _add_tei_tools(app, service)

    _add_probes(app, service)
    schema = partial(schema_of, app, service.models, TYPES, key)
    app.openapi = schema  # type: ignore[method-assign]
    return app


def _methods_of(app: FastAPI, path: str) -> list[str]:
    """The methods of all routes of a path."""
    scope = {"type": "http", "path": path, "method": "", "headers": []}
    methods: set[str] = set()
    for route in app.routes:
        if isinstance(route, Route) and route.matches(scope)[0] != Match.NONE:
            methods |= route.methods or set()
    return sorted(methods)


def _add_probes(app: FastAPI, service: Service) -> None:
    """Add the routes of load balancers, and the metrics."""

    @app.get("/metrics", response_class=PlainTextResponse)
    async def metrics() -> Response:
        return Response(
            generate_latest(service.metrics.registry), media_type="text/plain; version=0.0.4"
        )

    async def live() -> dict[str, str]:
        return {"status": "live"}

    async def ready(response: Response) -> dict[str, Any]:
        status = "ready"
        if service.ending.has_begun:  # load balancers send new requests to other instances
            status = "ending"
            response.status_code = 503
        waiting = {model.name: model.batched.pending for model in service.models.values()}
        return {"status": status, "waiting": waiting}

    for path in PROBES:
        probe = live if path == "/health/live" else ready
        ending = {"description": "The service ends: send requests to another instance."}
        app.get(path, responses={} if probe is live else {503: ending})(probe)
        app.head(path, include_in_schema=False)(probe)  # the same id twice is a warning


def _validation_message(body: Any, errors: Sequence[Any]) -> str:
    """The fields of a request that are invalid and what they should be, without their content."""
    if any(error["loc"] == ("body",) or error["type"] == "json_invalid" for error in errors):
        return "send an object of JSON, with the header Content-Type: application/json."
    sentences = []
    for field, group in groupby(errors, lambda error: error["loc"][1]):
        places = [(_place(body, error), error["msg"]) for error in group]
        # of the types that a field may have, the one whose first invalid item is the last
        furthest = max(place for place, _ in places)
        reasons = dict.fromkeys(message for place, message in places if place == furthest)
        name = "".join(part if isinstance(part, str) else f"[{part}]" for part in furthest)
        if body.get(field, "") is None:
            reasons = {"null stands for the default, and there is none": None}
        sentences.append(f"{field}{name}: {' or '.join(reasons)}")
    return "; ".join(sentences) + "."


def _place(body: Any, error: Any) -> tuple[Any, ...]:
    """Where a value is in its field: indices and names. The other parts of `loc` are types."""
    _, field, *parts = error["loc"]
    value = body.get(field) if isinstance(body, dict) else None
    place: list[Any] = []
    for number, part in enumerate(parts, 1):
        is_missing = number == len(parts) and error["type"] == "missing"
        if isinstance(value, list) and isinstance(part, int):
            place.append(part)
            value = value[part]
        elif isinstance(value, dict) and (part in value or is_missing):
            place.append(f".{part}")
            value = value.get(part)
    return tuple(place)


def _add_openai(app: FastAPI, service: Service) -> None:
    """Add the routes of OpenAI's API, and what Cohere, Jina, Voyage and vLLM have beside them."""

    @app.get("/models")
    @app.get("/v1/models")
    async def models() -> dict[str, Any]:
        return {
            "object": "list",
            "data": [_about(service, model) for model in service.models.values()],
        }

    @app.get("/models/{name:path}")
    @app.get("/v1/models/{name:path}")
    async def model(name: str) -> dict[str, Any]:
        return _about(service, service.choose(name))

    @app.post("/embeddings")
    @app.post("/v1/embeddings")
    async def embeddings(body: EmbeddingsRequest, request: Request) -> Response:
        answer, vectors = await _embeddings(service, body, request)
        kind = body.embedding_type or body.output_dtype or "float"
        data = [
            {"object": "embedding", "index": index, "embedding": embedding}
            for index, embedding in enumerate(_encoded(vectors, kind, body.encoding_format))
        ]
        # the clients of Mistral need it
        about = {"id": request.scope["minibert"]["id"], "object": "list"}
        return _reply({**about, "data": data, **_usage(answer)}, answer)

    @app.post("/pooling")
    async def pooling(body: PoolingRequest, request: Request) -> Response:
        answer = await service.answer(request, body, EMBEDDERS, _inputs(body.input))
        sizes = [] if body.dimensions is None else [body.dimensions]
        vectors = service.vectors(answer, sizes, body.normalize)
        data = [
            {"object": "pooling", "index": index, "data": vector}
            for index, vector in enumerate(_encoded(vectors, "float", body.encoding_format))
        ]
        return _reply({"object": "list", "data": data, **_usage(answer)}, answer)

    @app.post("/v1/embed")
    @app.post("/v2/embed")
    async def embed(body: EmbedTextsRequest, request: Request) -> Response:
        if (body.texts is None) == (body.inputs is None):
            raise HTTPException(422, "texts or inputs: send one of the two.")
        same = EmbeddingsRequest(
            input=body.texts or [item["content"][0]["text"] for item in body.inputs or ()],
            model=body.model,
            input_type=body.input_type,
            dimensions=body.output_dimension,
            truncate=False if body.truncate == "NONE" else None,
            truncation_direction=COHERE_SIDES.get(body.truncate),
        )
        answer, vectors = await _embeddings(service, same, request)
        embeddings = {
            encoding: _encoded(vectors, encoding)
            for encoding in dict.fromkeys(body.embedding_types or ["float"])
        }
        # a client of the first version that names no type expects a list
        is_list = body.embedding_types is None and path_in_app(request.scope) == "/v1/embed"
        content = {
            "id": request.scope["minibert"]["id"],
            "response_type": "embeddings_floats" if is_list else "embeddings_by_type",
            "embeddings": embeddings["float"] if is_list else embeddings,
            "meta": {"billed_units": {"input_tokens": answer.tokens}},
            **_usage(answer),
        }
        return _reply(content, answer)


def _add_scores(app: FastAPI, service: Service) -> None:
    """Add the routes of Cohere, Jina, Mixedbread, Voyage and vLLM that score and label texts."""

    @app.post("/v2/rerank")
    @app.post("/v1/rerank")
    async def rerank(body: RankRequest, request: Request) -> Response:
        return await _rank(service, body, request)

    @app.post("/v1/reranking")
    async def reranking(body: RerankingRequest, request: Request) -> Response:
        query, *texts = (_text_of(text) for text in (body.query, *body.input))
        answer = await service.answer(request, body, RERANKERS, [(query, text) for text in texts])
        logits = answer.values[:, 0]
        scores = activate(logits, "Sigmoid")
        data: list[dict[str, Any]] = []
        for index in best_first(scores, logits, body.top_k):
            data.append({"object": "rank_result", "index": index, "score": float(scores[index])})
            if body.return_input:
                data[-1]["input"] = body.input[index]
        asked = {"top_k": body.top_k or len(texts), "return_input": body.return_input}
        return _reply({"object": "list", "data": data, **asked, **_usage(answer)}, answer)

    @app.post("/classify")
    @app.post("/v1/classify")
    async def classify(body: ClassifyRequest, request: Request) -> Response:
        answer = await service.answer(request, body, ("classifier",), _inputs(body.input))
        labels = answer.model.about["labels"]
        thresholds = answer.model.about.get("thresholds")
        data: list[dict[str, Any]] = []
        for index, scores in enumerate(answer.scores.tolist()):
            (best,) = best_first(scores, answer.values[index], 1)
            data.append({"index": index, "label": labels[best], "probs": scores})
            data[-1]["num_classes"] = len(labels)
            if thresholds is not None:
                data[-1]["labels"] = [
                    label
                    for label, score in zip(labels, scores, strict=True)
                    if score >= thresholds[label]
                ]
        content = {"object": "list", "data": data, "classes": labels, **_usage(answer)}
        return _reply(content, answer)

    @app.post("/score")
    @app.post("/v1/score")
    async def score(body: ScoreRequest, request: Request) -> Response:
        firsts = [body.text_1] if isinstance(body.text_1, str) else body.text_1
        seconds = [body.text_2] if isinstance(body.text_2, str) else body.text_2
        if len(firsts) == 1:
            firsts = firsts * len(seconds)
        if len(firsts) != len(seconds):
            raise HTTPException(
                422,
                f"text_1 has {len(firsts)} texts and text_2 {len(seconds)}: send one text_1, or as "
                "many as there are of text_2.",
            )
        if service.choose(body.model, SCORERS).kind == "reranker":
            pairs: list[Input] = list(zip(firsts, seconds, strict=True))
            answer = await service.answer(request, body, RERANKERS, pairs)
            scores = activate(answer.values[:, 0], "Sigmoid")
        else:
            answer = await service.answer(request, body, EMBEDDERS, [*firsts, *seconds])
            vectors = unit(answer.values)
            scores = (vectors[: len(firsts)] * vectors[len(firsts) :]).sum(axis=1)
        data = [
            {"index": index, "object": "score", "score": score}
            for index, score in enumerate(scores.tolist())
        ]
        return _reply({"object": "list", "data": data, **_usage(answer)}, answer)


async def _embeddings(
    service: Service, body: EmbeddingsRequest, request: Request
) -> tuple[ModelOutputs, Vectors]:
    """The answer to a request for vectors, and the vectors as they are asked for."""
    prompts = service.choose(body.model, EMBEDDERS).about.get("prompts", [])
    for kind in (body.input_type, body.task):
        prompt_name = _prompt_of_type(kind, prompts)
        if body.prompt_name is None:
            body.prompt_name = prompt_name
    answer = await service.answer(request, body, EMBEDDERS, _inputs(body.input))
    normalize = body.normalized if body.normalize is None else body.normalize
    sizes = [size for size in (body.dimensions, body.output_dimension) if size is not None]
    return answer, service.vectors(answer, sizes, normalize)


async def _rank(service: Service, body: RankRequest, request: Request) -> Response:
    """The response of text-embeddings-inference to texts, and to documents that of other APIs."""
    if body.texts is not None and body.documents is not None:
        raise HTTPException(422, "documents and texts: send one of the two.")
    given = body.texts or body.documents
    if given is None:
        raise HTTPException(422, "documents or texts: Field required.")
    query, *texts = (_text_of(text) for text in (body.query, *given))
    answer = await service.answer(request, body, RERANKERS, [(query, text) for text in texts])
    logits = answer.values[:, 0]
    scores = logits if body.raw_scores else activate(logits, "Sigmoid")
    is_tei = body.texts is not None
    is_voyage = not body.model_fields_set.isdisjoint(("top_k", "truncation"))
    results: list[dict[str, Any]] = []
    for index in best_first(scores, logits, body.top_n or body.top_k):
        name = "score" if is_tei else "relevance_score"
        results.append({"index": index, name: float(scores[index])})
        if not (body.return_documents or body.return_text):
            continue
        if is_tei:
            results[-1]["text"] = texts[index]
        elif is_voyage:
            results[-1]["document"] = texts[index]
        else:
            results[-1]["document"] = {"text": texts[index]}
    if is_tei:
        return _reply(results, answer)
    name = "data" if is_voyage else "results"
    return _reply({"object": "list", name: results, **_usage(answer)}, answer)


def _about(service: Service, model: Served) -> dict[str, Any]:
    """A model as an entry of `GET /v1/models`."""
    return {
        "id": model.name,
        "object": "model",
        "created": service.started,
        "owned_by": "minibert",
        "kind": model.kind,
        "max_length": model.max_length,
        **model.about,
    }


def _add_tei(app: FastAPI, service: Service) -> None:
    """Add the routes of text-embeddings-inference. Its clients post to / for the first model."""

    @app.post("/embed")
    async def embed(body: EmbedRequest, request: Request) -> Response:
        answer = await service.answer(request, body, EMBEDDERS, _inputs(body.inputs))
        sizes = [] if body.dimensions is None else [body.dimensions]
        vectors = service.vectors(answer, sizes, body.normalize)
        return _reply(vectors.tolist(), answer)

    @app.post("/rerank")
    async def rerank(body: RankRequest, request: Request) -> Response:
        return await _rank(service, body, request)

    @app.post("/predict")
    async def predict(body: PredictRequest, request: Request) -> Response:
        # a list of strings is a single pair, or a text. Several texts are a list of such lists
        given: list[Any] = [body.inputs] if isinstance(body.inputs, str) else body.inputs
        is_single = isinstance(given[0], str)
        inputs: list[Input] = []
        for texts in [given] if is_single else given:
            inputs.append(texts[0] if len(texts) == 1 else (texts[0], texts[1]))
        answer = await service.answer(request, body, CLASSIFIERS, inputs)
        predictions = answer.values
        if answer.model.kind != "tagger":
            labels = answer.model.about["labels"]
            scores = answer.values if body.raw_scores else answer.scores
            predictions = [
                ranked_labels(labels, *row) for row in zip(scores, answer.values, strict=True)
            ]
        # at / the API is that of pipelines: a list for each text, also for a single text
        if is_single and not _is_for_first_model(request):
            return _reply(predictions[0], answer)
        return _reply(predictions, answer)

    @app.post("/question-answering")
    async def question_answering(body: QuestionRequest, request: Request) -> Response:
        given = body.inputs if isinstance(body.inputs, list) else [body.inputs]
        inputs: list[Input] = [(one["question"], one["context"]) for one in given]
        options = _Request(model=body.model)
        answer = await service.answer(request, options, ANSWERERS, inputs)
        return _reply(answer.values if given is body.inputs else answer.values[0], answer)

    routes: dict[str, Any] = {
        "embedding": embed,
        "reranker": rerank,
        "classifier": predict,
        "tagger": predict,
        "answerer": question_answering,
    }
    for path in FOR_THE_FIRST_MODEL:
        app.post(path)(routes[service.choose().kind])


def _add_tei_tools(app: FastAPI, service: Service) -> None:
    """Add the other routes of text-embeddings-inference: similarities, tokens, and /info."""

    @app.post("/similarity")
    async def similarity(body: SimilarityRequest, request: Request) -> Response:
        options = _Request(**dict(body.parameters), model=body.model)
        inputs: list[Input] = [body.inputs.source_sentence, *body.inputs.sentences]
        answer = await service.answer(request, options, EMBEDDERS, inputs)
        vectors = unit(answer.values)
        return _reply((vectors[1:] @ vectors[0]).tolist(), answer)

    @app.post("/tokenize")
    async def tokenize(body: TokenizeRequest, request: Request) -> Response:
        if (body.inputs is None) == (body.prompt is None):
            raise HTTPException(422, "inputs or prompt: send one of the two.")
        given = body.inputs or body.prompt or ""
        texts = [given] if isinstance(given, str) else given
        model = service.choose(body.model)
        service.check_size(model, texts, body.prompt_name)
        reading = model.tokens(
            texts, body.add_special_tokens, body.prompt_name, service.limits.tokens
        )
        tokens: Any = await unless_disconnected(request.receive, reading)
        if body.prompt is not None:
            ids = [token["id"] for token in tokens[0]]
            names = model.token_names(ids) if body.return_token_strs else None
            about = {"count": len(ids), "max_model_len": model.max_length}
            tokens = {**about, "tokens": ids, "token_strs": names}
        return Response(to_json(tokens), media_type="application/json")

    @app.get("/info")
    async def info() -> dict[str, Any]:
        return describe(service.choose())

    @app.get("/info/{name:path}")
    async def info_of_model(name: str) -> dict[str, Any]:
        return describe(service.choose(name))

    def describe(model: Served) -> dict[str, Any]:
        about: dict[str, Any] = {}
        if "labels" in model.about:
            about["id2label"] = dict(enumerate(model.about["labels"]))
        for name in ("pooling", "thresholds", *OF_ANSWERS):
            if name in model.about:
                about[name] = model.about[name]
        return {
            "model_id": model.name,
            "model_sha": model.about.get("fingerprint"),
            "model_dtype": model.about["precision"],
            "model_type": {model.kind: about},
            "max_input_length": model.max_length,
            "max_client_batch_size": service.most_texts(model),
            "auto_truncate": True,
            "version": minibert.__version__,
        }


def _is_for_first_model(request: Request) -> bool:
    return request.scope["route"].path in FOR_THE_FIRST_MODEL


def _prompt_of_type(kind: str | None, prompts: Sequence[str]) -> str | None:
    """The name of the prompt for what a text is, in the words of other APIs. None: the default.

    Raises:
        HTTPException: No API has this word, and the model has no prompt of this name.
    """
    if kind is None or kind in prompts:
        return kind
    if kind not in TYPES:
        known = ", ".join(dict.fromkeys((*prompts, *TYPES)))
        raise HTTPException(422, f"input_type or task: should be one of {known}.")
    candidates: tuple[str, ...] = ()
    if kind in QUERY_TYPES:
        candidates = PROMPT_NAMES["query"]
    elif kind in DOCUMENT_TYPES:
        candidates = PROMPT_NAMES["document"]
    return next((name for name in candidates if name in prompts), None)


def _text_of(text: Any) -> Any:
    return text["text"] if isinstance(text, dict) else text


def _inputs(texts: Any) -> list[Input]:
    """The texts of a request as a list, also where it is a single one, or the ids of one."""
    if isinstance(texts, str | dict) or isinstance(texts[0], int):
        return [_text_of(texts)]
    return [_text_of(text) for text in texts]


def _encoded(
    vectors: Vectors, kind: str, encoding: Literal["float", "base64"] | None = None
) -> list[Any]:
    """Vectors as lists of numbers, or as text in base64.

    Args:
        vectors: The vectors, (N, D).
        kind: "float", "binary" or "ubinary". "base64" stands for float numbers in base64.
        encoding: Whether the numbers, of whatever kind, are in base64.
    """
    numbers: Any = quantize(vectors, PRECISION_OF_ENCODING.get(kind, "float32"))
    if "base64" not in (kind, encoding):
        rows: list[Any] = numbers.tolist()
        return rows
    little_endian = numbers.astype(numbers.dtype.newbyteorder("<"))
    return [base64.b64encode(row.tobytes()).decode() for row in little_endian]


def _usage(answer: ModelOutputs) -> dict[str, Any]:
    usage = {"prompt_tokens": answer.tokens, "total_tokens": answer.tokens}
    return {"model": answer.model.name, "usage": usage, "truncated": answer.truncated}


def _reply(content: Any, answer: ModelOutputs) -> Response:
    headers = {}
    if answer.truncated:
        headers["X-Truncated"] = ",".join(map(str, answer.truncated[:MAX_INDICES]))
        headers["X-Truncated-Count"] = str(len(answer.truncated))
    return Response(to_json(content), headers=headers, media_type="application/json")
